//! Whole snapshots of what a fold of the log gives: queue, jobs, permissions (`frames.md`, "Notices"). Each is
//! made when it changes and shown in its place of the release order, so that none tells of what is not durable yet
//! (decision 1h).

use std::sync::Arc;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, json};
use transom_frame::{Frame, SessionId};
use transom_harness::{
    agent::Agent,
    event::Target,
    jobs::JobRecord,
    message::{Message, Source},
};

use crate::{Effect, release::Item, request::Topic, router::Router, row::last_seq};

/// A message that waits (B-103).
#[derive(Debug, Clone)]
pub(crate) struct QueueItem {
    placement: &'static str,
    message: Arc<Message>,
}

impl Serialize for QueueItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut item = serializer.serialize_struct("QueueItem", 3)?;
        item.serialize_field("id", self.message.id.as_str())?;
        item.serialize_field("placement", self.placement)?;
        item.serialize_field("message", &*self.message)?;
        item.end()
    }
}

/// What waits in an inbox, the next to be claimed first.
pub(crate) fn queue(agent: &Agent) -> Arc<[QueueItem]> {
    let inbox = agent.inbox();
    let steering = inbox.list(Target::NextStep).iter().map(|message| {
        let human = matches!(message.source, Source::User { .. });
        (if human { "steering" } else { "context" }, message)
    });
    let queued = inbox.list(Target::NextTurn).iter().map(|message| ("queued", message));
    let items = steering.chain(queued);
    items
        .map(|(placement, message)| QueueItem { placement, message: Arc::clone(message) })
        .collect()
}

/// Jobs as they may be shown (P-68, P-81).
pub(crate) fn shown(jobs: &[JobRecord]) -> Value {
    let shown = |job: &JobRecord| JobRecord { label: job.short_label(), ..job.clone() };
    json!(jobs.iter().map(shown).collect::<Vec<_>>())
}

impl Router {
    pub(crate) fn show_queue(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let queue = queue(&session.agent);
        self.push_item(out, id, Item::Queue { session: id.clone(), queue });
    }

    pub(crate) fn show_jobs(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let jobs = session.agent.log().jobs().into();
        self.push_item(out, id, Item::Jobs { session: id.clone(), jobs });
    }

    pub(crate) fn show_permissions(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let seq = last_seq(session.agent.log().next_seq());
        let body =
            json!({ "key": "permissions", "value": session.agent.permissions(), "seq": seq });
        let frame = Frame::notice("session/projection", Some(id.clone()), body.to_string());
        self.notice(out, id, Topic::Projections, frame);
    }
}
