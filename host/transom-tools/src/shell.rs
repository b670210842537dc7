//! One shell command, from its environment to its proven end (L-83, L-85, P-40, P-57). Whether it waits for its
//! command or lets it run on is `bash`'s.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout};
use transom_frame::SessionId;
use transom_harness::permissions::Mode;
use transom_process::{
    Capture, Captured, Command, Confined, Confiner, Ending, Enforcement, Exit, Mark, Observer,
    Places, Process, Profile, SpawnError, Spawner, SpillDirectory, Tree, Verdict, Width,
};

use crate::{
    fence::Fence,
    jobs::TAIL_BYTES_MAX,
    options::SessionLog,
    sessions::{Life, Own},
    tool::{ToolError, blocking},
};

/// How long what a command leaves running may take to end by itself: the shell does not wait for
/// its process substitutions.
const SETTLE: Duration = Duration::from_millis(300);

/// How long output is waited for when everything that could write it should be gone.
const DRAIN: Duration = Duration::from_millis(300);

const NO_CONFINER: &str = "no confiner was set up";

/// A command of the operator's as a mode holds it back.
pub(crate) enum Held {
    /// The mode holds nothing back.
    Free(Command),
    /// It confines itself before it begins.
    Confined(Confined),
    /// It would be confined, if anything here could, and why nothing can.
    Unconfinable(Command, String),
}

/// How shells are run here.
pub(crate) struct Shell {
    pub(crate) spawner: Spawner,
    pub(crate) spills: SpillDirectory,
    /// Scrubbed.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) session_log: Option<SessionLog>,
    pub(crate) fence: Fence,
    pub(crate) confiner: RwLock<Option<Confiner>>,
}

/// A command as a call wants it.
pub(crate) struct Line {
    pub(crate) session: SessionId,
    pub(crate) life: Arc<Life>,
    /// The background job that it is.
    pub(crate) job: Option<String>,
    /// Names its spill files where no job does.
    pub(crate) call_id: String,
    pub(crate) command: String,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// The session's directory, wherever it runs (P-41).
    pub(crate) workspace: PathBuf,
    /// Where that stood when the session was given it (P-5).
    pub(crate) root: Option<PathBuf>,
    /// The mode that holds it back, if one does.
    pub(crate) confined: Option<Mode>,
}

/// Why a command did not run.
pub(crate) enum LaunchError {
    /// It could not be started.
    Spawn(SpawnError),
    /// It could not be confined, so it was not started (P-37).
    Unconfinable(String),
}

/// A command that runs.
pub(crate) struct Running {
    process: Process,
    verdict: Option<Verdict>,
    stdout: Option<Capture>,
    stderr: Option<Capture>,
    /// What ends with it.
    tree: Tree,
    spills: SpillDirectory,
}

/// What a command has before it runs.
#[derive(Default)]
struct Prepared {
    own: Option<Own>,
    /// Of confined ones.
    places: Option<Places>,
    log: Option<PathBuf>,
}

/// What a command came to.
pub(crate) struct Finished {
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    /// `None` if the kernel could not end it.
    pub(crate) exit: Option<Exit>,
    /// The confiner failed; the command did not run.
    pub(crate) unconfinable: Option<String>,
    /// Where the files of its streams are.
    pub(crate) spills: SpillDirectory,
}

/// Where the streams of a command are seen besides.
pub(crate) struct Observers {
    pub(crate) stdout: Observer,
    pub(crate) stderr: Observer,
}

impl Shell {
    /// Replaces what holds shells back, from the next command on.
    pub(crate) fn set_confiner(&self, confiner: Option<Confiner>) {
        *self.confiner.write().unwrap_or_else(PoisonError::into_inner) = confiner;
    }

