//! `session/directory`: the working directory of a session, read and set (S-63).

use serde_json::json;
use transom_frame::{Code, Failure, SessionId};
use transom_harness::agent;

use crate::{
    Effect, Question,
    answers::Pending,
    peer::Asked,
    request::Directory,
    router::{Router, disposed},
};

/// A look at a directory on behalf of a request.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) asked: Asked,
    /// The life of the session that the request is about.
    pub(crate) life: u64,
    /// Absolute.
    path: String,
    /// The directory to be set, as it was given.
    set: Option<String>,
}

impl Router {
    /// Reads or sets a session's directory; either way what stands on disk is looked at first.
    pub(crate) fn directory(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        asked: Asked,
        wanted: Directory,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse(out, &asked, &disposed(id));
        };
        let current = session.agent.cwd().unwrap_or(&self.host.directory).to_owned();
        let path = wanted.set.as_deref().map_or(current.clone(), |path| absolute(&current, path));
        // What is asked of it meanwhile waits, in order (design §4, rule 4).
        session.waiting = Some(Vec::new());
        let look = Look { asked, life: session.life, path: path.clone(), set: wanted.set };
        self.ask(out, Question::Directory(path), Pending::Directory(id.clone(), look));
    }

    /// Goes on once it is known where a directory stands, if one does.
    pub(crate) fn directory_looked_at(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        look: Look,
        found: Option<String>,
    ) {
        let life = look.life;
        if self.lives_as(id, life) {
            self.answer_directory(out, now, id, look, found);
        } else {
            self.refuse(out, &look.asked, &disposed(id));
        }
        self.begin_waiting(out, now, id, life);
    }

    /// A disk may answer so late that the id has another life by then, which has nothing to do with it.
    pub(crate) fn lives_as(&self, id: &SessionId, life: u64) -> bool {
        self.sessions.get(id).is_some_and(|session| session.life == life)
    }

    /// Begins what has waited for a disk: for a look at a directory, or for the images of a prompt.
    pub(crate) fn begin_waiting(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        life: u64,
    ) {
        let session = self.sessions.get_mut(id).filter(|session| session.life == life);
        let waiting = session.and_then(|session| session.waiting.take()).unwrap_or_default();
        self.resume_waiting(out, now, waiting);
    }

    fn answer_directory(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        Look { asked, path, set, .. }: Look,
        found: Option<String>,
    ) {
        let cwd = match (set, found) {
            (Some(given), None) => {
                let text = format!("working-directory: directory does not exist: {given:?}");
                return self.refuse(out, &asked, &Failure::new(Code::Invalid, text));
            }
            (Some(_), Some(found)) => {
                if let Some(failure) = self.outside_workspaces("session/directory", &found) {
                    return self.refuse(out, &asked, &failure);
                }
                let set = |agent: &mut agent::Agent, effects: &mut Vec<_>| {
                    agent.set_directory(effects, now, &path, &found)
                };
                match self.with_agent(out, now, id, set) {
                    Some(Ok(())) => path,
                    Some(Err(failure)) => return self.refuse(out, &asked, &failure),
                    None => return self.refuse(out, &asked, &disposed(id)),
                }
            }
            (None, Some(_)) => path,
            // What was set has been removed meanwhile: the session's first directory counts.
            (None, None) => {
                let first =
                    self.sessions.get(id).and_then(|session| session.agent.header().cwd.clone());
                first.unwrap_or(path)
            }
        };
        self.reply(out, id, asked, json!({ "cwd": cwd }).to_string());
    }
}

/// `path` made absolute against `base`, lexically: nothing on disk is looked at (S-43).
fn absolute(base: &str, path: &str) -> String {
    let joined = if path.starts_with('/') { path.to_owned() } else { format!("{base}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}
