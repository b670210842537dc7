//! Why a connection cannot go on.

use std::fmt;

/// The peer's or the codec's reason to end a connection. `detail` may be shown to the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Fault {
    /// Whose fault it is, for carriers that close with a number.
    pub kind: FaultKind,
    /// One line for people; it may hold what the peer sent.
    pub detail: String,
}

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// What arrived cannot be read at all.
    Malformed,
    /// What arrived is well formed but may not stand here.
    Misplaced,
    /// A version or feature that this side does not speak.
    Unsupported,
    /// Nothing arrived in time.
    Silent,
    /// This side failed; the log says how.
    Internal,
}

impl Fault {
    /// A fault whose `detail` the peer may read.
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> Fault {
        Fault { kind, detail: detail.into() }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Malformed => "malformed",
            FaultKind::Misplaced => "misplaced",
            FaultKind::Unsupported => "unsupported",
            FaultKind::Silent => "silent",
            FaultKind::Internal => "internal",
        })
    }
}
