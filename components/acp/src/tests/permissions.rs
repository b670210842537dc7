//! `session/request_permission` and its answers (A-59 to A-65).

use super::*;

const CANCEL: &str = r#"4 unit {"method":"session/cancel","params":{"sessionId":"s"}}"#;

fn opened(ask: &str, call: &str) -> String {
    format!(
        r#"3 frame notice ask/opened session=s {{"askId":"{ask}","kind":"approval","approvalId":"ap-{ask}","toolName":"bash","callId":"{call}","reason":"it is \"wide\"","arguments":"{{\"command\":\"ls\"}}"}}"#
    )
}

fn request(id: u64, call: &str) -> String {
    format!(
        r#"unit {{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"{call}","title":"bash","kind":"execute","status":"pending","rawInput":{{"command":"ls"}},"content":[{{"type":"content","content":{{"type":"text","text":"it is \"wide\""}}}}]}},"options":[{{"optionId":"allow-once","name":"Allow once","kind":"allow_once"}},{{"optionId":"reject-once","name":"Reject","kind":"reject_once"}}]}}}}"#
    )
}

/// What becomes of an answer to the first request.
fn decided(answer: &str) -> Vec<String> {
    let said = said_after(&claimed(), &[opened("q", "c1"), format!("4 unit {answer}")]);
    assert_eq!(said[0], request(0, "c1"));
    said[1..].to_vec()
}

