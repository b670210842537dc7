//! One turn: what it claims, how its steps follow each other, how it ends (L-31 to L-35, L-44).

use std::sync::Arc;

use transom_frame::{Code, MessageId};

use super::{
    Agent, Assembly, Effect, Happened, Live, Token,
    calls::Calls,
    step::{Attempt, Ready},
};
use crate::{
    chunk::LlmFailure,
    event::{Cause, Data, Target, TurnEnd},
    message::{Message, Source},
    ports::RetryPolicy,
};

/// A turn under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) turn: u64,
    /// The step under way, or the last one; 0 before the first.
    pub(super) step: u64,
    /// A step of this turn hit the output limit (L-44: sticky).
    pub(super) limit_hit: bool,
    pub(super) cancelled: Option<Cause>,
    /// How often hooks have kept the turn from ending.
    pub(super) prolonged: u32,
    /// Messages that this turn claimed.
    pub(super) claimed: Vec<MessageId>,
    /// Retries of the step under way, and the id that they share.
    pub(super) retries: Option<(String, u32)>,
    pub(super) retry: RetryPolicy,
    pub(super) at: At,
}

/// What the turn is waiting for.
#[derive(Debug)]
pub(super) enum At {
    /// Nothing: a move is under way. Never seen between two calls.
    Moving,
    Assembling {
        token: Token,
        messages: Vec<Arc<Message>>,
    },
    /// Hooks say whether the step may begin.
    Deciding {
        token: Token,
        ready: Ready,
    },
    Calling(Attempt),
    /// Before another attempt.
    Resting {
        token: Token,
        attempt: Attempt,
    },
    Planning {
        token: Token,
        calls: Calls,
    },
    Calls(Calls),
    /// Hooks say whether the turn may end, which nothing else keeps from that.
    Stopping {
        token: Token,
        end: StepEnd,
    },
}

/// What comes after a move.
#[expect(
    clippy::large_enum_variant,
    reason = "lives for one call; boxing would allocate per event"
)]
pub(super) enum Next {
    Wait(Turn),
    /// The turn is over; more input opens another.
    AnotherTurn,
    /// The turn is over and so is the activity, whatever waits (L-33).
    Rest,
}

/// How a step came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepEnd {
    Completed,
    MaxTokens,
    /// Tools ran, and the model has not seen their results yet.
    Continue,
}

impl Turn {
    pub(super) fn stop_everything(&self, out: &mut Vec<Effect>) {
        match &self.at {
            At::Calling(attempt) => out.push(Effect::StopModel(attempt.token)),
            At::Calls(calls) => {
                calls.stop_running(out);
                calls.stop_hooks(out);
            }
            At::Deciding { token, .. } | At::Stopping { token, .. } => {
                out.push(Effect::StopHooks(*token));
            }
            At::Moving | At::Assembling { .. } | At::Resting { .. } | At::Planning { .. } => {}
        }
    }

    /// Takes back what is asked of people, in the sight of peers only: the log cannot be written.
    pub(super) fn withdraw_asks(&self, out: &mut Vec<Effect>) {
        if let At::Calls(calls) = &self.at {
            calls.withdraw_asks(out);
        }
    }

    pub(super) fn error(&self, failure: LlmFailure) -> Live {
        Live::Error { turn: self.turn, step: self.step, failure, messages: self.claimed.clone() }
    }
}

impl Agent {
    pub(super) fn open_turn(&mut self, out: &mut Vec<Effect>, now: u64) -> Next {
        let turn = self.log.last_turn + 1;
        self.log.last_turn = turn;
        self.streamed.clear();
        out.push(Effect::Append(self.log.append(now, &Data::TurnStart { turn })));

        let mut claimed = Vec::new();
        let mut messages = self.claim(out, now, turn, Target::NextStep, usize::MAX, &mut claimed);
        messages.extend(self.claim(out, now, turn, Target::NextTurn, 1, &mut claimed));
        // Here, and not with the first step: there may never be one, and whoever goes on with the log has to know.
        self.describe_once(out, now);
        let turn = Turn {
            turn,
            step: 0,
            limit_hit: false,
            prolonged: 0,
            cancelled: None,
            claimed,
            retries: None,
            retry: RetryPolicy::default(),
            at: At::Moving,
        };
        if messages.is_empty() {
            return self.close_turn(out, now, &turn, &TurnEnd::Completed);
        }
        self.assemble(out, turn, messages)
    }

