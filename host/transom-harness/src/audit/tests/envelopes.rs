//! What an event shows by itself, what the header shows, and the surface (L-4 to L-9).

use super::*;

#[test]
fn envelopes_have_their_members_and_no_others() {
    let check = |event: &str, expected: &str| {
        let found = audit(&header(), [event]).unwrap_err().to_string();
        assert_eq!(found, format!("seq 0: {expected}"), "{event}");
    };
    let needs = "an event needs a string type, integers seq and time of at least 0, and an object data (L-5)";
    check("[]", "not a JSON object (L-5)");
    check("{", "not a JSON object (L-5)");
    check(r#"{"type":"turn/start","seq":0,"data":{"turn":1}}"#, needs);
    check(r#"{"type":"turn/start","seq":0,"time":-1,"data":{"turn":1}}"#, needs);
    check(r#"{"type":"turn/start","seq":0,"time":1.5,"data":{"turn":1}}"#, needs);
    check(r#"{"type":7,"seq":0,"time":1,"data":{"turn":1}}"#, needs);
    check(r#"{"type":"turn/start","seq":0,"time":1,"data":[]}"#, needs);
    check(
        r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1},"more":1}"#,
        "\"more\" is no member of an event (L-5)",
    );
    check(
        r#"{"type":"turn/start","seq":0,"time":1,"time":2,"data":{"turn":1}}"#,
        "\"time\" stands there twice (L-5)",
    );
    check(
        r#"{"type":"turn/start","seq":1,"time":1,"data":{"turn":1}}"#,
        "seq must be 0, got 1 (L-5)",
    );
    check(
        r#"{"type":"other","seq":0,"time":1,"data":{},"ignorable":false}"#,
        "ignorable must be true or left out (L-5)",
    );
    check(
        r#"{"type":"other","seq":0,"time":1,"data":{}}"#,
        "the type \"other\" is unknown and not ignorable (L-17)",
    );
    check(
        r#"{"type":"feedback/record","seq":0,"time":1,"data":{}}"#,
        "feedback/record: \"text\" is missing, and must be a string (L-17)",
    );
    check(
        r#"{"type":"feedback/record","seq":0,"time":1,"data":{"text":"-0","more":[-0]}}"#,
        "session event \"feedback/record\" carries non-JSON-serializable data: the number -0 would not be read back \
         (L-6)",
    );
}

#[test]
fn an_unknown_type_that_is_ignorable_is_passed_over() {
    good(r#"{"type":"other","data":{"x":[1]},"ignorable":true}; @turn"#);
}

#[test]
fn times_need_not_rise() {
    // Decision 85.
    good(
        r#"{"type":"feedback/record","time":9,"data":{"text":"a"}}; {"type":"feedback/record","time":8,"data":{"text":"b"}}"#,
    );
}

#[test]
fn classes_say_how_events_are_written() {
    all_bad(&[
        (
            r#"{"type":"feedback/record","data":{"text":"x"},"surfaceOp":"append"}"#,
            "seq 0: feedback/record is not on the surface and must carry neither surfaceOp nor sourceEventSeqs (L-8)",
        ),
        (
            r#"{"type":"feedback/record","data":{"text":"x"},"sourceEventSeqs":[]}"#,
            "seq 0: sourceEventSeqs must not be empty on feedback/record (L-8)",
        ),
        (
            r#"in m1; {"type":"other","data":{},"ignorable":true,"sourceEventSeqs":[0]}"#,
            "seq 1: other is not on the surface and must carry neither surfaceOp nor sourceEventSeqs (L-8)",
        ),
        (
            r#"in m1; turn; claim turn; step; {"type":"user/message","data":{"id":"m1","role":"user","content":[],"source":{"kind":"user"}}}"#,
            "seq 4: user/message without surfaceOp (L-8)",
        ),
        (
            r#"{"type":"turn/start","data":{"turn":1},"ignorable":true}"#,
            "seq 0: turn/start must not be ignorable: a reader that passes over it folds another session (L-19)",
        ),
        (
            r#"{"type":"job/settled","data":{"jobId":"bash-1","status":"killed","finishedAt":1,"cause":"kill"}}"#,
            "seq 0: job/settled must be written with ignorable: true (L-19)",
        ),
    ]);
}

#[test]
fn the_header_holds() {
    let check = |header: Header, expected: &str| {
        let found = audit(&header, []).unwrap_err().to_string();
        assert_eq!(found, format!("header: {expected}"));
    };
    check(
        Header { cwd: Some("w".to_owned()), ..header() },
        "session header cwd must be an absolute path, got \"w\" (L-4)",
    );
    check(
        Header { created_at: 1 << 53, ..header() },
        "createdAt must be a safe integer, got 9007199254740992 (L-4)",
    );
    check(
        Header { delegation_depth: 1 << 53, ..header() },
        "delegationDepth must be a safe integer, got 9007199254740992 (L-4)",
    );
    check(fork(1 << 53), "seedLength must be a safe integer, got 9007199254740992 (L-4)");
    check(
        Header { seed_length: Some(1), ..header() },
        "seedLength without parentSession: a seed is copied from somewhere (L-11)",
    );
    let no_child =
        "origin subagent needs a parentSession and a delegationDepth of at least 1 (L-67)";
    check(Header { parent_session: None, ..child() }, no_child);
    check(Header { delegation_depth: 0, ..child() }, no_child);
    assert!(audit(&child(), []).is_ok());
    assert!(audit(&Header { cwd: Some("C:\\w".to_owned()), ..header() }, []).is_ok());
}

/// A message that takes the place of others, behind one turn with the nodes 4 and 12.
fn replacing(op: &str, sources: &str) -> String {
    let message =
        r#"{"id":"s","role":"user","content":[],"source":{"kind":"plugin","plugin":"c"}}"#;
    format!(r#"@turn; {{"type":"user/message","data":{message},"surfaceOp":{op}{sources}}}"#)
}

#[test]
fn replacements_name_what_they_hide() {
    let check = |op: &str, sources: &str, expected: &str| {
        bad(&replacing(op, sources), &format!("seq 15: {expected} (L-8)"));
    };
    let both = r#","sourceEventSeqs":[4,12]"#;
    good(&replacing(r#"{"op":"replace","start":4,"end":12}"#, both));
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        r#","sourceEventSeqs":[4]"#,
        "hides seq 12, which its sourceEventSeqs do not name",
    );
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        "",
        "hides seq 4, which its sourceEventSeqs do not name",
    );
    check(
        r#"{"op":"replace","start":12,"end":4}"#,
        both,
        "replaces from seq 12 to seq 4, which stands before it",
    );
    check(
        r#"{"op":"replace","start":5,"end":12}"#,
        both,
        "replaces from seq 5, which is not on the surface",
    );
    check(
        r#"{"op":"replace","start":4,"end":13}"#,
        both,
        "replaces to seq 13, which is not on the surface",
    );
    let right = r#"surfaceOp must be "append" or {"op":"replace","start":…,"end":…}, got"#;
    check(r#""prepend""#, "", &format!(r#"{right} "prepend""#));
    check(r#"{"op":"replace","start":4}"#, "", &format!(r#"{right} {{"op":"replace","start":4}}"#));
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        r#","sourceEventSeqs":[4,12,15]"#,
        "sourceEventSeqs must be distinct seqs of earlier events, got [4, 12, 15]",
    );
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        r#","sourceEventSeqs":[4,12,4]"#,
        "sourceEventSeqs must be distinct seqs of earlier events, got [4, 12, 4]",
    );
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        r#","sourceEventSeqs":["4"]"#,
        "sourceEventSeqs must be an array of seqs",
    );
    check(
        r#"{"op":"replace","start":4,"end":12}"#,
        r#","sourceEventSeqs":[]"#,
        "sourceEventSeqs must not be empty on user/message",
    );
    // What is hidden cannot be named again.
    let again = r#"{"type":"user/message","data":{"id":"t","role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":{"op":"replace","start":4,"end":15},"sourceEventSeqs":[4,15]}"#;
    let script = format!("{}; {again}", replacing(r#"{"op":"replace","start":4,"end":12}"#, both));
    bad(&script, "seq 16: replaces from seq 4, which is not on the surface (L-8)");
}

#[test]
fn a_result_of_a_tool_replaces_only_its_own_content() {
    let expected = "seq 14: a tool/result must replace exactly one tool/result, and change only its content (L-8)";
    for (id, op, sources, is_error) in [
        ("c", r#"{"op":"replace","start":11,"end":13}"#, "[11,13]", false),
        ("c", r#"{"op":"replace","start":11,"end":11}"#, "[11]", false),
        ("c", r#"{"op":"replace","start":13,"end":13}"#, "[13]", true),
        ("d", r#"{"op":"replace","start":13,"end":13}"#, "[13]", false),
    ] {
        let pruned = stories::result_of(id, 13, op, sources, "gone", is_error);
        bad(&format!("@called c; call c; result c; {pruned}"), expected);
    }
}
