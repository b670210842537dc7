//! `session/new`: its checks in their order, the subscription ahead of it, and what comes of it.

use serde_json::json;

use super::*;

const SUBSCRIBE: &str = r#"frame request events/subscribe id=1 {"scope":"owned","topics":["events","status","inbox","asks","errors","sessions"]}"#;

fn new(params: &str) -> Vec<String> {
    said(&[format!(r#"0 unit {{"id":4,"method":"session/new","params":{params}}}"#)])
}

#[test]
fn row_6_a_session_is_opened_behind_the_subscription() {
    // A-37: the directory as it was sent, an id of the host, and no other member.
    let opened = said(&[
        r#"0 unit {"id":1,"method":"session/new","params":{"_meta":{"x":1},"additionalDirectories":[],"mcpServers":[],"cwd":"/a/../b \"c\""}}"#,
        r#"1 frame reply events/subscribe id=1 {"subscription":"e1"}"#,
        r#"2 frame reply session/open session=0b0e id=2 {"created":true}"#,
        r#"3 unit {"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[],"additionalDirectories":null}}"#,
    ]);
    assert_eq!(
        opened,
        [
            SUBSCRIBE,
            r#"frame request session/open id=2 {"want":"new","mint":"uuid","owner":"connection","cwd":"/a/../b \"c\""}"#,
            r#"unit {"jsonrpc":"2.0","id":1,"result":{"sessionId":"0b0e"}}"#,
            r#"frame request session/open id=3 {"want":"new","mint":"uuid","owner":"connection","cwd":"/w"}"#,
        ]
    );
}

#[test]
fn sessions_that_wait_for_the_subscription_are_opened_in_order() {
    let opened = said(&[
        r#"0 unit {"id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}"#,
        r#"0 unit {"id":2,"method":"session/new","params":{"cwd":"/b","mcpServers":[]}}"#,
        r#"1 frame reply events/subscribe id=1 {}"#,
        r#"2 frame reply session/open session=sa id=2 {}"#,
        r#"2 frame reply session/open session=sb id=3 {}"#,
    ]);
    assert_eq!(
        opened[3..],
        [answered("1", r#"{"sessionId":"sa"}"#), answered("2", r#"{"sessionId":"sb"}"#)]
    );
}

#[test]
fn row_7_a_directory_must_be_absolute() {
    for cwd in ["relative", "./x", "", "~/x"] {
        let message = format!("Invalid params: cwd must be an absolute path: {cwd}");
        assert_eq!(
            new(&format!(r#"{{"cwd":"{cwd}","mcpServers":[]}}"#)),
            [refused("4", -32602, &message)]
        );
    }
}

#[test]
fn row_8_row_9_row_10_what_is_not_served_is_refused_in_order() {
    // A-33, A-34: never silently dropped.
    let stdio = r#"{"name":"fs","command":"/bin/true","args":[],"env":[]}"#;
    let http = r#"{"type":"http","name":"x","url":"http://127.0.0.1:9/","headers":[]}"#;
    let sse = http.replace("http\"", "sse\"");
    let both = "Invalid params: additionalDirectories is not supported";
    for (params, message) in [
        (r#"{"cwd":"/w","mcpServers":[],"additionalDirectories":["/e"]}"#.to_owned(), both),
        (format!(r#"{{"cwd":"/w","mcpServers":[{stdio}],"additionalDirectories":["/e"]}}"#), both),
        (
            format!(r#"{{"cwd":"/w","mcpServers":[{stdio}]}}"#),
            "Invalid params: mcpServers is not supported",
        ),
        (
            format!(r#"{{"cwd":"/w","mcpServers":[{http}]}}"#),
            "Invalid params: mcpServers is not supported",
        ),
        (
            format!(r#"{{"cwd":"/w","mcpServers":[{sse}]}}"#),
            "Invalid params: mcpServers is not supported",
        ),
        (
            format!(r#"{{"cwd":"r","mcpServers":[{stdio}],"additionalDirectories":["/e"]}}"#),
            "Invalid params: cwd must be an absolute path: r",
        ),
    ] {
        assert_eq!(new(&params), [refused("4", -32602, message)], "{params}");
    }
}

#[test]
fn row_11_wrong_shapes_are_refused_with_a_tree() {
    // A-24, A-35: the schema comes first.
    let received =
        |what: &str, kind: &str| format!("Invalid input: expected {what}, received {kind}");
    for (params, tree) in [
        (
            r#"{"mcpServers":[]}"#,
            json!({"_errors": [], "cwd": {"_errors": [received("string", "undefined")]}}),
        ),
        (
            r#"{"cwd":5,"mcpServers":[]}"#,
            json!({"_errors": [], "cwd": {"_errors": [received("string", "number")]}}),
        ),
        (
            r#"{"cwd":"r"}"#,
            json!({"_errors": [], "mcpServers": {"_errors": [received("array", "undefined")]}}),
        ),
        (
            r#"{"cwd":"/w","mcpServers":null}"#,
            json!({"_errors": [], "mcpServers": {"_errors": [received("array", "null")]}}),
        ),
        (
            r#"{"cwd":"/w","mcpServers":[],"additionalDirectories":"x"}"#,
            json!({"_errors": [], "additionalDirectories": {"_errors": [received("array", "string")]}}),
        ),
        (
            r#"{"cwd":"/w","mcpServers":[],"additionalDirectories":["/a",1]}"#,
            json!({"_errors": [], "additionalDirectories": {"_errors": [], "1": {"_errors": [received("string", "number")]}}}),
        ),
        (
            r#"{"cwd":"/w","mcpServers":[7]}"#,
            json!({"_errors": [], "mcpServers": {"_errors": [], "0": {"_errors": [received("object", "number")]}}}),
        ),
        ("[]", json!({"_errors": [received("object", "array")]})),
    ] {
        let said = new(params);
        assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()), "{params}");
        assert_eq!(data(&said), tree, "{params}");
    }
    let nonsense = new(r#"{"cwd":"/w","mcpServers":[{"nonsense":true}]}"#);
    assert_eq!(
        data(&nonsense)["mcpServers"]["0"]["name"]["_errors"][0],
        received("string", "undefined")
    );
}

#[test]
fn a_tree_of_complaints_has_an_end() {
    let many = vec!["0"; 100_000].join(",");
    let said = new(&format!(r#"{{"cwd":"/w","mcpServers":[{many}]}}"#));
    assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()));
    assert!(said[0].len() < 8_000, "{}", said[0].len());
}

#[test]
fn a_session_that_the_host_refuses_is_refused_with_its_words() {
    // A-25.
    let refused = said(&[
        OPENED[0],
        OPENED[1],
        r#"1 frame failure session/open id=2 {"code":"overloaded","message":"too many","details":{"limit":"sessions-max"}}"#,
    ]);
    assert_eq!(
        refused[2],
        r#"unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"too many"}}}"#
    );
}

#[test]
fn a_subscription_that_fails_fails_whoever_waits_and_is_tried_again() {
    let failed = said(&[
        OPENED[0],
        r#"1 frame failure events/subscribe id=1 {"code":"denied","message":"no","details":{}}"#,
        r#"2 unit {"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
    ]);
    assert_eq!(refusal(&failed[1..2]), (-32603, "Internal error".to_owned()));
    assert_eq!(failed[2], SUBSCRIBE.replace("id=1", "id=2"));
}

#[test]
fn a_path_longer_than_any_is_refused() {
    let cwd = "/x".repeat(3_000);
    assert_eq!(
        new(&format!(r#"{{"cwd":"{cwd}","mcpServers":[]}}"#)),
        [refused("4", -32602, "Invalid params: cwd is longer than 4096 bytes")]
    );
}

#[test]
fn a_client_that_opens_without_listening_is_stopped() {
    let mut inputs: Vec<String> = OPENED[..2].iter().map(|line| (*line).to_owned()).collect();
    let line = r#"1 unit {"id":9,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
    inputs.extend(vec![line.to_owned(); crate::conversation::OPENING_MAX]);
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let played = play_with::<Conversation>(setup(), &inputs);
    let last = played.lines().last().expect("an answer");
    assert!(last.contains("this connection has all the sessions that it may"), "{last}");
    assert_eq!(
        played.matches("< frame request session/open").count(),
        crate::conversation::OPENING_MAX
    );
}
