//! The router itself: connections, their requests, and who is shown what.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::json;
use transom_frame::{Code, ConnectionId, Failure, Frame, FrameKind, SessionId};
use transom_harness::{
    agent::{self, AgentConfig, Delivery, InboxFate, Status},
    chance::Chance,
    event::Cause,
    message::Source,
    ports::{Page, Route},
};

use crate::{
    AskId, Effect, Event, Facts, Question, Reach,
    answers::{Pending, READ_BYTES_MAX},
    peer::{Asked, Peer, Pull, Subscription},
    release::{Item, Release},
    request::{Fate, Mode, Prompt, Request, Scope, Subscribe, Topic},
    row::Baseline,
    sessions::{Opening, Session},
};

/// Subscriptions of one connection: every event is held against each of them.
const SUBSCRIPTIONS_MAX: usize = 64;

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
}

/// Everything between doors and agents.
#[derive(Debug)]
pub struct Router {
    pub(crate) host: HostFacts,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) chance: Chance,
    pub(crate) peers: BTreeMap<ConnectionId, Peer>,
    /// Peers that watch more than what they own.
    broad: BTreeSet<ConnectionId>,
    pub(crate) sessions: HashMap<SessionId, Session>,
    /// Live sessions by the door through which they were opened.
    pub(crate) by_door: HashMap<Arc<str>, usize>,
    pub(crate) opening: HashMap<SessionId, Opening>,
    pub(crate) release: Release,
    pub(crate) pending: HashMap<AskId, Pending>,
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

    /// Advances by one thing that has happened. `now` is epoch milliseconds.
    pub fn handle(&mut self, out: &mut Vec<Effect>, now: u64, event: Event) {
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
            Event::Shutdown => {
                self.ending.get_or_insert_default();
                let all: Vec<_> = self.sessions.keys().cloned().collect();
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
        let mut owned: Vec<_> =
            self.sessions.values().filter(|session| session.owner == Some(connection)).collect();
        owned.sort_by_key(|session| session.life);
        let owned: Vec<_> = owned.into_iter().map(|session| session.agent.id().clone()).collect();
        self.dispose(out, now, &owned);
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
        if !self.sessions.is_empty() || !self.opening.is_empty() || !self.release.is_empty() {
            return;
        }
        if let Some(ending) = &mut self.ending
            && !ending.told
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
            Request::SessionList(list) => self.ask(out, Question::List, Pending::List(asked, list)),
            // About one session: behind its opening, like everything else that is asked of it.
            Request::Subscribe(Subscribe { scope: Scope::Session | Scope::Tree, .. }) => {
                self.begin_in_session(out, now, asked, request);
            }
            Request::Subscribe(subscribe) => self.subscribe(out, asked, subscribe),
            Request::Unsubscribe(unsubscribe) => {
                self.unsubscribe(out, &asked, &unsubscribe.subscription)
            }
            Request::SessionPrompt(_)
            | Request::SessionCancel(_)
            | Request::SessionWait
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
        // What is asked of a session that is being opened, or whose directory is being looked at, waits for that, in
        // order (S-121).
        if let Some(opening) = self.opening.get_mut(&id) {
            return opening.waiting.push((asked, request));
        }
        if let Some(waiting) =
            self.sessions.get_mut(&id).and_then(|session| session.waiting.as_mut())
        {
            return waiting.push((asked, request));
        }
        match request {
            Request::SessionPrompt(prompt) => self.prompt(out, now, &id, asked, prompt),
            Request::SessionCancel(cancel) => {
                let fate = match cancel.inbox {
                    Fate::Clear => InboxFate::Clear,
                    Fate::Keep => InboxFate::Keep,
                };
                self.with_agent(out, now, &id, |agent, effects| {
                    agent.cancel(effects, now, Cause::User, fate);
                });
                self.reply(out, &id, asked, "{}");
            }
            Request::SessionWait => self.wait(out, &id, asked),
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

    fn prompt(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        prompt: Prompt,
    ) {
        let Prompt { content, mode, rpc_id, client_time_zone } = prompt;
        let delivery = match mode {
            Mode::Queue => Delivery::Followup,
            Mode::Steer => Delivery::Steer,
        };
        let source = Source::User { rpc_id, client_time_zone };
        let result = self.with_agent(out, now, id, |agent, effects| {
            agent.prompt(effects, now, content, source, delivery)
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

    fn subscribe(&mut self, out: &mut Vec<Effect>, asked: Asked, subscribe: Subscribe) {
        let Subscribe { scope, topics } = subscribe;
        let session = match scope {
            Scope::Session | Scope::Tree => match self.session_of(&asked) {
                Ok(id) => Some(id),
                Err(failure) => return self.refuse(out, &asked, &failure),
            },
            Scope::All | Scope::Owned | Scope::Host => None,
        };
        let id = self.chance.uuid();
        let subscription = Subscription { id: id.clone(), scope, session, topics };
        let me = asked.connection;
        let Some(peer) = self.peers.get_mut(&me) else { return };
        if scope != Scope::Owned {
            self.broad.insert(me);
        }
        if peer.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let text = format!("a connection has {SUBSCRIPTIONS_MAX} subscriptions at most");
            let failure = Failure::new(Code::Overloaded, text).with("limit", "subscriptions");
            return self.refuse(out, &asked, &failure);
        }
        peer.subscriptions.push(subscription);

        let mut sessions: Vec<_> = self.sessions.values().collect();
        sessions.sort_by_key(|session| session.life);
        let rows: Vec<_> = sessions
            .into_iter()
            .filter(|session| {
                let topic = Topic::Events;
                self.peers.get(&me).is_some_and(|peer| {
                    peer.watches(me, session.agent.id(), &session.root, session.owner, topic)
                })
            })
            .map(Baseline::of)
            .collect();
        let body =
            json!({ "subscription": id, "sessions": rows, "asks": [], "queues": [], "jobs": [] })
                .to_string();
        self.give(out, me, Frame::reply(&asked.frame, None, body));
    }

    fn unsubscribe(&mut self, out: &mut Vec<Effect>, asked: &Asked, subscription: &str) {
        if let Some(peer) = self.peers.get_mut(&asked.connection) {
            peer.subscriptions.retain(|kept| kept.id != subscription);
        }
        self.give(out, asked.connection, Frame::reply(&asked.frame, None, "{}"));
    }

    /// The session that a request names, if this connection may act on it.
    fn session_of(&self, asked: &Asked) -> Result<SessionId, Failure> {
        let Some(id) = &asked.frame.session else {
            return Err(Failure::invalid(&[&format!("{} needs a session", asked.frame.name)]));
        };
        if self.opening.get(id).is_some_and(|opening| opening.asked.connection == asked.connection)
        {
            return Ok(id.clone());
        }
        let peer = self.peers.get(&asked.connection).ok_or_else(shutting_down)?;
        let bound = peer.bound.get(id);
        match (self.sessions.get(id), bound) {
            (Some(session), Some(life)) if session.life == *life => Ok(id.clone()),
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

    /// Shows a released item to whom it concerns.
    pub(crate) fn show(&mut self, out: &mut Vec<Effect>, item: Item) {
        match item {
            Item::Event { session, seq, text } => {
                if let Some(live) = self.sessions.get_mut(&session) {
                    live.released = seq + 1;
                }
                for me in self.watchers(&session, Topic::Events) {
                    let Some(peer) = self.peers.get_mut(&me) else { continue };
                    let frame =
                        || Frame::notice("session/event", Some(session.clone()), Arc::clone(&text));
                    let kept = peer.push_event(&session, seq, frame);
                    self.after_push(out, me, kept);
                }
            }
            Item::Notice { session, topic, frame } => {
                for me in self.watchers(&session, topic) {
                    self.give(out, me, frame.clone());
                }
            }
            Item::Status { session, status } => {
                let Some(live) = self.sessions.get_mut(&session) else { return };
                live.running = status == Status::Running;
                let word = if live.running { "running" } else { "idle" };
                let body = json!({ "status": word }).to_string();
                let frame = Frame::notice("session/status", Some(session.clone()), body);
                for me in self.watchers(&session, Topic::Status) {
                    self.give(out, me, frame.clone());
                }
            }
            Item::Reply { connection, reply, .. } => self.give(out, connection, reply),
            Item::Left { session } => self.left(out, &session, None),
        }
    }

    fn watchers(&self, session: &SessionId, topic: Topic) -> Vec<ConnectionId> {
        let Some(live) = self.sessions.get(session) else { return Vec::new() };
        let owner = live.owner.filter(|owner| !self.broad.contains(owner));
        let candidates = self.broad.iter().copied().chain(owner);
        candidates
            .filter(|me| {
                let peer = self.peers.get(me);
                peer.is_some_and(|peer| peer.watches(*me, session, &live.root, live.owner, topic))
            })
            .collect()
    }

    fn after_push(&mut self, out: &mut Vec<Effect>, connection: ConnectionId, kept: bool) {
        if kept {
            self.with_peer(out, connection, |_| {});
        } else if let Some(peer) = self.peers.get_mut(&connection) {
            peer.closing = true;
            let frame = peer.lagged_frame();
            out.push(Effect::Deliver { connection, frame });
        }
    }

    /// Changes a peer, then gives it what it can take.
    pub(crate) fn with_peer(
        &mut self,
        out: &mut Vec<Effect>,
        connection: ConnectionId,
        change: impl FnOnce(&mut Peer),
    ) {
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        change(peer);
        while let Some(pull) = self.peers.get_mut(&connection).and_then(Peer::pull) {
            match pull {
                Pull::Deliver(frame) => out.push(Effect::Deliver { connection, frame }),
                Pull::Read { session, from, limit } => {
                    let pending = Pending::CatchUp { connection, session: session.clone() };
                    let page = Page { from, limit, bytes_max: READ_BYTES_MAX };
                    self.ask(out, Question::Read { session, page }, pending);
                }
            }
        }
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
