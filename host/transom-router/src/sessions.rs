//! Live sessions: how they are opened, what their agents' effects become, how they leave.

use std::sync::Arc;

use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    agent::{self, Agent, Happened, Live, Status, Token},
    chance::Chance,
    event::Event,
    header::Header,
    ports::{Append, Commit, Page, ToolOutcome},
};

use crate::{
    Effect, Question, Reach,
    answers::{Pending, READ_BYTES_MAX},
    peer::Asked,
    release::Item,
    request::{Mint, Open, OwnerWish, Read, Request, Topic, Want},
    router::{Router, TEARDOWN_DRAIN_MS, TEARDOWN_KILL_MS, disposed, not_found, shutting_down},
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
    header: Arc<str>,
    /// The door through which it was opened; models are as that door maps them.
    door: Arc<str>,
    /// Events that have been shown: the next one's `seq`.
    pub(crate) released: u64,
    /// The status as it has been shown.
    pub(crate) running: bool,
    pub(crate) waits: Vec<Asked>,
    pub(crate) closes: Vec<Asked>,
    /// Requests that wait until it is known whether a directory exists; `None` while nobody looks.
    pub(crate) waiting: Option<Vec<(Asked, Request)>>,
}

/// A session whose id is being looked up.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) asked: Asked,
    pub(crate) open: Open,
    pub(crate) waiting: Vec<(Asked, Request)>,
}

impl Router {
    pub(crate) fn open(&mut self, out: &mut Vec<Effect>, asked: Asked, open: Open) {
        if let Err(failure) = self.may_open(&asked, &open) {
            return self.refuse(out, &asked, &failure);
        }
        let id = match (&asked.frame.session, open.mint) {
            (Some(id), None) => id.clone(),
            (None, Some(Mint::Uuid)) => self.chance.uuid().into(),
            (None, Some(Mint::SessionUuid)) => format!("session-{}", self.chance.uuid()).into(),
            (Some(_), Some(_)) => {
                let issue = "a session is either named by the frame or minted, not both";
                return self.refuse(out, &asked, &Failure::invalid(&[issue]));
            }
            (None, None) => {
                let issue = "session/open needs a session in the frame, or `mint`";
                return self.refuse(out, &asked, &Failure::invalid(&[issue]));
            }
        };
        if id.as_str().is_empty() {
            return self.refuse(
                out,
                &asked,
                &Failure::invalid(&["a session id must not be empty"]),
            );
        }
        if self.opening.contains_key(&id) {
            return self.refuse(out, &asked, &exists(&id));
        }
        if self.sessions.contains_key(&id) {
            return self.open_live(out, asked, &open, &id);
        }
        self.opening.insert(id.clone(), Opening { asked, open, waiting: Vec::new() });
        self.ask(out, Question::Claim(id.clone()), Pending::Open(id));
    }

    fn may_open(&self, asked: &Asked, wanted: &Open) -> Result<(), Failure> {
        if let Some(cwd) = &wanted.cwd
            && !cwd.starts_with('/')
        {
            let text = format!("session header cwd must be an absolute path, got \"{cwd}\"");
            return Err(Failure::invalid(&[&text]));
        }
        let Some(peer) = self.peers.get(&asked.connection) else { return Ok(()) };
        if wanted.owner == OwnerWish::Host && peer.facts.reach == Reach::Owned {
            let text = "this door may open sessions for its own connection only";
            return Err(Failure::new(Code::Denied, text).with("frame", "session/open"));
        }
        let door = &peer.facts.door;
        let open = self.by_door.get(door).copied().unwrap_or_default();
        if open >= peer.facts.sessions_max {
            let text = format!("door {door} has {open} live sessions, the most it may have");
            return Err(Failure::new(Code::Overloaded, text).with("limit", "sessions-max"));
        }
        if self.sessions.len() >= self.host.sessions_max {
            let text =
                format!("the host has {} sessions, the most it may have", self.host.sessions_max);
            return Err(Failure::new(Code::Overloaded, text).with("limit", "host-sessions-max"));
        }
        Ok(())
    }

    /// `want: any` joins a session that is live, where the connection may reach it.
    fn open_live(&mut self, out: &mut Vec<Effect>, asked: Asked, open: &Open, id: &SessionId) {
        let reach = self.peers.get(&asked.connection).map(|peer| peer.facts.reach);
        match open.want {
            Want::New => self.refuse(out, &asked, &exists(id)),
            Want::Stored => {
                let text = format!("cannot prepare session \"{id}\" while it is live");
                self.refuse(out, &asked, &Failure::new(Code::SessionLive, text));
            }
            Want::Any if reach == Some(Reach::All) => self.opened(out, id, asked, false),
            Want::Any => self.refuse(out, &asked, &not_found(id)),
        }
    }

    /// Makes the session whose id was looked up and found free.
    pub(crate) fn create(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId) {
        let Some(opening) = self.opening.get(id) else { return };
        let cwd = opening.open.cwd.clone().unwrap_or_else(|| self.host.directory.to_string());
        let header = Header {
            id: id.clone(),
            created_at: now,
            cwd: Some(cwd),
            parent_session: None,
            seed_length: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        };
        let route = self.routed(opening.open.route.clone());
        let chance = Chance::new(self.chance.split());
        let agent = Agent::new(header, route, Arc::clone(&self.config), chance);
        self.publish(out, now, id, agent, Vec::new());
    }

