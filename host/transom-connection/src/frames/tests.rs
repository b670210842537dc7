//! The native codec, line by line.

use std::sync::Arc;

use insta::assert_snapshot;

use super::source;
use crate::{
    codec::{CodecError, CodecSource, Framing},
    script::{self, setup},
};

const POLICY: &str = r#"
[frames]
allow = ["session/*", "tools/*"]
[limits]
pending-requests-max = 2
"#;

fn tell(story: &[&str]) -> String {
    script::play(&source(), POLICY, story)
}

/// What a line is answered with, and that it goes no further.
fn check(line: &str, message: &str) {
    let expected = format!(
        "> 1 unit {line}\n< write {{\"kind\":\"notice\",\"name\":\"peer/malformed\",\"body\":{}}}\n",
        serde_json::json!({"message": message})
    );
    assert_eq!(tell(&[&format!("1 unit {line}")]), expected);
}

#[test]
fn frames_pass_in_both_directions_untranslated() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","session":"main","id":"1","name":"session/prompt","body":{"n":12345678901234567890, "a" : 1.50}}"#,
        r#"2 frame reply 1 session/prompt {"messageId":"m"}"#,
        r#"3 frame notice session/event {"seq":0,"big":12345678901234567890}"#,
        r#"4 unit {"body":{},"name":"tools/progress","kind":"notice"}"#,
    ]), @r#"
    > 1 unit {"kind":"request","session":"main","id":"1","name":"session/prompt","body":{"n":12345678901234567890, "a" : 1.50}}
    < request session/prompt 1 in main {"n":12345678901234567890, "a" : 1.50}
    > 2 frame reply 1 session/prompt {"messageId":"m"}
    < write {"kind":"reply","id":"1","name":"session/prompt","body":{"messageId":"m"}}
    > 3 frame notice session/event {"seq":0,"big":12345678901234567890}
    < write {"kind":"notice","name":"session/event","body":{"seq":0,"big":12345678901234567890}}
    > 4 unit {"body":{},"name":"tools/progress","kind":"notice"}
    < notice tools/progress {}
    "#);
}

#[test]
fn a_request_of_the_host_is_answered_by_the_peer() {
    assert_snapshot!(tell(&[
        r#"1 frame request c tools/call {"name":"x"}"#,
        r#"2 unit {"kind":"reply","id":"c","name":"tools/list","body":{}}"#,
        r#"3 unit {"kind":"failure","id":"c","name":"tools/call","body":{"code":"timeout"}}"#,
        r#"4 unit {"kind":"reply","id":"c","name":"tools/call","body":{}}"#,
    ]), @r#"
    > 1 frame request c tools/call {"name":"x"}
    < write {"kind":"request","id":"c","name":"tools/call","body":{"name":"x"}}
    > 2 unit {"kind":"reply","id":"c","name":"tools/list","body":{}}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"no tools/list of id \"c\" waits for an answer"}}
    > 3 unit {"kind":"failure","id":"c","name":"tools/call","body":{"code":"timeout"}}
    < failure tools/call c {"code":"timeout"}
    > 4 unit {"kind":"reply","id":"c","name":"tools/call","body":{}}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"no tools/call of id \"c\" waits for an answer"}}
    "#);
}

#[test]
fn a_denied_and_a_surplus_request_are_told_to_the_peer() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"host/shutdown","body":{}}"#,
        r#"2 unit {"kind":"request","id":"1","name":"my/own","body":{}}"#,
        r#"3 unit {"kind":"request","id":"1","name":"session/a","body":{}}"#,
        r#"4 unit {"kind":"request","id":"2","name":"session/a","body":{}}"#,
        r#"5 unit {"kind":"request","id":"3","name":"session/a","body":{}}"#,
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"host/shutdown","body":{}}
    < warn: request refused {"frame":"host/shutdown","reason":"frames.allow does not name host/shutdown"}
    < write {"kind":"failure","id":"1","name":"host/shutdown","body":{"code":"denied","message":"this door may not send host/shutdown","details":{"frame":"host/shutdown"}}}
    > 2 unit {"kind":"request","id":"1","name":"my/own","body":{}}
    < warn: request refused {"frame":"my/own","reason":"the component does not declare my/own"}
    < write {"kind":"failure","id":"1","name":"my/own","body":{"code":"denied","message":"this door may not send my/own","details":{"frame":"my/own"}}}
    > 3 unit {"kind":"request","id":"1","name":"session/a","body":{}}
    < request session/a 1 {}
    > 4 unit {"kind":"request","id":"2","name":"session/a","body":{}}
    < request session/a 2 {}
    > 5 unit {"kind":"request","id":"3","name":"session/a","body":{}}
    < write {"kind":"failure","id":"3","name":"session/a","body":{"code":"overloaded","message":"too many requests wait for their answer","details":{"limit":"pending-requests-max"}}}
    "#);
}

