//! Where hooks have their say in a turn, and what becomes of their answers (L-31, L-55, L-58). Without hooks for a point
//! nothing is asked there, and the turn goes on at once.

use std::sync::Arc;

use super::{
    Agent, Effect, Token,
    calls::{Call, Calls, State, aborted},
    step::Ready,
    turn::{At, Next, StepEnd, Turn},
};
use crate::{
    block::Block,
    event::{Data, Target, TurnEnd},
    hooks::{
        CallVerdict, Context, HookAbout, HookAnswer, HookAsk, HookReport, HookedCall, StepVerdict,
        Verdict,
    },
    message::{Message, Source},
    permissions::{Access, Outcome, rules::refusal},
    ports::{Judgement, ToolOutcome, Wanted},
};

/// What a call is told whose hooks have answered something else than they were asked.
const NO_ANSWER: &str = "a hook gave no answer to what it was asked";

impl Agent {
    fn hook_ask(&self, turn: &Turn, step: u64, about: HookAbout) -> HookAsk {
        HookAsk {
            session: self.id().clone(),
            cwd: self.cwd.clone(),
            root: self.root.clone(),
            mode: self.access().mode,
            turn: turn.turn,
            step,
            about,
        }
    }

    fn ask_hooks(&mut self, out: &mut Vec<Effect>, ask: HookAsk) -> Token {
        let token = self.token();
        out.push(Effect::AskHooks { token, ask });
        token
    }

    fn log_hooks(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        point: &str,
        reports: &[HookReport],
    ) {
        for report in reports {
            let data = Data::HookResult { turn: turn.turn, point, report };
            out.push(Effect::Append(self.log.append(now, &data)));
        }
    }

    /// The pre-step decision, which comes before `step/start` (L-34).
    pub(super) fn decide_step(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        ready: Ready,
    ) -> Next {
        if !self.config.hooks.pre_step {
            return self.begin_step(out, now, turn, ready, Vec::new());
        }
        let about = HookAbout::PreStep { messages: ready.messages.clone() };
        let ask = self.hook_ask(&turn, turn.step + 1, about);
        let token = self.ask_hooks(out, ask);
        turn.at = At::Deciding { token, ready };
        Next::Wait(turn)
    }

    pub(super) fn step_decided(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        ready: Ready,
        HookAnswer { verdict, reports }: HookAnswer,
    ) -> Next {
        self.log_hooks(out, now, &turn, "pre-step", &reports);
        match verdict {
            Verdict::Step(StepVerdict::Proceed { contexts }) => {
                self.begin_step(out, now, turn, ready, contexts)
            }
            Verdict::Step(StepVerdict::Reject)
            | Verdict::Call(_)
            | Verdict::Outcome(_)
            | Verdict::Stop(_) => self.close_turn(out, now, &turn, &TurnEnd::Blocked),
        }
    }

    /// Contexts that enter with a step that begins.
    pub(super) fn enter_contexts(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        contexts: Vec<Context>,
    ) {
        for context in contexts {
            let message = Arc::new(self.context_message(context));
            let data = Data::UserMessage(&message);
            let event = self.log.append_surface(now, &data, Arc::clone(&message), None);
            out.push(Effect::Append(event));
        }
    }

    /// Contexts that wait for the next step (L-58). They are the host's own, so no limit of the inbox refuses them; what
    /// makes them is bounded.
    pub(super) fn queue_contexts(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        contexts: Vec<Context>,
    ) {
        if contexts.is_empty() {
            return;
        }
        let messages = contexts.into_iter().map(|context| Arc::new(self.context_message(context)));
        let inserted: Vec<_> = messages.collect();
        let start = self.inbox.list(Target::NextStep).len();
        self.insert(out, now, Target::NextStep, start, inserted);
    }

    fn context_message(&mut self, Context { from, text }: Context) -> Message {
        self.told(vec![Block::text(text)], Source::plugin(&from))
    }

    /// A call was judged and may begin, at least if somebody allows it: hooks may narrow that.
    pub(super) fn hook_call(
        &mut self,
        out: &mut Vec<Effect>,
        turn: &Turn,
        call: &mut Call,
        (seq, access): (u64, Access),
        judgement: Judgement,
    ) {
        let asks = matches!(judgement, Judgement::Ask(_));
        let about = HookAbout::PreExecute { call: call.hooked(), asks };
        let ask = self.hook_ask(turn, turn.step, about);
        let token = self.ask_hooks(out, ask);
        call.state = State::Hooking { token, seq, access, judgement };
    }

    fn call_decided(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        call: &mut Call,
        (seq, access): (u64, Access),
        judgement: Judgement,
        verdict: Verdict,
    ) {
        let narrowed = match verdict {
            Verdict::Call(CallVerdict::Allow) => judgement,
            Verdict::Call(CallVerdict::Deny { reason }) => {
                Judgement::Refuse(ToolOutcome::error(&reason, None))
            }
            Verdict::Call(CallVerdict::Ask { reason }) => {
                self.with_ask(call, access, judgement, reason)
            }
            Verdict::Step(_) | Verdict::Outcome(_) | Verdict::Stop(_) => {
                Judgement::Refuse(ToolOutcome::error(NO_ANSWER, None))
            }
        };
        self.begin_call(out, now, call, (seq, access), narrowed);
    }

