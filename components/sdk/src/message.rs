//! What stands on the wire: how a line is classified, the members that the methods read, request ids.
//! Bodies that are only passed on are never parsed. What a message means is left to `conversation.rs`.

use std::borrow::Cow;

pub(crate) use transom_guest::jsonrpc::{RequestId, string, text, trim};
use transom_guest::jsonrpc::{is_number, is_string};

use crate::json::{Reader, Text};

/// A line, as its `id` and `method` classify it (S-12).
pub(crate) enum Incoming<'a> {
    Request(Request<'a>),
    /// Nothing is ever asked of a client, so nothing is pending (S-25, S-66).
    Response,
    /// No notification of a client means anything (S-23).
    Notification,
    /// Not JSON, not an object, or an object that is none of the others (S-10, S-11).
    Ignored,
}

/// A request: borrowed text, none of it decoded yet.
pub(crate) struct Request<'a> {
    id: &'a str,
    method: Text<'a>,
    pub(crate) params: Params<'a>,
    /// The text holds a surrogate without its other half (S-17).
    pub(crate) unpaired: bool,
}

/// The members that some method reads, as raw values. Others are passed over.
#[derive(Default, Clone, Copy)]
pub(crate) struct Params<'a> {
    pub(crate) session_id: Option<&'a str>,
    pub(crate) content_blocks: Option<Blocks<'a>>,
    pub(crate) cwd: Option<&'a str>,
    pub(crate) provider: Option<&'a str>,
    pub(crate) model: Option<&'a str>,
    pub(crate) max_tokens: Option<&'a str>,
    pub(crate) reasoning_effort: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
}

/// The value of `contentBlocks`.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) raw: &'a str,
    /// Whether it is an array of objects with a string `type` (S-56).
    pub(crate) well_formed: bool,
}

/// The methods of §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    Prompt,
    Resume,
    Wait,
    DirectoryGet,
    DirectorySet,
    Shutdown,
    Unknown,
}

impl Method {
    /// Whether it is refused where no handshake has succeeded (S-48).
    pub(crate) fn needs_handshake(&self) -> bool {
        match self {
            Method::Prompt
            | Method::Resume
            | Method::Wait
            | Method::DirectoryGet
            | Method::DirectorySet => true,
            Method::Initialize | Method::Shutdown | Method::Unknown => false,
        }
    }
}

/// Reads one line. White space around it is that of ECMAScript (S-5); a blank line is ignored (S-6).
pub(crate) fn classify(line: &str) -> Incoming<'_> {
    let mut reader = Reader::new(trim(line));
    if reader.peek() != Some(b'{') {
        return Incoming::Ignored;
    }

    let (mut id, mut method, mut params) = (None, None, Params::default());
    let read = reader.object(|reader, name| {
        // A repeated member keeps its last value (S-16), so each is read anew.
        if name.is("params") {
            params = Params::read(reader)?;
        } else {
            let value = reader.value()?;
            if name.is("id") {
                id = Some(value);
            } else if name.is("method") {
                method = Some(value);
            }
        }
        Some(())
    });
    if read.is_none() || !reader.at_end() {
        return Incoming::Ignored;
    }

    let id = id.filter(|value| is_string(value) || is_number(value));
    match (id, method.and_then(Text::of)) {
        (Some(id), Some(method)) => {
            Incoming::Request(Request { id, method, params, unpaired: reader.met_unpaired() })
        }
        (Some(_), None) => Incoming::Response,
        (None, Some(_)) => Incoming::Notification,
        (None, None) => Incoming::Ignored,
    }
}

impl<'a> Request<'a> {
    pub(crate) fn method(&self) -> Method {
        match &*self.method.decode() {
            "initialize" => Method::Initialize,
            "session/prompt" => Method::Prompt,
            "session/resume" => Method::Resume,
            "session/wait" => Method::Wait,
            "session/working-directory/get" => Method::DirectoryGet,
            "session/working-directory/set" => Method::DirectorySet,
            "shutdown" => Method::Shutdown,
            _ => Method::Unknown,
        }
    }

    pub(crate) fn method_name(&self) -> Cow<'a, str> {
        self.method.decode()
    }

    pub(crate) fn id(&self) -> RequestId {
        RequestId::of(self.id)
    }
}

impl<'a> Params<'a> {
    /// Passes the value of `params`; anything but an object counts as an empty one (S-15).
    fn read(reader: &mut Reader<'a>) -> Option<Params<'a>> {
        let mut params = Params::default();
        if reader.peek()? != b'{' {
            reader.value()?;
            return Some(params);
        }
        reader.object(|reader, name| {
            if name.is("contentBlocks") {
                params.content_blocks = Some(Blocks::read(reader)?);
                return Some(());
            }
            let value = Some(reader.value()?);
            match &*name.decode() {
                "sessionId" => params.session_id = value,
                "cwd" => params.cwd = value,
                "provider" => params.provider = value,
                "model" => params.model = value,
                "maxTokens" => params.max_tokens = value,
                "reasoningEffort" => params.reasoning_effort = value,
                "path" => params.path = value,
                _ => {}
            }
            Some(())
        })?;
        Some(params)
    }
}

impl<'a> Blocks<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Blocks<'a>> {
        if reader.peek()? != b'[' {
            return Some(Blocks { raw: reader.value()?, well_formed: false });
        }
        let mut well_formed = true;
        let raw = reader.array(|reader| {
            if reader.peek()? != b'{' {
                well_formed = false;
                reader.value()?;
                return Some(());
            }
            let mut typed = false;
            reader.object(|reader, name| {
                let value = reader.value()?;
                if name.is("type") {
                    typed = is_string(value);
                }
                Some(())
            })?;
            well_formed &= typed;
            Some(())
        })?;
        Some(Blocks { raw, well_formed })
    }
}
