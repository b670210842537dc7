//! What may be done with messages that wait: thrown away, changed, moved into the running turn
//! (L-21, L-47, decision 46).

use std::sync::Arc;

use transom_frame::{Code, Failure, MessageId};

use super::{Agent, Effect, Live};
use crate::{
    block::Block,
    event::{Data, Discarded, Target, TitleSource},
    message::Message,
};

/// What is done with one waiting message.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueAction {
    /// Its content is another; id, source and place stay.
    Edit(Vec<Block>),
    /// It is thrown away.
    Remove,
    /// It enters with the next step of the running turn.
    Steer,
}

impl Agent {
    /// Changes one message that waits for a turn of its own. Wakes nobody (B-153).
    pub fn change_queue(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &MessageId,
        action: QueueAction,
    ) -> Result<(), Failure> {
        self.takes_changes()?;
        let waits = |target| self.inbox.list(target).iter().position(|message| message.id == *id);
        let (target, start) = match (waits(Target::NextTurn), waits(Target::NextStep)) {
            (Some(at), _) => (Target::NextTurn, at),
            (None, Some(at)) => (Target::NextStep, at),
            (None, None) => {
                let text = format!("no message \"{id}\" waits in session \"{}\"", self.id());
                return Err(Failure::new(Code::QueueItemNotFound, text).with("itemId", id.as_str()));
            }
        };
        if action == QueueAction::Steer && (target == Target::NextStep || !self.is_running()) {
            let text = "only a message that waits for a turn of its own can be moved, and only into a running turn";
            return Err(Failure::new(Code::SteerUnavailable, text).with("itemId", id.as_str()));
        }
        let Some(message) = self.inbox.list(target).get(start).cloned() else { return Ok(()) };
        match action {
            QueueAction::Edit(content) => {
                let changed = Arc::new(Message { content, ..Message::clone(&message) });
                self.splice(out, now, target, start, 1, vec![changed], Some(Discarded::Canceled));
            }
            QueueAction::Remove => {
                self.splice(out, now, target, start, 1, Vec::new(), Some(Discarded::Canceled));
                let messages = vec![message.id.clone()];
                out.push(Effect::Live(Live::Discarded { messages }));
            }
            QueueAction::Steer => {
                self.splice(out, now, target, start, 1, Vec::new(), None);
                let end = self.inbox.list(Target::NextStep).len();
                self.splice(out, now, Target::NextStep, end, 0, vec![message], None);
            }
        }
        self.show_queue(out);
        Ok(())
    }

    /// Gives the session another title, which must not be blank. Gives the event's `seq` (B-154).
    pub fn rename(&mut self, out: &mut Vec<Effect>, now: u64, title: &str) -> Result<u64, Failure> {
        self.takes_changes()?;
        let data = Data::SessionTitle { title, message_seqs: &[], source: TitleSource::User };
        let event = self.log.append(now, &data);
        let seq = event.seq;
        out.push(Effect::Append(event));
        self.log.titled = true;
        Ok(seq)
    }

    #[expect(clippy::too_many_arguments, reason = "they are the members of one event")]
    pub(super) fn splice(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        target: Target,
        start: usize,
        removed: usize,
        inserted: Vec<Arc<Message>>,
        outcome: Option<Discarded>,
    ) {
        let data = Data::InboxSpliced {
            target,
            start,
            removed_count: (removed > 0).then_some(removed),
            inserted: &inserted,
            outcome,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.inbox.splice(target, start, removed, inserted);
        self.inbox_changed = true;
    }

    pub(super) fn discard(&mut self, out: &mut Vec<Effect>, now: u64, target: Target) {
        let removed = self.inbox.take(target, usize::MAX);
        if removed.is_empty() {
            return;
        }
        let data = Data::InboxSpliced {
            target,
            start: 0,
            removed_count: Some(removed.len()),
            inserted: &[],
            outcome: Some(Discarded::Canceled),
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.inbox_changed = true;
        let messages = removed.iter().map(|message| message.id.clone()).collect();
        out.push(Effect::Live(Live::Discarded { messages }));
    }
}
