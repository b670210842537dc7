//! The router itself: connections, their requests, and who is shown what.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::json;
use transom_frame::{Code, ConnectionId, Failure, Frame, FrameKind, SessionId};
use transom_harness::{
    agent::{self, AgentConfig, Delivery, InboxFate},
    chance::Chance,
    event::Cause,
    message::Source,
    permissions::{Mode, rules::Pattern},
    ports::Route,
};

use crate::{
    AskId, Effect, Event, Facts, Question, Reach, RunId,
    answers::Pending,
    asks::OpenAsk,
    delegations::Run,
    images::Images,
    openings::Opening,
    peer::{Asked, Peer},
    release::{Item, Release},
    request::{Fate, Prompt, PromptMode, Request, Scope, Subscribe},
    revivals::Revival,
    sessions::Session,
};

/// SIGTERM to SIGKILL in a teardown, milliseconds (design §4).
pub(crate) const TEARDOWN_KILL_MS: u64 = 300;
/// How long a teardown waits for tools before it records them as aborted, milliseconds (design §4).
pub(crate) const TEARDOWN_DRAIN_MS: u64 = 600;

/// What `host/describe` tells, and the host's own bounds.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// The host's own version, not that of a component.
    pub version: Arc<str>,
    /// The host's working directory; absolute.
    pub directory: Arc<str>,
    /// Names of the doors that are open.
    pub doors: Vec<String>,
    /// What a request's route is filled up with where it names no provider, or no model of this one.
    pub route: Route,
    /// Live sessions of the whole host (decision 58).
    pub sessions_max: usize,
    /// A door is configured that answers every ask, also with nobody connected (P-14).
    pub always_answered: bool,
    /// The widest mode that a door may switch a session to (P-25).
    pub ceiling: Mode,
    /// The widest mode that a session keeps which is made from a stored log: the ceiling, where the operator has named
    /// one, and otherwise any, because new defaults touch no existing session (P-10).
    pub kept_mode_max: Mode,
    /// The directories that sessions may use; empty: all (P-5).
    pub workspaces: Vec<Pattern>,
    /// What becomes of images in prompts.
    pub images: Images,
}

impl Default for HostFacts {
    /// A host without doors, in the root directory, that leaves everything open.
    fn default() -> HostFacts {
        HostFacts {
            version: "0".into(),
            directory: "/".into(),
            doors: Vec::new(),
            route: Route::default(),
            sessions_max: 10_000,
            always_answered: false,
            ceiling: Mode::DangerFullAccess,
            kept_mode_max: Mode::DangerFullAccess,
            workspaces: Vec::new(),
            images: Images::default(),
        }
    }
}

/// What an operator may change while the host runs. Each takes the place of what the router began with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// As in [`HostFacts`].
    pub route: Route,
    /// As in [`HostFacts`].
    pub ceiling: Mode,
    /// As in [`HostFacts`].
    pub kept_mode_max: Mode,
    /// As in [`HostFacts`].
    pub workspaces: Vec<Pattern>,
    /// What sessions that begin from now on have in common.
    pub config: AgentConfig,
}

/// Everything between doors and agents.
#[derive(Debug)]
pub struct Router {
    pub(crate) host: HostFacts,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) chance: Chance,
    pub(crate) peers: BTreeMap<ConnectionId, Peer>,
    /// Peers that watch more than what they own.
    pub(crate) broad: BTreeSet<ConnectionId>,
    pub(crate) sessions: HashMap<SessionId, Session>,
    /// Live sessions by the door through which they were opened.
    pub(crate) by_door: HashMap<Arc<str>, usize>,
    pub(crate) opening: HashMap<SessionId, Opening>,
    pub(crate) release: Release,
    pub(crate) pending: HashMap<AskId, Pending>,
    /// What people have not decided yet, oldest first.
    pub(crate) open_asks: Vec<OpenAsk>,
    pub(crate) runs: HashMap<RunId, Run>,
    /// Children on their way back from the store.
    pub(crate) reviving: HashMap<SessionId, Revival>,
    /// When the event under way has happened, epoch milliseconds.
    pub(crate) now: u64,
    asks: u64,
    pub(crate) lives: u64,
    /// Effects that wait until the events before them are durable (L-74), by the number of the last
    /// of these.
    pub(crate) deferred: BTreeMap<(u64, u64), (SessionId, agent::Effect)>,
    pub(crate) deferrals: u64,
    /// Set by `Event::Shutdown`.
    pub(crate) ending: Option<Ending>,
}

