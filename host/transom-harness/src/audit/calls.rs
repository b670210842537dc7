//! The tool calls of one answer: each has one `tool/call` and one `tool/result`, in the model's order, and
//! what recovery makes up for those that a crash has cut off (L-49, L-57, L-79).

use serde_json::value::RawValue;

use super::{
    Auditor, Checked, bad, ensure,
    envelope::{Envelope, Joins},
    step::only_block,
    turn::open_step,
};
use crate::{block::Block, vocabulary::Members};

/// In the model's order.
#[derive(Debug)]
pub(super) struct Calls(pub(super) Vec<Call>);

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    arguments: String,
    /// Where its `tool/call` stands.
    pub(super) called: Option<u64>,
    pub(super) answered: bool,
    /// The approval policy was `never` when it was called.
    pub(super) never: bool,
    pub(super) asked: bool,
    /// It was asked about and not allowed.
    pub(super) refused: bool,
}

impl Calls {
    /// The calls in an answer. One that the output limit has cut must have none (L-16, L-39).
    pub(super) fn of(content: &[&RawValue], cut: bool) -> Checked<Calls> {
        let mut calls = Vec::new();
        for block in content {
            let block =
                serde_json::from_str::<Block>(block.get()).map(|block| block.typed().into_owned());
            if let Ok(Block::ToolCall { id, name, arguments }) = block {
                ensure(!cut, "L-16", || {
                    format!("tool call \"{id}\" in an answer that the output limit has cut")
                })?;
                let (called, answered, never) = (None, false, false);
                let (asked, refused) = (false, false);
                calls.push(Call { id, name, arguments, called, answered, never, asked, refused });
            }
        }
        Ok(Calls(calls))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first one without a result.
    pub(super) fn unanswered(&self) -> Option<&str> {
        self.0.iter().find(|call| !call.answered).map(|call| call.id.as_str())
    }

    fn start(&mut self, event: &Envelope<'_>, never: bool) -> Checked {
        let id = event.text("callId");
        let Some(call) = self.0.iter_mut().find(|call| call.called.is_none()) else {
            return bad(
                "L-49",
                format!("tool/call \"{id}\", although every call of the answer has its tool/call"),
            );
        };
        let due = &call.id;
        ensure(*due == id, "L-57", || {
            format!("tool/call \"{id}\", where \"{due}\" is due in the model's order")
        })?;
        let same = call.name == event.text("name") && call.arguments == event.text("arguments");
        ensure(same, "L-49", || {
            format!("name and arguments of tool/call \"{id}\" must be those of the answer's block")
        })?;
        call.called = Some(event.seq);
        call.never = never;
        Ok(())
    }

    /// The call that is answered next, which has to be of this id.
    fn due(&mut self, id: &str) -> Checked<(usize, &mut Call)> {
        let of_answer = self.0.iter().any(|call| call.id == id);
        let Some((at, call)) = self.0.iter_mut().enumerate().find(|(_, call)| !call.answered)
        else {
            return bad(
                "L-49",
                format!("tool/result of \"{id}\", although every call has its result"),
            );
        };
        let due = &call.id;
        ensure(*due == id, "L-49", || match of_answer {
            true => format!(
                "tool/result of \"{id}\", where that of \"{due}\" is due in the model's order"
            ),
            false => format!("tool/result of \"{id}\", which the answer does not call"),
        })?;
        Ok((at, call))
    }
}

impl Auditor {
    pub(super) fn tool_call(&mut self, event: &Envelope<'_>) -> Checked {
        let never = self.settings.never();
        match &mut open_step(&mut self.turn, event)?.answer {
            Some(calls) => calls.start(event, never),
            None => bad("L-49", "tool/call before the assistant/message of its step"),
        }
    }

    pub(super) fn tool_result(&mut self, event: &Envelope<'_>) -> Checked {
        let Some(message) = event.message() else { return Ok(()) };
        if event.joins == Some(Joins::Append) {
            self.commit(event, &message)?;
        }
        self.surface.join(event, &message)
    }

    fn commit(&mut self, event: &Envelope<'_>, message: &Members<'_>) -> Checked {
        let source = message.object("source").and_then(|source| source.text("callId"));
        let id = source.unwrap_or_default();
        let error = event.data.object("error").and_then(|error| error.text("code"));
        let code = error.as_deref().unwrap_or_default();
        let made_up = matches!(code, "TOOL_NOT_STARTED" | "TOOL_OUTCOME_UNKNOWN");
        ensure(made_up || !self.repairing, "L-79", || {
            format!("tool/result of \"{id}\" behind results that recovery has made up")
        })?;
        let Some(calls) = &mut open_step(&mut self.turn, event)?.answer else {
            return bad("L-49", "tool/result before the assistant/message of its step");
        };
        let (at, call) = calls.due(&id)?;
        let right = match (call.called, code) {
            (None, "TOOL_NOT_STARTED") => None,
            (Some(_), "TOOL_NOT_STARTED") => {
                return bad(
                    "L-79",
                    format!("TOOL_NOT_STARTED for \"{id}\", which has a tool/call"),
                );
            }
            (None, _) => return bad("L-49", "tool/result without a tool/call"),
            (Some(seq), _) => Some(vec![seq]),
        };
        ensure(event.sources == right, "L-49", || match &right {
            Some(seqs) => format!("sourceEventSeqs must be {seqs:?}, the tool/call of \"{id}\""),
            None => "sourceEventSeqs of a call that was never logged must be left out".to_owned(),
        })?;
        let is_error = only_block(message)
            .and_then(|block| block.raw("isError").map(|raw| raw.get() == "true"));
        let is_error = is_error.unwrap_or_default();
        ensure(is_error || error.is_none(), "L-55", || {
            format!("error {code} on a result that is none")
        })?;
        if made_up {
            let name = format!("interrupted-tool-result-{id}-{}", event.seq);
            ensure(message.text("id").is_some_and(|id| id == name), "L-79", || {
                format!("the message id of a result that recovery has made up must be \"{name}\"")
            })?;
            ensure(self.last_time == Some(event.time), "L-79", || {
                "a result that recovery has made up must carry the time of the event before it"
                    .to_owned()
            })?;
            self.repairing = true;
        } else {
            ensure(is_error || !call.refused, "L-62", || {
                format!("call \"{id}\" was not allowed, and has a result that is no error")
            })?;
            self.approvals.call_ends(at)?;
        }
        call.answered = true;
        Ok(())
    }
}
