//! Which children a parent has not heard of since it gave them work, as its log has it, and what it is told of those
//! when it is continued: whatever they did ended with the host (P-78, P-80). How they are continued is the router's.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::{Envelope, Restored, read};
use crate::{
    message::{Message, Source},
    subagents::{Catalogued, interrupted},
};

/// The tool by which a parent gives a child another turn (L-72).
const WRITES: &str = "send_message";

/// Children that have work of which their parent has not heard the end.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    children: BTreeSet<String>,
    /// Children whose parent has heard of an end.
    heard: BTreeSet<String>,
    /// Calls that write to a child and have no result yet, by their ids.
    writing: HashMap<String, Writing>,
}

/// A call that writes to a child.
#[derive(Debug)]
struct Writing {
    child: String,
    /// The child had work already.
    had_work: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    call_id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Arguments {
    subagent_id: String,
}

impl Awaited {
    /// A child has been given its task. One that took none has come to rest, and said so, ahead of its catalogue entry.
    pub(super) fn born(&mut self, child: &str) {
        if !self.heard.contains(child) {
            self.children.insert(child.to_owned());
        }
    }

    /// A call has begun. If it writes to a child, that may be at work before the call has its result; so it counts from
    /// here on.
    pub(super) fn called(&mut self, envelope: &Envelope<'_>) {
        let Ok(Call { call_id, name, arguments }) = read(envelope) else { return };
        if name != WRITES {
            return;
        }
        let Ok(Arguments { subagent_id: child }) = serde_json::from_str(&arguments) else { return };
        let had_work = !self.children.insert(child.clone());
        self.writing.insert(call_id, Writing { child, had_work });
    }

    /// A call has its result. A child that was refused the message has what it had. One that had work and was told of in
    /// between has ended that, and now has the message; the notice of one that had none was of this.
    pub(super) fn answered(&mut self, call_id: &str, is_error: bool) {
        let Some(Writing { child, had_work }) = self.writing.remove(call_id) else { return };
        match (is_error, had_work) {
            (true, false) => {
                self.children.remove(&child);
            }
            (false, true) => {
                self.children.insert(child);
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Messages have come, perhaps with the end of a child's work.
    pub(super) fn told(&mut self, messages: &[Message]) {
        for message in messages {
            if let Source::SubagentSettled { sender_session_id, .. } = &message.source {
                self.children.remove(sender_session_id);
                self.heard.insert(sender_session_id.clone());
            }
        }
    }
}

impl Restored {
    /// Children that worked when the host stopped: their parent is told of each, and not woken.
    pub(super) fn lose_children(&mut self) {
        let awaited = std::mem::take(&mut self.awaited).children;
        let of = |kept: &&Catalogued| awaited.contains(kept.child.as_str());
        let lost: Vec<Catalogued> = self.log.children.iter().filter(of).cloned().collect();
        for Catalogued { child, label } in lost {
            let (source, content) = interrupted(&child, &label);
            let id = format!("lost-subagent-{child}-{}", self.log.next_seq());
            self.leave_word(id, content, source);
        }
    }
}
