//! Rows 33 and 34: the host is killed, and another one goes on. What loading does with damaged files (rows 35 to 38)
//! stands beside the store.

use serde_json::{Value, json};

use super::stage::{Setting, Stage, bash, kinds, of_kind, results, rule};

/// A host that was killed while the first of three commands ran, and another one in its place.
fn killed() -> (Stage, Vec<Value>) {
    let script = json!([
        rule("go", 1, json!([
            bash("c1", "echo started > ear; read _ < gate"), bash("c2", "echo never"), bash("c3", "echo never"),
        ])),
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let (_gate, ear) = (stage.gate("gate"), stage.ear("ear"));
    stage.turn("hello");
    stage.peer.prompt("main", "go");
    assert_eq!(ear.hear(), "started");
    stage.peer.event("main", "tool/call");
    stage.kill();
    let shown = stage.peer.events("main");
    stage.restart();
    let opened = stage.resume("main");
    assert_eq!(opened["created"], false);
    (stage, shown)
}

/// Row 33. L-79: "for each unanswered tool-call block in order a `tool/result` …; then `step/end` if a step is open; then
/// `turn/end {kind:"interrupted"}`"; "`TOOL_OUTCOME_UNKNOWN` citing the call's seq". L-80: "Turn numbers continue; the
/// next request header has reason `resume`."
#[test]
fn row_33_a_call_that_ran_when_the_host_died_has_an_unknown_outcome() {
    let (mut stage, shown) = killed();
    let log = stage.log("main");
    let first = shown[0]["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok()).expect("a seq");
    assert_eq!(log[first..first + shown.len()], shown, "what was shown is there");
    let ended: Vec<_> =
        kinds(&log).into_iter().skip_while(|kind| *kind != "tool/call").skip(1).collect();
    let expected =
        ["tool/result", "tool/result", "tool/result", "step/end", "turn/end", "session/end-seed"];
    assert_eq!(ended, expected);
    let call = of_kind(&log, "tool/call")[0];
    let result = of_kind(&log, "tool/result")[0];
    let code = json!({"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"});
    assert_eq!(result["data"]["error"], code);
    assert_eq!(result["sourceEventSeqs"], json!([call["seq"]]));
    assert_eq!(result["surfaceOp"], "append");
    let id = format!("interrupted-tool-result-c1-{}", result["seq"]);
    assert_eq!(result["data"]["message"]["id"], json!(id));
    let (turn, step) = (&call["data"]["turn"], &call["data"]["step"]);
    assert_eq!((&result["data"]["turn"], &result["data"]["step"]), (turn, step));
    let ends = of_kind(&log, "turn/end");
    let last = json!({"turn": 2, "reason": {"kind": "interrupted"}});
    assert_eq!(ends.last().expect("an end")["data"], last);
    let time = &log[log.len() - 7]["time"];
    assert!(log[log.len() - 6..log.len() - 1].iter().all(|event| event["time"] == *time));

    let next = stage.turn("PROMPT: again");
    assert_eq!(of_kind(&next, "turn/start")[0]["data"], json!({"turn": 3}));
    assert_eq!(of_kind(&next, "request/header")[0]["data"]["reason"], "resume");
}

/// Row 34. L-79: "`TOOL_NOT_STARTED` when no `tool/call` was logged". The second and the third call of the answer are
/// such: they were in the message, and waited for the first.
#[test]
fn row_34_a_call_that_had_not_started_is_told_apart() {
    let (mut stage, _) = killed();
    let log = stage.log("main");
    assert_eq!(of_kind(&log, "tool/call").len(), 1);
    for (result, call) in of_kind(&log, "tool/result")[1..].iter().zip(["c2", "c3"]) {
        let code = json!({"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"});
        assert_eq!(result["data"]["error"], code);
        assert_eq!(result["data"]["message"]["source"], json!({"kind": "tool", "callId": call}));
        assert!(result.get("sourceEventSeqs").is_none(), "{result}");
    }
    assert!(results(&log).iter().all(|(_, _, is_error)| *is_error));
    // Once is enough: the next host finds a balanced log.
    stage.kill();
    stage.restart();
    stage.resume("main");
    let again = stage.log("main");
    assert_eq!(again[..log.len()], log);
    assert!(kinds(&again[log.len()..]).iter().all(|kind| *kind == "session/end-seed"));
}
