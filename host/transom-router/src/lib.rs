//! Which frame goes to whom: requests of doors become calls of agents, what agents produce becomes
//! notices and replies in release order. A machine: no clock, no I/O; `transom-io` drives it.

mod answers;
mod asks;
mod children;
mod commits;
mod delegations;
mod directory;
mod forks;
mod images;
mod inbox;
mod leaving;
mod listing;
mod openings;
mod peer;
mod permissions;
mod projections;
mod questions;
mod release;
mod request;
mod revivals;
mod router;
mod row;
mod sessions;
mod showing;

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use transom_frame::{ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    agent::{Happened, Token},
    block::Block,
    catalogue::Catalogue,
    hooks::HookAsk,
    image::ImageLimits,
    ports::{
        Append, AskRefused, Commit, Delegation, DelegationEvent, ModelRequest, Page, Route, Served,
        StoreError, StoredSession, ToolCall,
    },
    subagents::{ChildOrder, ChildRefused, Obeyed, Toolset},
};

pub use crate::{
    images::{Images, Unseen},
    router::{HostFacts, Router, Settings},
};

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// A peer has joined; its frames come only after this.
    Connected {
        /// New in this process.
        connection: ConnectionId,
        /// Hold for the whole connection.
        facts: Facts,
    },
    /// A frame that the door's policy has let through.
    Frame {
        /// The peer that sent it.
        connection: ConnectionId,
        /// Its id is unique only within the connection.
        frame: Frame,
    },
    /// The connection has handled this many of the frames delivered to it.
    Handled {
        /// The peer that they were delivered to.
        connection: ConnectionId,
        /// Frames since the last such event.
        frames: usize,
    },
    /// The connection's output is too full for more notices, or has room again.
    Rest {
        /// The peer whose output it is.
        connection: ConnectionId,
        /// `true`: too full; `false`: room again.
        resting: bool,
    },
    /// The connection is over; what it owns is disposed.
    Disconnected {
        /// The peer that has left; `Effect::Quiesced` answers for it.
        connection: ConnectionId,
    },
    /// The store reports on appended events; only durable ones are shown.
    Committed(Commit),
    /// Something that an agent had asked for has come.
    Happened {
        /// The session whose agent asked.
        session: SessionId,
        /// Carries the agent's token, where there is one.
        happened: Happened,
    },
    /// Answers `Effect::Ask`.
    Answered {
        /// That of the question; each is answered once.
        ask: AskId,
        /// Of the kind that the question asks for.
        answer: Answer,
    },
    /// A call hands work to a session of this host's own (L-66).
    Delegate {
        /// New in this process.
        run: RunId,
        /// What is handed on.
        delegation: Delegation,
    },
    /// Nobody wants the run any more; it ends as aborted.
    StopDelegation {
        /// That of `Delegate`.
        run: RunId,
    },
    /// A call wants something of a session that its own is related to (L-72).
    Order {
        /// New in this process.
        order: OrderId,
        /// The session that wants it.
        session: SessionId,
        /// What it wants.
        wanted: ChildOrder,
    },
    /// A call has a question for the person behind its session (L-65).
    Question {
        /// New in this process.
        question: QuestionId,
        /// The session that asks.
        session: SessionId,
        /// The array of L-65, not checked yet.
        questions: Value,
    },
    /// The operator's settings are others now: for requests and sessions that begin from here on.
    Configured(Settings),
    /// Nobody wants the answer any more.
    WithdrawQuestion {
        /// That of `Question`.
        question: QuestionId,
    },
    /// The host goes away: everything is disposed, nothing is opened any more.
    Shutdown,
}

/// Pairs a question to the driver with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskId(pub u64);

/// Names a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// Names what a session wants of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(pub u64);

/// Names a question of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

/// Whose asks a door answers (decision 8). It is data of the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Nobody's.
    #[default]
    Never,
    /// Those of sessions that its connection owns, while it is subscribed to `asks`.
    Owned,
    /// Everybody's, also with nobody connected (B-136).
    Always,
}

