//! The bodies of the frames between the host and the codec of an agent (`frames.md`): what is asked, and what comes of it.

use std::path::Path;

use serde_json::{Value, json};
use transom_frame::Frame;
use transom_harness::block::Block;

use super::{Permission, failure::Failure};

/// Bytes of the answer that are kept for when the codec fails: as much as a task gives back at most.
const PARTIAL_BYTES_MAX: usize = 512 << 10;

/// How a run came out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) stop_reason: &'static str,
    pub(super) output: Vec<Block>,
    /// Why it failed.
    pub(super) failure: Option<Failure>,
    /// What is to be said of it besides.
    pub(super) remark: Option<String>,
}

impl Outcome {
    pub(super) fn failed(failure: Failure, output: Vec<Block>) -> Outcome {
        Outcome { stop_reason: "error", output, failure: Some(failure), remark: None }
    }

    pub(super) fn aborted(output: Vec<Block>) -> Outcome {
        Outcome { stop_reason: "aborted", output, failure: None, remark: None }
    }
}

/// The body of `agent/start`; `None`: the directory has a name that is no text.
pub(super) fn start(directory: &Path) -> Option<String> {
    Some(json!({"cwd": directory.to_str()?}).to_string())
}

/// The body of `agent/prompt`.
pub(super) fn prompt(task: &str, permission: Permission) -> String {
    let permission = match permission {
        Permission::Reject => "reject",
        Permission::Allow => "allow",
    };
    let content = json!([{"type": "text", "text": task}]);
    json!({"content": content, "permission": permission}).to_string()
}

/// The body of `agent/cancel`.
pub(super) fn cancel(id: &str) -> String {
    json!({"id": id, "reason": "aborted"}).to_string()
}

/// Why `agent/start` was refused.
pub(super) fn refusal(frame: &Frame) -> Failure {
    let body: Value = serde_json::from_str(&frame.body).unwrap_or_default();
    let place = |pointer: &str| text(&body, pointer).unwrap_or_default();
    let sentence = text(&body, "/message").unwrap_or("the agent could not be started");
    Failure::new(sentence, place("/details/stage"), place("/details/category"))
}

/// What a reply to `agent/prompt` says.
pub(super) fn outcome(frame: &Frame) -> Outcome {
    let body: Value = serde_json::from_str(&frame.body).unwrap_or_default();
    let output = body.pointer("/output").and_then(Value::as_array);
    let output = output.map(|blocks| texts(blocks)).unwrap_or_default();
    let diagnostic = text(&body, "/diagnostic");
    let stop_reason = match text(&body, "/stopReason") {
        Some("completed") => "completed",
        Some("max-tokens") => "max-tokens",
        Some("refusal") => "refusal",
        Some("aborted") => "aborted",
        Some(_) | None => "error",
    };
    if stop_reason != "error" {
        let remark = diagnostic.map(str::to_owned);
        return Outcome { stop_reason, output, failure: None, remark };
    }
    let word = |pointer: &str| text(&body, pointer).unwrap_or_default();
    let sentence = diagnostic.unwrap_or("the agent failed");
    Outcome::failed(Failure::new(sentence, word("/stage"), word("/category")), output)
}

fn texts(blocks: &[Value]) -> Vec<Block> {
    let texts = blocks.iter().filter(|block| text(block, "/type") == Some("text"));
    texts.filter_map(|block| text(block, "/text").map(Block::text)).collect()
}

/// The text at a place of a body.
fn text<'a>(body: &'a Value, pointer: &str) -> Option<&'a str> {
    body.pointer(pointer)?.as_str()
}

/// What the agent has said of its last message, as it comes.
#[derive(Debug, Default)]
pub(super) struct Partial(String);

impl Partial {
    /// Takes in the body of an `agent/output`.
    pub(super) fn hear(&mut self, body: &str) {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        if body.pointer("/begins") == Some(&Value::Bool(true)) {
            self.0.clear();
        }
        let text = text(&body, "/text").unwrap_or_default();
        let room = PARTIAL_BYTES_MAX.saturating_sub(self.0.len());
        self.0.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => vec![Block::text(self.0.as_str())],
        }
    }
}
