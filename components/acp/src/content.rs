//! Content blocks of a prompt, and what becomes of them: one text, or texts with images between (A-46 to to
//! Whether their members are right in shape is left to `params.rs`, and whether an image is one to the host.

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
    Image {
        data: Cow<'a, str>,
        media_type: Cow<'a, str>,
    },
    Audio,
    Resource,
}

/// Whether images may stand in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    /// The door takes none.
    Refused,
    /// The door may take them, but `initialize` has not said so.
    Unsaid,
    Advertised,
}

/// What may stand in a prompt, for whoever sent something else.
pub(crate) const ONLY_TEXT: &str = "only text and resource_link prompt content is supported";
pub(crate) const EMPTY: &str = "empty prompt";
const AUDIO: &str = "audio prompt content is not supported";
const EMBEDDED: &str = "embedded resource prompt content is not supported";
const UNSAID: &str = "inline image prompts were not advertised by this connection";
const MEDIA_TYPE: &str = "image mimeType must be image/png, image/jpeg, image/webp, or image/gif";
const BASE64: &str = "image data must be canonical base64";
const NO_DATA: &str = "Image is empty.";

/// The content of a prompt, as JSON text: neighbouring texts and links become one text, images stand between.
/// One block that may not be there refuses them all, before anything is stored.
pub(crate) fn content(blocks: &[Block<'_>], images: Images) -> Result<String, &'static str> {
    let mut content = String::from("[");
    let mut words = String::new();
    let (mut seen, mut has_image) = (false, false);
    for block in blocks {
        match (block, images) {
            (Block::Text(text), _) => words.push_str(text),
            (Block::Link { name, uri }, _) => {
                words.push_str("\n[resource_link name=");
                push_text(&mut words, name);
                words.push_str(" uri=");
                push_text(&mut words, uri);
                words.push_str("]\n");
            }
            (Block::Image { .. } | Block::Audio | Block::Resource, Images::Refused) => {
                return Err(ONLY_TEXT);
            }
            (Block::Audio, _) => return Err(AUDIO),
            (Block::Resource, _) => return Err(EMBEDDED),
            (Block::Image { .. }, Images::Unsaid) => return Err(UNSAID),
            (Block::Image { data, media_type }, Images::Advertised) => {
                check_image(data, media_type)?;
                has_image = true;
                seen |= !words.chars().all(is_space);
                push_words(&mut content, &mut words);
                separate(&mut content);
                content.push_str("{\"type\":\"image\",\"data\":");
                push_text(&mut content, data);
                content.push_str(",\"mediaType\":");
                push_text(&mut content, media_type);
                content.push('}');
            }
        }
    }
    seen |= !words.chars().all(is_space);
    push_words(&mut content, &mut words);
    content.push(']');
    if seen || has_image { Ok(content) } else { Err(EMPTY) }
}

fn separate(content: &mut String) {
    if content.len() > 1 {
        content.push(',');
    }
}

fn push_words(content: &mut String, words: &mut String) {
    if words.is_empty() {
        return;
    }
    separate(content);
    content.push_str("{\"type\":\"text\",\"text\":");
    push_text(content, words);
    content.push('}');
    words.clear();
}

/// A-128, as far as it takes no decoder.
fn check_image(data: &str, media_type: &str) -> Result<(), &'static str> {
    if !["image/png", "image/jpeg", "image/webp", "image/gif"].contains(&media_type) {
        return Err(MEDIA_TYPE);
    }
    if data.is_empty() {
        return Err(NO_DATA);
    }
    if is_canonical_base64(data.as_bytes()) { Ok(()) } else { Err(BASE64) }
}

/// Whether a text is the one base64 form of some bytes: padded, of the ordinary alphabet, with no bit set that stands for
/// nothing.
fn is_canonical_base64(data: &[u8]) -> bool {
    let digits = data.iter().position(|byte| *byte == b'=').unwrap_or(data.len());
    let (digits, padding) = data.split_at_checked(digits).unwrap_or((data, &[]));
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let Some(Some(last)) = digits.last().map(|byte| value(*byte)) else { return false };
    let spare = match padding {
        b"" => 0,
        b"=" => 0b11,
        b"==" => 0b1111,
        _ => return false,
    };
    data.len().is_multiple_of(4)
        && last & spare == 0
        && digits.iter().all(|byte| value(*byte).is_some())
}