#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) failures: Vec<String>,
    pub(crate) told: bool,
}

impl Router {
    /// A router without peers or sessions; everything that looks random follows from `seed`.
    pub fn new(host: HostFacts, config: AgentConfig, seed: [u8; 32]) -> Router {
        Router {
            host,
            config: Arc::new(config),
            chance: Chance::new(seed),
            peers: BTreeMap::new(),
            broad: BTreeSet::new(),
            sessions: HashMap::new(),
            by_door: HashMap::new(),
            opening: HashMap::new(),
            release: Release::default(),
            pending: HashMap::new(),
            open_asks: Vec::new(),
            runs: HashMap::new(),
            reviving: HashMap::new(),
            now: 0,
            asks: 0,
            lives: 0,
            deferred: BTreeMap::new(),
            deferrals: 0,
            ending: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn live_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// What is remembered of sessions and peers, by name, where it is anything.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> Vec<(&'static str, usize)> {
        let sizes = [
            ("peers", self.peers.len()),
            ("broad", self.broad.len()),
            ("sessions", self.sessions.len()),
            ("by_door", self.by_door.len()),
            ("opening", self.opening.len()),
            ("trees", self.release.trees()),
            ("pending", self.pending.len()),
            ("open_asks", self.open_asks.len()),
            ("runs", self.runs.len()),
            ("reviving", self.reviving.len()),
            ("deferred", self.deferred.len()),
        ];
        sizes.into_iter().filter(|(_, size)| *size > 0).collect()
    }

    /// Advances by one thing that has happened. `now` is epoch milliseconds.
    pub fn handle(&mut self, out: &mut Vec<Effect>, now: u64, event: Event) {
        self.now = now;
        match event {
            Event::Connected { connection, facts } => self.connected(connection, facts),
            Event::Frame { connection, frame } => self.frame(out, now, connection, frame),
            Event::Handled { connection, frames } => {
                self.with_peer(out, connection, |peer| peer.handled(frames));
            }
            Event::Rest { connection, resting } => {
                self.with_peer(out, connection, |peer| peer.rest(resting));
            }
            Event::Disconnected { connection } => self.disconnected(out, now, connection),
            Event::Committed(commit) => self.committed(out, now, commit),
            Event::Happened { session, happened } => self.happened(out, now, &session, happened),
            Event::Answered { ask, answer } => self.answered(out, now, ask, answer),
            Event::Delegate { run, delegation } => self.delegate(out, now, run, delegation),
            Event::StopDelegation { run } => self.stop_delegation(out, now, run),
            Event::Order { order, session, wanted } => {
                self.order(out, now, order, &session, wanted);
            }
            Event::Question { question, session, questions } => {
                self.question(out, question, &session, questions);
            }
            Event::WithdrawQuestion { question } => self.withdraw_question(out, question),
            Event::Configured(settings) => {
                let Settings { route, ceiling, kept_mode_max, workspaces, config } = settings;
                self.config = Arc::new(config);
                let host = self.host.clone();
                self.host = HostFacts { route, ceiling, kept_mode_max, workspaces, ..host };
                self.tell_of_models(out);
            }
            Event::Shutdown => {
                self.ending.get_or_insert_default();
                let all = self.in_order(|_| true);
                self.dispose(out, now, &all);
                self.finish_ending(out);
            }
        }
    }

    fn connected(&mut self, connection: ConnectionId, facts: Facts) {
        self.peers.insert(connection, Peer::new(facts));
    }

    fn disconnected(&mut self, out: &mut Vec<Effect>, now: u64, connection: ConnectionId) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        peer.gone = true;
        peer.closing = true;
        self.broad.remove(&connection);
        // Waits are withdrawn with their connection; everything else runs to completion.
        for session in self.sessions.values_mut() {
            session.waits.retain(|asked| asked.connection != connection);
            session.tree_waits.retain(|asked| asked.connection != connection);
        }
        self.dispose_owned(out, now, connection);
        self.finish_teardown(out, connection);
    }