/// What the host vouches for about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the door it came through.
    pub door: Arc<str>,
    /// Fixed by the door's configuration.
    pub reach: Reach,
    /// Lists hold stored sessions that nobody has open. A peer that shares the process with others gets none, whoever
    /// opened them.
    pub sees_stored: bool,
    /// Fixed by the door's configuration.
    pub answers: Answers,
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
    /// Hand a frame to a peer.
    Deliver {
        /// The peer that gets it.
        connection: ConnectionId,
        /// Events in it are durable already.
        frame: Frame,
    },
    /// Queue an event for the store's next commit.
    Append(Append),
    /// Answer a question; the loop goes on meanwhile.
    Ask {
        /// Pairs the answer with it.
        ask: AskId,
        /// May need a disk, so the answer may be late.
        question: Question,
    },
    /// Collect tools, retry policy and model for a step.
    Assemble {
        /// The door whose route map counts.
        door: Arc<str>,
        /// The session that takes the step.
        session: SessionId,
        /// Comes back in `Happened::Assembled`.
        token: Token,
        /// What the session asks of its models.
        route: Route,
        /// The session's directory, and where that really stands (P-5).
        cwd: Option<String>,
        /// See `cwd`.
        root: Option<String>,
    },
    /// Start an attempt; its chunks come back under the token.
    CallModel {
        /// The door whose models are asked.
        door: Arc<str>,
        /// The session whose step it is.
        session: SessionId,
        /// Comes back with every chunk.
        token: Token,
        /// The whole input; nothing is kept from earlier attempts.
        request: ModelRequest,
    },
    /// End an attempt; nobody waits for its end.
    StopModel {
        /// The session whose attempt it is.
        session: SessionId,
        /// That of `CallModel`.
        token: Token,
    },
    /// Say which calls may overlap (L-57).
    PlanCalls {
        /// The session whose calls they are.
        session: SessionId,
        /// Comes back in `Happened::Planned`.
        token: Token,
        /// Name and raw arguments of each, in the model's order.
        calls: Vec<(String, String)>,
    },
    /// Find out whether a call may begin (P-30).
    Judge {
        /// The session that called.
        session: SessionId,
        /// Comes back in `Happened::Judged`.
        token: Token,
        /// Its `tool/call` event is appended.
        call: ToolCall,
    },
    /// Ask those who have a say at a point of a turn.
    AskHooks {
        /// The session whose turn it is.
        session: SessionId,
        /// Comes back in `Happened::Hooked`.
        token: Token,
        /// What stands before it in the log is durable.
        ask: HookAsk,
    },
    /// Nobody waits for the answer any more.
    StopHooks {
        /// The session whose turn it is.
        session: SessionId,
        /// That of `AskHooks`.
        token: Token,
    },
    /// Tell those who watch of a result that is durable.
    Observe(HookAsk),
    /// Say what has become of a delegation.
    Delegated {
        /// That of `Event::Delegate`.
        run: RunId,
        /// `Kept`, `Refused` and `Ended` are last.
        event: DelegationEvent,
    },
    /// Say what has become of an order.
    Ordered {
        /// That of `Event::Order`.
        order: OrderId,
        /// Or why it is not carried out.
        result: Result<Obeyed, ChildRefused>,
    },
    /// Give a session tools of its own, and keep others from it.
    Equip {
        /// It is about to be live; nothing of it has been assembled.
        session: SessionId,
        /// Not the default.
        toolset: Toolset,
    },
    /// Give a question's answer to the call that has asked.
    Answer {
        /// That of `Event::Question`.
        question: QuestionId,
        /// JSON text of `{answers: […]}`, or why there is none.
        answer: Result<String, AskRefused>,
    },
    /// Start a tool call; its outcome comes back under the token.
    RunTool {
        /// The session that called.
        session: SessionId,
        /// Comes back in `Happened::ToolEnded`.
        token: Token,
        /// Its `tool/call` event is durable.
        call: ToolCall,
    },
    /// Ask a tool to end; it still reports its outcome.
    StopTool {
        /// The session whose call it is.
        session: SessionId,
        /// That of `RunTool`.
        token: Token,
    },
    /// Wake an agent later.
    Timer {
        /// The session that waits.
        session: SessionId,
        /// Comes back in `Happened::Timer`.
        token: Token,
        /// From now, in milliseconds.
        after_ms: u64,
    },
    /// End the session's child processes: `SIGTERM` now, `SIGKILL` after this time.
    TerminateTools {
        /// The session whose children end.
        session: SessionId,
        /// Milliseconds between the two signals.
        kill_after_ms: u64,
    },
    /// Drop what tools remember of a session that is gone.
    ForgetTools {
        /// No call of it runs any more.
        session: SessionId,
    },
    /// The session is nobody's any more.
    Release {
        /// The session whose claim is given back.
        session: SessionId,
    },
    /// Everything that the connection owned is gone, and what it did is durable.
    Quiesced {
        /// The peer that had left.
        connection: ConnectionId,
        /// For people: what could not be ended or stored; empty if all went well.
        failures: Vec<String>,
    },
    /// After `Event::Shutdown`: no session is left.
    Quiet {
        /// For people: what could not be ended or stored; empty if all went well.
        failures: Vec<String>,
    },
}