#[test]
fn row_34_only_one_answer_grants() {
    // A-60, A-65.
    let answer = |outcome: &str| {
        format!(
            r#"frame request ask/answer id=4 {{"askId":"q","value":{{"sessionId":"s","approvalId":"ap-q","outcome":"{outcome}"}}}}"#
        )
    };
    let settle = |outcome: &str| {
        format!(r#"frame request ask/settle id=4 {{"askId":"q","outcome":"{outcome}"}}"#)
    };
    for (line, frame) in [
        (
            r#"{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#,
            answer("allowed-once"),
        ),
        (
            r#"{"id":0,"result":{"_meta":1,"outcome":{"optionId":"allow-once","outcome":"selected"}}}"#,
            answer("allowed-once"),
        ),
        (
            r#"{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"reject-once"}}}"#,
            answer("rejected"),
        ),
        (
            r#"{"id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-always"}}}"#,
            answer("rejected"),
        ),
        (r#"{"id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#, settle("cancelled")),
        (
            r#"{"id":0,"error":null,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            settle("cancelled"),
        ),
        (r#"{"id":0,"result":{"outcome":{"outcome":"selected"}}}"#, settle("unavailable")),
        (r#"{"id":0,"result":{"outcome":"selected"}}"#, settle("unavailable")),
        (r#"{"id":0,"result":{}}"#, settle("unavailable")),
        (r#"{"id":0,"result":null}"#, settle("unavailable")),
        (r#"{"id":0}"#, settle("unavailable")),
        (r#"{"id":0,"error":{"code":-32603,"message":"x"}}"#, settle("unavailable")),
        (
            r#"{"id":0,"error":{"code":1,"message":"x"},"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#,
            settle("unavailable"),
        ),
        (
            r#"{"jsonrpc":"1.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#,
            settle("unavailable"),
        ),
    ] {
        assert_eq!(decided(line), [frame], "{line}");
    }
}

#[test]
fn an_answer_counts_once() {
    let allow =
        r#"4 unit {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#;
    let said = said_after(&claimed(), &[opened("q", "c1"), allow.to_owned(), allow.to_owned()]);
    assert_eq!(said.len(), 2, "{said:?}");
    // Neither another number nor a text that looks like it is the request's id.
    for other in [
        r#"4 unit {"id":1,"result":{}}"#,
        r#"4 unit {"id":"0","result":{}}"#,
        r#"4 unit {"id":null,"result":{}}"#,
    ] {
        assert_eq!(
            said_after(&claimed(), &[opened("q", "c1"), other.to_owned()]).len(),
            1,
            "{other}"
        );
    }
}

#[test]
fn row_35_requests_are_numbered_from_zero() {
    // A-16: whatever numbers the client uses.
    let said = said_after(
        &claimed(),
        &[
            opened("q", "c1"),
            r#"4 unit {"id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#.to_owned(),
            r#"5 frame notice ask/closed session=s {"askId":"q","kind":"approval","approvalId":"ap-q","outcome":"cancelled"}"#.to_owned(),
            opened("r", "c2"),
        ],
    );
    assert_eq!([&said[0], &said[2]], [&request(0, "c1"), &request(1, "c2")]);
}

#[test]
fn row_36_a_cancel_takes_the_question_back_without_waiting() {
    // A-64: the late answer, of any kind, is dropped.
    for late in [
        r#"5 unit {"id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
        r#"5 unit {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#,
        r#"5 unit {"id":0,"error":{"code":1,"message":"x"}}"#,
    ] {
        let closed = r#"5 frame notice ask/closed session=s {"askId":"q","kind":"approval","outcome":"cancelled"}"#;
        let said = said_after(&claimed(), &[&opened("q", "c1"), CANCEL, closed, late]);
        assert_eq!(
            said[1..],
            [
                r#"frame request session/cancel session=s id=4 {"inbox":"clear"}"#.to_owned(),
                r#"frame request ask/settle id=5 {"askId":"q","outcome":"cancelled"}"#.to_owned(),
                stopped("7", "cancelled"),
            ]
        );
    }
}

#[test]
fn an_ask_that_is_over_is_answered_no_more() {
    let closed = r#"4 frame notice ask/closed session=s {"askId":"q","kind":"approval","outcome":"allowed-once"}"#;
    let answer =
        r#"5 unit {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"reject-once"}}}"#;
    assert_eq!(said_after(&claimed(), &[&opened("q", "c1"), closed, answer]).len(), 1);
}

#[test]
fn a_61_asks_that_this_wire_cannot_carry_have_nobody_here() {
    let unavailable = r#"frame request ask/settle id=4 {"askId":"q","outcome":"unavailable"}"#;
    for ask in [
        r#"3 frame notice ask/opened session=s {"askId":"q","kind":"approval","approvalId":"a","toolName":"bash"}"#.to_owned(),
        r#"3 frame notice ask/opened session=s {"askId":"q","kind":"question","questions":[]}"#.to_owned(),
        opened("q", "c1").replace("session=s", "session=child"),
    ] {
        assert_eq!(said_after(&claimed(), &[ask.as_str()]), [unavailable], "{ask}");
    }
}

#[test]
fn a_65_what_a_person_is_shown_fits_the_tool() {
    let shown = |tool: &str, arguments: &str| {
        let body = serde_json::json!({
            "askId": "q", "kind": "approval", "approvalId": "a", "callId": "c",
            "toolName": tool, "arguments": arguments,
        });
        let said = said_after(&claimed(), &[format!("3 frame notice ask/opened session=s {body}")]);
        let unit: serde_json::Value =
            serde_json::from_str(said[0].strip_prefix("unit ").expect("a unit")).expect("JSON");
        unit["params"]["toolCall"].clone()
    };
    for (tool, kind) in [
        ("bash", "execute"),
        ("read", "read"),
        ("write", "edit"),
        ("edit", "edit"),
        ("grep", "search"),
        ("glob", "search"),
        ("web_fetch", "fetch"),
        ("subagent", "other"),
        ("mcp__x__read", "other"),
    ] {
        let call = shown(tool, "{}");
        assert_eq!((call["title"].as_str(), call["kind"].as_str()), (Some(tool), Some(kind)));
        assert!(call["content"].is_null(), "without a reason there is nothing to say");
    }
    // Arguments that are no JSON are the text that they are.
    assert_eq!(shown("bash", "{\"a\":")["rawInput"], "{\"a\":");
    assert_eq!(shown("bash", "{\"a\":\r\n1}")["rawInput"], serde_json::json!({"a": 1}));
    assert_eq!(shown("bash", "{\"a\":\"\n\"}")["rawInput"], "{\"a\":\"\n\"}");
    assert_eq!(shown("bash", "[1]")["rawInput"], serde_json::json!([1]));
}

/// The ask of a session that works for `root`.
fn asks_below(root: &str) -> String {
    format!(
        r#"3 frame notice ask/opened session=c {{"askId":"q","kind":"approval","rootSessionId":"{root}","approvalId":"ap","toolName":"bash","callId":"c1","arguments":"{{}}"}}"#
    )
}

const UNAVAILABLE: &str = r#"frame request ask/settle id=4 {"askId":"q","outcome":"unavailable"}"#;

#[test]
fn a_child_asks_the_client_of_the_session_that_it_works_for() {
    // A-61: the answer is the child's, and the client sees whose it is.
    let request = r#"unit {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c1","title":"bash","kind":"execute","status":"pending","rawInput":{},"_meta":{"dsh/sessionId":"c"}},"options":[{"optionId":"allow-once","name":"Allow once","kind":"allow_once"},{"optionId":"reject-once","name":"Reject","kind":"reject_once"}]}}"#;
    let allowed =
        r#"4 unit {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}"#;
    let answered = r#"frame request ask/answer id=4 {"askId":"q","value":{"sessionId":"c","approvalId":"ap","outcome":"allowed-once"}}"#;
    assert_eq!(said_after(&claimed(), &[asks_below("s"), allowed.to_owned()]), [request, answered]);
    // A cancel of the client's session takes it back.
    assert_eq!(
        said_after(&claimed(), &[asks_below("s"), CANCEL.to_owned()]),
        [
            request,
            r#"frame request session/cancel session=s id=4 {"inbox":"clear"}"#,
            r#"frame request ask/settle id=5 {"askId":"q","outcome":"cancelled"}"#,
            r#"unit {"jsonrpc":"2.0","id":7,"result":{"stopReason":"cancelled"}}"#,
        ]
    );
}

#[test]
fn a_child_has_nobody_to_ask_below_a_stranger_or_where_it_is_turned_off() {
    assert_eq!(said_after(&claimed(), &[asks_below("t")]), [UNAVAILABLE]);
    let mut inputs = claimed();
    inputs.push(asks_below("s"));
    let off = said_in(with_options(r#"{"childPermissions":false}"#), &inputs);
    assert_eq!(off.last().map(String::as_str), Some(UNAVAILABLE));
}
