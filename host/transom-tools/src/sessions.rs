//! What is remembered of each session: running calls with their children, the files it has seen
//! (L-99), and the spill files its results name.

mod life;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;
use transom_frame::SessionId;
use transom_process::{Mark, Tree, end_asked, terminate_all};

pub(crate) use self::life::{Life, Own, job_files};
use crate::{abort::AbortSource, fence::Fence};

/// How many files a session remembers to have seen. Beyond that the one seen longest ago has to be
/// read again before it can be changed.
const OBSERVED_MAX: usize = 4_096;

/// How many spill files a session may keep; the oldest goes first.
const SPILLS_MAX: usize = 64;

/// What a file held: SHA-256 of its content. Times and sizes would miss changes within a clock tick,
/// and see changes where nothing but a time was set.
pub(crate) type Version = [u8; 32];

/// The sessions of one registry.
#[derive(Clone)]
pub(crate) struct Sessions {
    shared: Arc<Mutex<Table>>,
    fence: Fence,
}

#[derive(Default)]
pub(crate) struct Table {
    sessions: HashMap<SessionId, Session>,
    calls: u64,
}

#[derive(Default)]
struct Session {
    calls: HashMap<u64, RunningCall>,
    observed: HashMap<PathBuf, Observed>,
    observations: u64,
    spills: VecDeque<PathBuf>,
    /// `None` once the session was forgotten: nothing more is remembered on behalf of calls that were running then.
    life: Option<Arc<Life>>,
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
    life: Arc<Life>,
}

/// What was remembered of a session.
pub(crate) struct Forgotten {
    pub(crate) life: Arc<Life>,
    pub(crate) spills: Vec<PathBuf>,
}

impl Sessions {
    pub(crate) fn new(fence: Fence) -> Sessions {
        Sessions { shared: Arc::default(), fence }
    }

    pub(crate) fn begin(&self, session: &SessionId, abort: AbortSource) -> Ticket {
        let mut table = self.lock();
        table.calls += 1;
        let call = table.calls;
        let entry = table.sessions.entry(session.clone()).or_default();
        let new = || Life::new(session, Arc::downgrade(&self.shared), self.fence.clone());
        let life = entry.life.get_or_insert_with(new).clone();
        entry.calls.insert(call, RunningCall { abort, trees: Vec::new(), grace: None });
        Ticket { sessions: self.clone(), session: session.clone(), call, life }
    }

    /// Aborts the running calls of a session. Gives their children and whatever else carries the session's mark, to be
    /// ended; those that are only just being born are ended as they come.
    pub(crate) fn terminate(&self, session: &SessionId, grace: Duration) -> Vec<Tree> {
        let mut table = self.lock();
        let Some(session) = table.sessions.get_mut(session) else { return Vec::new() };
        let mut trees = Vec::new();
        for call in session.calls.values_mut() {
            call.grace = Some(grace);
            call.abort.abort();
            trees.extend(call.trees.iter().cloned());
        }
        trees.extend(session.life.as_ref().map(|life| Tree::marked(life.mark().clone())));
        trees
    }

    /// Forgets everything but what still runs; `None` if there was nothing.
    pub(crate) fn forget(&self, session: &SessionId) -> Option<Forgotten> {
        let mut table = self.lock();
        let entry = table.sessions.get_mut(session)?;
        let spills = std::mem::take(&mut entry.spills).into();
        let life = entry.life.take();
        entry.observed.clear();
        if entry.calls.is_empty() {
            table.sessions.remove(session);
        }
        Some(Forgotten { life: life?, spills })
    }

    /// By what everything that a session has started can be told; `None`: it is gone.
    pub(crate) fn mark(&self, session: &SessionId) -> Option<Mark> {
        let table = self.lock();
        Some(table.sessions.get(session)?.life.as_ref()?.mark().clone())
    }

    /// How many sessions are remembered.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock can leave the table half changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn lives(&self, session: &SessionId) -> bool {
        self.sessions.get(session).is_some_and(|entry| entry.life.is_some())
    }
}

impl Session {
    /// Whether a call belongs to the life that goes on.
    fn is_of(&self, ticket: &Ticket) -> bool {
        self.life.as_ref().is_some_and(|life| Arc::ptr_eq(life, &ticket.life))
    }
}

impl Ticket {
    /// The life of the session that the call belongs to.
    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Ties a child to the call, so that it can be ended with the session; at once, if the session is
    /// being torn down already.
    pub(crate) fn add_tree(&self, runtime: &Handle, tree: Tree) {
        let mut table = self.sessions.lock();
        let session = table.sessions.get_mut(&self.session);
        if let Some(call) = session.and_then(|session| session.calls.get_mut(&self.call)) {
            if let Some(grace) = call.grace {
                end_soon(runtime, vec![tree.clone()], grace);
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
        if !session.is_of(self) {
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
            table.sessions.get_mut(&self.session).filter(|session| session.is_of(self))
        else {
            return Some(path);
        };
        session.spills.push_back(path);
        if session.spills.len() > SPILLS_MAX { session.spills.pop_front() } else { None }
    }
}

/// Ends trees without waiting for that: `SIGTERM` now, `SIGKILL` after `grace`.
pub(crate) fn end_soon(runtime: &Handle, trees: Vec<Tree>, grace: Duration) {
    if trees.is_empty() {
        return;
    }
    let asked = trees.clone();
    // At once, however busy the runtime's workers are.
    let asked = runtime.spawn_blocking(move || terminate_all(&asked));
    runtime.spawn(async move {
        // It fails only while the runtime shuts down.
        let _ = asked.await;
        end_asked(trees, grace).await
    });
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = self.sessions.lock();
        let Some(session) = table.sessions.get_mut(&self.session) else { return };
        session.calls.remove(&self.call);
        if session.calls.is_empty() && session.life.is_none() {
            table.sessions.remove(&self.session);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({}/{})", self.session, self.call)
    }
}
