//! Histories and the bodies they become (L-88 to L-90; rows 40 and 41 of the checklist).

use std::sync::Arc;

use serde_json::json;
use transom_harness::{message::Source, ports::Served};

use super::*;

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        session: "main".into(),
        served: Served {
            provider: "deepseek-official".into(),
            model: "m".into(),
            max_tokens: None,
            reasoning_effort: None,
            max_tokens_is_default: false,
            reasoning_effort_is_default: false,
            context_window: None,
            images: false,
        },
        system: None,
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::from([]),
    }
}

fn message(role: Role, content: &str) -> Message {
    blocks(role, serde_json::from_str(content).unwrap())
}

fn blocks(role: Role, content: Vec<Block>) -> Message {
    Message { id: "m".into(), role, content, source: Source::user() }
}

fn result(id: &str, content: &str) -> Block {
    let content = serde_json::from_str(content).unwrap();
    Block::ToolResult { tool_call_id: id.into(), content, is_error: false }
}

fn rendered(request: &ModelRequest) -> Value {
    serde_json::from_slice(&render(request, true).unwrap()).unwrap()
}

#[test]
fn the_worked_example_is_as_specified() {
    let mut request = request(vec![
        message(Role::User, r#"[{"type":"text","text":"hi"}]"#),
        message(
            Role::Assistant,
            r#"[{"type":"reasoning","text":"r"},{"type":"tool-call","id":"c1","name":"bash","arguments":"{}"}]"#,
        ),
        blocks(Role::User, vec![result("c1", "[]")]),
    ]);
    request.system = Some("S".into());
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"hi"},"#,
        r#"{"role":"assistant","content":"","reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","#,
        r#""function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"(no output)"}],"#,
        r#""stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!(String::from_utf8(render(&request, true).unwrap()).unwrap(), expected);
}

#[test]
fn messages_are_said_in_the_fixed_way() {
    let table = [
        (Role::User, "[]", json!([{"role": "user", "content": ""}])),
        (
            Role::User,
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
            json!([{"role": "user", "content": "ab"}]),
        ),
        // A text block that was kept verbatim is still text.
        (
            Role::User,
            r#"[{"text":"a","type":"text","x":1}]"#,
            json!([{"role": "user", "content": "a"}]),
        ),
        (
            Role::Assistant,
            r#"[{"type":"reasoning","text":"r"}]"#,
            json!([{"role": "assistant", "content": ""}]),
        ),
        (
            Role::Assistant,
            r#"[{"type":"reasoning","text":"r"},{"type":"text","text":"t"}]"#,
            json!([{"role": "assistant", "content": "t"}]),
        ),
        (
            Role::Assistant,
            r#"[{"type":"tool-call","id":"c","name":"f","arguments":"not json"}]"#,
            json!([{"role": "assistant", "content": "", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "not json"}},
            ]}]),
        ),
        (
            Role::System,
            r#"[{"type":"text","text":"s"}]"#,
            json!([{"role": "system", "content": "s"}]),
        ),
    ];
    for (role, content, expected) in table {
        assert_eq!(
            rendered(&request(vec![message(role, content)]))["messages"],
            expected,
            "{content}"
        );
    }
}

#[test]
fn results_become_messages_of_their_own_behind_the_text() {
    let message = blocks(
        Role::User,
        vec![
            result("c", r#"[{"type":"text","text":"o"},{"type":"text","text":"k"}]"#),
            Block::text("and"),
            result("d", r#"[{"type":"text","text":""}]"#),
        ],
    );
    let expected = json!([
        {"role": "user", "content": "and"},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
        {"role": "tool", "tool_call_id": "d", "content": "(no output)"},
    ]);
    assert_eq!(rendered(&request(vec![message]))["messages"], expected);
}

#[test]
fn what_cannot_be_said_is_refused() {
    let image = "The DeepSeek chat-completions adapter does not support image content.";
    let read = |content: &str| serde_json::from_str::<Vec<Block>>(content).unwrap();
    let table = [
        (read(r#"[{"type":"image","attachment":{}}]"#), image),
        (vec![result("c", r#"[{"type":"image","attachment":{}}]"#)], image),
        (
            read(r#"[{"type":"widget"}]"#),
            "The DeepSeek chat-completions adapter does not support \"widget\" content.",
        ),
    ];
    for (content, expected) in table {
        let failure = render(&request(vec![blocks(Role::User, content)]), true).unwrap_err();
        assert_eq!(failure, LlmFailure::new("UNSUPPORTED_CONTENT", expected));
    }
}

/// L-89.
#[test]
fn effort_becomes_thinking() {
    let table = [
        (None, Value::Null, Value::Null),
        (Some("off"), json!({"type": "disabled"}), Value::Null),
        (Some("high"), json!({"type": "enabled"}), json!("high")),
        (Some("max"), json!({"type": "enabled"}), json!("max")),
    ];
    for (effort, thinking, reasoning_effort) in table {
        let mut request = request(vec![]);
        request.served.reasoning_effort = effort.map(str::to_owned);
        let body = rendered(&request);
        assert_eq!((&body["thinking"], &body["reasoning_effort"]), (&thinking, &reasoning_effort));
    }
}

/// L-89: where a deployment disables thinking, a request that says nothing of it asks for none too.
#[test]
fn thinking_that_is_disabled_is_not_left_to_the_model() {
    for effort in [None, Some("off".to_owned())] {
        let mut request = request(vec![]);
        request.served.reasoning_effort = effort;
        let body: Value = serde_json::from_slice(&render(&request, false).unwrap()).unwrap();
        assert_eq!(body["thinking"], json!({"type": "disabled"}));
        assert_eq!(body.get("reasoning_effort"), None);
    }
}

/// Row 41: no tools, no member.
#[test]
fn empty_members_are_left_out() {
    let body = rendered(&request(vec![]));
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["model", "messages", "stream", "stream_options"]);
}
