//! The native peer's codec: every line is one frame, in both directions, untranslated.
//! What frames mean and who may send them is left to policy and router, as for any other door.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use transom_frame::{Code, Failure, Fault, FaultKind, Frame, FrameId, FrameKind};
use transom_framing::Excess;

use crate::{
    codec::{
        Closing, Codec, CodecError, CodecSource, Farewell, Form, Framing, Input, Manifest, Millis,
        Output, Setup, Unit,
    },
    pending::FRAME_ID_BYTES_MAX,
};

/// What a line that is no frame, or no frame of this moment, is answered with: `{message}`.
const MALFORMED: &str = "peer/malformed";

/// The format of [`State`] as JSON.
const STATE_FORMAT: u32 = 1;

static MANIFEST: LazyLock<Manifest> = LazyLock::new(|| Manifest {
    protocol: "frames".to_owned(),
    revisions: vec!["0.1".to_owned()],
    framings: vec![Framing::Lines],
    // Everything that the frame language has; the policy chooses.
    sends: [
        "host/*",
        "session/*",
        "attachment/*",
        "models/*",
        "events/*",
        "ask/*",
        "remote/*",
        "tools/*",
        "agent/*",
        "door/*",
    ]
    .map(str::to_owned)
    .to_vec(),
    headers: Vec::new(),
    state_format: STATE_FORMAT,
    resumes: vec![STATE_FORMAT],
});

/// The native peer's codec, ready to serve connections.
pub fn source() -> Arc<dyn CodecSource> {
    Arc::new(FramesSource)
}

struct FramesSource;

impl CodecSource for FramesSource {
    fn manifest(&self) -> &Manifest {
        &MANIFEST
    }

    fn identity(&self) -> Arc<str> {
        concat!("frames ", env!("CARGO_PKG_VERSION"), " native").into()
    }

    fn open(&self, _: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        Ok((Box::new(Frames { state: State::default() }), Vec::new()))
    }

    fn resume(&self, _: &Setup, format: u32, state: &[u8]) -> Result<Box<dyn Codec>, CodecError> {
        let refuse = |detail: String| CodecError::Fault(Fault::new(FaultKind::Unsupported, detail));
        if format != STATE_FORMAT {
            return Err(refuse(format!("state format {format}, but only {STATE_FORMAT} is known")));
        }
        let state = serde_json::from_slice(state).map_err(|error| refuse(error.to_string()))?;
        Ok(Box::new(Frames { state }))
    }
}

struct Frames {
    state: State,
}

/// The one request that is withdrawn with its connection and may be pending for as long as a turn takes.
const WAIT: &str = "session/wait";

/// All that is remembered. Bounded by `pending-requests-max`, which the connection enforces.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// Ids of the peer's requests without an answer.
    asking: BTreeSet<String>,
    /// Ids of the peer's waits without an answer: nobody is held up by them (decision 0005).
    #[serde(default)]
    waiting: BTreeSet<String>,
    /// Ids of the host's requests without an answer, with their names.
    asked: BTreeMap<String, String>,
    /// Why the connection ends as soon as every request of the peer is answered.
    leaving: Option<String>,
}

impl Codec for Frames {
    fn handle(&mut self, _: Millis, input: Input) -> Result<Vec<Output>, CodecError> {
        let mut out = Vec::new();
        match input {
            Input::Unit(unit) => self.line(&mut out, unit),
            Input::Skipped(skipped) => {
                let bound = match skipped.why {
                    Excess::TooLong => "is longer than allowed",
                    Excess::TooDeep => "nests deeper than allowed",
                };
                malformed(&mut out, &format!("a line of {} bytes {bound}", skipped.bytes));
            }
            Input::Frame(frame) => self.frame(&mut out, &frame),
            Input::End(ending) => match ending.broken {
                Some(broken) => close(&mut out, broken),
                None => self.leave(&mut out, "the peer has ended"),
            },
            Input::Drain(Farewell::Shutdown) => self.leave(&mut out, "the host is shutting down"),
            Input::Drain(Farewell::Replaced) => self.leave(&mut out, "the door is being replaced"),
            Input::Deadline | Input::Head(_) | Input::Other(..) => {}
        }
        Ok(out)
    }

    fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
        serde_json::to_vec(&self.state).map_err(|error| CodecError::Trap(error.to_string()))
    }
}

