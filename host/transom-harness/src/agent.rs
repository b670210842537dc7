//! The live driver of one session: what is sent to it becomes events, and effects for a driver to
//! perform. Turns and steps are in `agent/turn.rs` and `agent/step.rs`, tool calls in `agent/calls.rs`.

mod calls;
mod children;
mod effect;
mod failing;
mod hooks;
mod jobs;
mod permissions;
mod queue;
mod routes;
mod step;
mod turn;
mod unanswered;

use std::{mem, sync::Arc};

use serde::Deserialize;
use serde_json::Value;
use transom_frame::{Code, Failure, MessageId, SessionId};

use crate::{
    block::Block,
    chance::Chance,
    chunk::{Chunk, LlmFailure},
    event::{Cause, Data, Event, Target, TurnEnd},
    header::{Header, Origin},
    hooks::HookPoints,
    inbox::Inbox,
    jobs::JobChange,
    log::Log,
    message::{Form, Message, Role, Source},
    ports::Route,
    restore::{RestoreError, Restored, fork, restore},
    subagents::Descriptor,
    system_prompt::PromptSection,
};

pub use self::{
    calls::Approval,
    effect::{Assembly, Delivery, Effect, Happened, InboxFate, Live, Status, Token},
    permissions::{Cap, Permissions},
    queue::QueueAction,
};
use self::{routes::Routes, turn::Turn};

/// What all agents of a host have in common.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Sections of the system prompt, in any order (L-95).
    pub prompt: Vec<PromptSection>,
    /// How many parallel tool calls of one message may run at once (L-57); at least 1.
    pub parallel_calls_max: usize,
    /// Steps of one turn (L-35): a model that always asks for one more tool would never end.
    pub steps_per_turn_max: u64,
    /// Where hooks have a say.
    pub hooks: HookPoints,
    /// How often hooks may keep one turn from ending: one that always finds something to do would never let it end.
    pub prolonged_max: u32,
    /// Tool calls of one message. Models ask for a handful; a thousand in one answer is no plan.
    pub calls_per_message_max: usize,
    /// How long a cancelled turn waits for its tools before it records them as aborted (L-52).
    pub drain_ms: u64,
    /// Messages that may wait in one inbox; more are refused as `overloaded`.
    pub inbox_messages_max: usize,
    /// What sessions may do, and who is asked.
    pub permissions: Permissions,
    /// How deep delegation may go (L-67): 0 forbids it.
    pub subagent_depth_max: u64,
    /// Live children of one session, those that rest included.
    pub subagents_live_max: usize,
    /// Whether models are told what changes around them (L-96).
    pub runtime_context: bool,
    /// Ends of jobs never wake an agent (P-77).
    pub quiet_jobs: bool,
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        AgentConfig {
            prompt: Vec::new(),
            parallel_calls_max: 10,
            // Hours of work for a diligent model.
            steps_per_turn_max: 1_000,
            hooks: HookPoints::default(),
            // Enough to repair something and look again a few times.
            prolonged_max: 8,
            calls_per_message_max: 128,
            drain_ms: 10_000,
            // Far above what people queue, low enough that a loop in a client is noticed.
            inbox_messages_max: 10_000,
            permissions: Permissions::default(),
            subagent_depth_max: 3,
            // As many as a message may call at once three times over; each is a conversation in memory.
            subagents_live_max: 32,
            runtime_context: true,
            quiet_jobs: false,
        }
    }
}

/// What becomes of the text of an answer that a cancel has cut (L-48, decision 42).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partial {
    /// `drop`: it stays in the log as chunks, and the model does not see it again.
    #[default]
    Drop,
    /// `commit`: it becomes a message, marked as `partial` in its source.
    Commit,
}

