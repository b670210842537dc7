//! How a line is classified: what it is by its `id` and `method`, and what is wrong with it.
//! Members of `params` are read by `params.rs`; what a message means is left to `conversation.rs`.

use transom_guest::{
    Excess, Skipped,
    json::{Reader, Text},
    jsonrpc::{RequestId, is_number, is_string, text, trim},
};

pub(crate) use transom_guest::jsonrpc::{Notification, Request};

/// Bytes of a line. The host holds lines to it; here it counts for those that become longer as they are read.
const LINE_BYTES_MAX: usize = 32 << 20;

/// A line of the client.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// Nothing stands there.
    Blank,
    Request(Request<'a>),
    /// A method without an id: never answered.
    Notification(Notification<'a>),
    Response(Response<'a>),
    /// Answered with `id: null`; the connection goes on.
    Bad(Bad),
}

#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) id: RequestId,
    /// `None`: an error, or an envelope that is none.
    pub(crate) result: Option<&'a str>,
}

/// What makes a line none of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    NotJson,
    Batch,
    Invalid,
}

/// The text of a line. What is not UTF-8 in it takes three times the room as the characters that say so, which could be
/// more than the host takes of a codec: such a line is one that is too long.
pub(crate) fn line(bytes: Vec<u8>) -> Result<String, Skipped> {
    let length = bytes.len();
    let line = text(bytes);
    if line.len() > length.max(LINE_BYTES_MAX) {
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        return Err(Skipped { lane: 0, why: Excess::TooLong, bytes });
    }
    Ok(line)
}

/// Reads one line. White space around it is that of ECMAScript.
pub(crate) fn classify(line: &str) -> Incoming<'_> {
    let line = trim(line);
    let mut reader = Reader::new(line);
    let (first, read) = match reader.peek() {
        None => return Incoming::Blank,
        Some(b'{') => return object(reader),
        Some(first) => (first, reader.value()),
    };
    Incoming::Bad(match (first, read) {
        (_, None) => Bad::NotJson,
        (_, Some(_)) if !reader.at_end() => Bad::NotJson,
        (b'[', Some(_)) => Bad::Batch,
        (_, Some(_)) => Bad::Invalid,
    })
}

fn object(mut reader: Reader<'_>) -> Incoming<'_> {
    let [mut jsonrpc, mut id, mut method, mut params, mut result, mut error] = [None; 6];
    let read = reader.object(|reader, name| {
        // A repeated member keeps its last value (decision 73).
        let value = Some(reader.value()?);
        match &*name.decode() {
            "jsonrpc" => jsonrpc = value,
            "id" => id = value,
            "method" => method = value,
            "params" => params = value,
            "result" => result = value,
            // Absent, as every optional member.
            "error" => error = value.filter(|value| *value != "null"),
            _ => {}
        }
        Some(())
    });
    if read.is_none() || !reader.at_end() {
        return Incoming::Bad(Bad::NotJson);
    }

    // A missing member is let pass, another version is not.
    let versioned = jsonrpc.is_none_or(|value| Text::of(value).is_some_and(|text| text.is("2.0")));
    let id = match id {
        Some(raw) if is_string(raw) || is_number(raw) || raw == "null" => Some(RequestId::of(raw)),
        Some(_) => return Incoming::Bad(Bad::Invalid),
        None => None,
    };
    match (method, id) {
        (None, None) => Incoming::Bad(Bad::Invalid),
        // Answering a response would be answered in turn; one that cannot be read decides as one that was not given.
        (None, Some(id)) => Incoming::Response(Response {
            id,
            result: result.filter(|_| versioned && error.is_none()),
        }),
        (Some(method), id) => match (Text::of(method), id) {
            (Some(method), Some(id)) if versioned => {
                Incoming::Request(Request { id, method: method.decode(), params })
            }
            (Some(method), None) if versioned => {
                Incoming::Notification(Notification { method: method.decode(), params })
            }
            (Some(_) | None, _) => Incoming::Bad(Bad::Invalid),
        },
    }
}
