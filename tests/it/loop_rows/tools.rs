//! Rows 21 to 25 and 39: tool calls, their failures, their order, and what a shell is given.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use super::stage::{Setting, Stage, bash, call, kinds, of_kind, reason, results, rule};
use crate::support::{bench::Bench, place::text};

/// A host whose model makes these calls at the first step and ends the turn at the second.
fn calling(actions: Value) -> Stage {
    let script = json!([rule("go", 1, actions), {"answer": [{"text": "well"}]}]);
    Setting::scripted(script).ready()
}

/// The only result of a turn: its text, and `error`.
fn only(events: &[Value]) -> (String, bool, Value) {
    let results = results(events);
    let [(_, text, is_error)] = results.as_slice() else { panic!("one result: {results:?}") };
    let error = of_kind(events, "tool/result")[0]["data"]["error"].clone();
    (text.clone(), *is_error, error)
}

/// Row 21. L-56: unknown name, `Error: unknown tool "<n>"`, `ToolNotFoundError`, `UNKNOWN_TOOL`. L-55: "Nothing in a
/// tool can end the turn".
#[test]
fn row_21_an_unknown_tool_fails_its_call_and_not_the_turn() {
    let mut stage = calling(json!([call("c1", "no_such_tool", json!({"a": 1}))]));
    let turn = stage.turn("go");
    let error = json!({"name": "ToolNotFoundError", "code": "UNKNOWN_TOOL"});
    assert_eq!(only(&turn), ("Error: unknown tool \"no_such_tool\"".to_owned(), true, error));
    assert_eq!(of_kind(&turn, "step/start").len(), 2);
    assert_eq!(reason(&turn), json!({"kind": "completed"}));
}

/// Row 22. L-54: "failures give `Error: invalid arguments: <v1>; <v2>` with `{name:"ToolArgsError",
/// code:"INVALID_ARGS"}`".
#[test]
fn row_22_arguments_are_refused_with_what_is_missing_first() {
    let mut stage = calling(json!([call("c1", "bash", json!({"command": 1}))]));
    let expected = "Error: invalid arguments: missing required property \"description\"; \"command\" must be a string";
    let error = json!({"name": "ToolArgsError", "code": "INVALID_ARGS"});
    assert_eq!(only(&stage.turn("go")), (expected.to_owned(), true, error));
}

/// Row 23. L-54: "empty text → `{}`; valid JSON → its value; invalid JSON → the raw string … the root is called
/// `arguments`".
#[test]
fn row_23_arguments_that_are_no_object_are_refused_and_empty_ones_are() {
    let error = || json!({"name": "ToolArgsError", "code": "INVALID_ARGS"});
    let mut stage = calling(json!([call("c1", "bash", "not json".into())]));
    let expected = "Error: invalid arguments: \"arguments\" must be an object";
    assert_eq!(only(&stage.turn("go")), (expected.to_owned(), true, error()));

    let mut stage = calling(json!([call("c1", "bash", "".into())]));
    let turn = stage.turn("go");
    assert_eq!(of_kind(&turn, "tool/call")[0]["data"]["arguments"], "", "as it was produced");
    let (text, _, code) = only(&turn);
    let missing = "Error: invalid arguments: missing required property \"command\"; missing required property \"description\"";
    assert_eq!((text.as_str(), code), (missing, error()));

    // A tool without a required argument takes the empty text.
    let mut stage = calling(json!([call("c1", "job_list", "".into())]));
    assert_eq!(only(&stage.turn("go")).0, "(no background jobs)");
}

