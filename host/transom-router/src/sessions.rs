//! Live sessions: how they come to life, and what their agents' effects become. How they leave is in `leaving.rs`.

use std::sync::Arc;

use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    agent::{self, Agent, Happened, Live, Status},
    event::Event,
    jobs::JobRecord,
    ports::{Append, DelegationEvent, Page, ToolOutcome},
    subagents::Toolset,
};

use crate::{
    Effect, Question, RunId,
    answers::{Pending, READ_BYTES_MAX},
    peer::Asked,
    projections::{self, QueueItem},
    release::Item,
    request::{Read, Request, Topic},
    router::Router,
    row::{self, Added, Row, last_seq},
};

/// A session with its agent.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) agent: Agent,
    /// The connection whose end disposes it; `None`: the host.
    pub(crate) owner: Option<ConnectionId>,
    /// The top of its tree; itself, where no live session has delegated to it.
    pub(crate) root: SessionId,
    /// From the top of its tree down to itself.
    pub(crate) line: Arc<[SessionId]>,
    /// Live sessions that it has delegated to, in the order of their birth.
    pub(crate) children: Vec<SessionId>,
    /// Which life of this id it is; no two are equal.
    pub(crate) life: u64,
    pub(crate) header: Arc<str>,
    /// The door through which it was opened; models are as that door maps them.
    pub(crate) door: Arc<str>,
    pub(crate) work: Work,
    /// Which tools it has (L-67).
    pub(crate) toolset: Toolset,
    pub(crate) stage: Stage,
    /// `session/added` has been shown.
    pub(crate) announced: bool,
    /// Events that have been shown: the next one's `seq`.
    pub(crate) released: u64,
    /// The status as it has been shown.
    pub(crate) running: bool,
    /// What waits in its inbox, as it has been shown.
    pub(crate) queue: Arc<[QueueItem]>,
    /// Its jobs, as they have been shown.
    pub(crate) jobs: Arc<[JobRecord]>,
    pub(crate) waits: Vec<Asked>,
    /// Waits for the whole tree below it.
    pub(crate) tree_waits: Vec<Asked>,
    pub(crate) closes: Vec<Asked>,
    /// Requests that wait until a disk has answered: whether a directory exists, whether images are kept. `None` while
    /// nothing is asked of one.
    pub(crate) waiting: Option<Vec<(Asked, Request)>>,
}

/// The delegation that a session works for.
#[derive(Debug)]
pub(crate) enum Work {
    /// It works for nobody.
    None,
    /// It has not come to rest yet.
    UnderWay(RunId),
    /// It outlives its task (L-72).
    Kept {
        /// Its parent has been told how it came to rest last (P-80).
        settled: bool,
    },
    /// Its outcome, to be told once the session has left (P-64).
    Done(RunId, DelegationEvent),
}

/// How far a session is on its way out. The order is that of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Live,
    /// Its agent is told to go.
    Leaving,
    /// Its agent is gone; it leaves once those that it delegated to have left.
    Ended,
    /// Its end stands in the release order.
    Last,
}

impl Session {
    /// A session that nobody has heard of yet. `parent` is the live session that has delegated to it.
    pub(crate) fn new(
        mut agent: Agent,
        owner: Option<ConnectionId>,
        parent: Option<&Session>,
        life: u64,
        door: Arc<str>,
        work: Work,
    ) -> Session {
        agent.begin_life(life);
        let id = agent.id().clone();
        let mut filters = parent.map(|parent| parent.toolset.filters.clone()).unwrap_or_default();
        for own in agent.tool_filters() {
            if !filters.contains(&own) {
                filters.push(own);
            }
        }
        let toolset = Toolset { filters, reports: agent.is_continuable() };
        let line = parent.map(|parent| parent.line.iter()).unwrap_or_default();
        Session {
            header: agent.header().to_json().into(),
            owner,
            root: parent.map_or_else(|| id.clone(), |parent| parent.root.clone()),
            line: line.cloned().chain([id]).collect(),
            children: Vec::new(),
            life,
            door,
            work,
            toolset,
            stage: Stage::Live,
            announced: false,
            released: agent.log().next_seq(),
            running: false,
            queue: projections::queue(&agent),
            jobs: agent.log().jobs().into(),
            waits: Vec::new(),
            tree_waits: Vec::new(),
            closes: Vec::new(),
            waiting: None,
            agent,
        }
    }

    /// The live session that has delegated to this one.
    pub(crate) fn parent(&self) -> Option<&SessionId> {
        let above = self.line.len().checked_sub(2)?;
        self.line.get(above)
    }
}

