//! Abort, drain and the end of the wire (A-155, A-157).

use serde_json::json;

use super::*;

const CANCEL: &str = r#"7 frame notice agent/cancel {"id":"a","reason":"aborted"}"#;
const TOLD: &str = r#"unit {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"c"}}"#;

#[test]
fn a155_an_abort_is_answered_at_once_and_the_agent_is_told() {
    let said = at_work(&[&chunk("partial"), CANCEL]);
    let expected =
        json!({"output": [{"type": "text", "text": "partial"}], "stopReason": "aborted"});
    assert_eq!(outcome(&said), expected);
    assert_eq!(said.last().unwrap(), TOLD);
    // What the agent makes of it concerns nobody any more.
    let late = [
        r#"8 unit {"id":2,"result":{"stopReason":"end_turn"}}"#,
        r#"8 unit {"id":2,"error":{"code":1,"message":"m"}}"#,
        "8 end",
    ];
    for late in late {
        let before: Vec<&str> = AT_WORK.into_iter().chain([CANCEL]).collect();
        let said = said_after(&before, &[late]);
        assert!(said.is_empty() || said == ["close the agent has ended"], "{said:?}");
    }
}

#[test]
fn a157_a_run_that_is_given_back_hears_of_it_before_its_input_ends() {
    let said = at_work(&[&chunk("partial"), "8 drain shutdown"]);
    assert_eq!(outcome(&said)["stopReason"], "aborted");
    assert_eq!(said[said.len() - 2..], [TOLD, "close over"]);
    // It is told once.
    let before: Vec<&str> = AT_WORK.into_iter().chain([CANCEL]).collect();
    assert_eq!(said_after(&before, &["8 drain shutdown"]), ["close over"]);
    let before: Vec<&str> = AT_WORK.into_iter().chain([ENDED]).collect();
    assert_eq!(said_after(&before, &["8 drain shutdown"]), ["close over"]);
}

#[test]
fn a_cancel_of_something_else_changes_nothing() {
    for cancel in [
        r#"7 frame notice agent/cancel {"id":"b"}"#,
        "7 frame notice agent/cancel {}",
        r#"7 frame notice agent/cancel {"id":7}"#,
        "7 frame notice something/else {}",
        "7 other name {}",
        "7 drain replaced",
    ] {
        assert_eq!(at_work(&[cancel]), Vec::<String>::new());
    }
}

#[test]
fn an_agent_that_dies_between_start_and_prompt_fails_its_prompt() {
    let said = said_after(&[START, GREETED, OPENED], &["4 end", ASKED]);
    assert_eq!(outcome(&said)["diagnostic"], "ACP connection closed");
    assert_eq!(said.last().unwrap(), "close the agent has ended");
    let said = said_after(&[START, GREETED, OPENED], &["4 skipped too-long 9", ASKED]);
    assert_eq!(outcome(&said)["category"], "protocol");
}

#[test]
fn nothing_is_said_behind_the_close() {
    let closed: Vec<&str> = AT_WORK.into_iter().chain(["8 drain shutdown"]).collect();
    for late in [START, ASKED, ENDED, "9 end", "9 deadline", "9 drain shutdown", CANCEL] {
        assert_eq!(said_after(&closed, &[late]), Vec::<String>::new());
    }
}
