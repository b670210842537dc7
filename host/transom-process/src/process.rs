//! A running child and what became of it.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use crate::{command::SpawnError, spawner::Spawner, tree::Tree};

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A running child. Dropping it kills whatever is left of its tree: its group at once, what has left that shortly after.
#[derive(Debug)]
pub struct Process {
    /// Its input, if that was to be a pipe. Dropping it is the end of input.
    pub stdin: Option<ChildStdin>,
    /// Its output. A descendant that inherited it can keep it open beyond the child's end.
    pub stdout: Option<ChildStdout>,
    /// Its error output, if that was to be a pipe.
    pub stderr: Option<ChildStderr>,
    child: Child,
    id: u32,
    tree: Tree,
    spawner: Spawner,
}

impl Process {
    pub(crate) fn new(mut child: Child, spawner: Spawner) -> Result<Process, SpawnError> {
        let id = child.id().ok_or(SpawnError::Closed)?;
        let leader = i32::try_from(id).map_err(|_| SpawnError::Closed)?;
        Ok(Process {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            id,
            tree: Tree::new(Pid::from_raw(leader)),
            spawner,
        })
    }

    /// The process id, which is also that of its group and session.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The child with all its descendants.
    pub fn tree(&self) -> Tree {
        self.tree.clone()
    }

    /// Waits for the child itself, not for its descendants. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        self.child.wait().await.map(Exit::from)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Not waited for yet, so that the number is still its own.
        if self.child.id().is_some()
            && let Ok(group) = i32::try_from(self.id)
        {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        self.spawner.bury(self.id, self.tree());
    }
}

impl Exit {
    /// The usual name of the signal, for example `SIGTERM`.
    pub fn signal_name(self) -> Option<String> {
        match self {
            Exit::Code(_) => None,
            Exit::Signal(number) => Some(match Signal::try_from(number) {
                Ok(signal) => signal.as_str().to_owned(),
                // Real-time signals have numbers only.
                Err(_) => format!("SIG{number}"),
            }),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            // Only asked of children that have ended, and those did one or the other.
            (None, None) => Exit::Code(-1),
        }
    }
}
