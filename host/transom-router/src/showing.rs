//! Who is shown what: subscriptions with their baselines, and released items on their way to the peers
//! that watch.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{agent::Status, ports::Page};

use crate::{
    Effect, Question, Reach,
    answers::{Pending, READ_BYTES_MAX},
    asks::{OpenAsk, Told},
    peer::{Asked, Peer, Pull, Subscription},
    projections::{self, QueueItem},
    release::Item,
    request::{Scope, Subscribe, Topic},
    router::Router,
    row::{self, Baseline},
    sessions::Session,
};

/// The answer to a subscription: one atomic cut.
#[derive(Serialize)]
struct Cut<'a> {
    subscription: &'a str,
    sessions: Vec<Baseline>,
    asks: Vec<Told<'a>>,
    queues: Vec<Queue<'a>>,
    jobs: Vec<Value>,
}

/// What waits in an inbox. Never a `Value`: blocks of peers hold numbers that none can (decision 75).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Queue<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    items: &'a [QueueItem],
}

/// Subscriptions of one connection: every event is held against each of them.
const SUBSCRIPTIONS_MAX: usize = 64;

impl Router {
    pub(crate) fn subscribe(&mut self, out: &mut Vec<Effect>, asked: Asked, subscribe: Subscribe) {
        let Subscribe { scope, topics } = subscribe;
        let session = match scope {
            Scope::Session | Scope::Tree => match self.session_of(&asked) {
                Ok(id) => Some(id),
                Err(failure) => return self.refuse(out, &asked, &failure),
            },
            Scope::All | Scope::Owned | Scope::Host => None,
        };
        let me = asked.connection;
        let Some(peer) = self.peers.get(&me) else { return };
        if peer.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let text = format!("a connection has {SUBSCRIPTIONS_MAX} subscriptions at most");
            let failure = Failure::new(Code::Overloaded, text).with("limit", "subscriptions");
            return self.refuse(out, &asked, &failure);
        }
        let id = self.chance.uuid();
        let subscription = Subscription { id, scope, session, topics };
        let body = self.baseline(me, peer.facts.reach, &subscription);
        if let Some(peer) = self.peers.get_mut(&me) {
            peer.subscriptions.push(subscription);
        }
        if scope != Scope::Owned {
            self.broad.insert(me);
        }
        self.give(out, me, Frame::reply(&asked.frame, None, body));
    }

    /// Everything that the subscription is about, as far as it has been shown (B-106, B-107).
    fn baseline(&self, me: ConnectionId, reach: Reach, subscription: &Subscription) -> String {
        // One that is named is known to whoever names it; others are announced in their turn.
        let named = matches!(subscription.scope, Scope::Session | Scope::Tree);
        let seen =
            |live: &&Session| subscription.covers(me, reach, live) && (named || live.announced);
        let mut sessions: Vec<_> = self.sessions.values().filter(seen).collect();
        sessions.sort_by_key(|session| session.life);
        let about = |topic: Topic| {
            let wanted = subscription.topics.contains(&topic);
            sessions.iter().filter(move |_| wanted)
        };
        let shown = |ask: &&OpenAsk| {
            ask.shown && about(Topic::Asks).any(|session| *session.agent.id() == ask.session)
        };
        let asks: Vec<_> = self.open_asks.iter().filter(shown).map(OpenAsk::baseline).collect();
        let rows: Vec<_> = sessions.iter().map(|session| Baseline::of(session)).collect();
        let queues: Vec<_> = about(Topic::Queue)
            .filter(|session| !session.queue.is_empty())
            .map(|session| Queue {
                session_id: Some(session.agent.id().as_str()),
                items: &session.queue,
            })
            .collect();
        let jobs: Vec<_> = about(Topic::Jobs)
            .filter(|session| !session.jobs.is_empty())
            .map(|session| {
                let jobs = projections::shown(&session.jobs);
                json!({ "sessionId": session.agent.id().as_str(), "jobs": jobs })
            })
            .collect();
        let subscription = &subscription.id;
        row::text(&Cut { subscription, sessions: rows, asks, queues, jobs })
    }

    pub(crate) fn unsubscribe(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        asked: &Asked,
        subscription: &str,
    ) {
        if let Some(peer) = self.peers.get_mut(&asked.connection) {
            peer.subscriptions.retain(|kept| kept.id != subscription);
        }
        self.settle_unanswerable(out, now);
        self.give(out, asked.connection, Frame::reply(&asked.frame, None, "{}"));
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
            Item::Added { session, frame } => {
                if let Some(live) = self.sessions.get_mut(&session) {
                    live.announced = true;
                }
                self.show(out, Item::Notice { session, topic: Topic::Sessions, frame });
            }
            Item::Queue { session, queue } => {
                let watchers = self.watchers(&session, Topic::Queue);
                if !watchers.is_empty() {
                    let body = row::text(&Queue { session_id: None, items: &queue });
                    self.tell(out, &watchers, &session, "session/queue", body);
                }
                if let Some(live) = self.sessions.get_mut(&session) {
                    live.queue = queue;
                }
            }
            Item::Jobs { session, jobs } => {
                let watchers = self.watchers(&session, Topic::Jobs);
                if !watchers.is_empty() {
                    let body = json!({ "jobs": projections::shown(&jobs) }).to_string();
                    self.tell(out, &watchers, &session, "session/jobs", body);
                }
                if let Some(live) = self.sessions.get_mut(&session) {
                    live.jobs = jobs;
                }
            }
            Item::AskOpened { session, ask, body } => {
                // It may be over before it was shown; then nobody hears of it.
                let Some(open) = self.open_asks.iter_mut().find(|open| open.id == ask) else {
                    return;
                };
                open.shown = true;
                let watchers = self.watchers(&session, Topic::Asks);
                self.tell(out, &watchers, &session, "ask/opened", body);
            }
            Item::Status { session, status } => {
                let Some(live) = self.sessions.get_mut(&session) else { return };
                live.running = status == Status::Running;
                let word = if live.running { "running" } else { "idle" };
                let body = json!({ "status": word }).to_string();
                let watchers = self.watchers(&session, Topic::Status);
                self.tell(out, &watchers, &session, "session/status", body);
            }
            Item::Reply { connection, reply, .. } => self.give(out, connection, reply),
            Item::Left { session } => self.left(out, &session, None),
        }
    }

    fn tell(
        &mut self,
        out: &mut Vec<Effect>,
        watchers: &[ConnectionId],
        session: &SessionId,
        name: &str,
        body: impl Into<Arc<str>>,
    ) {
        let frame = Frame::notice(name, Some(session.clone()), body);
        for me in watchers {
            self.give(out, *me, frame.clone());
        }
    }

    fn watchers(&self, session: &SessionId, topic: Topic) -> Vec<ConnectionId> {
        let Some(live) = self.sessions.get(session) else { return Vec::new() };
        let owner = live.owner.filter(|owner| !self.broad.contains(owner));
        let candidates = self.broad.iter().copied().chain(owner);
        candidates
            .filter(|me| {
                let peer = self.peers.get(me);
                peer.is_some_and(|peer| peer.watches(*me, live, topic))
            })
            .collect()
    }

    pub(crate) fn after_push(
        &mut self,
        out: &mut Vec<Effect>,
        connection: ConnectionId,
        kept: bool,
    ) {
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
}
