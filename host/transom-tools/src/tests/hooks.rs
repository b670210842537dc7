//! Hooks as real programs: what they are told, what their answers come to, and what becomes of those that fail
//! (L-31, L-55, L-83).

mod bounds;

use std::{io::BufRead as _, time::Duration};

use serde_json::json;
use tokio::sync::{oneshot, watch};
use transom_harness::{
    hooks::{CallVerdict, HookAbout, HookAnswer, HookAsk, HookedCall, StepVerdict, Verdict},
    message::{Message, Role, Source},
    permissions::{Mode, rules::Pattern},
    ports::Hooks as _,
};
use transom_process::Spawner;

use super::*;
use crate::{HookEvent, HookProgram, ProgramHooks};

const PATIENCE: Duration = Duration::from_secs(30);

/// A hook that is a script of `bash`.
fn script(name: &str, event: HookEvent, text: &str) -> HookProgram {
    HookProgram {
        name: name.to_owned(),
        event,
        tool: None,
        program: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), text.to_owned()],
        directory: PathBuf::new(),
        timeout: PATIENCE,
    }
}

/// One that answers this, whatever it is asked.
fn says(name: &str, event: HookEvent, answer: &Value) -> HookProgram {
    script(name, event, &format!("cat >/dev/null; printf %s '{answer}'"))
}

/// Hooks whose directory is the bench's, where they name none.
fn hooks(bench: &Bench, hooks: Vec<HookProgram>) -> ProgramHooks {
    held(bench, Mode::DangerFullAccess, hooks)
}

fn held(bench: &Bench, mode: Mode, hooks: Vec<HookProgram>) -> ProgramHooks {
    let (_, ready) = watch::channel(true);
    held_once(bench, mode, ready, hooks)
}

/// Hooks that wait until it is known what confines.
fn held_once(
    bench: &Bench,
    mode: Mode,
    ready: watch::Receiver<bool>,
    mut hooks: Vec<HookProgram>,
) -> ProgramHooks {
    for hook in &mut hooks {
        hook.directory = bench.path("").join(&hook.directory);
    }
    let environment = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
    let spawner = Spawner::new(Handle::current()).unwrap();
    ProgramHooks::new(bench.registry.clone(), spawner, environment, (mode, ready), hooks)
}

fn asked(bench: &Bench, about: HookAbout) -> HookAsk {
    HookAsk {
        session: "main".into(),
        cwd: Some(bench.shown("")),
        root: None,
        mode: Mode::WorkspaceWrite,
        turn: 1,
        step: 2,
        about,
    }
}

fn call() -> HookedCall {
    HookedCall {
        id: "c1".to_owned(),
        name: "bash".to_owned(),
        arguments: r#"{"command":"ls"}"#.to_owned(),
    }
}

fn before_call() -> HookAbout {
    HookAbout::PreExecute { call: call(), asks: false }
}

fn after_call(outcome: ToolOutcome) -> HookAbout {
    HookAbout::PostExecute { call: call(), outcome: Box::new(outcome) }
}

fn before_step() -> HookAbout {
    let message = Message {
        id: "m1".into(),
        role: Role::User,
        content: vec![Block::text("hello")],
        source: Source::user(),
    };
    HookAbout::PreStep { messages: vec![Arc::new(message)] }
}

async fn answer(bench: &Bench, programs: Vec<HookProgram>, about: HookAbout) -> HookAnswer {
    answer_of(&hooks(bench, programs), asked(bench, about)).await
}

async fn answer_of(hooks: &ProgramHooks, ask: HookAsk) -> HookAnswer {
    let (sender, answer) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let sink = move |answer| sender.lock().unwrap().take().unwrap().send(answer).unwrap();
    let _stop = hooks.ask(ask, Box::new(sink));
    tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap()
}

fn decisions(answer: &HookAnswer) -> Vec<(&str, &str)> {
    answer.reports.iter().map(|report| (report.hook.as_str(), report.decision.as_str())).collect()
}

