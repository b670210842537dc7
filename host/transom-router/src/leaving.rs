//! Sessions on their way out: disposed in the time of a teardown, children before their parents, gone once
//! their logs are closed and durable (L-51, L-72, decision 15).

use std::collections::HashSet;

use transom_frame::{Frame, SessionId};

use crate::{
    Effect,
    release::Item,
    request::Topic,
    router::{Router, TEARDOWN_DRAIN_MS, TEARDOWN_KILL_MS, disposed},
    sessions::{Session, Stage, Work},
};

impl Router {
    /// Ends sessions, and all that work for them, in the time of a teardown; each leaves once its log is closed and
    /// durable.
    pub(crate) fn dispose(&mut self, out: &mut Vec<Effect>, now: u64, ids: &[SessionId]) {
        let mut seen = HashSet::new();
        let mut all: Vec<SessionId> = ids.iter().flat_map(|id| self.with_descendants(id)).collect();
        all.retain(|id| {
            seen.insert(id.clone())
                && self.sessions.get_mut(id).is_some_and(|live| {
                    live.stage == Stage::Live && {
                        live.stage = Stage::Leaving;
                        true
                    }
                })
        });
        for id in &all {
            out.push(Effect::TerminateTools {
                session: id.clone(),
                kill_after_ms: TEARDOWN_KILL_MS,
            });
            self.with_agent(out, now, id, |agent, effects| {
                agent.dispose(effects, now, TEARDOWN_DRAIN_MS)
            });
        }
    }

    /// A session whose agent is gone leaves once all that worked for it have left (L-72).
    pub(crate) fn leave_behind_children(&mut self, out: &mut Vec<Effect>, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.stage == Stage::Ended && session.children.is_empty() {
            session.stage = Stage::Last;
            self.push_item(out, id, Item::Left { session: id.clone() });
        }
    }

    /// The session's place in the release order is reached, and nothing of it follows: it leaves the registries.
    /// `failure` says why its log is not closed.
    pub(crate) fn left(&mut self, out: &mut Vec<Effect>, id: &SessionId, failure: Option<&str>) {
        let Some(session) = self.sessions.get(id) else { return };
        let jobs = !session.jobs.is_empty();
        // Shown at once: what else its tree still waits for stands behind this.
        self.close_asks_of(out, id);
        if jobs {
            let jobs = Vec::new().into();
            self.show(out, Item::Jobs { session: id.clone(), jobs });
        }
        let frame = Frame::notice("session/removed", Some(id.clone()), r#"{"why":"disposed"}"#);
        self.show(out, Item::Notice { session: id.clone(), topic: Topic::Sessions, frame });
        let Some(session) = self.sessions.remove(id) else { return };
        self.forget_subscriptions(id);
        // What it held back is let go behind this, and would begin when all of it has been ended.
        self.deferred.retain(|_, (session, _)| session != id);
        out.push(Effect::ForgetTools { session: id.clone() });
        out.push(Effect::Release { session: id.clone() });
        let parent = session.parent().cloned();
        let Session { agent, owner, root, door, work, waits, tree_waits, closes, waiting, .. } =
            session;
        match (work, &parent) {
            (Work::Done(run, event), _) => out.push(Effect::Delegated { run, event }),
            (Work::Kept { settled: false }, Some(parent)) if failure.is_none() => {
                self.settle_leaving(out, self.now, parent, &agent);
            }
            (Work::None | Work::UnderWay(_) | Work::Kept { .. }, _) => {}
        }
        let unbegun = waiting.into_iter().flatten().map(|(asked, _)| asked);
        for asked in waits.into_iter().chain(tree_waits).chain(unbegun) {
            self.refuse(out, &asked, &disposed(id));
        }
        for asked in closes {
            self.give(out, asked.connection, Frame::reply(&asked.frame, None, "{}"));
        }
        if let Some(why) = failure.or(agent.broken()) {
            if let Some(peer) = owner.and_then(|owner| self.peers.get_mut(&owner)) {
                peer.failures.push(why.to_owned());
            }
            if let Some(ending) = &mut self.ending {
                ending.failures.push(why.to_owned());
            }
        }
        match parent {
            Some(parent) => {
                if let Some(parent) = self.sessions.get_mut(&parent) {
                    parent.children.retain(|child| child != id);
                }
                self.tree_rests(out, &root);
                // It may have waited for this one only.
                self.run_rests(out, self.now, &parent);
                self.child_rests(out, self.now, &parent);
                self.leave_behind_children(out, &parent);
            }
            None => {
                self.release.forget(id);
                if let Some(open) = self.by_door.get_mut(&door) {
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        self.by_door.remove(&door);
                    }
                }
            }
        }
        if let Some(owner) = owner {
            self.finish_teardown(out, owner);
        }
        self.finish_ending(out);
    }

    /// Subscriptions are to one life of a session (decision 17).
    fn forget_subscriptions(&mut self, id: &SessionId) {
        for me in &self.broad {
            if let Some(peer) = self.peers.get_mut(me) {
                peer.subscriptions.retain(|kept| kept.session.as_ref() != Some(id));
            }
        }
    }
}
