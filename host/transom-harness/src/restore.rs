//! A stored log read back: folded into what an agent needs to go on, and closed where a crash had cut it
//! (L-27, L-78 to L-80). Reading the log from disk is the store's.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    block::Block,
    event::{Data, Event, Target, TurnEnd},
    header::Header,
    inbox::Inbox,
    log::Log,
    message::{Message, Role, Source},
    ports::ToolErrorCode,
};

/// What the model is told of a call that was never begun.
const NOT_STARTED: &str = "Error: the host stopped before this tool call was started. Nothing was done; it is safe to \
                           call it again if it is still needed.";

/// What the model is told of a call whose end nobody saw.
const OUTCOME_UNKNOWN: &str = "Error: the host stopped while this tool call was running, and its outcome is unknown. Do \
                               not repeat it blindly: check the state first, or ask, unless the operation only reads or \
                               can be repeated without harm.";

/// Why a stored log cannot be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A line that is no event of this log format.
    #[error("corrupt session log: unparsable committed event at seq {seq}: {why}")]
    Unparsable {
        /// Where it stands.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// An event is missing or stands twice.
    #[error("corrupt session log: seq gap in committed region (expected {expected}, got {got})")]
    Gap {
        /// The `seq` that should have come.
        expected: u64,
        /// The one that came.
        got: u64,
    },
    /// An event type that this version does not know and may not pass over (L-17).
    #[error(
        "session log has an event of the unknown type \"{kind}\" at seq {seq}, which is not ignorable"
    )]
    UnknownType {
        /// Its type.
        kind: String,
        /// Where it stands.
        seq: u64,
    },
    /// A splice that does not fit the list it changes (L-27).
    #[error("invalid persisted inbox splice at session seq {seq}")]
    Splice {
        /// Where it stands.
        seq: u64,
    },
}

/// A session as it is after its stored log.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) log: Log,
    pub(crate) inbox: Inbox,
    /// The directory that was set last; the header's without one.
    pub(crate) cwd: Option<String>,
    /// Events that the log lacked, to be stored and not shown (decision 79).
    pub(crate) closers: Vec<Event>,
}