impl Router {
    /// Makes a session live and tells so. `stored` goes into the store ahead of its publication and is shown to nobody
    /// (decision 79).
    pub(crate) fn publish(&mut self, out: &mut Vec<Effect>, session: Session, stored: Vec<Event>) {
        let header = Arc::clone(session.agent.header());
        let id = header.id.clone();
        let added = row::text(&Added {
            last_seq: last_seq(session.released),
            blank: session.agent.log().last_turn() == 0,
            cwd: session.agent.cwd(),
            parent_session_id: header.parent_session.as_ref().map(SessionId::as_str),
            origin: header.origin,
            agent_preset: header.agent_preset.as_deref(),
        });
        match session.parent().cloned() {
            // It was not opened through the door.
            Some(parent) => {
                if let Some(parent) = self.sessions.get_mut(&parent) {
                    parent.children.push(id.clone());
                }
            }
            None => *self.by_door.entry(Arc::clone(&session.door)).or_default() += 1,
        }
        if session.toolset != Toolset::default() {
            out.push(Effect::Equip { session: id.clone(), toolset: session.toolset.clone() });
        }
        self.sessions.insert(id.clone(), session);
        for event in stored {
            self.store(out, &id, event);
        }
        let frame = Frame::notice("session/added", Some(id.clone()), added);
        self.push_item(out, &id, Item::Added { session: id.clone(), frame });
    }

    pub(crate) fn wait(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        asked: Asked,
        descendants: bool,
    ) {
        let busy = descendants && self.tree_is_busy(id);
        let Some(session) = self.sessions.get_mut(id) else { return };
        if let Some(why) = session.agent.broken() {
            let failure = Failure::new(Code::StoreFailed, why);
            return self.refuse(out, &asked, &failure);
        }
        match session.agent.status() {
            _ if busy => session.tree_waits.push(asked),
            Status::Idle => self.reply(out, id, asked, "{}"),
            Status::Running => session.waits.push(asked),
        }
    }

    /// Whether the session, or one that works for it, runs, or will hear of a run in the background: that may begin
    /// another turn.
    fn tree_is_busy(&self, id: &SessionId) -> bool {
        let works =
            |agent: &Agent| agent.status() == Status::Running || agent.awaits_a_background_run();
        let tree = self.with_descendants(id);
        tree.iter().any(|id| self.sessions.get(id).is_some_and(|live| works(&live.agent)))
    }

    /// Looks again at who waits for a tree, after something in it has come to rest or left.
    pub(crate) fn tree_rests(&mut self, out: &mut Vec<Effect>, root: &SessionId) {
        for id in self.with_descendants(root) {
            let waits = self.sessions.get_mut(&id).map(|live| std::mem::take(&mut live.tree_waits));
            for asked in waits.unwrap_or_default() {
                self.wait(out, &id, asked, true);
            }
        }
    }

    /// The session and all that work for it, the deepest first.
    pub(crate) fn with_descendants(&self, id: &SessionId) -> Vec<SessionId> {
        let mut found = vec![id.clone()];
        let mut at = 0;
        while let Some(next) = found.get(at) {
            let children = self.sessions.get(next).map(|live| live.children.clone());
            found.extend(children.unwrap_or_default());
            at += 1;
        }
        found.reverse();
        found
    }

    pub(crate) fn describe(&mut self, out: &mut Vec<Effect>, id: &SessionId, asked: Asked) {
        let Some(row) = self.sessions.get(id).map(Row::live) else { return };
        self.reply(out, id, asked, row::text(&row));
    }

    /// Reads shown events only; the rest is nobody's to see yet (decision 1h).
    pub(crate) fn read(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        asked: Asked,
        read: &Read,
    ) {
        let released = self.sessions.get(id).map_or(0, |session| session.released);
        let limit =
            read.limit.min(crate::answers::READ_EVENTS_MAX).min(released.saturating_sub(read.from));
        let page = Page { from: read.from, limit, bytes_max: READ_BYTES_MAX };
        let question = Question::Read { session: id.clone(), page };
        self.ask(out, question, Pending::Read { asked, last_seq: last_seq(released) });
    }

    pub(crate) fn happened(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        happened: Happened,
    ) {
        self.with_agent(out, now, id, |agent, effects| agent.handle(effects, now, happened));
    }

    /// Lets an agent do something, then does what it wants done.
    pub(crate) fn with_agent<T>(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        act: impl FnOnce(&mut Agent, &mut Vec<agent::Effect>) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(id)?;
        let mut effects = Vec::new();
        let result = act(&mut session.agent, &mut effects);
        // What an effect leads to at once comes behind all the others: they stand in the order of the log.
        let mut next = Vec::new();
        for effect in effects {
            next.extend(self.perform(out, id, effect));
        }
        for happened in next {
            self.happened(out, now, id, happened);
        }
        self.run_rests(out, now, id);
        self.child_rests(out, now, id);
        self.leave_behind_children(out, id);
        Some(result)
    }

