//! The log of one session and what is folded from it: the next sequence number, the surface, the
//! counters. Appending makes the event's text; making it durable is the store's.

use std::{collections::HashSet, ops::Range, sync::Arc};

use crate::{
    block::Block,
    event::{Data, Event, RequestHeader, Surface, envelope},
    header::Header,
    jobs::JobRecord,
    message::{Message, Role, Source},
    permissions::presets::Knobs,
    subagents::{Catalogued, Descriptor, ToolFilter},
};

/// Ended jobs that a session remembers (P-68).
const ENDED_JOBS_MAX: usize = 100;

/// A session's log. Holds no events, only what later events depend on.
#[derive(Debug)]
pub struct Log {
    header: Arc<Header>,
    next_seq: u64,
    last_time: u64,
    /// The conversation as the next request will show it (L-9).
    surface: Vec<Node>,
    pub(crate) last_turn: u64,
    pub(crate) titled: bool,
    pub(crate) request_header: Option<RequestHeader>,
    /// Whether there is any `request/header`.
    pub(crate) has_header: bool,
    /// The log was continued, and no request has been made since.
    pub(crate) resumed: bool,
    /// Provider, model and window of the last `request/context`.
    pub(crate) request_context: Option<(String, String, Option<u64>)>,
    /// The effort of the last stored `request/header`, where it was not the provider's default.
    pub(crate) effort: Option<Effort>,
    /// The output limit of the last stored `request/header`, where it was not the provider's default.
    pub(crate) max_tokens: Option<u64>,
    /// The settings that the log holds (P-2).
    pub(crate) knobs: Knobs,
    /// Where the last runtime context stands, and what it says; empty where it says that none applies (L-96).
    pub(crate) context: Option<(u64, String)>,
    /// Jobs as the log has them, oldest first (P-78).
    pub(crate) jobs: Vec<JobRecord>,
    /// What a delegated session is, once it has said so (L-67).
    pub(crate) descriptor: Option<Descriptor>,
    /// The filters that its tools have to pass: its own, those above it, and those of whatever it was forked from.
    pub(crate) tool_filters: Vec<ToolFilter>,
    /// Children that outlive their tasks, oldest first (L-72).
    pub(crate) children: Vec<Catalogued>,
}

/// How hard a model was to think, and which (L-36).
#[derive(Debug, Clone)]
pub(crate) struct Effort {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) effort: String,
}

/// A message on the surface and the event that put it there.
#[derive(Debug, Clone)]
struct Node {
    seq: u64,
    message: Arc<Message>,
}

/// Why a replacement is not possible (L-8).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// Its ends are not in order, or not on the surface.
    #[error("surface replace {start}..{end} does not name current surface nodes in order")]
    NoSuchNodes {
        /// The first node.
        start: u64,
        /// The last node.
        end: u64,
    },
    /// Its sources leave out a node that it hides.
    #[error(
        "surface replace {start}..{end} hides seq {hidden}, which its sourceEventSeqs leave out"
    )]
    Unnamed {
        /// The first node.
        start: u64,
        /// The last node.
        end: u64,
        /// The one that is missing.
        hidden: u64,
    },
    /// Its sources are not earlier events, each named once.
    #[error(
        "surface replace {start}..{end}: seq {seq} of its sourceEventSeqs is not an earlier event that is named once"
    )]
    Sources {
        /// The first node.
        start: u64,
        /// The last node.
        end: u64,
        /// The one that is wrong.
        seq: u64,
    },
    /// A result of a tool takes the place of something else than its own earlier form.
    #[error(
        "a tool result replaces exactly one tool result and changes only its content (seq {start}..{end})"
    )]
    NotItsResult {
        /// The first node.
        start: u64,
        /// The last node.
        end: u64,
    },
}

impl Log {
    /// A log without events; its first one gets `seq` 0.
    pub fn new(header: Header) -> Log {
        Log {
            last_time: header.created_at,
            header: Arc::new(header),
            next_seq: 0,
            surface: Vec::new(),
            last_turn: 0,
            titled: false,
            request_header: None,
            has_header: false,
            resumed: false,
            request_context: None,
            effort: None,
            max_tokens: None,
            knobs: Knobs::default(),
            context: None,
            jobs: Vec::new(),
            descriptor: None,
            tool_filters: Vec::new(),
            children: Vec::new(),
        }
    }

    /// The first record, shared and never changed.
    pub fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// The `seq` that the next event gets.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Time of the last event, or of creation; epoch milliseconds.
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// The messages of the surface, without assistant messages that say nothing (L-9).
    pub fn history(&self) -> Vec<Arc<Message>> {
        let messages = self.surface.iter().map(|node| &node.message);
        messages.filter(|message| !message.content.is_empty()).cloned().collect()
    }

    /// What the model has said last that was not empty, from the event `from` on.
    pub fn last_answer(&self, from: u64) -> Option<&Arc<Message>> {
        let nodes = self.surface.iter().rev().take_while(|node| node.seq >= from);
        let mut messages = nodes.map(|node| &node.message);
        messages.find(|message| message.role == Role::Assistant && !message.content.is_empty())
    }

    /// The number of the last turn; 0 before the first.
    pub fn last_turn(&self) -> u64 {
        self.last_turn
    }

    /// The settings that the log holds.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// Jobs as the log has them, oldest first.
    pub fn jobs(&self) -> &[JobRecord] {
        &self.jobs
    }

