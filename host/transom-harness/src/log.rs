//! The log of one session and what is folded from it: the next sequence number, the surface, the
//! counters. Appending makes the event's text; making it durable is the store's.

use std::sync::Arc;

use crate::{
    event::{Data, Event, RequestHeader, Surface, envelope},
    header::Header,
    message::Message,
};

/// A session's log. Holds no events, only what later events depend on.
#[derive(Debug)]
pub struct Log {
    header: Arc<Header>,
    next_seq: u64,
    last_time: u64,
    /// The conversation as the next request will show it (L-9).
    surface: Vec<Arc<Message>>,
    pub(crate) last_turn: u64,
    pub(crate) titled: bool,
    pub(crate) request_header: Option<RequestHeader>,
    /// Whether there is any `request/header`.
    pub(crate) has_header: bool,
    /// The log was continued, and no request has been made since.
    pub(crate) resumed: bool,
    /// Provider, model and window of the last `request/context`.
    pub(crate) request_context: Option<(String, String, Option<u64>)>,
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
        self.surface.iter().filter(|message| !message.content.is_empty()).cloned().collect()
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
        let event = self.push(now, data, Some(Surface { sources }));
        self.surface.push(message);
        event
    }

    /// Counts an event that is in the store already.
    pub(crate) fn stored(&mut self, time: u64) {
        self.next_seq += 1;
        self.last_time = time;
    }

    /// Puts a message of a stored event on the surface.
    pub(crate) fn surface(&mut self, message: Arc<Message>) {
        self.surface.push(message);
    }

    fn push(&mut self, now: u64, data: &Data<'_>, surface: Option<Surface<'_>>) -> Event {
        let seq = self.next_seq;
        let event =
            Event { seq, time: now, kind: data.kind(), text: envelope(seq, now, data, surface) };
        self.next_seq += 1;
        self.last_time = now;
        event
    }
}