    fn confiner(&self) -> Option<Confiner> {
        self.confiner.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much of what confines is there (P-58).
    pub(crate) fn enforcement(&self) -> Option<Enforcement> {
        self.confiner().map(|confiner| confiner.report().enforcement)
    }

    /// Why no command of a session can be confined under a mode, if none can (P-60). Reads the file system.
    pub(crate) fn lack(
        &self,
        session: &SessionId,
        workspace: &Path,
        root: Option<&Path>,
        mode: Mode,
    ) -> Option<String> {
        // Without places there is nothing to confine to; the call will fail for that.
        self.confinable(session, workspace, root, width(mode)?).err()
    }

    /// What confines commands of a session, and to which places, if there are any; an error says why nothing can.
    fn confinable(
        &self,
        session: &SessionId,
        workspace: &Path,
        root: Option<&Path>,
        width: Width,
    ) -> Result<(Confiner, io::Result<Places>), String> {
        if self.fence.confinement().off {
            return Err("confinement is switched off".to_owned());
        }
        let confiner = self.confiner().ok_or_else(|| NO_CONFINER.to_owned())?;
        if !confiner.is_usable() {
            let gaps = confiner.report().gaps.iter().map(|gap| gap.name);
            return Err(format!("missing: {}", gaps.collect::<Vec<_>>().join(", ")));
        }
        let places = self.fence.glance(session.as_str(), workspace, root);
        if let Ok(places) = &places
            && !confiner.holds(width, places)
        {
            let exposed = "the host's own files lie where commands may write, and nothing here can cover them";
            return Err(exposed.to_owned());
        }
        Ok((confiner, places))
    }

    /// Holds a command of the operator's as a shell of that session would be held under a mode, without a network of the
    /// session's. An error says why it must not run. Reads the file system.
    pub(crate) fn hold(
        &self,
        session: &SessionId,
        workspace: &Path,
        root: Option<&Path>,
        mode: Mode,
        command: Command,
    ) -> Result<Held, String> {
        let Some(width) = width(mode) else { return Ok(Held::Free(command)) };
        let required = self.fence.confinement().required;
        let (confiner, places) = match self.confinable(session, workspace, root, width) {
            Ok(found) => found,
            Err(why) if required => return Err(format!("it cannot be confined: {why}")),
            Err(why) => return Ok(Held::Unconfinable(command, why)),
        };
        let places = places.map_err(|error| format!("it cannot be confined: {error}"))?;
        let profile = Profile { width, places, network: None };
        let confined = confiner.confine(command, &profile);
        confined.map(Held::Confined).map_err(|error| error.to_string())
    }

    /// Starts a command.
    pub(crate) async fn launch(
        &self,
        line: &Line,
        observers: Observers,
    ) -> Result<Running, LaunchError> {
        let Prepared { own, places, log } = self.prepare(line).await?;
        let own_spills = own.as_ref().map(|own| own.spills.clone());
        let command = self.command(line, own, log);
        let mark = command.mark.clone();
        let (command, verdict) = match (line.confined.and_then(width), places) {
            (Some(width), Some(places)) => {
                let Confined { command, verdict } =
                    self.confine(&line.life, command, width, places).await?;
                (command, Some(verdict))
            }
            (_, _) => (command, None),
        };
        let spawned = self.spawner.spawn(command).await;
        let mut process = spawned.map_err(|error| match error {
            // The launcher, not the command (P-61).
            SpawnError::NotFound(_) | SpawnError::Refused { .. } if verdict.is_some() => {
                unconfinable(&error)
            }
            error => LaunchError::Spawn(error),
        })?;
        let runtime = Handle::current();
        let spill = |stream: &str| match (&own_spills, &line.job) {
            // Found again by the job's id, also by a later host (P-78).
            (Some(spills), Some(job)) => spills.spill_named(&format!("{job}.{stream}")),
            (spills, _) => {
                let spills = spills.as_ref().unwrap_or(&self.spills);
                spills.spill(&format!("{}.{stream}", line.call_id))
            }
        };
        let stdout = process.stdout.take().map(|pipe| {
            let spill = spill("stdout");
            Capture::start_observed(&runtime, pipe, TAIL_BYTES_MAX, spill, observers.stdout)
        });
        let stderr = process.stderr.take().map(|pipe| {
            let spill = spill("stderr");
            Capture::start_observed(&runtime, pipe, TAIL_BYTES_MAX, spill, observers.stderr)
        });
        let tree = match (&line.job, mark) {
            // Whatever a job has started ends with it; what a call leaves behind lives as long as its session (P-41).
            (Some(_), Some(mark)) => process.tree().with_marked(mark),
            (_, _) => process.tree(),
        };
        let spills = own_spills.unwrap_or_else(|| self.spills.clone());
        Ok(Running { process, verdict, stdout, stderr, tree, spills })
    }

    /// The session's own directory, its log, and what a confined command may touch.
    async fn prepare(&self, line: &Line) -> Result<Prepared, LaunchError> {
        let (fence, spills, session_log) =
            (self.fence.clone(), self.spills.clone(), self.session_log.clone());
        let (session, workspace, root) =
            (line.session.clone(), line.workspace.clone(), line.root.clone());
        let (life, is_confined) = (line.life.clone(), line.confined.is_some());
        let prepared = blocking(move || {
            let own = match life.own(&fence.confinement(), &spills) {
                Ok(own) => own,
                Err(_) if life.is_over() => return Err(ToolError::aborted()),
                Err(error) => {
                    tracing::warn!(%session, %error, "a session has no directory of its own");
                    None
                }
            };
            let places = is_confined
                .then(|| fence.places(session.as_str(), &workspace, root.as_deref()))
                .transpose();
            let places = places.map_err(|error| ToolError::new(error.to_string()))?;
            let log = session_log
                .and_then(|log| log(&session))
                .filter(|log| places.as_ref().is_none_or(|places| is_readable(log, places)));
            Ok(Prepared { own, places, log })
        });
        prepared.await.map_err(|error| unconfinable(&error))
    }

    async fn confine(
        &self,
        life: &Life,
        command: Command,
        width: Width,
        places: Places,
    ) -> Result<Confined, LaunchError> {
        let Some(confiner) = self.confiner() else {
            return Err(LaunchError::Unconfinable(NO_CONFINER.to_owned()));
        };
        let network = life.network(&confiner).await;
        let network = network.map_err(|error| unconfinable(&error))?;
        let profile = Profile { width, places, network };
        let confined = blocking(move || Ok(confiner.confine(command, &profile)));
        let confined = confined.await.map_err(|error| unconfinable(&error))?;
        confined.map_err(|error| {
            // What is wrong with the command itself is told as without a confiner.
            match error.get_ref().and_then(|source| source.downcast_ref::<SpawnError>()) {
                Some(error) => LaunchError::Spawn(error.clone()),
                None => unconfinable(&error),
            }
        })
    }

    fn command(&self, line: &Line, own: Option<Own>, log: Option<PathBuf>) -> Command {
        let text = |path: PathBuf| path.into_os_string().into_string().ok();
        let managed = [
            ("DSH_SHELL", Some("1".to_owned())),
            ("DSH_SESSION_ID", Some(line.session.to_string())),
            ("DSH_SESSION_JSONL", log.and_then(text)),
        ];
        let mut environment = self.environment.clone();
        // Last, so that nothing set elsewhere can pretend to be these (L-85).
        environment.retain(|(name, _)| managed.iter().all(|(managed, _)| managed != name));
        let set = managed.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        environment.extend(set);
        if let Some(own) = own.and_then(|own| text(own.directory)) {
            environment.retain(|(name, _)| name != "TMPDIR");
            environment.push(("TMPDIR".to_owned(), own));
        }
        Command {
            arguments: vec!["-c".to_owned(), line.command.clone()],
            directory: Some(line.directory.clone()),
            environment,
            mark: Some(line.mark()),
            ..Command::new("bash")
        }
    }

    /// The lines about what the confiner has denied (P-21, P-22).
    pub(crate) fn denial(
        &self,
        confined: Option<Mode>,
        exit: Option<Exit>,
        stderr: &[u8],
    ) -> Option<String> {
        let network = self.fence.confinement().network;
        let stderr = String::from_utf8_lossy(stderr);
        transom_process::denial(confined?.as_str(), exit?, &stderr, network, true)
    }
}

impl Line {
    /// By what all that it starts can be told.
    fn mark(&self) -> Mark {
        match &self.job {
            Some(job) => self.life.mark().part(job),
            None => self.life.mark().clone(),
        }
    }
}

fn width(mode: Mode) -> Option<Width> {
    match mode {
        Mode::ReadOnly => Some(Width::ReadOnly),
        Mode::WorkspaceWrite => Some(Width::WorkspaceWrite),
        Mode::DangerFullAccess => None,
    }
}

fn unconfinable(error: &dyn std::error::Error) -> LaunchError {
    LaunchError::Unconfinable(error.to_string())
}

fn is_readable(path: &Path, places: &Places) -> bool {
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let is_own = places.own.as_ref().is_some_and(|own| path.starts_with(own));
    is_own || !places.private.iter().chain(&places.secrets).any(|hidden| path.starts_with(hidden))
}

impl Running {
    pub(crate) fn tree(&self) -> Tree {
        self.tree.clone()
    }

