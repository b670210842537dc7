//! Which frame goes to whom: requests of doors become calls of agents, what agents produce becomes
//! notices and replies in release order. A machine: no clock, no I/O; `transom-io` drives it.

mod answers;
mod directory;
mod peer;
mod release;
mod request;
mod router;
mod row;
mod sessions;

use std::sync::Arc;

use transom_frame::{ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    agent::{Happened, Token},
    ports::{
        Append, Commit, ModelRequest, Page, Route, Served, StoreError, StoredSession, ToolCall,
    },
};

pub use crate::router::{HostFacts, Router};

/// What has happened.
#[derive(Debug)]
pub enum Event {
    Connected {
        connection: ConnectionId,
        facts: Facts,
    },
    /// A frame that the door's policy has let through.
    Frame {
        connection: ConnectionId,
        frame: Frame,
    },
    /// The connection has handled this many of the frames delivered to it.
    Handled {
        connection: ConnectionId,
        frames: usize,
    },
    /// The connection's output is too full for more notices, or has room again.
    Rest {
        connection: ConnectionId,
        resting: bool,
    },
    /// The connection is over; what it owns is disposed.
    Disconnected {
        connection: ConnectionId,
    },
    Committed(Commit),
    Happened {
        session: SessionId,
        happened: Happened,
    },
    /// Answers `Effect::Ask`.
    Answered {
        ask: AskId,
        answer: Answer,
    },
    /// The host goes away: everything is disposed, nothing is opened any more.
    Shutdown,
}

/// Pairs a question to the driver with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskId(pub u64);

/// What the host vouches for about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub door: Arc<str>,
    pub reach: Reach,
    /// Frames that may wait for a slow peer before it is let go.
    pub live_notices_max: usize,
    /// Live sessions that may have been opened through the door, by all its connections together.
    pub sessions_max: usize,
}

/// Which sessions a connection may act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that it opened.
    Owned,
    /// All of the host.
    All,
}

/// What must be done, in order.
#[derive(Debug)]
pub enum Effect {
    Deliver {
        connection: ConnectionId,
        frame: Frame,
    },
    Append(Append),
    Ask {
        ask: AskId,
        question: Question,
    },
    Assemble {
        door: Arc<str>,
        session: SessionId,
        token: Token,
        route: Route,
    },
    CallModel {
        door: Arc<str>,
        session: SessionId,
        token: Token,
        request: ModelRequest,
    },
    StopModel {
        session: SessionId,
        token: Token,
    },
    PlanCalls {
        session: SessionId,
        token: Token,
        calls: Vec<(String, String)>,
    },
    RunTool {
        session: SessionId,
        token: Token,
        call: ToolCall,
    },
    StopTool {
        session: SessionId,
        token: Token,
    },
    Timer {
        session: SessionId,
        token: Token,
        after_ms: u64,
    },
    /// End the session's child processes: `SIGTERM` now, `SIGKILL` after this time.
    TerminateTools {
        session: SessionId,
        kill_after_ms: u64,
    },
    ForgetTools {
        session: SessionId,
    },
    /// The session is nobody's any more.
    Release {
        session: SessionId,
    },
    /// Everything that the connection owned is gone, and what it did is durable.
    Quiesced {
        connection: ConnectionId,
        failures: Vec<String>,
    },
    /// After `Event::Shutdown`: no session is left.
    Quiet {
        failures: Vec<String>,
    },
}

/// What the router has to know before it can go on.
#[derive(Debug)]
pub enum Question {
    /// Whether the session is stored; it becomes this process's own meanwhile, if nobody else has it.
    Claim(SessionId),
    Read {
        session: SessionId,
        page: Page,
    },
    List,
    /// Whether a directory stands at this path.
    IsDirectory(String),
    /// Which model answers for the route, as this door maps it.
    Serve {
        door: Arc<str>,
        route: Route,
    },
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    Here(Option<StoredSession>),
    /// It is live in another process.
    Elsewhere,
}

#[derive(Debug)]
pub enum Answer {
    Claimed(Result<Claimed, StoreError>),
    Events(Result<Vec<Arc<str>>, StoreError>),
    Listed(Result<Vec<StoredSession>, StoreError>),
    Directory(bool),
    Served(Result<Served, Failure>),
}

#[cfg(test)]
mod tests;
