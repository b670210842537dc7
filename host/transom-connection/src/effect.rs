//! What can happen to a connection, and what it can want: two closed lists.
//! Performing effects, in their order, is left to the driver.

use std::sync::Arc;

use transom_frame::Frame;
use transom_framing::{Cut, Excess};

use crate::codec::{CodecError, Farewell, Form, Millis};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The framing cut a unit.
    Unit {
        /// What kind of unit.
        form: Form,
        /// What it holds.
        bytes: Vec<u8>,
    },
    /// The framing dropped a unit that crossed a bound.
    Skipped {
        /// The bound.
        why: Excess,
        /// How long the unit was.
        bytes: u64,
    },
    /// The peer sends no more. With `broken`, nothing can be written either (S-36).
    End {
        /// What broke.
        broken: Option<String>,
    },
    /// The host says something: an answer, a request or a notice, in release order.
    Frame(Frame),
    /// The deadline passed.
    Deadline,
    /// The host wants the connection to come to an end.
    Drain(Farewell),
    /// How many bytes are handed to the driver and not yet written. Told whenever it changes.
    Unwritten(u64),
}

impl From<Cut> for Event {
    fn from(cut: Cut) -> Event {
        match cut {
            Cut::Line(bytes) => Event::Unit { form: Form::Text, bytes },
            Cut::Unfinished(bytes) => Event::Unit { form: Form::Unfinished, bytes },
            Cut::Skipped { why, bytes } => Event::Skipped { why, bytes },
        }
    }
}

/// What the driver must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write one unit on lane 0. The driver frames it; that it can be framed is already checked.
    Write(Vec<u8>),
    /// Nothing more will be written: end the output once everything is out.
    EndOutput,
    /// Break the output off, visibly.
    AbortOutput,
    /// Say this to the host. The policy allows it.
    Frame(Frame),
    /// Wake the connection then, instead of whenever it was before.
    Deadline(Option<Millis>),
    /// End the connection, once everything before this is written. It is the last effect; whatever the connection
    /// asked or was asked and is not answered yet never will be.
    Close {
        /// A WebSocket close code; other carriers ignore it.
        code: Option<u16>,
        /// May be shown to the peer.
        reason: String,
        /// Whether the connection ended because it could not go on.
        failed: bool,
    },
    /// Whether to read from the peer.
    Reading(bool),
    /// Whether the connection's subscriptions may release live notices and events.
    Notices(bool),
    /// For the log.
    Log {
        /// How much it matters.
        level: Level,
        /// What happened, the same words every time.
        name: String,
        /// JSON text of the fields.
        json: String,
    },
    /// The codec failed. For the log and for the slot's probation; the close follows, unless the
    /// connection just came from another version and could be moved back to it.
    Faulted {
        /// The number of what served.
        number: u64,
        /// Component, version and digest.
        identity: Arc<str>,
        /// How.
        error: CodecError,
    },
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// For whoever looks for a fault in a door.
    Debug,
    /// What an operator would want to know next morning.
    Info,
    /// Something was refused or dropped.
    Warn,
    /// A bug on the host's side.
    Error,
}
