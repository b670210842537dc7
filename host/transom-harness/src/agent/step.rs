//! One step: what the model is asked, what it streams, what is made of it (L-36 to L-43).

use std::sync::Arc;

use transom_frame::MessageId;

use super::{
    Agent, Effect, Partial, Token,
    calls::Calls,
    turn::{At, Next, StepEnd, Turn},
    unanswered::answered,
};
use crate::{
    block::Block,
    chunk::{Assembler, Chunk, Finish, LlmFailure},
    event::{AdapterDefaults, Data, HeaderReason, RequestConfig, RequestHeader, TitleSource},
    hooks::Context,
    image::without_images,
    message::{Message, Role, Source},
    ports::{ModelRequest, Served, ToolSpec},
    retry::{self, Again},
    system_prompt::{self, Variables},
    title,
};

/// What a step begins with, once it may.
#[derive(Debug)]
pub(super) struct Ready {
    /// Claimed; in the order in which they enter.
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) served: Served,
    pub(super) system: Option<Arc<str>>,
    pub(super) tools: Arc<[ToolSpec]>,
}

/// One request to a model and what has come of it so far.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) token: Token,
    served: Served,
    system: Option<Arc<str>>,
    tools: Arc<[ToolSpec]>,
    assembler: Assembler,
    /// The chunks of this attempt (S-82).
    chunks: Vec<u64>,
}

impl Agent {
    pub(super) fn system_prompt(&self, served: &Served) -> Result<Option<Arc<str>>, String> {
        let variables = Variables {
            provider: &served.provider,
            model: &served.model,
            cwd: self.cwd.as_deref(),
        };
        let sections = self.prompt_sections();
        let prompt = system_prompt::assemble(&sections, variables)?;
        Ok((!prompt.is_empty()).then(|| prompt.into()))
    }

    pub(super) fn begin_step(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        Ready { messages, served, system, tools }: Ready,
        contexts: Vec<Context>,
    ) -> Next {
        turn.step += 1;
        let Turn { turn: number, step, .. } = turn;
        out.push(Effect::Append(self.log.append(now, &Data::StepStart { turn: number, step })));
        let mut said = Vec::new();
        for message in messages {
            let data = Data::UserMessage(&message);
            let event = self.log.append_surface(now, &data, Arc::clone(&message), None);
            said.push((event.seq, message));
            out.push(Effect::Append(event));
        }
        self.tell_context(out, now);
        self.enter_contexts(out, now, contexts);
        // Behind all messages (L-34), made of the first that a person wrote (L-18).
        for (seq, message) in &said {
            self.title(out, now, message, *seq);
        }
        self.record_request(out, now, &served, system.as_ref(), &tools);
        let token = self.token();
        let attempt = Attempt {
            token,
            served,
            system,
            tools,
            assembler: Assembler::default(),
            chunks: Vec::new(),
        };
        self.call_model(out, turn, attempt)
    }

