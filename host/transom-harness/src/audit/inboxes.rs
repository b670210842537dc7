//! The inbox: splices that fit, claims in their places, and claimed messages that enter their turn (L-20 to
//! L-22, L-27, L-31, L-32).

use std::collections::VecDeque;

use super::{Auditor, Bad, Checked, bad, ensure, envelope::Envelope};
use crate::vocabulary::Members;

/// Every inbox that a session may have here. It is one, except inside a seed: where that was a fork in its
/// turn, its inbox began empty there, and the log does not say where that was.
#[derive(Debug)]
pub(super) struct Inboxes {
    possible: Vec<Inbox>,
    /// The last event opened a turn, or claimed for one that was just opened.
    opening: bool,
}

/// The two lists, as ids, and what a turn has taken out of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inbox {
    pub(super) next_turn: Vec<String>,
    pub(super) next_step: Vec<String>,
    /// Claimed, and not yet a `user/message`, in the order in which they enter.
    entering: VecDeque<String>,
    boundary: Boundary,
    /// Taken out to be put into the other list by the next event (decision 46).
    moving: Vec<String>,
}

/// What the place before a step asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Boundary {
    /// Of `next-step`, when the boundary was reached.
    waiting: Vec<String>,
    /// At the opening of a turn: the first of `next-turn`.
    first: Option<String>,
    claimed_step: bool,
    claimed_turn: bool,
}

/// Where in its turn a splice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Right behind `turn/start`, or behind a claim that stands there.
    Opening,
    /// Between two steps.
    Between,
    Elsewhere,
}

impl Default for Inboxes {
    fn default() -> Inboxes {
        Inboxes { possible: vec![Inbox::default()], opening: false }
    }
}

struct Splice {
    target: String,
    start: u64,
    removed: u64,
    inserted: Vec<String>,
    canceled: bool,
}

impl Inboxes {
    /// The inbox that a log without a seed has.
    pub(super) fn own(&self) -> Inbox {
        self.possible.first().cloned().unwrap_or_default()
    }

    /// Pending messages of the source are not inherited (L-11).
    pub(super) fn forget(&mut self) {
        self.possible = vec![Inbox::default()];
    }

    pub(super) fn may_be_empty(&mut self) {
        if !self.possible.contains(&Inbox::default()) {
            self.possible.push(Inbox::default());
        }
    }

    /// Keeps the inboxes that `holds` is true of. One has to be left.
    fn each(&mut self, holds: impl Fn(&mut Inbox) -> Checked) -> Checked {
        let mut first: Option<Bad> = None;
        self.possible.retain_mut(|inbox| match holds(inbox) {
            Ok(()) => true,
            Err(bad) => {
                first.get_or_insert(bad);
                false
            }
        });
        match first {
            Some(bad) if self.possible.is_empty() => Err(bad),
            Some(_) | None => Ok(()),
        }
    }

    /// Before each event: whether the one before it was at the opening of a turn.
    pub(super) fn begin_event(&mut self, event: &Envelope<'_>) -> Checked<bool> {
        let kind = &*event.kind;
        if kind != "agent/inbox/spliced" {
            // Only a crash can stand between the two halves of a move.
            let recovers = matches!(
                kind,
                "approval/decided" | "tool/result" | "step/end" | "turn/end" | "session/end-seed"
            );
            self.each(|inbox| {
                let moving = std::mem::take(&mut inbox.moving);
                ensure(moving.is_empty() || recovers, "L-21", || lost(&moving))
            })?;
        }
        Ok(std::mem::replace(&mut self.opening, kind == "turn/start"))
    }

    pub(super) fn turn_opens(&mut self) {
        for inbox in &mut self.possible {
            inbox.entering.clear();
            inbox.boundary = Boundary {
                waiting: inbox.next_step.clone(),
                first: inbox.next_turn.first().cloned(),
                ..Boundary::default()
            };
        }
    }

    pub(super) fn step_starts(&mut self) -> Checked {
        self.each(Inbox::has_claimed)
    }

    pub(super) fn step_ends(&mut self) {
        for inbox in &mut self.possible {
            inbox.entering.clear();
            inbox.boundary = Boundary { waiting: inbox.next_step.clone(), ..Boundary::default() };
        }
    }

    /// A message joins the conversation. `free`: it may do so without having waited (L-96).
    pub(super) fn enters(&mut self, id: &str, free: bool) -> Checked {
        self.each(|inbox| {
            if inbox.entering.front().is_some_and(|front| front == id) {
                inbox.entering.pop_front();
                return Ok(());
            }
            match (inbox.entering.front(), inbox.entering.iter().any(|waiting| waiting == id)) {
                (Some(front), true) => bad(
                    "L-31",
                    format!(
                        "user/message \"{id}\" before \"{front}\", which was claimed before it"
                    ),
                ),
                (Some(front), false) if free => bad(
                    "L-96",
                    format!("user/message \"{id}\" before the claimed message \"{front}\""),
                ),
                (_, false) if free => Ok(()),
                _ => bad("L-31", format!("user/message \"{id}\", which this turn has not claimed")),
            }
        })
    }

    /// A model is asked: it has to be shown everything that was claimed.
    pub(super) fn all_entered(&mut self, kind: &str) -> Checked {
        self.each(|inbox| match inbox.entering.front() {
            None => Ok(()),
            Some(id) => bad(
                "L-31",
                format!("{kind} before the user/message of \"{id}\", which was claimed"),
            ),
        })
    }

