//! Turns and their steps: how they are numbered and nested, how one step leads to another, and how a turn
//! may end (L-31, L-44, S-112).

use super::{
    Auditor, Checked, Expected, bad, ensure,
    envelope::Envelope,
    step::{Came, Step},
};
use crate::{chunk::LlmFailure, vocabulary::Members};

/// The turn that is open.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    /// The step that is open, or the last one; 0 before the first.
    pub(super) step: u64,
    pub(super) open: Option<Step>,
    /// What the last step came to; `None` before the first.
    came: Option<Came>,
    /// A step of this turn hit the output limit (L-44: sticky).
    limit_hit: bool,
}

impl Auditor {
    pub(super) fn turn_start(&mut self, event: &Envelope<'_>) -> Checked {
        let number = event.count("turn");
        if let Some(turn) = &self.turn {
            return bad("S-112", format!("turn/start {number} inside turn {}", turn.number));
        }
        let due = self.last_turn + 1;
        ensure(number == due, "S-112", || format!("turn/start {number}, where turn {due} is due"))?;
        self.last_turn = number;
        self.settings.born |= !self.seed.holds(event);
        self.inboxes.turn_opens();
        self.turn = Some(Turn { number, step: 0, open: None, came: None, limit_hit: false });
        Ok(())
    }

    pub(super) fn step_start(&mut self, event: &Envelope<'_>) -> Checked {
        let turn = named_turn(&mut self.turn, event)?;
        let number = event.count("step");
        if turn.open.is_some() {
            return bad("S-112", format!("step/start {number} inside step {}", turn.step));
        }
        let due = turn.step + 1;
        ensure(number == due, "S-112", || format!("step/start {number}, where step {due} is due"))?;
        let after_calls = match &turn.came {
            None | Some(Came::Answered) => false,
            Some(Came::Called) => true,
            Some(Came::Unscheduled(id)) => return unanswered(id),
            Some(Came::Failed(_) | Came::Cut | Came::Resting | Came::Dropped | Came::Partial) => {
                return bad("L-40", format!("step/start {number} behind a step without an answer"));
            }
        };
        self.inboxes.step_starts()?;
        turn.step = number;
        turn.open = Some(Step::new(after_calls));
        Ok(())
    }

    pub(super) fn step_end(&mut self, event: &Envelope<'_>) -> Checked {
        let step = open_step(&mut self.turn, event)?;
        let came = step.came();
        let limit_hit = step.limit_hit();
        if let Some(turn) = &mut self.turn {
            turn.open = None;
            turn.came = Some(came);
            turn.limit_hit |= limit_hit;
        }
        self.inboxes.step_ends();
        Ok(())
    }

    pub(super) fn turn_end(&mut self, event: &Envelope<'_>) -> Checked {
        let turn = named_turn(&mut self.turn, event)?;
        if turn.open.is_some() {
            return bad("S-112", format!("turn/end {} inside step {}", turn.number, turn.step));
        }
        let Some(reason) = event.data.object("reason") else { return Ok(()) };
        let kind = reason.text("kind").unwrap_or_default();
        let interrupted = kind == "interrupted";
        ensure(interrupted || !self.repairing, "L-79", || {
            format!("turn/end {kind} behind results that recovery has made up")
        })?;
        turn.may_end(&kind, &reason)?;
        let normal = matches!(&*kind, "completed" | "max-tokens");
        self.inboxes.turn_ends(normal, interrupted, turn.step)?;
        self.approvals.turn_ends(interrupted)?;
        if interrupted {
            // Recovery invents no time (decision 85).
            ensure(self.last_time == Some(event.time), "L-79", || {
                "turn/end interrupted must carry the time of the event before it".to_owned()
            })?;
            self.expected = Some(Expected::EndSeed);
        }
        self.repairing = false;
        self.last_end = Some(kind.into());
        self.turn = None;
        Ok(())
    }
}

impl Turn {
    /// Whether a turn that has come to this may end so (L-40, L-42, L-44). Kinds that nobody knows may (L-45).
    fn may_end(&self, kind: &str, reason: &Members<'_>) -> Checked {
        let step = self.step;
        match kind {
            "completed" => ensure(!self.limit_hit, "L-44", || {
                "turn/end completed, although a step of the turn hit the output limit".to_owned()
            })?,
            "max-tokens" => ensure(self.limit_hit, "L-44", || {
                "turn/end max-tokens, although no step of the turn hit the output limit".to_owned()
            })?,
            _ => {}
        }
        let stops = matches!(kind, "completed" | "max-tokens" | "blocked");
        match &self.came {
            None | Some(Came::Answered | Came::Called) => Ok(()),
            Some(Came::Resting) => ensure(!stops && kind != "error", "L-42", || {
                format!("turn/end {kind}, although step {step} ended while it waited for a retry")
            }),
            Some(Came::Failed(failure)) if kind == "error" => {
                let told = reason
                    .raw("error")
                    .map(|error| serde_json::from_str::<LlmFailure>(error.get()));
                let same = matches!(told, Some(Ok(told)) if told == *failure);
                ensure(same, "L-40", || {
                    let LlmFailure { code, message, .. } = failure;
                    format!(
                        "turn/end error must tell of the failure of step {step}: {code}, {message}"
                    )
                })
            }
            // The turn may have been cut by a crash right behind its last step.
            Some(Came::Unscheduled(_)) if matches!(kind, "error" | "interrupted") => Ok(()),
            Some(Came::Unscheduled(id)) => unanswered(id),
            Some(Came::Partial) => ensure(!stops && kind != "error", "L-48", || {
                format!("turn/end {kind}, although step {step} has a part of an answer")
            }),
            Some(Came::Failed(_) | Came::Cut | Came::Dropped) => ensure(!stops, "L-40", || {
                format!("turn/end {kind}, although step {step} had no answer")
            }),
        }
    }
}

/// Only a failure of whoever schedules calls leaves one without a result (L-49, L-58).
fn unanswered(id: &str) -> Checked {
    bad("L-49", format!("step/end before the tool/result of call \"{id}\""))
}

/// The turn that is open, which has to be the one that the event names.
fn named_turn<'t>(turn: &'t mut Option<Turn>, event: &Envelope<'_>) -> Checked<&'t mut Turn> {
    let kind = &event.kind;
    let Some(turn) = turn else { return bad("S-112", format!("{kind} outside a turn")) };
    let named = event.count("turn");
    ensure(named == turn.number, "S-112", || {
        format!("{kind} of turn {named} inside turn {}", turn.number)
    })?;
    Ok(turn)
}

/// The step that is open, which has to be the one that the event names.
pub(super) fn open_step<'t>(
    turn: &'t mut Option<Turn>,
    event: &Envelope<'_>,
) -> Checked<&'t mut Step> {
    let kind = &event.kind;
    let turn = named_turn(turn, event)?;
    let Some(step) = turn.open.as_mut() else {
        return bad("S-112", format!("{kind} outside a step"));
    };
    let named = event.count("step");
    ensure(named == turn.step, "S-112", || {
        format!("{kind} of step {named} inside step {}", turn.step)
    })?;
    Ok(step)
}