    /// The first words that a person says become the title (L-18).
    fn title(&mut self, out: &mut Vec<Effect>, now: u64, message: &Message, seq: u64) {
        if self.log.titled || !matches!(message.source, Source::User { .. }) {
            return;
        }
        let text = message.content.iter().map(|block| match block.typed().as_ref() {
            Block::Text { text } => text.clone(),
            _ => String::new(),
        });
        let Some(title) = title::fallback(&text.collect::<Vec<_>>().join(" ")) else { return };
        self.log.titled = true;
        let data = Data::SessionTitle {
            title: &title,
            message_seqs: &[seq],
            source: TitleSource::Fallback,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
    }

    /// `request/header` and `request/context`, each only when it says something new (L-37).
    fn record_request(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        served: &Served,
        system: Option<&Arc<str>>,
        tools: &Arc<[ToolSpec]>,
    ) {
        let defaults = AdapterDefaults {
            reasoning_effort: served.reasoning_effort_is_default
                && served.reasoning_effort.is_some(),
            max_tokens: served.max_tokens_is_default && served.max_tokens.is_some(),
        };
        let header = RequestHeader {
            config: RequestConfig {
                provider: served.provider.clone(),
                model: served.model.clone(),
                max_tokens: served.max_tokens,
                reasoning_effort: served.reasoning_effort.clone(),
            },
            adapter_defaults: (defaults.reasoning_effort || defaults.max_tokens)
                .then_some(defaults),
            system: system.cloned(),
            tools: (!tools.is_empty()).then(|| Arc::clone(tools)),
        };
        if self.log.request_header.as_ref() != Some(&header) {
            let reason = match (self.log.has_header, self.log.resumed) {
                (false, _) => HeaderReason::Initial,
                (true, true) => HeaderReason::Resume,
                (true, false) => HeaderReason::Change,
            };
            let data = Data::RequestHeader { header: &header, reason };
            out.push(Effect::Append(self.log.append(now, &data)));
            self.log.request_header = Some(header);
            self.log.has_header = true;
            self.log.resumed = false;
        }
        let context = (served.provider.clone(), served.model.clone(), served.context_window);
        if self.log.request_context.as_ref() != Some(&context) {
            let (provider, model, context_window) = &context;
            let data = Data::RequestContext { provider, model, context_window: *context_window };
            out.push(Effect::Append(self.log.append(now, &data)));
            self.log.request_context = Some(context);
        }
    }

    fn call_model(&mut self, out: &mut Vec<Effect>, mut turn: Turn, attempt: Attempt) -> Next {
        let request = ModelRequest {
            session: self.id().clone(),
            served: attempt.served.clone(),
            system: attempt.system.clone(),
            messages: answered(self.shown(&attempt.served, &turn.claimed)),
            tools: Arc::clone(&attempt.tools),
        };
        out.push(Effect::CallModel { token: attempt.token, request });
        turn.at = At::Calling(attempt);
        Next::Wait(turn)
    }

    /// The conversation as this model can be shown it. With one that takes no images, what the turn itself has claimed
    /// stays as it is, so that the provider says what it thinks of it (L-90). Earlier images are left out: they would
    /// fail every turn from then on.
    fn shown(&self, served: &Served, claimed: &[MessageId]) -> Vec<Arc<Message>> {
        let mut messages = self.log.history();
        if !served.images {
            for message in messages.iter_mut().filter(|message| !claimed.contains(&message.id)) {
                *message = without_images(message);
            }
        }
        messages
    }

    pub(super) fn chunk(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        mut attempt: Attempt,
        chunk: Chunk,
    ) -> Next {
        let data = Data::AssistantChunk { turn: turn.turn, step: turn.step, chunk: &chunk };
        let event = self.log.append(now, &data);
        attempt.chunks.push(event.seq);
        self.hear(&chunk);
        out.push(Effect::Append(event));
        attempt.assembler.push(&chunk);
        let Chunk::Finish { reason } = chunk else {
            turn.at = At::Calling(attempt);
            return Next::Wait(turn);
        };
        match reason {
            Finish::Stop | Finish::ToolCalls | Finish::MaxTokens => {
                self.commit_answer(out, now, turn, attempt, &reason)
            }
            Finish::Error { failure } | Finish::Aborted { failure } => {
                self.attempt_failed(out, now, turn, attempt, failure)
            }
        }
    }

    fn commit_answer(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        attempt: Attempt,
        reason: &Finish,
    ) -> Next {
        let (content, usage) = attempt.assembler.finish(reason);
        let calls = content.iter().filter(|block| matches!(block, Block::ToolCall { .. })).count();
        let most = self.config.calls_per_message_max;
        if calls > most {
            self.end_step(out, now, &turn);
            let text =
                format!("the model asked for {calls} tool calls in one answer; {most} are allowed");
            return self.fail_turn(out, now, &turn, LlmFailure::new("MALFORMED_RESPONSE", text));
        }
        let source = Source::Model {
            provider: attempt.served.provider,
            model: attempt.served.model,
            partial: false,
        };
        let message = Arc::new(Message {
            id: self.chance.message_id(),
            role: Role::Assistant,
            content,
            source,
        });
        let data =
            Data::AssistantMessage { turn: turn.turn, step: turn.step, message: &message, usage };
        let event =
            self.log.append_surface(now, &data, Arc::clone(&message), Some(&attempt.chunks));
        out.push(Effect::Append(event));

        if matches!(reason, Finish::MaxTokens) {
            return self.step_ended(out, now, turn, StepEnd::MaxTokens);
        }
        // The blocks decide, not the finish kind (L-39).
        let calls = Calls::of(&message);
        if calls.is_empty() {
            return self.step_ended(out, now, turn, StepEnd::Completed);
        }
        let token = self.token();
        out.push(Effect::PlanCalls { token, calls: calls.names_and_arguments() });
        turn.at = At::Planning { token, calls };
        Next::Wait(turn)
    }

    /// What a cancelled answer has said so far, where the session wants it kept: its text, and never half a call (L-48).
    pub(super) fn commit_partial(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: &Turn,
        attempt: Attempt,
    ) {
        if self.partial == Partial::Drop {
            return;
        }
        let (content, usage) = attempt.assembler.partial();
        if content.is_empty() {
            return;
        }
        let Served { provider, model, .. } = attempt.served;
        let message = Arc::new(Message {
            id: self.chance.message_id(),
            role: Role::Assistant,
            content,
            source: Source::Model { provider, model, partial: true },
        });
        let data =
            Data::AssistantMessage { turn: turn.turn, step: turn.step, message: &message, usage };
        let event =
            self.log.append_surface(now, &data, Arc::clone(&message), Some(&attempt.chunks));
        out.push(Effect::Append(event));
    }

    fn attempt_failed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        mut turn: Turn,
        attempt: Attempt,
        failure: LlmFailure,
    ) -> Next {
        let before = turn.retries.as_ref().map_or(0, |(_, count)| *count);
        let Some(again) = retry::decide(&mut self.chance, &turn.retry, before, &failure) else {
            self.end_step(out, now, &turn);
            return self.fail_turn(out, now, &turn, failure);
        };
        let retry_id = match turn.retries.take() {
            Some((id, _)) => id,
            None => self.chance.uuid(),
        };
        let Again { mode, retry, max_retries, delay_ms } = again;
        let data = Data::LlmRetry {
            retry_id: &retry_id,
            turn: turn.turn,
            step: turn.step,
            provider: &attempt.served.provider,
            mode,
            policy_key: &retry::policy_key(&turn.retry),
            retry,
            max_retries,
            delay_ms,
            failure: &failure,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        turn.retries = Some((retry_id, retry));
        let token = self.token();
        out.push(Effect::Timer { token, after_ms: delay_ms });
        turn.at = At::Resting { token, attempt };
        Next::Wait(turn)
    }

    pub(super) fn try_again(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        turn: Turn,
        attempt: Attempt,
    ) -> Next {
        if let Some((retry_id, retry)) = &turn.retries {
            let (turn, step, retry) = (turn.turn, turn.step, *retry);
            let data = Data::LlmRetryStarted { retry_id, turn, step, retry };
            out.push(Effect::Append(self.log.append(now, &data)));
        }
        // A fresh assembler: what the failed attempt streamed is not part of the answer (L-40).
        let token = self.token();
        let attempt =
            Attempt { token, assembler: Assembler::default(), chunks: Vec::new(), ..attempt };
        self.call_model(out, turn, attempt)
    }
}