    /// `normal`: the turn has come to its end, and was not stopped. `steps`: how many it had.
    pub(super) fn turn_ends(&mut self, normal: bool, interrupted: bool, steps: u64) -> Checked {
        self.each(|inbox| {
            if steps == 0 && !interrupted {
                inbox.has_claimed()?;
            }
            if normal && steps == 0 && !inbox.entering.is_empty() {
                return bad("L-31", "a turn that has claimed messages is completed without a step");
            }
            if let (true, Some(id)) = (normal && steps > 0, inbox.next_step.first()) {
                return bad(
                    "L-32",
                    format!("the turn ends although \"{id}\" waits for its next step"),
                );
            }
            inbox.entering.clear();
            Ok(())
        })
    }
}

impl Inbox {
    /// Nothing that waited at the boundary was left behind (L-22, L-32).
    fn has_claimed(&mut self) -> Checked {
        let Boundary { waiting, first, claimed_step, claimed_turn } = &self.boundary;
        let left =
            |list: &[String], ids: &[String]| ids.iter().find(|id| list.contains(*id)).cloned();
        if let (false, Some(id)) = (claimed_step, left(&self.next_step, waiting)) {
            return bad("L-22", format!("\"{id}\" waited for the next step and was not claimed"));
        }
        if let (false, Some(id)) = (claimed_turn, left(&self.next_turn, first.as_slice())) {
            return bad("L-22", format!("\"{id}\" waited for the next turn and was not claimed"));
        }
        Ok(())
    }

    fn splice(&mut self, splice: &Splice, place: Place) -> Checked {
        let Splice { target, start, removed, inserted, canceled } = splice;
        let (list, other) = match target.as_str() {
            "next-turn" => (&mut self.next_turn, &self.next_step),
            _ => (&mut self.next_step, &self.next_turn),
        };
        let start = usize::try_from(*start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(*removed).unwrap_or(usize::MAX));
        let Some(taken) = list.get(start..end) else {
            return bad(
                "L-27",
                format!("splices {start}..{end} of a {target} list of {}", list.len()),
            );
        };
        let taken = taken.to_vec();
        let whole = taken.len() == list.len();
        list.drain(start..end);
        for (at, id) in inserted.iter().enumerate() {
            let twice = inserted.iter().take(at).any(|earlier| earlier == id);
            ensure(!twice && !list.contains(id) && !other.contains(id), "L-21", || {
                format!("message \"{id}\" is already pending")
            })?;
        }
        list.splice(start..start, inserted.iter().cloned());

        let moving = std::mem::take(&mut self.moving);
        if !moving.is_empty() {
            let arrives = target == "next-step" && taken.is_empty() && *inserted == moving;
            return ensure(arrives, "L-21", || lost(&moving));
        }
        if taken.is_empty() || *canceled {
            return Ok(());
        }
        if !inserted.is_empty() {
            // An edit keeps the id (decision 46).
            return ensure(taken == *inserted, "L-21", || {
                "messages are replaced by others without the outcome canceled".to_owned()
            });
        }
        self.take_out(taken, target == "next-step", start == 0, whole, place)
    }

    /// Messages leave a list and were not discarded: a turn claims them, or they move to the other list.
    fn take_out(
        &mut self,
        taken: Vec<String>,
        for_step: bool,
        from_front: bool,
        whole: bool,
        place: Place,
    ) -> Checked {
        let boundary = &mut self.boundary;
        match place {
            Place::Opening | Place::Between if for_step => {
                ensure(!boundary.claimed_step && !boundary.claimed_turn, "L-22", || {
                    "a second claim of next-step, or one behind that of next-turn".to_owned()
                })?;
                ensure(from_front && whole, "L-22", || {
                    "a claim of next-step must take the whole list".to_owned()
                })?;
                boundary.claimed_step = true;
            }
            Place::Opening if !boundary.claimed_turn => {
                let left = !boundary.claimed_step && !boundary.waiting.is_empty();
                ensure(!left, "L-22", || "next-turn is claimed before next-step".to_owned())?;
                ensure(from_front && taken.len() == 1, "L-22", || {
                    "a claim of next-turn must take its first message alone".to_owned()
                })?;
                boundary.claimed_turn = true;
            }
            Place::Elsewhere if for_step => {
                return bad("L-22", "next-step is claimed where no step is about to start");
            }
            Place::Opening | Place::Between | Place::Elsewhere => {
                self.moving = taken;
                return Ok(());
            }
        }
        self.entering.extend(taken);
        Ok(())
    }
}

fn lost(moving: &[String]) -> String {
    format!("{moving:?} leave next-turn neither claimed nor discarded, and do not enter next-step")
}

impl Auditor {
    pub(super) fn spliced(&mut self, event: &Envelope<'_>, opening: bool) -> Checked {
        let splice = Splice {
            target: event.text("target").into_owned(),
            start: event.count("start"),
            removed: event.count("removedCount"),
            inserted: inserted(&event.data),
            canceled: event.data.raw("outcome").is_some(),
        };
        ensure(splice.removed > 0 || !splice.inserted.is_empty(), "L-21", || {
            "a splice that changes nothing".to_owned()
        })?;
        ensure(splice.removed > 0 || !splice.canceled, "L-21", || {
            "outcome canceled on a splice that discards nothing".to_owned()
        })?;
        let place = match &self.turn {
            Some(turn) if turn.step == 0 && opening => Place::Opening,
            Some(turn) if turn.step > 0 && turn.open.is_none() => Place::Between,
            Some(_) | None => Place::Elsewhere,
        };
        self.inboxes.each(|inbox| inbox.splice(&splice, place))?;
        let takes = splice.removed > 0 && splice.inserted.is_empty() && !splice.canceled;
        self.inboxes.opening = place == Place::Opening && takes;
        Ok(())
    }
}

fn inserted(data: &Members<'_>) -> Vec<String> {
    let messages = data.list("inserted").unwrap_or_default();
    let ids = messages.into_iter().filter_map(|message| Members::read(message.get())?.text("id"));
    ids.map(Into::into).collect()
}
