//! Hooks of the operator's, as they are run by the real program (`docs/hooks.md`): what they may narrow, what becomes of
//! those that fail, and that nothing of them outlives its turn. And what becomes of an answer that is cut (L-48).

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use super::{
    bench::{Answer, Site, Turn, bash, on, word},
    presets::POLICY,
};
use crate::support::wire::PATIENCE;

/// A hook that is this script of `bash`, with further keys of its table.
fn hook(site: Site, name: &str, event: &str, more: &str, script: &str) -> Site {
    let path = site.root().join(name);
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
    site.tables(&format!(
        "[[hook]]\nname = \"{name}\"\nevent = \"{event}\"\ncommand = [\"./{name}\"]\n{more}\n"
    ))
}

fn says(site: Site, name: &str, event: &str, answer: &Value) -> Site {
    hook(site, name, event, "", &format!("cat >/dev/null; echo '{answer}'"))
}

/// Point and decision of every hook that was asked, in order.
fn asked(turn: &Turn) -> Vec<(String, String)> {
    let events = turn.events("hook/result");
    let pair = |event: &Value| (word(&event["data"]["point"]), word(&event["data"]["decision"]));
    events.into_iter().map(pair).collect()
}

fn pair(point: &str, decision: &str) -> (String, String) {
    (point.to_owned(), decision.to_owned())
}

fn end(turn: &Turn) -> String {
    word(&turn.events("turn/end")[0]["data"]["reason"]["kind"])
}

/// L-31, L-44: no step, and what waits is not lost.
#[test]
fn a_rejected_step_blocks_the_turn_and_keeps_the_queue() {
    let script = "grep -q forbidden && echo '{\"decision\":\"reject\",\"reason\":\"not today\"}' || \
                  echo '{\"decision\":\"proceed\",\"contexts\":[\"mind the gap\"]}'";
    let site = hook(Site::new(), "gate", "pre-step", "", script);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "forbidden");
    assert_eq!(asked(&turn), [pair("pre-step", "reject")]);
    assert_eq!(turn.events("hook/result")[0]["data"]["reason"], "not today");
    assert_eq!((end(&turn).as_str(), turn.events("step/start").len()), ("blocked", 0));

    let turn = host.turn("main", "echo ran");
    assert_eq!(turn.result().went_well(), "ran\n");
    let entered: Vec<_> = turn.events("user/message");
    let context = entered.iter().find(|event| event["data"]["source"]["plugin"] == "hook:gate");
    assert_eq!(context.expect("a context")["data"]["content"][0]["text"], "mind the gap");
    host.stop();
}

/// L-55: rules first; a hook narrows what they let through and widens nothing.
#[test]
fn a_hook_narrows_what_the_rules_allow_and_never_widens_it() {
    let rules = "[[permissions.rule]]\ntool = \"bash\"\nwhen = { command = \"*denied*\" }\ndecision = \"deny\"\n\
                 [[permissions.rule]]\ntool = \"bash\"\nwhen = { command = \"*asked*\" }\ndecision = \"ask\"\n";
    let allow =
        says(Site::new().tables(rules), "yes", "pre-execute", &json!({"decision": "allow"}));
    let mut host = allow.start();
    host.open("main");
    let turn = host.turn("main", "echo denied");
    turn.result().failed("tool \"bash\" is denied by this host's permission rules");
    assert_eq!(asked(&turn), [], "what is denied is not asked about");
    let turn = host.turn_answering("main", "echo asked", Answer::Reject);
    turn.result().failed("the user rejected tool \"bash\"");
    assert_eq!(asked(&turn), [pair("pre-execute", "allow")]);
    host.stop();

    let ask = json!({"decision": "ask", "reason": "a Friday"});
    let site = says(Site::new().tables(rules), "look", "pre-execute", &ask);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn_answering("main", "echo plain", Answer::Allow);
    assert_eq!(turn.decisions(), [pair("a Friday", "allowed-once")]);
    assert_eq!(turn.result().went_well(), "plain\n");
    let turn = host.turn_answering("main", "echo asked", Answer::Allow);
    assert_eq!(turn.decisions(), [pair("permission rule; a Friday", "allowed-once")], "one ask");
    host.stop();

    let deny = json!({"decision": "deny", "reason": "a person pushes"});
    let site = hook(Site::new(), "no", "pre-execute", "tool = \"ba*\"", &format!("echo '{deny}'"));
    let mut host = site.start();
    host.open("main");
    host.turn("main", "echo x > made").result().failed("a person pushes");
    assert!(!site.cwd.join("made").exists());
    host.stop();
}

