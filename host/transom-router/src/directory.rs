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

impl Router {
    /// Reads or sets a session's directory; either way what stands on disk is looked at first.
    pub(crate) fn directory(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        asked: Asked,
        wanted: Directory,
    ) {
        let current = self.sessions.get(id).and_then(|session| session.agent.cwd());
        let current = current.unwrap_or(&self.host.directory).to_owned();
        let path = wanted.set.as_deref().map_or(current.clone(), |path| absolute(&current, path));
        // What is asked of it meanwhile waits, in order (design §4, rule 4).
        if let Some(session) = self.sessions.get_mut(id) {
            session.waiting = Some(Vec::new());
        }
        let pending =
            Pending::Directory { asked, session: id.clone(), path: path.clone(), set: wanted.set };
        self.ask(out, Question::Directory(path), pending);
    }

    /// Goes on once it is known whether a directory stands at `path`. `set` is the path as it was given.
    pub(crate) fn directory_looked_at(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        looked: (String, Option<String>),
        found: Option<String>,
    ) {
        self.answer_directory(out, now, id, asked, looked, found);
        self.go_on_after_look(out, now, id);
    }

    /// Begins what has waited for the look at a directory.
    pub(crate) fn go_on_after_look(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId) {
        let session = self.sessions.get_mut(id);
        let waiting = session.and_then(|session| session.waiting.take()).unwrap_or_default();
        self.resume_waiting(out, now, waiting);
    }

    fn answer_directory(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        (path, set): (String, Option<String>),
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
                    agent.set_directory(effects, now, &path)
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
