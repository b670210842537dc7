//! Calls that have no result, because whoever schedules them has failed (L-58). The log stays as it is; a request says
//! of each that it has none, because models refuse a call that nothing answers.

use std::sync::Arc;

use crate::{
    block::Block,
    message::{Message, Role, Source},
};

/// The conversation with an answer to each of its calls: one that has none gets an error, behind the results that its
/// message has. The same conversation gives the same request.
pub(super) fn answered(history: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut whole: Vec<Arc<Message>> = Vec::with_capacity(history.len());
    let mut open = Vec::new();
    for message in history {
        let results = results(&message);
        if results.is_empty() {
            whole.extend(open.drain(..).map(without_result));
            open = calls(&message);
        } else {
            open.retain(|call| !results.contains(call));
        }
        whole.push(message);
    }
    whole.extend(open.into_iter().map(without_result));
    whole
}

fn calls(message: &Message) -> Vec<String> {
    if message.role != Role::Assistant {
        return Vec::new();
    }
    let calls = message.content.iter().filter_map(|block| match block.typed().as_ref() {
        Block::ToolCall { id, .. } => Some(id.clone()),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolResult { .. } | Block::Raw(_) => {
            None
        }
    });
    calls.collect()
}

fn results(message: &Message) -> Vec<String> {
    let results = message.content.iter().filter_map(|block| match block.typed().as_ref() {
        Block::ToolResult { tool_call_id, .. } => Some(tool_call_id.clone()),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolCall { .. } | Block::Raw(_) => {
            None
        }
    });
    results.collect()
}

fn without_result(call: String) -> Arc<Message> {
    let content = vec![Block::text("Error: the tool call has no result")];
    let block = Block::ToolResult { tool_call_id: call.clone(), content, is_error: true };
    Arc::new(Message {
        // Nobody refers to it: it stands in no log.
        id: format!("unanswered-{call}").as_str().into(),
        role: Role::User,
        content: vec![block],
        source: Source::Tool { call_id: call },
    })
}
