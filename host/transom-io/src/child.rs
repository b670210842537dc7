//! Carrier `child`: agents in processes of their own, each started for one task that a session delegates. Here is
//! the provider: whether a task may begin, where it runs, and who hears of its end.
//!
//! What is spoken with an agent is its door's codec's; which agents there are is the program's.

mod body;
mod failure;
mod link;
mod output;
mod run;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::{AccessFlags, access};
use tokio::{runtime::Handle, sync::watch};
use transom_frame::SessionId;
use transom_harness::{
    ports::{Delegation, DelegationEvent, Sink, Stop, Subagents},
    subagents::Capabilities,
};
use transom_process::{Mark, Spawner};

use crate::{agents::Host, door::OpenDoor};

/// What the operator says to every question of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// No.
    #[default]
    Reject,
    /// Yes, for once where that is offered.
    Allow,
}

/// How agents of one name are started and ended.
#[derive(Clone)]
pub struct AgentSettings {
    /// The provider's name.
    pub name: String,
    /// An absolute path, or a bare name that is looked up in the agent's own `PATH`.
    pub program: String,
    /// Handed over as they are; no shell is between.
    pub arguments: Vec<String>,
    /// Where agents work; `None`: where the delegating session does. Absolute.
    pub directory: Option<PathBuf>,
    /// What their questions are answered.
    pub permission: Permission,
    /// Everything in their environment.
    pub environment: Vec<(String, String)>,
    /// How long one may take until it has a session.
    pub start: Duration,
    /// How long one may take to end by itself once its input has ended.
    pub eof_grace: Duration,
    /// Between `SIGTERM` and `SIGKILL`.
    pub grace: Duration,
}

impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of variables the names only: values may be secrets.
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("AgentSettings")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("directory", &self.directory)
            .field("permission", &self.permission)
            .field("environment", &names)
            .finish_non_exhaustive()
    }
}

/// By what everything that a session has started can be told; `None`: it is gone. What carries it ends with the session.
pub type Marks = Arc<dyn Fn(&SessionId) -> Option<Mark> + Send + Sync>;

/// A provider of subagents: every run is a fresh process. Cheap to clone.
#[derive(Clone)]
pub struct ChildAgents {
    shared: Arc<Shared>,
}

struct Shared {
    settings: AgentSettings,
    door: OpenDoor,
    host: Host,
    spawner: Spawner,
    marks: Marks,
    runtime: Handle,
    /// The host comes to its end.
    stopping: watch::Sender<bool>,
    /// Runs whose processes are not proven gone.
    running: watch::Sender<usize>,
}

/// A run's place among those of its provider; given back when dropped.
struct Place {
    shared: Arc<Shared>,
}

impl ChildAgents {
    /// The provider of the agents at a door. Its tasks run on `runtime`.
    pub fn new(
        settings: AgentSettings,
        door: OpenDoor,
        host: Host,
        spawner: Spawner,
        marks: Marks,
        runtime: Handle,
    ) -> ChildAgents {
        let (stopping, running) = (watch::Sender::new(false), watch::Sender::new(0));
        let shared = Shared { settings, door, host, spawner, marks, runtime, stopping, running };
        ChildAgents { shared: Arc::new(shared) }
    }

    /// Ends every agent at once, and waits until their processes are gone. None begins any more.
    pub async fn shut_down(&self) {
        self.shared.stopping.send_replace(true);
        let mut running = self.shared.running.subscribe();
        // The sender is in what is borrowed here, so it cannot be gone.
        drop(running.wait_for(|running| *running == 0).await);
    }

    /// How many agents there are now.
    pub fn running(&self) -> usize {
        *self.shared.running.borrow()
    }
}

impl Subagents for ChildAgents {
    /// None of what a delegation may ask for can be told to an agent.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn start(&self, delegation: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop> {
        let (abort, aborted) = watch::channel(false);
        let shared = Arc::clone(&self.shared);
        self.shared.runtime.spawn(run::run(shared, delegation, sink, aborted));
        Box::new(Abort(abort))
    }
}

impl fmt::Debug for ChildAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildAgents").field("settings", &self.shared.settings).finish()
    }
}

struct Abort(watch::Sender<bool>);

impl Stop for Abort {
    fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Place {
    /// Fails where there are as many as there may be, with how many that is.
    fn take(shared: &Arc<Shared>) -> Result<Place, u64> {
        let most = shared.door.slot.active().policy.limits.connections_max;
        let mut taken = false;
        shared.running.send_modify(|running| {
            taken = u64::try_from(*running).is_ok_and(|running| running < most);
            *running += usize::from(taken);
        });
        match taken {
            true => Ok(Place { shared: Arc::clone(shared) }),
            false => Err(most),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// Where an agent works. Never where this host does. Looks at the file system.
fn directory(configured: Option<&Path>, session: Option<&Path>) -> Result<PathBuf, String> {
    let (path, whose) = match (configured, session) {
        (Some(path), _) => (path, "config cwd"),
        (None, Some(path)) => (path, "parent session cwd"),
        (None, None) => {
            return Err(
                "subagent-acp: no working directory for the child — configure `cwd` or delegate from a parent session \
                 that has one"
                    .to_owned(),
            );
        }
    };
    if !path.is_absolute() {
        return Err(format!("subagent-acp: {whose} must be an absolute path: {}", path.display()));
    }
    if !can_enter(path) {
        return Err(format!(
            "subagent-acp: {whose} is not an accessible directory: {}",
            path.display()
        ));
    }
    Ok(path.to_owned())
}

/// Whether a directory is there and this process may work in it. Looks at the file system.
pub fn can_enter(path: &Path) -> bool {
    path.is_dir() && access(path, AccessFlags::X_OK).is_ok()
}
