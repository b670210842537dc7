//! The live driver of one session: what is sent to it becomes events, and effects for a driver to
//! perform. Turns and steps are in `agent/turn.rs` and `agent/step.rs`, tool calls in `agent/calls.rs`.

mod calls;
mod step;
mod turn;

use std::{mem, sync::Arc};

use transom_frame::{Code, Failure, MessageId, SessionId};

use crate::{
    block::Block,
    chance::Chance,
    chunk::{Chunk, LlmFailure},
    event::{Cause, Data, Discarded, Event, Target},
    header::Header,
    inbox::Inbox,
    log::Log,
    message::{Form, Message, Role, Source},
    ports::{ModelRequest, RetryPolicy, Route, Served, ToolCall, ToolOutcome, ToolSpec},
    restore::{RestoreError, Restored, restore},
    system_prompt::PromptSection,
};

use self::turn::Turn;

/// What all agents of a host have in common.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Sections of the system prompt, in any order (L-95).
    pub prompt: Vec<PromptSection>,
    /// How many parallel tool calls of one message may run at once (L-57); at least 1.
    pub parallel_calls_max: usize,
    /// Steps of one turn (L-35): a model that always asks for one more tool would never end.
    pub steps_per_turn_max: u64,
    /// Tool calls of one message. Models ask for a handful; a thousand in one answer is no plan.
    pub calls_per_message_max: usize,
    /// How long a cancelled turn waits for its tools before it records them as aborted (L-52).
    pub drain_ms: u64,
    /// Messages that may wait in one inbox; more are refused as `overloaded`.
    pub inbox_messages_max: usize,
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        AgentConfig {
            prompt: Vec::new(),
            parallel_calls_max: 10,
            // Hours of work for a diligent model.
            steps_per_turn_max: 1_000,
            calls_per_message_max: 128,
            drain_ms: 10_000,
            // Far above what people queue, low enough that a loop in a client is noticed.
            inbox_messages_max: 10_000,
        }
    }
}

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
    /// Answers `RunTool`, also after `StopTool`.
    ToolEnded(Token, ToolOutcome),
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
    /// The agent is gone; nothing follows.
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

/// One live session.
#[derive(Debug)]
pub struct Agent {
    log: Log,
    inbox: Inbox,
    route: Route,
    cwd: Option<String>,
    config: Arc<AgentConfig>,
    chance: Chance,
    activity: Activity,
    /// Waking input came while an aborted activity was still ending (L-50).
    latched: bool,
    disposing: bool,
    /// Why the log could not be written.
    failure: Option<String>,
    tokens: u64,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per session, and most sessions run")]
enum Activity {
    Idle,
    Running(Turn),
    /// The log cannot be written any more; `failure` says why.
    Broken,
    Disposed,
}

impl Agent {
    /// A new session, idle and with an empty log.
    pub fn new(header: Header, route: Route, config: Arc<AgentConfig>, chance: Chance) -> Agent {
        Agent {
            cwd: header.cwd.clone(),
            log: Log::new(header),
            inbox: Inbox::default(),
            route,
            config,
            chance,
            activity: Activity::Idle,
            latched: false,
            disposing: false,
            failure: None,
            tokens: 0,
        }
    }

    /// Goes on with a stored session (L-80). Its route is the caller's; pending messages wait for the next
    /// waking send. Gives the agent and the events that its log lacked, which are to be stored and not
    /// shown (decision 79).
    pub fn restore(
        header: Header,
        events: &[Arc<str>],
        route: Route,
        config: Arc<AgentConfig>,
        chance: Chance,
        now: u64,
    ) -> Result<(Agent, Vec<Event>), RestoreError> {
        let Restored { log, inbox, cwd, closers } = restore(header.clone(), events, now)?;
        let agent = Agent { log, inbox, cwd, ..Agent::new(header, route, config, chance) };
        Ok((agent, closers))
    }

    /// The id in the header; never changes.
    pub fn id(&self) -> &SessionId {
        &self.log.header().id
    }

