//! Whole snapshots of what a fold of the log gives: queue, jobs, permissions (`frames.md`, "Notices").

use serde::Serialize;
use serde_json::{Value, json};
use transom_frame::{Frame, SessionId};
use transom_harness::{
    event::Target,
    jobs::JobRecord,
    message::{Message, Source},
};

use crate::{Effect, request::Topic, router::Router, row::last_seq, sessions::Session};

/// A message that waits (B-103).
#[derive(Debug, Serialize)]
struct QueueItem<'a> {
    id: &'a str,
    placement: &'static str,
    message: &'a Message,
}

/// What waits in a session's inbox, the next to be claimed first.
pub(crate) fn queue(session: &Session) -> Value {
    let inbox = session.agent.inbox();
    let steering = inbox.list(Target::NextStep).iter().map(|message| {
        let human = matches!(message.source, Source::User { .. });
        (if human { "steering" } else { "context" }, message)
    });
    let queued = inbox.list(Target::NextTurn).iter().map(|message| ("queued", message));
    let items: Vec<_> = steering
        .chain(queued)
        .map(|(placement, message)| QueueItem { id: message.id.as_str(), placement, message })
        .collect();
    json!(items)
}

/// The jobs of a session, oldest first, as they may be shown (P-68, P-81).
pub(crate) fn jobs(session: &Session) -> Value {
    let shown = |job: &JobRecord| JobRecord { label: job.short_label(), ..job.clone() };
    json!(session.agent.log().jobs().iter().map(shown).collect::<Vec<_>>())
}

impl Router {
    pub(crate) fn show_queue(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        self.snapshot(
            out,
            id,
            Topic::Queue,
            "session/queue",
            |session| json!({ "items": queue(session) }),
        );
    }

    pub(crate) fn show_jobs(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        self.snapshot(
            out,
            id,
            Topic::Jobs,
            "session/jobs",
            |session| json!({ "jobs": jobs(session) }),
        );
    }

    pub(crate) fn show_permissions(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        self.snapshot(out, id, Topic::Projections, "session/projection", |session| {
            let seq = last_seq(session.agent.log().next_seq());
            json!({ "key": "permissions", "value": session.agent.permissions(), "seq": seq })
        });
    }

    /// Makes a snapshot only where somebody watches.
    fn snapshot(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        topic: Topic,
        name: &str,
        body: impl FnOnce(&Session) -> Value,
    ) {
        if self.watchers(id, topic).is_empty() {
            return;
        }
        let Some(session) = self.sessions.get(id) else { return };
        let frame = Frame::notice(name, Some(id.clone()), body(session).to_string());
        self.notice(out, id, topic, frame);
    }
}
