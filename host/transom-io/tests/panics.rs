//! A bug beside a tool's body costs a result, a step or a prompt, and neither the turn nor the session hangs (L-55).

#[cfg(test)]
mod house;

use serde_json::json;

use crate::house::{House, Peer, end, idle, of_kind};

const SCRIPT: &str = r#"{"rules": [
    {"when": {"exact": "loud", "step": 1}, "answer": [{"tool": {"name": "loud"}}]},
    {"answer": [{"text": "you said {{prompt}}"}]}
]}"#;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// The session goes on.
fn is_well(peer: &mut Peer, session: &str) {
    peer.prompt(session, "hello");
    assert_eq!(end(&peer.until(idle))["kind"], "completed");
}

#[test]
fn a_last_touch_that_fails_is_the_error_of_its_call() {
    let mut house = House::new(SCRIPT, "");
    let mut peer = house.peer();
    peer.open("main");
    peer.prompt("main", "loud");
    let seen = peer.until(idle);
    let result = &of_kind(&seen, "tool/result")[0]["body"]["data"]["message"]["content"][0];
    let expected = "Error: tool \"loud\" failed because of an error in this host";
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(true), &json!(expected))
    );
    assert_eq!(end(&seen)["kind"], "completed", "the model was told and went on");
    house.end();
}

#[test]
fn a_description_that_fails_is_the_error_of_its_turn() {
    let mut house = House::new(SCRIPT, "");
    let mut peer = house.peer();
    peer.open("blind");
    peer.prompt("blind", "hello");
    let reason = end(&peer.until(idle)).clone();
    assert_eq!(reason["kind"], "error", "{reason}");
    house.peer().open("main");
    peer.open("other");
    is_well(&mut peer, "other");
    house.end();
}

#[test]
fn a_prompt_whose_picture_cannot_be_looked_at_is_answered_and_holds_up_nobody() {
    let mut house = House::new(SCRIPT, "");
    let mut peer = house.peer();
    peer.open("main");
    let picture = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    peer.ask("session/prompt", Some("main"), json!({ "content": [picture] }));
    let seen = peer.until(|frame| frame["name"] == "session/prompt");
    let answer = seen.last().expect("an answer");
    assert_eq!(
        (&answer["kind"], &answer["body"]["code"]),
        (&"failure".into(), &"unexpected".into())
    );
    is_well(&mut peer, "main");
    house.end();
}