    pub(crate) fn dispose_owned(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        connection: ConnectionId,
    ) {
        let owned = self.in_order(|session| session.owner == Some(connection));
        self.dispose(out, now, &owned);
    }

    /// Live sessions, the one that came to life first in front.
    pub(crate) fn in_order(&self, wanted: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let mut found: Vec<_> = self.sessions.values().filter(|session| wanted(session)).collect();
        found.sort_by_key(|session| session.life);
        found.into_iter().map(|session| session.agent.id().clone()).collect()
    }

    /// Answers what waits for the end of everything that the connection owns.
    pub(crate) fn finish_teardown(&mut self, out: &mut Vec<Effect>, connection: ConnectionId) {
        let owns = self.sessions.values().any(|session| session.owner == Some(connection))
            || self.opening.values().any(|opening| opening.asked.connection == connection);
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        if owns || !peer.closing {
            return;
        }
        let failures = peer.failures.clone();
        let owed = std::mem::take(&mut peer.shutdowns);
        for request in owed {
            let reply = match failures.as_slice() {
                [] => Frame::reply(&request, None, "{}"),
                [only] => Frame::failure(&request, &teardown_failed(only.clone(), &failures)),
                several => {
                    let text = format!("{} sessions could not be brought to an end", several.len());
                    Frame::failure(&request, &teardown_failed(text, several))
                }
            };
            self.give(out, connection, reply);
        }
        if self.peers.get(&connection).is_some_and(|peer| peer.gone) {
            self.peers.remove(&connection);
            out.push(Effect::Quiesced { connection, failures });
        }
    }

