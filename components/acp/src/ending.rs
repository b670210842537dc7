//! How a conversation ends: everybody who waits is answered.

use std::mem;

use transom_guest::{Outputs, jsonrpc::RequestId};

use crate::{
    conversation::Conversation,
    desk::Opening,
    slot::{Outcome, Stop},
    state::{Memory, Pending, Subscription},
    translate::{self, Refusal},
};

impl Conversation {
    /// Everybody who waits is answered, and nothing is read any more. What the connection owns is cancelled and
    /// disposed by the host, whatever this side does (decision 15).
    pub(crate) fn end(&mut self, out: &mut Outputs, heard: bool, reason: &str) {
        let closed = Memory::new(self.memory.surface);
        let memory = mem::replace(&mut self.memory, closed);
        self.memory.closed = true;
        if heard {
            let waiting = match memory.subscription {
                Subscription::Asked(waiting) => waiting,
                Subscription::None | Subscription::Made => Vec::new(),
            };
            let refused = |request: &RequestId, method: &str| {
                translate::error(request, &Refusal::closed_during(method))
            };
            let opens = |resumes: bool| if resumes { "session/resume" } else { "session/new" };
            for pending in memory.pending.into_values() {
                match pending {
                    Pending::Open { request: Some(request), resumes } => {
                        out.unit(refused(&request, opens(resumes.is_some())));
                    }
                    Pending::List { request: Some(request) } => {
                        out.unit(refused(&request, "session/list"));
                    }
                    Pending::Check { request } => {
                        let agent = translate::agent(&self.options, false);
                        out.unit(translate::result(&request, &agent));
                    }
                    _ => {}
                }
            }
            for wanted in waiting {
                out.unit(refused(&wanted.request, opens(wanted.resumes.is_some())));
            }
            let mut closing = Vec::new();
            let mut slots = Vec::new();
            for session in memory.sessions.into_values() {
                slots.extend(session.slot);
                let Some(desk) = session.desk else { continue };
                closing.extend(desk.closing);
                if let Some(Opening { request: Some(request), resumes, .. }) = desk.opening {
                    out.unit(refused(&request, opens(resumes)));
                }
            }
            // In the order in which they were prompted.
            slots.sort_by_key(|slot| slot.number);
            for slot in slots {
                out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
            }
            for request in closing {
                out.unit(translate::result(&request, "{}"));
            }
        }
        out.close(reason);
    }
}
