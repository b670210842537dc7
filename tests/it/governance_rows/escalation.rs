//! Rows 5 to 10: denials, what a model may ask for, who answers, and what children inherit.

use std::fs;

use serde_json::{Value, json};

use super::bench::{Answer, Site, bash, bash_with, denied, on, tool, word};
use crate::support::{
    bench::Bench,
    client::of_type,
    model_server::{Reply, delta, finish},
    place::text,
};

/// Arguments of an escalation.
fn wider(mode: &str) -> Value {
    json!({"sandbox_permissions": mode, "justification": "the test wants it"})
}

const REASON: &str = "escalate sandbox to danger-full-access: the test wants it";

/// P-21: a denial is no error, and says so in two lines before the exit code.
#[test]
fn row_05_a_denied_command_ends_with_its_markers() {
    let site = Site::new();
    let target = format!("/etc/transom-row-05-{}", std::process::id());
    let mut host = site.start();
    host.open("main");
    let result = host.shell("main", &format!("echo x > {target}"));
    let words = site.confiner().denial();
    assert_eq!(
        result.went_well(),
        format!(
            "[stderr]\nbash: line 1: {target}: {words}\n{}\n[exit code: 1]",
            denied("workspace-write", "command")
        )
    );
    assert!(!fs::exists(&target).expect("/etc can be read"));

    // Failing for a reason of its own is no denial, nor is being denied and going on.
    for command in [
        "cat nothing",
        "echo 'Permission denied' >&2; true",
        "echo 'Permission denied' >&2; kill -9 $$",
    ] {
        let text = host.shell("main", command).text;
        assert!(!text.contains("[sandbox:"), "{command}: {text}");
    }
    host.stop();
}