/// L-55, L-58, L-59: hooks see the value, which no log has, and what they replace is all that anybody is shown.
#[test]
fn a_reviewed_result_is_what_its_hook_has_left_of_it() {
    let keep = "cat >>cwd/reviewed; ";
    let answer =
        json!({"decision": "replace-content", "content": "[hidden]", "contexts": ["ask for it"]});
    let site = hook(Site::new(), "hide", "post-execute", "", &format!("{keep}echo '{answer}'"));
    let site = hook(site, "watch", "result", "", "exec 3>cwd/over; cat >>cwd/watched");
    let mut over = listen(&site, "over");
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "echo secret; exit 3");
    assert_eq!(turn.result().went_well(), "[hidden]");
    let told = turn.events("user/message");
    let context = told.iter().find(|event| event["data"]["source"]["plugin"] == "hook:hide");
    assert_eq!(context.expect("a context")["data"]["content"][0]["text"], "ask for it");
    let read = |name: &str| fs::read_to_string(site.cwd.join(name)).expect(name);
    let reviewed: Value = serde_json::from_str(&read("reviewed")).expect("one document");
    let value = &reviewed["result"]["value"];
    assert_eq!((&value["stdout"]["text"], &value["exitCode"]), (&json!("secret\n"), &json!(3)));
    if let Some(sandbox) = value.get("sandbox") {
        assert_eq!(
            (&sandbox["mode"], &sandbox["denied"]),
            (&json!("workspace-write"), &json!(false))
        );
    }
    assert_eq!(over.next(), None, "it has ended");
    let watched: Value = serde_json::from_str(&read("watched")).expect("one document");
    assert_eq!(
        watched["result"],
        json!({"isError": false, "content": [{"type": "text", "text": "[hidden]"}]})
    );
    host.stop();
    let results = site.exported("main");
    let result = results.iter().find(|event| event["type"] == "tool/result").expect("a result");
    assert!(!result.to_string().contains("secret"), "{result}");
}

#[test]
fn a_blocked_result_is_an_error_with_the_feedback() {
    let block = json!({"decision": "block", "feedback": "that is not for you"});
    let site = says(Site::new(), "block", "post-execute", &block);
    let mut host = site.start();
    host.open("main");
    let outcome = host.shell("main", "echo secret");
    assert!(outcome.is_error && outcome.text == "that is not for you", "{outcome:?}");
    host.stop();
}

/// L-31: the turn goes on with what a hook has to say, so often and no more.
#[test]
fn a_hook_that_always_goes_on_does_not_go_on_for_ever() {
    let answer = json!({"decision": "continue", "messages": ["once more"]});
    let site = says(Site::new(), "more", "turn-stopping", &answer);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "echo ran");
    assert_eq!(asked(&turn), vec![pair("turn-stopping", "continue"); 8]);
    assert_eq!((end(&turn).as_str(), turn.events("step/start").len()), ("completed", 10));
    host.stop();
}

