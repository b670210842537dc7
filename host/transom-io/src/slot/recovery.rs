//! When crashes are a loop, and how long the door then rests. Each connection has an instance of its own, so that a crash
//! alone costs one connection and needs nothing from here.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Upkeep;

/// The first pause of a loop. Each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// How a door is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Well,
    /// Its component crashed in a loop. New connections are refused until the pause is over.
    Rests {
        /// How long it is altogether.
        pause: Duration,
        /// Until then.
        until: Instant,
    },
    /// Its component crashed even after the longest pause. It is tried again after every such pause, and served by the
    /// next version at once.
    Failed {
        /// How long each pause is.
        pause: Duration,
        /// Until then.
        until: Instant,
    },
}

impl Health {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Well => "serving",
            Health::Rests { .. } => "resting",
            Health::Failed { .. } => "failed",
        }
    }
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the component crashes in a loop; it is tried again in {} ms", wait.as_millis())]
pub struct Rests {
    /// How long the door still rests.
    pub wait: Duration,
}

/// The crashes of the active version.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// At most as many as make a loop, oldest first.
    crashes: VecDeque<Instant>,
    pause: Option<Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    length: Duration,
    until: Instant,
    /// A crash came after a pause of the greatest length.
    failed: bool,
}

impl Recovery {
    pub(super) fn crashed(&mut self, now: Instant, upkeep: &Upkeep) {
        self.settle(now, upkeep);
        match self.pause {
            // Connections that were there before the pause say nothing new.
            Some(pause) if now < pause.until => {}
            Some(pause) => {
                let length = pause.length.saturating_mul(2).min(upkeep.pause_max);
                let failed = pause.failed || pause.length >= upkeep.pause_max;
                self.pause = Some(Pause { length, until: now + length, failed });
            }
            None => {
                self.crashes.push_back(now);
                if self.crashes.len() as u64 >= upkeep.crashes {
                    self.crashes.clear();
                    let length = PAUSE_FIRST.min(upkeep.pause_max);
                    self.pause = Some(Pause { length, until: now + length, failed: false });
                }
            }
        }
    }

    pub(super) fn admit(&mut self, now: Instant, upkeep: &Upkeep) -> Result<(), Rests> {
        self.settle(now, upkeep);
        match self.pause {
            Some(pause) if now < pause.until => Err(Rests { wait: pause.until - now }),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn health(&mut self, now: Instant, upkeep: &Upkeep) -> Health {
        self.settle(now, upkeep);
        match self.pause {
            None => Health::Well,
            Some(Pause { length: pause, until, failed: false }) => Health::Rests { pause, until },
            Some(Pause { length: pause, until, failed: true }) => Health::Failed { pause, until },
        }
    }

    /// Forgets what is long ago. A component that served for as long as crashes are counted is well again.
    fn settle(&mut self, now: Instant, upkeep: &Upkeep) {
        let is_old = |then: Instant| now.saturating_duration_since(then) > upkeep.crash_window;
        while self.crashes.front().is_some_and(|crash| is_old(*crash)) {
            self.crashes.pop_front();
        }
        self.pause.take_if(|pause| is_old(pause.until));
    }
}
