//! Live sessions: how they are opened, what their agents' effects become, how they leave.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    agent::{self, Agent, Happened, Live, Status},
    event::Event,
    header::Origin,
    ports::{Append, Page, ToolOutcome},
};

use crate::{
    Effect, Question, RunId,
    answers::{Pending, READ_BYTES_MAX},
    peer::Asked,
    release::Item,
    request::{Read, Request, Topic},
    router::{Router, TEARDOWN_DRAIN_MS, TEARDOWN_KILL_MS, disposed},
    row::{self, Row, last_seq},
};

/// A session with its agent.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) agent: Agent,
    /// The connection whose end disposes it; `None`: the host.
    pub(crate) owner: Option<ConnectionId>,
    /// The top of its tree; itself, for a session without parent.
    pub(crate) root: SessionId,
    /// Which life of this id it is; no two are equal.
    pub(crate) life: u64,
    pub(crate) header: Arc<str>,
    /// The door through which it was opened; models are as that door maps them.
    pub(crate) door: Arc<str>,
    /// The delegation that it works for.
    pub(crate) run: Option<RunId>,
    /// Its agent is disposed; it leaves once those that it delegated to have left.
    pub(crate) ended: bool,
    /// Events that have been shown: the next one's `seq`.
    pub(crate) released: u64,
    /// The status as it has been shown.
    pub(crate) running: bool,
    pub(crate) waits: Vec<Asked>,
    /// Waits for the whole tree below it.
    pub(crate) tree_waits: Vec<Asked>,
    pub(crate) closes: Vec<Asked>,
    /// Requests that wait until it is known whether a directory exists; `None` while nobody looks.
    pub(crate) waiting: Option<Vec<(Asked, Request)>>,
}

impl Session {
    pub(crate) fn new(
        agent: Agent,
        owner: Option<ConnectionId>,
        root: SessionId,
        life: u64,
        door: Arc<str>,
        run: Option<RunId>,
    ) -> Session {
        Session {
            header: agent.header().to_json().into(),
            owner,
            root,
            life,
            door,
            run,
            ended: false,
            released: agent.log().next_seq(),
            running: false,
            waits: Vec::new(),
            tree_waits: Vec::new(),
            closes: Vec::new(),
            waiting: None,
            agent,
        }
    }
}

impl Session {
    /// Whether `parent` has delegated to this session; a fork works for nobody.
    pub(crate) fn works_for(&self, parent: &SessionId) -> bool {
        let header = self.agent.header();
        header.origin == Some(Origin::Subagent) && header.parent_session.as_ref() == Some(parent)
    }
}

