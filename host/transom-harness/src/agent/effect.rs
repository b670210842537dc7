//! What goes in and out of an agent: what has happened, what is to be done, what peers are told.

use std::sync::Arc;

use transom_frame::{Failure, MessageId};

use super::calls::Approval;
use crate::{
    chunk::{Chunk, LlmFailure},
    event::Event,
    hooks::{HookAnswer, HookAsk},
    jobs::JobChange,
    permissions::Outcome,
    ports::{Judgement, ModelRequest, RetryPolicy, Route, Served, ToolCall, ToolOutcome, ToolSpec},
};

/// Names one thing that was asked of the driver, so that a late answer is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Where a message enters (L-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A turn of its own; wakes the agent.
    Followup,
    /// The next step of the running turn; wakes the agent.
    Steer,
    /// The next step, whenever that comes; wakes nobody.
    Inject,
}

/// What a cancel does with messages that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxFate {
    /// They are discarded, and the log says so (L-47).
    Clear,
    /// They stay, in their order.
    Keep,
}

/// What has happened to things the agent had asked for.
#[derive(Debug)]
pub enum Happened {
    /// Answers `Effect::Assemble`.
    Assembled(Token, Assembly),
    /// From an attempt, in order; the last one is a `Finish`.
    Chunk(Token, Chunk),
    /// The time of `Effect::Timer` is up.
    Timer(Token),
    /// Answers `PlanCalls`: which calls may overlap, in the order of the calls.
    Planned(Token, Vec<bool>),
    /// Answers `Judge`.
    Judged(Token, Judgement),
    /// Instead of an answer to `PlanCalls` or `Judge`: whoever schedules calls has failed (L-58).
    CallsFailed(Token, String),
    /// Answers `AskHooks`.
    Hooked(Token, HookAnswer),
    /// Answers `Ask`.
    Decided {
        /// That of the `approval/asked`.
        approval: String,
        /// How it came out.
        outcome: Outcome,
    },
    /// Answers `RunTool`, also after `StopTool`.
    ToolEnded(Token, ToolOutcome),
    /// Something has become of a job that a call had started.
    Job(JobChange),
    /// Events that were appended could not be stored; nothing after them exists (decision 1).
    StoreFailed(String),
}

/// What a step is made with.
#[derive(Debug)]
pub struct Assembly {
    /// The route as it will be served; a failure ends the turn.
    pub served: Result<Served, Failure>,
    /// What the model is told, sorted by name (L-95).
    pub tools: Arc<[ToolSpec]>,
    /// Counts for every attempt of the step.
    pub retry: RetryPolicy,
}

/// What the driver must do, in order.
#[derive(Debug)]
pub enum Effect {
    /// Make durable, then show.
    Append(Event),
    /// Show behind the events before it; not part of the log.
    Live(Live),
    /// Find out what the next step is made with.
    Assemble {
        /// Comes back in `Happened::Assembled`.
        token: Token,
        /// What the session asks for.
        route: Route,
    },
    /// Once everything appended so far is durable (L-74).
    CallModel {
        /// Comes back with every chunk.
        token: Token,
        /// The whole input of the attempt.
        request: ModelRequest,
    },
    /// End an attempt; chunks that still come are ignored.
    StopModel(Token),
    /// Ask which calls of a message may overlap (L-57).
    PlanCalls {
        /// Comes back in `Happened::Planned`.
        token: Token,
        /// Name and raw arguments of each, in the model's order.
        calls: Vec<(String, String)>,
    },
    /// Find out whether a call may begin (P-30).
    Judge {
        /// Comes back in `Happened::Judged`.
        token: Token,
        /// Its `tool/call` event is appended.
        call: ToolCall,
    },
    /// Once everything appended so far is durable (L-74): ask those who have a say at this point.
    AskHooks {
        /// Comes back in `Happened::Hooked`.
        token: Token,
        /// What is asked.
        ask: HookAsk,
    },
    /// Nobody wants the answer any more, and none is waited for.
    StopHooks(Token),
    /// Once everything appended so far is durable: tell those who watch.
    Observe(HookAsk),
    /// Put a call to whoever decides; a `Live::Decided` of the same id withdraws it.
    Ask(Approval),
    /// Once everything appended so far is durable (L-74).
    RunTool {
        /// Comes back in `Happened::ToolEnded`.
        token: Token,
        /// Its `tool/call` event is appended.
        call: ToolCall,
    },
    /// Ask a tool to end; its outcome is still awaited (L-49).
    StopTool(Token),
    /// Wake the agent later.
    Timer {
        /// Comes back in `Happened::Timer`.
        token: Token,
        /// From now, in milliseconds.
        after_ms: u64,
    },
    /// The agent is gone: it asks for nothing more, and takes nothing. Only words that are left for its next life may
    /// still be appended, until its log is closed (P-80).
    Disposed,
}

/// What peers are told and the log does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// The agent has begun to run, or come to rest.
    Status(Status),
    /// `inbox/claimed`: a turn has taken messages out of the inbox.
    Claimed {
        /// The turn that took them.
        turn: u64,
        /// In the order of the inbox.
        messages: Vec<MessageId>,
    },
    /// `inbox/discarded`: a cancel threw messages away.
    Discarded {
        /// In the order of the inbox.
        messages: Vec<MessageId>,
    },
    /// An ask is over, whoever has ended it.
    Decided {
        /// That of the `approval/asked`.
        approval: String,
        /// How it came out.
        outcome: Outcome,
    },
    /// `session/jobs`: a job has begun, is asked to end, or is over.
    Jobs,
    /// `session/queue`: messages came or went.
    Queue,
    /// The projection `permissions` has changed (P-12).
    Permissions,
    /// `agent/error`: the turn has failed.
    Error {
        /// The turn that failed.
        turn: u64,
        /// The step it was at; 0 if none had begun.
        step: u64,
        /// What stopped it.
        failure: LlmFailure,
        /// All that the turn had claimed.
        messages: Vec<MessageId>,
    },
}

/// Whether an agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No turn is open; also after its log has failed.
    Idle,
    /// A turn is open, if only to end its tools.
    Running,
}