    /// Goes on with a stored session (L-80).
    pub(crate) fn resume(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        header: Header,
        events: &[Arc<str>],
    ) {
        let Some(opening) = self.opening.get(id) else { return };
        let route = self.routed(opening.open.route.clone());
        let chance = Chance::new(self.chance.split());
        match Agent::restore(header, events, route, Arc::clone(&self.config), chance, now) {
            Ok((agent, closers)) => self.publish(out, now, id, agent, closers),
            Err(error) => {
                let failure = Failure::new(Code::NotResumable, error.to_string());
                self.fail_opening(out, id, &failure);
            }
        }
    }

    /// Makes a session live and tells so. `closers` are stored ahead of its publication and shown to nobody
    /// (decision 79).
    fn publish(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        agent: Agent,
        closers: Vec<Event>,
    ) {
        let connection = self.opening.get(id).map(|opening| opening.asked.connection);
        let peer = connection.and_then(|connection| self.peers.get(&connection));
        let Some(peer) = peer.filter(|peer| !peer.closing && self.ending.is_none()) else {
            return self.fail_opening(out, id, &shutting_down());
        };
        let door = Arc::clone(&peer.facts.door);
        let Some(Opening { asked, open, waiting }) = self.opening.remove(id) else { return };
        self.lives += 1;
        let created = agent.log().next_seq() == 0;
        let session = Session {
            header: agent.header().to_json().into(),
            door,
            owner: (open.owner == OwnerWish::Connection).then_some(asked.connection),
            root: id.clone(),
            life: self.lives,
            released: agent.log().next_seq(),
            running: false,
            waits: Vec::new(),
            closes: Vec::new(),
            waiting: None,
            agent,
        };
        let added = json!({
            "lastSeq": last_seq(session.released),
            "blank": created,
            "cwd": session.agent.cwd(),
        });
        *self.by_door.entry(Arc::clone(&session.door)).or_default() += 1;
        self.sessions.insert(id.clone(), session);
        for event in closers {
            self.store(out, id, event);
        }
        let frame = Frame::notice("session/added", Some(id.clone()), added.to_string());
        self.notice(out, id, Topic::Sessions, frame);
        self.opened(out, id, asked, created);
        self.resume_waiting(out, now, waiting);
    }

    fn opened(&mut self, out: &mut Vec<Effect>, id: &SessionId, asked: Asked, created: bool) {
        let Some(session) = self.sessions.get(id) else { return };
        let body = json!({
            "created": created,
            "lastSeq": last_seq(session.released),
            "cwd": session.agent.cwd(),
            "route": session.agent.route(),
        });
        if let Some(peer) = self.peers.get_mut(&asked.connection) {
            peer.bound.insert(id.clone(), session.life);
        }
        self.reply(out, id, asked, body.to_string());
    }

