//! Stories of a slot, told with instants that are said and never waited for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use transom_connection::codec::{Codec, CodecError, CodecSource, Framing, Manifest, Output, Setup};
use transom_frame::{ConnectionId, Fault, FaultKind};
use transom_policy::Policy;

use super::{Cause, Health, Leftovers, NoPrevious, Slot, Upkeep};

/// A version that is never opened here.
struct Named(&'static str, Manifest);

impl CodecSource for Named {
    fn manifest(&self) -> &Manifest {
        &self.1
    }

    fn identity(&self) -> Arc<str> {
        self.0.into()
    }

    fn open(&self, _: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        Err(CodecError::Gone)
    }

    fn resume(&self, _: &Setup, _: u32, _: &[u8]) -> Result<Box<dyn Codec>, CodecError> {
        Err(CodecError::Gone)
    }
}

fn named(name: &'static str) -> Arc<dyn CodecSource> {
    let manifest = Manifest {
        protocol: "none".to_owned(),
        revisions: Vec::new(),
        framings: vec![Framing::Lines],
        sends: Vec::new(),
        headers: Vec::new(),
        state_format: 1,
        resumes: vec![1],
    };
    Arc::new(Named(name, manifest))
}

fn policy() -> Arc<Policy> {
    Arc::new(Policy::parse("test", "[frames]\nallow = []\n").unwrap())
}

/// Two faults in ten seconds are too many, and so are three crashes in a minute.
fn upkeep() -> Upkeep {
    Upkeep {
        probation_calls: 5,
        probation_faults: 2,
        probation: Duration::from_secs(10),
        crashes: 3,
        crash_window: Duration::from_secs(60),
        pause_max: Duration::from_secs(2),
    }
}

fn slot() -> Arc<Slot> {
    Slot::new("door", "component", named("one"), "{}".into(), policy(), upkeep())
}

fn swap(slot: &Slot, name: &'static str) -> u64 {
    slot.swap(named(name), "{}".into(), policy(), Leftovers::Stay).version
}

fn active(slot: &Slot) -> (u64, String) {
    let active = slot.active();
    (active.number, active.source.identity().to_string())
}

fn trap() -> CodecError {
    CodecError::Trap("unreachable".to_owned())
}

fn fault() -> CodecError {
    CodecError::Fault(Fault::new(FaultKind::Malformed, "no"))
}

fn causes(slot: &Slot) -> Vec<Cause> {
    slot.swaps().iter().map(|swapped| swapped.cause).collect()
}

#[test]
fn new_connections_get_the_new_version_and_live_ones_hear_of_it() {
    let slot = slot();
    let before = slot.standing();
    assert_eq!((before.serving.number, slot.changes()), (1, before.changes));
    assert_eq!(swap(&slot, "two"), 2);
    let after = slot.standing();
    assert_eq!((after.serving.number, slot.changes()), (2, after.changes));
    assert!(after.turn > before.turn && after.changes > before.changes);
    slot.drain();
    assert!(slot.changes() > after.changes && slot.standing().drains > after.drains);
    assert_eq!(slot.standing().turn, after.turn, "nobody moves");
}

#[test]
fn a_rollback_brings_back_the_one_before_and_another_one_takes_that_back() {
    let slot = slot();
    assert_eq!(slot.rollback().err(), Some(NoPrevious));
    swap(&slot, "two");
    slot.rollback().unwrap();
    assert_eq!(active(&slot), (1, "one".to_owned()));
    slot.rollback().unwrap();
    assert_eq!(active(&slot), (2, "two".to_owned()));
    assert_eq!(causes(&slot), [Cause::Swap, Cause::Rollback, Cause::Rollback]);
}

#[test]
fn a_new_version_that_breaks_too_much_goes_by_itself() {
    let slot = slot();
    swap(&slot, "two");
    assert!(slot.is_on_probation());
    slot.harmed(2, 1, &trap());
    assert_eq!(active(&slot).0, 2, "one is not too much");
    // What the peer did may be the version's doing all the same.
    slot.harmed(2, 1, &fault());
    assert_eq!(active(&slot), (1, "one".to_owned()));
    assert!(!slot.is_on_probation());
    assert_eq!(causes(&slot), [Cause::Swap, Cause::Probation]);
    assert_eq!(slot.rollback().err(), Some(NoPrevious), "nobody goes back to what failed");
    // Latecomers of the failed version change nothing.
    slot.harmed(2, 1, &trap());
    assert_eq!(active(&slot).0, 1);
    assert_eq!(slot.health(), Health::Well);
}

#[test]
fn a_version_that_has_proven_itself_stays() {
    let slot = slot();
    swap(&slot, "two");
    for _ in 0..10 {
        slot.harmed(2, 6, &fault());
    }
    assert_eq!(active(&slot).0, 2, "their connections were served for more calls than are watched");
    let later = Instant::now() + Duration::from_secs(11);
    for _ in 0..10 {
        slot.harmed_at(later, 2, 1, &fault());
    }
    assert_eq!(active(&slot).0, 2, "the time is over");
}

#[test]
fn what_an_old_version_does_is_not_held_against_the_new_one() {
    let slot = slot();
    swap(&slot, "two");
    for _ in 0..10 {
        slot.harmed(1, 1, &trap());
    }
    assert_eq!(active(&slot).0, 2);
    assert_eq!(slot.health(), Health::Well);
}

#[test]
fn a_full_pool_is_no_crash() {
    let slot = slot();
    for _ in 0..10 {
        slot.harmed(1, 0, &CodecError::Limit { limit: "instances", found: 9, allowed: 8 });
        slot.harmed(1, 0, &fault());
    }
    assert_eq!(slot.health(), Health::Well);
    for _ in 0..3 {
        slot.harmed(1, 0, &CodecError::Limit { limit: "call_ms", found: 9, allowed: 8 });
    }
    assert!(matches!(slot.health(), Health::Rests { .. }));
}

#[test]
fn crashes_in_a_loop_make_growing_pauses_and_then_a_failed_door() {
    let slot = slot();
    let begun = Instant::now();
    let crash = |after: u64| slot.harmed_at(begun + Duration::from_millis(after), 1, 0, &trap());
    let rests = |after: u64| {
        let now = begun + Duration::from_millis(after);
        let upkeep = slot.inner().upkeep;
        let refused = slot.inner().recovery.admit(now, &upkeep).err();
        (slot.health_at(now).as_str(), refused.map(|rests| rests.wait.as_millis()))
    };
    crash(0);
    crash(1);
    assert_eq!(rests(1), ("serving", None), "two crashes are no loop");
    crash(2);
    assert_eq!(rests(2), ("resting", Some(500)));
    crash(3);
    assert_eq!(rests(3), ("resting", Some(499)), "connections that were there say nothing new");
    assert_eq!(rests(502), ("resting", None), "tried again");
    crash(600);
    assert_eq!(rests(600), ("resting", Some(1000)));
    crash(1700);
    assert_eq!(rests(1700), ("resting", Some(2000)));
    crash(3800);
    assert_eq!(rests(3800), ("failed", Some(2000)), "not even the longest pause helped");
    assert_eq!(rests(5800), ("failed", None), "and it is still tried");
    swap(&slot, "two");
    assert_eq!(rests(5800), ("serving", None), "a swap clears it");
}

#[test]
fn who_serves_for_long_enough_is_well_again() {
    let slot = slot();
    for _ in 0..3 {
        slot.harmed(1, 0, &trap());
    }
    assert_ne!(slot.health(), Health::Well);
    assert_eq!(slot.health_at(Instant::now() + Duration::from_secs(62)), Health::Well);
}

#[test]
fn a_seat_is_listed_until_it_is_dropped() {
    let slot = slot();
    let seats: Vec<_> = [2, 1]
        .map(|id| slot.seat(ConnectionId(id), "somebody", &slot.standing()))
        .into_iter()
        .collect();
    let ids: Vec<_> = slot.connections().iter().map(|connection| connection.id.0).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(slot.drain(), 2);
    drop(seats);
    assert!(slot.connections().is_empty());
}

#[test]
fn another_policy_is_for_those_who_come() {
    let slot = slot();
    let standing = slot.standing();
    let text = "[frames]\nallow = []\n[limits]\nconnections-max = 7\n";
    slot.set_policy(Arc::new(Policy::parse("test", text).unwrap()));
    assert_eq!(slot.active().policy.limits.connections_max, 7);
    assert_eq!(slot.changes(), standing.changes, "nobody moves");
}

#[test]
fn only_the_last_swaps_are_kept() {
    let slot = slot();
    for _ in 0..100 {
        swap(&slot, "next");
    }
    assert_eq!(slot.swaps().len(), super::SWAPS_KEPT);
    assert_eq!(slot.swaps().last().unwrap().version, 101);
}
