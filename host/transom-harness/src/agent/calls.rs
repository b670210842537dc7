//! The tool calls of one assistant message: started in model order, overlapped where they may be,
//! their results committed in model order (L-49, L-52, L-57).

use std::{mem, sync::Arc};

use super::{
    Agent, Effect, Live, Token,
    hooks::unreviewed,
    turn::{At, Next, StepEnd, Turn},
};
use crate::{
    block::Block,
    chunk::LlmFailure,
    event::Data,
    message::{Message, Role, Source},
    permissions::{Access, ApprovalPolicy, Outcome},
    ports::{Judgement, ToolCall, ToolOutcome, Wanted},
};

#[derive(Debug)]
pub(super) struct Calls {
    pub(super) calls: Vec<Call>,
    /// Set once the turn was cancelled: when to stop waiting.
    drain: Option<Token>,
    concluded: bool,
    /// Whoever schedules them has failed: nothing starts any more, and the turn ends with this (L-58).
    pub(super) failed: Option<LlmFailure>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    parallel: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Waiting,
    /// Whether it may begin is being found out. `seq` is, here and below, that of its `tool/call`.
    Judging {
        token: Token,
        seq: u64,
        /// What it is judged with, and what it runs with (P-3).
        access: Access,
    },
    /// Whether it may begin could not be found out. It has no result, unless a cancel gives it one.
    Unsettled {
        seq: u64,
    },
    /// It may begin, at least if somebody allows it; hooks may narrow that.
    Hooking {
        token: Token,
        seq: u64,
        access: Access,
        judgement: Judgement,
    },
    /// Somebody decides.
    Asking {
        seq: u64,
        approval: String,
        wanted: Box<Wanted>,
    },
    Running {
        token: Token,
        seq: u64,
    },
    /// Its body has ended, and hooks are to see the outcome once it is due.
    Ran {
        seq: u64,
        outcome: ToolOutcome,
    },
    /// Hooks look at the outcome.
    Reviewing {
        token: Token,
        seq: u64,
        outcome: ToolOutcome,
    },
    Ended {
        seq: u64,
        outcome: ToolOutcome,
    },
    Committed,
}

impl Calls {
    pub(super) fn of(message: &Message) -> Calls {
        let calls = message.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, name, arguments } => Some(Call {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
                parallel: false,
                state: State::Waiting,
            }),
            Block::Text { .. }
            | Block::Reasoning { .. }
            | Block::ToolResult { .. }
            | Block::Raw(_) => None,
        });
        Calls { calls: calls.collect(), drain: None, concluded: false, failed: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn names_and_arguments(&self) -> Vec<(String, String)> {
        self.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect()
    }

    pub(super) fn drains_until(&self, token: Token) -> bool {
        self.drain == Some(token)
    }

    pub(super) fn stop_running(&self, out: &mut Vec<Effect>) {
        out.extend(self.running().map(Effect::StopTool));
    }

    /// Sets the end of the wait for running calls; `token` names the timer.
    pub(super) fn drain(
        &mut self,
        out: &mut Vec<Effect>,
        token: Token,
        after_ms: u64,
        first: bool,
    ) {
        if self.running().next().is_some() {
            out.push(Effect::Timer { token, after_ms });
            if first || self.drain.is_some() {
                self.drain = Some(token);
            }
        }
    }

    pub(super) fn withdraw_asks(&self, out: &mut Vec<Effect>) {
        out.extend(self.calls.iter().filter_map(|call| match &call.state {
            State::Asking { approval, .. } => Some(Effect::Live(Live::Decided {
                approval: approval.clone(),
                outcome: Outcome::Cancelled,
            })),
            _ => None,
        }));
    }

    fn running(&self) -> impl Iterator<Item = Token> {
        self.calls.iter().filter_map(|call| match call.state {
            State::Running { token, .. } => Some(token),
            State::Waiting
            | State::Judging { .. }
            | State::Unsettled { .. }
            | State::Hooking { .. }
            | State::Asking { .. }
            | State::Ran { .. }
            | State::Reviewing { .. }
            | State::Ended { .. }
            | State::Committed => None,
        })
    }

    /// The first waiting call, if it may start beside what is running. Policies run one after the other, only bodies
    /// overlap (L-57).
    fn startable(&self, parallel_max: usize) -> Option<usize> {
        let undecided = |call: &Call| {
            matches!(
                call.state,
                State::Judging { .. }
                    | State::Hooking { .. }
                    | State::Asking { .. }
                    | State::Reviewing { .. }
            )
        };
        if self.calls.iter().any(undecided) {
            return None;
        }
        let at = self.calls.iter().position(|call| matches!(call.state, State::Waiting))?;
        let call = self.calls.get(at)?;
        let running: Vec<_> =
            self.calls.iter().filter(|call| matches!(call.state, State::Running { .. })).collect();
        let beside = if call.parallel {
            running.len() < parallel_max && running.iter().all(|running| running.parallel)
        } else {
            running.is_empty()
        };
        beside.then_some(at)
    }
}

