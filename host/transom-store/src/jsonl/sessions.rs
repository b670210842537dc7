//! Which sessions this process has, how far each is stored, and when one may be given back (L-82).
//! Writing to their logs is `writer.rs`.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use transom_frame::SessionId;
use transom_harness::ports::{Append, StoreError, StoredSession};

use super::{
    layout::{self, Encoding},
    log::{self, Live},
    walk::{self, Point},
};
use crate::claims::Claims;

/// The locks of a root. A name that no project has.
const LOCKS: &str = ".transom.lock";

pub(crate) struct Sessions {
    pub(crate) root: PathBuf,
    pub(crate) encoding: Encoding,
    claims: Claims,
    state: Mutex<State>,
    /// Held while a log is taken up, so that it is mended once.
    taking_up: Mutex<()>,
}

#[derive(Default)]
struct State {
    live: HashMap<SessionId, Live>,
    /// Events on their way to the disk.
    waiting: HashMap<SessionId, usize>,
    /// Given back as soon as nothing of them waits any more.
    leaving: HashSet<SessionId>,
}

/// Where a log ends.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) path: PathBuf,
    /// Behind the last committed line.
    pub(crate) reached: Point,
    /// There may be bytes behind it.
    pub(crate) is_unclean: bool,
}

impl Sessions {
    pub(crate) fn open(root: &Path, encoding: Encoding) -> Result<Sessions, StoreError> {
        Ok(Sessions {
            root: root.to_owned(),
            encoding,
            claims: Claims::open(&root.join(LOCKS))?,
            state: Mutex::default(),
            taking_up: Mutex::default(),
        })
    }

    /// Takes a session, and mends its log if it has one. `false`: another process has it.
    pub(crate) fn claim(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.state().leaving.remove(id);
        self.hold(id)
    }

    /// Like [`claim`](Sessions::claim), for as long as events wait: a session that is leaving still leaves.
    pub(crate) fn hold(&self, id: &SessionId) -> Result<bool, StoreError> {
        let is_live = || self.state().live.contains_key(id);
        if is_live() {
            return Ok(true);
        }
        let _taking_up = guard(&self.taking_up);
        if is_live() {
            return Ok(true);
        }
        // Nothing can be kept for an id without a place.
        layout::place(&self.root, self.encoding, None, id)?;
        if !self.claims.claim(id)? {
            return Ok(false);
        }
        match self.take_up(id) {
            Ok(None) => Ok(true),
            Ok(Some(live)) => {
                self.state().live.insert(id.clone(), live);
                Ok(true)
            }
            Err(error) => {
                self.claims.release(id);
                Err(error)
            }
        }
    }

    fn take_up(&self, id: &SessionId) -> Result<Option<Live>, StoreError> {
        let Some(path) = layout::find(&self.root, self.encoding, id)? else { return Ok(None) };
        let live = log::take_up(&path, self.encoding)?;
        is_of(&path, &live.header.id, id)?;
        Ok(Some(live))
    }

    /// Gives a session back, at once or behind what of it still waits.
    pub(crate) fn release(&self, id: &SessionId) {
        let mut state = self.state();
        if state.waiting.contains_key(id) {
            state.leaving.insert(id.clone());
        } else {
            state.live.remove(id);
            self.claims.release(id);
        }
    }

    /// Gives everything back.
    pub(crate) fn release_all(&self) {
        let mut state = self.state();
        *state = State::default();
        self.claims.release_all();
    }

    /// Where the log of a session ends that this process has.
    pub(crate) fn end(&self, id: &SessionId) -> Option<End> {
        self.state().live.get(id).map(|live| End {
            path: live.path.clone(),
            reached: live.reached,
            is_unclean: live.is_unclean,
        })
    }

    /// Where such a log ends, and where to begin to read event `from`.
    pub(crate) fn reading(&self, id: &SessionId, from: u64) -> Option<(End, Point)> {
        let end = self.end(id)?;
        let start = self.state().live.get(id).map(|live| walk::start(&live.points, from))?;
        Some((end, start))
    }

    /// A stored session that this process has.
    pub(crate) fn stored(&self, id: &SessionId) -> Option<StoredSession> {
        self.state().live.get(id).map(Live::stored)
    }

    /// All of them, by their logs.
    pub(crate) fn all_stored(&self) -> HashMap<PathBuf, StoredSession> {
        self.state().live.values().map(|live| (live.path.clone(), live.stored())).collect()
    }

    /// Notes how far a session is stored from here on.
    pub(crate) fn store(&self, live: Live) {
        self.state().live.insert(live.header.id.clone(), live);
    }

    /// Changes what is known of a session, if this process has it.
    pub(crate) fn change(&self, id: &SessionId, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.state().live.get_mut(id) {
            change(live);
        }
    }

    pub(crate) fn wait_for(&self, events: &[Append]) {
        let mut state = self.state();
        for append in events {
            match state.waiting.get_mut(&append.session) {
                Some(waiting) => *waiting += 1,
                None => {
                    state.waiting.insert(append.session.clone(), 1);
                }
            }
        }
    }

    /// Events wait no longer, whatever became of them.
    pub(crate) fn settle<'a>(&self, events: impl Iterator<Item = &'a Append>) {
        let mut state = self.state();
        for append in events {
            let Some(waiting) = state.waiting.get_mut(&append.session) else { continue };
            *waiting = waiting.saturating_sub(1);
            if *waiting > 0 {
                continue;
            }
            state.waiting.remove(&append.session);
            if state.leaving.remove(&append.session) {
                state.live.remove(&append.session);
                self.claims.release(&append.session);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        guard(&self.state)
    }
}

/// A log that was copied into another session's directory is not that session's.
pub(crate) fn is_of(path: &Path, found: &SessionId, asked: &SessionId) -> Result<(), StoreError> {
    if found == asked {
        return Ok(());
    }
    Err(StoreError::Io(format!(
        "the session log {path:?} is of session \"{found}\", where one of \"{asked}\" should be"
    )))
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete before anything could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
