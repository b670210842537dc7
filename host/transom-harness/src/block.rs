//! Content blocks of messages (L-13), typed where the loop decides on them, verbatim where it does not.

use std::{borrow::Cow, fmt, str::Chars};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// One content block. What a peer sent is kept to the letter (S-52): a block whose canonical form
/// differs from what came is `Raw`.
#[derive(Debug, Clone)]
pub enum Block {
    /// `text`: words of a person or a model.
    Text {
        /// May be empty.
        text: String,
    },
    /// `reasoning`: a model's thoughts before its answer.
    Reasoning {
        /// May be empty.
        text: String,
    },
    /// `arguments` is the JSON text as the model produced it.
    ToolCall {
        /// Chosen by the model provider; pairs call and result.
        id: String,
        /// As the model wrote it; there may be no such tool.
        name: String,
        /// Not checked: it may be no JSON at all.
        arguments: String,
    },
    /// `tool-result`: the only block of its message (L-13).
    ToolResult {
        /// The `id` of the call that it answers.
        tool_call_id: String,
        /// What the model is shown.
        content: Vec<Block>,
        /// Tells the model that the call failed.
        is_error: bool,
    },
    /// Any other block, or one whose text is not in canonical form: compact JSON text of an object
    /// with a string member `type`.
    Raw(Box<RawValue>),
}

/// The canonical form of the types that are known here.
#[derive(Serialize)]
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
        is_error: bool,
    },
}

/// The `type` of a block. Of several, the last one counts (decision 73).
struct Tag<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Tag<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tag<'a>, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Tag<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a string `type`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tag<'de>, A::Error> {
                let mut found = None;
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    if name == "type" {
                        found = Some(map.next_value::<&'de RawValue>()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                let found = found.ok_or_else(|| de::Error::missing_field("type"))?;
                let kind =
                    serde_json::from_str::<String>(found.get()).map_err(de::Error::custom)?;
                Ok(Tag(kind.into()))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Block {
    /// A `text` block, never `Raw`.
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
                serde_json::from_str::<Tag<'_>>(raw.get()).map_or("".into(), |tag| tag.0)
            }
        }
    }

    /// The typed reading of this block: `Raw` becomes what it says, where that is a type known here.
    pub fn typed(&self) -> Cow<'_, Block> {
        match self {
            Block::Raw(raw) => read(raw.get()).map_or(Cow::Borrowed(self), Cow::Owned),
            Block::Text { .. }
            | Block::Reasoning { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => Cow::Borrowed(self),
        }
    }
}

/// The members of every type known here; which of them count is up to the type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members {
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    tool_call_id: Option<String>,
    content: Option<Vec<Block>>,
    #[serde(default)]
    is_error: bool,
}

/// The typed reading of a block's text; `None` where it has another type or lacks a member.
fn read(text: &str) -> Option<Block> {
    let Tag(kind) = serde_json::from_str(text).ok()?;
    if !matches!(&*kind, "text" | "reasoning" | "tool-call" | "tool-result") {
        return None;
    }
    let members: Members = serde_json::from_str(text).ok()?;
    let Members { text, id, name, arguments, tool_call_id, content, is_error } = members;
    Some(match &*kind {
        "text" => Block::Text { text: text? },
        "reasoning" => Block::Reasoning { text: text? },
        "tool-call" => Block::ToolCall { id: id?, name: name?, arguments: arguments? },
        _ => Block::ToolResult { tool_call_id: tool_call_id?, content: content?, is_error },
    })
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
        let tag = serde_json::from_str::<Tag<'_>>(raw.get()).map_err(|_| {
            de::Error::custom("a content block must be an object with a string `type`")
        })?;
        drop(tag);
        if let Some(typed) = read(raw.get())
            && serde_json::to_string(&typed).is_ok_and(|text| text == raw.get())
        {
            return Ok(typed);
        }
        Ok(Block::Raw(raw))
    }
}

