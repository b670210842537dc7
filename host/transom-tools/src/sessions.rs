//! What is remembered of each session: running calls with their children, the files it has seen
//! (L-99), and the spill files its results name.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;
use transom_frame::SessionId;
use transom_process::{Signal, Tree};

use crate::abort::AbortSource;

/// How many files a session remembers to have seen. Beyond that the one seen longest ago has to be
/// read again before it can be changed.
const OBSERVED_MAX: usize = 4_096;

/// How many spill files a session may keep; the oldest goes first.
const SPILLS_MAX: usize = 64;

/// What a file held: SHA-256 of its content. Times and sizes would miss changes within a clock tick,
/// and see changes where nothing but a time was set.
pub(crate) type Version = [u8; 32];

/// The sessions of one registry.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    shared: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionId, Session>,
    calls: u64,
}

#[derive(Default)]
struct Session {
    calls: HashMap<u64, RunningCall>,
    observed: HashMap<PathBuf, Observed>,
    observations: u64,
    spills: VecDeque<PathBuf>,
    /// Nothing more is remembered on behalf of calls that were running when the session was
    /// forgotten.
    forgotten: bool,
}

struct RunningCall {
    abort: AbortSource,
    trees: Vec<Tree>,
    /// How long children may take to end, once the session is being torn down.
    grace: Option<Duration>,
}

struct Observed {
    version: Version,
    order: u64,
}

/// A running call's place in its session; given back when dropped.
pub(crate) struct Ticket {
    sessions: Sessions,
    session: SessionId,
    call: u64,
}

impl Sessions {
    pub(crate) fn begin(&self, session: &SessionId, abort: AbortSource) -> Ticket {
        let mut table = self.lock();
        table.calls += 1;
        let call = table.calls;
        let entry = table.sessions.entry(session.clone()).or_default();
        entry.forgotten = false;
        entry.calls.insert(call, RunningCall { abort, trees: Vec::new(), grace: None });
        Ticket { sessions: self.clone(), session: session.clone(), call }
    }

    /// Aborts the running calls of a session and ends their children, also those that are only just
    /// being born: `SIGTERM` now, `SIGKILL` after `grace`.
    pub(crate) fn terminate(&self, runtime: &Handle, session: &SessionId, grace: Duration) {
        let mut table = self.lock();
        let session = table.sessions.get_mut(session);
        for call in session.into_iter().flat_map(|session| session.calls.values_mut()) {
            call.grace = Some(grace);
            call.abort.abort();
            for tree in &call.trees {
                end_soon(runtime, tree.clone(), grace);
            }
        }
    }

    /// Forgets everything but what still runs; returns the spill files.
    pub(crate) fn forget(&self, session: &SessionId) -> Vec<PathBuf> {
        let mut table = self.lock();
        let Some(entry) = table.sessions.get_mut(session) else { return Vec::new() };
        let spills = std::mem::take(&mut entry.spills);
        entry.observed.clear();
        entry.forgotten = true;
        if entry.calls.is_empty() {
            table.sessions.remove(session);
        }
        spills.into()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock can leave the table half changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Ties a child to the call, so that it can be ended with the session; at once, if the session is
    /// being torn down already.
    pub(crate) fn add_tree(&self, runtime: &Handle, tree: Tree) {
        let mut table = self.sessions.lock();
        let session = table.sessions.get_mut(&self.session);
        if let Some(call) = session.and_then(|session| session.calls.get_mut(&self.call)) {
            if let Some(grace) = call.grace {
                end_soon(runtime, tree.clone(), grace);
            }
            call.trees.push(tree);
        }
    }

    /// What the session last saw in a file, by its real path.
    pub(crate) fn observed(&self, path: &Path) -> Option<Version> {
        let table = self.sessions.lock();
        let session = table.sessions.get(&self.session)?;
        session.observed.get(path).map(|observed| observed.version)
    }

    /// The session has seen this content.
    pub(crate) fn observe(&self, path: PathBuf, version: Version) {
        let mut table = self.sessions.lock();
        let Some(session) = table.sessions.get_mut(&self.session) else { return };
        if session.forgotten {
            return;
        }
        session.observations += 1;
        let order = session.observations;
        session.observed.insert(path, Observed { version, order });
        if session.observed.len() > OBSERVED_MAX {
            let oldest = session.observed.iter().min_by_key(|(_, observed)| observed.order);
            if let Some(path) = oldest.map(|(path, _)| path.clone()) {
                session.observed.remove(&path);
            }
        }
    }

    /// Keeps a spill file with the session; returns files that have to go for it.
    pub(crate) fn add_spill(&self, path: PathBuf) -> Option<PathBuf> {
        let mut table = self.sessions.lock();
        let Some(session) =
            table.sessions.get_mut(&self.session).filter(|session| !session.forgotten)
        else {
            return Some(path);
        };
        session.spills.push_back(path);
        if session.spills.len() > SPILLS_MAX { session.spills.pop_front() } else { None }
    }
}

/// Ends a tree without waiting for it: `SIGTERM` now, `SIGKILL` after `grace`.
pub(crate) fn end_soon(runtime: &Handle, tree: Tree, grace: Duration) {
    tree.terminate();
    runtime.spawn(async move {
        if !tree.gone_within(grace).await {
            tree.signal(Signal::SIGKILL);
        }
    });
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.sessions.lock();
        let Some(session) = table.sessions.get_mut(&self.session) else { return };
        session.calls.remove(&self.call);
        let idle = session.calls.is_empty();
        if idle && (session.forgotten || (session.observed.is_empty() && session.spills.is_empty()))
        {
            table.sessions.remove(&self.session);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({}/{})", self.session, self.call)
    }
}