    pub(crate) fn wait(&mut self, out: &mut Vec<Effect>, id: &SessionId, asked: Asked) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if let Some(why) = session.agent.broken() {
            let failure = Failure::new(Code::StoreFailed, why);
            return self.refuse(out, &asked, &failure);
        }
        match session.agent.status() {
            Status::Idle => self.reply(out, id, asked, "{}"),
            Status::Running => session.waits.push(asked),
        }
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
        for id in ids {
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
        let frame = Frame::notice("session/removed", Some(id.clone()), r#"{"why":"disposed"}"#);
        self.notice(out, id, Topic::Sessions, frame);
        let Some(session) = self.sessions.remove(id) else { return };
        let Session { agent, owner, root, door, waits, closes, waiting, .. } = session;
        if let Some(open) = self.by_door.get_mut(&door) {
            *open = open.saturating_sub(1);
        }
        out.push(Effect::ForgetTools { session: id.clone() });
        out.push(Effect::Release { session: id.clone() });
        let unbegun = waiting.into_iter().flatten().map(|(asked, _)| asked);
        for asked in waits.into_iter().chain(unbegun) {
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
        if let Some(owner) = owner {
            self.finish_teardown(out, owner);
        }
        self.finish_ending(out);
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
            agent::Effect::Disposed => {
                let root = self.root(id);
                if let Some(item) = self.release.push(&root, Item::Left { session: id.clone() }) {
                    self.show(out, item);
                }
            }
        }
    }

    fn append(&mut self, out: &mut Vec<Effect>, id: &SessionId, event: Event) {
        let item =
            Item::Event { session: id.clone(), seq: event.seq, text: Arc::clone(&event.text) };
        self.store(out, id, event);
        let root = self.root(id);
        if let Some(item) = self.release.push(&root, item) {
            self.show(out, item);
        }
    }

    fn store(&mut self, out: &mut Vec<Effect>, id: &SessionId, event: Event) {
        let Some(session) = self.sessions.get(id) else { return };
        out.push(Effect::Append(Append {
            number: self.release.number(&session.root),
            session: id.clone(),
            header: Arc::clone(&session.header),
            seq: event.seq,
            time: event.time,
            kind: event.kind.into(),
            text: event.text,
        }));
    }

    fn live(&mut self, out: &mut Vec<Effect>, id: &SessionId, live: Live) {
        let notice =
            |name: &str, body: Value| Frame::notice(name, Some(id.clone()), body.to_string());
        match live {
            Live::Status(status) => {
                let root = self.root(id);
                let item = Item::Status { session: id.clone(), status };
                if let Some(item) = self.release.push(&root, item) {
                    self.show(out, item);
                }
                if status == Status::Idle {
                    let waits =
                        self.sessions.get_mut(id).map(|session| std::mem::take(&mut session.waits));
                    for asked in waits.unwrap_or_default() {
                        self.wait(out, id, asked);
                    }
                }
            }
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

    fn notice(&mut self, out: &mut Vec<Effect>, id: &SessionId, topic: Topic, frame: Frame) {
        let root = self.root(id);
        let item = Item::Notice { session: id.clone(), topic, frame };
        if let Some(item) = self.release.push(&root, item) {
            self.show(out, item);
        }
    }

    pub(crate) fn root(&self, id: &SessionId) -> SessionId {
        self.sessions.get(id).map_or_else(|| id.clone(), |session| session.root.clone())
    }

    /// Holds an effect back until everything before it is durable.
    fn checkpoint(&mut self, out: &mut Vec<Effect>, id: &SessionId, effect: agent::Effect) {
        let behind = self.release.last(&self.root(id));
        if self.release.is_committed(behind) {
            out.extend(self.ready(id, effect));
        } else {
            self.deferrals += 1;
            self.deferred.insert((behind, self.deferrals), (id.clone(), effect));
        }
    }

    /// The effect as the driver performs it.
    fn ready(&self, id: &SessionId, effect: agent::Effect) -> Option<Effect> {
        match effect {
            agent::Effect::CallModel { token, request } => {
                let door = self.door(id);
                Some(Effect::CallModel { door, session: id.clone(), token, request })
            }
            agent::Effect::RunTool { token, call } => {
                Some(Effect::RunTool { session: id.clone(), token, call })
            }
            _ => None,
        }
    }

    fn door(&self, id: &SessionId) -> Arc<str> {
        self.sessions.get(id).map_or_else(|| Arc::from(""), |session| Arc::clone(&session.door))
    }

    fn undefer(&mut self, id: &SessionId, stopped: Token) -> bool {
        let before = self.deferred.len();
        self.deferred.retain(|_, (session, effect)| match effect {
            agent::Effect::CallModel { token, .. } | agent::Effect::RunTool { token, .. } => {
                session != id || *token != stopped
            }
            _ => true,
        });
        self.deferred.len() < before
    }

    pub(crate) fn committed(&mut self, out: &mut Vec<Effect>, now: u64, commit: Commit) {
        match commit {
            Commit::Through(number) => {
                for item in self.release.committed(number) {
                    self.show(out, item);
                }
                self.let_go(out);
            }
            Commit::Failed { from, through, message } => {
                for (root, lost) in self.release.failed(from, through) {
                    self.lost(out, now, &root, lost, &message);
                }
            }
        }
        self.finish_ending(out);
    }

    fn let_go(&mut self, out: &mut Vec<Effect>) {
        while let Some(first) = self.deferred.first_entry() {
            let (behind, _) = *first.key();
            if !self.release.is_committed(behind) {
                break;
            }
            let (id, effect) = first.remove();
            out.extend(self.ready(&id, effect));
        }
    }

    /// A commit failed: nobody sees its events, who waited for them is told, the agents end
    /// (decision 1g).
    fn lost(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        root: &SessionId,
        lost: Vec<Item>,
        message: &str,
    ) {
        let failure = Failure::new(
            Code::StoreFailed,
            format!("the session log could not be written: {message}"),
        );
        let members: Vec<_> = self
            .sessions
            .values()
            .filter(|session| session.root == *root)
            .map(|session| session.agent.id().clone())
            .collect();
        self.deferred.retain(|_, (id, _)| !members.contains(id));
        for item in lost {
            match item {
                Item::Event { .. } | Item::Notice { .. } | Item::Status { .. } => {}
                Item::Reply { connection, request, .. } => {
                    self.give(out, connection, Frame::failure(&request, &failure));
                }
                // Its last events are lost with it, but the session still leaves.
                Item::Left { session } => {
                    self.left(out, &session, Some(&failure.message));
                }
            }
        }
        for id in members {
            self.happened(out, now, &id, Happened::StoreFailed(failure.message.clone()));
        }
    }
}

pub(crate) fn live_elsewhere(id: &SessionId) -> Failure {
    let text = format!("cannot prepare session \"{id}\" while it is live in another process");
    Failure::new(Code::SessionLive, text)
}

pub(crate) fn exists(id: &SessionId) -> Failure {
    Failure::new(Code::SessionExists, format!("session \"{id}\" already exists"))
}