#[tokio::test]
async fn a_program_is_told_what_it_is_asked() {
    let bench = Bench::new();
    let keep = script("keep", HookEvent::PreStep, r#"cat >told; echo '{"decision":"proceed"}'"#);
    answer(&bench, vec![keep], before_step()).await;
    let told: Value = serde_json::from_str(&bench.content("told")).unwrap();
    let expected = json!({
        "event": "pre-step",
        "hook": "keep",
        "session": "main",
        "cwd": bench.shown(""),
        "mode": "workspace-write",
        "turn": 1,
        "step": 2,
        "messages": [{
            "role": "user",
            "content": [{ "type": "text", "text": "hello" }],
            "source": { "kind": "user" },
            "id": "m1"
        }]
    });
    assert_eq!(told, expected);

    let keep = script("keep", HookEvent::PostExecute, r#"cat >told; echo '{"decision":"accept"}'"#);
    let outcome = bench.call("glob", json!({ "pattern": "told" })).await;
    answer(&bench, vec![keep], after_call(outcome)).await;
    let told: Value = serde_json::from_str(&bench.content("told")).unwrap();
    assert_eq!(
        told["call"],
        json!({ "id": "c1", "name": "bash", "arguments": { "command": "ls" } })
    );
    assert_eq!(told["result"]["value"]["found"], 1, "the value is seen, though nothing keeps it");
    assert_eq!(told["result"]["isError"], false);
}

#[tokio::test]
async fn hooks_of_a_step_are_asked_in_turn_until_one_rejects() {
    let bench = Bench::new();
    let proceed = json!({ "decision": "proceed", "contexts": ["mind the gap"] });
    let reject = json!({ "decision": "reject", "reason": "closed today" });
    let programs = vec![
        says("first", HookEvent::PreStep, &proceed),
        says("other", HookEvent::PreExecute, &json!({ "decision": "allow" })),
        says("second", HookEvent::PreStep, &reject),
        script("third", HookEvent::PreStep, "touch asked"),
    ];
    let rejected = answer(&bench, programs.clone(), before_step()).await;
    assert_eq!(rejected.verdict, Verdict::Step(StepVerdict::Reject));
    assert_eq!(decisions(&rejected), [("first", "proceed"), ("second", "reject")]);
    assert_eq!(rejected.reports[1].reason.as_deref(), Some("closed today"));
    assert!(!bench.path("asked").exists());

    let Verdict::Step(StepVerdict::Proceed { contexts }) =
        answer(&bench, programs[..1].to_vec(), before_step()).await.verdict
    else {
        panic!("it proceeds")
    };
    assert_eq!(
        (contexts[0].from.as_str(), contexts[0].text.as_str()),
        ("hook:first", "mind the gap")
    );
}

#[tokio::test]
async fn a_denial_wins_over_an_ask_and_an_ask_over_an_allow() {
    let bench = Bench::new();
    let event = HookEvent::PreExecute;
    let allow = says("a", event, &json!({ "decision": "allow" }));
    let ask = says("b", event, &json!({ "decision": "ask", "reason": "a Friday" }));
    let also = says("c", event, &json!({ "decision": "ask", "reason": "and late" }));
    let deny = says("d", event, &json!({ "decision": "deny", "reason": "no" }));
    let table = [
        (vec![allow.clone()], CallVerdict::Allow),
        (
            vec![allow.clone(), ask.clone(), also],
            CallVerdict::Ask { reason: Some("a Friday; and late".to_owned()) },
        ),
        (vec![ask, deny, allow], CallVerdict::Deny { reason: "no".to_owned() }),
    ];
    for (programs, expected) in table {
        let answer = answer(&bench, programs, before_call()).await;
        assert_eq!(answer.verdict, Verdict::Call(expected));
    }
}

#[tokio::test]
async fn a_hook_for_some_tools_is_not_asked_about_others() {
    let bench = Bench::new();
    let deny = says("d", HookEvent::PreExecute, &json!({ "decision": "deny", "reason": "no" }));
    for (pattern, denied) in [("ba*", true), ("bash", true), ("*", true), ("write", false)] {
        let hook = HookProgram { tool: Some(Pattern::new(pattern)), ..deny.clone() };
        let answer = answer(&bench, vec![hook], before_call()).await;
        assert_eq!(answer.verdict != Verdict::Call(CallVerdict::Allow), denied, "{pattern}");
    }
}

#[tokio::test]
async fn each_hook_sees_what_the_one_before_it_has_left_of_a_result() {
    let bench = Bench::new();
    let event = HookEvent::PostExecute;
    let replace =
        json!({ "decision": "replace-content", "content": "hidden", "contexts": ["a note"] });
    let replace = says("replace", event, &replace);
    let look = script(
        "look",
        event,
        r#"grep -q '"text":"hidden"' && echo '{"decision":"accept"}' || echo '{"decision":"block","feedback":"seen"}'"#,
    );
    let Verdict::Outcome(outcome) = answer(
        &bench,
        vec![replace.clone(), look.clone()],
        after_call(ToolOutcome::text("secret")),
    )
    .await
    .verdict
    else {
        panic!("an outcome")
    };
    assert_eq!((text(&outcome), outcome.is_error), ("hidden".to_owned(), false));
    assert_eq!(outcome.contexts[0].text, "a note");

    // A block is an error, and the last word.
    let about = after_call(ToolOutcome::text("secret"));
    let blocked = answer(&bench, vec![look, replace], about).await;
    assert_eq!(decisions(&blocked), [("look", "block")]);
    let Verdict::Outcome(outcome) = blocked.verdict else { panic!("an outcome") };
    assert_eq!((text(&outcome), outcome.is_error, outcome.error), ("seen".to_owned(), true, None));
}

#[tokio::test]
async fn a_replaced_value_is_rendered_or_refused_like_the_tools_own() {
    let bench = Bench::new();
    let ran = || ToolOutcome::text("listing");
    let value = |value: Value| {
        says("v", HookEvent::PostExecute, &json!({ "decision": "replace-value", "value": value }))
    };
    let outcome = async |hook, outcome| {
        let Verdict::Outcome(outcome) =
            answer(&bench, vec![hook], after_call(outcome)).await.verdict
        else {
            panic!("an outcome")
        };
        *outcome
    };
    let quiet = json!({ "stdout": { "text": "quiet" }, "stderr": { "text": "" }, "exitCode": 2 });
    assert_eq!(text(&outcome(value(quiet), ran()).await), "quiet\n[exit code: 2]");
    let wrong = outcome(value(json!({ "stdout": "quiet" })), ran()).await;
    let expected = "tool \"bash\" returned invalid output: \"value\" must match exactly one oneOf branch (matched 0)";
    assert_eq!(failure(&wrong), coded(expected, "ToolOutputError/INVALID_TOOL_OUTPUT"));
    let failed = outcome(value(json!({})), ToolOutcome::error("no", None)).await;
    assert_eq!(failure(&failed), plain("hook \"v\" replaced the value of a failed call"));
}

#[tokio::test]
async fn a_bug_behind_a_hook_lets_nothing_through_and_is_an_answer() {
    // L-55: the turn waits for it.
    let bench = Bench::new();
    let output =
        crate::Output::new(json!({ "type": "object" }), |_| panic!("a bug in a rendering"));
    let tool = Made { output, ..Made::new("spoils", |_| async { Ok(ToolOutcome::text("")) }) };
    bench.registry.register(tool.into_tool()).unwrap();
    let replace = json!({ "decision": "replace-value", "value": {} });
    let call = HookedCall { name: "spoils".to_owned(), ..call() };
    let outcome = Box::new(ToolOutcome::text("secret"));
    let about = HookAbout::PostExecute { call, outcome };
    let said = answer(&bench, vec![says("v", HookEvent::PostExecute, &replace)], about).await;
    assert_eq!(said, HookAnswer::none(), "to a result, a refusal");
}

#[tokio::test]
async fn a_hook_that_fails_lets_nothing_through() {
    let bench = Bench::new();
    let event = HookEvent::PreExecute;
    // It never answers, however long it may take.
    let quick =
        HookProgram { timeout: Duration::from_millis(100), ..script("h", event, "sleep 600") };
    let table = [
        (script("h", event, "echo out of order >&2; exit 3"), "it ended with exit code 3"),
        (script("h", event, "kill -KILL $$"), "it was ended by SIGKILL"),
        (quick, "it gave no answer within 100ms"),
        (
            script("h", event, "true"),
            "its answer is not one JSON document: EOF while parsing a value at line 1 column 0",
        ),
        (
            script("h", event, "echo '{} {}'"),
            "its answer is not one JSON document: trailing characters at line 1 column 4",
        ),
        (script("h", event, "echo '[]'"), "its answer is not a JSON object"),
        (
            script("h", event, "echo '{}'"),
            "its answer has no `decision`; it is one of allow, deny, ask",
        ),
        (says("h", event, &json!({ "decision": 1 })), "`decision` of its answer is not a string"),
        (
            says("h", event, &json!({ "decision": "accept" })),
            "its decision is `accept`; it is one of allow, deny, ask",
        ),
        (says("h", event, &json!({ "decision": "deny" })), "its answer has no `reason`"),
        (
            says("h", event, &json!({ "decision": "deny", "reason": " " })),
            "`reason` of its answer is not a text that says something",
        ),
        (
            says("h", event, &json!({ "decision": "allow", "reason": "x" })),
            "`reason` does not belong to `allow`",
        ),
        (script("h", event, "head -c 300000 /dev/zero"), "its answer has more than 262144 bytes"),
        (
            HookProgram { program: "no-such-program".to_owned(), ..script("h", event, "") },
            "executable \"no-such-program\" was not found",
        ),
    ];
    for (hook, why) in table {
        let answer = answer(&bench, vec![hook], before_call()).await;
        let reason = format!("hook \"h\" failed: {why}");
        assert_eq!(answer.verdict, Verdict::Call(CallVerdict::Deny { reason }));
        assert_eq!(decisions(&answer), [("h", "failed")]);
        assert_eq!(answer.reports[0].reason.as_deref(), Some(why));
    }

    let fails = |event| script("h", event, "echo out of order >&2; exit 3");
    let step = answer(&bench, vec![fails(HookEvent::PreStep)], before_step()).await;
    assert_eq!(step.verdict, Verdict::Step(StepVerdict::Reject));
    assert_eq!(step.reports[0].exit_code, Some(3));
    assert_eq!(step.reports[0].stderr_summary.as_deref(), Some("out of order"));
    let about = after_call(ToolOutcome::text("secret"));
    let Verdict::Outcome(outcome) =
        answer(&bench, vec![fails(HookEvent::PostExecute)], about).await.verdict
    else {
        panic!("an outcome")
    };
    assert_eq!(failure(&outcome), plain("hook \"h\" failed: it ended with exit code 3"));
    // It keeps no turn from its end.
    let about = HookAbout::TurnStopping { limit_hit: false, prolonged: 0 };
    let stop = answer(&bench, vec![fails(HookEvent::TurnStopping)], about).await;
    assert_eq!(stop.verdict, Verdict::Stop(Vec::new()));
}

#[tokio::test]
async fn what_hooks_say_at_the_end_of_a_turn_is_heard_together() {
    let bench = Bench::new();
    let event = HookEvent::TurnStopping;
    let programs = vec![
        says("a", event, &json!({ "decision": "continue", "messages": ["run the tests"] })),
        says("b", event, &json!({ "decision": "stop" })),
        says("c", event, &json!({ "decision": "continue", "messages": ["and the linter"] })),
        says("d", event, &json!({ "decision": "continue", "messages": [] })),
    ];
    let about = HookAbout::TurnStopping { limit_hit: false, prolonged: 0 };
    let said = answer(&bench, programs, about).await;
    assert_eq!(
        decisions(&said),
        [("a", "continue"), ("b", "stop"), ("c", "continue"), ("d", "failed")]
    );
    let Verdict::Stop(messages) = said.verdict else { panic!("messages") };
    let texts: Vec<_> = messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["run the tests", "and the linter"]);
}

/// What processes write to a FIFO, and the end of the last that could.
struct Heard {
    lines: mpsc::Receiver<String>,
}

/// Makes a FIFO and listens to it.
fn listen(bench: &Bench, name: &str) -> Heard {
    let path = bench.fifo(name);
    let (sender, lines) = mpsc::channel(16);
    // No task: nothing waits for it when a test fails.
    std::thread::spawn(move || {
        let fifo = fs::File::open(path).unwrap();
        for line in std::io::BufReader::new(fifo).lines() {
            sender.blocking_send(line.unwrap()).unwrap();
        }
    });
    Heard { lines }
}

impl Heard {
    /// The next line; `None` once nobody is left who could write one.
    async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.lines.recv()).await.unwrap()
    }
}

