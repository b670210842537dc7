//! When whoever schedules calls fails (L-58): nothing starts any more, what runs is waited for, and the turn ends as an
//! error without results that nobody has.

use super::{
    Agent, Effect, Token,
    calls::{Call, Calls, State},
    turn::{At, Next, Turn},
};
use crate::chunk::LlmFailure;

impl Calls {
    /// Whether nothing of them goes on: all that is left has not begun, or never will.
    pub(super) fn at_rest(&self) -> bool {
        let rests = |call: &Call| {
            matches!(call.state, State::Waiting | State::Unsettled { .. } | State::Committed)
        };
        self.calls.iter().all(rests)
    }

    /// Gives up what was asked under this token. `false`: nothing was.
    fn unsettle(&mut self, answered: Token) -> bool {
        for call in &mut self.calls {
            if let State::Judging { token, seq, .. } = call.state
                && token == answered
            {
                call.state = State::Unsettled { seq };
                return true;
            }
        }
        false
    }
}

impl Agent {
    /// No plan could be made.
    pub(super) fn plan_failed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        why: String,
    ) -> Next {
        calls.failed.get_or_insert_with(|| LlmFailure::new("UNKNOWN", why));
        self.pump(out, now, turn, calls)
    }

    /// A call could not be judged.
    pub(super) fn judge_failed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        mut calls: Calls,
        answered: Token,
        why: String,
    ) -> Next {
        if !calls.unsettle(answered) {
            turn.at = At::Calls(calls);
            return Next::Wait(turn);
        }
        self.plan_failed(out, now, turn, calls, why)
    }
}
