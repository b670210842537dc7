//! A child of an earlier life comes back from the store because its parent writes to it (L-72, L-80): claimed, read,
//! restored, and put below its parent again. What it is then told is `children.rs`.

use std::sync::Arc;

use transom_frame::SessionId;
use transom_harness::{
    agent::{Agent, Cap},
    chance::Chance,
    event::Event,
    header::{Header, Origin},
    ports::{Page, Route, StoreError, StoredSession},
    subagents::{ChildCode, ChildRefused},
};

use crate::{
    Claimed, Effect, OrderId, Question,
    answers::Pending,
    delegations::routed,
    router::Router,
    sessions::{Session, Work},
};

/// A child on its way back.
#[derive(Debug)]
pub(crate) struct Revival {
    parent: SessionId,
    /// Which life of the parent wants it.
    life: u64,
    /// What it will be told, in order.
    messages: Vec<(OrderId, String)>,
}

impl Router {
    /// How many children are on their way back to a session.
    pub(crate) fn reviving_for(&self, parent: &SessionId) -> usize {
        self.reviving.values().filter(|revival| revival.parent == *parent).count()
    }

    /// Brings a stored child back, to be told something.
    pub(crate) fn revive(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        parent: &SessionId,
        child: SessionId,
        order: OrderId,
        text: String,
    ) {
        if let Some(revival) = self.reviving.get_mut(&child) {
            return revival.messages.push((order, text));
        }
        let room = match self.opening.contains_key(&child) {
            true => ChildCode::NotResumable
                .refuse(format!("subagent {child} is being opened as a session of its own")),
            false => self
                .make_room(out, now, parent)
                .map_err(|message| ChildRefused { code: ChildCode::Overloaded, message }),
        };
        if let Err(refused) = room {
            return out.push(Effect::Ordered { order, result: Err(refused) });
        }
        let Some(session) = self.sessions.get(parent) else { return };
        let revival =
            Revival { parent: parent.clone(), life: session.life, messages: vec![(order, text)] };
        self.reviving.insert(child.clone(), revival);
        self.ask(out, Question::Claim(child.clone()), Pending::ReviveClaim(child));
    }

    pub(crate) fn revival_claimed(
        &mut self,
        out: &mut Vec<Effect>,
        child: SessionId,
        claimed: Result<Claimed, StoreError>,
    ) {
        let refused = match claimed {
            Ok(Claimed::Here(Some(stored))) => {
                let page = Page::events(0, stored.events);
                let question = Question::Read { session: child.clone(), page };
                return self.ask(out, question, Pending::ReviveRead(child, stored));
            }
            Ok(Claimed::Here(None)) => not_resumable(&child, "nothing of it is stored"),
            Ok(Claimed::Elsewhere) => not_resumable(&child, "it is live in another process"),
            Err(error) => unreadable(&child, &error),
        };
        self.fail_revival(out, &child, &refused);
    }

    pub(crate) fn revival_read(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        child: SessionId,
        stored: &StoredSession,
        events: Result<Vec<Arc<str>>, StoreError>,
    ) {
        let restored = match events {
            Err(error) => Err(unreadable(&child, &error)),
            Ok(events) if events.len() as u64 != stored.events => {
                Err(not_resumable(&child, "its log is not whole"))
            }
            Ok(events) => self.restored(now, &child, stored, &events),
        };
        match restored {
            Err(refused) => self.fail_revival(out, &child, &refused),
            Ok((agent, stored)) => self.revived(out, now, child, agent, stored),
        }
    }

