//! Who hears of a change, one after the other. If all connections woke at once, whoever waits behind them, at whatever door, would
//! wait until the last of them has moved.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::sync::Notify;
use transom_frame::ConnectionId;

use super::ConnectionFigures;

/// How many are told and have not heard yet: more would be ready before their turn, and wait. Each that hears has the next
/// one told.
const AT_A_TIME: usize = 1;

/// How many when one does not hear, because it is in the middle of a long call.
const AT_A_TIME_MAX: usize = 8;

/// A connection of now.
pub(super) struct Seated {
    pub(super) figures: Arc<ConnectionFigures>,
    pub(super) nudge: Arc<Notify>,
    /// It was told, and has not heard yet.
    told: bool,
    /// The last change that it heard of.
    heard: u64,
}

/// The connections of now, and who has yet to hear of the last change.
#[derive(Default)]
pub(super) struct Relay {
    pub(super) seated: HashMap<ConnectionId, Seated>,
    /// How many changes there were.
    changes: u64,
    waiting: VecDeque<ConnectionId>,
    told: usize,
}

impl Relay {
    /// Takes in a connection that knows of so many changes.
    pub(super) fn seat(&mut self, figures: Arc<ConnectionFigures>, heard: u64) -> Arc<Notify> {
        let nudge = Arc::new(Notify::new());
        let (id, seated) =
            (figures.id, Seated { figures, nudge: Arc::clone(&nudge), told: false, heard });
        self.seated.insert(id, seated);
        nudge
    }

    pub(super) fn leave(&mut self, id: ConnectionId) {
        if self.seated.remove(&id).is_some_and(|seated| seated.told) {
            self.told -= 1;
            self.go_on();
        }
    }

    /// This is the change of that number, and everybody is to hear of it.
    pub(super) fn changed(&mut self, changes: u64) {
        self.changes = changes;
        self.waiting = self.seated.keys().copied().collect();
        // Oldest first.
        self.waiting.make_contiguous().sort_unstable_by_key(|id| id.0);
        self.go_on();
    }

    /// A connection has heard of every change up to this one, of its own accord or because it was told.
    pub(super) fn heard(&mut self, id: ConnectionId, changes: u64) {
        let Some(seated) = self.seated.get_mut(&id) else { return };
        seated.heard = changes;
        if std::mem::take(&mut seated.told) {
            self.told -= 1;
            if changes != self.changes {
                // There was another one between its looking and its saying so.
                self.waiting.push_back(id);
            }
            self.go_on();
        }
    }

    /// Nobody has heard for a while: has one more told.
    pub(super) fn hurry(&mut self) {
        self.tell(AT_A_TIME_MAX.min(self.told + 1));
    }

    /// How many connections have yet to hear of the last change.
    pub(super) fn unheard(&self) -> usize {
        self.seated.values().filter(|seated| seated.heard != self.changes).count()
    }

    fn go_on(&mut self) {
        self.tell(AT_A_TIME);
    }

    fn tell(&mut self, at_a_time: usize) {
        while self.told < at_a_time
            && let Some(id) = self.waiting.pop_front()
        {
            let Some(seated) = self.seated.get_mut(&id) else { continue };
            if seated.heard == self.changes || seated.told {
                continue;
            }
            seated.told = true;
            self.told += 1;
            seated.nudge.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Which of these connections are told now. Looking takes the nudge away.
    fn told(nudges: &[Arc<Notify>]) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let is_told = |nudge: &Notify| {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = nudge.notified() => true,
                    () = std::future::ready(()) => false,
                }
            })
        };
        (0..nudges.len()).filter(|at| is_told(&nudges[*at])).collect()
    }

    fn seat(relay: &mut Relay, id: u64, heard: u64) -> Arc<Notify> {
        let id = ConnectionId(id);
        relay.seat(Arc::new(ConnectionFigures::new(id, "", 0, 1, "".into())), heard)
    }

    #[test]
    fn each_that_hears_has_the_next_one_told() {
        let mut relay = Relay::default();
        let nudges: Vec<_> = (0..5).map(|id| seat(&mut relay, id, 0)).collect();
        relay.changed(1);
        assert_eq!(told(&nudges), [0]);
        // Whoever hears of it by itself is not told again.
        relay.heard(ConnectionId(1), 1);
        assert_eq!(told(&nudges), [0; 0]);
        relay.heard(ConnectionId(0), 1);
        assert_eq!(told(&nudges), [2]);
        for id in [2, 3] {
            relay.heard(ConnectionId(id), 1);
            assert_eq!(told(&nudges), [id as usize + 1]);
        }
        relay.heard(ConnectionId(4), 1);
        assert_eq!((told(&nudges), relay.told), (vec![], 0));
    }

    #[test]
    fn a_change_before_the_last_was_heard_is_for_everybody() {
        let mut relay = Relay::default();
        let nudges: Vec<_> = (0..4).map(|id| seat(&mut relay, id, 0)).collect();
        relay.changed(1);
        assert_eq!(told(&nudges), [0]);
        relay.heard(ConnectionId(0), 1);
        assert_eq!(told(&nudges), [1]);
        relay.changed(2);
        assert_eq!(told(&nudges), [0; 0], "one is on its way already, and hears of both");
        relay.heard(ConnectionId(1), 2);
        assert_eq!(told(&nudges), [0]);
        relay.heard(ConnectionId(0), 2);
        assert_eq!(told(&nudges), [2]);
    }

    #[test]
    fn one_that_is_in_a_long_call_is_passed_by() {
        let mut relay = Relay::default();
        let nudges: Vec<_> = (0..3).map(|id| seat(&mut relay, id, 0)).collect();
        relay.changed(1);
        assert_eq!(told(&nudges), [0]);
        relay.hurry();
        assert_eq!(told(&nudges), [1]);
        relay.heard(ConnectionId(1), 1);
        assert_eq!(relay.unheard(), 2);
        relay.hurry();
        assert_eq!(told(&nudges), [2]);
        relay.heard(ConnectionId(0), 1);
        relay.heard(ConnectionId(2), 1);
        assert_eq!((told(&nudges), relay.told, relay.unheard()), (vec![], 0, 0));
    }

    #[test]
    fn a_change_behind_a_look_is_told_again() {
        let mut relay = Relay::default();
        let nudges = [seat(&mut relay, 0, 0)];
        relay.changed(1);
        assert_eq!(told(&nudges), [0]);
        relay.changed(2);
        relay.heard(ConnectionId(0), 1);
        assert_eq!(told(&nudges), [0]);
        relay.heard(ConnectionId(0), 2);
        assert_eq!((told(&nudges), relay.told), (vec![], 0));
    }

    #[test]
    fn who_leaves_without_hearing_holds_nobody_up() {
        let mut relay = Relay::default();
        let nudges: Vec<_> = (0..4).map(|id| seat(&mut relay, id, 0)).collect();
        relay.changed(1);
        assert_eq!(told(&nudges), [0]);
        relay.leave(ConnectionId(2));
        relay.leave(ConnectionId(1));
        relay.leave(ConnectionId(0));
        assert_eq!(told(&nudges), [3]);
        let late = seat(&mut relay, 9, 1);
        relay.heard(ConnectionId(3), 1);
        assert_eq!((told(&[late]), relay.told), (vec![], 0), "it came with the change");
    }
}
