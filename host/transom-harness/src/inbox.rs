//! Pending input of an agent: two lists, changed by splices that the log records (L-20, L-21).

use std::sync::Arc;

use transom_frame::MessageId;

use crate::{event::Target, message::Message};

/// Messages that nobody has claimed yet.
#[derive(Debug, Default)]
pub struct Inbox {
    next_turn: Vec<Arc<Message>>,
    next_step: Vec<Arc<Message>>,
}

impl Inbox {
    /// The messages of one list, the next to be claimed first.
    pub fn list(&self, target: Target) -> &[Arc<Message>] {
        match target {
            Target::NextTurn => &self.next_turn,
            Target::NextStep => &self.next_step,
        }
    }

    /// Whether both lists are.
    pub fn is_empty(&self) -> bool {
        self.next_turn.is_empty() && self.next_step.is_empty()
    }

    /// Messages in both lists together.
    pub fn len(&self) -> usize {
        self.next_turn.len() + self.next_step.len()
    }

    /// Whether a message of this id waits in either list.
    pub fn holds(&self, id: &MessageId) -> bool {
        self.next_turn.iter().chain(&self.next_step).any(|message| message.id == *id)
    }

    pub(crate) fn push(&mut self, target: Target, message: Arc<Message>) {
        self.list_mut(target).push(message);
    }

    /// Does what a stored splice did. `false` where it does not fit the list.
    pub(crate) fn splice(
        &mut self,
        target: Target,
        start: usize,
        removed: usize,
        inserted: Vec<Arc<Message>>,
    ) -> bool {
        let list = self.list_mut(target);
        let Some(end) = start.checked_add(removed).filter(|end| *end <= list.len()) else {
            return false;
        };
        list.splice(start..end, inserted);
        true
    }

    /// Takes `count` messages from the front.
    pub(crate) fn take(&mut self, target: Target, count: usize) -> Vec<Arc<Message>> {
        let list = self.list_mut(target);
        list.drain(..count.min(list.len())).collect()
    }

    fn list_mut(&mut self, target: Target) -> &mut Vec<Arc<Message>> {
        match target {
            Target::NextTurn => &mut self.next_turn,
            Target::NextStep => &mut self.next_step,
        }
    }
}
