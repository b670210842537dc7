//! Where a log's own events begin: behind what was copied from another session (L-11), and behind what an
//! earlier driver has written (L-10).

use super::{Auditor, Checked, bad, ensure, envelope::Envelope};
use crate::header::{Header, Origin};

/// What the header says of the copied events, and the last marker.
#[derive(Debug)]
pub(super) struct Seed {
    /// Events that were copied; 0 where none were.
    pub(super) length: u64,
    forked: bool,
    delegated: bool,
    /// Whether the last event is `session/end-seed`.
    marked: bool,
}

impl Seed {
    pub(super) fn new(header: &Header) -> Seed {
        Seed {
            length: header.seed_length.unwrap_or_default(),
            forked: header.seed_length.is_some(),
            delegated: header.origin == Some(Origin::Subagent),
            marked: false,
        }
    }

    /// Whether the event was copied with the seed.
    pub(super) fn holds(&self, event: &Envelope<'_>) -> bool {
        event.seq < self.length
    }

    pub(super) fn after(&mut self, event: &Envelope<'_>) {
        self.marked = event.kind == "session/end-seed";
    }
}

impl Auditor {
    /// Behind the seed of a fork, the inbox and the jobs are the session's own (L-11, L-27, P-78).
    pub(super) fn begin_own(&mut self, event: &Envelope<'_>) -> Checked {
        if !self.seed.forked || event.seq != self.seed.length {
            return Ok(());
        }
        if let Some(turn) = &self.turn {
            return bad("L-11", format!("the seed ends inside turn {}", turn.number));
        }
        ensure(self.seed.marked || event.kind == "session/end-seed", "L-10", || {
            format!("{} right behind the seed, where session/end-seed must stand", event.kind)
        })?;
        self.inboxes.forget();
        self.jobs.forget();
        self.children.forget();
        Ok(())
    }

    pub(super) fn end_seed(&mut self, event: &Envelope<'_>) -> Checked {
        if let Some(turn) = &self.turn {
            return bad("L-10", format!("session/end-seed inside turn {}", turn.number));
        }
        ensure(!self.seed.marked, "L-10", || {
            "session/end-seed right behind another: a seed that ends with one gets none".to_owned()
        })?;
        self.request.driver_begins();
        if self.seed.holds(event) {
            // The session that this one was forked from may itself have been a fork up to here.
            self.inboxes.may_be_empty();
            self.jobs.may_restart();
        }
        Ok(())
    }

    /// One for each session that was delegated to, however often it is continued (L-67, L-72).
    pub(super) fn descriptor(&mut self, event: &Envelope<'_>) -> Checked {
        let opening = self.turn.as_ref().is_some_and(|turn| turn.step == 0);
        ensure(opening, "L-67", || {
            "subagent/descriptor must stand in a turn, before its first step/start".to_owned()
        })?;
        ensure(self.children.describe(), "L-67", || {
            "a second subagent/descriptor of one session".to_owned()
        })?;
        ensure(self.seed.delegated || self.seed.holds(event), "L-67", || {
            "subagent/descriptor in a session whose header has no origin subagent".to_owned()
        })
    }
}