/// Row 24. L-57: "`tool/call` is appended at start, in start order (= model order); `tool/result` is committed in model
/// order even if later calls finish first"; "all others are barriers". The first of the parallel calls is a child that
/// waits until the second call has ended.
#[test]
fn row_24_results_stand_in_the_order_of_the_calls_and_a_shell_waits_for_both() {
    let child = |prompt: &str| json!({"description": "Child", "prompt": prompt});
    let script = json!([
        rule("you are slow", 1, json!([bash("s1", "read _ < gate; echo slow")])),
        {"when": {"contains": "you are slow"}, "answer": [{"text": "slow done"}]},
        {"when": {"contains": "you are quick"}, "answer": [{"text": "quick done"}]},
        rule("go", 1, json!([
            call("c1", "subagent", child("you are slow")),
            call("c2", "subagent", child("you are quick")),
            bash("c3", "echo shell"),
        ])),
        rule("read", 1, json!([
            call("r1", "read", json!({"file_path": "one.txt"})),
            call("r2", "read", json!({"file_path": "two.txt"})),
            bash("r3", "echo shell"),
        ])),
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let mut gate = stage.gate("gate");
    stage.peer.prompt("main", "go");
    let finished = |frame: &Value| frame["name"] == "subagent/finished";
    let quick = stage.peer.first(finished);
    assert_eq!(quick["body"]["lastAssistantMessage"][0]["text"], "quick done", "{quick}");
    let before = stage.peer.events("main");
    assert!(of_kind(&before, "tool/result").is_empty(), "it has ended, and waits for its turn");
    let started: Vec<_> =
        of_kind(&before, "tool/call").iter().map(|call| call["data"]["callId"].clone()).collect();
    assert_eq!(started, ["c1", "c2"], "the shell has not started");
    gate.open();
    stage.peer.idle("main", 1);
    let events = stage.peer.events("main");
    let story: Vec<_> = events
        .iter()
        .filter_map(|event| match event["type"].as_str() {
            Some("tool/call") => Some(format!("call {}", event["data"]["callId"])),
            Some("tool/result") => {
                Some(format!("result {}", event["data"]["message"]["source"]["callId"]))
            }
            _ => None,
        })
        .collect();
    let expected = ["call c1", "call c2", "result c1", "result c2", "call c3", "result c3"]
        .map(|line| line.replace(' ', " \"") + "\"");
    assert_eq!(story, expected);

    // The very calls of the row: both files are being read before either has a result.
    for name in ["one.txt", "two.txt"] {
        fs::write(stage.place.cwd.join(name), name).expect("a file");
    }
    let turn = stage.turn("read them");
    let order: Vec<_> = kinds(&turn).into_iter().filter(|kind| kind.starts_with("tool/")).collect();
    let shown = results(&turn);
    let calls: Vec<_> = shown.iter().map(|(call, ..)| call.as_str()).collect();
    assert_eq!(calls, ["r1", "r2", "r3"]);
    assert_eq!(order[order.len() - 2..], ["tool/call", "tool/result"], "the shell comes last");
    assert!(shown[0].1.contains("1: one.txt") && shown[1].1.contains("1: two.txt"), "{shown:?}");
}

/// Row 25. L-49: "started calls are signalled and awaited; … Calls not started get a `tool/call` and a `tool/result`
/// `Error: tool call aborted before dispatch` with code `ABORTED_BEFORE_DISPATCH`. So every tool-call block has exactly
/// one result."
#[test]
fn row_25_a_cancel_leaves_every_call_with_one_result() {
    let mut stage = calling(json!([
        bash("c1", "echo started > ear; read _ < gate"),
        bash("c2", "echo second > ear"),
        bash("c3", "echo third > ear"),
    ]));
    let (_gate, ear) = (stage.gate("gate"), stage.ear("ear"));
    stage.peer.prompt("main", "go");
    assert_eq!(ear.hear(), "started");
    stage.peer.call("session/cancel", "main", json!({"inbox": "clear"}));
    stage.peer.idle("main", 1);
    let events = stage.peer.events("main");
    assert_eq!(of_kind(&events, "tool/call").len(), 3);
    let results = results(&events);
    let undispatched = "Error: tool call aborted before dispatch";
    let shown: Vec<_> =
        results.iter().map(|(call, text, error)| (call.as_str(), text.as_str(), *error)).collect();
    assert_eq!(
        shown,
        [
            ("c1", "Error: tool call aborted", true),
            ("c2", undispatched, true),
            ("c3", undispatched, true)
        ]
    );
    let codes: Vec<_> = of_kind(&events, "tool/result")
        .iter()
        .map(|event| event["data"]["error"].clone())
        .collect();
    let code = |code: &str| json!({"name": "AbortError", "code": code});
    let before = || code("ABORTED_BEFORE_DISPATCH");
    assert_eq!(codes, [code("ABORTED"), before(), before()]);
    assert_eq!(kinds(&events)[events.len() - 2..], ["step/end", "turn/end"]);
    assert_eq!(reason(&events), json!({"kind": "aborted", "reason": {"kind": "user"}}));
    assert!(ear.is_silent(), "neither of the others ran");
}

/// Row 39. L-83: names that speak of secrets, and names of the harness's own, are withheld. L-85: "Shell tools add
/// `DSH_HOME`, `DSH_SHELL=1`, `DSH_SESSION_ID`".
#[test]
fn row_39_a_shell_sees_path_and_language_and_what_the_host_adds() {
    let secret = "not-for-children";
    let inherited = |name: &str| match name {
        "LANG" => "C.UTF-8",
        // The host's own home, which it adds again.
        "DSH_HOME" => "/tmp/home-of-the-harness",
        _ => secret,
    };
    let names = ["DEEPSEEK_API_KEY", "MONKEY", "my_Secret", "DSH_HOME", "dsh_x", "LANG"];
    let mut bench = Bench::launched(|launch| {
        names.iter().fold(launch, |launch, name| launch.env(name, inherited(name)))
    });
    bench.shake_hands();
    let arguments = json!({"command": "env", "description": "Shows variables"}).to_string();
    bench.model.on("ENV", super::stage::calls(&[("c1", "bash", &arguments)]));
    bench.client.turn("main", "PROMPT: ENV");
    let events = bench.client.events("main");
    let shown = &results(&events)[0].1;
    let variables: BTreeMap<_, _> = shown.lines().filter_map(|line| line.split_once('=')).collect();
    assert!(variables["PATH"].contains("/bin"), "{shown}");
    assert_eq!(variables["LANG"], "C.UTF-8");
    for name in ["DEEPSEEK_API_KEY", "MONKEY", "my_Secret", "dsh_x"] {
        assert!(!variables.contains_key(name), "{name} is in\n{shown}");
    }
    assert!(!shown.contains(secret), "{shown}");
    let managed: Vec<_> =
        variables.keys().filter(|name| name.to_uppercase().starts_with("DSH_")).collect();
    let known = ["DSH_HOME", "DSH_SESSION_ID", "DSH_SESSION_JSONL", "DSH_SHELL"];
    assert!(managed.iter().all(|name| known.contains(name)), "{managed:?}");
    assert_eq!(variables["DSH_HOME"], inherited("DSH_HOME"));
    assert_eq!(variables["DSH_SHELL"], "1");
    assert_eq!(variables["DSH_SESSION_ID"], "main");
    assert_eq!(variables["PWD"], text(&bench.place.cwd));
}
