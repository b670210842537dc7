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
    pub protocol: String,
    pub revisions: Vec<String>,
    pub framings: Vec<Framing>,
    /// Frames it may send, by name or by prefix ending in `/*`.
    pub sends: Vec<String>,
    /// HTTP headers it sees.
    pub headers: Vec<String>,
    pub state_format: u32,
    /// The state formats that `resume` accepts.
    pub resumes: Vec<u32>,
}

/// What a codec learns when its connection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub framing: Framing,
    pub seed: (u64, u64),
    /// JSON text of the door's options.
    pub options: String,
    /// What the host vouches for, never what a peer claims about itself.
    pub facts: Fields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A line, text message, body or piece of one.
    Text,
    Binary,
    /// What was left when the wire ended.
    Unfinished,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub lane: Lane,
    pub form: Form,
    pub bytes: Vec<u8>,
}

/// Start line and headers; `:status`, `:method` and `:path` are ordinary names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub lane: Lane,
    pub fields: Fields,
}

/// A unit that crossed a bound: dropped, counted, reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub lane: Lane,
    pub why: Excess,
    pub bytes: u64,
}

/// The other side sends no more here; with `broken`, nothing can be written here either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub lane: Lane,
    pub broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// A WebSocket close code; other carriers ignore it.
    pub code: Option<u16>,
    pub reason: String,
}

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
    Head(Head),
    Unit(Unit),
    Skipped(Skipped),
    End(Ending),
    Frame(Frame),
    Deadline,
    Drain(Farewell),
    /// Growth within the track: name and JSON text.
    Other(String, String),
}

/// What must happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Head(Head),
    Unit(Unit),
    /// This side of the lane is complete.
    End(Lane),
    /// Break the lane off, visibly.
    Abort(Lane),
    Frame(Frame),
    /// Replaces the earlier deadline and outlives a swap.
    Deadline(Option<Millis>),
    /// Once everything before it is written.
    Close(Closing),
    /// For logs: a name and JSON text.
    Note(String, String),
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
    Limit { limit: &'static str, found: u64, allowed: u64 },
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

/// A component version, ready to serve connections.
pub trait CodecSource: Send + Sync {
    fn manifest(&self) -> &Manifest;

    /// Name, version and digest for the log, for example `sdk 0.1.0 sha256:9f86…`.
    fn identity(&self) -> Arc<str>;

    fn open(&self, setup: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError>;

    fn resume(
        &self,
        setup: &Setup,
        format: u32,
        state: &[u8],
    ) -> Result<Box<dyn Codec>, CodecError>;
}
