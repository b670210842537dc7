//! The place of a component at a door: which version serves, and when another takes over or the one before comes back.
//! Moving a connection is its driver's; loading versions, and saying which, is left to the program.

mod figures;
mod histogram;
mod mover;
mod probation;
mod recovery;
mod relay;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot, watch};
use tracing::{error, info, warn};
use transom_connection::{
    Serving,
    codec::{Codec, CodecError, CodecSource},
};
use transom_frame::ConnectionId;
use transom_policy::Policy;

use self::{mover::Mover, probation::Probation, recovery::Recovery, relay::Relay};
use crate::agents::epoch_ms;

pub use self::{
    figures::{ConnectionFigures, Figures, Swapped},
    histogram::Histogram,
    recovery::{Health, Rests},
};
pub(crate) use self::{histogram::SCRAPED_BITS, mover::Prepared};

/// Swaps that are kept to be shown. Who wants to know about earlier ones has the log.
const SWAPS_KEPT: usize = 32;

/// What becomes of connections that the new version does not take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leftovers {
    /// They stay with the old one until they end.
    #[default]
    Stay,
    /// They are asked to end.
    Drain,
}

/// How long the moves of a swap give way to those who serve. Without an end, a host that has no processor to spare would never
/// come to them; a thousand connections take half of this where it has some.
const GIVES_WAY: Duration = Duration::from_secs(1);

/// Why the active version is another one now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked for it.
    Swap,
    /// Somebody asked for the one before.
    Rollback,
    /// The new version failed its probation.
    Probation,
}

impl Cause {
    /// The word in logs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Swap => "swap",
            Cause::Rollback => "rollback",
            Cause::Probation => "probation",
        }
    }
}

/// The numbers by which a version is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// Codec calls of a connection, from its move or its opening, for which a fault counts against a new version.
    pub probation_calls: u64,
    /// Faults that bring the old version back.
    pub probation_faults: u64,
    /// How long a new version is watched.
    pub probation: Duration,
    /// Crashes within `crash_window` that make a loop.
    pub crashes: u64,
    /// The time in which crashes are counted.
    pub crash_window: Duration,
    /// The longest pause before a component that crashes in a loop is tried again.
    pub pause_max: Duration,
}

impl Default for Upkeep {
    /// What the manifest says where it says nothing.
    fn default() -> Upkeep {
        Upkeep {
            probation_calls: 64,
            probation_faults: 3,
            probation: Duration::from_secs(30),
            crashes: 5,
            crash_window: Duration::from_secs(60),
            pause_max: Duration::from_secs(30),
        }
    }
}

/// What a connection is to be served by, as its driver sees it.
#[derive(Clone)]
pub(crate) struct Standing {
    /// Grows with every change that connections are to hear of.
    pub(crate) changes: u64,
    /// Grows whenever connections are to move.
    pub(crate) turn: u64,
    /// Until then moves give way to those who serve. From then on each connection moves as soon as it can.
    pub(crate) gives_way_until: Instant,
    pub(crate) serving: Arc<Serving>,
    pub(crate) leftovers: Leftovers,
    /// Grows whenever all connections are to end.
    pub(crate) drains: u64,
    /// What the move is counted in; nothing before the first.
    pub(crate) swapped: Option<Arc<Swapped>>,
}

/// The place of a component at a door.
pub struct Slot {
    door: Arc<str>,
    component: Arc<str>,
    standing: watch::Sender<Standing>,
    /// As in the standing, to be looked at behind every call.
    changes: AtomicU64,
    inner: Mutex<Inner>,
    mover: Mover,
    figures: Figures,
}

struct Inner {
    upkeep: Upkeep,
    previous: Option<Arc<Serving>>,
    /// Numbers that were given so far.
    numbers: u64,
    probation: Option<Probation>,
    recovery: Recovery,
    swaps: VecDeque<Arc<Swapped>>,
    relay: Relay,
}

/// There is no version to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no version before this one to go back to")]
pub struct NoPrevious;