/// Types that later events do not depend on.
const PASSED_OVER: &[&str] = &[
    "assistant/chunk",
    "llm/retry",
    "llm/retry-started",
    "tool/code-dispatch-start",
    "tool/code-dispatch",
    "todo/write",
    "session/title-llm-request",
    "approval/asked",
    "approval/decided",
    "feedback/record",
    "command/run",
    "command/done",
    "hook/invoked",
    "hook/result",
    "tool-workflow/run-start",
    "tool-workflow/run-end",
    "tool-workflow/agent-start",
    "tool-workflow/agent-end",
    "web/deepseek-search-llm-request",
    "subagent/descriptor",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    seq: u64,
    time: u64,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    ignorable: bool,
    #[serde(borrow)]
    surface_op: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Splice {
    target: Target,
    start: usize,
    #[serde(default)]
    removed_count: usize,
    inserted: Vec<Message>,
}

#[derive(Deserialize)]
struct Turn {
    turn: u64,
}

#[derive(Deserialize)]
struct Step {
    step: u64,
}

#[derive(Deserialize)]
struct Carrying {
    message: Message,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    call_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    provider: String,
    model: String,
    context_window: Option<u64>,
}

#[derive(Deserialize)]
struct Moved {
    cwd: String,
}

/// The part of the last turn that may still be open.
#[derive(Default)]
struct Open {
    turn: Option<u64>,
    step: Option<u64>,
    /// Calls of the step's message without a result, in model order.
    unanswered: Vec<String>,
    /// Where the `tool/call` of each stands.
    started: HashMap<String, u64>,
}

/// Folds a log and closes its last turn if it is open. `now` is when it happens, epoch milliseconds.
pub(crate) fn restore(
    header: Header,
    events: &[Arc<str>],
    now: u64,
) -> Result<Restored, RestoreError> {
    let mut restored = Restored {
        cwd: header.cwd.clone(),
        log: Log::new(header),
        inbox: Inbox::default(),
        closers: Vec::new(),
    };
    restored.log.resumed = true;
    let mut open = Open::default();
    let mut ends_seed = false;
    for (expected, text) in (0..).zip(events) {
        let envelope: Envelope<'_> = serde_json::from_str(text)
            .map_err(|error| RestoreError::Unparsable { seq: expected, why: error.to_string() })?;
        if envelope.seq != expected {
            return Err(RestoreError::Gap { expected, got: envelope.seq });
        }
        ends_seed = envelope.kind == "session/end-seed";
        restored.fold(&mut open, &envelope)?;
        restored.log.stored(envelope.time);
    }
    restored.close(open);
    if !ends_seed || !restored.closers.is_empty() {
        let event = restored.log.append(now, &Data::EndSeed {});
        restored.closers.push(event);
    }
    Ok(restored)
}

impl Restored {
    fn fold(&mut self, open: &mut Open, envelope: &Envelope<'_>) -> Result<(), RestoreError> {
        let seq = envelope.seq;
        if envelope.surface_op.is_some_and(|operation| operation.get() != "\"append\"") {
            let why = "its surfaceOp is not one that this version can continue".to_owned();
            return Err(RestoreError::Unparsable { seq, why });
        }
        match &*envelope.kind {
            "agent/inbox/spliced" => {
                let Splice { target, start, removed_count, inserted } = read(envelope)?;
                let inserted = inserted.into_iter().map(Arc::new).collect();
                if !self.inbox.splice(target, start, removed_count, inserted) {
                    return Err(RestoreError::Splice { seq });
                }
            }
            "turn/start" => {
                let Turn { turn } = read(envelope)?;
                self.log.last_turn = turn;
                *open = Open { turn: Some(turn), ..Open::default() };
            }
            "turn/end" => *open = Open::default(),
            "step/start" => {
                let Step { step } = read(envelope)?;
                open.step = Some(step);
            }
            "step/end" => {
                *open = Open { turn: open.turn, ..Open::default() };
            }
            "user/message" => self.log.surface(Arc::new(read::<Message>(envelope)?)),
            "assistant/message" => {
                let Carrying { message } = read(envelope)?;
                open.unanswered = calls(&message);
                self.log.surface(Arc::new(message));
            }
            "tool/call" => {
                let Called { call_id } = read(envelope)?;
                open.started.insert(call_id, seq);
            }
            "tool/result" => {
                let Carrying { message } = read(envelope)?;
                if let Source::Tool { call_id } = &message.source {
                    open.unanswered.retain(|id| id != call_id);
                }
                self.log.surface(Arc::new(message));
            }
            "session/title" => self.log.titled = true,
            "request/header" => self.log.has_header = true,
            "request/context" => {
                let Context { provider, model, context_window } = read(envelope)?;
                self.log.request_context = Some((provider, model, context_window));
            }
            "working-directory/change" => {
                let Moved { cwd } = read(envelope)?;
                self.cwd = Some(cwd);
            }
            "session/end-seed" => {}
            kind if envelope.ignorable || PASSED_OVER.contains(&kind) => {}
            kind => return Err(RestoreError::UnknownType { kind: kind.to_owned(), seq }),
        }
        Ok(())
    }

    /// Ends what a crash left open, with the time of the last event (L-79).
    fn close(&mut self, open: Open) {
        let Some(turn) = open.turn else { return };
        let time = self.log.last_time();
        let step = open.step.unwrap_or_default();
        for call_id in open.unanswered {
            let started = open.started.get(&call_id).copied();
            let (name, code, text) = match started {
                None => ("ToolNotStartedError", "TOOL_NOT_STARTED", NOT_STARTED),
                Some(_) => ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN", OUTCOME_UNKNOWN),
            };
            let id = format!("interrupted-tool-result-{call_id}-{}", self.log.next_seq());
            let block = Block::ToolResult {
                tool_call_id: call_id.clone(),
                content: vec![Block::text(text)],
                is_error: true,
            };
            let message = Arc::new(Message {
                id: id.into(),
                role: Role::User,
                content: vec![block],
                source: Source::Tool { call_id },
            });
            let error = ToolErrorCode { name: name.to_owned(), code: code.to_owned() };
            let data =
                Data::ToolResult { turn, step, message: &message, error: Some(&error), meta: None };
            let sources = started.map(|seq| [seq]);
            let sources = sources.as_ref().map(<[u64; 1]>::as_slice);
            let event = self.log.append_surface(time, &data, Arc::clone(&message), sources);
            self.closers.push(event);
        }
        if open.step.is_some() {
            self.closers.push(self.log.append(time, &Data::StepEnd { turn, step }));
        }
        let data = Data::TurnEnd { turn, reason: &TurnEnd::Interrupted };
        self.closers.push(self.log.append(time, &data));
    }
}

fn read<'a, T: Deserialize<'a>>(envelope: &Envelope<'a>) -> Result<T, RestoreError> {
    serde_json::from_str(envelope.data.get()).map_err(|error| RestoreError::Unparsable {
        seq: envelope.seq,
        why: format!("{}: {error}", envelope.kind),
    })
}

fn calls(message: &Message) -> Vec<String> {
    let ids = message.content.iter().filter_map(|block| match block {
        Block::ToolCall { id, .. } => Some(id.clone()),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolResult { .. } | Block::Raw(_) => {
            None
        }
    });
    ids.collect()
}

#[cfg(test)]
mod tests;
