//! `session/fork`: a new session that begins with the completed turns of another (L-11, B-155). The source is only
//! read; it may leave meanwhile.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use transom_frame::{Code, ConnectionId, Failure, SessionId};
use transom_harness::{
    agent::{Agent, Cap, Partial},
    chance::Chance,
    event::Event,
    header::Header,
    ports::{Page, Route, StoreError},
};

use crate::{
    Claimed, Effect, Question,
    answers::{Pending, store_failed},
    openings::{Born, exists},
    peer::Asked,
    request::Fork,
    router::{Router, not_found, shutting_down},
    sessions::{Session, Work},
};

/// A fork under way: what it takes over from its source besides events.
#[derive(Debug)]
pub(crate) struct Forking {
    pub(crate) asked: Asked,
    source: SessionId,
    at_seq: Option<u64>,
    /// How many events of the source are shown.
    released: u64,
    header: Header,
    route: Route,
    /// Whoever has asked for it; the host, if it has the source.
    owner: Option<ConnectionId>,
    door: Arc<str>,
    partial: Partial,
    /// Directory and root of the source.
    place: (Option<String>, Option<String>),
}

/// The members of an event that a copy needs.
#[derive(Deserialize)]
struct Copied<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    seq: u64,
    time: u64,
}

impl Router {
    pub(crate) fn fork(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        fork: &Fork,
    ) {
        let Some(session) = self.sessions.get(id) else {
            return self.refuse(out, &asked, &not_found(id));
        };
        if let Some(full) = self.no_room_for_fork(asked.connection, &session.door) {
            return self.refuse(out, &asked, &full);
        }
        let header = Header {
            id: self.chance.uuid().into(),
            created_at: now,
            parent_session: Some(id.clone()),
            origin: None,
            ..Header::clone(session.agent.header())
        };
        let released = session.released;
        let forking = Forking {
            source: id.clone(),
            at_seq: fork.at_seq,
            released,
            header,
            route: session.agent.route().clone(),
            owner: session.owner.map(|_| asked.connection),
            door: Arc::clone(&session.door),
            partial: session.agent.partial(),
            place: (
                session.agent.cwd().map(str::to_owned),
                session.agent.root().map(str::to_owned),
            ),
            asked,
        };
        let page = Page::events(0, released);
        let question = Question::Read { session: id.clone(), page };
        self.ask(out, question, Pending::ForkRead(forking));
    }

    fn no_room_for_fork(&self, connection: ConnectionId, door: &Arc<str>) -> Option<Failure> {
        let peer = self.peers.get(&connection).filter(|peer| !peer.closing);
        let Some(peer) = peer.filter(|_| self.ending.is_none()) else {
            return Some(shutting_down());
        };
        self.is_full(door, peer.facts.sessions_max)
    }

    /// The source's events are here: the cut is behind a turn that has ended.
    pub(crate) fn fork_read(
        &mut self,
        out: &mut Vec<Effect>,
        mut forking: Forking,
        events: Result<Vec<Arc<str>>, StoreError>,
    ) {
        let mut events = match events {
            Ok(events) => events,
            Err(error) => return self.refuse(out, &forking.asked, &store_failed(&error)),
        };
        if events.len() as u64 != forking.released {
            let (read, shown) = (events.len(), forking.released);
            let text = format!("the session log holds {read} events where {shown} were shown");
            return self.refuse(out, &forking.asked, &Failure::new(Code::StoreFailed, text));
        }
        let Some(cut) = cut(&events, forking.at_seq) else {
            let text =
                format!("session \"{}\" has no completed turn to fork behind", forking.source);
            let failure = fork_unavailable(&forking, text);
            return self.refuse(out, &forking.asked, &failure);
        };
        events.truncate(cut);
        forking.header.seed_length = Some(cut as u64);
        let id = forking.header.id.clone();
        self.ask(out, Question::Claim(id), Pending::ForkClaim(forking, events));
    }

