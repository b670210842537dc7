//! What the host does to itself (P-42): it keeps its memory from other processes of its user, passes no descriptor on by
//! accident, and takes over what its commands leave behind.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        prctl::{set_child_subreaper, set_dumpable},
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::{Pid, getpid},
};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
};

use crate::{
    ancestry::descends,
    confine::system,
    stat::{Stat, processes},
};

/// Whether everything that this process has started stays below it.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Between two looks at processes that were killed.
const PAUSE: Duration = Duration::from_millis(5);

/// Children that somebody here waits for. One list for the process, because adopting is a matter of the process, too.
static KNOWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Makes this process unreadable to others of its user, and all descriptors its own. To be called before it reads a
/// secret.
pub fn protect_host() -> io::Result<()> {
    set_dumpable(false)?;
    // Kernels before 5.11 cannot; there each child does what it can for itself (`fork.rs`).
    match system::close_all_on_exec() {
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes this process the parent of whatever its commands leave behind, and reaps that when it ends. Every child of
/// this process must be started by a `Spawner`: another one could lose its exit status to this.
pub fn adopt_orphans(runtime: &Handle) -> io::Result<()> {
    let _entered = runtime.enter();
    let mut ends = signal(SignalKind::child())?;
    set_child_subreaper(true)?;
    ADOPTS.store(true, Ordering::Release);
    runtime.spawn(async move {
        while ends.recv().await.is_some() {
            // Looking at all processes takes milliseconds. It fails only while the runtime shuts down.
            let _ = spawn_blocking(reap).await;
        }
    });
    Ok(())
}

/// Kills everything that this process has started, however far it has wandered, and waits until it is gone, at most so
/// long. To be called by a host that takes over what its commands leave behind, when it ends: nothing can be started
/// afterwards. Blocks.
pub fn end_descendants(patience: Duration) {
    if !ADOPTS.load(Ordering::Acquire) {
        return;
    }
    let deadline = Instant::now() + patience;
    loop {
        let processes = processes();
        let living: Vec<_> = processes
            .iter()
            .filter(|(process, stat)| !stat.is_dead() && is_below(**process, &processes))
            .collect();
        if living.is_empty() || Instant::now() >= deadline {
            return;
        }
        for (process, _) in living {
            // One that has ended meanwhile is what is wanted; one of another user cannot be helped.
            let _ = kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL);
        }
        // Nobody tells of the ends of grandchildren. Repeated, because a fork may have slipped past the look.
        thread::park_timeout(PAUSE);
    }
}

/// Whether a process can be one that this one has started: it descends from it, unless orphans go elsewhere.
pub(crate) fn is_below(process: u32, processes: &HashMap<u32, Stat>) -> bool {
    if !ADOPTS.load(Ordering::Acquire) {
        return true;
    }
    let own = getpid().as_raw().cast_unsigned();
    let parent = |number: u32| Some(processes.get(&number)?.parent);
    // A list that was made while numbers changed hands could go round in circles.
    descends(process, own, processes.len(), parent).unwrap_or(false)
}

/// Starts a child that somebody will wait for. It is known before it can be mistaken for an orphan.
pub(crate) fn bear<C, E>(
    start: impl FnOnce() -> Result<C, E>,
    id: impl FnOnce(&C) -> Option<u32>,
) -> Result<C, E> {
    let mut known = known();
    let child = start()?;
    known.extend(id(&child));
    Ok(child)
}

fn known() -> MutexGuard<'static, BTreeSet<u32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reaps the dead that nobody waits for.
fn reap() {
    // Held throughout, so that nobody is born unknown meanwhile.
    let mut known = known();
    let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::All, peek) {
            // Nobody is dead, or there is nobody.
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return,
            Ok(status) => match status.pid() {
                Some(process) if !known.contains(&process.as_raw().cast_unsigned()) => {
                    bury(process)
                }
                Some(_) | None => break,
            },
            Err(_) => break,
        }
    }
    // Somebody known hides the others from that view.
    let own = getpid().as_raw().cast_unsigned();
    let mut children = processes();
    children.retain(|_, stat| stat.parent == own);
    known.retain(|known| children.contains_key(known));
    for (process, stat) in children {
        if stat.is_dead() && !known.contains(&process) {
            bury(Pid::from_raw(process.cast_signed()));
        }
    }
}

fn bury(process: Pid) {
    // It is dead and ours, so this neither waits nor fails.
    let _ = waitpid(process, Some(WaitPidFlag::WNOHANG));
}