impl Slot {
    /// A slot whose first version this is.
    pub fn new(
        door: &str,
        component: &str,
        source: Arc<dyn CodecSource>,
        options: Arc<str>,
        policy: Arc<Policy>,
        upkeep: Upkeep,
    ) -> Arc<Slot> {
        let serving = Arc::new(Serving { number: 1, source, options, policy });
        let leftovers = Leftovers::default();
        let standing = Standing {
            changes: 0,
            turn: 0,
            gives_way_until: Instant::now(),
            serving,
            leftovers,
            drains: 0,
            swapped: None,
        };
        Arc::new(Slot {
            door: door.into(),
            component: component.into(),
            standing: watch::Sender::new(standing),
            changes: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                upkeep,
                previous: None,
                numbers: 1,
                probation: None,
                recovery: Recovery::default(),
                swaps: VecDeque::new(),
                relay: Relay::default(),
            }),
            mover: Mover::default(),
            figures: Figures::default(),
        })
    }

    /// The door's name.
    pub fn door(&self) -> &Arc<str> {
        &self.door
    }

    /// The component's name.
    pub fn component(&self) -> &Arc<str> {
        &self.component
    }

    /// What serves new connections.
    pub fn active(&self) -> Arc<Serving> {
        Arc::clone(&self.standing.borrow().serving)
    }

    /// What a rollback would bring back.
    pub fn previous(&self) -> Option<Arc<Serving>> {
        self.inner().previous.clone()
    }

    /// What was counted so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The last swaps, oldest first.
    pub fn swaps(&self) -> Vec<Arc<Swapped>> {
        self.inner().swaps.iter().cloned().collect()
    }

    /// The connections of now.
    pub fn connections(&self) -> Vec<Arc<ConnectionFigures>> {
        let inner = self.inner();
        let seated = inner.relay.seated.values();
        let mut connections: Vec<_> = seated.map(|seated| Arc::clone(&seated.figures)).collect();
        drop(inner);
        connections.sort_by_key(|connection| connection.id.0);
        connections
    }

    /// Whether new connections are served.
    pub fn health(&self) -> Health {
        self.health_at(Instant::now())
    }

    fn health_at(&self, now: Instant) -> Health {
        let mut inner = self.inner();
        let upkeep = inner.upkeep;
        inner.recovery.health(now, &upkeep)
    }

    /// Whether the active version is still watched.
    pub fn is_on_probation(&self) -> bool {
        let inner = self.inner();
        inner
            .probation
            .as_ref()
            .is_some_and(|probation| probation.goes_on(Instant::now(), &inner.upkeep))
    }

    /// Judges by other numbers from now on.
    pub fn set_upkeep(&self, upkeep: Upkeep) {
        self.inner().upkeep = upkeep;
    }

    /// Makes another version active: new connections get it from now on, live ones are moved between two calls.
    /// Gives what the moves are counted in.
    pub fn swap(
        &self,
        source: Arc<dyn CodecSource>,
        options: Arc<str>,
        policy: Arc<Policy>,
        leftovers: Leftovers,
    ) -> Arc<Swapped> {
        let mut inner = self.inner();
        inner.numbers += 1;
        let serving = Arc::new(Serving { number: inner.numbers, source, options, policy });
        inner.probation = Some(Probation::new(Instant::now()));
        inner.previous = Some(self.active());
        self.figures.swaps.fetch_add(1, Ordering::Relaxed);
        self.activate(&mut inner, serving, leftovers, Cause::Swap)
    }

    /// Makes the version before active again. A further rollback takes that back.
    pub fn rollback(&self) -> Result<Arc<Swapped>, NoPrevious> {
        let mut inner = self.inner();
        let previous = inner.previous.take().ok_or(NoPrevious)?;
        inner.previous = Some(self.active());
        inner.probation = None;
        Ok(self.activate(&mut inner, previous, Leftovers::Stay, Cause::Rollback))
    }

    /// Asks every connection of now to end. Gives how many there are.
    pub fn drain(&self) -> usize {
        let mut inner = self.inner();
        self.change(&mut inner, |standing| standing.drains += 1);
        let connections = inner.relay.seated.len();
        info!(door = %self.door, component = %self.component, connections, "door drained");
        connections
    }

    /// Gives connections that open from now on another policy. Those of now keep theirs.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        let _order = self.inner();
        self.standing.send_modify(|standing| {
            standing.serving = Arc::new(Serving { policy, ..Serving::clone(&standing.serving) });
        });
    }

    fn activate(
        &self,
        inner: &mut Inner,
        serving: Arc<Serving>,
        leftovers: Leftovers,
        cause: Cause,
    ) -> Arc<Swapped> {
        let (from, to) = (self.active().source.identity(), serving.source.identity());
        let swapped = Arc::new(Swapped::new(epoch_ms(), cause, from, to, serving.number));
        inner.recovery = Recovery::default();
        inner.swaps.push_back(Arc::clone(&swapped));
        if inner.swaps.len() > SWAPS_KEPT {
            inner.swaps.pop_front();
        }
        let number = serving.number;
        self.change(inner, |standing| {
            standing.turn += 1;
            standing.gives_way_until = match cause {
                Cause::Swap | Cause::Rollback => Instant::now() + GIVES_WAY,
                // Whatever they flee from does harm.
                Cause::Probation => Instant::now(),
            };
            standing.serving = serving;
            standing.leftovers = leftovers;
            standing.swapped = Some(Arc::clone(&swapped));
        });
        let (door, component) = (&self.door, &self.component);
        let (from, to, cause) = (&swapped.from, &swapped.to, cause.as_str());
        let connections = inner.relay.seated.len();
        info!(%door, %component, version = number, %from, %to, cause, connections, "component swapped");
        swapped
    }

    /// Makes a change that every connection is to hear of.
    fn change(&self, inner: &mut Inner, change: impl FnOnce(&mut Standing)) {
        let mut changes = 0;
        self.standing.send_modify(|standing| {
            change(standing);
            standing.changes += 1;
            changes = standing.changes;
        });
        // Before anybody is told: who looks now sees it.
        self.changes.store(changes, Ordering::Release);
        inner.relay.changed(changes);
    }

    /// How many connections have yet to do what the last change asks of them.
    pub fn unheard(&self) -> usize {
        self.inner().relay.unheard()
    }

    /// Connections that are to move have not done so for a while: passes by whoever is in a long call.
    pub fn hurry(&self) {
        self.inner().relay.hurry();
    }

    /// Has an instance of a version made, for a connection that is to move to it and is served meanwhile.
    pub(crate) fn prepare(&self, serving: &Serving) -> oneshot::Receiver<Prepared> {
        self.mover.prepare(Arc::clone(&serving.source))
    }

    /// Has the instance given back that a connection has left.
    pub(crate) fn discard(&self, codec: Box<dyn Codec>) {
        self.mover.discard(codec);
    }

    /// What a connection is to be served by now.
    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether a connection may open now.
    pub(crate) fn admit(&self) -> Result<(), Rests> {
        let mut inner = self.inner();
        let upkeep = inner.upkeep;
        inner.recovery.admit(Instant::now(), &upkeep).inspect_err(|_| {
            self.figures.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// A connection has opened. Dropping the seat takes it out again.
    pub(crate) fn seat(
        self: &Arc<Slot>,
        id: ConnectionId,
        peer: &str,
        standing: &Standing,
    ) -> Seat {
        let serving = &standing.serving;
        let identity = serving.source.identity();
        let figures =
            Arc::new(ConnectionFigures::new(id, peer, epoch_ms(), serving.number, identity));
        self.figures.opened.fetch_add(1, Ordering::Relaxed);
        let nudge = self.inner().relay.seat(Arc::clone(&figures), standing.changes);
        Seat { slot: Arc::clone(self), figures, nudge }
    }

    /// A connection came to harm by the version of this number, `calls` calls after it had taken over.
    pub(crate) fn harmed(&self, number: u64, calls: u64, error: &CodecError) {
        self.harmed_at(Instant::now(), number, calls, error);
    }

    fn harmed_at(&self, now: Instant, number: u64, calls: u64, error: &CodecError) {
        let crashed = is_crash(error);
        let count = if crashed { &self.figures.traps } else { &self.figures.faults };
        count.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        // Whatever an earlier version does to the connections that it kept says nothing about this one.
        if self.active().number != number {
            return;
        }
        let upkeep = inner.upkeep;
        let failed =
            inner.probation.as_mut().is_some_and(|probation| probation.harmed(now, calls, &upkeep));
        if failed && let Some(previous) = inner.previous.take() {
            inner.probation = None;
            let (door, component) = (&self.door, &self.component);
            warn!(
                %door,
                %component,
                version = number,
                faults = upkeep.probation_faults,
                to = %previous.source.identity(),
                "new version failed its probation; the one before comes back",
            );
            self.figures.rollbacks.fetch_add(1, Ordering::Relaxed);
            self.activate(&mut inner, previous, Leftovers::Stay, Cause::Probation);
            return;
        }
        if !crashed {
            return;
        }
        let before = inner.recovery.health(now, &upkeep);
        inner.recovery.crashed(now, &upkeep);
        let after = inner.recovery.health(now, &upkeep);
        if before != after {
            self.tell(after);
        }
    }

    fn tell(&self, health: Health) {
        let (door, component) = (&self.door, &self.component);
        match health {
            Health::Well => {}
            Health::Rests { pause, .. } => {
                warn!(%door, %component, ?pause, "component crashes in a loop; the door rests");
            }
            Health::Failed { pause, .. } => {
                error!(%door, %component, ?pause, "door failed: its component crashes whenever it is tried; swap it");
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here is left half done by a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the list of those of now.
pub(crate) struct Seat {
    pub(crate) slot: Arc<Slot>,
    pub(crate) figures: Arc<ConnectionFigures>,
    /// Given when there is a change to hear of.
    pub(crate) nudge: Arc<Notify>,
}

impl Seat {
    /// The connection has heard of every change up to this one.
    pub(crate) fn heard(&self, changes: u64) {
        self.slot.inner().relay.heard(self.figures.id, changes);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.slot.inner().relay.leave(self.figures.id);
    }
}

/// Whether the component itself failed. What a codec says of its peer is the peer's doing, and a full pool is nobody's.
pub(crate) fn is_crash(error: &CodecError) -> bool {
    match error {
        CodecError::Trap(_) | CodecError::Misuse(_) | CodecError::Gone => true,
        CodecError::Limit { limit, .. } => *limit != "instances",
        CodecError::Fault(_) => false,
    }
}

#[cfg(test)]
mod tests;
