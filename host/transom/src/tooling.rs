//! The tools of a host, with everything that holds them: rules, confiner, jobs, and the ways back into the
//! loop.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Context as _;
use tokio::{runtime::Handle, sync::watch};
use transom_config::manifest::Manifest;
use transom_frame::SessionId;
use transom_harness::{
    permissions::Mode,
    ports::{Asker, Judgement, Sink, Stop, Store, ToolCall, ToolOutcome, ToolSpec, Tools},
    subagents::Toolset,
};
use transom_io::{Host, OpenDoor};
use transom_process::{
    Confinement, Confiner, Enforcement, Launcher, Leftovers, OwnDirectory, Report, Spawner, sweep,
};
use transom_tools::{
    JobLimits, Options, Permissions, ProgramHooks, Providers, Registry, SessionLog,
};

use crate::{
    agents::Delegates,
    deployment::Extras,
    environment::Environment,
    governance::{self, Governance},
    hooks, subagents,
};

/// The tools, and what goes with them.
pub(crate) struct Tooling {
    pub(crate) tools: Arc<Guarded>,
    /// Those who have a say in turns.
    pub(crate) hooks: Option<ProgramHooks>,
    /// Those who take tasks in processes of their own.
    pub(crate) delegates: Delegates,
    spawner: Spawner,
    environment: Environment,
    /// Where the session store is.
    store: PathBuf,
    held: Arc<Mutex<Held>>,
    /// Long outputs of tools, of sessions that have no directory of their own; goes when the host does.
    _outputs: OwnDirectory,
}

/// What commands are held to now.
struct Held {
    confinement: Confinement,
    /// What was found out about this machine. `None`: nothing yet, or nothing is confined.
    report: Option<Report>,
    /// Grows with every question what confines here.
    turn: u64,
    /// The question whose answer this is: one that comes later to an earlier question is nobody's.
    answered: u64,
}

/// What a reload may change of the tools.
pub(crate) struct Settings {
    permissions: Permissions,
    /// What holds back hooks.
    mode: Mode,
    jobs: JobLimits,
    /// Where anything confines, it is found out again what does (P-58).
    confinement: Option<(Confinement, Launcher)>,
}

/// Where a deployment's tools work.
pub(crate) struct Site<'a> {
    /// Of sessions that have none of their own; absolute.
    pub(crate) directory: &'a Path,
    /// Where the session store is.
    pub(crate) path: &'a Path,
    /// The session store.
    pub(crate) store: &'a Arc<dyn Store>,
    /// Where the log of a session stands, if it is a file of its own.
    pub(crate) session_log: Option<SessionLog>,
}

impl Tooling {
    pub(crate) fn new(
        manifest: &Manifest,
        extras: &Extras,
        environment: &Environment,
        site: Site<'_>,
        host: &Host,
        agents: &[OpenDoor],
    ) -> anyhow::Result<Tooling> {
        let place = std::env::temp_dir();
        let outputs = OwnDirectory::new(&place, "transom-output-").with_context(|| {
            format!(
                "cannot make a directory for long outputs of tools in {}; set TMPDIR to one that can be written",
                place.display()
            )
        })?;
        let governance = extras.governance;
        let confinement = governance::confinement(manifest, governance, environment, site.path)?;
        let spawner = spawner(environment)?;
        let mut providers = Providers::in_process(Arc::new(host.clone()));
        let delegates =
            Delegates::new(&mut providers, manifest, environment, agents, host, &spawner)?;
        let left = confinement.clone();
        tokio::task::spawn_blocking(move || left.remove_set_aside());
        let registry = Registry::new(Options {
            spawner: Some(spawner.clone()),
            confinement: confinement.clone(),
            confiner: None,
            permissions: governance::calls(manifest, governance)?,
            jobs: extras.background_jobs.then(|| governance::jobs(manifest)).transpose()?,
            job_sink: Some(host.jobs()),
            subagents: Some(providers),
            delegation: subagents::delegating(manifest)?,
            children: Some(Arc::new(host.clone())),
            questions: Some(Arc::new(host.clone())),
            session_log: site.session_log,
            attachments: Some(Arc::clone(site.store) as _),
            ..options(manifest, extras, environment, site.directory, outputs.path())
        })?;
        delegates.know(&registry);
        // Names only: what they hold is nobody's to read (L-84).
        tracing::info!(withheld = ?registry.withheld(), "variables that shells do not get");
        let held = Held { confinement: confinement.clone(), report: None, turn: 0, answered: 0 };
        let held = Arc::new(Mutex::new(held));
        let (found, ready) = watch::channel(governance == Governance::None);
        let mode = governance::agents(manifest, governance).defaults.mode;
        let known = (mode, ready.clone());
        let hooks = hooks::hooks(manifest, environment, &registry, &spawner, known)?;
        if governance == Governance::Full {
            let launcher = Launcher::own().context("cannot open this program's own file")?;
            // Peers are answered meanwhile; the first call waits.
            let (registry, spawner) = (registry.clone(), spawner.clone());
            let (confinement, held) = (confinement.clone(), Arc::clone(&held));
            tokio::spawn(async move {
                let confiner = confiner(&confinement, launcher, &spawner).await;
                confine(&registry, &held, 0, confinement, confiner);
                // Without anybody who waits there is nobody to tell.
                let _ = found.send(true);
            });
        }
        let tools = Arc::new(Guarded { registry, ready });
        Ok(Tooling {
            tools,
            hooks,
            delegates,
            spawner,
            environment: environment.clone(),
            store: site.path.to_owned(),
            held,
            _outputs: outputs,
        })
    }

