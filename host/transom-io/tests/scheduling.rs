//! A failure in the scheduling of tool calls costs a turn, and neither the host nor the session (L-58).

#[cfg(test)]
mod house;

use crate::house::{House, idle};

const SCRIPT: &str = r#"{"rules": [
    {"when": {"exact": "odd", "step": 1}, "answer": [{"tool": {"name": "odd"}}]},
    {"answer": [{"text": "you said {{prompt}}"}]}
]}"#;

#[test]
fn a_predicate_that_fails_ends_its_turn_and_not_the_host() {
    let mut house = House::new(SCRIPT, "");
    let mut peer = house.peer();
    peer.open("main");
    peer.prompt("main", "odd");
    let seen = peer.until(idle);
    let events = |kind: &str| -> Vec<_> {
        seen.iter().filter(|frame| frame["body"]["type"] == kind).cloned().collect()
    };
    assert_eq!(events("assistant/message").len(), 1);
    assert!(
        events("tool/call").is_empty() && events("tool/result").is_empty(),
        "nothing is made up"
    );
    let reason = &events("turn/end")[0]["body"]["data"]["reason"];
    let expected = "tool calls could not be scheduled because of an error in this host";
    assert_eq!((&reason["kind"], &reason["error"]["message"]), (&"error".into(), &expected.into()));

    peer.prompt("main", "hello");
    let seen = peer.until(idle);
    let completed = seen.iter().any(|frame| frame["body"]["data"]["reason"]["kind"] == "completed");
    assert!(completed, "the session goes on");
    house.end();
}
