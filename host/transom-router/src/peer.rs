//! What the router knows of a connection: its reach, its subscriptions, and the frames that wait
//! until it can take them (design §4, "Slow peers").

use std::collections::{BTreeMap, VecDeque};

use transom_frame::{ConnectionId, Frame, SessionId};

use crate::{
    Facts, Reach,
    request::{Scope, Topic},
};

/// Frames given to a connection that it has not handled yet. Enough to keep its codec busy, few
/// enough that what a slow one holds stays small.
const UNHANDLED_MAX: usize = 512;

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
    pub(crate) bound: BTreeMap<SessionId, u64>,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) scope: Scope,
    pub(crate) session: Option<SessionId>,
    pub(crate) topics: Vec<Topic>,
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
        }
    }

    /// Whether `topic` of `session`, which `owner` owns, is for this peer's eyes.
    pub(crate) fn watches(
        &self,
        me: ConnectionId,
        session: &SessionId,
        root: &SessionId,
        owner: Option<ConnectionId>,
        topic: Topic,
    ) -> bool {
        !self.closing
            && self.subscriptions.iter().any(|subscription| {
                subscription.topics.contains(&topic)
                    && match subscription.scope {
                        Scope::All => self.facts.reach == Reach::All || owner == Some(me),
                        Scope::Owned => owner == Some(me),
                        Scope::Session => subscription.session.as_ref() == Some(session),
                        Scope::Tree => subscription.session.as_ref() == Some(root),
                        Scope::Host => false,
                    }
            })
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