    pub(crate) fn fork_claimed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        forking: Forking,
        events: &[Arc<str>],
        claimed: Result<Claimed, StoreError>,
    ) {
        let id = &forking.header.id;
        let born = match claimed {
            Err(error) => Err(store_failed(&error)),
            Ok(Claimed::Elsewhere | Claimed::Here(Some(_))) => Err(exists(id)),
            Ok(Claimed::Here(None)) => self.forked(now, &forking, events),
        };
        match born {
            Err(failure) => self.fail_fork(out, &forking, &failure),
            // It may have been elsewhere at the time of the cut.
            Ok(born) => {
                let directory = born.agent.cwd().unwrap_or(&self.host.directory).to_owned();
                let pending = Pending::ForkWorkspace(forking, Box::new(born));
                self.ask(out, Question::Directory(directory), pending);
            }
        }
    }

    fn forked(
        &mut self,
        now: u64,
        forking: &Forking,
        events: &[Arc<str>],
    ) -> Result<Born, Failure> {
        let chance = Chance::new(self.chance.split());
        let (header, route) = (forking.header.clone(), forking.route.clone());
        let (mut agent, closers) =
            Agent::fork(header, events, route, Arc::clone(&self.config), chance, now)
                .map_err(|error| fork_unavailable(forking, error.to_string()))?;
        agent.set_partial(forking.partial);
        let mut stored: Vec<_> = events.iter().filter_map(copy).collect();
        stored.extend(closers);
        stored.extend(agent.capped(now, self.host.kept_mode_max, Cap::Ceiling));
        stored.extend(agent.pin(now));
        Ok(Born { agent, stored, created: true })
    }

    /// It is known where the directory of a fork really stands.
    pub(crate) fn fork_looked_at(
        &mut self,
        out: &mut Vec<Effect>,
        forking: Forking,
        mut born: Born,
        found: Option<String>,
    ) {
        // Commands of the source may have put something else in its directory's place.
        let root = match &forking.place {
            (cwd, Some(root)) if cwd.as_deref() == born.agent.cwd() => Some(root.clone()),
            (_, _) => found,
        };
        match self.pin_root("session/fork", &mut born.agent, root) {
            Err(failure) => self.fail_fork(out, &forking, &failure),
            Ok(()) => self.publish_fork(out, forking, born),
        }
    }

    fn publish_fork(&mut self, out: &mut Vec<Effect>, forking: Forking, born: Born) {
        if let Some(full) = self.no_room_for_fork(forking.asked.connection, &forking.door) {
            return self.fail_fork(out, &forking, &full);
        }
        let Forking { asked, owner, door, header, .. } = forking;
        let id = header.id;
        self.lives += 1;
        let session = Session::new(born.agent, owner, None, self.lives, door, Work::None);
        let life = session.life;
        self.publish(out, session, born.stored);
        self.bind(asked.connection, &id, life);
        self.reply(out, &id, asked, "{}");
    }

    /// The id that was claimed for a fork is nobody's again.
    pub(crate) fn fail_fork(
        &mut self,
        out: &mut Vec<Effect>,
        forking: &Forking,
        failure: &Failure,
    ) {
        out.push(Effect::Release { session: forking.header.id.clone() });
        self.refuse(out, &forking.asked, failure);
    }
}

fn fork_unavailable(forking: &Forking, text: String) -> Failure {
    Failure::new(Code::ForkUnavailable, text).with("sessionId", forking.source.as_str())
}

/// How many events a fork takes: up to the first turn that ends at or after `at`, or the last one that has ended.
fn cut(events: &[Arc<str>], at: Option<u64>) -> Option<usize> {
    let mut open = false;
    let mut ends = Vec::new();
    for (text, seq) in events.iter().zip(0_u64..) {
        match kind(text).as_deref() {
            Some("turn/start") => open = true,
            Some("turn/end") => {
                open = false;
                ends.push(seq);
            }
            Some(_) | None => {}
        }
    }
    let behind = match at.filter(|at| *at < events.len() as u64) {
        None => ends.last(),
        // What is asked for is in no turn that has ended: in none, or in one that is open.
        Some(at) => ends.iter().find(|end| **end >= at).or(ends.last().filter(|_| !open)),
    };
    behind.and_then(|end| usize::try_from(end + 1).ok())
}

fn copy(text: &Arc<str>) -> Option<Event> {
    let Copied { kind, seq, time } = serde_json::from_str(text).ok()?;
    Some(Event { seq, time, kind: kind.into_owned().into(), text: Arc::clone(text) })
}

fn kind(text: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    serde_json::from_str::<Kind<'_>>(text).ok().map(|event| event.kind)
}
