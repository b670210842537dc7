//! How a line is read: what is answered with `id: null`, what is ignored, which ids come back.

use super::*;

const INVALID: &str =
    r#"unit {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#;
const PARSE: &str =
    r#"unit {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
const BATCH: &str = r#"unit {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: JSON-RPC batches are not supported"}}"#;

/// A request that every connection that goes on answers.
const PROBE: &str =
    r#"1 unit {"jsonrpc":"2.0","id":"p","method":"authenticate","params":{"methodId":"x"}}"#;

#[test]
fn row_42_a_bad_line_is_answered_and_the_connection_goes_on() {
    // A-11, A-13; nothing of the line is repeated.
    for (line, answer) in [
        ("this is not json", PARSE),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}"#, PARSE),
        (r#"{"id":1,"method":"initialize"} {}"#, PARSE),
        ("[1,", PARSE),
        ("nul", PARSE),
        ("[]", BATCH),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}]"#,
            BATCH,
        ),
        ("42", INVALID),
        (r#""s""#, INVALID),
        ("true", INVALID),
        ("null", INVALID),
        ("{}", INVALID),
        (r#"{"jsonrpc":"2.0","params":{}}"#, INVALID),
        (r#"{"id":1,"method":5}"#, INVALID),
        (r#"{"id":1,"method":null}"#, INVALID),
        (r#"{"method":["session/cancel"]}"#, INVALID),
        (r#"{"id":{"a":1},"method":"initialize","params":{"protocolVersion":1}}"#, INVALID),
        (r#"{"id":[1],"method":"initialize"}"#, INVALID),
        (r#"{"id":true,"method":"initialize"}"#, INVALID),
        (r#"{"id":false,"result":{}}"#, INVALID),
        (r#"{"jsonrpc":"1.0","id":1,"method":"initialize"}"#, INVALID),
        (r#"{"jsonrpc":2.0,"id":1,"method":"initialize"}"#, INVALID),
        (r#"{"jsonrpc":null,"method":"session/cancel"}"#, INVALID),
    ] {
        let said = said(&[&format!("0 unit {line}"), PROBE]);
        assert_eq!(said, [answer.to_owned(), answered("\"p\"", "{}")], "{line}");
    }
}

#[test]
fn a_14_a_15_responses_and_notifications_are_not_answered() {
    for line in [
        r#"{"jsonrpc":"2.0","id":999,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"3.0","id":"a","result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
        r#"{"method":"_whatever"}"#,
        "",
        "  \u{feff}\t ",
    ] {
        assert_eq!(said(&[&format!("0 unit {line}"), PROBE]), [answered("\"p\"", "{}")], "{line}");
    }
}

#[test]
fn row_44_an_id_comes_back_as_it_was() {
    // A-12.
    for (id, echoed) in [
        ("null", "null"),
        (r#""a""#, r#""a""#),
        (r#""\u0061\"""#, r#""a\"""#),
        ("0", "0"),
        ("-7", "-7"),
        ("1.5", "1.5"),
        ("12345678901234567890", "12345678901234567890"),
    ] {
        let line =
            format!(r#"0 unit {{"id":{id},"method":"authenticate","params":{{"methodId":""}}}}"#);
        assert_eq!(said(&[line]), [answered(echoed, "{}")], "{id}");
    }
    let long = format!(r#"0 unit {{"id":"{}","method":"initialize"}}"#, "x".repeat(1_100));
    let message = "Invalid request: the id is longer than 1024 bytes";
    assert_eq!(
        said(&[long.as_str(), PROBE]),
        [refused("null", -32600, message), answered("\"p\"", "{}")]
    );
}

#[test]
fn row_43_white_space_and_a_missing_line_feed_do_no_harm() {
    // A-8, A-9, A-13: pieces are the framing's to join.
    let request = r#"{"id":1,"extra":true,"method":"authenticate","params":{"methodId":"x"}}"#;
    for line in [
        format!("0 unit {request}"),
        format!("0 unit   {request}  \r"),
        format!("0 unfinished {request}"),
    ] {
        assert_eq!(said(&[line]), [answered("1", "{}")]);
    }
}

#[test]
fn a_21_a_line_over_the_bounds_is_answered() {
    assert_eq!(
        said(&["0 skipped too-long 33554433", "0 skipped too-deep 900", PROBE]),
        [
            refused(
                "null",
                -32600,
                "Invalid request: what has 33554433 bytes is longer than a line may be"
            ),
            refused(
                "null",
                -32600,
                "Invalid request: what has 900 bytes is nested deeper than a line may be"
            ),
            answered("\"p\"", "{}"),
        ]
    );
}

#[test]
fn a_21_a_line_that_is_no_utf_8_may_not_become_longer_than_a_line() {
    use crate::message::line;

    let short = b"a\xffb\xe4\xb8c".to_vec();
    assert_eq!(line(short).as_deref(), Ok("a\u{fffd}b\u{fffd}c"));
    let long = vec![0xff; 11_184_811];
    let skipped = line(long).expect_err("three bytes of each");
    assert_eq!((skipped.why, skipped.bytes), (transom_guest::Excess::TooLong, 33_554_433));
    assert_eq!(line(vec![0xff; 11_184_810]).map(|line| line.len()), Ok(33_554_430));
}

#[test]
fn the_last_of_two_members_counts() {
    // Decision 73.
    let line = r#"0 unit {"id":1,"id":2,"method":"x","method":"authenticate","params":{},"params":{"methodId":"x"}}"#;
    assert_eq!(said(&[line]), [answered("2", "{}")]);
}