    /// Gives what has happened by that, if it is known at once.
    fn perform(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        effect: agent::Effect,
    ) -> Option<Happened> {
        match effect {
            agent::Effect::Append(event) => self.append(out, id, event),
            agent::Effect::Live(live) => self.live(out, id, live),
            agent::Effect::Assemble { token, route } => {
                let door = self.door(id);
                let agent = self.sessions.get(id).map(|session| &session.agent);
                let cwd = agent.and_then(|agent| agent.cwd()).map(str::to_owned);
                let root = agent.and_then(|agent| agent.root()).map(str::to_owned);
                out.push(Effect::Assemble { door, session: id.clone(), token, route, cwd, root });
            }
            agent::Effect::PlanCalls { token, calls } => {
                out.push(Effect::PlanCalls { session: id.clone(), token, calls });
            }
            agent::Effect::Timer { token, after_ms } => {
                out.push(Effect::Timer { session: id.clone(), token, after_ms });
            }
            agent::Effect::CallModel { .. }
            | agent::Effect::RunTool { .. }
            | agent::Effect::AskHooks { .. }
            | agent::Effect::Observe(_) => self.checkpoint(out, id, effect),
            agent::Effect::StopHooks(token) => {
                if !self.undefer(id, token) {
                    out.push(Effect::StopHooks { session: id.clone(), token });
                }
            }
            agent::Effect::StopModel(token) => {
                if !self.undefer(id, token) {
                    out.push(Effect::StopModel { session: id.clone(), token });
                }
            }
            agent::Effect::StopTool(token) => {
                if self.undefer(id, token) {
                    let error = Some(("AbortError", "ABORTED"));
                    let outcome = ToolOutcome::error("tool call aborted", error);
                    return Some(Happened::ToolEnded(token, outcome));
                }
                out.push(Effect::StopTool { session: id.clone(), token });
            }
            agent::Effect::Judge { token, call } => {
                out.push(Effect::Judge { session: id.clone(), token, call });
            }
            agent::Effect::Ask(approval) => return self.open_approval(out, id, approval),
            agent::Effect::Disposed => {
                if let Some(live) = self.sessions.get_mut(id) {
                    live.stage = Stage::Ended;
                }
            }
        }
        None
    }

    fn append(&mut self, out: &mut Vec<Effect>, id: &SessionId, event: Event) {
        let item =
            Item::Event { session: id.clone(), seq: event.seq, text: Arc::clone(&event.text) };
        self.store(out, id, event);
        self.push_item(out, id, item);
    }

    fn store(&mut self, out: &mut Vec<Effect>, id: &SessionId, event: Event) {
        let Some(session) = self.sessions.get(id) else { return };
        out.push(Effect::Append(Append {
            number: self.release.number(&session.root),
            session: id.clone(),
            header: Arc::clone(&session.header),
            seq: event.seq,
            time: event.time,
            kind: event.kind.as_ref().into(),
            text: event.text,
        }));
    }

    pub(crate) fn live(&mut self, out: &mut Vec<Effect>, id: &SessionId, live: Live) {
        let notice =
            |name: &str, body: Value| Frame::notice(name, Some(id.clone()), body.to_string());
        match live {
            Live::Status(status) => {
                self.push_item(out, id, Item::Status { session: id.clone(), status });
                if status == Status::Idle {
                    let waits =
                        self.sessions.get_mut(id).map(|session| std::mem::take(&mut session.waits));
                    for asked in waits.unwrap_or_default() {
                        self.wait(out, id, asked, false);
                    }
                    let root = self.root(id);
                    self.tree_rests(out, &root);
                }
            }
            Live::Decided { approval, outcome } => self.approval_decided(out, &approval, outcome),
            Live::Jobs => {
                self.show_jobs(out, id);
                let root = self.root(id);
                self.tree_rests(out, &root);
            }
            Live::Queue => self.show_queue(out, id),
            Live::Permissions => self.show_permissions(out, id),
            Live::Claimed { turn, messages } => {
                let ids: Vec<_> = messages.iter().map(|id| id.as_str()).collect();
                let body = json!({ "turn": turn, "messageIds": ids });
                self.notice(out, id, Topic::Inbox, notice("inbox/claimed", body));
            }
            Live::Discarded { messages } => {
                let ids: Vec<_> = messages.iter().map(|id| id.as_str()).collect();
                self.notice(
                    out,
                    id,
                    Topic::Inbox,
                    notice("inbox/discarded", json!({ "messageIds": ids })),
                );
            }
            Live::Error { turn, step, failure, messages } => {
                let ids: Vec<_> = messages.iter().map(|id| id.as_str()).collect();
                let body = json!({
                    "turn": turn,
                    "step": step,
                    "message": failure.message,
                    "code": failure.code,
                    "messageIds": ids,
                });
                self.notice(out, id, Topic::Errors, notice("agent/error", body));
            }
        }
    }

    pub(crate) fn notice(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        topic: Topic,
        frame: Frame,
    ) {
        self.push_item(out, id, Item::Notice { session: id.clone(), topic, frame });
    }

    /// Puts an item behind everything of its tree.
    pub(crate) fn push_item(&mut self, out: &mut Vec<Effect>, id: &SessionId, item: Item) {
        let root = self.root(id);
        if let Some(item) = self.release.push(&root, item) {
            self.show(out, item);
        }
    }

    pub(crate) fn root(&self, id: &SessionId) -> SessionId {
        self.sessions.get(id).map_or_else(|| id.clone(), |session| session.root.clone())
    }

    pub(crate) fn door(&self, id: &SessionId) -> Arc<str> {
        self.sessions.get(id).map_or_else(|| Arc::from(""), |session| Arc::clone(&session.door))
    }
}
