//! Sessions on their way to life: opened new, joined live, or gone on with from the store (S-61, S-121, L-80).

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use transom_frame::{Code, ConnectionId, Failure, SessionId};
use transom_harness::{
    agent::{Agent, Cap, Partial},
    chance::Chance,
    event::Event,
    header::Header,
    ports::{Page, StoredSession},
};

use crate::{
    Effect, Question, Reach,
    answers::Pending,
    peer::Asked,
    request::{Mint, Open, OwnerWish, Request, Want},
    router::{Router, not_found, shutting_down},
    row::{Row, last_seq},
    sessions::{Session, Work},
};

/// A session whose id is being looked up.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) asked: Asked,
    pub(crate) open: Open,
    pub(crate) waiting: Vec<(Asked, Request)>,
}

/// A session that is to be published if it may work where it does.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) agent: Agent,
    /// Its first events of this life.
    pub(crate) stored: Vec<Event>,
    /// It had no events before.
    pub(crate) created: bool,
}

impl Router {
    pub(crate) fn open(&mut self, out: &mut Vec<Effect>, asked: Asked, open: Open) {
        if let Err(failure) = self.may_open(&asked, &open) {
            return self.refuse(out, &asked, &failure);
        }
        let id = match (&asked.frame.session, open.mint) {
            (Some(id), None) => id.clone(),
            (None, Some(Mint::Uuid)) => self.chance.uuid().into(),
            (None, Some(Mint::SessionUuid)) => format!("session-{}", self.chance.uuid()).into(),
            (Some(_), Some(_)) => {
                let issue = "a session is either named by the frame or minted, not both";
                return self.refuse(out, &asked, &Failure::invalid(&[issue]));
            }
            (None, None) => {
                let issue = "session/open needs a session in the frame, or `mint`";
                return self.refuse(out, &asked, &Failure::invalid(&[issue]));
            }
        };
        if id.as_str().is_empty() {
            return self.refuse(
                out,
                &asked,
                &Failure::invalid(&["a session id must not be empty"]),
            );
        }
        if self.opening.contains_key(&id) || self.reviving.contains_key(&id) {
            return self.refuse(out, &asked, &exists(&id));
        }
        if self.sessions.contains_key(&id) {
            return self.open_live(out, asked, &open, &id);
        }
        self.opening.insert(id.clone(), Opening { asked, open, waiting: Vec::new() });
        self.ask(out, Question::Claim(id.clone()), Pending::Open(id));
    }

    /// Where the directory of a session stands is looked at once, before anything of it runs (P-5).
    fn house(&mut self, out: &mut Vec<Effect>, id: &SessionId, born: Born) {
        let directory = born.agent.cwd().unwrap_or(&self.host.directory).to_owned();
        let pending = Pending::Workspace(id.clone(), Box::new(born));
        self.ask(out, Question::Directory(directory), pending);
    }

    /// It is known where the directory of a new session really stands.
    pub(crate) fn workspace_looked_at(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        mut born: Born,
        found: Option<String>,
    ) {
        match self.pin_root("session/open", &mut born.agent, found) {
            Err(failure) => self.fail_opening(out, id, &failure),
            Ok(()) => self.publish_opened(out, now, id, born),
        }
    }

    fn may_open(&self, asked: &Asked, wanted: &Open) -> Result<(), Failure> {
        if let Some(cwd) = &wanted.cwd
            && !cwd.starts_with('/')
        {
            let text = format!("session header cwd must be an absolute path, got \"{cwd}\"");
            return Err(Failure::invalid(&[&text]));
        }
        let Some(peer) = self.peers.get(&asked.connection) else { return Ok(()) };
        if wanted.owner == OwnerWish::Host && peer.facts.reach == Reach::Owned {
            let text = "this door may open sessions for its own connection only";
            return Err(Failure::new(Code::Denied, text).with("frame", "session/open"));
        }
        match self.is_full(&peer.facts.door, peer.facts.sessions_max) {
            Some(full) => Err(full),
            None => Ok(()),
        }
    }

