//! One step: what enters it, what it asks, and the answer of the attempt that won (L-34, L-36 to L-43).
//! Attempts are in `attempt.rs`, calls of tools in `calls.rs`.

use super::{
    Auditor, Checked,
    attempt::{Attempt, Retries},
    bad,
    calls::Calls,
    ensure,
    envelope::{Envelope, Joins},
    inboxes::Inboxes,
    request::Request,
    turn::open_step,
};
use crate::{
    chunk::{Finish, LlmFailure},
    vocabulary::{Members, list},
};

/// The step that is open.
#[derive(Debug)]
pub(super) struct Step {
    /// The step before it ran tools, so it needs no message of its own (L-31).
    after_calls: bool,
    messages: u64,
    /// Events of messages that a person wrote.
    persons: Vec<u64>,
    /// What is asked has begun to be logged.
    asks: bool,
    attempt: Attempt,
    retries: Retries,
    /// The calls of the answer, once there is one.
    pub(super) answer: Option<Calls>,
    limit_hit: bool,
    /// The answer was cut, and nothing may come of it any more.
    partial: bool,
}

/// What a step has come to.
#[derive(Debug)]
pub(super) enum Came {
    /// To an answer without calls.
    Answered,
    /// To calls, which all have their results.
    Called,
    /// To nothing: its last attempt failed.
    Failed(LlmFailure),
    /// To nothing: its last attempt has no end.
    Cut,
    /// To nothing: it was waiting for another attempt.
    Resting,
    /// To nothing, although its last attempt was an answer.
    Dropped,
    /// To a part of an answer, which a cancel has cut (L-48).
    Partial,
    /// To calls of which this one has no result: whoever schedules them has failed (L-58).
    Unscheduled(String),
}

impl Step {
    pub(super) fn new(after_calls: bool) -> Step {
        Step {
            after_calls,
            messages: 0,
            persons: Vec::new(),
            asks: false,
            attempt: Attempt::default(),
            retries: Retries::default(),
            answer: None,
            limit_hit: false,
            partial: false,
        }
    }

    pub(super) fn limit_hit(&self) -> bool {
        self.limit_hit
    }

    pub(super) fn came(&self) -> Came {
        if let Some(calls) = &self.answer {
            if self.partial {
                return Came::Partial;
            }
            if let Some(id) = calls.unanswered() {
                return Came::Unscheduled(id.to_owned());
            }
            return if calls.is_empty() { Came::Answered } else { Came::Called };
        }
        if self.retries.resting() {
            return Came::Resting;
        }
        match self.attempt.finish() {
            None => Came::Cut,
            Some(Finish::Error { failure } | Finish::Aborted { failure }) => {
                Came::Failed(failure.clone())
            }
            Some(Finish::Stop | Finish::ToolCalls | Finish::MaxTokens) => Came::Dropped,
        }
    }

    /// Something that belongs to a request: all messages stand before it, and no answer does.
    fn asks(&mut self, inboxes: &mut Inboxes, event: &Envelope<'_>) -> Checked {
        let kind = &event.kind;
        ensure(self.answer.is_none(), "L-39", || {
            format!("{kind} behind the assistant/message of its step")
        })?;
        ensure(self.messages > 0 || self.after_calls, "L-31", || {
            format!("{kind} in a step that neither a message nor a tool has led to")
        })?;
        inboxes.all_entered(kind)?;
        self.asks = true;
        Ok(())
    }

    /// A request is about to be made: nothing of this attempt has come yet.
    fn prepares(&mut self, inboxes: &mut Inboxes, event: &Envelope<'_>) -> Checked {
        self.asks(inboxes, event)?;
        let fresh = self.attempt.seqs().is_empty() && !self.retries.resting();
        ensure(fresh, "L-37", || format!("{} inside an attempt", event.kind))
    }

    fn streams(
        &mut self,
        inboxes: &mut Inboxes,
        request: &Request,
        event: &Envelope<'_>,
    ) -> Checked {
        self.asks(inboxes, event)?;
        request.is_known(&event.kind)?;
        ensure(!self.retries.resting(), "L-42", || {
            format!("{} between llm/retry and llm/retry-started", event.kind)
        })
    }
}

impl Auditor {
    pub(super) fn user_message(&mut self, event: &Envelope<'_>) -> Checked {
        let id = event.text("id");
        let kind =
            event.data.object("source").and_then(|source| source.text("kind")).unwrap_or_default();
        if event.joins == Some(Joins::Append) {
            let turn = self.turn.as_mut();
            let Some(step) = turn.and_then(|turn| turn.open.as_mut()) else {
                return bad("S-112", "user/message outside a step");
            };
            ensure(!step.asks, "L-34", || {
                "user/message behind the request of its step".to_owned()
            })?;
            self.inboxes.enters(&id, kind == "plugin")?;
            step.messages += 1;
            if kind == "user" {
                step.persons.push(event.seq);
            }
        }
        self.surface.join(event, &event.data)
    }

