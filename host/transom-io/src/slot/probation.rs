//! How long a new version is watched, and how much it may break.

use std::time::Instant;

use super::Upkeep;

/// A new version that is watched.
#[derive(Debug)]
pub(super) struct Probation {
    begun: Instant,
    faults: u64,
}

impl Probation {
    pub(super) fn new(begun: Instant) -> Probation {
        Probation { begun, faults: 0 }
    }

    pub(super) fn goes_on(&self, now: Instant, upkeep: &Upkeep) -> bool {
        now.saturating_duration_since(self.begun) <= upkeep.probation
    }

    /// A connection came to harm, so many calls after the version took it over. Gives whether that is too much. Each
    /// connection comes to harm by a version at most once: it ends, or it goes back.
    pub(super) fn harmed(&mut self, now: Instant, calls: u64, upkeep: &Upkeep) -> bool {
        if !self.goes_on(now, upkeep) || calls > upkeep.probation_calls {
            return false;
        }
        self.faults += 1;
        self.faults >= upkeep.probation_faults
    }
}
