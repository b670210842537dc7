//! `session/queue` and `session/rename`: what peers may change of a session besides talking to it.

use serde_json::json;
use transom_frame::{Code, Failure, SessionId};
use transom_harness::{agent, block::Block};

use crate::{
    Effect,
    peer::Asked,
    request::{Queue, QueueAction},
    router::Router,
};

impl Router {
    pub(crate) fn change_queue(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        queue: Queue,
    ) {
        let Queue { item_id, action } = queue;
        let action = match action {
            QueueAction::Edit { content } => {
                let text = |block: &Block| matches!(block.typed().as_ref(), Block::Text { .. });
                if content.is_empty() || !content.iter().all(text) {
                    let issue = "a message that waits can be edited to text blocks only";
                    return self.refuse(out, &asked, &Failure::invalid(&[issue]));
                }
                agent::QueueAction::Edit(content)
            }
            QueueAction::Remove => agent::QueueAction::Remove,
            QueueAction::Steer => agent::QueueAction::Steer,
        };
        let changed = self.with_agent(out, now, id, |agent, effects| {
            agent.change_queue(effects, now, &item_id.into(), action)
        });
        match changed {
            Some(Err(failure)) => self.refuse(out, &asked, &failure),
            Some(Ok(())) | None => self.reply(out, id, asked, "{}"),
        }
    }

    /// Gives a session another title (B-154).
    pub(crate) fn rename(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        title: &str,
    ) {
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        if title.is_empty() {
            let failure = Failure::new(Code::TitleInvalid, "the title has nothing to show")
                .with("sessionId", id.as_str());
            return self.refuse(out, &asked, &failure);
        }
        let renamed =
            self.with_agent(out, now, id, |agent, effects| agent.rename(effects, now, &title));
        match renamed {
            Some(Ok(seq)) => {
                self.reply(out, id, asked, json!({ "title": title, "seq": seq }).to_string());
            }
            Some(Err(failure)) => self.refuse(out, &asked, &failure),
            None => {}
        }
    }
}