impl Frames {
    /// A line from the peer.
    fn line(&mut self, out: &mut Vec<Output>, unit: Unit) {
        if unit.bytes.trim_ascii().is_empty() {
            return;
        }
        if unit.form == Form::Unfinished {
            return malformed(out, "the last line has no line feed");
        }
        let frame = match parse(&unit.bytes) {
            Ok(frame) => frame,
            Err(message) => return malformed(out, &message),
        };
        match (frame.kind, &frame.id) {
            (FrameKind::Notice, _) => out.push(Output::Frame(frame)),
            (FrameKind::Request, Some(id)) => {
                let State { asking, waiting, .. } = &mut self.state;
                if asking.contains(id.as_str()) || waiting.contains(id.as_str()) {
                    return malformed(
                        out,
                        &format!("the request id {:?} is still pending", id.as_str()),
                    );
                }
                let asked = if &*frame.name == WAIT { waiting } else { asking };
                asked.insert(id.to_string());
                match &self.state.leaving {
                    None => out.push(Output::Frame(frame)),
                    Some(why) => {
                        let failure = Failure::new(Code::ShuttingDown, why.as_str());
                        self.frame(out, &Frame::failure(&frame, &failure));
                    }
                }
            }
            (FrameKind::Reply | FrameKind::Failure, Some(id)) => {
                if self.state.asked.get(id.as_str()).is_none_or(|name| **name != *frame.name) {
                    let message =
                        format!("no {} of id {:?} waits for an answer", frame.name, id.as_str());
                    return malformed(out, &message);
                }
                self.state.asked.remove(id.as_str());
                out.push(Output::Frame(frame));
            }
            (FrameKind::Request | FrameKind::Reply | FrameKind::Failure, None) => {
                malformed(out, &format!("a {} needs an id", frame.kind.as_str()));
            }
        }
    }

    /// A frame for the peer.
    fn frame(&mut self, out: &mut Vec<Output>, frame: &Frame) {
        if let Some(id) = &frame.id {
            match frame.kind {
                FrameKind::Request => {
                    self.state.asked.insert(id.to_string(), frame.name.to_string());
                }
                FrameKind::Reply | FrameKind::Failure => {
                    self.state.asking.remove(id.as_str());
                    self.state.waiting.remove(id.as_str());
                }
                FrameKind::Notice => {}
            }
        }
        put(out, print(frame));
        self.close_when_done(out);
    }

    fn leave(&mut self, out: &mut Vec<Output>, why: &str) {
        self.state.leaving.get_or_insert_with(|| why.to_owned());
        self.close_when_done(out);
    }

    fn close_when_done(&mut self, out: &mut Vec<Output>) {
        let Some(why) = self.state.leaving.clone().filter(|_| self.state.asking.is_empty()) else {
            return;
        };
        let failure = Failure::new(Code::ShuttingDown, why.as_str());
        for id in std::mem::take(&mut self.state.waiting) {
            let wait = Frame::request(WAIT, None, id.as_str().into(), "{}");
            put(out, print(&Frame::failure(&wait, &failure)));
        }
        close(out, why);
    }
}

fn malformed(out: &mut Vec<Output>, message: &str) {
    let body = json!({"message": message}).to_string();
    put(out, print(&Frame::notice(MALFORMED, None, body)));
}

fn put(out: &mut Vec<Output>, bytes: Vec<u8>) {
    out.push(Output::Unit(Unit { lane: 0, form: Form::Text, bytes }));
}

fn close(out: &mut Vec<Output>, reason: String) {
    out.push(Output::Close(Closing { code: None, reason }));
}

/// Reads a line. The body stays the text that it is, numbers and spaces included.
fn parse(line: &[u8]) -> Result<Frame, String> {
    // Through a map, so that the last of equal names counts, as everywhere.
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(line)
        .map_err(|error| format!("a frame is a JSON object: {error}"))?;
    let known = ["kind", "session", "id", "name", "body"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown member {unknown:?}; a frame has {}", known.join(", ")));
    }

    let kind = match text(&members, "kind")?.as_deref() {
        Some("request") => FrameKind::Request,
        Some("reply") => FrameKind::Reply,
        Some("failure") => FrameKind::Failure,
        Some("notice") => FrameKind::Notice,
        Some(_) | None => return Err("kind must be request, reply, failure or notice".to_owned()),
    };
    let id = text(&members, "id")?;
    if id.as_ref().is_some_and(|id| id.len() > FRAME_ID_BYTES_MAX) {
        return Err(format!("id must have at most {FRAME_ID_BYTES_MAX} bytes"));
    }
    if id.is_some() && kind == FrameKind::Notice {
        return Err("a notice has no id".to_owned());
    }
    let Some(name) = text(&members, "name")? else { return Err("name is missing".to_owned()) };
    let Some(body) = members.get("body") else { return Err("body is missing".to_owned()) };
    Ok(Frame {
        kind,
        session: text(&members, "session")?.map(Into::into),
        id: id.map(FrameId::from),
        name: name.into(),
        body: body.get().into(),
    })
}

fn text(members: &BTreeMap<String, Box<RawValue>>, name: &str) -> Result<Option<String>, String> {
    let Some(value) = members.get(name) else { return Ok(None) };
    serde_json::from_str(value.get()).map(Some).map_err(|_| format!("{name} must be a string"))
}

/// Prints a frame as one line.
fn print(frame: &Frame) -> Vec<u8> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut line = format!("{{\"kind\":\"{}\"", frame.kind.as_str());
    let mut member = |name: &str, value: &str| {
        line.push_str(",\"");
        line.push_str(name);
        line.push_str("\":");
        line.push_str(value);
    };
    if let Some(session) = &frame.session {
        member("session", &quoted(session.as_str()));
    }
    if let Some(id) = &frame.id {
        member("id", &quoted(id.as_str()));
    }
    member("name", &quoted(&frame.name));
    member("body", &frame.body);
    line.push('}');
    // Outside strings a line feed is only space between JSON's tokens, and inside it is never raw.
    line.replace('\n', " ").into_bytes()
}

#[cfg(test)]
mod tests;