#[test]
fn a_line_that_is_no_frame_is_answered_and_goes_no_further() {
    check("{", "a frame is a JSON object: EOF while parsing an object at line 1 column 1");
    check(
        "[]",
        "a frame is a JSON object: invalid type: sequence, expected a map at line 1 column 0",
    );
    check(
        "1 2",
        "a frame is a JSON object: invalid type: integer `1`, expected a map at line 1 column 1",
    );
    check(r#"{"kind":"request","id":"1","name":"a/b"}"#, "body is missing");
    check(r#"{"kind":"request","id":"1","body":{}}"#, "name is missing");
    check(r#"{"kind":"request","name":"a/b","body":{}}"#, "a request needs an id");
    check(r#"{"kind":"reply","name":"a/b","body":{}}"#, "a reply needs an id");
    check(r#"{"kind":"notice","id":"1","name":"a/b","body":{}}"#, "a notice has no id");
    check(
        r#"{"kind":"ask","name":"a/b","body":{}}"#,
        "kind must be request, reply, failure or notice",
    );
    check(r#"{"name":"a/b","body":{}}"#, "kind must be request, reply, failure or notice");
    check(r#"{"kind":"request","id":1,"name":"a/b","body":{}}"#, "id must be a string");
    check(
        r#"{"kind":"request","id":"1","session":null,"name":"a/b","body":{}}"#,
        "session must be a string",
    );
    check(
        r#"{"kind":"request","id":"1","sessionId":"s","name":"a/b","body":{}}"#,
        r#"unknown member "sessionId"; a frame has kind, session, id, name, body"#,
    );
    check(
        &format!(r#"{{"kind":"request","id":"{}","name":"a/b","body":{{}}}}"#, "i".repeat(257)),
        "id must have at most 256 bytes",
    );
    check(
        r#"{"kind":"reply","id":"1","name":"a/b","body":{}}"#,
        r#"no a/b of id "1" waits for an answer"#,
    );
}

#[test]
fn bytes_that_are_not_utf8_are_answered_too() {
    let (mut codec, _) = source().open(&setup(Framing::Lines)).expect("open");
    let bytes = b"{\"kind\":\"notice\",\"name\":\"\xff\",\"body\":{}}".to_vec();
    let unit = crate::codec::Unit { lane: 0, form: crate::codec::Form::Text, bytes };
    let outputs = codec.handle(0, crate::codec::Input::Unit(unit)).expect("outputs");
    let [crate::codec::Output::Unit(unit)] = outputs.as_slice() else { panic!("{outputs:?}") };
    let text = str::from_utf8(&unit.bytes).expect("text");
    assert!(text.contains("peer/malformed"), "{text}");
}

#[test]
fn an_id_that_is_pending_is_not_taken_again() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"session/a","body":{}}"#,
        r#"2 unit {"kind":"request","id":"1","name":"session/b","body":{}}"#,
        "3 frame reply 1 session/a",
        r#"4 unit {"kind":"request","id":"1","name":"session/b","body":{}}"#,
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"session/a","body":{}}
    < request session/a 1 {}
    > 2 unit {"kind":"request","id":"1","name":"session/b","body":{}}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"the request id \"1\" is still pending"}}
    > 3 frame reply 1 session/a
    < write {"kind":"reply","id":"1","name":"session/a","body":{}}
    > 4 unit {"kind":"request","id":"1","name":"session/b","body":{}}
    < request session/b 1 {}
    "#);
}

#[test]
fn the_last_of_equal_members_counts() {
    // Note 73.
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"notice","name":"tools/a","name":"tools/b","body":1,"body":2}"#
    ]), @r#"
    > 1 unit {"kind":"notice","name":"tools/a","name":"tools/b","body":1,"body":2}
    < notice tools/b 2
    "#);
}

#[test]
fn bodies_nest_as_deep_as_framing_lets_them() {
    // Decision 55.
    let body = "[".repeat(511) + &"]".repeat(511);
    let line = format!(r#"1 unit {{"kind":"notice","name":"tools/a","body":{body}}}"#);
    let transcript = tell(&[&line]);
    assert!(transcript.ends_with(&format!("< notice tools/a {body}\n")), "{transcript}");
}

#[test]
fn a_body_with_line_feeds_stays_on_one_line() {
    let transcript = tell(&["1 frame notice session/event {\n  \"text\":\n\"a\\nb\"\n}"]);
    let (_, written) = transcript.rsplit_once("< write ").expect("written");
    assert_eq!(
        written,
        "{\"kind\":\"notice\",\"name\":\"session/event\",\"body\":{   \"text\": \"a\\nb\" }}\n"
    );
}

#[test]
fn empty_lines_are_skipped_and_lost_ones_are_told() {
    assert_eq!(tell(&["1 unit ", "2 unit  \t\r"]), "> 1 unit \n> 2 unit  \t\r\n");
    assert_snapshot!(tell(&["3 too-long 999", "4 too-deep 1234", "5 unfinished {}"]), @r#"
    > 3 too-long 999
    < warn: unit skipped {"limit":"unit-bytes-max","bytes":999}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"a line of 999 bytes is longer than allowed"}}
    > 4 too-deep 1234
    < warn: unit skipped {"limit":"nesting-max","bytes":1234}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"a line of 1234 bytes nests deeper than allowed"}}
    > 5 unfinished {}
    < write {"kind":"notice","name":"peer/malformed","body":{"message":"the last line has no line feed"}}
    "#);
}