    /// What another manifest says of the tools. Nothing has changed yet.
    pub(crate) fn settings(
        &self,
        manifest: &Manifest,
        extras: &Extras,
    ) -> anyhow::Result<Settings> {
        let governance = extras.governance;
        let wanted = governance::confinement(manifest, governance, &self.environment, &self.store)?;
        let confinement = match governance {
            Governance::None => None,
            Governance::Full => {
                let launcher = Launcher::own().context("cannot open this program's own file")?;
                Some((wanted, launcher))
            }
        };
        Ok(Settings {
            permissions: governance::calls(manifest, governance)?,
            mode: governance::agents(manifest, governance).defaults.mode,
            jobs: governance::jobs(manifest)?,
            confinement,
        })
    }

    /// Goes by other settings, from the next call on.
    pub(crate) async fn apply(&self, settings: Settings) {
        let Settings { permissions, mode, jobs, confinement } = settings;
        if let Some(hooks) = &self.hooks {
            hooks.set_mode(mode);
        }
        let registry = &self.tools.registry;
        registry.set_permissions(permissions);
        registry.set_job_limits(jobs);
        if let Some((confinement, launcher)) = confinement {
            let turn = {
                let mut held = lock(&self.held);
                held.turn += 1;
                held.turn
            };
            let confiner = confiner(&confinement, launcher, &self.spawner).await;
            confine(registry, &self.held, turn, confinement, confiner);
        }
    }

    /// What commands are held to.
    pub(crate) fn confinement(&self) -> Confinement {
        lock(&self.held).confinement.clone()
    }

    /// What is known of who confines them (P-58).
    pub(crate) fn report(&self) -> Option<Report> {
        lock(&self.held).report.clone()
    }
}

