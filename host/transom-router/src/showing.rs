//! Who is shown what: subscriptions with their baselines, and released items on their way to the peers
//! that watch.

use std::sync::Arc;

use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{agent::Status, ports::Page};

use crate::{
    Effect, Question,
    answers::{Pending, READ_BYTES_MAX},
    asks::OpenAsk,
    peer::{Asked, Peer, Pull, Subscription},
    projections,
    release::Item,
    request::{Scope, Subscribe, Topic},
    router::Router,
    row::Baseline,
    sessions::Session,
};

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
        let sees = |session: &Session| {
            self.peers.get(&me).is_some_and(|peer| {
                let (id, topic) = (session.agent.id(), Topic::Events);
                peer.watches(me, id, &session.root, session.owner, topic)
            })
        };
        sessions.retain(|session| sees(session));
        let rows: Vec<_> = sessions.iter().map(|session| Baseline::of(session)).collect();
        let asks = self.open_asks.iter().filter(|ask| {
            ask.shown && sessions.iter().any(|session| *session.agent.id() == ask.session)
        });
        let asks: Vec<_> = asks.map(OpenAsk::baseline).collect();
        let about = |session: &Session, member: &str, value: Value| json!({ "sessionId": session.agent.id().as_str(), member: value });
        let queued = sessions.iter().filter(|session| !session.agent.inbox().is_empty());
        let queues: Vec<_> =
            queued.map(|session| about(session, "items", projections::queue(session))).collect();
        let working = sessions.iter().filter(|session| !session.agent.log().jobs().is_empty());
        let jobs: Vec<_> =
            working.map(|session| about(session, "jobs", projections::jobs(session))).collect();
        let body = json!({
            "subscription": id,
            "sessions": rows,
            "asks": asks,
            "queues": queues,
            "jobs": jobs,
        })
        .to_string();
        self.give(out, me, Frame::reply(&asked.frame, None, body));
    }

    pub(crate) fn unsubscribe(&mut self, out: &mut Vec<Effect>, asked: &Asked, subscription: &str) {
        if let Some(peer) = self.peers.get_mut(&asked.connection) {
            peer.subscriptions.retain(|kept| kept.id != subscription);
        }
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
            Item::AskOpened { session, ask, body } => {
                // It may be over before it was shown; then nobody hears of it.
                let Some(open) = self.open_asks.iter_mut().find(|open| open.id == ask) else {
                    return;
                };
                open.shown = true;
                for me in self.watchers(&session, Topic::Asks) {
                    let frame =
                        Frame::notice("ask/opened", Some(session.clone()), Arc::clone(&body));
                    self.give(out, me, frame);
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

    pub(crate) fn watchers(&self, session: &SessionId, topic: Topic) -> Vec<ConnectionId> {
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
