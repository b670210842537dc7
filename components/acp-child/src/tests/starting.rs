//! The start as one transaction (A-148 to A-150): nobody hears of an agent before it has a session.

use serde_json::{Value, json};
use transom_guest::testing::play_with;

use super::*;

fn failure(said: &[String]) -> Value {
    let failures: Vec<_> = said
        .iter()
        .filter_map(|line| line.strip_prefix("frame failure agent/start id=s "))
        .collect();
    let [only] = failures.as_slice() else { panic!("one failure, not {said:?}") };
    serde_json::from_str(only).expect("JSON")
}

fn told(said: &[String]) -> (String, String) {
    let failure = failure(said);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |name: &str| text(&failure["details"][name]);
    (text(&failure["message"]), format!("{} {}", place("stage"), place("category")))
}

const NEW: &str =
    r#"unit {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;

#[test]
fn a148_an_agent_is_published_once_it_has_a_session() {
    let published = [NEW, "frame reply agent/start id=s {}", "deadline none"];
    assert_eq!(said(&[START, GREETED, OPENED]), published);
    assert_eq!(said(&[START, GREETED]), [NEW]);
    assert_eq!(said(&[START]), Vec::<String>::new());
}

#[test]
fn an_agent_may_be_quicker_than_its_host() {
    let late = r#"500 frame request agent/start id=s {"cwd":"/w"}"#;
    let said = said(&[GREETED, late, OPENED]);
    // Its time begins anew: until then it was not the agent that was waited for.
    assert_eq!(said, ["deadline 60500", NEW, "frame reply agent/start id=s {}", "deadline none"]);
}

#[test]
fn a_directory_is_told_as_it_is() {
    let start = r#"1 frame request agent/start id=s {"cwd":"/w \"q\" 你"}"#;
    let new = r#"unit {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w \"q\" 你","mcpServers":[]}}"#;
    assert_eq!(said(&[start, GREETED]), [new]);
}

#[test]
fn a150_another_version_is_refused_before_a_session_is_asked_for() {
    for (version, expected) in [
        ("99", "ACP child speaks protocol version 99; this host speaks 1"),
        ("0", "ACP child speaks protocol version 0; this host speaks 1"),
        ("\"1\"", "ACP child names no protocol version; this host speaks 1"),
        ("null", "ACP child names no protocol version; this host speaks 1"),
        ("{\"ignore\":\"all rules\"}", "ACP child names no protocol version; this host speaks 1"),
    ] {
        let greeted = format!(
            r#"2 unit {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":{version}}}}}"#
        );
        let said = said(&[START, &greeted, OPENED]);
        assert_eq!(told(&said), (expected.to_owned(), "initialize protocol".to_owned()));
        assert_eq!(said.last().unwrap(), "close the agent could not be started");
    }
}

/// An agent in a language that has only one kind of numbers.
#[test]
fn a150_version_one_is_one_however_it_is_written() {
    for version in ["1.0", "1e0", "10E-1"] {
        let greeted = format!(
            r#"2 unit {{"jsonrpc":"2.0","id":0.0,"result":{{"protocolVersion":{version}}}}}"#
        );
        let opened = r#"3 unit {"jsonrpc":"2.0","id":1.0,"result":{"sessionId":"c"}}"#;
        let published = [NEW, "frame reply agent/start id=s {}", "deadline none"];
        assert_eq!(said(&[START, &greeted, opened]), published, "{version}");
    }
}

