//! What the store's word leads to: items are shown, what waited for durability begins, and a log that
//! cannot be written ends its sessions (decision 1).

use transom_frame::{Code, Failure, Frame, SessionId};
use transom_harness::{
    agent::{self, Happened, Live, Status, Token},
    chunk::LlmFailure,
    ports::Commit,
};

use crate::{Effect, release::Item, router::Router};

impl Router {
    /// Holds an effect back until everything before it is durable.
    pub(crate) fn checkpoint(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        effect: agent::Effect,
    ) {
        let behind = self.release.last(&self.root(id));
        if self.release.is_committed(behind) {
            out.extend(self.ready(id, effect));
        } else {
            self.deferrals += 1;
            self.deferred.insert((behind, self.deferrals), (id.clone(), effect));
        }
    }

    /// The effect as the driver performs it.
    fn ready(&self, id: &SessionId, effect: agent::Effect) -> Option<Effect> {
        match effect {
            agent::Effect::CallModel { token, request } => {
                let door = self.door(id);
                Some(Effect::CallModel { door, session: id.clone(), token, request })
            }
            agent::Effect::RunTool { token, call } => {
                Some(Effect::RunTool { session: id.clone(), token, call })
            }
            agent::Effect::AskHooks { token, ask } => {
                Some(Effect::AskHooks { session: id.clone(), token, ask })
            }
            agent::Effect::Observe(seen) => Some(Effect::Observe(seen)),
            _ => None,
        }
    }

    pub(crate) fn undefer(&mut self, id: &SessionId, stopped: Token) -> bool {
        let before = self.deferred.len();
        self.deferred.retain(|_, (session, effect)| match effect {
            agent::Effect::CallModel { token, .. }
            | agent::Effect::RunTool { token, .. }
            | agent::Effect::AskHooks { token, .. } => session != id || *token != stopped,
            _ => true,
        });
        self.deferred.len() < before
    }

    pub(crate) fn committed(&mut self, out: &mut Vec<Effect>, now: u64, commit: Commit) {
        match commit {
            Commit::Through(number) => {
                for item in self.release.committed(number) {
                    self.show(out, item);
                }
                self.let_go(out);
            }
            Commit::Failed { from, through, message } => {
                for (root, lost) in self.release.failed(from, through) {
                    self.lost(out, now, &root, lost, &message);
                }
            }
        }
        self.finish_ending(out);
    }

    fn let_go(&mut self, out: &mut Vec<Effect>) {
        while let Some(first) = self.deferred.first_entry() {
            let (behind, _) = *first.key();
            if !self.release.is_committed(behind) {
                break;
            }
            let (id, effect) = first.remove();
            out.extend(self.ready(&id, effect));
        }
    }

    /// A commit failed: nobody sees its events, who waited for them or watches is told, the agents end
    /// (decision 1g).
    fn lost(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        root: &SessionId,
        lost: Vec<Item>,
        message: &str,
    ) {
        let failure = Failure::new(
            Code::StoreFailed,
            format!("the session log could not be written: {message}"),
        );
        let members = self.in_order(|session| session.root == *root);
        self.deferred.retain(|_, (id, _)| !members.contains(id));
        let mut unborn = Vec::new();
        for item in lost {
            match item {
                Item::Event { .. }
                | Item::Notice { .. }
                | Item::Status { .. }
                | Item::Queue { .. }
                | Item::Jobs { .. }
                | Item::AskOpened { .. } => {}
                Item::Added { session, .. } => unborn.push(session),
                Item::Reply { connection, request, .. } => {
                    self.give(out, connection, Frame::failure(&request, &failure));
                }
                // Its last events are lost with it, but the session still leaves.
                Item::Left { session } => {
                    self.left(out, &session, Some(&failure.message));
                }
            }
        }
        for id in members {
            let lost_rest = self.lost_rest(&id);
            self.happened(out, now, &id, Happened::StoreFailed(failure.message.clone()));
            if let Some(turn) = lost_rest {
                let failure = LlmFailure::new("UNKNOWN", failure.message.clone());
                self.live(out, &id, Live::Error { turn, step: 0, failure, messages: Vec::new() });
                self.live(out, &id, Live::Status(Status::Idle));
            }
        }
        // Nobody has heard of these, and nobody will.
        self.dispose(out, now, &unborn);
    }

    /// An agent that runs tells itself how its turn ends. One that has come to rest meanwhile has done so already, but
    /// that was lost, and who watches would wait for it for ever. Gives the turn.
    fn lost_rest(&self, id: &SessionId) -> Option<u64> {
        let session = self.sessions.get(id)?;
        let rests = session.agent.status() == Status::Idle;
        (session.running && rests).then(|| session.agent.log().last_turn())
    }
}
