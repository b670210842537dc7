//! Lines of an agent, as they are taken.

use super::*;
use crate::message::{Incoming, Outcome, classify};

fn kind(line: &str) -> String {
    match classify(line) {
        Incoming::Blank => "blank".to_owned(),
        Incoming::Noise => "noise".to_owned(),
        Incoming::Request(request) => format!("request {} {}", request.id.0, request.method),
        Incoming::Notification(notification) => format!("notification {}", notification.method),
        Incoming::Response(response) => {
            let id = response.id.map_or("?".to_owned(), |id| id.to_string());
            match response.outcome {
                Outcome::Result(result) => format!("result {id} {result}"),
                Outcome::Error(refused) => {
                    format!("error {id} {} {}", refused.code, refused.message)
                }
                Outcome::Nothing => format!("nothing {id}"),
            }
        }
    }
}

#[test]
fn a_line_is_what_its_members_say() {
    for (line, expected) in [
        ("", "blank"),
        (" \t\u{feff}", "blank"),
        ("Loading configuration…", "noise"),
        ("{\"half\":", "noise"),
        ("[{\"id\":1}]", "noise"),
        ("7", "noise"),
        ("null", "noise"),
        ("{}", "noise"),
        (r#"{"id":{},"method":"m"}"#, "noise"),
        (r#"{"method":7}"#, "noise"),
        (r#"{"id":1,"result":{}} x"#, "noise"),
        (r#"{"id":1,"method":"m"}"#, "request 1 m"),
        (r#"{"id":null,"method":"m"}"#, "request null m"),
        (r#" {"id":"a","method":"m","params":[]} "#, "request \"a\" m"),
        (r#"{"method":"m"}"#, "notification m"),
        (r#"{"id":1,"result":{"a":1}}"#, r#"result 1 {"a":1}"#),
        (r#"{"id":1,"result":null}"#, "result 1 null"),
        (r#"{"id":1,"result":1,"error":null}"#, "result 1 1"),
        (r#"{"id":1,"result":1,"error":{"code":5,"message":"m"}}"#, "error 1 5 m"),
        (r#"{"id":1,"error":7}"#, "error 1 0 "),
        (r#"{"id":1}"#, "nothing 1"),
        (r#"{"id":"1","result":1}"#, "result ? 1"),
        (r#"{"id":1.5,"result":1}"#, "result ? 1"),
        (r#"{"id":-1,"result":1}"#, "result ? 1"),
        // Numbers of JSON are equal by what they say.
        (r#"{"id":2.0,"result":1}"#, "result 2 1"),
        (r#"{"id":1e0,"result":1}"#, "result 1 1"),
        (r#"{"id":1,"id":2,"result":1}"#, "result 2 1"),
        // The version is let pass: what an agent means by another one it says in its members.
        (r#"{"jsonrpc":"1.0","id":1,"result":1}"#, "result 1 1"),
    ] {
        assert_eq!(kind(line), expected, "{line}");
    }
}

#[test]
fn what_is_no_message_is_passed_over_and_told_once() {
    let noise = ["4 unit Welcome!", "4 unit [1]", r#"4 unit {"id":99,"result":1}"#, "4 unit "];
    let inputs: Vec<&str> = [START, GREETED, OPENED, ASKED]
        .into_iter()
        .chain(noise)
        .chain([ENDED, "9 drain shutdown"])
        .collect();
    assert_eq!(outcome(&said(&inputs))["stopReason"], "completed");
    assert_eq!(notes(&inputs), ["line-ignored {}", r#"lines-ignored {"lines":3}"#]);
}

#[test]
fn a_last_line_without_its_end_counts() {
    let said = at_work(&[r#"9 unfinished {"id":2,"result":{"stopReason":"end_turn"}}"#]);
    assert_eq!(outcome(&said)["stopReason"], "completed");
}