    fn claim(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: u64,
        target: Target,
        count: usize,
        claimed: &mut Vec<MessageId>,
    ) -> Vec<Arc<Message>> {
        let taken = self.inbox.take(target, count);
        if taken.is_empty() {
            return taken;
        }
        let data = Data::InboxSpliced {
            target,
            start: 0,
            removed_count: Some(taken.len()),
            inserted: &[],
            outcome: None,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.inbox_changed = true;
        let messages: Vec<_> = taken.iter().map(|message| message.id.clone()).collect();
        claimed.extend(messages.iter().cloned());
        self.take_routes(&messages);
        if taken.iter().any(|message| matches!(message.source, Source::User { .. })) {
            self.refill_wakes();
        }
        out.push(Effect::Live(Live::Claimed { turn, messages }));
        taken
    }

    fn assemble(
        &mut self,
        out: &mut Vec<Effect>,
        mut turn: Turn,
        messages: Vec<Arc<Message>>,
    ) -> Next {
        let token = self.token();
        out.push(Effect::Assemble { token, route: self.route.clone() });
        turn.at = At::Assembling { token, messages };
        Next::Wait(turn)
    }

    /// Brings the turn forward by one thing that has happened; anything it does not wait for is late
    /// and changes nothing.
    pub(super) fn advance(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        happened: Happened,
    ) -> Next {
        match (std::mem::replace(&mut turn.at, At::Moving), happened) {
            (At::Assembling { token, messages }, Happened::Assembled(answered, assembly))
                if token == answered =>
            {
                self.assembled(out, now, turn, messages, assembly)
            }
            (At::Deciding { token, ready }, Happened::Hooked(answered, answer))
                if token == answered =>
            {
                self.step_decided(out, now, turn, ready, answer)
            }
            (At::Stopping { token, end }, Happened::Hooked(answered, answer))
                if token == answered =>
            {
                self.stop_decided(out, now, turn, end, answer)
            }
            (At::Calling(attempt), Happened::Chunk(answered, chunk))
                if attempt.token == answered =>
            {
                self.chunk(out, now, turn, attempt, chunk)
            }
            (At::Resting { token, attempt }, Happened::Timer(answered)) if token == answered => {
                self.try_again(out, now, turn, attempt)
            }
            (At::Planning { token, calls }, Happened::Planned(answered, parallel))
                if token == answered =>
            {
                self.planned(out, now, turn, calls, &parallel)
            }
            (At::Planning { token, calls }, Happened::CallsFailed(answered, why))
                if token == answered =>
            {
                self.plan_failed(out, now, turn, calls, why)
            }
            (At::Calls(calls), Happened::CallsFailed(answered, why)) => {
                self.judge_failed(out, now, turn, calls, answered, why)
            }
            (At::Calls(calls), Happened::Hooked(answered, answer)) => {
                self.call_hooked(out, now, turn, calls, answered, answer)
            }
            (At::Calls(calls), Happened::Judged(answered, judgement)) => {
                self.judged(out, now, turn, calls, answered, judgement)
            }
            (At::Calls(calls), Happened::Decided { approval, outcome }) => {
                self.decided(out, now, turn, calls, &approval, outcome)
            }
            (At::Calls(calls), Happened::ToolEnded(answered, outcome)) => {
                self.tool_ended(out, now, turn, calls, answered, outcome)
            }
            (At::Calls(calls), Happened::Timer(answered)) if calls.drains_until(answered) => {
                self.give_up_calls(out, now, turn, calls)
            }
            (at, _) => {
                turn.at = at;
                Next::Wait(turn)
            }
        }
    }

    fn assembled(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        messages: Vec<Arc<Message>>,
        assembly: Assembly,
    ) -> Next {
        let Assembly { served, tools, retry } = assembly;
        turn.retry = retry;
        let served = match served {
            Ok(served) => served,
            Err(failure) => {
                let code = if failure.code == Code::NoAdapter { "NO_ADAPTER" } else { "UNKNOWN" };
                let message = match self.route.provider {
                    Some(_) => failure.message,
                    None => format!(
                        "agent \"{}\" has no provider/model: {}",
                        self.id(),
                        failure.message
                    ),
                };
                let failure = LlmFailure::new(code, message);
                return self.fail_before_step(out, now, turn, messages, failure);
            }
        };
        match self.system_prompt(&served) {
            Ok(system) => {
                self.decide_step(out, now, turn, Ready { messages, served, system, tools })
            }
            Err(why) => {
                let failure = LlmFailure::new("UNKNOWN", why);
                self.fail_before_step(out, now, turn, messages, failure)
            }
        }
    }

    /// What a later step of a turn has claimed and could not begin with goes back to where it waited, and the failure is
    /// not charged to it (L-33). The first step's messages stay claimed: whoever sent them is told that they failed, and
    /// nothing stands between claim and end (S-109, decision 6).
    fn fail_before_step(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        messages: Vec<Arc<Message>>,
        failure: LlmFailure,
    ) -> Next {
        if turn.step > 0 && !messages.is_empty() {
            turn.claimed.retain(|id| messages.iter().all(|message| message.id != *id));
            self.insert(out, now, Target::NextStep, 0, messages);
        }
        self.fail_turn(out, now, &turn, failure)
    }

    /// Puts messages into a list of the inbox, and says so in the log.
    pub(super) fn insert(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        target: Target,
        start: usize,
        inserted: Vec<Arc<Message>>,
    ) {
        let data = Data::InboxSpliced {
            target,
            start,
            removed_count: None,
            inserted: &inserted,
            outcome: None,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.inbox.splice(target, start, 0, inserted);
        self.inbox_changed = true;
    }

    /// After `step/end`: whether the turn goes on (L-31), with the rule of L-35 that results of tools
    /// are always shown to the model.
    pub(super) fn step_ended(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        end: StepEnd,
    ) -> Next {
        self.end_step(out, now, &turn);
        turn.limit_hit |= end == StepEnd::MaxTokens;
        turn.retries = None;
        let ends = end != StepEnd::Continue && self.inbox.list(Target::NextStep).is_empty();
        if ends && self.may_be_prolonged(&turn) {
            return self.ask_to_stop(out, turn, end);
        }
        self.end_or_go_on(out, now, turn, end)
    }

    /// Everybody has been asked who could keep the turn from ending.
    pub(super) fn end_or_go_on(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        end: StepEnd,
    ) -> Next {
        if end != StepEnd::Continue && self.inbox.list(Target::NextStep).is_empty() {
            let end = if turn.limit_hit { TurnEnd::MaxTokens } else { TurnEnd::Completed };
            return self.close_turn(out, now, &turn, &end);
        }
        let most = self.config.steps_per_turn_max;
        if turn.step >= most {
            let text = format!("the turn has taken {most} steps, the most it may take");
            return self.fail_turn(out, now, &turn, LlmFailure::new("STEP_LIMIT", text));
        }
        let mut claimed = std::mem::take(&mut turn.claimed);
        let messages = self.claim(out, now, turn.turn, Target::NextStep, usize::MAX, &mut claimed);
        turn.claimed = claimed;
        self.assemble(out, turn, messages)
    }

    pub(super) fn end_step(&mut self, out: &mut Vec<Effect>, now: u64, turn: &Turn) {
        let Turn { turn, step, .. } = *turn;
        out.push(Effect::Append(self.log.append(now, &Data::StepEnd { turn, step })));
    }

    /// Ends the turn as failed, behind the notice that explains it (L-45).
    pub(super) fn fail_turn(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        failure: LlmFailure,
    ) -> Next {
        out.push(Effect::Live(turn.error(failure.clone())));
        self.close_turn(out, now, turn, &TurnEnd::Error { error: failure })
    }

    pub(super) fn close_turn(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        reason: &TurnEnd,
    ) -> Next {
        let data = Data::TurnEnd { turn: turn.turn, reason };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.last_end = Some(reason.clone());
        // No call of this turn will register a job any more.
        self.early_jobs.clear();
        match reason {
            TurnEnd::Completed | TurnEnd::MaxTokens => Next::AnotherTurn,
            TurnEnd::Aborted { .. }
            | TurnEnd::Blocked
            | TurnEnd::Error { .. }
            | TurnEnd::Interrupted => Next::Rest,
        }
    }

    /// Takes the turn apart where it stands (L-47 to L-49). Only running tools make it wait.
    pub(super) fn abort_turn(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        cause: Cause,
        drain_ms: u64,
    ) -> Next {
        let first = turn.cancelled.is_none();
        turn.cancelled.get_or_insert(cause);
        turn.stop_everything(out);
        match std::mem::replace(&mut turn.at, At::Moving) {
            // Between steps: the last one has its end already.
            At::Moving | At::Assembling { .. } | At::Deciding { .. } | At::Stopping { .. } => {
                self.close_aborted(out, now, &turn)
            }
            At::Calling(attempt) => {
                self.commit_partial(out, now, &turn, attempt);
                self.end_step(out, now, &turn);
                self.close_aborted(out, now, &turn)
            }
            At::Resting { .. } => {
                self.end_step(out, now, &turn);
                self.close_aborted(out, now, &turn)
            }
            At::Planning { calls, .. } => self.pump(out, now, turn, calls),
            At::Calls(mut calls) => {
                self.abort_undecided(out, now, &mut calls);
                // A second cancel may only shorten the wait.
                let token = self.token();
                calls.drain(out, token, drain_ms, first);
                self.pump(out, now, turn, calls)
            }
        }
    }

    pub(super) fn close_aborted(&mut self, out: &mut Vec<Effect>, now: u64, turn: &Turn) -> Next {
        let reason = turn.cancelled.clone().unwrap_or(Cause::User);
        self.close_turn(out, now, turn, &TurnEnd::Aborted { reason })
    }
}