/// One live session.
#[derive(Debug)]
pub struct Agent {
    log: Log,
    inbox: Inbox,
    route: Route,
    routes: Routes,
    cwd: Option<String>,
    /// Where `cwd` really stood when the session was given it. Confined commands may have moved it since, so it is
    /// looked for once and held.
    root: Option<String>,
    config: Arc<AgentConfig>,
    partial: Partial,
    chance: Chance,
    activity: Activity,
    /// Waking input came while an aborted activity was still ending (L-50).
    latched: bool,
    disposing: bool,
    /// What a disposal does with messages that wait.
    inbox_fate: InboxFate,
    /// Why the log could not be written.
    failure: Option<String>,
    tokens: u64,
    /// A turn is being moved on; `activity` has been taken out meanwhile.
    moving: bool,
    /// Messages came or went since peers were told last.
    inbox_changed: bool,
    /// How the last turn of this life ended.
    last_end: Option<TurnEnd>,
    /// What the model of a delegated session has streamed in its last turn.
    streamed: String,
    /// Told in the first turn of a delegated session; then it is the log's.
    undescribed: Option<Descriptor>,
    /// What the last words of a delegated session must be.
    output_schema: Option<Value>,
    /// Where its last activity begins in the log.
    active_from: u64,
    /// Ends of jobs whose start is not logged yet.
    early_jobs: Vec<JobChange>,
    /// The end of the wait for jobs, once the session goes away.
    job_drain: Option<Token>,
    /// How often ends of jobs may still wake the agent (P-77).
    wakes: u32,
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
            root: None,
            log: Log::new(header),
            inbox: Inbox::default(),
            route,
            routes: Routes::default(),
            config,
            partial: Partial::Drop,
            chance,
            activity: Activity::Idle,
            latched: false,
            disposing: false,
            inbox_fate: InboxFate::Clear,
            failure: None,
            tokens: 0,
            moving: false,
            inbox_changed: false,
            last_end: None,
            streamed: String::new(),
            undescribed: None,
            output_schema: None,
            active_from: 0,
            early_jobs: Vec::new(),
            job_drain: None,
            wakes: jobs::WAKES,
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
        let Restored { log, inbox, cwd, closers, .. } = restore(header.clone(), events, now)?;
        let mut agent = Agent { log, inbox, cwd, ..Agent::new(header, route, config, chance) };
        agent.keep_effort();
        Ok((agent, closers))
    }

    /// An effort that somebody chose for the model that still answers is kept (L-36).
    fn keep_effort(&mut self) {
        if let Some(effort) = &self.log.effort
            && self.route.reasoning_effort.is_none()
            && self.route.provider.as_ref() == Some(&effort.provider)
            && self.route.model.as_ref() == Some(&effort.model)
        {
            self.route.reasoning_effort = Some(effort.effort.clone());
        }
    }

    /// Names for what is asked of the driver begin behind those of every earlier life of the id, so that a late answer
    /// to one of those is nobody's. `life` is new for each.
    pub fn begin_life(&mut self, life: u64) {
        self.tokens = life << 32;
    }

    /// Goes on with the provider and the model that the log names last, if it names any.
    pub fn keep_route(&mut self) {
        if let Some((provider, model, _)) = &self.log.request_context {
            self.route.provider = Some(provider.clone());
            self.route.model = Some(model.clone());
            self.keep_effort();
        }
    }

    /// A new session that begins with events of another (L-11). `header` has its parent and `seed_length`, which is the
    /// number of `events`. Gives the agent and the events to be stored behind those, which are shown to nobody.
    pub fn fork(
        header: Header,
        events: &[Arc<str>],
        route: Route,
        config: Arc<AgentConfig>,
        chance: Chance,
        now: u64,
    ) -> Result<(Agent, Vec<Event>), RestoreError> {
        let Restored { log, inbox, cwd, closers, .. } = fork(header.clone(), events, now)?;
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

    /// Messages that nobody has claimed yet.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// How the last turn of this life ended.
    pub fn last_end(&self) -> Option<&TurnEnd> {
        self.last_end.as_ref()
    }

    /// The directory that tools of this session work in.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The workspace root (P-5), without links. `None`: the directory was not there when the session was given it; what
    /// confines a call then looks for it at the first one.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Holds fast where the directory of a session that is about to be published really stands. From then on only
    /// `set_directory` changes it.
    pub fn pin_root(&mut self, root: Option<String>) {
        self.root = root;
    }

    /// Says what becomes of answers that are cut from here on.
    pub fn set_partial(&mut self, partial: Partial) {
        self.partial = partial;
    }

    /// What becomes of answers that are cut.
    pub fn partial(&self) -> Partial {
        self.partial
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
        self.inbox_changed = true;

        if delivery != Delivery::Inject {
            match &self.activity {
                Activity::Idle => self.wake(out, now),
                Activity::Running(_) => self.latched |= aborted,
                Activity::Broken | Activity::Disposed => {}
            }
        }
        self.show_queue(out);
        Ok(())
    }

    /// Whether anything may still be written into the log on behalf of a peer.
    fn takes_changes(&self) -> Result<(), Failure> {
        if let Some(why) = &self.failure {
            return Err(Failure::new(Code::StoreFailed, why.clone()));
        }
        if self.disposing {
            let text = format!("session \"{}\" is being disposed", self.id());
            return Err(Failure::new(Code::SessionDisposed, text));
        }
        Ok(())
    }

    fn accepts(&self, message: &Message) -> Result<(), Failure> {
        self.takes_changes()?;
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

    /// Changes the directory of later tool calls and tells the model (S-63). `cwd` is absolute, and `root` is where it
    /// was just found to stand, without links.
    pub fn set_directory(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        cwd: &str,
        root: &str,
    ) -> Result<(), Failure> {
        let text = format!("The working directory is now {cwd}");
        let summary = Some(format!("working directory: {cwd}"));
        let source = Source::Plugin {
            plugin: "working-directory".to_owned(),
            form: Some(Form::Notice),
            sections: None,
            summary,
        };
        let message = self.told(vec![Block::text(text)], source);
        self.accepts(&message)?;
        out.push(Effect::Append(self.log.append(now, &Data::WorkingDirectoryChange { cwd })));
        self.cwd = Some(cwd.to_owned());
        self.root = Some(root.to_owned());
        self.send(out, now, message, Delivery::Inject)
    }

    /// Stops what is running; the first cause wins (L-47).
    pub fn cancel(&mut self, out: &mut Vec<Effect>, now: u64, cause: Cause, inbox: InboxFate) {
        let drain_ms = self.config.drain_ms;
        self.cancel_within(out, now, cause, inbox, drain_ms);
        self.show_queue(out);
    }

    /// Cancels for good and ends with `Effect::Disposed` (L-51). Tools that do not stop are given up
    /// after `drain_ms`.
    pub fn dispose(&mut self, out: &mut Vec<Effect>, now: u64, drain_ms: u64) {
        if mem::replace(&mut self.disposing, true) {
            return;
        }
        let inbox = self.inbox_fate;
        self.cancel_within(out, now, Cause::Disposed, inbox, drain_ms);
        self.drain_jobs(out, drain_ms);
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
        if let Some(happened) = self.hear_of_jobs(out, now, happened) {
            self.with_turn(out, now, |agent, out, turn| agent.advance(out, now, turn, happened));
        }
        self.leave_if_disposed(out);
        self.show_queue(out);
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
                self.moving = true;
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
                    self.moving = false;
                    return;
                }
                turn::Next::AnotherTurn if !self.inbox.is_empty() => {
                    next = self.open_turn(out, now)
                }
                turn::Next::AnotherTurn | turn::Next::Rest => {
                    self.activity = Activity::Idle;
                    self.moving = false;
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
        self.active_from = self.log.next_seq();
        out.push(Effect::Live(Live::Status(Status::Running)));
        self.moving = true;
        let next = self.open_turn(out, now);
        self.settle(out, now, next);
    }

    fn break_down(&mut self, out: &mut Vec<Effect>, why: String) {
        self.failure.get_or_insert(why.clone());
        match mem::replace(&mut self.activity, Activity::Broken) {
            Activity::Running(turn) => {
                turn.stop_everything(out);
                turn.withdraw_asks(out);
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
        let over = match self.activity {
            Activity::Idle => !self.has_running_jobs(),
            Activity::Broken => true,
            Activity::Running(_) | Activity::Disposed => false,
        };
        if self.disposing && over {
            self.activity = Activity::Disposed;
            out.push(Effect::Disposed);
        }
    }

    /// Whether a turn is open, also while it is being moved on.
    fn is_running(&self) -> bool {
        self.moving || matches!(self.activity, Activity::Running(_))
    }

    /// Keeps what a delegated session streams: its output, should no answer come of it (L-66).
    fn hear(&mut self, chunk: &Chunk) {
        if self.header().origin == Some(Origin::Subagent)
            && let Chunk::TextDelta { text, .. } = chunk
        {
            self.streamed.push_str(text);
        }
    }

    fn show_queue(&mut self, out: &mut Vec<Effect>) {
        if mem::take(&mut self.inbox_changed) {
            out.push(Effect::Live(Live::Queue));
        }
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }
}

#[cfg(test)]
mod tests;