    /// Where its long outputs go.
    pub(crate) fn spills(&self) -> &SpillDirectory {
        &self.spills
    }

    /// Waits for the command's own end, and a moment for what it leaves running. May be dropped and called again.
    pub(crate) async fn ended(&mut self) {
        // An error means that the child is gone without a word about how.
        let _ = self.process.wait().await;
        self.process.tree().gone_within(SETTLE).await;
    }

    /// Ends what still runs, and collects what there is.
    pub(crate) async fn finish(mut self, grace: Duration) -> Finished {
        if self.tree.end(grace).await == Ending::Survived {
            tracing::warn!(process = self.process.id(), "a command could not be ended");
        }
        let exit = timeout(DRAIN, self.process.wait()).await.ok().and_then(Result::ok);
        let (stdout, stderr) =
            tokio::join!(collect(self.stdout.take()), collect(self.stderr.take()));
        let unconfinable = match self.verdict.take() {
            Some(verdict) => launch_failure(verdict).await,
            None => None,
        };
        Finished { stdout, stderr, exit, unconfinable, spills: self.spills }
    }
}

/// What kept the launcher from becoming the command, if anything did. Both are gone, so there is nothing to wait for.
pub(crate) async fn launch_failure(verdict: Verdict) -> Option<String> {
    match timeout(DRAIN, verdict.read()).await {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(failed))) => Some(failed.to_string()),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => {
            tracing::warn!("a launcher's verdict does not end");
            None
        }
    }
}

async fn collect(capture: Option<Capture>) -> Captured {
    match capture {
        Some(capture) => capture.finish(DRAIN).await,
        None => Captured::default(),
    }
}

impl Observers {
    pub(crate) fn none() -> Observers {
        Observers { stdout: Box::new(|_, _| {}), stderr: Box::new(|_, _| {}) }
    }
}

/// Nothing confines, and nothing runs unconfined for that (P-37).
pub(crate) fn unavailable(mode: Mode, why: &str) -> ToolError {
    let message = format!(
        "sandbox mode \"{}\" is requested but no sandbox backend is usable on this host; refusing to run the command \
         unconfined: {why}",
        mode.as_str()
    );
    ToolError::coded(message, "SandboxUnavailableError", "SANDBOX_UNAVAILABLE")
}

/// The same, of a job (P-37).
pub(crate) fn runner_failed(mode: Mode) -> String {
    format!(
        "[sandbox: the sandbox runner itself failed under {} mode — the command did not run; this is a sandbox \
         problem, not a command failure]",
        mode.as_str()
    )
}
