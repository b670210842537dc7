//! The codec contract as the host sees it: `transom:codec@0.1` in plain Rust.
//! `transom-sandbox` implements it for components, tests implement it natively.

use std::sync::Arc;

use transom_frame::{Fault, Frame};
use transom_framing::Excess;

/// Milliseconds since the connection opened. Never runs back, not even over a swap.
pub type Millis = u64;

/// Names and values in order. Names are lower case and may repeat.
pub type Fields = Vec<(String, String)>;

/// A stream of a connection; 0 is the connection's own wire.
pub type Lane = u32;

/// How the host cuts lane 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// A line without its end.
    Lines,
    /// A WebSocket message.
    Messages,
    /// One HTTP request and its response.
    Exchange,
    /// Nothing arrives unasked: the codec begins HTTP calls.
    Outbound,
    /// Bytes as they come.
    Chunks,
}

/// What a codec says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the protocol that the codec speaks, for example `sdk`.
    pub protocol: String,
    /// Revisions of the protocol that it accepts, as the protocol spells them.
    pub revisions: Vec<String>,
    /// Framings under which it can serve lane 0.
    pub framings: Vec<Framing>,
    /// Frames it may send, by name or by prefix ending in `/*`.
    pub sends: Vec<String>,
    /// HTTP headers it sees.
    pub headers: Vec<String>,
    /// Number of the format that `suspend` writes.
    pub state_format: u32,
    /// The state formats that `resume` accepts.
    pub resumes: Vec<u32>,
}

/// What a codec learns when its connection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// One of the manifest's `framings`.
    pub framing: Framing,
    /// 128 bits of chance, the connection's only source of it.
    pub seed: (u64, u64),
    /// JSON text of the door's options.
    pub options: String,
    /// What the host vouches for, never what a peer claims about itself.
    pub facts: Fields,
}

/// What the bytes of a unit are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A line, text message, body or piece of one.
    Text,
    /// A binary message; the bytes need not be UTF-8.
    Binary,
    /// What was left when the wire ended.
    Unfinished,
}

/// One piece of a lane, as the framing cuts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The lane it came from or goes to.
    pub lane: Lane,
    /// Says how to read `bytes`.
    pub form: Form,
    /// Payload without the framing, so without a line's end.
    pub bytes: Vec<u8>,
}

/// Start line and headers; `:status`, `:method` and `:path` are ordinary names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The lane whose body follows.
    pub lane: Lane,
    /// In wire order; names are lower case.
    pub fields: Fields,
}

/// A unit that crossed a bound: dropped, counted, reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The lane that lost the unit.
    pub lane: Lane,
    /// The bound that was crossed.
    pub why: Excess,
    /// Bytes that were dropped.
    pub bytes: u64,
}

/// The other side sends no more here; with `broken`, nothing can be written here either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The lane that has ended.
    pub lane: Lane,
    /// For people: what broke; `None` after an orderly end.
    pub broken: Option<String>,
}

/// How the connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// A WebSocket close code; other carriers ignore it.
    pub code: Option<u16>,
    /// For the peer, where the carrier can tell it.
    pub reason: String,
}

/// Why the connection is asked to drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Farewell {
    /// The host goes away.
    Shutdown,
    /// Another version takes the new connections.
    Replaced,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Start line and headers of a lane have arrived.
    Head(Head),
    /// A whole unit has arrived, or a piece of a body.
    Unit(Unit),
    /// A unit was too long or too deep and will not come.
    Skipped(Skipped),
    /// Nothing more arrives on a lane.
    End(Ending),
    /// The host answers a frame, or asks or tells something.
    Frame(Frame),
    /// The time set by `Output::Deadline` has come.
    Deadline,
    /// Come to an end soon; the connection still works.
    Drain(Farewell),
    /// Growth within the track: name and JSON text.
    Other(String, String),
}

/// What must happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Start line and headers; on a lane not used before, they begin an HTTP call.
    Head(Head),
    /// Bytes to write to a lane.
    Unit(Unit),
    /// This side of the lane is complete.
    End(Lane),
    /// Break the lane off, visibly.
    Abort(Lane),
    /// Something to say to the host, if manifest and policy both allow it.
    Frame(Frame),
    /// Replaces the earlier deadline and outlives a swap.
    Deadline(Option<Millis>),
    /// Once everything before it is written.
    Close(Closing),
    /// For logs: a name and JSON text.
    Note(String, String),
    /// Growth within the track: name and JSON text.
    Other(String, String),
}

/// Why a call into a codec gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The codec itself says that the connection cannot go on.
    #[error("{0}")]
    Fault(Fault),
    /// The codec's code failed. The text is for logs only and may hold a backtrace.
    #[error("trap: {0}")]
    Trap(String),
    /// The codec crossed a limit of its policy.
    #[error("limit {limit}: {found} is over the allowed {allowed}")]
    Limit {
        /// For example `call_ms`.
        limit: &'static str,
        /// What the codec used or wanted, in the limit's unit.
        found: u64,
        /// The bound, in the same unit.
        allowed: u64,
    },
    /// The codec put out what the contract or its carrier does not allow. The text is for logs only.
    #[error("misuse: {0}")]
    Misuse(String),
    /// An earlier call ended this instance.
    #[error("the instance is gone")]
    Gone,
}

/// One codec instance, serving one connection.
pub trait Codec: Send {
    /// One input in, all outputs out.
    fn handle(&mut self, now: Millis, input: Input) -> Result<Vec<Output>, CodecError>;

    /// Every bit of the codec's state. Only reads.
    fn suspend(&mut self) -> Result<Vec<u8>, CodecError>;

    /// Bytes of memory that the instance occupies; 0 where nobody counts.
    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// An instance that has no connection yet.
pub trait Vacant: Send {
    /// As [`CodecSource::resume`] of the source that prepared it.
    fn resume(
        self: Box<Self>,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError>;
}

/// A component version, ready to serve connections.
pub trait CodecSource: Send + Sync {
    /// The answer to `describe`, the same for every connection.
    fn manifest(&self) -> &Manifest;

    /// Name, version and digest for the log, for example `sdk 0.1.0 sha256:9f86…`.
    fn identity(&self) -> Arc<str>;

    /// Begins a connection. Gives the codec and what it puts out before any input.
    fn open(&self, setup: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError>;

    /// Goes on from what `suspend` wrote in `format`; a refusal leaves the suspended codec in use.
    fn resume(
        &self,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError>;

    /// Does ahead what `resume` would do before it looks at the state; the suspended codec serves meanwhile. None where that is
    /// nothing.
    fn prepare(&self) -> Result<Option<Box<dyn Vacant>>, CodecError> {
        Ok(None)
    }
}
