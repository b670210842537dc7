//! The task and its outcome (A-152 to A-154).

use serde_json::{Value, json};

use super::*;
use crate::answer::TEXT_BYTES_MAX;

#[test]
fn a152_only_texts_are_handed_on() {
    let content = r#"[{"type":"text","text":"do \"it\""},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":"and more"}]"#;
    let asked = format!(r#"4 frame request agent/prompt id=a {{"content":{content}}}"#);
    let said = said_after(&[START, GREETED, OPENED], &[asked]);
    assert_eq!(
        said,
        [
            r#"unit {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"c","prompt":[{"type":"text","text":"do \"it\""},{"type":"text","text":"and more"}]}}"#
        ]
    );
    for content in ["[]", r#"[{"type":"image","data":"AAAA"}]"#, "7"] {
        let asked = format!(r#"4 frame request agent/prompt id=a {{"content":{content}}}"#);
        let said = said_after(&[START, GREETED, OPENED], &[asked]);
        assert_eq!(outcome(&said)["stopReason"], "error");
        assert_eq!(outcome(&said)["diagnostic"], "the task holds no text");
    }
}

#[test]
fn a154_each_stop_reason_has_its_word() {
    for (reason, expected) in [
        ("end_turn", "completed"),
        ("max_tokens", "max-tokens"),
        ("refusal", "refusal"),
        ("cancelled", "aborted"),
    ] {
        let ended = format!(r#"9 unit {{"id":2,"result":{{"stopReason":"{reason}"}}}}"#);
        let said = at_work(&[chunk("words"), ended]);
        let expected =
            json!({"output": [{"type": "text", "text": "words"}], "stopReason": expected});
        assert_eq!(outcome(&said), expected);
    }
}

#[test]
fn a154_a_failure_is_an_outcome_with_what_was_said_until_then() {
    let result = |result: &str| format!(r#"9 unit {{"id":2,"result":{result}}}"#);
    let table = [
        (
            result(r#"{"stopReason":"max_turn_requests"}"#),
            "ACP child reached its limit of requests in one turn",
            "remote-limit",
        ),
        (
            result(r#"{"stopReason":"tired"}"#),
            "ACP child ended its turn for a reason that the protocol does not have",
            "protocol",
        ),
        (result("{}"), "ACP child answered session/prompt with no result", "protocol"),
        (
            r#"9 unit {"id":2,"error":{"code":-32603,"message":"sk-1234"}}"#.to_owned(),
            "ACP child answered session/prompt with an error of code -32603",
            "unknown",
        ),
        ("9 end broken exit 3".to_owned(), "ACP connection closed", "transport"),
        ("9 end".to_owned(), "ACP connection closed", "transport"),
        (
            "9 skipped too-deep 5000".to_owned(),
            "ACP child wrote a line of 5000 bytes, which is nested deeper than a line may be",
            "protocol",
        ),
    ];
    for (end, message, category) in table {
        let said = at_work(&[chunk("half"), end]);
        let expected = json!({
            "output": [{"type": "text", "text": "half"}], "stopReason": "error",
            "diagnostic": message, "stage": "prompt", "category": category,
        });
        assert_eq!(outcome(&said), expected);
        assert!(!said.concat().contains("sk-1234"));
    }
}

#[test]
fn nothing_said_is_no_block() {
    assert_eq!(outcome(&at_work(&[ENDED])), json!({"output": [], "stopReason": "completed"}));
}

/// The text that is given back, and what an observer heard.
fn text(inputs: &[String]) -> (String, Vec<Value>) {
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).chain([ENDED]).collect();
    let said = at_work(&inputs);
    let heard = said
        .iter()
        .filter_map(|line| line.strip_prefix("frame notice agent/output "))
        .map(|body| serde_json::from_str(body).unwrap());
    let text = outcome(&said)["output"][0]["text"].as_str().unwrap_or_default().to_owned();
    (text, heard.collect())
}

#[test]
fn a153_the_last_message_is_the_answer() {
    let table: [(&[String], &str); 9] = [
        (&[chunk("a"), chunk("b")], "ab"),
        (&[chunk("a"), tool(), chunk("b")], "b"),
        (&[chunk("a"), tool()], "a"),
        (&[tool(), chunk("a"), chunk("b")], "ab"),
        (&[chunk_of("1", "a"), chunk_of("1", "b"), chunk_of("2", "c"), chunk_of("2", "d")], "cd"),
        // An agent that names only some of its messages has told of no boundary.
        (&[chunk_of("1", "a"), chunk("b"), chunk_of("1", "c")], "abc"),
        (&[chunk_of("1", "a"), tool(), chunk_of("1", "b")], "b"),
        (&[chunk("a"), tool(), chunk("")], "a"),
        (&[chunk("é你"), chunk("\\n\\ud83e\\udd80")], "é你\n🦀"),
    ];
    for (updates, expected) in table {
        assert_eq!(text(updates).0, expected, "{updates:?}");
    }
    let (_, heard) = text(&[chunk("a"), chunk("b"), tool(), chunk("c")]);
    assert_eq!(
        heard,
        [json!({"text": "a"}), json!({"text": "b"}), json!({"text": "c", "begins": true})]
    );
}

#[test]
fn a153_nothing_else_is_part_of_the_answer() {
    let image = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}"#;
    let thought =
        r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}"#;
    let foreign = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}"#;
    let foreign_tool = r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"x"}"#;
    let updates = [
        chunk("one "),
        update(image),
        update(thought),
        update(r#"{"sessionUpdate":"plan","entries":[]}"#),
        update(r#"{"sessionUpdate":"something_new"}"#),
        update("7"),
        update_of("some-other-session", foreign),
        update_of("some-other-session", foreign_tool),
        r#"5 unit {"jsonrpc":"2.0","method":"session/update"}"#.to_owned(),
        chunk("two"),
    ];
    assert_eq!(text(&updates).0, "one two");
    // Nor what came before the prompt, or behind its answer.
    let early =
        said_after(&[START, GREETED, OPENED], &[chunk("early"), ASKED.to_owned(), chunk("x")]);
    assert!(!early.concat().contains("early"), "{early:?}");
    assert_eq!(
        said_after(&[&AT_WORK[..], &[ENDED]].concat(), &[chunk("late")]),
        Vec::<String>::new()
    );
}

#[test]
fn an_endless_answer_is_cut_and_says_so() {
    let piece = "x".repeat(100_000);
    let updates: Vec<String> = (0..8).map(|_| chunk(&piece)).collect();
    let inputs: Vec<&str> = updates.iter().map(String::as_str).chain([ENDED]).collect();
    let outcome = outcome(&at_work(&inputs));
    let output = outcome["output"].as_array().unwrap();
    assert_eq!(output[0]["text"].as_str().unwrap().len(), TEXT_BYTES_MAX);
    let left_out = 800_000 - TEXT_BYTES_MAX;
    assert_eq!(output[1]["text"], format!("[cut here: {left_out} more bytes were left out]"));
    // Another message begins with all the room there is.
    let updates: Vec<String> = updates.into_iter().chain([tool(), chunk("short")]).collect();
    assert_eq!(text(&updates).0, "short");
}

#[test]
fn one_agent_has_one_task() {
    let again = r#"9 frame request agent/prompt id=b {"content":[{"type":"text","text":"x"}]}"#;
    let refused = r#"frame reply agent/prompt id=b {"output":[],"stopReason":"error","diagnostic":"this ACP child takes one task, once it has been started","stage":"prompt","category":"unknown"}"#;
    for before in [&[START][..], &[START, GREETED], &AT_WORK, &[&AT_WORK[..], &[ENDED]].concat()] {
        assert_eq!(said_after(before, &[again]), [refused]);
    }
}
