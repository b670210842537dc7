//! What is counted of a slot, of each connection and of each swap. Counting is the drivers'; showing is left to the
//! control socket and to metrics.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use transom_frame::ConnectionId;

use super::{Cause, Histogram};

/// What was counted of a component at a door, since the host started.
#[derive(Debug, Default)]
pub struct Figures {
    /// Connections that were opened.
    pub opened: AtomicU64,
    /// Connections that were refused because the component crashes in a loop.
    pub refused: AtomicU64,
    /// Units from peers.
    pub units_in: AtomicU64,
    /// Units to peers.
    pub units_out: AtomicU64,
    /// Times that the component itself failed.
    pub traps: AtomicU64,
    /// Connections that the codec gave up because of their peer.
    pub faults: AtomicU64,
    /// Swaps that were asked for.
    pub swaps: AtomicU64,
    /// Versions that failed their probation.
    pub rollbacks: AtomicU64,
    /// How long the codec worked for each input.
    pub calls: Histogram,
    /// How long a connection stood still while it was moved.
    pub pauses: Histogram,
}

/// What was counted of a connection that is open now.
#[derive(Debug)]
pub struct ConnectionFigures {
    /// Its id.
    pub id: ConnectionId,
    /// Who is at the other end, for people.
    pub peer: String,
    /// When it was opened, in milliseconds since the epoch.
    pub opened: u64,
    /// The number of the version that serves it.
    pub version: AtomicU64,
    identity: Mutex<Arc<str>>,
    /// Units from the peer.
    pub units_in: AtomicU64,
    /// Units to the peer.
    pub units_out: AtomicU64,
    /// Bytes for the peer that are not written yet.
    pub unwritten: AtomicU64,
    /// Frames for the peer that its codec has not heard yet.
    pub waiting: AtomicU64,
    /// Requests without an answer, in both directions.
    pub pending: AtomicU64,
    /// Bytes of memory that its instance occupies.
    pub memory: AtomicU64,
}

impl ConnectionFigures {
    pub(super) fn new(
        id: ConnectionId,
        peer: &str,
        opened: u64,
        version: u64,
        identity: Arc<str>,
    ) -> ConnectionFigures {
        ConnectionFigures {
            id,
            peer: peer.to_owned(),
            opened,
            version: AtomicU64::new(version),
            identity: Mutex::new(identity),
            units_in: AtomicU64::default(),
            units_out: AtomicU64::default(),
            unwritten: AtomicU64::default(),
            waiting: AtomicU64::default(),
            pending: AtomicU64::default(),
            memory: AtomicU64::default(),
        }
    }

    /// Name, version and digest of what serves it.
    pub fn identity(&self) -> Arc<str> {
        Arc::clone(&self.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn served_by(&self, number: u64, identity: Arc<str>) {
        self.version.store(number, Ordering::Relaxed);
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity;
    }
}

/// A swap, and how far it has come.
#[derive(Debug)]
pub struct Swapped {
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// Why.
    pub cause: Cause,
    /// What served before.
    pub from: Arc<str>,
    /// What serves since.
    pub to: Arc<str>,
    /// The number of the version that serves since.
    pub version: u64,
    /// Connections that were moved.
    pub moved: AtomicU64,
    /// Connections that the new version did not take over.
    pub stayed: AtomicU64,
    /// Connections that ended because the old version could not let go of them.
    pub lost: AtomicU64,
}

impl Swapped {
    pub(super) fn new(
        at: u64,
        cause: Cause,
        from: Arc<str>,
        to: Arc<str>,
        version: u64,
    ) -> Swapped {
        let count = AtomicU64::default;
        Swapped { at, cause, from, to, version, moved: count(), stayed: count(), lost: count() }
    }
}