    pub(crate) fn finish_ending(&mut self, out: &mut Vec<Effect>) {
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.told) else { return };
        // An id that is being claimed is given back first.
        let claims = |pending: &Pending| {
            matches!(
                pending,
                Pending::Delegate(_)
                    | Pending::ForkClaim(..)
                    | Pending::ForkWorkspace(..)
                    | Pending::ReviveClaim(_)
                    | Pending::ReviveRead(..)
            )
        };
        if self.sessions.is_empty()
            && self.opening.is_empty()
            && self.release.is_empty()
            && !self.pending.values().any(claims)
        {
            ending.told = true;
            out.push(Effect::Quiet { failures: ending.failures.clone() });
        }
    }

    /// Begins a request, in the order in which they came (design §4, rule 4).
    fn frame(&mut self, out: &mut Vec<Effect>, now: u64, connection: ConnectionId, frame: Frame) {
        if !self.peers.contains_key(&connection) || frame.kind != FrameKind::Request {
            return;
        }
        let asked = Asked { connection, frame };
        let result = Request::parse(&asked.frame).and_then(|request| {
            if self.is_closing(connection)
                && !matches!(request, Request::HostShutdown | Request::HostDescribe)
            {
                return Err(shutting_down());
            }
            Ok(request)
        });
        match result {
            Ok(request) => self.begin(out, now, asked, request),
            Err(failure) => self.refuse(out, &asked, &failure),
        }
    }

    /// A route as the operator's defaults complete it.
    pub(crate) fn routed(&self, route: Option<Route>) -> Route {
        let mut route = route.unwrap_or_default();
        let defaults = &self.host.route;
        route.provider = route.provider.or_else(|| defaults.provider.clone());
        // A model's name means something at its own provider only.
        if route.model.is_none() && route.provider == defaults.provider {
            route.model.clone_from(&defaults.model);
        }
        route
    }

    fn is_closing(&self, connection: ConnectionId) -> bool {
        self.ending.is_some() || self.peers.get(&connection).is_none_or(|peer| peer.closing)
    }

    fn begin(&mut self, out: &mut Vec<Effect>, now: u64, asked: Asked, request: Request) {
        match request {
            Request::HostDescribe => self.describe_host(out, &asked),
            Request::HostShutdown => self.shut_down(out, now, asked),
            Request::SessionOpen(open) => self.open(out, asked, open),
            Request::ModelsCheck(route) => {
                let route = self.routed(Some(route));
                let Some(peer) = self.peers.get(&asked.connection) else { return };
                let door = Arc::clone(&peer.facts.door);
                self.ask(out, Question::Serve { door, route }, Pending::Check(asked));
            }
            Request::ModelsList => self.list_models(out, asked),
            Request::SessionList(list) => self.ask(out, Question::List, Pending::List(asked, list)),
            // About one session: behind its opening, like everything else that is asked of it.
            Request::Subscribe(Subscribe { scope: Scope::Session | Scope::Tree, .. }) => {
                self.begin_in_session(out, now, asked, request);
            }
            Request::Subscribe(subscribe) => self.subscribe(out, asked, subscribe),
            Request::Unsubscribe(unsubscribe) => {
                self.unsubscribe(out, now, &asked, &unsubscribe.subscription)
            }
            Request::AskAnswer(answer) => self.answer_ask(out, now, asked, answer),
            Request::AskSettle(settle) => self.settle_ask(out, now, asked, &settle),
            Request::SessionPrompt(_)
            | Request::SessionCancel(_)
            | Request::SessionPermissions(_)
            | Request::SessionQueue(_)
            | Request::SessionRename(_)
            | Request::SessionFork(_)
            | Request::AttachmentRead(_)
            | Request::SessionWait { .. }
            | Request::SessionClose
            | Request::SessionDescribe
            | Request::SessionRead(_)
            | Request::SessionDirectory(_) => self.begin_in_session(out, now, asked, request),
        }
    }

    fn begin_in_session(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        asked: Asked,
        request: Request,
    ) {
        let id = match self.session_of(&asked) {
            Ok(id) => id,
            Err(failure) => return self.refuse(out, &asked, &failure),
        };
        // What is asked of a session that is being opened waits for that, in order (S-121).
        if let Some(opening) = self.opening.get_mut(&id) {
            return opening.waiting.push((asked, request));
        }
        // And behind a request that waits for a disk, as for a directory or images. Only a cancel overtakes (design §4,
        // rule 4).
        if let Some(waiting) =
            self.sessions.get_mut(&id).and_then(|session| session.waiting.as_mut())
            && !matches!(request, Request::SessionCancel(_))
        {
            return waiting.push((asked, request));
        }
        match request {
            Request::SessionPrompt(prompt) => self.take_in(out, now, &id, asked, prompt),
            Request::SessionCancel(cancel) => {
                let (fate, begun) = match cancel.inbox {
                    Fate::Clear => (InboxFate::Clear, self.withdraw_prompts(out, &id)),
                    Fate::Keep => (InboxFate::Keep, Vec::new()),
                };
                self.with_agent(out, now, &id, |agent, effects| {
                    agent.cancel(effects, now, Cause::User, fate);
                });
                self.reply(out, &id, asked, "{}");
                self.resume_waiting(out, now, begun);
            }
            Request::SessionWait { descendants } => self.wait(out, &id, asked, descendants),
            Request::SessionPermissions(wanted) => {
                self.permissions(out, now, &id, asked, &wanted);
            }
            Request::SessionQueue(queue) => self.change_queue(out, now, &id, asked, queue),
            Request::SessionRename(rename) => self.rename(out, now, &id, asked, &rename.title),
            Request::SessionFork(fork) => self.fork(out, now, &id, asked, &fork),
            Request::AttachmentRead(read) => self.read_attachment(out, &id, asked, read),
            Request::SessionClose => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.closes.push(asked);
                }
                self.dispose(out, now, &[id]);
            }
            Request::SessionDirectory(wanted) => self.directory(out, &id, asked, wanted),
            Request::SessionDescribe => self.describe(out, &id, asked),
            Request::SessionRead(read) => self.read(out, &id, asked, &read),
            Request::Subscribe(subscribe) => self.subscribe(out, asked, subscribe),
            Request::HostDescribe
            | Request::HostShutdown
            | Request::SessionOpen(_)
            | Request::SessionList(_)
            | Request::ModelsCheck(_)
            | Request::ModelsList
            | Request::AskAnswer(_)
            | Request::AskSettle(_)
            | Request::Unsubscribe(_) => {}
        }
    }

    pub(crate) fn resume_waiting(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        waiting: Vec<(Asked, Request)>,
    ) {
        for (asked, request) in waiting {
            self.begin_in_session(out, now, asked, request);
        }
    }

    fn describe_host(&mut self, out: &mut Vec<Effect>, asked: &Asked) {
        let body = json!({
            "name": "transom",
            "version": &*self.host.version,
            "directory": &*self.host.directory,
            "attached": self.peers.len(),
            "canOpenPath": false,
            "doors": &self.host.doors,
        });
        self.give(out, asked.connection, Frame::reply(&asked.frame, None, body.to_string()));
    }

    /// Ends what the connection owns; a shutdown under way is joined (S-125, S-127).
    fn shut_down(&mut self, out: &mut Vec<Effect>, now: u64, asked: Asked) {
        let connection = asked.connection;
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        peer.stop_showing();
        peer.shutdowns.push(asked.frame);
        self.dispose_owned(out, now, connection);
        self.finish_teardown(out, connection);
    }

    /// Hands a prompt to the agent; its images are kept.
    pub(crate) fn prompt(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        prompt: Prompt,
    ) {
        let Prompt { content, mode, rpc_id, client_time_zone, route } = prompt;
        let route = route.map(|route| self.routed(Some(route)));
        let delivery = match mode {
            PromptMode::Queue => Delivery::Followup,
            PromptMode::Steer => Delivery::Steer,
        };
        let source = Source::User { rpc_id, client_time_zone };
        let result = self.with_agent(out, now, id, |agent, effects| match route {
            Some(route) => agent.prompt_on(effects, now, content, source, delivery, route),
            None => agent.prompt(effects, now, content, source, delivery),
        });
        match result {
            Some(Ok(message)) => {
                let body = json!({ "messageId": message.as_str() }).to_string();
                self.reply(out, id, asked, body);
            }
            Some(Err(failure)) => self.refuse(out, &asked, &failure),
            None => self.refuse(out, &asked, &not_found(id)),
        }
    }

    /// The session that a request names, if this connection may act on it.
    pub(crate) fn session_of(&self, asked: &Asked) -> Result<SessionId, Failure> {
        let Some(id) = &asked.frame.session else {
            return Err(Failure::invalid(&[&format!("{} needs a session", asked.frame.name)]));
        };
        if self.opening.get(id).is_some_and(|opening| opening.asked.connection == asked.connection)
        {
            return Ok(id.clone());
        }
        let peer = self.peers.get(&asked.connection).ok_or_else(shutting_down)?;
        match (self.sessions.get(id), peer.bound(id)) {
            (Some(session), Some(life)) if session.life == life => Ok(id.clone()),
            (_, Some(_)) => Err(disposed(id)),
            (Some(_), None) if peer.facts.reach == Reach::All => Ok(id.clone()),
            (_, None) => Err(not_found(id)),
        }
    }

    /// An answer that takes its place in the session's release order.
    pub(crate) fn reply(
        &mut self,
        out: &mut Vec<Effect>,
        session: &SessionId,
        asked: Asked,
        body: impl Into<Arc<str>>,
    ) {
        let reply = Frame::reply(&asked.frame, Some(session.clone()), body);
        let root = self.root(session);
        let item = Item::Reply { connection: asked.connection, request: asked.frame, reply };
        if let Some(item) = self.release.push(&root, item) {
            self.show(out, item);
        }
    }

    pub(crate) fn refuse(&mut self, out: &mut Vec<Effect>, asked: &Asked, failure: &Failure) {
        self.give(out, asked.connection, Frame::failure(&asked.frame, failure));
    }

    /// Puts a frame at the end of the connection's own queue.
    pub(crate) fn give(&mut self, out: &mut Vec<Effect>, connection: ConnectionId, frame: Frame) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        let kept = peer.push(frame);
        self.after_push(out, connection, kept);
    }

    pub(crate) fn ask(&mut self, out: &mut Vec<Effect>, question: Question, pending: Pending) {
        self.asks += 1;
        let ask = AskId(self.asks);
        self.pending.insert(ask, pending);
        out.push(Effect::Ask { ask, question });
    }
}

pub(crate) fn shutting_down() -> Failure {
    Failure::new(Code::ShuttingDown, "the host is shutting down")
}

pub(crate) fn not_found(id: &SessionId) -> Failure {
    Failure::new(Code::SessionNotFound, format!("session \"{id}\" not found"))
}

pub(crate) fn disposed(id: &SessionId) -> Failure {
    Failure::new(Code::SessionDisposed, format!("session \"{id}\" was disposed"))
}

fn teardown_failed(message: String, failures: &[String]) -> Failure {
    Failure::new(Code::TeardownFailed, message).with("failures", json!(failures))
}
