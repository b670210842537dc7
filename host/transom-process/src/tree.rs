//! A child with all its descendants: signalling them, and proving that none is left.
//!
//! The tree is everything in the session that the child leads. A descendant that starts a session
//! of its own has left the tree, as daemons do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::stat::processes;

/// The first pause between two looks at a tree that is to end; it doubles up to [`PAUSE_MAX`].
/// Nothing tells when a group becomes empty, so it has to be looked at.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long the kernel may take to end a killed tree. Only a process stuck in a device driver or on
/// a dead network file system needs longer.
const KILLED_MS_MAX: Duration = Duration::from_millis(2_000);

/// A handle on a tree. It goes on working, without effect, when the tree is gone.
#[derive(Debug, Clone)]
pub struct Tree {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    leader: Pid,
    /// Proven once, believed for ever: afterwards the number may be somebody else's.
    gone: AtomicBool,
}

/// How a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing was left to end.
    AlreadyGone,
    /// `SIGTERM` was enough.
    Terminated,
    /// It took `SIGKILL`.
    Killed,
    /// Something is still there: a process that the kernel cannot end now.
    Survived,
}

struct Member {
    process: Pid,
    group: Pid,
}

impl Tree {
    pub(crate) fn new(leader: Pid) -> Tree {
        Tree { shared: Arc::new(Shared { leader, gone: AtomicBool::new(false) }) }
    }

    /// Whether nothing of the tree runs any more. What is dead but not yet reaped does not count:
    /// who reaps orphans, and when, is beyond this process.
    pub fn is_gone(&self) -> bool {
        if self.shared.gone.load(Ordering::Acquire) {
            return true;
        }
        let gone = match members(self.shared.leader) {
            Some(members) => members.is_empty(),
            None => killpg(self.shared.leader, None) == Err(Errno::ESRCH),
        };
        if gone {
            self.shared.gone.store(true, Ordering::Release);
        }
        gone
    }

    /// Sends a signal to everything in the tree.
    pub fn signal(&self, signal: Signal) {
        if self.shared.gone.load(Ordering::Acquire) {
            return;
        }
        let leader = self.shared.leader;
        let members = members(leader);
        if members.as_ref().is_some_and(Vec::is_empty) {
            self.shared.gone.store(true, Ordering::Release);
            return;
        }
        // A failure means that the group has ended meanwhile, which is what is wanted.
        let _ = killpg(leader, signal);
        for member in members.iter().flatten().filter(|member| member.group != leader) {
            let _ = kill(member.process, signal);
        }
    }

    /// Asks politely, and wakes what is stopped so that it hears.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Waits until the tree is gone, at most this long; tells whether it is.
    pub async fn gone_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut pause = PAUSE_MIN;
        while !self.is_gone() {
            if timeout_at(deadline, sleep(pause)).await.is_err() {
                return self.is_gone();
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        true
    }

    /// The ladder of L-85: `SIGTERM`, `grace`, `SIGKILL`, and the proof.
    pub async fn end(&self, grace: Duration) -> Ending {
        if self.is_gone() {
            return Ending::AlreadyGone;
        }
        self.terminate();
        if self.gone_within(grace).await {
            return Ending::Terminated;
        }
        let deadline = Instant::now() + KILLED_MS_MAX;
        while Instant::now() < deadline {
            // Repeated, because a fork may have slipped past the look at the members.
            self.signal(Signal::SIGKILL);
            if self.gone_within(PAUSE_MAX).await {
                return Ending::Killed;
            }
        }
        Ending::Survived
    }
}

/// The living processes of a session or of the group of the same number; `None` where the system
/// does not list them.
fn members(leader: Pid) -> Option<Vec<Member>> {
    let processes = processes();
    let number = leader.as_raw().cast_unsigned();
    let members = processes
        .iter()
        .filter(|(_, stat)| !stat.is_dead() && (stat.group == number || stat.session == number));
    let members = members.map(|(process, stat)| Member {
        process: Pid::from_raw(process.cast_signed()),
        group: Pid::from_raw(stat.group.cast_signed()),
    });
    let members = members.collect();
    // This process, at least, would be listed.
    (!processes.is_empty()).then_some(members)
}