impl Router {
    /// Makes a session live and tells so. `stored` goes into the store ahead of its publication and is shown to nobody
    /// (decision 79).
    pub(crate) fn publish(&mut self, out: &mut Vec<Effect>, session: Session, stored: Vec<Event>) {
        let header = Arc::clone(session.agent.header());
        let id = header.id.clone();
        let mut added = json!({
            "lastSeq": last_seq(session.released),
            "blank": session.agent.log().last_turn() == 0,
            "cwd": session.agent.cwd(),
        });
        if let Some(parent) = &header.parent_session {
            added["parentSessionId"] = parent.as_str().into();
        }
        if let Some(origin) = header.origin {
            added["origin"] = json!(origin);
        }
        *self.by_door.entry(Arc::clone(&session.door)).or_default() += 1;
        self.sessions.insert(id.clone(), session);
        for event in stored {
            self.store(out, &id, event);
        }
        let frame = Frame::notice("session/added", Some(id.clone()), added.to_string());
        self.notice(out, &id, Topic::Sessions, frame);
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

    /// Whether the session, or one that works for it, runs.
    fn tree_is_busy(&self, id: &SessionId) -> bool {
        self.with_descendants(id).iter().any(|id| {
            self.sessions.get(id).is_some_and(|live| live.agent.status() == Status::Running)
        })
    }

    /// Looks again at who waits for a tree, after something in it has come to rest or left.
    fn tree_rests(&mut self, out: &mut Vec<Effect>, root: &SessionId) {
        let waiting = |live: &&Session| live.root == *root && !live.tree_waits.is_empty();
        let waiting: Vec<_> = self.sessions.values().filter(waiting).collect();
        let ids: Vec<_> = waiting.into_iter().map(|live| live.agent.id().clone()).collect();
        for id in ids {
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
        while let Some(parent) = found.get(at).cloned() {
            let mut children: Vec<_> =
                self.sessions.values().filter(|live| live.works_for(&parent)).collect();
            children.sort_by_key(|live| live.life);
            found.extend(children.into_iter().map(|live| live.agent.id().clone()));
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

    /// Ends sessions in the time of a teardown; each leaves once its log is closed and durable.
    pub(crate) fn dispose(&mut self, out: &mut Vec<Effect>, now: u64, ids: &[SessionId]) {
        let mut all: Vec<SessionId> = Vec::new();
        for id in ids {
            all.extend(self.with_descendants(id));
        }
        let mut seen = HashSet::new();
        all.retain(|id| seen.insert(id.clone()));
        for id in &all {
            out.push(Effect::TerminateTools {
                session: id.clone(),
                kill_after_ms: TEARDOWN_KILL_MS,
            });
            self.with_agent(out, now, id, |agent, effects| {
                agent.dispose(effects, now, TEARDOWN_DRAIN_MS)
            });
        }
    }

    /// The session's last item has been shown: it leaves the registries. `failure` says why its log is not
    /// closed.
    pub(crate) fn left(&mut self, out: &mut Vec<Effect>, id: &SessionId, failure: Option<&str>) {
        self.close_asks_of(out, id);
        let jobs = self.sessions.get(id).is_some_and(|live| !live.agent.log().jobs().is_empty());
        if jobs {
            let frame = Frame::notice("session/jobs", Some(id.clone()), r#"{"jobs":[]}"#);
            self.notice(out, id, Topic::Jobs, frame);
        }
        let frame = Frame::notice("session/removed", Some(id.clone()), r#"{"why":"disposed"}"#);
        self.notice(out, id, Topic::Sessions, frame);
        let Some(session) = self.sessions.remove(id) else { return };
        let Session { agent, owner, root, door, waits, tree_waits, closes, waiting, .. } = session;
        if let Some(open) = self.by_door.get_mut(&door) {
            *open = open.saturating_sub(1);
        }
        out.push(Effect::ForgetTools { session: id.clone() });
        out.push(Effect::Release { session: id.clone() });
        let unbegun = waiting.into_iter().flatten().map(|(asked, _)| asked);
        for asked in waits.into_iter().chain(tree_waits).chain(unbegun) {
            self.refuse(out, &asked, &disposed(id));
        }
        for asked in closes {
            self.give(out, asked.connection, Frame::reply(&asked.frame, None, "{}"));
        }
        if root == *id {
            self.release.forget(id);
        }
        if let Some(why) = failure.or(agent.broken()) {
            if let Some(peer) = owner.and_then(|owner| self.peers.get_mut(&owner)) {
                peer.failures.push(why.to_owned());
            }
            if let Some(ending) = &mut self.ending {
                ending.failures.push(why.to_owned());
            }
        }
        self.tree_rests(out, &root);
        if let Some(parent) = agent.header().parent_session.clone() {
            self.leave_behind_children(out, &parent);
        }
        if let Some(owner) = owner {
            self.finish_teardown(out, owner);
        }
        self.finish_ending(out);
    }

    /// A session whose agent is disposed leaves once all that worked for it have left (L-72).
    fn leave_behind_children(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        let ended = self.sessions.get(id).is_some_and(|live| live.ended);
        if ended && !self.sessions.values().any(|live| live.works_for(id)) {
            self.push_item(out, id, Item::Left { session: id.clone() });
        }
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
        for effect in effects {
            self.perform(out, now, id, effect);
        }
        if self.sessions.get(id).is_some_and(|live| live.run.is_some()) {
            self.run_rests(out, now, id);
        }
        Some(result)
    }

    fn perform(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId, effect: agent::Effect) {
        match effect {
            agent::Effect::Append(event) => self.append(out, id, event),
            agent::Effect::Live(live) => self.live(out, id, live),
            agent::Effect::Assemble { token, route } => {
                let door = self.door(id);
                out.push(Effect::Assemble { door, session: id.clone(), token, route });
            }
            agent::Effect::PlanCalls { token, calls } => {
                out.push(Effect::PlanCalls { session: id.clone(), token, calls });
            }
            agent::Effect::Timer { token, after_ms } => {
                out.push(Effect::Timer { session: id.clone(), token, after_ms });
            }
            agent::Effect::CallModel { .. } | agent::Effect::RunTool { .. } => {
                self.checkpoint(out, id, effect)
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
                    self.happened(out, now, id, Happened::ToolEnded(token, outcome));
                } else {
                    out.push(Effect::StopTool { session: id.clone(), token });
                }
            }
            agent::Effect::Judge { token, call } => {
                out.push(Effect::Judge { session: id.clone(), token, call });
            }
            agent::Effect::Ask(approval) => self.open_approval(out, now, id, approval),
            agent::Effect::Disposed => {
                if let Some(live) = self.sessions.get_mut(id) {
                    live.ended = true;
                }
                self.leave_behind_children(out, id);
            }
        }
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

    fn live(&mut self, out: &mut Vec<Effect>, id: &SessionId, live: Live) {
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
            Live::Jobs => self.show_jobs(out, id),
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