impl Agent {
    pub(super) fn planned(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        parallel: &[bool],
    ) -> Next {
        let (planned, asked) = (parallel.len(), calls.calls.len());
        if planned != asked {
            let why = format!("{planned} of {asked} tool calls were planned");
            return self.plan_failed(out, now, turn, calls, why);
        }
        for (call, parallel) in calls.calls.iter_mut().zip(parallel) {
            call.parallel = *parallel;
        }
        self.pump(out, now, turn, calls)
    }

    pub(super) fn tool_ended(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        ended: Token,
        outcome: ToolOutcome,
    ) -> Next {
        let call = calls
            .calls
            .iter_mut()
            .find(|call| matches!(call.state, State::Running { token, .. } if token == ended));
        if let Some(call) = call
            && let State::Running { seq, .. } = call.state
        {
            // A success that comes after the abort is not one: nobody may act on it (L-49).
            let outcome = match turn.cancelled {
                // A job that it has started runs on (P-69).
                Some(_) if !outcome.is_error => ToolOutcome { job: outcome.job, ..aborted() },
                Some(_) | None => outcome,
            };
            call.state = match self.config.hooks.post_execute {
                true => State::Ran { seq, outcome },
                false => State::Ended { seq, outcome },
            };
        }
        self.pump(out, now, turn, calls)
    }

    /// The wait for cancelled calls is over: those that still run are recorded as aborted (L-52).
    pub(super) fn give_up_calls(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
    ) -> Next {
        for call in &mut calls.calls {
            if let State::Running { seq, .. } = call.state {
                call.state = State::Ended { seq, outcome: aborted() };
            }
        }
        self.pump(out, now, turn, calls)
    }

    /// Starts what may start, commits what may be committed, and ends the step when all is done.
    pub(super) fn pump(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        mut calls: Calls,
    ) -> Next {
        self.commit_ended(out, now, &turn, &mut calls);
        if let (None, Some(failure)) = (&turn.cancelled, &calls.failed) {
            if calls.at_rest() {
                let failure = failure.clone();
                self.end_step(out, now, &turn);
                return self.fail_turn(out, now, &turn, failure);
            }
        } else if turn.cancelled.is_none() {
            while let Some(at) = calls.startable(self.config.parallel_calls_max.max(1)) {
                self.start_call(out, now, &turn, &mut calls, at);
            }
        } else if calls.running().next().is_none() {
            self.abort_waiting(out, now, &turn, &mut calls);
            self.end_step(out, now, &turn);
            return self.close_aborted(out, now, &turn);
        }
        if calls.calls.iter().all(|call| matches!(call.state, State::Committed)) {
            let end = if calls.concluded { StepEnd::Completed } else { StepEnd::Continue };
            return self.step_ended(out, now, turn, end);
        }
        turn.at = At::Calls(calls);
        Next::Wait(turn)
    }

    fn start_call(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        calls: &mut Calls,
        at: usize,
    ) {
        let token = self.token();
        let Some(call) = calls.calls.get_mut(at) else { return };
        let seq = self.log_call(out, now, turn, call);
        let access = self.access();
        call.state = State::Judging { token, seq, access };
        let call = self.tool_call(call, access);
        out.push(Effect::Judge { token, call });
    }