/// Holds commands to this from now on, unless the answer to a later question has come already.
fn confine(
    registry: &Registry,
    held: &Mutex<Held>,
    turn: u64,
    confinement: Confinement,
    confiner: Confiner,
) {
    let mut held = lock(held);
    if held.answered <= turn {
        held.answered = turn;
        held.report = Some(confiner.report().clone());
        held.confinement.clone_from(&confinement);
        registry.set_confinement(confinement, Some(confiner));
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    // Nothing in there is ever half done.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What of the tools needs no running host.
pub(crate) fn options(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
    directory: &Path,
    outputs: &Path,
) -> Options {
    Options {
        keep: manifest.tools.keep_environment.clone(),
        shell_variables: extras.shell_variables.clone(),
        enabled: manifest.tools.enabled.clone(),
        shell_timeout_ms: manifest.tools.shell_timeout_ms,
        skills: skills(environment),
        ..Options::new(Handle::current(), environment.variables.clone(), outputs, directory)
    }
}

/// Where the user keeps skills, beside those of workspaces: in the home that launches of the reference use, and in the
/// one that agents share.
fn skills(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.given("HOME").map(|home| environment.absolute(Path::new(home)));
    let own = match environment.given("DSH_HOME") {
        Some(set) => Some(environment.absolute(Path::new(set))),
        None => home.as_deref().map(|home| home.join(".dsh")),
    };
    let own = own.map(|own| own.join("skills"));
    own.into_iter().chain(home.map(|home| home.join(".agents/skills"))).collect()
}

/// Starts children, and notes them where a later host would look for what this one leaves behind (P-79).
fn spawner(environment: &Environment) -> anyhow::Result<Spawner> {
    let runtime = Handle::current();
    transom_process::adopt_orphans(&runtime)
        .context("cannot take over what commands leave behind")?;
    let spawner = match environment.state_directory() {
        Ok(home) => match noted(&home) {
            Ok(leftovers) => Spawner::noting(runtime, leftovers),
            Err(error) => {
                complain(&format!(
                    "what this host starts is not noted, so that the next one would not end what is left if this one is \
                     killed: {error}"
                ));
                Spawner::new(runtime)
            }
        },
        Err(error) => {
            tracing::warn!(%error, "without a home nothing is noted of what this host starts");
            Spawner::new(runtime)
        }
    };
    spawner.context("the thread that starts children cannot be started")
}

/// Ends what earlier hosts have left behind, and begins the notes of this one, whatever came of that.
fn noted(home: &Path) -> io::Result<Leftovers> {
    let swept = sweep(home);
    for ended in swept.ended {
        complain(&ended.to_string());
    }
    if let Some(first) = swept.failures.first() {
        let more = match swept.failures.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        complain(&format!("what an earlier host has left behind may still run: {first}{more}"));
    }
    Leftovers::open(home, &uuid::Uuid::new_v4().to_string())
}

/// One line on standard error. Where nobody takes it there is nobody to tell.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "transom: {line}");
}

/// Finds out what can be confined here, and says what cannot (P-58, P-60).
async fn confiner(confinement: &Confinement, launcher: Launcher, spawner: &Spawner) -> Confiner {
    let confiner = Confiner::probe(confinement, launcher, spawner).await;
    let report = confiner.report();
    tracing::info!(report = %serde_json::to_string(report).unwrap_or_default(), "what confines commands");
    if report.enforcement == Enforcement::None {
        let mut remedies: Vec<_> = report.gaps.iter().map(|gap| gap.remedy.as_ref()).collect();
        // One reason may stand for several gaps.
        remedies.dedup();
        complain(&format!(
            "commands cannot be confined here, so each is asked about: {}",
            remedies.join("; ")
        ));
    }
    confiner
}

impl Guarded {
    /// Ends a background job on the operator's behalf.
    pub(crate) fn kill_job(&self, session: &SessionId, job: &str) -> anyhow::Result<()> {
        Ok(self.registry.kill_job(session, job)?)
    }
}

/// The tools once it is known what confines their commands: no call is judged before.
pub(crate) struct Guarded {
    registry: Registry,
    ready: watch::Receiver<bool>,
}

impl Tools for Guarded {
    fn equip(&self, session: &SessionId, toolset: Toolset) {
        self.registry.equip(session, toolset);
    }

    fn specs(&self, session: &SessionId) -> Arc<[ToolSpec]> {
        self.registry.specs(session)
    }

    fn specs_for(&self, asker: &Asker) -> Arc<[ToolSpec]> {
        self.registry.specs_for(asker)
    }

    fn specs_need_disk(&self, session: &SessionId) -> bool {
        self.registry.specs_need_disk(session)
    }

    fn note(&self, session: &SessionId, images: bool) {
        self.registry.note(session, images);
    }

    fn is_parallel(&self, session: &SessionId, name: &str, arguments: &str) -> bool {
        self.registry.is_parallel(session, name, arguments)
    }

    fn judge(&self, call: ToolCall, sink: Sink<Judgement>) {
        if *self.ready.borrow() {
            return self.registry.judge(call, sink);
        }
        let (registry, mut ready) = (self.registry.clone(), self.ready.clone());
        tokio::spawn(async move {
            // If whoever finds out is gone, nothing confines, and the judge says so.
            drop(ready.wait_for(|ready| *ready).await);
            registry.judge(call, sink);
        });
    }

    fn call(&self, call: ToolCall, sink: Sink<ToolOutcome>) -> Box<dyn Stop> {
        self.registry.call(call, sink)
    }

    fn finish(&self, session: &SessionId, name: &str, outcome: ToolOutcome) -> ToolOutcome {
        self.registry.finish(session, name, outcome)
    }

    fn forget(&self, session: &SessionId) {
        self.registry.forget(session);
    }

    fn terminate(&self, session: &SessionId, kill_after_ms: u64) {
        self.registry.terminate(session, kill_after_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use transom_config::manifest;

    use super::noted;

    #[test]
    fn a_manifest_may_name_every_tool_there_is_and_no_other() {
        assert_eq!(manifest::TOOLS, transom_tools::BUILT_IN);
    }

    /// P-79.
    #[test]
    fn a_host_is_noted_whatever_earlier_ones_have_left() {
        let home = tempfile::tempdir().unwrap();
        let groups = home.path().join("groups");
        fs::create_dir_all(groups.join("no-file")).unwrap();
        fs::write(groups.join("no-text"), b"boot \xff\n").unwrap();
        let _notes = noted(home.path()).unwrap();
        assert_eq!(fs::read_dir(groups).unwrap().count(), 3);
    }
}
