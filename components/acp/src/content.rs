//! Content blocks of a prompt, and the one text that they become.
//! Whether their members are right in shape is left to `params.rs`.

use std::borrow::Cow;

use transom_guest::{json::push_text, jsonrpc::is_space};

/// A block of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block<'a> {
    Text(Cow<'a, str>),
    /// Named and shown, never fetched.
    Link {
        name: Cow<'a, str>,
        uri: Cow<'a, str>,
    },
    Image,
    Audio,
    Resource,
}

/// What may stand in a prompt, for whoever sent something else.
pub(crate) const ONLY_TEXT: &str = "only text and resource_link prompt content is supported";
pub(crate) const EMPTY: &str = "empty prompt";

/// The words of a prompt: all blocks, in order, with nothing between. One block of another kind refuses them all.
pub(crate) fn flatten(blocks: &[Block<'_>]) -> Result<String, &'static str> {
    let mut words = String::new();
    for block in blocks {
        match block {
            Block::Text(text) => words.push_str(text),
            Block::Link { name, uri } => {
                words.push_str("\n[resource_link name=");
                push_text(&mut words, name);
                words.push_str(" uri=");
                push_text(&mut words, uri);
                words.push_str("]\n");
            }
            Block::Image | Block::Audio | Block::Resource => return Err(ONLY_TEXT),
        }
    }
    if words.chars().all(is_space) {
        return Err(EMPTY);
    }
    Ok(words)
}