    /// The first record of the log, as it was at the start.
    pub fn header(&self) -> &Arc<Header> {
        self.log.header()
    }

    /// What is folded from the log; the events are the store's.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// `Idle` as well once the agent is broken or disposed.
    pub fn status(&self) -> Status {
        match self.activity {
            Activity::Running(_) => Status::Running,
            Activity::Idle | Activity::Broken | Activity::Disposed => Status::Idle,
        }
    }

    /// The directory that tools of this session work in.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The route that the next step will ask for.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Why the agent takes nothing any more: its log could not be written.
    pub fn broken(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A user's message: queued, logged, and claimed at once where the agent is idle (L-23, L-24).
    pub fn prompt(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        content: Vec<Block>,
        source: Source,
        delivery: Delivery,
    ) -> Result<MessageId, Failure> {
        let id = self.chance.message_id();
        let message = Message { id: id.clone(), role: Role::User, content, source };
        self.send(out, now, message, delivery)?;
        Ok(id)
    }

    /// Queues a message that already has its id.
    pub fn send(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        message: Message,
        delivery: Delivery,
    ) -> Result<(), Failure> {
        self.accepts(&message)?;
        let aborted = matches!(&self.activity, Activity::Running(turn) if turn.cancelled.is_some());
        let target = match delivery {
            Delivery::Followup => Target::NextTurn,
            Delivery::Steer if aborted => Target::NextTurn,
            Delivery::Steer | Delivery::Inject => Target::NextStep,
        };
        let inserted = [Arc::new(message)];
        let start = self.inbox.list(target).len();
        let data = Data::InboxSpliced {
            target,
            start,
            removed_count: None,
            inserted: &inserted,
            outcome: None,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        let [message] = inserted;
        self.inbox.push(target, message);

        if delivery != Delivery::Inject {
            match &self.activity {
                Activity::Idle => self.wake(out, now),
                Activity::Running(_) => self.latched |= aborted,
                Activity::Broken | Activity::Disposed => {}
            }
        }
        Ok(())
    }

    fn accepts(&self, message: &Message) -> Result<(), Failure> {
        if let Some(why) = &self.failure {
            return Err(Failure::new(Code::StoreFailed, why.clone()));
        }
        if self.disposing {
            let text = format!("session \"{}\" is being disposed", self.id());
            return Err(Failure::new(Code::SessionDisposed, text));
        }
        if self.inbox.holds(&message.id) {
            let text = format!("message \"{}\" is already pending", message.id);
            return Err(Failure::new(Code::Invalid, text));
        }
        let max = self.config.inbox_messages_max;
        if self.inbox.len() >= max {
            let text = format!(
                "session \"{}\" has {max} messages waiting, the most it may have",
                self.id()
            );
            return Err(Failure::new(Code::Overloaded, text).with("limit", "inbox-messages-max"));
        }
        Ok(())
    }

    /// Changes the directory of later tool calls and tells the model (S-63). `cwd` is absolute.
    pub fn set_directory(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        cwd: &str,
    ) -> Result<(), Failure> {
        let text = format!("The working directory is now {cwd}");
        let summary = Some(format!("working directory: {cwd}"));
        let source = Source::Plugin {
            plugin: "working-directory".to_owned(),
            form: Some(Form::Notice),
            sections: None,
            summary,
        };
        let message = Message {
            id: self.chance.message_id(),
            role: Role::User,
            content: vec![Block::text(text)],
            source,
        };
        self.accepts(&message)?;
        out.push(Effect::Append(self.log.append(now, &Data::WorkingDirectoryChange { cwd })));
        self.cwd = Some(cwd.to_owned());
        self.send(out, now, message, Delivery::Inject)
    }

    /// Stops what is running; the first cause wins (L-47).
    pub fn cancel(&mut self, out: &mut Vec<Effect>, now: u64, cause: Cause, inbox: InboxFate) {
        let drain_ms = self.config.drain_ms;
        self.cancel_within(out, now, cause, inbox, drain_ms);
    }

    /// Cancels for good and ends with `Effect::Disposed` (L-51). Tools that do not stop are given up
    /// after `drain_ms`.
    pub fn dispose(&mut self, out: &mut Vec<Effect>, now: u64, drain_ms: u64) {
        if mem::replace(&mut self.disposing, true) {
            return;
        }
        self.cancel_within(out, now, Cause::Disposed, InboxFate::Clear, drain_ms);
        self.leave_if_disposed(out);
    }

    fn cancel_within(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        cause: Cause,
        inbox: InboxFate,
        drain_ms: u64,
    ) {
        if matches!(self.activity, Activity::Broken | Activity::Disposed) {
            return;
        }
        if inbox == InboxFate::Clear {
            self.discard(out, now, Target::NextStep);
            self.discard(out, now, Target::NextTurn);
            self.latched = false;
        }
        self.with_turn(out, now, |agent, out, turn| {
            agent.abort_turn(out, now, turn, cause, drain_ms)
        });
    }

    /// Something asked for has come.
    pub fn handle(&mut self, out: &mut Vec<Effect>, now: u64, happened: Happened) {
        if let Happened::StoreFailed(why) = happened {
            return self.break_down(out, why);
        }
        self.with_turn(out, now, |agent, out, turn| agent.advance(out, now, turn, happened));
        self.leave_if_disposed(out);
    }

    /// Runs `step` on the running turn, if there is one, and settles what it comes to.
    fn with_turn(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        step: impl FnOnce(&mut Agent, &mut Vec<Effect>, Turn) -> turn::Next,
    ) {
        match mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Running(turn) => {
                let next = step(self, out, turn);
                self.settle(out, now, next);
            }
            other => self.activity = other,
        }
    }

    fn settle(&mut self, out: &mut Vec<Effect>, now: u64, mut next: turn::Next) {
        loop {
            match next {
                turn::Next::Wait(turn) => {
                    self.activity = Activity::Running(turn);
                    return;
                }
                turn::Next::AnotherTurn if !self.inbox.is_empty() => {
                    next = self.open_turn(out, now)
                }
                turn::Next::AnotherTurn | turn::Next::Rest => {
                    self.activity = Activity::Idle;
                    out.push(Effect::Live(Live::Status(Status::Idle)));
                    if mem::take(&mut self.latched) && !self.inbox.is_empty() && !self.disposing {
                        self.wake(out, now);
                    }
                    return;
                }
            }
        }
    }

    fn wake(&mut self, out: &mut Vec<Effect>, now: u64) {
        out.push(Effect::Live(Live::Status(Status::Running)));
        let next = self.open_turn(out, now);
        self.settle(out, now, next);
    }

    fn discard(&mut self, out: &mut Vec<Effect>, now: u64, target: Target) {
        let removed = self.inbox.take(target, usize::MAX);
        if removed.is_empty() {
            return;
        }
        let data = Data::InboxSpliced {
            target,
            start: 0,
            removed_count: Some(removed.len()),
            inserted: &[],
            outcome: Some(Discarded::Canceled),
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        let messages = removed.iter().map(|message| message.id.clone()).collect();
        out.push(Effect::Live(Live::Discarded { messages }));
    }

    fn break_down(&mut self, out: &mut Vec<Effect>, why: String) {
        self.failure.get_or_insert(why.clone());
        match mem::replace(&mut self.activity, Activity::Broken) {
            Activity::Running(turn) => {
                turn.stop_everything(out);
                let failure = LlmFailure::new("UNKNOWN", why);
                out.push(Effect::Live(turn.error(failure)));
                out.push(Effect::Live(Live::Status(Status::Idle)));
            }
            Activity::Idle | Activity::Broken => {}
            Activity::Disposed => self.activity = Activity::Disposed,
        }
        self.leave_if_disposed(out);
    }

    fn leave_if_disposed(&mut self, out: &mut Vec<Effect>) {
        if self.disposing && matches!(self.activity, Activity::Idle | Activity::Broken) {
            self.activity = Activity::Disposed;
            out.push(Effect::Disposed);
        }
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }
}

#[cfg(test)]
mod tests;
