//! What a client can pile up: every bound, crossed by one.

use super::*;
use crate::{
    conversation::{PENDING_MAX, SESSIONS_MAX, SHUTDOWNS_MAX},
    translate::{ID_BYTES_MAX, MEMBER_BYTES_MAX},
};

/// What follows these inputs, behind a handshake; played straight only, because they are many.
fn last_answers(inputs: &[String], count: usize) -> Vec<String> {
    let inputs: Vec<&str> =
        HANDSHAKE.into_iter().chain(inputs.iter().map(String::as_str)).collect();
    let mut said = outputs(&play_with::<Conversation>(setup(), &inputs));
    said.split_off(said.len() - count)
}

fn refused(id: &str, message: &str) -> String {
    format!(r#"unit {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{message}"}}}}"#)
}

fn prompt(id: &str, session: &str) -> String {
    format!(
        r#"1 unit {{"id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","contentBlocks":[]}}}}"#
    )
}

#[test]
fn requests_that_await_their_answer_are_bounded_and_a_shutdown_still_gets_through() {
    // An opening takes one place, each prompt another, and a prompt needs room for both.
    let mut inputs: Vec<String> =
        (0..PENDING_MAX - 1).map(|id| prompt(&id.to_string(), "s")).collect();
    inputs.push(r#"2 unit {"id":"sd","method":"shutdown"}"#.to_owned());
    let said = last_answers(&inputs, 3);
    assert!(said[0].starts_with("frame request session/prompt"), "{}", said[0]);
    assert_eq!(
        said[1],
        refused(&(PENDING_MAX - 2).to_string(), "more than 1024 requests are open")
    );
    assert!(said[2].starts_with("frame request host/shutdown"), "{}", said[2]);
}

#[test]
fn an_answer_makes_room() {
    let mut inputs: Vec<String> = (0..PENDING_MAX).map(|id| prompt(&id.to_string(), "s")).collect();
    inputs.push(r#"2 frame reply session/open session=s id=3 {}"#.to_owned());
    inputs.push(r#"2 frame reply session/prompt session=s id=4 {"messageId":"m"}"#.to_owned());
    inputs.push(prompt("\"again\"", "s"));
    assert!(last_answers(&inputs, 1)[0].starts_with("frame request session/prompt"));
}

#[test]
fn handshakes_that_await_the_subscription_count_too() {
    let mut inputs = Vec::new();
    for count in 0..PENDING_MAX {
        inputs.push(format!(
            r#"1 unit {{"id":{count},"method":"initialize","params":{{"cwd":"/","provider":"p","model":"m"}}}}"#
        ));
        // The second frame is the subscription, whose reply does not come.
        let check = if count == 0 { 1 } else { count + 2 };
        inputs.push(format!("2 frame reply models/check id={check} {{}}"));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let said = outputs(&play_with::<Conversation>(setup(), &inputs));
    assert_eq!(said.len(), PENDING_MAX + 1);
    assert_eq!(said[PENDING_MAX], refused("1023", "more than 1024 requests are open"));
}

#[test]
fn shutdowns_that_await_their_answer_are_bounded() {
    let inputs: Vec<String> = (0..=SHUTDOWNS_MAX)
        .map(|id| format!(r#"1 unit {{"id":{id},"method":"shutdown"}}"#))
        .collect();
    let said = last_answers(&inputs, 2);
    assert!(said[0].starts_with("frame request host/shutdown"), "{}", said[0]);
    assert_eq!(said[1], refused("64", "more than 64 shutdown requests are open"));
}

#[test]
fn sessions_are_bounded() {
    let mut inputs = Vec::new();
    for count in 0..SESSIONS_MAX {
        inputs.push(prompt("1", &format!("s{count}")));
        inputs
            .push(format!("2 frame reply session/open session=s{count} id={} {{}}", 3 + 2 * count));
        inputs.push(format!(
            r#"2 frame reply session/prompt session=s{count} id={} {{"messageId":"m"}}"#,
            4 + 2 * count
        ));
    }
    inputs.push(prompt("\"new\"", "one more"));
    inputs.push(prompt("\"old\"", "s0"));
    let said = last_answers(&inputs, 2);
    assert_eq!(
        said[0],
        refused("\"new\"", "this connection holds 16384 sessions, which is all it may")
    );
    assert!(said[1].starts_with("frame request session/prompt session=s0"), "{}", said[1]);
}

#[test]
fn texts_that_are_kept_are_bounded() {
    let id = format!("\"{}\"", "i".repeat(ID_BYTES_MAX - 1));
    let session = "s".repeat(ID_BYTES_MAX + 1);
    assert_eq!(
        last_answers(&[prompt(&id, "s")], 1),
        [refused(&id, "the request's id is longer than 1024 bytes")],
        "what cannot be kept is still echoed"
    );
    assert_eq!(
        last_answers(&[prompt("1", &session)], 1),
        [refused("1", "sessionId is longer than 1024 bytes")]
    );
    assert!(
        last_answers(&[prompt("1", &session[1..])], 1)[0]
            .starts_with("frame request session/prompt")
    );

    let long = "x".repeat(MEMBER_BYTES_MAX + 1);
    for name in ["cwd", "provider", "model", "reasoningEffort"] {
        let mut members =
            [("cwd", "/"), ("provider", "p"), ("model", "m"), ("reasoningEffort", "e")];
        for member in &mut members {
            if member.0 == name {
                member.1 = &long;
            }
        }
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)).collect();
        let line = format!(
            r#"1 unit {{"id":1,"method":"initialize","params":{{{}}}}}"#,
            members.join(",")
        );
        assert_eq!(
            last_answers(&[line], 1),
            [refused("1", &format!("initialize {name} is longer than 4096 bytes"))]
        );
    }
}
