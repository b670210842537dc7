//! The one thread from which children are born.
//!
//! Children die with the thread that forked them (`fork.rs`), and runtime workers come and go; this
//! thread stays until the last [`Spawner`] and the last [`Process`] are dropped. It also keeps
//! `fork`, which can take milliseconds in a big process, off the runtime.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use nix::sys::signal::Signal;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    command::{Command, SpawnError},
    guard::Guard,
    leftover::Leftovers,
    process::Process,
    tree::Tree,
};

/// How many children may wait to be born. A birth takes about a millisecond, so that a longer queue
/// is a caller gone wild.
const WAITING_MAX: usize = 256;

/// Starts children. Cheap to clone.
#[derive(Clone)]
pub struct Spawner {
    requests: mpsc::SyncSender<Request>,
    guard: Arc<Mutex<Guard>>,
    leftovers: Option<Arc<Mutex<Leftovers>>>,
}

enum Request {
    Birth {
        command: Command,
        spawner: Spawner,
        reply: oneshot::Sender<Result<Process, SpawnError>>,
    },
    /// Nobody wants this group any more.
    Burial { group: u32, tree: Tree, spawner: Spawner },
}

impl Spawner {
    /// Starts the thread. The pipes of its children belong to `runtime`.
    pub fn new(runtime: Handle) -> io::Result<Spawner> {
        Spawner::start_thread(runtime, None)
    }

    /// The same, and each group that is started is noted and marked, so that it can be found by the next host (P-79).
    pub fn noting(runtime: Handle, leftovers: Leftovers) -> io::Result<Spawner> {
        Spawner::start_thread(runtime, Some(Arc::new(Mutex::new(leftovers))))
    }

    fn start_thread(
        runtime: Handle,
        leftovers: Option<Arc<Mutex<Leftovers>>>,
    ) -> io::Result<Spawner> {
        let (requests, inbox) = mpsc::sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("transom-spawner".to_owned())
            .spawn(move || run(&runtime, &inbox))?;
        Ok(Spawner { requests, guard: Arc::new(Mutex::new(Guard::new())), leftovers })
    }

    /// Starts a child. If the caller loses interest meanwhile, the child is killed.
    pub async fn spawn(&self, command: Command) -> Result<Process, SpawnError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Birth { command, spawner: self.clone(), reply };
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => SpawnError::Overloaded(WAITING_MAX),
            mpsc::TrySendError::Disconnected(_) => SpawnError::Closed,
        })?;
        answer.await.unwrap_or(Err(SpawnError::Closed))
    }

    /// Ends what is left of a group, away from whoever drops it: that takes a look at all processes.
    pub(crate) fn bury(&self, group: u32, tree: Tree) {
        let request = Request::Burial { group, tree, spawner: self.clone() };
        match self.requests.try_send(request) {
            Ok(()) => {}
            Err(mpsc::TrySendError::Full(request) | mpsc::TrySendError::Disconnected(request)) => {
                request.perform();
            }
        }
    }

    /// Nothing of this group is left.
    fn gone(&self, group: u32) {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).release(group);
        if let Some(mut leftovers) = self.leftovers() {
            leftovers.forget(group);
        }
    }

    fn leftovers(&self) -> Option<MutexGuard<'_, Leftovers>> {
        Some(self.leftovers.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A child under the eyes of the guard, from before its first instruction.
    fn start(&self, command: &Command) -> Result<tokio::process::Child, SpawnError> {
        // Held throughout: the descriptor that the child inherits stays the guard's.
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut leftovers = self.leftovers();
        let started =
            command.start(guard.ear(), leftovers.as_ref().map(|leftovers| leftovers.mark()));
        match (&started, &mut leftovers) {
            (Ok(child), Some(leftovers)) => {
                child.id().into_iter().for_each(|group| leftovers.note(group))
            }
            (Ok(_), None) => {}
            (Err(_), _) => guard.recount(),
        }
        started
    }

    fn watch(&self, group: u32) {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).watch(group);
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}

fn run(runtime: &Handle, inbox: &mpsc::Receiver<Request>) {
    let _entered = runtime.enter();
    while let Ok(request) = inbox.recv() {
        request.perform();
    }
}

impl Request {
    fn perform(self) {
        match self {
            Request::Birth { command, spawner, reply } => {
                // The runtime panics when it is asked for pipes while it shuts down.
                let child = catch_unwind(AssertUnwindSafe(|| spawner.start(&command)));
                let result = child.unwrap_or(Err(SpawnError::Closed)).and_then(|child| {
                    let process = Process::new(child, spawner.clone())?;
                    spawner.watch(process.id());
                    Ok(process)
                });
                // Where nobody waits any more, dropping the process ends it.
                drop(reply.send(result));
            }
            Request::Burial { group, tree, spawner } => {
                tree.signal(Signal::SIGKILL);
                spawner.gone(group);
            }
        }
    }
}