    fn tool_call(&self, call: &Call, access: Access) -> ToolCall {
        ToolCall {
            session: self.id().clone(),
            cwd: self.cwd.clone(),
            root: self.root.clone(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            access,
            jobs: self.log.jobs().into(),
        }
    }

    /// It is known whether a call may begin (P-30).
    pub(super) fn judged(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        answered: Token,
        judgement: Judgement,
    ) -> Next {
        let judging = |call: &&mut Call| matches!(call.state, State::Judging { token, .. } if token == answered);
        if let Some(call) = calls.calls.iter_mut().find(judging)
            && let State::Judging { seq, access, .. } = call.state
        {
            match judgement {
                Judgement::Run | Judgement::Ask(_) if self.config.hooks.pre_execute => {
                    self.hook_call(out, &turn, call, (seq, access), judgement);
                }
                judgement => self.begin_call(out, now, call, (seq, access), judgement),
            }
        }
        self.pump(out, now, turn, calls)
    }

    /// Everybody but a person has decided about a call.
    pub(super) fn begin_call(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        call: &mut Call,
        (seq, access): (u64, Access),
        judgement: Judgement,
    ) {
        match judgement {
            Judgement::Run => self.run_call(out, call, seq, access),
            Judgement::Refuse(outcome) => call.state = State::Ended { seq, outcome },
            Judgement::Ask(wanted) => self.ask_about(out, now, call, seq, wanted),
        }
    }

    fn run_call(&mut self, out: &mut Vec<Effect>, call: &mut Call, seq: u64, access: Access) {
        let token = self.token();
        call.state = State::Running { token, seq };
        out.push(Effect::RunTool { token, call: self.tool_call(call, access) });
    }

    /// Puts an ask into the log. Under `never` nobody is consulted (P-14).
    fn ask_about(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        call: &mut Call,
        seq: u64,
        wanted: Box<Wanted>,
    ) {
        let approval = self.chance.uuid();
        let data = Data::ApprovalAsked {
            id: &approval,
            tool_name: &call.name,
            call_id: &call.id,
            reason: wanted.reason.as_deref(),
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        if self.access().policy == ApprovalPolicy::Never {
            self.log_decision(out, now, &approval, Outcome::Rejected);
            call.state = State::Ended { seq, outcome: wanted.rejected };
            return;
        }
        out.push(Effect::Ask(Approval {
            id: approval.clone(),
            tool_name: call.name.clone(),
            call_id: call.id.clone(),
            reason: wanted.reason.clone(),
            arguments: call.arguments.clone(),
        }));
        call.state = State::Asking { seq, approval, wanted };
    }

    /// Somebody has decided. A late word, or one about something else, changes nothing.
    pub(super) fn decided(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        decided: &str,
        outcome: Outcome,
    ) -> Next {
        let asking = |call: &&mut Call| matches!(&call.state, State::Asking { approval, .. } if approval == decided);
        if let Some(call) = calls.calls.iter_mut().find(asking)
            && let State::Asking { seq, approval, wanted } =
                mem::replace(&mut call.state, State::Waiting)
        {
            self.log_decision(out, now, &approval, outcome);
            let Wanted { granted, rejected, cancelled, unavailable, .. } = *wanted;
            match outcome {
                Outcome::AllowedOnce => self.run_call(out, call, seq, granted),
                Outcome::Rejected => call.state = State::Ended { seq, outcome: rejected },
                Outcome::Cancelled => call.state = State::Ended { seq, outcome: cancelled },
                Outcome::Unavailable => call.state = State::Ended { seq, outcome: unavailable },
            }
        }
        self.pump(out, now, turn, calls)
    }

    fn log_decision(&mut self, out: &mut Vec<Effect>, now: u64, approval: &str, outcome: Outcome) {
        let data = Data::ApprovalDecided { id: approval, outcome };
        out.push(Effect::Append(self.log.append(now, &data)));
        out.push(Effect::Live(Live::Decided { approval: approval.to_owned(), outcome }));
    }

    /// Calls whose beginning was still open when the turn was cancelled will not begin (L-62, P-19).
    pub(super) fn abort_undecided(&mut self, out: &mut Vec<Effect>, now: u64, calls: &mut Calls) {
        for call in &mut calls.calls {
            match mem::replace(&mut call.state, State::Waiting) {
                State::Judging { seq, .. }
                | State::Unsettled { seq }
                | State::Hooking { seq, .. } => {
                    call.state = State::Ended { seq, outcome: undispatched() };
                }
                State::Ran { seq, outcome } | State::Reviewing { seq, outcome, .. } => {
                    call.state = State::Ended { seq, outcome: unreviewed(outcome) };
                }
                State::Asking { seq, approval, wanted } => {
                    self.log_decision(out, now, &approval, Outcome::Cancelled);
                    let outcome = if wanted.begun { wanted.cancelled } else { undispatched() };
                    call.state = State::Ended { seq, outcome };
                }
                other => call.state = other,
            }
        }
    }

    fn log_call(&mut self, out: &mut Vec<Effect>, now: u64, turn: &Turn, call: &Call) -> u64 {
        let data = Data::ToolCall {
            turn: turn.turn,
            step: turn.step,
            call_id: &call.id,
            name: &call.name,
            arguments: &call.arguments,
        };
        let event = self.log.append(now, &data);
        let seq = event.seq;
        out.push(Effect::Append(event));
        seq
    }

    /// Commits results from the front, as far as they are there.
    fn commit_ended(&mut self, out: &mut Vec<Effect>, now: u64, turn: &Turn, calls: &mut Calls) {
        for call in &mut calls.calls {
            match mem::replace(&mut call.state, State::Committed) {
                State::Committed => {}
                State::Ended { seq, outcome } => {
                    calls.concluded |= outcome.concludes;
                    self.commit_result(out, now, turn, call, seq, outcome);
                }
                State::Ran { seq, outcome } if turn.cancelled.is_some() => {
                    self.commit_result(out, now, turn, call, seq, unreviewed(outcome));
                }
                State::Ran { seq, outcome } => {
                    self.review(out, turn, call, seq, outcome);
                    break;
                }
                earlier @ (State::Waiting
                | State::Judging { .. }
                | State::Unsettled { .. }
                | State::Hooking { .. }
                | State::Asking { .. }
                | State::Running { .. }
                | State::Reviewing { .. }) => {
                    call.state = earlier;
                    break;
                }
            }
        }
    }

    /// Calls that never started are logged as such, so that every call has one result (L-49).
    fn abort_waiting(&mut self, out: &mut Vec<Effect>, now: u64, turn: &Turn, calls: &mut Calls) {
        for call in &mut calls.calls {
            if matches!(call.state, State::Waiting) {
                let seq = self.log_call(out, now, turn, call);
                call.state = State::Committed;
                self.commit_result(out, now, turn, call, seq, undispatched());
            }
        }
    }

    fn commit_result(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        call: &Call,
        call_seq: u64,
        outcome: ToolOutcome,
    ) {
        let call_id = call.id.as_str();
        let seen = self.config.hooks.result.then(|| outcome.clone());
        let ToolOutcome {
            content,
            is_error,
            error,
            value: _,
            contexts,
            meta,
            concludes: _,
            job,
            todos,
        } = outcome;
        if let Some(todos) = todos {
            out.push(Effect::Append(self.log.append(now, &Data::TodoWrite { todos: &todos })));
        }
        if let Some(job) = job {
            self.register_job(out, now, call_id, job);
        }
        let block = Block::ToolResult { tool_call_id: call_id.to_owned(), content, is_error };
        let message = Arc::new(Message {
            id: self.chance.message_id(),
            role: Role::User,
            content: vec![block],
            source: Source::Tool { call_id: call_id.to_owned() },
        });
        let data = Data::ToolResult {
            turn: turn.turn,
            step: turn.step,
            message: &message,
            error: error.as_ref(),
            meta: meta.as_ref(),
        };
        let event = self.log.append_surface(now, &data, Arc::clone(&message), Some(&[call_seq]));
        out.push(Effect::Append(event));
        if let Some(seen) = seen {
            self.show_result(out, turn, call, seen);
        }
        if turn.cancelled.is_none() {
            self.queue_contexts(out, now, contexts);
        }
        self.settle_early_jobs(out, now);
    }
}

/// Asks somebody to decide about a call (P-15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// That of its `approval/asked`.
    pub id: String,
    /// The tool that was called.
    pub tool_name: String,
    /// The call.
    pub call_id: String,
    /// Why somebody has to decide.
    pub reason: Option<String>,
    /// Raw text, as the model wrote it.
    pub arguments: String,
}

fn undispatched() -> ToolOutcome {
    let error = Some(("AbortError", "ABORTED_BEFORE_DISPATCH"));
    ToolOutcome::error("tool call aborted before dispatch", error)
}

pub(super) fn aborted() -> ToolOutcome {
    ToolOutcome::error("tool call aborted", Some(("AbortError", "ABORTED")))
}
