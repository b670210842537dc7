//! What the router knows of a connection: its reach, its subscriptions, and the frames that wait
//! until it can take them (design §4, "Slow peers").

use std::collections::{BTreeMap, VecDeque};

use transom_frame::{ConnectionId, Frame, SessionId};

use crate::{
    Facts, Reach,
    request::{Scope, Topic},
    sessions::Session,
};

/// Frames given to a connection that it has not handled yet. Enough to keep its codec busy, few
/// enough that what a slow one holds stays small.
const UNHANDLED_MAX: usize = 512;

/// Sessions that are gone and that a connection still knows to have opened. Beyond that, it is told that there is
/// none of that name instead of that it was disposed.
const BOUND_MAX: usize = 1_024;

/// Events read from the store in one go for a cursor that catches up.
pub(crate) const CATCH_UP_EVENTS: u64 = 256;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) facts: Facts,
    pub(crate) subscriptions: Vec<Subscription>,
    /// `host/shutdown` was accepted, or the peer is gone: nothing is shown any more (S-116).
    pub(crate) closing: bool,
    pub(crate) gone: bool,
    /// Requests for `host/shutdown` that are owed an answer.
    pub(crate) shutdowns: Vec<Frame>,
    /// What went wrong while its sessions were disposed.
    pub(crate) failures: Vec<String>,
    queue: VecDeque<Queued>,
    resting: bool,
    /// Events asked of the store for the front of the queue.
    reading: bool,
    unhandled: usize,
    lagged: bool,
    /// Sessions that this connection has opened, and which life of each it knows (decision 17).
    bound: BTreeMap<SessionId, u64>,
    /// How many of these may be there before those that are gone are looked for.
    bound_max: usize,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) scope: Scope,
    pub(crate) session: Option<SessionId>,
    pub(crate) topics: Vec<Topic>,
}

impl Subscription {
    /// Whether it is about this session. `me` is the connection that has subscribed.
    pub(crate) fn covers(&self, me: ConnectionId, reach: Reach, session: &Session) -> bool {
        let mine = session.owner == Some(me);
        match self.scope {
            Scope::All => reach == Reach::All || mine,
            Scope::Owned => mine,
            Scope::Session => self.session.as_ref() == Some(session.agent.id()),
            Scope::Tree => self.session.as_ref().is_some_and(|top| session.line.contains(top)),
            Scope::Host => false,
        }
    }
}

#[derive(Debug)]
enum Queued {
    Frame(Frame),
    /// Events of a session, by position: they are in the store, and read again when wanted.
    Events {
        session: SessionId,
        from: u64,
        to: u64,
    },
}

/// What a peer's queue wants done.
#[derive(Debug)]
pub(crate) enum Pull {
    Deliver(Frame),
    Read { session: SessionId, from: u64, limit: u64 },
}

impl Peer {
    pub(crate) fn new(facts: Facts) -> Peer {
        Peer {
            facts,
            subscriptions: Vec::new(),
            closing: false,
            gone: false,
            shutdowns: Vec::new(),
            failures: Vec::new(),
            queue: VecDeque::new(),
            resting: false,
            reading: false,
            unhandled: 0,
            lagged: false,
            bound: BTreeMap::new(),
            bound_max: BOUND_MAX,
        }
    }

    /// Whether `topic` of a session is for this peer's eyes.
    pub(crate) fn watches(&self, me: ConnectionId, session: &Session, topic: Topic) -> bool {
        !self.closing
            && self.subscriptions.iter().any(|subscription| {
                subscription.topics.contains(&topic)
                    && subscription.covers(me, self.facts.reach, session)
            })
    }

    /// The life of a session that this connection has opened.
    pub(crate) fn bound(&self, session: &SessionId) -> Option<u64> {
        self.bound.get(session).copied()
    }

    /// Ties the connection to one life of a session. `is_live` tells which of those it is tied to are there still.
    pub(crate) fn bind(
        &mut self,
        session: SessionId,
        life: u64,
        is_live: impl Fn(&SessionId) -> bool,
    ) {
        self.bound.insert(session, life);
        if self.bound.len() > self.bound_max {
            self.bound.retain(|bound, _| is_live(bound));
            // The next look comes only after as many openings more, so that each costs little.
            self.bound_max = self.bound.len() + BOUND_MAX;
        }
    }

    /// Queues a frame. `false` when the peer has fallen too far behind and is let go.
    #[must_use]
    pub(crate) fn push(&mut self, frame: Frame) -> bool {
        self.enqueue(Queued::Frame(frame))
    }

    /// Queues an event. Delivered from memory when nothing waits, from the store otherwise.
    #[must_use]
    pub(crate) fn push_event(
        &mut self,
        session: &SessionId,
        seq: u64,
        frame: impl FnOnce() -> Frame,
    ) -> bool {
        if self.queue.is_empty() && self.may_deliver() {
            return self.push(frame());
        }
        if let Some(Queued::Events { session: last, to, .. }) = self.queue.back_mut()
            && last == session
            && *to == seq
        {
            *to += 1;
            return true;
        }
        self.enqueue(Queued::Events { session: session.clone(), from: seq, to: seq + 1 })
    }

    fn enqueue(&mut self, queued: Queued) -> bool {
        if self.lagged || self.gone {
            return true;
        }
        if self.queue.len() >= self.facts.live_notices_max {
            self.lagged = true;
            self.queue.clear();
            return false;
        }
        self.queue.push_back(queued);
        true
    }

    fn may_deliver(&self) -> bool {
        !self.resting && !self.reading && self.unhandled < UNHANDLED_MAX
    }

    /// The next thing to do for this peer, if it can take anything.
    pub(crate) fn pull(&mut self) -> Option<Pull> {
        if self.gone || !self.may_deliver() {
            return None;
        }
        match self.queue.front_mut()? {
            Queued::Frame(_) => {
                let Some(Queued::Frame(frame)) = self.queue.pop_front() else { return None };
                self.unhandled += 1;
                Some(Pull::Deliver(frame))
            }
            Queued::Events { session, from, to } => {
                self.reading = true;
                let limit = (*to - *from).min(CATCH_UP_EVENTS);
                Some(Pull::Read { session: session.clone(), from: *from, limit })
            }
        }
    }

    /// The events that `Pull::Read` asked for are here: `delivered` of them were given to the peer.
    pub(crate) fn caught_up(&mut self, session: &SessionId, delivered: u64) {
        self.reading = false;
        self.unhandled += usize::try_from(delivered).unwrap_or(usize::MAX);
        let Some(Queued::Events { session: front, from, to }) = self.queue.front_mut() else {
            return;
        };
        if front == session {
            *from += delivered;
            if delivered == 0 || *from >= *to {
                self.queue.pop_front();
            }
        }
    }

    pub(crate) fn handled(&mut self, frames: usize) {
        self.unhandled = self.unhandled.saturating_sub(frames);
    }

    pub(crate) fn rest(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// Takes away what waits to be shown, replies excepted (S-116).
    pub(crate) fn stop_showing(&mut self) {
        self.closing = true;
        self.queue.retain(|queued| matches!(queued, Queued::Frame(frame) if frame.id.is_some()));
    }

    pub(crate) fn lagged_frame(&self) -> Frame {
        let subscription =
            self.subscriptions.first().map_or("", |subscription| subscription.id.as_str());
        let body = serde_json::json!({ "subscription": subscription }).to_string();
        Frame::notice("stream/lagged", None, body)
    }
}

/// A request that is owed an answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: ConnectionId,
    pub(crate) frame: Frame,
}
