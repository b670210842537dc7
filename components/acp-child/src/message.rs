//! How a line of the agent is classified: what it is by its `id` and `method`. What a message means is left to
//! `conversation.rs`, and what its members say to `translate.rs`.

use std::borrow::Cow;

use transom_guest::{
    json::{Reader, Text},
    jsonrpc::{RequestId, is_number, is_string, string, trim},
};

pub(crate) use transom_guest::jsonrpc::{Notification, Request, members};

/// A line of the agent.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// Nothing stands there.
    Blank,
    Request(Request<'a>),
    /// A method without an id: never answered.
    Notification(Notification<'a>),
    Response(Response<'a>),
    /// What is none of these, such as a line of a log: passed over and counted.
    Noise,
}

#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// The number of the request; `None`: no number that this side gives.
    pub(crate) id: Option<u64>,
    pub(crate) outcome: Outcome<'a>,
}

/// How the agent has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome<'a> {
    /// Raw JSON.
    Result(&'a str),
    Error(Refused<'a>),
    /// Neither a result nor an error.
    Nothing,
}

/// An error of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused<'a> {
    /// 0 where it gives none.
    pub(crate) code: i64,
    pub(crate) message: Cow<'a, str>,
}

/// Reads one line. White space around it is that of ECMAScript.
pub(crate) fn classify(line: &str) -> Incoming<'_> {
    let line = trim(line);
    let reader = Reader::new(line);
    match reader.peek() {
        None => Incoming::Blank,
        Some(b'{') => object(reader).unwrap_or(Incoming::Noise),
        Some(_) => Incoming::Noise,
    }
}

fn object(mut reader: Reader<'_>) -> Option<Incoming<'_>> {
    let [mut id, mut method, mut params, mut result, mut error] = [None; 5];
    reader.object(|reader, name| {
        // A repeated member keeps its last value (decision 73).
        let value = Some(reader.value()?);
        match &*name.decode() {
            "id" => id = value,
            "method" => method = value,
            "params" => params = value,
            "result" => result = value,
            "error" => error = value,
            _ => {}
        }
        Some(())
    })?;
    if !reader.at_end() {
        return None;
    }
    let id = match id {
        Some(raw) if is_string(raw) || is_number(raw) || raw == "null" => Some(RequestId::of(raw)),
        Some(_) => return None,
        None => None,
    };
    match (method, id) {
        (None, None) => None,
        (None, Some(id)) => {
            let outcome = match (error, result) {
                (Some(error), _) if error != "null" => Outcome::Error(refused(error)),
                (_, Some(result)) => Outcome::Result(result),
                (_, None) => Outcome::Nothing,
            };
            Some(Incoming::Response(Response { id: id.0.parse().ok(), outcome }))
        }
        (Some(method), id) => {
            let method = Text::of(method)?.decode();
            Some(match id {
                Some(id) => Incoming::Request(Request { id, method, params }),
                None => Incoming::Notification(Notification { method, params }),
            })
        }
    }
}

fn refused(error: &str) -> Refused<'_> {
    let [code, message] = members(error, ["code", "message"]).unwrap_or_default();
    let code = code.and_then(|code| code.parse().ok()).unwrap_or_default();
    Refused { code, message: string(message).unwrap_or_default() }
}
