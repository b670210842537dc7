//! The tools of a host, with everything that holds them: rules, confiner, jobs, and the ways back into the
//! loop.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::runtime::Handle;
use transom_config::manifest::Manifest;
use transom_io::Host;
use transom_process::{Confinement, Confiner, Enforcement, Launcher, Leftovers, Spawner, sweep};
use transom_tools::{Options, Registry, SessionLog};

use crate::{
    deployment::Extras,
    environment::Environment,
    governance::{self, Governance},
};

/// Tools that are ready.
pub(crate) struct Tooling {
    pub(crate) registry: Registry,
    /// Long outputs of tools; goes when the host does.
    _outputs: TempDir,
}

/// Where a deployment's tools work.
pub(crate) struct Site<'a> {
    /// Of sessions that have none of their own; absolute.
    pub(crate) directory: &'a Path,
    /// The session store.
    pub(crate) store: &'a Path,
    /// Where the log of a session stands, if it is a file of its own.
    pub(crate) session_log: Option<SessionLog>,
}

impl Tooling {
    pub(crate) async fn new(
        manifest: &Manifest,
        extras: &Extras,
        environment: &Environment,
        site: Site<'_>,
        host: &Host,
    ) -> anyhow::Result<Tooling> {
        let outputs = tempfile::Builder::new()
            .prefix("transom-output-")
            .tempdir()
            .context("cannot make a directory for long outputs of tools")?;
        let governance = extras.governance;
        let confinement = governance::confinement(manifest, governance, environment, site.store)?;
        let spawner = spawner(environment)?;
        let confiner = match governance {
            Governance::None => None,
            Governance::Full => Some(confiner(&confinement, &spawner).await?),
        };
        let registry = Registry::new(Options {
            spawner: Some(spawner),
            confinement,
            confiner,
            permissions: governance::calls(manifest, governance)?,
            jobs: extras.background_jobs.then(|| governance::jobs(manifest)).transpose()?,
            job_sink: Some(host.jobs()),
            subagents: Some(Arc::new(host.clone())),
            questions: Some(Arc::new(host.clone())),
            session_log: site.session_log,
            ..options(manifest, extras, environment, site.directory, outputs.path())
        })?;
        // Names only: what they hold is nobody's to read (L-84).
        tracing::info!(withheld = ?registry.withheld(), "variables that shells do not get");
        Ok(Tooling { registry, _outputs: outputs })
    }
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
        ..Options::new(Handle::current(), environment.variables.clone(), outputs, directory)
    }
}

/// Starts children, and notes them where a later host would look for what this one leaves behind (P-79).
fn spawner(environment: &Environment) -> anyhow::Result<Spawner> {
    let runtime = Handle::current();
    transom_process::adopt_orphans(&runtime)
        .context("cannot take over what commands leave behind")?;
    let noted = environment.state_directory().ok().and_then(|home| noted(&home).ok());
    let spawner = match noted {
        Some(leftovers) => Spawner::noting(runtime, leftovers),
        None => Spawner::new(runtime),
    };
    spawner.context("the thread that starts children cannot be started")
}

fn noted(home: &Path) -> io::Result<Leftovers> {
    for swept in sweep(home)? {
        let _ = writeln!(io::stderr(), "transom: {swept}");
    }
    Leftovers::open(home, &uuid::Uuid::new_v4().to_string())
}

/// Finds out what can be confined here, and says what cannot (P-58, P-60).
async fn confiner(confinement: &Confinement, spawner: &Spawner) -> anyhow::Result<Confiner> {
    let launcher = Launcher::own().context("cannot open this program's own file")?;
    let confiner = Confiner::probe(confinement, launcher, spawner).await;
    let report = confiner.report();
    tracing::info!(report = %serde_json::to_string(report).unwrap_or_default(), "what confines commands");
    if report.enforcement == Enforcement::None {
        let remedies: Vec<_> = report.gaps.iter().map(|gap| gap.remedy).collect();
        let _ = writeln!(
            io::stderr(),
            "transom: commands cannot be confined here, so each is asked about: {}",
            remedies.join("; ")
        );
    }
    Ok(confiner)
}
