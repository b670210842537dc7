//! Rows 29, 30 and 42: who decides on a call, and how the model learns what may be done.

use serde_json::{Value, json};

use super::stage::{Setting, Stage, bash, of_kind, reason, results, rule};
use crate::support::frames::Frames;

/// Shells are asked about.
const ASKS: &str =
    "[[permissions.rule]]\ntool = \"bash\"\ndecision = \"ask\"\nreason = \"a person decides\"\n";

fn script() -> Value {
    json!([rule("go", 1, json!([bash("c1", "echo ran")])), {"answer": [{"text": "well"}]}])
}

/// The ask that is open, once it is.
fn ask(peer: &mut Frames, n: usize) -> Value {
    peer.nth(n, |frame| frame["name"] == "ask/opened")["body"].clone()
}

fn answer(ask: &Value, outcome: &str) -> Value {
    let value = json!({"sessionId": "main", "approvalId": ask["approvalId"], "outcome": outcome});
    json!({"askId": ask["askId"], "value": value})
}

/// What became of the call: one pair of events, and the text for the model.
fn outcome(stage: &Stage) -> (Value, String) {
    let events = stage.peer.events("main");
    let (asked, decided) =
        (of_kind(&events, "approval/asked"), of_kind(&events, "approval/decided"));
    assert_eq!((asked.len(), decided.len()), (1, 1), "always one pair");
    let (asked, decided) = (&asked[0]["data"], &decided[0]["data"]);
    assert_eq!(decided["id"], asked["id"]);
    assert_eq!((&asked["toolName"], &asked["callId"]), (&json!("bash"), &json!("c1")));
    assert_eq!(asked["reason"], "a person decides");
    assert_eq!(reason(&events), json!({"kind": "completed"}), "the turn goes on");
    assert_eq!(of_kind(&events, "step/start").len(), 2);
    (decided["outcome"].clone(), results(&events)[0].1.clone())
}

/// Row 29. L-60: "append `approval/asked`, get an outcome, append `approval/decided` (always paired)". L-61: "nobody →
/// `unavailable`; an answerer that throws or returns anything else → `unavailable`". L-62: the texts. A peer cannot
/// throw; it can say that it has no answer (`ask/settle`), and an answer of another shape leaves the ask open (P-14).
#[test]
fn row_29_each_answer_has_its_result_and_one_pair_of_events() {
    let unavailable =
        "Error: tool \"bash\" requires approval, but no approval channel is available";
    let stage = || Setting::scripted(script()).manifest(ASKS).ready();
    for (word, text) in
        [("allowed-once", "ran\n"), ("rejected", "Error: the user rejected tool \"bash\"")]
    {
        let mut stage = stage();
        stage.peer.prompt("main", "go");
        let ask = ask(&mut stage.peer, 1);
        assert_eq!(ask["reason"], "a person decides");
        let (id, line) = stage.peer.request("ask/answer", None, &answer(&ask, word));
        stage.peer.say(&line);
        assert_eq!(stage.peer.reply(&id), json!({"receipt": "accepted"}));
        stage.peer.idle("main", 1);
        assert_eq!(outcome(&stage), (json!(word), text.to_owned()));
        let closed = stage.peer.first(|frame| frame["name"] == "ask/closed");
        assert_eq!(closed["body"]["outcome"], word);
    }

    // "yes" is no answer, and no answer is what it comes to.
    let mut stage = stage();
    stage.peer.prompt("main", "go");
    let ask = ask(&mut stage.peer, 1);
    for (body, receipt) in [
        (answer(&ask, "yes"), "invalid"),
        (json!({"askId": ask["askId"], "value": "yes"}), "invalid"),
        (json!({"askId": ask["askId"], "error": {"code": "broken"}}), "invalid"),
        (json!({"askId": "another", "value": "yes"}), "not-pending"),
    ] {
        let (id, line) = stage.peer.request("ask/answer", None, &body);
        stage.peer.say(&line);
        assert_eq!(stage.peer.reply(&id), json!({"receipt": receipt}), "{body}");
    }
    let settle = json!({"askId": ask["askId"], "outcome": "unavailable"});
    let (id, line) = stage.peer.request("ask/settle", None, &settle);
    stage.peer.say(&line);
    assert_eq!(stage.peer.reply(&id), json!({"receipt": "accepted"}));
    stage.peer.idle("main", 1);
    assert_eq!(outcome(&stage), (json!("unavailable"), unavailable.to_owned()));

    // Nobody is shown asks: nobody answers.
    let mut stage = Setting::scripted(script()).manifest(ASKS).without_asks().ready();
    stage.turn("go");
    assert_eq!(outcome(&stage), (json!("unavailable"), unavailable.to_owned()));
}

/// Row 30. L-61: "effective policy `never` → `rejected` with no answerer consulted".
#[test]
fn row_30_under_never_nobody_is_consulted() {
    let tables = format!("[permissions]\npolicy = \"never\"\n{ASKS}");
    let mut stage = Setting::scripted(script()).manifest(&tables).ready();
    stage.turn("go");
    let text = "Error: the user rejected tool \"bash\"".to_owned();
    assert_eq!(outcome(&stage), (json!("rejected"), text));
    assert!(stage.peer.seen.iter().all(|frame| frame["name"] != "ask/opened"));
}

/// The context snapshots among these events (L-96).
fn snapshots(events: &[Value]) -> Vec<&Value> {
    let is_snapshot = |event: &&Value| event["data"]["source"]["form"] == "snapshot";
    of_kind(events, "user/message").into_iter().filter(is_snapshot).collect()
}

/// Row 42. L-96: "When its rendered text differs from the last one still on the surface, a `user/message` … is added".
/// A policy is switched by no frame of this door (P-35); that half stands beside the code. The directory, which the
/// same snapshot names, can be changed.
#[test]
fn row_42_a_snapshot_comes_when_the_context_changes_and_only_then() {
    let mut stage = Setting::scripted(json!([{"answer": [{"text": "ok"}]}])).ready();
    let first = stage.turn("one");
    assert_eq!(snapshots(&first).len(), 1);
    let names: Vec<_> = snapshots(&first)[0]["data"]["source"]["sections"]
        .as_array()
        .expect("sections")
        .iter()
        .map(|section| section["name"].clone())
        .collect();
    assert_eq!(names, ["sandbox:policy", "approval:policy"], "P-13");
    assert_eq!(snapshots(&stage.turn("two")).len(), 0);

    let elsewhere = stage.place.cwd.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    stage.peer.call("session/directory", "main", json!({"set": elsewhere}));
    let third = stage.turn("three");
    let added = snapshots(&third);
    assert_eq!(added.len(), 1);
    assert!(added[0]["data"]["content"].to_string().contains("elsewhere"), "{}", added[0]);
    assert_eq!(snapshots(&stage.turn("four")).len(), 0);
    let refused = stage.peer.refusal("session/permissions", "main", json!({"set": "read-only"}));
    assert_eq!(refused["code"], "denied");
}