/// Whatever a hook does wrong, nothing passes.
#[test]
fn a_hook_that_fails_lets_nothing_pass() {
    let table = [
        ("exit 3", "", "it ended with exit code 3"),
        ("echo fine", "", "its answer is not one JSON document: expected ident at line 1 column 2"),
        (
            "echo '{\"decision\":\"yes\"}'",
            "",
            "its decision is `yes`; it is one of allow, deny, ask",
        ),
        ("sleep 600", "timeout-ms = 200", "it gave no answer within 200ms"),
    ];
    for (script, more, why) in table {
        let site = hook(Site::new(), "broken", "pre-execute", more, script);
        let mut host = site.start();
        host.open("main");
        let turn = host.turn("main", "echo x > made");
        turn.result().failed(&format!("hook \"broken\" failed: {why}"));
        assert_eq!(asked(&turn), [pair("pre-execute", "failed")]);
        assert!(!site.cwd.join("made").exists());
        host.stop();
    }
    let site = hook(Site::new(), "broken", "pre-step", "", "echo why >&2; exit 1");
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "echo ran");
    assert_eq!((end(&turn).as_str(), asked(&turn)), ("blocked", vec![pair("pre-step", "failed")]));
    assert_eq!(turn.events("hook/result")[0]["data"]["stderrSummary"], "why");
    host.stop();
    let site = hook(Site::new(), "broken", "post-execute", "", "exit 1");
    let mut host = site.start();
    host.open("main");
    host.shell("main", "echo secret").failed("hook \"broken\" failed: it ended with exit code 1");
    host.stop();
}

/// A cancel waits for no hook, and nothing of one is left.
#[test]
fn a_cancelled_hook_ends_with_all_it_has_started() {
    // Both of its processes hold the pipe.
    let script = "exec 3>cwd/alive; trap '' TERM; sleep 600 & echo begun >&3; wait";
    for event in ["pre-step", "pre-execute", "post-execute", "turn-stopping"] {
        let site = hook(Site::new(), "hangs", event, "timeout-ms = 600000", script);
        let mut alive = listen(&site, "alive");
        let mut host = site.start();
        host.open("main");
        host.prompt("main", "echo ran");
        assert_eq!(alive.next().as_deref(), Some("begun"));
        host.call("session/cancel", "main", &json!({"inbox": "clear"}));
        let log = host.log("main");
        let reason = &log[log.len() - 1]["data"]["reason"]["kind"];
        assert_eq!(reason, "aborted", "{event}: at once");
        assert_eq!(alive.next(), None, "{event}");
        host.stop();
    }
}

/// L-83: what looks like a secret is not a hook's to know.
#[test]
fn a_hook_gets_the_environment_of_shells() {
    let site = hook(
        Site::new().env("MY_TOKEN", "abc").env("PLAIN", "def"),
        "look",
        "pre-step",
        "",
        "env >cwd/environment; echo '{\"decision\":\"proceed\"}'",
    );
    let mut host = site.start();
    host.open("main");
    host.turn("main", "true");
    host.stop();
    let environment = fs::read_to_string(site.cwd.join("environment")).expect("it ran");
    assert!(
        environment.contains("PLAIN=def") && !environment.contains("MY_TOKEN"),
        "{environment}"
    );
}

/// P-46: what has a say about commands is not theirs to change.
#[test]
fn a_confined_command_cannot_change_a_hook() {
    // Also where it is an argument: the file of an interpreter.
    for command in [r#"["./cwd/gate"]"#, r#"["bash", "cwd/gate"]"#] {
        let site = Site::new();
        let path = site.cwd.join("gate");
        fs::write(&path, "#!/bin/bash\necho '{\"decision\":\"allow\"}'\n").expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
        let site = site.tables(&format!(
            "[[hook]]\nname = \"gate\"\nevent = \"pre-execute\"\ncommand = {command}\n"
        ));
        let before = fs::read(&path).expect("it is there");
        let mut host = site.start();
        host.open("main");
        let outcome = host.shell("main", "echo x > gate; rm -f gate; echo tried");
        host.stop();
        assert_eq!(fs::read(&path).expect("it is still there"), before, "{command}: {outcome:?}");
    }
}