/// Does not end by itself, nor does what it starts; both hold the FIFO `alive`.
const HANGS: &str = "exec 3>alive; trap '' TERM; sleep 600 & echo begun >&3; wait; sleep 600";

#[tokio::test]
async fn a_hook_that_nobody_waits_for_ends_with_all_it_has_started() {
    let bench = Bench::new();
    let mut alive = listen(&bench, "alive");
    let hooks = hooks(&bench, vec![script("h", HookEvent::PreExecute, HANGS)]);
    let (sender, answer) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let sink = move |answer| drop(sender.lock().unwrap().take().unwrap().send(answer));
    let stop = hooks.ask(asked(&bench, before_call()), Box::new(sink));
    assert_eq!(alive.next().await.as_deref(), Some("begun"));
    stop.stop();
    assert_eq!(alive.next().await, None);
    let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap();
    assert!(answer.is_err(), "who could have answered is gone, and has not");
}

#[tokio::test]
async fn those_who_watch_end_with_their_session() {
    let bench = Bench::new();
    let watch = "exec 3>$(grep -o 'main\\|another'); echo begun >&3; read -r word <go; echo $word >&3; sleep 600";
    let watch = HookProgram { tool: None, ..script("w", HookEvent::Result, watch) };
    let hooks = hooks(&bench, vec![watch]);
    let (mut main, mut another) = (listen(&bench, "main"), listen(&bench, "another"));
    let go = bench.fifo("go");
    for session in ["main", "another"] {
        let outcome = Box::new(ToolOutcome::text("ok"));
        let seen = asked(&bench, HookAbout::Result { call: call(), outcome });
        let elsewhere = Some("/".to_owned());
        hooks.observe(HookAsk { session: session.into(), cwd: elsewhere, ..seen });
    }
    assert_eq!(main.next().await.as_deref(), Some("begun"));
    assert_eq!(another.next().await.as_deref(), Some("begun"));
    hooks.end(&"another".into());
    assert_eq!(another.next().await, None);
    // The other one still hears and answers.
    std::thread::spawn(move || fs::write(go, "well\n"));
    assert_eq!(main.next().await.as_deref(), Some("well"));
    hooks.end(&"main".into());
    assert_eq!(main.next().await, None);
}