/// Valid JSON text in the form in which it stands in logs and on wires: no insignificant white space,
/// and in strings only the escapes that JSON demands (S-2, S-32). Values, numbers and the order of
/// members stay to the letter (S-52).
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json.chars();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '\\' if in_string => unescape(&mut out, &mut rest),
            ' ' | '\t' | '\n' | '\r' if !in_string => {}
            _ => out.push(c),
        }
    }
    out
}

/// One escape, its backslash already read, put out as briefly as JSON allows.
fn unescape(out: &mut String, rest: &mut Chars<'_>) {
    match rest.next() {
        Some('/') => out.push('/'),
        Some('u') => {
            let unit = hex4(rest);
            let pair = matches!(unit, 0xD800..=0xDBFF) && rest.as_str().starts_with("\\u");
            let c = if pair {
                let mut ahead = rest.clone();
                ahead.nth(1);
                let low = hex4(&mut ahead);
                let joined = char::decode_utf16([unit, low]).next().and_then(Result::ok);
                if joined.is_some() {
                    *rest = ahead;
                }
                joined
            } else {
                char::from_u32(u32::from(unit))
            };
            match c.unwrap_or(char::REPLACEMENT_CHARACTER) {
                c @ ('"' | '\\') => out.extend(['\\', c]),
                c if u32::from(c) < 0x20 => {
                    let quoted = serde_json::to_string(&c).unwrap_or_default();
                    out.push_str(quoted.trim_matches('"'));
                }
                c => out.push(c),
            }
        }
        Some(c) => out.extend(['\\', c]),
        None => {}
    }
}

fn hex4(rest: &mut Chars<'_>) -> u16 {
    let digits = rest.by_ref().take(4).filter_map(|digit| digit.to_digit(16));
    digits.fold(0, |value, digit| (value << 4) | u16::try_from(digit).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Block, compact};

    #[test]
    fn compact_text_says_the_same_in_fewer_characters() {
        let check = |text: &str, expected: &str| assert_eq!(compact(text), expected, "{text}");
        check(" [ 1e3 , -0.50, { \"a b\" : null } ]\n", "[1e3,-0.50,{\"a b\":null}]");
        check(r#""\u4f60\u597d""#, "\"你好\"");
        check(r#""\ud83e\udd80""#, "\"🦀\"");
        check(r#""\ud800x\udc00""#, "\"\u{fffd}x\u{fffd}\"");
        check(r#""\ud800\u0041""#, "\"\u{fffd}A\"");
        check(r#""\/ \n \u000a \u0001 \u0022 \u005c \" \\""#, r#""/ \n \n \u0001 \" \\ \" \\""#);
    }

    #[test]
    fn what_was_written_reads_back_typed() {
        let inner = Block::ToolResult {
            tool_call_id: "c".to_owned(),
            content: vec![Block::text("one"), Block::text("two")],
            is_error: true,
        };
        let text = serde_json::to_string(&inner).unwrap();
        let back: Block = serde_json::from_str(&text).unwrap();
        assert!(
            matches!(back, Block::ToolResult { ref content, is_error: true, .. } if content.len() == 2)
        );
        let odd: Block = serde_json::from_str(r#"{"text":"x","type":"text","more":1}"#).unwrap();
        assert!(matches!(odd, Block::Raw(_)), "what would be lost is kept");
        assert!(matches!(*odd.typed(), Block::Text { .. }));
    }

    #[test]
    fn a_block_without_a_type_is_none() {
        assert!(serde_json::from_str::<Block>("{}").is_err());
        assert!(serde_json::from_str::<Block>(r#"{"type":7}"#).is_err());
        assert!(serde_json::from_str::<Block>("[]").is_err());
    }

    #[test]
    fn of_several_types_the_last_one_counts() {
        let block: Block =
            serde_json::from_str(r#"{"type":"text","text":"x","type":"odd"}"#).unwrap();
        assert_eq!(block.kind(), "odd");
    }
}