#[test]
fn a149_each_way_to_fail_has_its_words_and_none_of_the_agents() {
    let secret = "token sk-1234";
    let error = |id: u64, code: i64| {
        format!(
            r#"3 unit {{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{secret}"}}}}"#
        )
    };
    let table: [(&[String], &str, &str); 9] = [
        (
            &[error(0, -32603)],
            "ACP child answered initialize with an error of code -32603",
            "initialize unknown",
        ),
        (
            &[GREETED.to_owned(), error(1, -32000)],
            "ACP child requires authentication: it answered session/new with code -32000; log in to it once outside of this host",
            "new-session unknown",
        ),
        (
            &[GREETED.to_owned(), error(1, -32603)],
            "ACP child answered session/new with an error of code -32603",
            "new-session unknown",
        ),
        (
            &[GREETED.to_owned(), r#"3 unit {"id":1,"result":{}}"#.to_owned()],
            "ACP child published without a session id",
            "new-session protocol",
        ),
        (
            &[GREETED.to_owned(), r#"3 unit {"id":1,"result":{"sessionId":7}}"#.to_owned()],
            "ACP child published without a session id",
            "new-session protocol",
        ),
        (
            &[r#"3 unit {"id":0}"#.to_owned()],
            "ACP child answered initialize with no result",
            "initialize protocol",
        ),
        (&["3 end".to_owned()], "ACP connection closed", "initialize transport"),
        (
            &[GREETED.to_owned(), "3 end broken exit 3".to_owned()],
            "ACP connection closed",
            "new-session transport",
        ),
        (
            &["3 skipped too-long 70000".to_owned()],
            "ACP child wrote a line of 70000 bytes, which is longer than a line may be",
            "initialize protocol",
        ),
    ];
    for (inputs, message, place) in table {
        let inputs: Vec<&str> =
            [START].into_iter().chain(inputs.iter().map(String::as_str)).collect();
        let said = said(&inputs);
        assert_eq!(told(&said), (message.to_owned(), place.to_owned()), "{inputs:?}");
        assert_eq!(failure(&said)["code"], "agent-failed");
        assert!(said.last().unwrap().starts_with("close "), "{said:?}");
        assert!(!said.concat().contains(secret), "{said:?}");
    }
    // The operator is told what the agent has said.
    let noted = notes(&[START, &error(0, -32603)]);
    assert_eq!(
        noted,
        [format!(r#"agent-error {{"stage":"initialize","code":-32603,"message":"{secret}"}}"#)]
    );
}

#[test]
fn an_agent_that_fails_before_it_is_asked_for_is_told_of_when_it_is() {
    for end in ["0 end", "0 end broken exit 7"] {
        let said = said(&[end, START]);
        assert_eq!(told(&said).0, "ACP connection closed");
        assert_eq!(said.len(), 2, "{said:?}");
    }
    let greeted = r#"0 unit {"id":0,"result":{"protocolVersion":2}}"#;
    assert_eq!(told(&said(&[greeted, START])).1, "initialize protocol");
}

#[test]
fn a150_a_mute_agent_is_given_up() {
    let late = said(&[START, "60000 deadline"]);
    let message = "ACP child did not answer initialize within 60000 ms of its start";
    assert_eq!(told(&late).0, message);
    assert_eq!(failure(&late)["code"], "timeout");
    let late = said(&[START, GREETED, "60000 deadline"]);
    assert_eq!(told(&late).0, message.replace("initialize", "session/new"));
    // Nothing is late once it is published.
    assert_eq!(said_after(&[START, GREETED, OPENED], &["60000 deadline"]), Vec::<String>::new());
    assert_eq!(said_after(&[GREETED], &["60000 deadline"]), Vec::<String>::new());
}

#[test]
fn a149_a_start_that_nobody_wants_any_more_is_refused() {
    let cancel = r#"5 frame notice agent/cancel {"id":"s","reason":"aborted"}"#;
    for before in [&[START][..], &[START, GREETED]] {
        for end in [cancel, "5 drain shutdown"] {
            let inputs: Vec<&str> = before.iter().copied().chain([end]).collect();
            let said = said(&inputs);
            let failure = failure(&said);
            assert_eq!(failure["code"], "cancelled");
            assert_eq!(
                failure["message"],
                "subagent request was aborted before the ACP child started"
            );
            assert!(said.last().unwrap().starts_with("close "), "{said:?}");
        }
    }
    let other = r#"5 frame notice agent/cancel {"id":"x","reason":"aborted"}"#;
    assert_eq!(said(&[START, other]), Vec::<String>::new());
}

#[test]
fn an_agent_is_started_once() {
    let again = r#"6 frame request agent/start id=t {"cwd":"/v"}"#;
    let refused = r#"frame failure agent/start id=t {"code":"invalid","message":"an agent is started once","details":{"issues":["an agent is started once"]}}"#;
    for before in [&[START][..], &[START, GREETED], &[START, GREETED, OPENED], &AT_WORK] {
        assert_eq!(said_after(before, &[again]), [refused]);
    }
    let nowhere = r#"1 frame request agent/start id=t {"cwd":7}"#;
    assert!(said(&[nowhere])[0].contains("cwd must be a text"));
}

#[test]
fn options_are_held_to_their_names_and_bounds() {
    let opened = |options: &str| play_with::<Conversation>(with_options(options), &[]);
    assert!(opened(r#"{"startMs":250}"#).ends_with("< deadline 250\n"));
    for (options, why) in [
        (
            r#"{"startMs":0}"#,
            "! unsupported: option startMs is 0; it must be a whole number from 1 to 2147483647\n",
        ),
        (
            r#"{"startMs":2147483648}"#,
            "! unsupported: option startMs is 2147483648; it must be a whole number from 1 to 2147483647\n",
        ),
        (
            r#"{"startMs":"5"}"#,
            "! unsupported: option startMs is \"5\"; it must be a whole number from 1 to 2147483647\n",
        ),
        (r#"{"start":5}"#, "! unsupported: option start is unknown; known is startMs\n"),
        ("[]", "! unsupported: options are no JSON object: []\n"),
    ] {
        assert_eq!(opened(options), why);
    }
    let limit = |start: &str| {
        let played =
            play_with::<Conversation>(with_options(r#"{"startMs":250}"#), &[start, "250 deadline"]);
        played.contains("did not answer initialize within 250 ms")
    };
    assert!(limit(START));
}

#[test]
fn a_request_that_is_none_of_ours_is_refused() {
    let said = said(&[r#"1 frame request tools/call id=x {}"#]);
    let body: Value =
        serde_json::from_str(said[0].strip_prefix("frame failure tools/call id=x ").unwrap())
            .unwrap();
    assert_eq!(body["code"], "unknown-frame");
    assert_eq!(body["details"], json!({"frame": "tools/call"}));
}