#[tokio::test]
async fn a_daemon_that_a_hook_leaves_behind_does_not_outlive_it() {
    let bench = Bench::new();
    let (mut alive, _go) = (listen(&bench, "alive"), bench.fifo("go"));
    let text = "setsid -f bash -c 'exec 3>alive; echo begun >&3; echo >go; exec sleep 600'; read -r _ <go; \
                echo '{\"decision\":\"allow\"}'";
    let answer =
        answer(&bench, vec![script("h", HookEvent::PreExecute, text)], before_call()).await;
    assert_eq!(answer.verdict, Verdict::Call(CallVerdict::Allow));
    assert_eq!(alive.next().await.as_deref(), Some("begun"));
    assert_eq!(alive.next().await, None);
}

#[tokio::test]
async fn a_hook_runs_where_the_operator_has_put_it_and_not_where_the_session_works() {
    let bench = Bench::new();
    let own = bench.home.path().join("own");
    fs::create_dir(&own).unwrap();
    let allow = "#!/bin/bash\necho '{\"decision\":\"allow\"}'";
    fs::write(own.join("check"), allow).unwrap();
    bench.put("check", allow.replace("allow", "ask"));
    let mut hook = script("h", HookEvent::PreExecute, "");
    hook.arguments = vec!["check".to_owned()];
    hook.directory = own;
    let answer = answer(&bench, vec![hook], before_call()).await;
    assert_eq!(answer.verdict, Verdict::Call(CallVerdict::Allow));
}

/// P-38: the mode of new sessions holds them back, as far as anything can (`docs/decisions/0012`).
#[tokio::test]
async fn where_nothing_confines_a_hook_runs_unless_the_operator_demands_it() {
    for (required, expected) in [
        (false, CallVerdict::Allow),
        (
            true,
            CallVerdict::Deny {
                reason: "hook \"h\" failed: it cannot be confined: no confiner was set up"
                    .to_owned(),
            },
        ),
    ] {
        let bench = Bench::with(|options| options.confinement.required = required);
        let allow = says("h", HookEvent::PreExecute, &json!({ "decision": "allow" }));
        let hooks = held(&bench, Mode::WorkspaceWrite, vec![allow]);
        let answer = answer_of(&hooks, asked(&bench, before_call())).await;
        assert_eq!(answer.verdict, Verdict::Call(expected));
    }
}
