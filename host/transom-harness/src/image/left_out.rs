//! A conversation for a model that takes no images: text stands where they were. Only requests are made so; the log keeps
//! what it has. Whether a model takes images is its provider's to say.

use std::sync::Arc;

use super::is_image;
use crate::{block::Block, message::Message};

/// What stands in a request in the place of an image.
const LEFT_OUT: &str = "[an image was left out here: this model takes no images]";

/// The message with each image replaced by a text block that says so; the same message where it has none.
pub fn without_images(message: &Arc<Message>) -> Arc<Message> {
    match blocks(&message.content) {
        Some(content) => Arc::new(Message { content, ..Message::clone(message) }),
        None => Arc::clone(message),
    }
}

/// The blocks without images; `None` where there are none.
fn blocks(content: &[Block]) -> Option<Vec<Block>> {
    let replaced: Vec<_> = content.iter().map(replaced).collect();
    if replaced.iter().all(Option::is_none) {
        return None;
    }
    let kept = content.iter().zip(replaced);
    Some(kept.map(|(block, instead)| instead.unwrap_or_else(|| block.clone())).collect())
}

/// What stands instead of a block that is an image, or a result of a tool that shows one.
fn replaced(block: &Block) -> Option<Block> {
    if is_image(block) {
        return Some(Block::text(LEFT_OUT));
    }
    let typed = block.typed();
    let Block::ToolResult { tool_call_id, content, is_error } = typed.as_ref() else { return None };
    let content = blocks(content)?;
    Some(Block::ToolResult { tool_call_id: tool_call_id.clone(), content, is_error: *is_error })
}
