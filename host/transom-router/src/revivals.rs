//! A child of an earlier life comes back from the store because its parent writes to it (L-72, L-80): claimed, read,
//! restored, and put below its parent again. What it is then told is `children.rs`.

use std::sync::Arc;

use transom_frame::SessionId;
use transom_harness::{
    agent::Agent,
    chance::Chance,
    event::Event,
    header::{Header, Origin},
    ports::{Page, StoreError, StoredSession},
    subagents::{ChildCode, ChildRefused},
};

use crate::{
    Claimed, Effect, OrderId, Question,
    answers::Pending,
    openings::Born,
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
            Ok((agent, stored)) => {
                let directory = agent.cwd().unwrap_or(&self.host.directory).to_owned();
                let born = Box::new(Born { agent, stored, created: false });
                let pending = Pending::ReviveLook(child, born);
                self.ask(out, Question::Directory(directory), pending);
            }
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
        agent.keep_route();
        closers.extend(agent.pin(now));
        Ok((agent, closers))
    }

    /// It is known where its directory really stands: it is live, and told what it came back for.
    pub(crate) fn revival_looked_at(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        child: SessionId,
        mut born: Born,
        found: Option<String>,
    ) {
        if let Err(failure) = self.pin_root("session/open", &mut born.agent, found) {
            let refused = not_resumable(&child, &failure.message);
            return self.fail_revival(out, &child, &refused);
        }
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
        let session = Session::new(born.agent, owner, Some(above), self.lives, door, work);
        let Some(revival) = self.reviving.remove(&child) else { return };
        self.publish(out, session, born.stored);
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
