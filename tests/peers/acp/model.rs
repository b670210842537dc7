//! What the model answers when a prompt names a mark in double brackets. The server is `model_server.rs`'s.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model_server::{ModelServer, Piece, Recorded, Reply, delta, event, finish, usage};

/// A server that answers by marks.
pub(crate) fn server() -> ModelServer {
    let server = ModelServer::start();
    server.answer(reply);
    server
}

fn reply(request: &Recorded) -> Reply {
    let messages = request.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let marked = messages.iter().rposition(|message| mark(message).is_some());
    let Some((at, word)) = marked.and_then(|at| Some((at, mark(messages.get(at)?)?))) else {
        return said("no mark");
    };
    let results: Vec<&str> = messages
        .get(at..)
        .unwrap_or_default()
        .iter()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    match (word, results.last()) {
        ("HANG", _) | ("THEN_HANG", Some(_)) => Reply::pieces(vec![
            event(&delta(json!({"content": "partial"})).to_string()),
            Piece::Silence,
        ]),
        ("STREAM", _) => {
            Reply::pieces(vec![Piece::Ticks("tick{n} ".to_owned(), Duration::from_millis(20))])
        }
        ("BACKGROUND", None) => called(json!({
            "command": "until [ -e go ]; do sleep 0.02; done", "run_in_background": true,
        })),
        ("SLOW_TOOL", None) => called(json!({"command": "exec 3> begun; sleep 300"})),
        // A command that goes on when a file is there.
        ("GATE", None) => called(
            json!({"command": "exec 3> begun; until [ -e go ]; do sleep 0.02; done; printf through"}),
        ),
        ("THEN_HANG" | "TOOL", None) => called(json!({"command": "printf tool-proof"})),
        ("ESCALATE", None) => called(json!({
            "command": "printf escalated", "sandbox_permissions": "danger-full-access", "justification": "the test wants it",
        })),
        (_, Some(result)) => said(&format!("tool said: {result}")),
        (word, None) => said(&format!("{word} answered")),
    }
}

fn mark(message: &Value) -> Option<&str> {
    let text = message["content"].as_str().filter(|_| message["role"] == "user")?;
    Some(text.split_once("[[")?.1.split_once("]]")?.0)
}

fn said(text: &str) -> Reply {
    Reply::events(&[delta(json!({"role": "assistant", "content": text})), finish("stop"), usage()])
}

fn called(mut arguments: Value) -> Reply {
    arguments["description"] = json!("A test");
    let call = json!({
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": "bash", "arguments": arguments.to_string()},
    });
    Reply::events(&[delta(json!({"tool_calls": [call]})), finish("tool_calls"), usage()])
}