/// P-20: a grant is for one call, neither for its neighbour nor for the next one.
#[test]
fn row_06_a_grant_is_for_one_call() {
    let site = Site::new();
    let target = site.outside.join("t");
    let command = format!("echo x >> {}", text(&target));
    let site = site
        .script([on("go", [bash_with(&command, &wider("danger-full-access")), bash(&command)])]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn_answering("main", "go", Answer::Allow);
    assert_eq!(turn.decisions(), [(REASON.to_owned(), "allowed-once".to_owned())]);
    let asks = turn.named("ask/opened");
    assert_eq!(asks[0]["body"]["toolName"], "bash");
    assert!(
        word(&asks[0]["body"]["arguments"]).contains("the test wants it"),
        "P-15: {:?}",
        asks[0]
    );
    let results = turn.results();
    assert_eq!(results[0].went_well(), "(no output)");
    assert!(results[1].text.contains(&denied("workspace-write", "command")), "{results:?}");
    assert!(host.shell("main", &command).text.contains("access denied"));
    assert_eq!(fs::read_to_string(&target).expect("the granted call ran"), "x\n");
    host.stop();
}

/// P-14, P-19 rows 8 to 10: whoever says no, the command does not run, and the log has one pair.
#[test]
fn row_07_refused_escalations_have_texts_of_their_own() {
    let site = Site::new();
    let target = site.outside.join("t");
    let command = format!("touch {}", text(&target));
    let write = json!({
        "file_path": text(&target),
        "content": "x",
        "sandbox_permissions": "danger-full-access",
        "justification": "the test wants it",
    });
    let site = site.script([
        on("shell", [bash_with(&command, &wider("danger-full-access"))]),
        on("file", [tool("write", write)]),
    ]);
    let mut host = site.start();
    host.open("main");
    for (answer, outcome, text) in [
        (
            Answer::Reject,
            "rejected",
            "the user rejected escalating this command to \"danger-full-access\"",
        ),
        (
            Answer::Cancel,
            "cancelled",
            "approval for escalating to \"danger-full-access\" was cancelled",
        ),
        (
            Answer::Unavailable,
            "unavailable",
            "sandbox escalation to \"danger-full-access\" requires approval, but no approval channel is available",
        ),
    ] {
        let turn = host.turn_answering("main", "shell", answer);
        assert_eq!(turn.decisions(), [(REASON.to_owned(), outcome.to_owned())]);
        turn.result().failed(text);
        let turn = host.turn_answering("main", "file", answer);
        assert_eq!(turn.decisions(), [(REASON.to_owned(), outcome.to_owned())]);
        turn.result().failed(&text.replace("this command", "this operation"));
    }

    // A cancelled turn keeps the text of the escalation instead of that of an abort.
    host.prompt("main", "shell");
    host.until(|frame| frame["name"] == "ask/opened");
    host.send("session/cancel", Some("main"), &json!({"inbox": "clear"}));
    let turn = host.rest("main");
    turn.result().failed("approval for escalating to \"danger-full-access\" was cancelled");
    assert_eq!(word(&turn.events("approval/decided")[0]["data"]["outcome"]), "cancelled");
    assert_eq!(turn.events("turn/end")[0]["data"]["reason"]["kind"], "aborted");
    assert!(!target.exists());
    host.stop();
}

/// The same through `transom prompt`, the client that has nobody to ask or an answer for everything.
#[test]
fn row_07_the_smallest_client_answers_as_it_was_told() {
    let site = Site::new();
    let target = site.outside.join("t");
    let command = format!("touch {}", text(&target));
    let site = site.script([on("go", [bash_with(&command, &wider("danger-full-access"))])]);
    for (asks, outcome) in
        [("ask", "unavailable"), ("reject", "rejected"), ("allow", "allowed-once")]
    {
        assert!(!target.exists(), "{asks}");
        let finished = site.prompt(&["--json", "--asks", asks, "go"]);
        assert_eq!(finished.code, 0, "{finished:?}");
        assert!(
            finished.stdout.contains(&format!("\"outcome\":\"{outcome}\"")),
            "{asks}: {finished:?}"
        );
    }
    assert!(target.exists());
}

/// P-19 rows 1 to 3 and 5: what is asked wrongly asks nobody.
#[test]
fn row_08_invalid_escalations_ask_nobody() {
    let cases = [
        (
            json!({"sandbox_permissions": "danger-full-access"}),
            "invalid escalation: sandbox_permissions requires a justification",
        ),
        (
            json!({"justification": "why not"}),
            "invalid escalation: justification is only valid together with sandbox_permissions",
        ),
        (
            json!({"sandbox_permissions": "danger-full-access", "justification": " \n"}),
            "invalid justification: expected a non-empty sentence",
        ),
        (
            wider("workspace-write"),
            "sandbox escalation to \"workspace-write\" is not strictly wider than this call's current \"workspace-write\" mode",
        ),
    ];
    let rules = cases.iter().enumerate().map(|(number, (more, _))| {
        let mut write = json!({"file_path": "a", "content": "x"});
        for (name, value) in more.as_object().expect("members") {
            write[name] = value.clone();
        }
        on(&format!("case {number}"), [bash_with("touch a", more), tool("write", write)])
    });
    let site = Site::new().script(rules);
    let mut host = site.start();
    host.open("main");
    for (number, (_, expected)) in cases.iter().enumerate() {
        let turn = host.turn("main", &format!("case {number}"));
        let results = turn.results();
        assert_eq!(results.len(), 2, "{results:?}");
        for result in &results {
            result.failed(expected);
            assert_eq!(result.code, "", "{result:?}");
        }
        assert_eq!(turn.decisions(), []);
    }
    assert!(!site.cwd.join("a").exists());
    host.stop();
}

/// P-19 rows 4 and 5, P-18: under the widest mode nothing is wider; where nothing is confined, nothing is offered.
#[test]
fn row_09_where_nothing_is_confined_nothing_is_asked() {
    let site = Site::new()
        .tables("[permissions]\npreset = \"danger-full-access\"\n")
        .script([on("go", [bash_with("touch a", &wider("danger-full-access"))])]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "go");
    turn.result().failed(
        "sandbox escalation to \"danger-full-access\" is not strictly wider than this call's current \
         \"danger-full-access\" mode",
    );
    assert_eq!(turn.decisions(), []);
    host.stop();

    let mut bench = Bench::ready();
    let arguments = json!({
        "command": "touch a",
        "description": "a step of the test",
        "sandbox_permissions": "danger-full-access",
        "justification": "the test wants it",
    });
    let call = json!({"tool_calls": [{
        "index": 0,
        "id": "call-1",
        "type": "function",
        "function": {"name": "bash", "arguments": arguments.to_string()},
    }]});
    bench.model.on("WIDER", Reply::events(&[delta(call), finish("tool_calls")]));
    bench.client.prompt("p", "main", "PROMPT: WIDER");
    // The model of this test calls for ever, so the first result is waited for, and no more.
    let is_result = |frame: &Value| frame["params"]["event"]["type"] == "tool/result";
    bench.client.until(is_result);
    let events = bench.client.events("main");
    let result = super::bench::Outcome::of(of_type(&events, "tool/result")[0]);
    result.failed("sandbox_permissions is not available in this composition (no sandboxing executor to escalate)");
    assert!(!bench.place.cwd.join("a").exists());
    let requests = bench.model.requests();
    let tools = requests[0].body["tools"].to_string();
    assert!(tools.contains("\"bash\"") && !tools.contains("sandbox_permissions"), "{tools}");
}

/// P-23: a child is pinned before anything else, to the mode of its parent's log and to nobody who could be asked.
#[test]
fn row_10_a_child_inherits_the_mode_and_nobody_to_ask() {
    let site = Site::new();
    let target = site.outside.join("t");
    let command = format!("touch {}", text(&target));
    let task = json!({"description": "try", "prompt": "you are the child"});
    let site = site.script([
        on("delegate", [tool("subagent", task)]),
        on(
            "you are the child",
            [bash(&command), bash_with(&command, &wider("danger-full-access"))],
        ),
    ]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "delegate");
    let of_child: Vec<_> = turn
        .frames
        .iter()
        .filter(|frame| frame["name"] == "subagent/finished")
        .map(|frame| word(&frame["body"]["childSessionId"]))
        .collect();
    assert_eq!(of_child.len(), 1, "{:#?}", turn.frames);
    assert_eq!(turn.named("ask/opened"), [&Value::Null; 0], "nobody was asked");
    host.stop();
    let log = site.exported(&of_child[0]);
    let position = |kind: &str| log.iter().position(|event| event["type"] == kind);
    let mode = position("sandbox/mode").expect("the child is pinned");
    let policy = position("approval/policy").expect("the child is pinned");
    assert_eq!(log[mode]["data"], json!({"mode": "workspace-write", "source": "delegation"}));
    assert_eq!(log[policy]["data"], json!({"policy": "never", "source": "delegation"}));
    assert!(mode < policy && Some(policy) < position("turn/start"), "{log:#?}");

    let results: Vec<_> = log
        .iter()
        .filter(|event| event["type"] == "tool/result")
        .map(super::bench::Outcome::of)
        .collect();
    assert!(results[0].text.contains("access denied under workspace-write"), "{results:?}");
    results[1].failed("the user rejected escalating this command to \"danger-full-access\"");
    // The pair is written nevertheless (P-14).
    let kinds: Vec<_> = log.iter().map(|event| word(&event["type"])).collect();
    for kind in ["approval/asked", "approval/decided"] {
        assert_eq!(kinds.iter().filter(|known| *known == kind).count(), 1, "{kinds:?}");
    }
    assert!(!target.exists());
}