#[test]
fn at_its_end_the_peer_still_gets_every_answer() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"session/describe","body":{}}"#,
        r#"2 unit {"kind":"request","id":"2","name":"session/describe","body":{}}"#,
        "3 end",
        "4 frame reply 2 session/describe",
        "5 frame notice session/event",
        "6 frame reply 1 session/describe",
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"session/describe","body":{}}
    < request session/describe 1 {}
    > 2 unit {"kind":"request","id":"2","name":"session/describe","body":{}}
    < request session/describe 2 {}
    > 3 end
    > 4 frame reply 2 session/describe
    < write {"kind":"reply","id":"2","name":"session/describe","body":{}}
    > 5 frame notice session/event
    < write {"kind":"notice","name":"session/event","body":{}}
    > 6 frame reply 1 session/describe
    < write {"kind":"reply","id":"1","name":"session/describe","body":{}}
    < close None "the peer has ended"
    "#);
    assert_snapshot!(tell(&["1 end"]), @r#"
    > 1 end
    < close None "the peer has ended"
    "#);
}

#[test]
fn while_draining_what_was_asked_is_answered_and_nothing_new_is_begun() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"session/describe","body":{}}"#,
        "2 shutdown",
        r#"3 unit {"kind":"request","id":"2","name":"session/describe","body":{}}"#,
        "4 replaced",
        "5 frame reply 1 session/describe",
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"session/describe","body":{}}
    < request session/describe 1 {}
    > 2 shutdown
    > 3 unit {"kind":"request","id":"2","name":"session/describe","body":{}}
    < write {"kind":"failure","id":"2","name":"session/describe","body":{"code":"shutting-down","message":"the host is shutting down","details":{}}}
    > 4 replaced
    > 5 frame reply 1 session/describe
    < write {"kind":"reply","id":"1","name":"session/describe","body":{}}
    < close None "the host is shutting down"
    "#);
    assert_snapshot!(tell(&["1 replaced"]), @r#"
    > 1 replaced
    < close None "the door is being replaced"
    "#);
}

#[test]
fn a_wait_holds_up_nobodys_end() {
    // Decision 0005: it may take as long as a turn, and goes with its connection.
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"session/wait","body":{}}"#,
        r#"2 unit {"kind":"request","id":"2","name":"session/describe","body":{}}"#,
        "3 end",
        "4 frame reply 2 session/describe",
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"session/wait","body":{}}
    < request session/wait 1 {}
    > 2 unit {"kind":"request","id":"2","name":"session/describe","body":{}}
    < request session/describe 2 {}
    > 3 end
    > 4 frame reply 2 session/describe
    < write {"kind":"reply","id":"2","name":"session/describe","body":{}}
    < write {"kind":"failure","id":"1","name":"session/wait","body":{"code":"shutting-down","message":"the peer has ended","details":{}}}
    < close None "the peer has ended"
    "#);
}

#[test]
fn a_broken_wire_ends_at_once() {
    assert_snapshot!(tell(&[
        r#"1 unit {"kind":"request","id":"1","name":"session/wait","body":{}}"#,
        "2 broken EPIPE",
    ]), @r#"
    > 1 unit {"kind":"request","id":"1","name":"session/wait","body":{}}
    < request session/wait 1 {}
    > 2 broken EPIPE
    < close None "EPIPE"
    "#);
}

#[test]
fn a_state_that_it_does_not_know_is_refused() {
    let check = |source: &Arc<dyn CodecSource>, format, state: &[u8], expected: &str| {
        let refused = source.resume(&setup(Framing::Lines), format, state).err();
        let Some(CodecError::Fault(fault)) = refused else { panic!("{refused:?}") };
        assert_eq!(fault.to_string(), expected);
    };
    check(&source(), 2, b"{}", "unsupported: state format 2, but only 1 is known");
    check(&source(), 1, b"{}", "unsupported: missing field `asking` at line 1 column 2");
}