/// P-5, P-38: what a session's directory holds is no program of the operator's, and what a session may do is not what
/// its hooks may.
#[test]
fn a_hook_is_held_by_the_mode_of_new_sessions_in_the_directory_of_the_manifest() {
    for (preset, is_held) in [("workspace-write", true), ("danger-full-access", false)] {
        let site = Site::new().door_policy(POLICY).tables(&format!(
            "[permissions]\npreset = \"{preset}\"\nceiling = \"danger-full-access\"\n"
        ));
        let script = "cat >/dev/null; echo x >outside/made; echo x >cwd/made; . ./answer";
        let site = hook(site, "look", "pre-execute", "", script);
        let answer = "echo '{\"decision\":\"allow\"}'";
        fs::write(site.root().join("answer"), answer).expect("the operator's");
        fs::write(site.cwd.join("answer"), answer.replace("allow", "deny")).expect("the model's");
        let confines = site.confiner().confines();
        let mut host = site.start();
        host.open("main");
        // Whatever the session may do.
        host.call("session/permissions", "main", &json!({"set": "danger-full-access"}));
        host.turn("main", "echo ran").result().went_well();
        host.stop();
        assert!(site.cwd.join("made").exists());
        let is_made = site.outside.join("made").exists();
        assert_eq!(is_made, !(is_held && confines), "{preset}");
    }
}

#[test]
fn a_program_that_is_not_there_is_told_at_the_start() {
    let site = Site::new()
        .tables("[[hook]]\nname = \"gone\"\nevent = \"result\"\ncommand = [\"./gone\"]\n");
    let finished = site.run(&["stdio", "frames"]);
    assert_ne!(finished.code, 0);
    let expected = "the program of hook `gone` is not a file:";
    assert!(finished.stderr.contains(expected), "{finished:?}");
}

/// L-48, decision 42.
#[test]
fn a_cut_answer_is_kept_where_the_session_was_opened_so() {
    let slow = json!({"when": {"exact": "talk"}, "answer": [{"text": "half an answer"}, {"delay_ms": 600_000}, {"text": "never"}]});
    let recall = json!({"when": {"exact": "go on"}, "answer": [{"text": "on"}]});
    let site = Site::new().script([slow, recall]);
    let mut host = site.start();
    for (session, partial, kept) in [("a", "drop", 0), ("b", "commit", 1)] {
        host.open_with(session, "new", &json!({"owner": "connection", "partial": partial}));
        host.prompt(session, "talk");
        host.until(|frame| frame["body"]["data"]["chunk"]["text"] == "half an answer");
        host.call("session/cancel", session, &json!({"inbox": "clear"}));
        let log = host.log(session);
        let answers: Vec<_> =
            log.iter().filter(|event| event["type"] == "assistant/message").collect();
        assert_eq!(answers.len(), kept, "{partial}");
        for answer in answers {
            let message = &answer["data"]["message"];
            assert_eq!(message["source"]["partial"], true);
            assert_eq!(message["content"][0]["text"], "half an answer");
        }
        let turn = host.turn(session, "go on");
        assert_eq!(end(&turn), "completed");
    }
    let refused =
        host.request("session/open", Some("c"), &json!({"want": "new", "partial": "some"}));
    let failure = refused.expect_err("there is no such word");
    assert!(word(&failure["message"]).contains("unknown variant `some`"), "{failure}");
    host.stop();
}

/// Without hooks nothing of them is in a log.
#[test]
fn without_hooks_there_is_no_word_of_them() {
    let site = Site::new().script([on("go", [bash("true")])]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "go");
    assert_eq!(asked(&turn), []);
    host.stop();
}

/// What hooks write to a pipe with a name, and the end of the last that could.
struct Heard(mpsc::Receiver<String>);

/// Makes a pipe in the session's directory and listens to it.
fn listen(site: &Site, name: &str) -> Heard {
    let path = site.cwd.join(name);
    mkfifo(&path, Mode::S_IRWXU).expect("a fifo");
    let (sender, lines) = mpsc::sync_channel(16);
    thread::spawn(move || {
        let fifo = File::open(path).expect("a pipe");
        for line in BufReader::new(fifo).lines().map_while(Result::ok) {
            // A test that has failed does not listen.
            let _ = sender.send(line);
        }
    });
    Heard(lines)
}

impl Heard {
    /// The next line; `None` once nobody is left who could write one.
    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it does not happen"),
        }
    }
}
