//! `session/cancel` and `$/cancel_request` (A-78 to A-85).

use super::*;

const CANCEL: &str =
    r#"3 unit {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;

fn cancel_frame(number: u64) -> String {
    format!(r#"frame request session/cancel session=s id={number} {{"inbox":"clear"}}"#)
}

#[test]
fn row_28_a_cancel_answers_the_prompt_at_once() {
    // A-79: the place is free before the agent has come to rest; A-76: the late end is nobody's.
    let said = said_after(
        &claimed(),
        &[
            CANCEL.to_owned(),
            prompt(8, "next"),
            "4 frame reply session/cancel session=s id=4 {}".to_owned(),
            r#"4 frame reply session/prompt session=s id=5 {"messageId":"m8"}"#.to_owned(),
            turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
            status("idle"),
            status("running"),
            turn_claims(2, "m8"),
            r#"5 frame reply session/describe session=s id=6 {"running":true}"#.to_owned(),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    assert_eq!(
        said,
        [
            cancel_frame(4),
            stopped("7", "cancelled"),
            r#"frame request session/prompt session=s id=5 {"content":[{"type":"text","text":"next"}]}"#.to_owned(),
            "frame request session/describe session=s id=6 {}".to_owned(),
            stopped("8", "end_turn"),
        ]
    );
}

#[test]
fn row_29_row_30_a_prompt_that_is_just_being_queued_is_cancelled_too() {
    // A-17: its reply and its end change nothing, whether it was taken or not.
    for reply in [
        r#"3 frame reply session/prompt session=s id=3 {"messageId":"m7"}"#,
        r#"3 frame failure session/prompt session=s id=3 {"code":"overloaded","message":"x","details":{}}"#,
    ] {
        let said = said_opened(&[
            prompt(7, "a"),
            CANCEL.to_owned(),
            prompt(8, "b"),
            turn_claims(1, "m7"),
            reply.to_owned(),
            turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
            status("idle"),
            status("running"),
            turn_claims(2, "m8"),
            r#"3 frame reply session/prompt session=s id=5 {"messageId":"m8"}"#.to_owned(),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
        ]);
        assert_eq!(said[1..3], [cancel_frame(4), stopped("7", "cancelled")]);
        assert_eq!(said[4..], [stopped("8", "end_turn")]);
    }
}

#[test]
fn row_31_a_cancel_of_nothing_arms_nothing() {
    // A-78, A-81: an idle agent is told all the same, for it may work on its own.
    for line in [
        r#"1 unit {"method":"session/cancel","params":{"sessionId":"missing"}}"#,
        r#"1 unit {"method":"session/cancel","params":{}}"#,
        r#"1 unit {"method":"session/cancel","params":{"sessionId":5}}"#,
        r#"1 unit {"method":"session/cancel","params":[]}"#,
        r#"1 unit {"method":"session/cancel"}"#,
    ] {
        assert_eq!(said_opened(&[line]), Vec::<String>::new(), "{line}");
    }
    assert_eq!(said_opened(&[CANCEL]), [cancel_frame(3)]);
    let line = r#"1 unit {"id":1,"method":"session/cancel","params":{"sessionId":"s"}}"#;
    assert_eq!(refusal(&said_opened(&[line])).0, -32601, "row 32");
}

#[test]
fn row_40_a_cancel_touches_no_other_session() {
    let said = said_after(
        &claimed(),
        &[
            r#"2 unit {"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
            "2 frame reply session/open session=t id=4 {}",
            r#"2 unit {"id":9,"method":"session/prompt","params":{"sessionId":"t","prompt":[{"type":"text","text":"b"}]}}"#,
            r#"2 frame notice inbox/claimed session=t {"turn":1,"messageIds":["m9"]}"#,
            r#"2 frame reply session/prompt session=t id=5 {"messageId":"m9"}"#,
            CANCEL,
            r#"4 frame notice session/event session=t {"type":"turn/end","data":{"turn":1,"reason":{"kind":"completed"}}}"#,
            r#"4 frame notice session/status session=t {"status":"idle"}"#,
        ],
    );
    assert_eq!(said[3..], [cancel_frame(6), stopped("7", "cancelled"), stopped("9", "end_turn")]);
}

#[test]
fn a_85_a_request_in_flight_can_be_taken_back() {
    let line = |id: &str| {
        format!(r#"3 unit {{"method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
    };
    assert_eq!(said_after(&claimed(), &[line("7")]), [cancel_frame(4), stopped("7", "cancelled")]);
    // The same number in another spelling is the same id; unknown ones are ignored.
    assert_eq!(said_after(&claimed(), &[line("7.0")]).len(), 2);
    for unknown in [
        line("8"),
        line("\"7\""),
        line("null"),
        r#"3 unit {"method":"$/cancel_request"}"#.to_owned(),
    ] {
        assert_eq!(said_after(&claimed(), &[unknown]), Vec::<String>::new());
    }
}

#[test]
fn a_85_a_session_that_is_no_longer_wanted_is_closed_when_it_comes() {
    let cancel = r#"1 unit {"method":"$/cancel_request","params":{"requestId":1}}"#;
    let taken_back = refused("1", -32800, "Request cancelled");
    let opening =
        said_after(&OPENED[..2], &[cancel, "2 frame reply session/open session=s id=2 {}"]);
    assert_eq!(
        opening,
        [taken_back.clone(), "frame request session/close session=s id=3 {}".to_owned()]
    );
    // Ahead of the subscription nothing has been opened yet.
    assert_eq!(said_after(&OPENED[..1], &[cancel, OPENED[1]]).join("\n"), taken_back);
    // And once it is there the request has its answer.
    assert_eq!(said_opened(&[cancel]), Vec::<String>::new());
    let refused =
        r#"2 frame failure session/open id=2 {"code":"overloaded","message":"x","details":{}}"#;
    assert_eq!(said_after(&OPENED[..2], &[cancel, refused]), [taken_back]);
}