/// What the router has to know before it can go on.
#[derive(Debug)]
pub enum Question {
    /// Whether the session is stored; it becomes this process's own meanwhile, if nobody else has it.
    Claim(SessionId),
    /// Stored events of a session, to go on from or to show to a peer.
    Read {
        /// Need not be live.
        session: SessionId,
        /// Where to begin, and how much at most.
        page: Page,
    },
    /// All stored sessions.
    List,
    /// The directory that stands at this path, wherever its links lead.
    Directory(String),
    /// Which of these paths lead to the same directory as `path`. One that leads nowhere is compared as it is written.
    Same {
        /// Absolute.
        path: String,
        /// As headers of sessions have them.
        others: BTreeSet<String>,
    },
    /// The last `session/title` event of each session.
    Titles(Vec<SessionId>),
    /// What there is to choose from.
    Catalogue {
        /// The door whose models are asked.
        door: Arc<str>,
    },
    /// A prompt's content with its images kept, so that it only names them (S-58).
    Keep {
        /// Of one prompt.
        content: Vec<Block>,
        /// How much of images it may have.
        limits: ImageLimits,
    },
    /// An attachment that a session's log names (B-156).
    Attachment {
        /// The session.
        session: SessionId,
        /// `sha256:<hex>`, as the peer gave it.
        name: String,
        /// Events of the log that have been shown; the others count as not there.
        events: u64,
    },
    /// Which model answers for the route, as this door maps it.
    Serve {
        /// The door whose route map counts.
        door: Arc<str>,
        /// As the peer gave it; may name no provider.
        route: Route,
    },
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// This process owns it now; `None` if it is not stored.
    Here(Option<StoredSession>),
    /// It is live in another process.
    Elsewhere,
}

/// What the driver found out, one variant per kind of question.
#[derive(Debug)]
pub enum Answer {
    /// To `Question::Claim`.
    Claimed(Result<Claimed, StoreError>),
    /// To `Question::Read`: envelopes as JSON text, in order of `seq`.
    Events(Result<Vec<Arc<str>>, StoreError>),
    /// To `Question::List`; sessions that live unstored are not in it.
    Listed(Result<Vec<StoredSession>, StoreError>),
    /// To `Question::Directory`: its path without links; `None` also for one that cannot be read, or whose path is no
    /// text.
    Directory(Option<String>),
    /// To `Question::Same`: those of `others`.
    Same(BTreeSet<String>),
    /// To `Question::Titles`: as JSON text, in the order of the question; `None` for a session without one.
    Titles(Result<Vec<Option<Arc<str>>>, StoreError>),
    /// To `Question::Catalogue`.
    Catalogue(Catalogue),
    /// To `Question::Keep`; the failure is for the peer.
    Kept(Result<Vec<Block>, Failure>),
    /// To `Question::Attachment`: the body of the reply; the failure is for the peer.
    Attachment(Result<String, Failure>),
    /// To `Question::Serve`; the failure is for the peer.
    Served(Result<Served, Failure>),
}

#[cfg(test)]
mod tests;
