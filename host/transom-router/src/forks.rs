//! `session/fork`: a new session that begins with the completed turns of another (L-11, B-155).

use std::sync::Arc;

use serde::Deserialize;
use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    agent::Agent,
    chance::Chance,
    event::Event,
    header::Header,
    ports::{Page, StoreError},
};

use crate::{
    Claimed, Effect, Question,
    answers::{Pending, store_failed},
    openings::exists,
    peer::Asked,
    request::Fork,
    router::{Router, not_found, shutting_down},
    sessions::Session,
};

/// A fork under way.
#[derive(Debug)]
pub(crate) struct Forking {
    pub(crate) asked: Asked,
    source: SessionId,
    header: Header,
    at_seq: Option<u64>,
}

/// The members of an event that a copy needs.
#[derive(Deserialize)]
struct Copied {
    #[serde(rename = "type")]
    kind: String,
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
        if self.sessions.len() >= self.host.sessions_max {
            let text =
                format!("the host has {} sessions, the most it may have", self.sessions.len());
            let failure = Failure::new(Code::Overloaded, text).with("limit", "host-sessions-max");
            return self.refuse(out, &asked, &failure);
        }
        let header = Header {
            id: self.chance.uuid().into(),
            created_at: now,
            parent_session: Some(id.clone()),
            origin: None,
            ..Header::clone(session.agent.header())
        };
        let page = Page::events(0, session.released);
        let forking = Forking { asked, source: id.clone(), header, at_seq: fork.at_seq };
        let question = Question::Read { session: id.clone(), page };
        self.ask(out, question, Pending::ForkRead(forking));
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
        let ends =
            events.iter().zip(0_u64..).filter(|(text, _)| ends_turn(text)).map(|(_, seq)| seq);
        let ends: Vec<_> = ends.collect();
        let wanted = forking.at_seq.and_then(|at| ends.iter().find(|end| **end >= at));
        // Past the end means the last completed turn, unless a turn is still open there.
        let open = forking.at_seq.is_some_and(|at| at < events.len() as u64) && wanted.is_none();
        let cut = wanted.or(ends.last()).copied().filter(|_| !open);
        let Some(cut) = cut else {
            let id = &forking.source;
            let text = format!("session \"{id}\" has no completed turn to fork behind");
            let failure = Failure::new(Code::ForkUnavailable, text).with("sessionId", id.as_str());
            return self.refuse(out, &forking.asked, &failure);
        };
        events.truncate(usize::try_from(cut + 1).unwrap_or(usize::MAX));
        forking.header.seed_length = Some(cut + 1);
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
        let Forking { asked, source, header, .. } = forking;
        let id = header.id.clone();
        let made = match claimed {
            Err(error) => Err(store_failed(&error)),
            Ok(Claimed::Elsewhere | Claimed::Here(Some(_))) => Err(exists(&id)),
            Ok(Claimed::Here(None)) => self.forked(now, &asked, &source, header, events),
        };
        match made {
            Err(failure) => {
                out.push(Effect::Release { session: id });
                self.refuse(out, &asked, &failure);
            }
            Ok((session, stored)) => {
                let life = session.life;
                self.publish(out, session, stored);
                if let Some(peer) = self.peers.get_mut(&asked.connection) {
                    peer.bound.insert(id.clone(), life);
                }
                self.reply(out, &id, asked, "{}");
            }
        }
    }

    fn forked(
        &mut self,
        now: u64,
        asked: &Asked,
        source: &SessionId,
        header: Header,
        events: &[Arc<str>],
    ) -> Result<(Session, Vec<Event>), Failure> {
        let gone = self.peers.get(&asked.connection).is_none_or(|peer| peer.closing);
        if gone || self.ending.is_some() {
            return Err(shutting_down());
        }
        let Some(from) = self.sessions.get(source) else { return Err(not_found(source)) };
        let (route, owner, door) = (from.agent.route().clone(), from.owner, Arc::clone(&from.door));
        let chance = Chance::new(self.chance.split());
        let id = header.id.clone();
        let config = Arc::clone(&self.config);
        let (mut agent, closers) = Agent::fork(header, events, route, config, chance, now)
            .map_err(|error| {
                Failure::new(Code::ForkUnavailable, error.to_string())
                    .with("sessionId", source.as_str())
            })?;
        let mut stored: Vec<_> = events.iter().filter_map(copy).collect();
        stored.extend(closers);
        stored.extend(agent.pin(now));
        self.lives += 1;
        Ok((Session::new(agent, owner, id, self.lives, door, None), stored))
    }
}

fn copy(text: &Arc<str>) -> Option<Event> {
    let Copied { kind, seq, time } = serde_json::from_str(text).ok()?;
    Some(Event { seq, time, kind: kind.into(), text: Arc::clone(text) })
}

fn ends_turn(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<Kind<'_>>(text).is_ok_and(|event| event.kind == "turn/end")
}