    /// Why there cannot be one more session, if so. A door has `most` at most.
    pub(crate) fn is_full(&self, door: &Arc<str>, most: usize) -> Option<Failure> {
        let open = self.by_door.get(door).copied().unwrap_or_default();
        if open >= most {
            let text = format!("door {door} has {open} live sessions, the most it may have");
            return Some(Failure::new(Code::Overloaded, text).with("limit", "sessions-max"));
        }
        self.host_is_full()
    }

    /// Why the host cannot have one more session, if so (decision 58).
    pub(crate) fn host_is_full(&self) -> Option<Failure> {
        let most = self.host.sessions_max;
        let text = format!("the host has {most} sessions, the most it may have");
        (self.sessions.len() >= most)
            .then(|| Failure::new(Code::Overloaded, text).with("limit", "host-sessions-max"))
    }

    /// `want: any` joins a session that is live, where the connection may reach it.
    fn open_live(&mut self, out: &mut Vec<Effect>, asked: Asked, open: &Open, id: &SessionId) {
        let reach = self.peers.get(&asked.connection).map(|peer| peer.facts.reach);
        match open.want {
            Want::New => self.refuse(out, &asked, &exists(id)),
            Want::Stored => {
                let text = format!("cannot prepare session \"{id}\" while it is live");
                self.refuse(out, &asked, &Failure::new(Code::SessionLive, text));
            }
            Want::Any if reach == Some(Reach::All) => match self.differs(open, id) {
                Some(failure) => self.refuse(out, &asked, &failure),
                None => self.opened(out, id, asked, false),
            },
            Want::Any => self.refuse(out, &asked, &not_found(id)),
        }
    }

    /// Why a live session cannot be joined as it is asked for, if so: whoever opened it has said what becomes of cut
    /// answers, and nothing that is said about it now is passed over in silence (design §2, rule 6).
    fn differs(&self, open: &Open, id: &SessionId) -> Option<Failure> {
        let (wanted, has) = (open.partial?, self.sessions.get(id)?.agent.partial());
        let name = match has {
            Partial::Drop => "drop",
            Partial::Commit => "commit",
        };
        let text = format!(
            "session \"{id}\" is live with `partial` \"{name}\"; without `partial` it is joined as it is"
        );
        (wanted != has).then(|| Failure::invalid(&[&text]))
    }

    /// Makes the session whose id was looked up and found free.
    pub(crate) fn create(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId) {
        let Some(opening) = self.opening.get(id) else { return };
        let cwd = opening.open.cwd.clone().unwrap_or_else(|| self.host.directory.to_string());
        let header = Header {
            id: id.clone(),
            created_at: now,
            cwd: Some(cwd),
            parent_session: None,
            seed_length: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        };
        let route = self.routed(opening.open.route.clone());
        let chance = Chance::new(self.chance.split());
        let mut agent = Agent::new(header, route, Arc::clone(&self.config), chance);
        let stored = agent.pin(now);
        self.house(out, id, Born { agent, stored, created: true });
    }

    /// Goes on with a stored session that is this process's now, if it is the one that is meant: no child of another,
    /// where roots are wanted, and in the directory that is named, by whatever path.
    pub(crate) fn go_on(&mut self, out: &mut Vec<Effect>, id: &SessionId, stored: StoredSession) {
        let Some(Opening { open, .. }) = self.opening.get(id) else { return };
        let row = Row::stored(&stored);
        if open.roots && !row.is_root() {
            let text = format!("session \"{id}\" is the child of another session");
            return self.fail_opening(out, id, &Failure::new(Code::NotResumable, text));
        }
        match (&open.cwd, row.cwd) {
            (Some(path), Some(own)) if open.want == Want::Stored && *path != own => {
                let (path, others) = (path.clone(), BTreeSet::from([own]));
                self.ask(out, Question::Same { path, others }, Pending::Place(id.clone(), stored));
            }
            _ => self.read_whole(out, id, stored),
        }
    }

