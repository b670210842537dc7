//! A stored log read back: folded into what an agent needs to go on, and closed where a crash had cut it
//! (L-27, L-78 to L-80). Reading the log from disk is the store's.

mod children;
mod lost_children;
mod lost_jobs;

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    block::Block,
    event::{Data, Event, Target, TurnEnd},
    header::Header,
    inbox::Inbox,
    jobs::{JobKind, JobRecord, JobStatus},
    log::{Effort, Log, ReplaceError},
    message::{CONTEXT_PLUGIN, Message, Role, Source},
    permissions::Outcome,
    ports::ToolErrorCode,
    vocabulary,
};

use lost_children::Awaited;

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
    /// A message that does not fit the surface (L-8).
    #[error("corrupt session log: event at seq {seq}: {why}")]
    Surface {
        /// Where it stands.
        seq: u64,
        /// What does not fit.
        why: ReplaceError,
    },
    /// The events to begin with end inside a turn (L-11).
    #[error("a fork cannot begin inside turn {turn}, which is still open at seq {seq}")]
    OpenTurn {
        /// The turn.
        turn: u64,
        /// The last event.
        seq: u64,
    },
    /// The log of a fork that ends inside the events it begins with: nobody has seen that session yet.
    #[error(
        "corrupt session log: {got} events where {expected} were copied from the session it was forked from"
    )]
    Seed {
        /// How many events it begins with.
        expected: u64,
        /// How many there are.
        got: u64,
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
    awaited: Awaited,
}

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
    #[serde(default)]
    source_event_seqs: Vec<u64>,
    surface_op: Option<SurfaceOp>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SurfaceOp {
    Append(Append),
    Replace(Replace),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Append {
    Append,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replace {
    #[serde(rename = "op")]
    _op: ReplaceWord,
    start: u64,
    end: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReplaceWord {
    Replace,
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
struct Requested {
    header: StoredHeader,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredHeader {
    config: StoredConfig,
    #[serde(default)]
    adapter_defaults: StoredDefaults,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredConfig {
    provider: String,
    model: String,
    reasoning_effort: Option<String>,
    max_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredDefaults {
    #[serde(default)]
    reasoning_effort: bool,
    #[serde(default)]
    max_tokens: bool,
}

impl StoredHeader {
    fn chosen_limit(&self) -> Option<u64> {
        self.config.max_tokens.filter(|_| !self.adapter_defaults.max_tokens)
    }

    fn chosen_effort(self) -> Option<Effort> {
        let StoredConfig { provider, model, reasoning_effort, .. } = self.config;
        let effort = reasoning_effort.filter(|_| !self.adapter_defaults.reasoning_effort)?;
        Some(Effort { provider, model, effort })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Registered {
    job_id: String,
    kind: JobKind,
    label: String,
    started_at: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settled {
    job_id: String,
    status: JobStatus,
    detail: Option<String>,
    finished_at: u64,
}

#[derive(Deserialize)]
struct Asked {
    id: String,
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
    started: HashMap<String, VecDeque<u64>>,
    /// Asks without a decision.
    asked: Vec<String>,
}

/// Folds a log and closes its last turn if it is open. `now` is when it happens, epoch milliseconds.
pub(crate) fn restore(
    header: Header,
    events: &[Arc<str>],
    now: u64,
) -> Result<Restored, RestoreError> {
    let (mut restored, open, ends_seed) = fold(header, events)?;
    restored.close(open);
    restored.lose_jobs(now);
    restored.lose_children();
    if !ends_seed || !restored.closers.is_empty() {
        let event = restored.log.append(now, &Data::EndSeed {});
        restored.closers.push(event);
    }
    Ok(restored)
}

/// Folds the events that a new session begins with: a whole number of turns, whose pending messages and running
/// jobs stay with the session they are of (L-11, P-78).
pub(crate) fn fork(
    header: Header,
    events: &[Arc<str>],
    now: u64,
) -> Result<Restored, RestoreError> {
    let (mut restored, open, ends_seed) = fold(header, events)?;
    if let Some(turn) = open.turn {
        return Err(RestoreError::OpenTurn {
            turn,
            seq: restored.log.next_seq().saturating_sub(1),
        });
    }
    restored.inbox = Inbox::default();
    if !ends_seed {
        let event = restored.log.append(now, &Data::EndSeed {});
        restored.closers.push(event);
    }
    Ok(restored)
}

fn fold(header: Header, events: &[Arc<str>]) -> Result<(Restored, Open, bool), RestoreError> {
    let seed = header.seed_length.unwrap_or_default();
    let mut restored = Restored {
        cwd: header.cwd.clone(),
        log: Log::new(header),
        inbox: Inbox::default(),
        closers: Vec::new(),
        awaited: Awaited::default(),
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
        if expected == seed {
            restored.leave_to_the_source();
        }
        ends_seed = envelope.kind == "session/end-seed";
        restored.fold(&mut open, &envelope)?;
        restored.log.stored(envelope.time);
    }
    match events.len() as u64 {
        // Nothing of its own yet. A session without a seed is empty then anyway.
        count if count == seed => restored.leave_to_the_source(),
        count if count < seed => return Err(RestoreError::Seed { expected: seed, got: count }),
        _ => {}
    }
    restored.log.forget_old_jobs();
    Ok((restored, open, ends_seed))
}

impl Restored {
    /// Neither what waited in the session that this one was forked from, nor its jobs, nor its children, are this
    /// one's; nor is what that one was. Its filters stay: a fork has no tools that its source lacks.
    fn leave_to_the_source(&mut self) {
        self.inbox = Inbox::default();
        self.log.jobs.clear();
        self.log.children.clear();
        self.awaited = Awaited::default();
        self.log.descriptor = None;
    }

    fn fold(&mut self, open: &mut Open, envelope: &Envelope<'_>) -> Result<(), RestoreError> {
        let seq = envelope.seq;
        match &*envelope.kind {
            "agent/inbox/spliced" => {
                let Splice { target, start, removed_count, inserted } = read(envelope)?;
                self.awaited.told(&inserted);
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
            "user/message" => {
                let message: Message = read(envelope)?;
                let context = told_context(&message);
                self.surface(envelope, message)?;
                if let Some(text) = context {
                    self.log.context = Some((seq, text));
                }
            }
            "assistant/message" => {
                let Carrying { message } = read(envelope)?;
                open.unanswered = calls(&message);
                self.surface(envelope, message)?;
            }
            "tool/call" => {
                let Called { call_id } = read(envelope)?;
                self.awaited.called(envelope);
                open.started.entry(call_id).or_default().push_back(seq);
            }
            "tool/result" => {
                let Carrying { message } = read(envelope)?;
                if let Source::Tool { call_id } = &message.source {
                    // Ids are the provider's, and two calls of one answer may share one.
                    if let Some(at) = open.unanswered.iter().position(|id| id == call_id) {
                        open.unanswered.remove(at);
                    }
                    open.started.get_mut(call_id).and_then(VecDeque::pop_front);
                    self.awaited.answered(call_id, is_error(&message));
                }
                self.surface(envelope, message)?;
            }
            "session/title" => self.log.titled = true,
            "request/header" => {
                let Requested { header } = read(envelope)?;
                self.log.has_header = true;
                self.log.max_tokens = header.chosen_limit();
                self.log.effort = header.chosen_effort();
            }
            "request/context" => {
                let Context { provider, model, context_window } = read(envelope)?;
                self.log.request_context = Some((provider, model, context_window));
            }
            "working-directory/change" => {
                let Moved { cwd } = read(envelope)?;
                self.cwd = Some(cwd);
            }
            kind @ ("permission/preset" | "sandbox/mode" | "approval/policy") => {
                self.log.knobs.fold(kind, envelope.data);
            }
            "approval/asked" => {
                let Asked { id } = read(envelope)?;
                open.asked.push(id);
            }
            "approval/decided" => {
                let Asked { id } = read(envelope)?;
                open.asked.retain(|asked| *asked != id);
            }
            "subagent/descriptor" => self.described(envelope)?,
            "subagent/catalog" => self.catalogued(envelope),
            // Other runtimes use the same names, perhaps in other shapes, and both are ignorable (L-19).
            "job/registered" => {
                let Ok(registered) = read(envelope) else { return Ok(()) };
                let Registered { job_id, kind, label, started_at } = registered;
                self.log.jobs.push(JobRecord {
                    id: job_id,
                    kind,
                    label,
                    status: JobStatus::Running,
                    detail: None,
                    started_at,
                    finished_at: None,
                });
            }
            "job/settled" => {
                let Ok(settled) = read(envelope) else { return Ok(()) };
                let Settled { job_id, status, detail, finished_at } = settled;
                if let Some(job) = self.log.jobs.iter_mut().find(|job| job.id == job_id) {
                    job.status = status;
                    job.detail = detail;
                    job.finished_at = Some(finished_at);
                }
            }
            kind if envelope.ignorable || vocabulary::find(kind).is_some() => {}
            kind => return Err(RestoreError::UnknownType { kind: kind.to_owned(), seq }),
        }
        Ok(())
    }

    fn surface(&mut self, envelope: &Envelope<'_>, message: Message) -> Result<(), RestoreError> {
        let seq = envelope.seq;
        let replaces = match &envelope.surface_op {
            Some(SurfaceOp::Append(Append::Append)) => None,
            Some(SurfaceOp::Replace(Replace { start, end, .. })) => Some((*start, *end)),
            None => {
                let why = format!("{} has no surfaceOp", envelope.kind);
                return Err(RestoreError::Unparsable { seq, why });
            }
        };
        self.log
            .surface(seq, Arc::new(message), replaces, &envelope.source_event_seqs)
            .map_err(|why| RestoreError::Surface { seq, why })
    }

    /// Ends what a crash left open, with the time of the last event (L-79).
    fn close(&mut self, mut open: Open) {
        let Some(turn) = open.turn else { return };
        let time = self.log.last_time();
        let step = open.step.unwrap_or_default();
        for id in &open.asked {
            let data = Data::ApprovalDecided { id, outcome: Outcome::Cancelled };
            self.closers.push(self.log.append(time, &data));
        }
        for call_id in std::mem::take(&mut open.unanswered) {
            let started = open.started.get_mut(&call_id).and_then(VecDeque::pop_front);
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

/// What a message says of the runtime context, if it speaks of it (L-96).
fn told_context(message: &Message) -> Option<String> {
    let Source::Plugin { plugin, sections, .. } = &message.source else { return None };
    if plugin != CONTEXT_PLUGIN {
        return None;
    }
    let texts = sections.iter().flatten().map(|section| section.text.as_str());
    Some(texts.collect::<Vec<_>>().join("\n\n"))
}

fn read<'a, T: Deserialize<'a>>(envelope: &Envelope<'a>) -> Result<T, RestoreError> {
    serde_json::from_str(envelope.data.get()).map_err(|error| RestoreError::Unparsable {
        seq: envelope.seq,
        why: format!("{}: {error}", envelope.kind),
    })
}

/// Whether a result tells of a failure.
fn is_error(message: &Message) -> bool {
    let failed =
        |block: &Block| matches!(block.typed().as_ref(), Block::ToolResult { is_error: true, .. });
    message.content.iter().any(failed)
}

fn calls(message: &Message) -> Vec<String> {
    let ids = message.content.iter().filter_map(|block| match block.typed().as_ref() {
        Block::ToolCall { id, .. } => Some(id.clone()),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolResult { .. } | Block::Raw(_) => {
            None
        }
    });
    ids.collect()
}

#[cfg(test)]
mod tests;
