//! Answers to what the loop asks its driver. What needs a disk is looked up beside the loop, which waits for nobody, and
//! is answered whatever happens there. What an answer leads to is the router's.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tracing::warn;
use transom_frame::SessionId;
use transom_harness::ports::{Store, StoreError};
use transom_router::{Answer, AskId, Claimed, Event, Question};

use super::{
    Core,
    calls::{begun, unexpected, unlooked},
};
use crate::images;

/// How long a claim waits for whoever has the session. A process that was killed while it started a child leaves its
/// locks to that child until the child begins its program: some hundred milliseconds on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);

impl Core {
    /// What needs a disk is answered beside the loop, which waits for nobody.
    pub(super) fn answer(&mut self, ask: AskId, question: Question) {
        match question {
            Question::Claim(id) => {
                let failed = Answer::Claimed(Err(unlooked()));
                self.answer_later(ask, failed, move |store| Answer::Claimed(claim(store, &id)));
            }
            // A path of the peer's choice may lie on a disk that does not answer.
            Question::Directory(path) => {
                let failed = Answer::Directory(None);
                self.answer_later(ask, failed, move |_| Answer::Directory(directory(&path)));
            }
            Question::Serve { door, route } => {
                let answer = Answer::Served(self.ports.models_of(&door).serve(&route));
                self.next.push_back(Event::Answered { ask, answer });
            }
            Question::Same { path, others } => {
                self.answer_later(ask, Answer::Same(BTreeSet::new()), move |_| {
                    Answer::Same(same(&path, others))
                });
            }
            Question::Titles(sessions) => {
                self.answer_later(ask, Answer::Titles(Err(unlooked())), move |store| {
                    Answer::Titles(sessions.iter().map(|session| store.titled(session)).collect())
                });
            }
            Question::Catalogue { door } => {
                let answer = Answer::Catalogue(self.ports.models_of(&door).catalogue());
                self.next.push_back(Event::Answered { ask, answer });
            }
            Question::Read { session, page } => {
                self.answer_later(ask, Answer::Events(Err(unlooked())), move |store| {
                    Answer::Events(store.read(&session, page))
                });
            }
            Question::Keep { content, limits } => {
                self.answer_later(ask, Answer::Kept(Err(unexpected())), move |store| {
                    Answer::Kept(images::keep(store, content, &limits))
                });
            }
            Question::Attachment { session, name, events } => {
                self.answer_later(ask, Answer::Attachment(Err(unexpected())), move |store| {
                    Answer::Attachment(images::read(store, &session, &name, events))
                });
            }
            Question::List => {
                let failed = Answer::Listed(Err(unlooked()));
                self.answer_later(ask, failed, |store| Answer::Listed(store.list()));
            }
        }
    }

    /// Somebody waits for the answer, so there is one whatever happens: `failed`, if looking it up panics.
    fn answer_later(
        &self,
        ask: AskId,
        failed: Answer,
        read: impl FnOnce(&dyn Store) -> Answer + Send + 'static,
    ) {
        let (host, store) = (self.host.clone(), Arc::clone(&self.ports.store));
        tokio::task::spawn_blocking(move || {
            let answer = begun(|| read(store.as_ref())).unwrap_or(failed);
            host.send(Event::Answered { ask, answer });
        });
    }
}

/// The directory at `path`, without links. A session may have one that is not there or that nobody may enter, so the
/// operator alone is told.
fn directory(path: &str) -> Option<String> {
    let found = Path::new(path).canonicalize();
    // Fails also where something else than a directory stands.
    let entered = found.as_ref().map_or(Ok(()), |found| found.join(".").metadata().map(drop));
    if let Some(why) = found.as_ref().err().or(entered.as_ref().err()) {
        warn!(directory = ?path, %why, "the directory of a session is not accessible");
    }
    // It is held and compared, so an approximation of it would be of no use.
    found.ok().filter(|found| found.is_dir())?.into_os_string().into_string().ok()
}

/// Those of `others` that lead to the directory at `path`.
fn same(path: &str, mut others: BTreeSet<String>) -> BTreeSet<String> {
    let place = place(path);
    others.retain(|other| self::place(other) == place);
    others
}

/// A path without links; one that leads nowhere without what can be left out of it.
fn place(path: &str) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| {
        let mut plain = PathBuf::new();
        for part in Path::new(path).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => _ = plain.pop(),
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    plain.push(part)
                }
            }
        }
        plain
    })
}

/// Claims first and looks then, so that nobody can store the session in between.
#[expect(clippy::disallowed_methods, reason = "nothing tells when a lock is let go")]
fn claim(store: &dyn Store, id: &SessionId) -> Result<Claimed, StoreError> {
    let since = Instant::now();
    while !store.claim(id)? {
        if since.elapsed() >= PATIENCE {
            return Ok(Claimed::Elsewhere);
        }
        thread::sleep(PATIENCE / 20);
    }
    store.find(id).map(Claimed::Here)
}
