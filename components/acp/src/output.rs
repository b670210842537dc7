//! Updates of the standard surface: what an event of a session becomes on the wire, block by block, with calls of tools and
//! what is used. In which order they are sent, and where images come from, is left to `standard.rs`.

use std::collections::BTreeMap;

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::string,
};

use crate::{
    desk::Image,
    permission::{push_raw_input, tool_kind},
    translate::{members, number, text_of, update_head},
};

/// An event that shows something.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// `assistant/message`, committed.
    Message(&'a str),
    /// `tool/call`: it begins.
    Call(&'a str),
    /// `tool/result`: it is over.
    Result(&'a str),
}

/// Where updates go, and what they are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) session: &'a str,
    pub(crate) cwd: &'a str,
    /// The last turn that had a prompt of this client.
    pub(crate) prompt_turn: Option<u64>,
    /// Tokens that fit into a request and its answer.
    pub(crate) window: Option<u64>,
}

impl<'a> Shown<'a> {
    /// Of the `type` and `data` of an event.
    pub(crate) fn of(kind: &str, data: &'a str) -> Option<Shown<'a>> {
        Some(match kind {
            "assistant/message" => Shown::Message(data),
            "tool/call" => Shown::Call(data),
            "tool/result" => Shown::Result(data),
            _ => return None,
        })
    }

    /// The blocks that are shown.
    fn content(self) -> Option<&'a str> {
        let of_message = |data| {
            let [message] = members(data, ["message"])?;
            let [content] = members(message?, ["content"])?;
            content
        };
        match self {
            Shown::Message(data) => of_message(data),
            Shown::Call(_) => None,
            Shown::Result(data) => {
                let mut result = None;
                Reader::new(of_message(data)?).array(|reader| {
                    result = Some(reader.value()?);
                    Some(())
                });
                let [content] = members(result?, ["content"])?;
                content
            }
        }
    }

    /// The attachments whose bytes it needs.
    pub(crate) fn attachments(self) -> Vec<String> {
        let mut names = Vec::new();
        each(self.content(), |block| {
            if let Some(name) = attachment(block)
                && !names.contains(&name)
            {
                names.push(name);
            }
        });
        names
    }

    /// Its updates, and what could not be shown of it.
    pub(crate) fn updates(
        self,
        place: Place<'_>,
        images: &BTreeMap<Box<str>, Image>,
    ) -> (Vec<String>, Option<String>) {
        match self {
            Shown::Message(data) => message(self, data, place, images),
            Shown::Call(data) => (call(data, place).into_iter().collect(), None),
            Shown::Result(data) => (result(self, data, place, images).into_iter().collect(), None),
        }
    }
}

fn message(
    shown: Shown<'_>,
    data: &str,
    place: Place<'_>,
    images: &BTreeMap<Box<str>, Image>,
) -> (Vec<String>, Option<String>) {
    let [turn, message, usage] = members(data, ["turn", "message", "usage"]).unwrap_or_default();
    let id = message.and_then(|message| members(message, ["id"])).and_then(|[id]| id);
    let (mut updates, mut undelivered) = (Vec::new(), None);
    let mut chunk = |kind: &str, content: &str| {
        let mut unit = update_head(place.session);
        unit.push_str("{\"sessionUpdate\":\"");
        unit.push_str(kind);
        unit.push('"');
        if let Some(id) = id {
            unit.push_str(",\"messageId\":");
            unit.push_str(id);
        }
        unit.push_str(",\"content\":");
        unit.push_str(content);
        push_origin(&mut unit, turn, place.prompt_turn);
        unit.push_str("}}}");
        updates.push(unit);
    };
    each(shown.content(), |block| {
        let [kind, text] = members(block, ["type", "text"]).unwrap_or_default();
        let text = text.filter(|text| *text != "\"\"");
        match (string(kind).as_deref(), text) {
            (Some("reasoning"), Some(text)) => chunk("agent_thought_chunk", &text_block(text)),
            (Some("text"), Some(text)) => chunk("agent_message_chunk", &text_block(text)),
            (Some("image"), _) => match image_block(block, images) {
                Ok(image) => chunk("agent_message_chunk", &image),
                Err(why) => _ = undelivered.get_or_insert(why),
            },
            (Some(_) | None, _) => {}
        }
    });
    if let (Some(used), Some(size)) = (usage.and_then(used), place.window) {
        let mut unit = update_head(place.session);
        unit.push_str(&format!(
            "{{\"sessionUpdate\":\"usage_update\",\"used\":{used},\"size\":{size}"
        ));
        push_origin(&mut unit, turn, place.prompt_turn);
        unit.push_str("}}}");
        updates.push(unit);
    }
    (updates, undelivered)
}

/// Tokens in the context: counts are disjoint (L-15).
fn used(usage: &str) -> Option<u64> {
    let names = ["inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens"];
    let counts = members(usage, names)?;
    let known = counts.iter().flatten().filter_map(|count| number(Some(count)));
    known.reduce(u64::saturating_add)
}

fn call(data: &str, place: Place<'_>) -> Option<String> {
    let [call, name, arguments, turn] = members(data, ["callId", "name", "arguments", "turn"])?;
    let (call, name) = (call?, string(name)?);
    let arguments = string(arguments).unwrap_or_default();
    let mut unit = update_head(place.session);
    unit.push_str("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":");
    unit.push_str(call);
    unit.push_str(",\"title\":");
    push_text(&mut unit, &name);
    unit.push_str(",\"name\":");
    push_text(&mut unit, &name);
    unit.push_str(",\"kind\":\"");
    unit.push_str(tool_kind(&name));
    unit.push_str("\",\"status\":\"in_progress\"");
    if let Some((path, line)) = location(&name, &arguments, place.cwd) {
        unit.push_str(",\"locations\":[{\"path\":");
        push_text(&mut unit, &path);
        if let Some(line) = line {
            unit.push_str(&format!(",\"line\":{line}"));
        }
        unit.push_str("}]");
    }
    unit.push_str(",\"rawInput\":");
    push_raw_input(&mut unit, &arguments);
    push_origin(&mut unit, turn, place.prompt_turn);
    unit.push_str("}}}");
    Some(unit)
}

/// Where a file tool works: an absolute path, and the line that it begins at.
fn location(tool: &str, arguments: &str, cwd: &str) -> Option<(String, Option<u64>)> {
    let (path, line) = match tool {
        "read" => ("file_path", "offset"),
        "read_image" | "edit" | "write" => ("file_path", ""),
        "str_replace_editor" | "glob" | "grep" => ("path", ""),
        _ => return None,
    };
    let [path, line] = members(arguments, [path, line])?;
    let path = string(path).filter(|path| !path.is_empty())?;
    let line = number(line).filter(|line| *line > 0);
    let path = match path.starts_with('/') {
        true => path.into_owned(),
        false => [cwd.trim_end_matches('/'), "/", &path].concat(),
    };
    Some((path, line))
}

fn result(
    shown: Shown<'_>,
    data: &str,
    place: Place<'_>,
    images: &BTreeMap<Box<str>, Image>,
) -> Option<String> {
    let [message, turn] = members(data, ["message", "turn"])?;
    let [blocks] = members(message?, ["content"])?;
    let (mut call, mut failed) = (None, false);
    each(blocks, |block| {
        let [id, error] = members(block, ["toolCallId", "isError"]).unwrap_or_default();
        call = id;
        failed = error == Some("true");
    });
    let mut unit = update_head(place.session);
    unit.push_str("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":");
    unit.push_str(call?);
    unit.push_str(",\"status\":\"");
    unit.push_str(if failed { "failed" } else { "completed" });
    unit.push_str("\",\"content\":[");
    let mut first = true;
    each(shown.content(), |block| {
        let [kind, text] = members(block, ["type", "text"]).unwrap_or_default();
        let content = match (string(kind).as_deref(), text) {
            (Some("text"), Some(text)) => text_block(text),
            // The model has seen it, whatever becomes of showing it: the turn goes on, and so does the prompt.
            (Some("image"), _) => image_block(block, images).unwrap_or_else(|why| {
                let mut text = String::new();
                push_text(&mut text, &format!("[image that cannot be shown: {why}]"));
                text_block(&text)
            }),
            (Some(_) | None, _) => return,
        };
        unit.push_str(if first { "" } else { "," });
        first = false;
        unit.push_str("{\"type\":\"content\",\"content\":");
        unit.push_str(&content);
        unit.push('}');
    });
    unit.push(']');
    push_origin(&mut unit, turn, place.prompt_turn);
    unit.push_str("}}}");
    Some(unit)
}

fn text_block(text: &str) -> String {
    ["{\"type\":\"text\",\"text\":", text, "}"].concat()
}

fn image_block(block: &str, images: &BTreeMap<Box<str>, Image>) -> Result<String, String> {
    let name = attachment(block).ok_or("the image names no attachment")?;
    match images.get(&*name) {
        Some(Image::Read { data, media_type }) => {
            Ok(["{\"type\":\"image\",\"data\":", data, ",\"mimeType\":", media_type, "}"].concat())
        }
        Some(Image::Failed(why)) => Err(why.to_string()),
        None => Err(format!("attachment {name} was not read")),
    }
}

/// The name of the attachment that an image block has.
fn attachment(block: &str) -> Option<String> {
    let [kind, attachment] = members(block, ["type", "attachment"])?;
    let is_image = string(kind)? == "image";
    is_image.then(|| text_of(attachment?, "attachmentId").map(Into::into)).flatten()
}

/// Whose turn it came in, for whoever wants to tell prompts apart.
fn push_origin(unit: &mut String, turn: Option<&str>, prompt_turn: Option<u64>) {
    if let Some(turn) = number(turn) {
        let origin = if prompt_turn == Some(turn) { "prompt" } else { "autonomous" };
        unit.push_str(&format!(",\"_meta\":{{\"dsh/turn\":{turn},\"dsh/origin\":\"{origin}\"}}"));
    }
}

fn each<'a>(list: Option<&'a str>, mut block: impl FnMut(&'a str)) {
    Reader::new(list.unwrap_or_default()).array(|reader| {
        block(reader.value()?);
        Some(())
    });
}