    /// A title that the host made of a person's words stands in the step in which they entered (L-18).
    pub(super) fn titled(&mut self, event: &Envelope<'_>) -> Checked {
        let seqs = event.data.list("messageSeqs").unwrap_or_default();
        let seqs: Vec<u64> = seqs.iter().filter_map(|seq| seq.get().parse().ok()).collect();
        ensure(seqs.iter().all(|seq| *seq < event.seq), "L-18", || {
            "messageSeqs must name earlier events".to_owned()
        })?;
        let source = event.data.object("source").and_then(|source| source.text("kind"));
        if source.is_some_and(|kind| kind == "fallback") {
            ensure(self.title.is_none(), "L-18", || {
                "a fallback title in a session that has a title".to_owned()
            })?;
            let step = self.turn.as_ref().and_then(|turn| turn.open.as_ref());
            let of_person = match (step, seqs.as_slice()) {
                (Some(step), [seq]) => !step.asks && step.persons.contains(seq),
                _ => false,
            };
            ensure(of_person, "L-18", || {
                "a fallback title must name one message of a person, in the step that it enters, before the request"
                    .to_owned()
            })?;
        }
        self.title = Some(event.text("title").into());
        Ok(())
    }

    pub(super) fn request_header(&mut self, event: &Envelope<'_>) -> Checked {
        self.prepares(event)?;
        self.request.header(event)
    }

    pub(super) fn request_context(&mut self, event: &Envelope<'_>) -> Checked {
        self.prepares(event)?;
        self.request.context(event)
    }

    fn prepares(&mut self, event: &Envelope<'_>) -> Checked {
        match self.turn.as_mut().and_then(|turn| turn.open.as_mut()) {
            Some(step) => step.prepares(&mut self.inboxes, event),
            None => bad("L-37", format!("{} outside a step", event.kind)),
        }
    }

    pub(super) fn chunk(&mut self, event: &Envelope<'_>) -> Checked {
        let step = open_step(&mut self.turn, event)?;
        step.streams(&mut self.inboxes, &self.request, event)?;
        step.attempt.push(event, self.strict_chunks)
    }

    pub(super) fn retry(&mut self, event: &Envelope<'_>) -> Checked {
        let step = open_step(&mut self.turn, event)?;
        step.streams(&mut self.inboxes, &self.request, event)?;
        let failure = match step.attempt.finish() {
            Some(Finish::Error { failure } | Finish::Aborted { failure }) => failure,
            Some(_) | None => return bad("L-41", "llm/retry, although no attempt has failed"),
        };
        step.retries.decided(event, failure, &mut self.request)
    }

    pub(super) fn retry_started(&mut self, event: &Envelope<'_>) -> Checked {
        let step = open_step(&mut self.turn, event)?;
        step.retries.started(event)?;
        step.attempt = Attempt::default();
        Ok(())
    }

    pub(super) fn assistant_message(&mut self, event: &Envelope<'_>) -> Checked {
        let Some(message) = event.message() else { return Ok(()) };
        if event.joins != Some(Joins::Append) {
            return self.surface.join(event, &message);
        }
        let step = open_step(&mut self.turn, event)?;
        step.streams(&mut self.inboxes, &self.request, event)?;
        let attempt = std::mem::take(&mut step.attempt);
        ensure(event.sources.as_deref() == Some(attempt.seqs()), "L-16", || {
            let (is, right) = (&event.sources, attempt.seqs());
            let is = is.as_ref().map_or("none".to_owned(), |seqs| format!("{seqs:?}"));
            format!(
                "sourceEventSeqs must be the chunks of the winning attempt, {right:?}, got {is}"
            )
        })?;
        self.request.answers(&message)?;
        let content = message.raw("content").and_then(list).unwrap_or_default();
        let partial = message
            .object("source")
            .and_then(|source| source.raw("partial").map(|raw| raw.get() == "true"));
        step.partial = partial.unwrap_or_default();
        if step.partial {
            attempt.makes_part(&content, event.data.raw("usage"))?;
        } else {
            step.limit_hit = attempt.makes(&content, event.data.raw("usage"))?;
        }
        step.answer = Some(Calls::of(&content, step.limit_hit)?);
        self.surface.join(event, &message)
    }
}

/// The message of a tool's result, as text that parts can be read of.
pub(super) fn only_block<'a>(message: &Members<'a>) -> Option<Members<'a>> {
    let content = message.list("content")?;
    Members::read(content.first()?.get())
}