    /// Children that outlive their tasks, oldest first (L-72).
    pub fn children(&self) -> &[Catalogued] {
        &self.children
    }

    /// What a delegated session is, once it has said so (L-67).
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.descriptor.as_ref()
    }

    /// Keeps to the filters of what a session is.
    pub(crate) fn filter_tools(&mut self, described: &Descriptor) {
        for filter in described.filters() {
            if !self.tool_filters.contains(filter) {
                self.tool_filters.push(filter.clone());
            }
        }
    }

    /// Appends an event that is not on the surface.
    pub fn append(&mut self, now: u64, data: &Data<'_>) -> Event {
        self.push(now, data, None)
    }

    /// Appends `message` to the surface. `sources` are the seqs it was made from (S-82).
    pub fn append_surface(
        &mut self,
        now: u64,
        data: &Data<'_>,
        message: Arc<Message>,
        sources: Option<&[u64]>,
    ) -> Event {
        let event = self.push(now, data, Some(Surface { sources, replaces: None }));
        self.surface.push(Node { seq: event.seq, message });
        event
    }

    /// Puts `message` in the place of the surface nodes from `range.0` to `range.1` (L-8). Nothing is appended where
    /// that is not allowed.
    pub fn replace_surface(
        &mut self,
        now: u64,
        data: &Data<'_>,
        message: Arc<Message>,
        range: (u64, u64),
        sources: &[u64],
    ) -> Result<Event, ReplaceError> {
        let at = self.replaceable(&message, range, sources)?;
        let surface = Surface { sources: Some(sources), replaces: Some(range) };
        let event = self.push(now, data, Some(surface));
        self.put(at, event.seq, message);
        Ok(event)
    }

    fn put(&mut self, at: Range<usize>, seq: u64, message: Arc<Message>) {
        let hides = |of: u64| {
            self.surface
                .get(at.clone())
                .is_some_and(|hidden| hidden.iter().any(|node| node.seq == of))
        };
        if self.context.as_ref().is_some_and(|(of, _)| hides(*of)) {
            // A hidden snapshot counts as absent (L-96).
            self.context = None;
        }
        self.surface.splice(at, [Node { seq, message }]);
    }

    fn replaceable(
        &self,
        message: &Message,
        (start, end): (u64, u64),
        sources: &[u64],
    ) -> Result<Range<usize>, ReplaceError> {
        let place = |of: u64| self.surface.iter().position(|node| node.seq == of);
        let (Some(first), Some(last)) = (place(start), place(end)) else {
            return Err(ReplaceError::NoSuchNodes { start, end });
        };
        let Some(hidden) = self.surface.get(first..=last).filter(|hidden| !hidden.is_empty())
        else {
            return Err(ReplaceError::NoSuchNodes { start, end });
        };
        if let Some(node) = hidden.iter().find(|node| !sources.contains(&node.seq)) {
            return Err(ReplaceError::Unnamed { start, end, hidden: node.seq });
        }
        let mut named = HashSet::new();
        if let Some(seq) = sources.iter().find(|seq| **seq >= self.next_seq || !named.insert(**seq))
        {
            return Err(ReplaceError::Sources { start, end, seq: *seq });
        }
        if matches!(message.source, Source::Tool { .. }) {
            let [before] = hidden else { return Err(ReplaceError::NotItsResult { start, end }) };
            if !is_same_result(&before.message, message) {
                return Err(ReplaceError::NotItsResult { start, end });
            }
        }
        Ok(first..last + 1)
    }

    /// Drops the oldest of the ended jobs where there are too many (P-68).
    pub(crate) fn forget_old_jobs(&mut self) {
        let ended = self.jobs.iter().filter(|job| job.status.is_end()).count();
        let mut surplus = ended.saturating_sub(ENDED_JOBS_MAX);
        self.jobs.retain(|job| {
            let forgotten = surplus > 0 && job.status.is_end();
            surplus -= usize::from(forgotten);
            !forgotten
        });
    }

    /// Counts an event that is in the store already.
    pub(crate) fn stored(&mut self, time: u64) {
        self.next_seq += 1;
        self.last_time = time;
    }

    /// Puts a message of a stored event on the surface.
    pub(crate) fn surface(
        &mut self,
        seq: u64,
        message: Arc<Message>,
        replaces: Option<(u64, u64)>,
        sources: &[u64],
    ) -> Result<(), ReplaceError> {
        let at = match replaces {
            None => self.surface.len()..self.surface.len(),
            Some(range) => self.replaceable(&message, range, sources)?,
        };
        self.put(at, seq, message);
        Ok(())
    }

    fn push(&mut self, now: u64, data: &Data<'_>, surface: Option<Surface<'_>>) -> Event {
        let seq = self.next_seq;
        let event = Event {
            seq,
            time: now,
            kind: data.kind().into(),
            text: envelope(seq, now, data, surface),
        };
        self.next_seq += 1;
        self.last_time = now;
        event
    }
}

/// Whether one result of a tool is the other with another content (L-8).
fn is_same_result(before: &Message, after: &Message) -> bool {
    let result = |message: &Message| match message.content.as_slice() {
        [block] => match block.typed().as_ref() {
            Block::ToolResult { tool_call_id, is_error, .. } => {
                Some((tool_call_id.clone(), *is_error))
            }
            _ => None,
        },
        _ => None,
    };
    (&before.id, before.role, &before.source) == (&after.id, after.role, &after.source)
        && result(before).is_some()
        && result(before) == result(after)
}

#[cfg(test)]
mod tests;
