//! Images between prompts and the store: bytes are kept before a prompt is admitted, and read back for whoever may see
//! the log that names them (S-58, B-124, B-156). What counts as an image is the harness's.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    block::Block,
    image::{ImageError, ImageLimits, ImageReference, Part, Reason, judge},
    ports::{Page, Store, StoreError},
};

/// Events that are looked through at once.
const EVENTS_AT_ONCE: u64 = 1000;

/// Bytes of events that are looked through at once.
const BYTES_AT_ONCE: u64 = 4 << 20;

/// Keeps the images of a prompt: all are judged, and what they refer to is found, before the first is stored. Once
/// this returns they are durable.
pub(crate) fn keep(
    store: &dyn Store,
    content: Vec<Block>,
    limits: &ImageLimits,
) -> Result<Vec<Block>, Failure> {
    let mut found = Vec::new();
    for part in judge(content, limits).map_err(Failure::from)? {
        found.push(match part {
            Part::Stored(claim) => {
                let kept =
                    store.attachment(&claim.attachment_id).map_err(|error| unread(&error))?;
                let kept = kept.as_ref().map(|kept| kept.bytes.as_slice());
                Part::Other(claim.confirm(kept, limits)?.block())
            }
            Part::Upload { .. } | Part::Other(_) => part,
        });
    }
    let blocks = found.into_iter().map(|part| match part {
        Part::Upload { bytes, facts, name } => {
            let kept = store.keep_attachment(&bytes, Some(facts.media_type.as_str()));
            let id = kept.map_err(|error| {
                Failure::from(ImageError::new(Reason::WriteFailed, error.to_string()))
            })?;
            Ok(ImageReference { name, ..ImageReference::new(id, facts, bytes.len()) }.block())
        }
        Part::Other(block) => Ok(block),
        Part::Stored(_) => Err(Failure::new(Code::Unexpected, "an image was not looked for")),
    });
    blocks.collect()
}

/// The body of an answer to `attachment/read`: the reference as the log has it, and the bytes.
pub(crate) fn read(
    store: &dyn Store,
    session: &SessionId,
    name: &str,
    events: u64,
) -> Result<String, Failure> {
    let named = named(store, session, name, events).map_err(|error| unread(&error))?;
    let Some(reference) = named else {
        let text = format!("session \"{session}\" has no attachment {name:?}");
        return Err(ImageError::new(Reason::NotReferenced, text).into());
    };
    let kept = store.attachment(name).map_err(|error| unread(&error))?;
    let Some(kept) = kept else {
        let text = format!("the attachment {name} is not kept here any more");
        return Err(ImageError::new(Reason::NotFound, text).into());
    };
    Ok(json!({ "attachment": reference, "data": STANDARD.encode(&kept.bytes) }).to_string())
}

/// What the first of a session's events that names an attachment says of it.
fn named(
    store: &dyn Store,
    session: &SessionId,
    name: &str,
    events: u64,
) -> Result<Option<Value>, StoreError> {
    // Every name of an attachment stands in the text as it is: it has no characters to escape.
    let quoted = Value::from(name).to_string();
    let mut from = 0;
    while from < events {
        let limit = EVENTS_AT_ONCE.min(events - from);
        let page = store.read(session, Page { from, limit, bytes_max: BYTES_AT_ONCE })?;
        if page.is_empty() {
            break;
        }
        from += page.len() as u64;
        for text in page.iter().filter(|text| text.contains(&quoted)) {
            let event = serde_json::from_str::<Value>(text).unwrap_or_default();
            if let Some(found) = event.get("data").and_then(|data| reference(data, name)) {
                return Ok(Some(found.clone()));
            }
        }
    }
    Ok(None)
}

/// The attachment of an image block in what a log says. Text that only looks like one is a string, and not looked into.
fn reference<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| reference(item, name)),
        Value::Object(members) => {
            let attachment = members.get("attachment").filter(|attachment| {
                members.get("type").is_some_and(|kind| kind == "image")
                    && attachment.get("attachmentId").is_some_and(|id| id == name)
            });
            attachment.or_else(|| members.values().find_map(|member| reference(member, name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn unread(error: &StoreError) -> Failure {
    Failure::new(Code::StoreFailed, error.to_string())
}

#[cfg(test)]
mod tests;
