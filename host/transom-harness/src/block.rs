//! Content blocks of messages (L-13), typed where the loop decides on them, verbatim where it does not.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One content block. What a peer sent is kept to the letter (S-52): a block whose canonical form
/// differs from what came is `Raw`.
#[derive(Debug, Clone)]
pub enum Block {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    /// `arguments` is the JSON text as the model produced it.
    ToolCall {
        id: String,
        name: String,
        arguments: String,
    },
    ToolResult {
        tool_call_id: String,
        content: Vec<Block>,
        is_error: bool,
    },
    /// Any other block, or one whose text is not in canonical form: compact JSON text of an object
    /// with a string member `type`.
    Raw(Box<RawValue>),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Typed<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Reasoning {
        text: Cow<'a, str>,
    },
    ToolCall {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, [Block]>,
        #[serde(default)]
        is_error: bool,
    },
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

impl Block {
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into() }
    }

    /// The block's `type`.
    pub fn kind(&self) -> Cow<'_, str> {
        match self {
            Block::Text { .. } => "text".into(),
            Block::Reasoning { .. } => "reasoning".into(),
            Block::ToolCall { .. } => "tool-call".into(),
            Block::ToolResult { .. } => "tool-result".into(),
            Block::Raw(raw) => {
                serde_json::from_str::<Tag>(raw.get()).map_or("".into(), |tag| tag.kind)
            }
        }
    }

    /// The typed reading of this block: `Raw` becomes what it says, where that is a type known here.
    pub fn typed(&self) -> Cow<'_, Block> {
        match self {
            Block::Raw(raw) => match serde_json::from_str::<Typed>(raw.get()) {
                Ok(typed) => Cow::Owned(typed.into()),
                Err(_) => Cow::Borrowed(self),
            },
            Block::Text { .. }
            | Block::Reasoning { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => Cow::Borrowed(self),
        }
    }
}

impl From<Typed<'_>> for Block {
    fn from(typed: Typed<'_>) -> Block {
        match typed {
            Typed::Text { text } => Block::Text { text: text.into_owned() },
            Typed::Reasoning { text } => Block::Reasoning { text: text.into_owned() },
            Typed::ToolCall { id, name, arguments } => Block::ToolCall {
                id: id.into_owned(),
                name: name.into_owned(),
                arguments: arguments.into_owned(),
            },
            Typed::ToolResult { tool_call_id, content, is_error } => Block::ToolResult {
                tool_call_id: tool_call_id.into_owned(),
                content: content.into_owned(),
                is_error,
            },
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        match (serde_json::to_string(self), serde_json::to_string(other)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Block::Text { text } => Typed::Text { text: text.into() }.serialize(serializer),
            Block::Reasoning { text } => {
                Typed::Reasoning { text: text.into() }.serialize(serializer)
            }
            Block::ToolCall { id, name, arguments } => {
                Typed::ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
                    .serialize(serializer)
            }
            Block::ToolResult { tool_call_id, content, is_error } => Typed::ToolResult {
                tool_call_id: tool_call_id.into(),
                content: content.into(),
                is_error: *is_error,
            }
            .serialize(serializer),
            Block::Raw(raw) => raw.serialize(serializer),
        }
    }
}

/// Only for text already known to be compact: what comes from peers passes [`compact`] first.
impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Block, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let tag = serde_json::from_str::<Tag>(raw.get()).map_err(|_| {
            serde::de::Error::custom("a content block must be an object with a string `type`")
        })?;
        drop(tag);
        if let Ok(typed) = serde_json::from_str::<Typed>(raw.get()) {
            let canonical = serde_json::to_string(&typed).is_ok_and(|text| text == raw.get());
            if canonical {
                return Ok(typed.into());
            }
        }
        Ok(Block::Raw(raw))
    }
}

/// Valid JSON text without its insignificant white space; everything else stays to the letter,
/// numbers and escapes included (S-2, S-52).
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut in_string = false;
    let mut escaped = false;
    for c in json.chars() {
        if in_string {
            out.push(c);
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == '"' {
                in_string = false;
            }
        } else if !matches!(c, ' ' | '\t' | '\n' | '\r') {
            in_string = c == '"';
            out.push(c);
        }
    }
    out
}
