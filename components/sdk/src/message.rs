//! What stands on the wire: how a line is classified, the members that the methods read, request ids.
//! Bodies that are only passed on are never parsed. What a message means is left to `conversation.rs`.

use std::borrow::Cow;

use crate::json::{Reader, Text, push_text};

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

/// A request's id as JSON text, exactly as it is echoed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) Box<str>);

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
        RequestId(match Text::of(self.id) {
            // Without an escape it already is as it would be printed.
            Some(_) if !self.id.as_bytes().contains(&b'\\') => self.id.into(),
            Some(text) => {
                let mut printed = String::with_capacity(self.id.len());
                push_text(&mut printed, &text.decode());
                printed.into()
            }
            None => number_text(self.id).into(),
        })
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

/// Removes what ECMAScript calls white space from both ends (S-5).
pub(crate) fn trim(line: &str) -> &str {
    line.trim_matches(|character| {
        matches!(
            character,
            '\t' | '\n'
                | '\u{b}'
                | '\u{c}'
                | '\r'
                | ' '
                | '\u{a0}'
                | '\u{feff}'
                | '\u{1680}'
                | '\u{2000}'
                ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
        )
    })
}

/// The string that makes up the whole of a raw value.
pub(crate) fn string(value: Option<&str>) -> Option<Cow<'_, str>> {
    Some(Text::of(value?)?.decode())
}

fn is_string(value: &str) -> bool {
    value.starts_with('"')
}

fn is_number(value: &str) -> bool {
    value.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// A number as it is echoed (S-18): integers exactly, of whatever length; what has a fraction or an exponent as
/// ECMAScript prints it; what is too large for that exactly as it came.
fn number_text(number: &str) -> Cow<'_, str> {
    if number == "-0" {
        return Cow::Borrowed("0");
    }
    if !number.contains(['.', 'e', 'E']) {
        return Cow::Borrowed(number);
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Cow::Owned(ecmascript_number(value)),
        Ok(_) | Err(_) => Cow::Borrowed(number),
    }
}

/// `Number::toString` of ECMAScript. Rust finds the same shortest digits and only writes exponents differently.
fn ecmascript_number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => match exponent.parse::<i32>() {
            Ok(-6..=20) | Err(_) => format!("{value}"),
            Ok(large @ 21..) => format!("{digits}e+{large}"),
            Ok(small) => format!("{digits}e{small}"),
        },
        None => scientific,
    }
}

/// Bytes that are not UTF-8 become U+FFFD (S-3).
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