    fn restored(
        &mut self,
        now: u64,
        child: &SessionId,
        stored: &StoredSession,
        events: &[Arc<str>],
    ) -> Result<(Agent, Vec<Event>), ChildRefused> {
        let header = Header::parse(&stored.header).map_err(|why| not_resumable(child, &why))?;
        let revival = self.reviving.get(child);
        let parent = revival.and_then(|revival| self.sessions.get(&revival.parent));
        let Some(parent) = parent else { return Err(gone(child)) };
        let is_its = header.origin == Some(Origin::Subagent)
            && header.parent_session.as_ref() == Some(parent.agent.id());
        if !is_its {
            return Err(not_resumable(child, "it is the child of another session"));
        }
        let route = parent.agent.route().clone();
        let chance = Chance::new(self.chance.split());
        let config = Arc::clone(&self.config);
        let (mut agent, mut closers) = Agent::restore(header, events, route, config, chance, now)
            .map_err(|error| not_resumable(child, &error.to_string()))?;
        if !agent.is_continuable() {
            return Err(not_resumable(
                child,
                "its log does not say that it takes further messages",
            ));
        }
        // Commands of the tree may have put something else in a directory's place since (P-5), so what counts is where
        // the parent stands. What any other path leads to now is nobody's word for where the child stood.
        if agent.cwd() != parent.agent.cwd() {
            return Err(not_resumable(child, "its directory is not that of its parent"));
        }
        agent.pin_root(parent.agent.root().map(str::to_owned));
        let descriptor = agent.descriptor();
        let own = Route {
            provider: descriptor.and_then(|own| own.agent_provider.clone()),
            model: descriptor.and_then(|own| own.agent_model.clone()),
            ..Route::default()
        };
        agent.keep_own_route(routed(parent.agent.route(), &own));
        let most = parent.agent.access().mode.min(self.host.kept_mode_max);
        closers.extend(agent.capped(now, most, Cap::Delegation));
        closers.extend(agent.pin(now));
        Ok((agent, closers))
    }

    /// Its log is read: it is live, and told what it came back for.
    fn revived(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        child: SessionId,
        agent: Agent,
        stored: Vec<Event>,
    ) {
        let full = self.host_is_full();
        let Some(revival) = self.reviving.get(&child) else { return };
        let (parent, life) = (revival.parent.clone(), revival.life);
        let session = self.sessions.get(&parent).filter(|session| session.life == life);
        let Some(above) = session.filter(|_| self.may_order(&parent).is_ok()) else {
            return self.fail_revival(out, &child, &gone(&child));
        };
        if let Some(full) = full {
            let refused = ChildRefused { code: ChildCode::Overloaded, message: full.message };
            return self.fail_revival(out, &child, &refused);
        }
        self.lives += 1;
        let (owner, door) = (above.owner, Arc::clone(&above.door));
        let work = Work::Kept { settled: true };
        let session = Session::new(agent, owner, Some(above), self.lives, door, work);
        let Some(revival) = self.reviving.remove(&child) else { return };
        self.publish(out, session, stored);
        for (order, text) in revival.messages {
            let result = self.give_turn(out, now, &parent, &child, text);
            out.push(Effect::Ordered { order, result });
        }
    }

    /// The child does not come back, and everybody who has written to it learns why.
    pub(crate) fn fail_revival(
        &mut self,
        out: &mut Vec<Effect>,
        child: &SessionId,
        refused: &ChildRefused,
    ) {
        let Some(revival) = self.reviving.remove(child) else { return };
        out.push(Effect::Release { session: child.clone() });
        for (order, _) in revival.messages {
            out.push(Effect::Ordered { order, result: Err(refused.clone()) });
        }
    }
}

fn not_resumable(child: &SessionId, why: &str) -> ChildRefused {
    let message = format!("subagent {child} cannot be gone on with: {why}");
    ChildRefused { code: ChildCode::NotResumable, message }
}

pub(crate) fn unreadable(child: &SessionId, error: &StoreError) -> ChildRefused {
    let message = format!("subagent {child} cannot be read from the store: {error}");
    ChildRefused { code: ChildCode::PersistenceUnavailable, message }
}

fn gone(child: &SessionId) -> ChildRefused {
    let message = format!("the session that wants subagent {child} back is going away");
    ChildRefused { code: ChildCode::Draining, message }
}