    /// It is known whether the directory that was named is the session's own.
    pub(crate) fn place_compared(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        stored: StoredSession,
        same: &BTreeSet<String>,
    ) {
        if !same.is_empty() {
            return self.read_whole(out, id, stored);
        }
        let own = Row::stored(&stored).cwd.unwrap_or_default();
        let wanted = self.opening.get(id).and_then(|opening| opening.open.cwd.clone());
        let wanted = wanted.unwrap_or_default();
        let text = format!("session \"{id}\" works in {own}, not in {wanted}");
        let failure = Failure::new(Code::SessionConflict, text)
            .with("sessionId", id.as_str())
            .with("requestedCwd", wanted)
            .with("existingCwd", own);
        self.fail_opening(out, id, &failure);
    }

    fn read_whole(&mut self, out: &mut Vec<Effect>, id: &SessionId, stored: StoredSession) {
        let page = Page::events(0, stored.events);
        let question = Question::Read { session: id.clone(), page };
        self.ask(out, question, Pending::Restore(id.clone(), stored));
    }

    /// Its log is read.
    pub(crate) fn resume(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        header: Header,
        events: &[Arc<str>],
    ) {
        let Some(opening) = self.opening.get(id) else { return };
        let asked = opening.open.route.clone();
        let names_nobody = asked.as_ref().is_none_or(|route| route.provider.is_none());
        let route = self.routed(asked);
        let chance = Chance::new(self.chance.split());
        match Agent::restore(header, events, route, Arc::clone(&self.config), chance, now) {
            Ok((mut agent, mut stored)) => {
                if names_nobody {
                    agent.keep_route();
                }
                stored.extend(agent.capped(now, self.host.kept_mode_max, Cap::Ceiling));
                stored.extend(agent.pin(now));
                self.house(out, id, Born { agent, stored, created: false });
            }
            Err(error) => {
                let failure = Failure::new(Code::NotResumable, error.to_string());
                self.fail_opening(out, id, &failure);
            }
        }
    }

    /// Makes the session of an opening live.
    fn publish_opened(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId, mut born: Born) {
        let connection = self.opening.get(id).map(|opening| opening.asked.connection);
        let peer = connection.and_then(|connection| self.peers.get(&connection));
        let Some(peer) = peer.filter(|peer| !peer.closing && self.ending.is_none()) else {
            return self.fail_opening(out, id, &shutting_down());
        };
        let door = Arc::clone(&peer.facts.door);
        // Others may have been opened while this one was looked up.
        if let Some(full) = self.is_full(&door, peer.facts.sessions_max) {
            return self.fail_opening(out, id, &full);
        }
        let Some(Opening { asked, open, waiting }) = self.opening.remove(id) else { return };
        born.agent.set_partial(open.partial.unwrap_or_default());
        self.lives += 1;
        let owner = (open.owner == OwnerWish::Connection).then_some(asked.connection);
        let Born { agent, stored, created } = born;
        let session = Session::new(agent, owner, None, self.lives, door, Work::None);
        self.publish(out, session, stored);
        self.opened(out, id, asked, created);
        self.resume_waiting(out, now, waiting);
    }

    fn opened(&mut self, out: &mut Vec<Effect>, id: &SessionId, asked: Asked, created: bool) {
        let Some(session) = self.sessions.get(id) else { return };
        let body = json!({
            "created": created,
            "lastSeq": last_seq(session.released),
            "cwd": session.agent.cwd(),
            "route": session.agent.route(),
        });
        let life = session.life;
        self.bind(asked.connection, id, life);
        self.reply(out, id, asked, body.to_string());
    }

    /// From here on the connection knows this life of the session.
    pub(crate) fn bind(&mut self, connection: ConnectionId, id: &SessionId, life: u64) {
        let sessions = &self.sessions;
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.bind(id.clone(), life, |bound| sessions.contains_key(bound));
        }
    }
}

pub(crate) fn live_elsewhere(id: &SessionId) -> Failure {
    let text = format!("cannot prepare session \"{id}\" while it is live in another process");
    Failure::new(Code::SessionLive, text)
}

pub(crate) fn exists(id: &SessionId) -> Failure {
    Failure::new(Code::SessionExists, format!("session \"{id}\" already exists"))
}
