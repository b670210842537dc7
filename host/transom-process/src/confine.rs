//! The confiner: what holds a shell back (`permissions-and-jobs.md` §11). A command is turned into one that runs this
//! program again as a *launcher* (`confine/launch.rs`), which puts up the walls and then becomes the command. Which
//! walls there are is found out by trying (`confine/probe.rs`); which commands are confined is decided elsewhere.

mod attempt;
mod calls;
mod capabilities;
pub(crate) mod denial;
mod files;
pub(crate) mod launch;
mod mounts;
mod namespaces;
pub(crate) mod network;
pub(crate) mod plan;
mod probe;
pub(crate) mod report;
pub(crate) mod system;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use nix::{
    fcntl::{OFlag, open},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::Mode,
    },
    unistd::pipe2,
};
use tokio::{io::AsyncReadExt, net::unix::pipe};

use crate::{
    command::Command,
    confine::{
        launch::SUBCOMMAND,
        network::SessionNetwork,
        plan::{LauncherFailed, Layers, Plan, Width},
        report::{Reach, Report},
    },
    places::{Confinement, Places},
    spawner::Spawner,
};

/// More than any launcher has to say.
const VERDICT_BYTES_MAX: u64 = 65_536;

/// The program that plays the launcher. It is held open, so that it does not matter if its file is replaced.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: Arc<OwnedFd>,
    arguments: Vec<String>,
}

impl Launcher {
    /// The running program itself.
    pub fn own() -> io::Result<Launcher> {
        Launcher::program(Path::new("/proc/self/exe"), Vec::new())
    }

    /// Another program, which calls [`launch`] with what follows after these arguments and [`SUBCOMMAND`].
    pub fn program(path: &Path, arguments: Vec<String>) -> io::Result<Launcher> {
        let program = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok(Launcher { program: Arc::new(program), arguments })
    }
}

/// How one session's commands are confined.
#[derive(Debug, Clone)]
pub struct Profile {
    /// What they may change.
    pub width: Width,
    /// Where.
    pub places: Places,
    /// The network they share, from [`Confiner::network`]. Without it they have none, if the operator denies it.
    pub network: Option<SessionNetwork>,
}

/// Confines commands, as far as this machine can. Cheap to clone.
#[derive(Clone)]
pub struct Confiner {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Confinement,
    launcher: Launcher,
    spawner: Spawner,
    layers: Layers,
    report: Report,
}

/// A command that will be confined, and where to learn whether it was.
#[derive(Debug)]
pub struct Confined {
    /// To be spawned in place of the original. If that fails for another reason than the working directory, the
    /// launcher could not be run.
    pub command: Command,
    /// To be asked once the command was spawned.
    pub verdict: Verdict,
}

/// What the launcher says about itself.
#[derive(Debug)]
pub struct Verdict {
    descriptor: OwnedFd,
}

impl Confiner {
    /// Finds out what works here, by trying it in throw-away processes (P-58). Takes at most two seconds.
    pub async fn probe(settings: &Confinement, launcher: Launcher, spawner: &Spawner) -> Confiner {
        let (layers, report) = probe::run(settings, &launcher, spawner).await;
        let (settings, spawner) = (settings.clone(), spawner.clone());
        Confiner { shared: Arc::new(Shared { settings, launcher, spawner, layers, report }) }
    }

    /// What works here, and what does not.
    pub fn report(&self) -> &Report {
        &self.shared.report
    }

    /// Whether commands can be confined at all. Whether those of one session can is [`Confiner::holds`].
    pub fn is_usable(&self) -> bool {
        self.shared.report.is_usable()
    }

    /// Whether commands that may write there can be confined: without mounts nothing hides the host's own files from
    /// whoever may write the directory they lie in (P-53, last line).
    pub fn holds(&self, width: Width, places: &Places) -> bool {
        let exposed = || {
            let below_root = |path: &Path| places.roots.iter().any(|root| path.starts_with(root));
            places.private.iter().any(|path| below_root(path))
        };
        let needs_mounts = width == Width::WorkspaceWrite && !self.shared.layers.mounts;
        self.is_usable() && !(needs_mounts && exposed())
    }

    /// Makes a network for the commands of one session, where confined commands are to have one of their own
    /// and this machine can make it. Its owner keeps it as long as the session lives.
    pub async fn network(&self) -> io::Result<Option<SessionNetwork>> {
        let Shared { launcher, spawner, layers, report, .. } = &*self.shared;
        if report.network != Reach::Loopback {
            return Ok(None);
        }
        network::make(launcher, spawner, layers.user).await.map(Some)
    }

    /// Turns a command into one that confines itself before it begins.
    pub fn confine(&self, command: Command, profile: &Profile) -> io::Result<Confined> {
        let Shared { settings, launcher, layers, .. } = &*self.shared;
        command.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        if !self.holds(profile.width, &profile.places) {
            let message = "these commands cannot be confined on this host";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let plan = Plan::new(
            layers,
            settings.network,
            settings.unix_sockets,
            profile.width,
            &profile.places,
        );
        prepare(launcher, plan, profile.network.as_ref(), command)
    }
}

impl fmt::Debug for Confiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confiner").field("report", &self.shared.report).finish_non_exhaustive()
    }
}

/// A command that runs the launcher with this plan.
fn prepare(
    launcher: &Launcher,
    mut plan: Plan,
    network: Option<&SessionNetwork>,
    mut command: Command,
) -> io::Result<Confined> {
    if let Some(network) = network.filter(|_| plan.offline) {
        plan.join = Some(network.pass_on(&mut command.inherited));
    }
    let mut profile = File::from(memfd_create("transom-profile", MFdFlags::MFD_CLOEXEC)?);
    profile.write_all(&serde_json::to_vec(&plan)?)?;
    let profile = Arc::new(OwnedFd::from(profile));
    let (descriptor, said) = pipe2(OFlag::O_CLOEXEC)?;
    let said = Arc::new(said);

    let mut arguments = launcher.arguments.clone();
    arguments.push(SUBCOMMAND.to_owned());
    arguments.extend([&profile, &said].map(|descriptor| descriptor.as_raw_fd().to_string()));
    arguments.push(command.program);
    arguments.append(&mut command.arguments);
    // Resolved in the child, which closes the descriptor only when it has become the program.
    command.program = format!("/proc/self/fd/{}", launcher.program.as_raw_fd());
    command.arguments = arguments;
    command.inherited.push(profile);
    command.inherited.push(said);
    command.inherited.hold(launcher.program.clone());
    Ok(Confined { command, verdict: Verdict { descriptor } })
}

impl Verdict {
    /// Waits until the launcher has become the command, or has failed to. The command must have been given to
    /// the spawner, and no copy of it kept: a copy holds the other end open.
    pub async fn read(self) -> io::Result<Result<(), LauncherFailed>> {
        let text = self.text().await?;
        if text.is_empty() {
            return Ok(Ok(()));
        }
        // What is no report is one all the same: nothing else writes there.
        let unread = |_| LauncherFailed { stage: "profile".to_owned(), error: text.clone() };
        Ok(Err(serde_json::from_str(&text).unwrap_or_else(unread)))
    }

    /// All that was said, up to its end.
    async fn text(self) -> io::Result<String> {
        let mut text = Vec::new();
        let receiver = pipe::Receiver::from_owned_fd(self.descriptor)?;
        receiver.take(VERDICT_BYTES_MAX).read_to_end(&mut text).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
