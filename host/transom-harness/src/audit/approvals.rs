//! Asks: inside a turn, about a call that is under way, each decided exactly once (P-2, P-14, P-15).

use std::collections::HashSet;

use super::{Auditor, Checked, bad, ensure, envelope::Envelope, turn::Turn};

/// Asks so far.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) open: Vec<Open>,
    seen: HashSet<String>,
}

/// An ask without a decision.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: String,
    /// Which call of the open step it is about.
    call: Option<usize>,
    /// The policy was `never`, both when the call began and when it was asked about.
    never: bool,
}

impl Approvals {
    pub(super) fn call_ends(&self, call: usize) -> Checked {
        match self.open.iter().find(|open| open.call == Some(call)) {
            None => Ok(()),
            Some(Open { id, .. }) => {
                bad("P-2", format!("tool/result before the approval/decided of \"{id}\""))
            }
        }
    }

    /// A host that was killed has decided nothing.
    pub(super) fn turn_ends(&mut self, interrupted: bool) -> Checked {
        let open = std::mem::take(&mut self.open);
        match open.first() {
            Some(Open { id, .. }) if !interrupted => {
                bad("P-2", format!("turn/end before the approval/decided of \"{id}\""))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Auditor {
    pub(super) fn asked(&mut self, event: &Envelope<'_>) -> Checked {
        let id = event.text("id");
        let Some(turn) = &mut self.turn else { return bad("P-2", "approval/asked outside a turn") };
        ensure(self.approvals.seen.insert(id.clone().into()), "P-2", || {
            format!("a second approval/asked \"{id}\"")
        })?;
        let now = self.settings.never();
        let (call, never) = match event.data.text("callId") {
            None => (None, now),
            Some(call) => {
                let (at, never) = about(turn, event, &call)?;
                (Some(at), now && never)
            }
        };
        self.approvals.open.push(Open { id: id.into(), call, never });
        Ok(())
    }

    pub(super) fn decided(&mut self, event: &Envelope<'_>) -> Checked {
        let (id, outcome) = (event.text("id"), event.text("outcome"));
        let Some(at) = self.approvals.open.iter().position(|open| open.id == id) else {
            return bad("P-2", format!("approval/decided \"{id}\" without an open approval/asked"));
        };
        let Open { call, never, .. } = self.approvals.open.remove(at);
        ensure(!never || matches!(&*outcome, "rejected" | "cancelled"), "L-61", || {
            format!("outcome {outcome} under the approval policy never")
        })?;
        let calls = self.turn.as_mut().and_then(|turn| turn.open.as_mut()?.answer.as_mut());
        if let (Some(calls), Some(call)) = (calls, call)
            && let Some(call) = calls.0.get_mut(call)
        {
            call.refused = outcome != "allowed-once";
        }
        Ok(())
    }
}

/// The call that is asked about: it has begun, has no result, and was not asked about before (P-15, P-30). Of
/// several with one id it is the one that began last: calls are asked about one after the other (L-57).
fn about(turn: &mut Turn, event: &Envelope<'_>, id: &str) -> Checked<(usize, bool)> {
    let calls = turn.open.as_mut().and_then(|step| step.answer.as_mut());
    let under_way = calls.into_iter().flat_map(|calls| calls.0.iter_mut().enumerate());
    let mut under_way =
        under_way.filter(|(_, call)| call.id == id && call.called.is_some() && !call.answered);
    let Some((at, call)) = under_way.next_back() else {
        return bad("P-15", format!("approval/asked about call \"{id}\", which is not under way"));
    };
    ensure(call.name == event.text("toolName"), "P-15", || {
        format!("toolName must be that of call \"{id}\", {}", call.name)
    })?;
    ensure(!call.asked, "P-30", || format!("a second approval/asked about call \"{id}\""))?;
    call.asked = true;
    Ok((at, call.never))
}