    /// A hook wants a person to decide. Where somebody is asked as it is, there is one ask with both reasons.
    fn with_ask(
        &self,
        call: &Call,
        access: Access,
        judgement: Judgement,
        reason: Option<String>,
    ) -> Judgement {
        let refused =
            |outcome| ToolOutcome::error(&refusal(&call.name, outcome).unwrap_or_default(), None);
        match judgement {
            Judgement::Refuse(outcome) => Judgement::Refuse(outcome),
            Judgement::Ask(mut wanted) => {
                let reasons = wanted.reason.take().into_iter().chain(reason);
                let reasons: Vec<_> = reasons.collect();
                wanted.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
                Judgement::Ask(wanted)
            }
            // L-62: there is nobody who could decide.
            Judgement::Run if !self.config.permissions.approvals => {
                let text = reason.unwrap_or_else(|| {
                    format!("tool \"{}\" requires approval (not yet supported)", call.name)
                });
                Judgement::Refuse(ToolOutcome::error(&text, None))
            }
            Judgement::Run => Judgement::Ask(Box::new(Wanted {
                reason,
                granted: access,
                rejected: refused(Outcome::Rejected),
                cancelled: refused(Outcome::Cancelled),
                unavailable: refused(Outcome::Unavailable),
                begun: false,
            })),
        }
    }

    /// The result that is due next is shown to hooks before anybody else sees it.
    pub(super) fn review(
        &mut self,
        out: &mut Vec<Effect>,
        turn: &Turn,
        call: &mut Call,
        seq: u64,
        outcome: ToolOutcome,
    ) {
        let about =
            HookAbout::PostExecute { call: call.hooked(), outcome: Box::new(outcome.clone()) };
        let ask = self.hook_ask(turn, turn.step, about);
        let token = self.ask_hooks(out, ask);
        call.state = State::Reviewing { token, seq, outcome };
    }

    /// Hooks have answered about a call, before or after it.
    pub(super) fn call_hooked(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        mut calls: Calls,
        answered: Token,
        HookAnswer { verdict, reports }: HookAnswer,
    ) -> Next {
        let Some(call) = calls.asking_hooks(answered) else {
            return self.pump(out, now, turn, calls);
        };
        match std::mem::replace(&mut call.state, State::Waiting) {
            State::Hooking { seq, access, judgement, .. } => {
                self.log_hooks(out, now, &turn, "pre-execute", &reports);
                self.call_decided(out, now, call, (seq, access), judgement, verdict);
            }
            State::Reviewing { seq, outcome, .. } => {
                self.log_hooks(out, now, &turn, "post-execute", &reports);
                let outcome = match verdict {
                    Verdict::Outcome(reviewed) => *reviewed,
                    Verdict::Step(_) | Verdict::Call(_) | Verdict::Stop(_) => {
                        let content = vec![Block::text(format!("Error: {NO_ANSWER}"))];
                        outcome.replaced(content, None)
                    }
                };
                call.state = State::Ended { seq, outcome };
            }
            other => call.state = other,
        }
        self.pump(out, now, turn, calls)
    }

    /// Those who watch are told of a result that stands in the log.
    pub(super) fn show_result(
        &self,
        out: &mut Vec<Effect>,
        turn: &Turn,
        call: &Call,
        outcome: ToolOutcome,
    ) {
        let about = HookAbout::Result { call: call.hooked(), outcome: Box::new(outcome) };
        out.push(Effect::Observe(self.hook_ask(turn, turn.step, about)));
    }

    /// Whether somebody is asked before the turn ends by itself. Each turn is prolonged so often and no more: a hook that
    /// always finds something to do would keep it for ever.
    pub(super) fn may_be_prolonged(&self, turn: &Turn) -> bool {
        self.config.hooks.turn_stopping
            && turn.prolonged < self.config.prolonged_max
            && turn.step < self.config.steps_per_turn_max
    }

    pub(super) fn ask_to_stop(
        &mut self,
        out: &mut Vec<Effect>,
        mut turn: Turn,
        end: StepEnd,
    ) -> Next {
        let (limit_hit, prolonged) = (turn.limit_hit, turn.prolonged);
        let ask = self.hook_ask(&turn, turn.step, HookAbout::TurnStopping { limit_hit, prolonged });
        let token = self.ask_hooks(out, ask);
        turn.at = At::Stopping { token, end };
        Next::Wait(turn)
    }

    pub(super) fn stop_decided(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        end: StepEnd,
        HookAnswer { verdict, reports }: HookAnswer,
    ) -> Next {
        self.log_hooks(out, now, &turn, "turn-stopping", &reports);
        if let Verdict::Stop(contexts) = verdict
            && !contexts.is_empty()
        {
            turn.prolonged += 1;
            self.queue_contexts(out, now, contexts);
        }
        self.end_or_go_on(out, now, turn, end)
    }
}

impl Calls {
    fn asking_hooks(&mut self, answered: Token) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.hook() == Some(answered))
    }

    pub(super) fn stop_hooks(&self, out: &mut Vec<Effect>) {
        out.extend(self.calls.iter().filter_map(Call::hook).map(Effect::StopHooks));
    }
}

impl Call {
    /// What hooks are asked about it at the moment.
    fn hook(&self) -> Option<Token> {
        match self.state {
            State::Hooking { token, .. } | State::Reviewing { token, .. } => Some(token),
            State::Waiting
            | State::Judging { .. }
            | State::Unsettled { .. }
            | State::Asking { .. }
            | State::Running { .. }
            | State::Ran { .. }
            | State::Ended { .. }
            | State::Committed => None,
        }
    }

    fn hooked(&self) -> HookedCall {
        HookedCall {
            id: self.id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
        }
    }
}

/// A success that nobody has reviewed when its turn is cancelled is shown to nobody; a failure keeps its text (L-49).
pub(super) fn unreviewed(outcome: ToolOutcome) -> ToolOutcome {
    match outcome.is_error {
        true => outcome,
        false => ToolOutcome { job: outcome.job, ..aborted() },
    }
}
