//! Routes that prompts bring along: each holds from the turn that claims its message on (decision 48). They are this
//! life's; a session that is restored goes on with the route that its log names last.

use std::collections::BTreeMap;

use transom_frame::{Failure, MessageId};

use super::{Agent, Delivery, Effect};
use crate::{
    block::Block,
    message::{Message, Role, Source},
    ports::Route,
};

/// What waiting messages want to be answered by.
#[derive(Debug, Default)]
pub(super) struct Routes(BTreeMap<MessageId, Route>);

impl Agent {
    /// A user's message that is to be answered on `route`, and what follows it as well. Like [`Agent::prompt`] otherwise.
    pub fn prompt_on(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        content: Vec<Block>,
        source: Source,
        delivery: Delivery,
        route: Route,
    ) -> Result<MessageId, Failure> {
        let id = self.chance.message_id();
        let message = Message { id: id.clone(), role: Role::User, content, source };
        // Before it is sent: an agent at rest claims it at once.
        self.routes.0.insert(id.clone(), route);
        let sent = self.send(out, now, message, delivery);
        self.routes.0.retain(|id, _| self.inbox.holds(id));
        sent.map(|()| id)
    }

    /// A turn has claimed these messages.
    pub(super) fn take_routes(&mut self, claimed: &[MessageId]) {
        for id in claimed {
            if let Some(route) = self.routes.0.remove(id) {
                self.route = route;
            }
        }
    }
}
