//! Doors and what serves at them: what the manifest, a policy and a component come to, at the start and at every swap.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use transom_config::manifest::{self, Carrier, Component, Manifest};
use transom_connection::{
    Serving,
    codec::{CodecSource, Framing},
};
use transom_doors::{Answers, Door, DoorCodec};
use transom_io::{
    OpenDoor, Redactor,
    slot::{Leftovers, Slot, Upkeep},
};
use transom_policy::Policy;
use transom_router::Reach;
use transom_sandbox::{Capacity, Limits, LoadError, Sandbox, SandboxConfig};

use crate::{
    candidate::Candidate,
    deployment::{self, Extras},
    environment::{Environment, read_text},
    lock::Pins,
};

/// What is to serve at a door.
pub(crate) struct Version {
    pub(crate) source: Arc<dyn CodecSource>,
    pub(crate) options: Arc<str>,
    pub(crate) policy: Arc<Policy>,
}

/// Where a version's component comes from.
pub(crate) enum Origin {
    /// Where the manifest says.
    Manifest,
    /// This file instead.
    File(PathBuf),
    /// It is there already: only the rest is read.
    Loaded(Arc<dyn CodecSource>),
}

/// Makes versions for the doors of one host.
pub(crate) struct Loader {
    /// None where every door speaks the host's own language.
    sandbox: Option<Sandbox>,
}

/// A door whose settings are put together and whose codec is not loaded yet.
struct Plan<'a> {
    name: &'a str,
    door: &'a manifest::Door,
    built_in: Option<&'static Door>,
    /// The file that takes the place of a built-in component.
    file: Option<PathBuf>,
    policy: Policy,
}

impl<'a> Plan<'a> {
    fn new(
        manifest: &'a Manifest,
        name: &'a str,
        door: &'a manifest::Door,
    ) -> anyhow::Result<Plan<'a>> {
        let built_in = transom_doors::find(&door.component).ok();
        let component = manifest.components.get(&door.component);
        let file = door.policy.as_ref().or(component.and_then(|found| found.policy.as_ref()));
        let mut policy = policy(name, file, built_in)?;
        door.limits.apply(&mut policy.limits);
        let file = component.map(|component: &Component| component.source.clone());
        Ok(Plan { name, door, built_in, file, policy })
    }

    /// The codec that is part of the host itself, where the door has none of its own.
    fn native(&self) -> Option<Arc<dyn CodecSource>> {
        match (self.built_in?.codec, &self.file) {
            (DoorCodec::Native(source), None) => Some(source()),
            _ => None,
        }
    }

    fn options(&self) -> anyhow::Result<Arc<str>> {
        let mut options: serde_json::Map<String, serde_json::Value> = match self.built_in {
            Some(built_in) => serde_json::from_str(built_in.options).context("built-in options")?,
            None => serde_json::Map::new(),
        };
        options.extend(self.door.options.clone());
        Ok(serde_json::Value::Object(options).to_string().into())
    }
}

/// Every door of a manifest.
pub(crate) struct Opened {
    /// Those at which others call, with how.
    pub(crate) doors: Vec<(OpenDoor, Carrier)>,
    /// Those at which this host calls: one for each agent.
    pub(crate) agents: Vec<OpenDoor>,
}

/// What the door of an agent is called. No door of a manifest can be called so.
pub(crate) fn agents_door(agent: &str) -> String {
    format!("agent.{agent}")
}

/// The doors of a manifest's agents, by name, as the manifest would describe them if it could.
pub(crate) fn of_agents(manifest: &Manifest) -> Vec<(String, manifest::Door)> {
    let door = |(name, agent): (&String, &manifest::Agent)| {
        let mut door = deployment::stdio_door(&agent.component);
        door.options.insert("startMs".to_owned(), agent.start_ms.into());
        (agents_door(name), door)
    };
    manifest.agents.iter().map(door).collect()
}

/// Opens every door of a manifest: loaded and tried out, but nobody can connect yet.
pub(crate) fn open(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
    directory: &Path,
) -> anyhow::Result<(Opened, Loader)> {
    let of_agents = of_agents(manifest);
    let calling = of_agents.iter().map(|(name, door)| (name, door));
    let plans =
        manifest.doors.iter().chain(calling).map(|(name, door)| Plan::new(manifest, name, door));
    let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;

    let connections: u64 = plans.iter().map(|plan| plan.policy.limits.connections_max).sum();
    let capacity = match extras.pooled {
        true => Capacity::Pool { connections: u32::try_from(connections).unwrap_or(u32::MAX) },
        false => Capacity::OnDemand,
    };
    let sandbox = match plans.iter().all(|plan| plan.native().is_some()) {
        true => None,
        false => Some(make_sandbox(capacity, environment)?),
    };
    let redactor = Arc::new(redactor(environment));
    let loader = Loader { sandbox };
    let mut opened = Opened { doors: Vec::new(), agents: Vec::new() };
    for plan in plans {
        let (name, door, built_in) = (plan.name, plan.door, plan.built_in);
        // Only the host's own codec reaches sessions that others opened.
        let reach = if plan.native().is_some() { Reach::All } else { Reach::Owned };
        let Version { source, options, policy } = loader.make(plan, &extras.pins)?;
        let slot = Slot::new(name, &door.component, source, options, policy, upkeep(manifest));
        let open = OpenDoor {
            name: name.into(),
            slot,
            framing: built_in.map_or(Framing::Lines, |built_in| built_in.framing),
            reach,
            answers: door
                .answers
                .or(built_in.map(|built_in| built_in.answers))
                .unwrap_or(Answers::Never),
            directory: directory.display().to_string().into(),
            redactor: Arc::clone(&redactor),
        };
        open.try_out(&open.slot.active()).with_context(|| {
            let component = manifest.components.get(&door.component);
            let file = component.map(|component| format!(" from {}", component.source.display()));
            let (file, used) = (file.unwrap_or_default(), &door.component);
            format!("component `{used}`{file} cannot open a connection at door `{name}`")
        })?;
        match manifest.doors.contains_key(name) {
            true => opened.doors.push((open, door.carrier.clone())),
            false => opened.agents.push(open),
        }
    }
    Ok((opened, loader))
}

/// Keeps the values of variables whose names speak of secrets out of the log.
fn redactor(environment: &Environment) -> Redactor {
    let secret = environment.variables.iter().filter(|(name, _)| transom_process::is_secret(name));
    Redactor::new(secret.map(|(_, value)| value.clone()))
}

impl Loader {
    /// What a manifest says should serve at a door, held to these pins.
    pub(crate) fn version(
        &self,
        manifest: &Manifest,
        pins: &Pins,
        name: &str,
        origin: Origin,
    ) -> anyhow::Result<Version> {
        let of_agents = of_agents(manifest);
        let calling = || of_agents.iter().find(|(known, _)| known == name).map(|(_, door)| door);
        let Some(door) = manifest.doors.get(name).or_else(calling) else {
            bail!("the manifest has no door `{name}`");
        };
        let mut plan = Plan::new(manifest, name, door)?;
        match origin {
            Origin::Manifest => self.make(plan, pins),
            Origin::File(file) => {
                plan.file = Some(file);
                self.make(plan, pins)
            }
            Origin::Loaded(source) => {
                let options = plan.options()?;
                Ok(Version { source, options, policy: Arc::new(plan.policy) })
            }
        }
    }

    /// Ends codec calls that take long: the host comes to its end.
    pub(crate) fn cut_off(&self) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.cut_off();
        }
    }

    fn make(&self, plan: Plan<'_>, pins: &Pins) -> anyhow::Result<Version> {
        let options = plan.options()?;
        let source = match (plan.native(), &self.sandbox) {
            (Some(native), _) => native,
            (None, Some(sandbox)) => {
                let (name, file) = (&plan.door.component, plan.file.as_deref());
                load(sandbox, name, file, &plan.policy, &pins.current()?)?
            }
            (None, None) => bail!("this host was started without a sandbox; start it again"),
        };
        Ok(Version { source, options, policy: Arc::new(plan.policy) })
    }
}

/// Whether a version can take over a door. What its peers speak must not change under them.
pub(crate) fn fits(door: &OpenDoor, version: &Version) -> anyhow::Result<()> {
    let active = door.slot.active();
    let (old, new) = (active.source.manifest(), version.source.manifest());
    if old.protocol != new.protocol {
        bail!(
            "{} speaks the protocol `{}`, and the peers of door `{}` speak `{}`",
            version.source.identity(),
            new.protocol,
            door.name,
            old.protocol
        );
    }
    if !new.framings.contains(&door.framing) {
        bail!(
            "{} does not take {:?}, which is how door `{}` cuts its wire; it takes {:?}",
            version.source.identity(),
            door.framing,
            door.name,
            new.framings
        );
    }
    let Version { source, options, policy } = version;
    let serving = Serving {
        number: 0,
        source: Arc::clone(source),
        options: Arc::clone(options),
        policy: Arc::clone(policy),
    };
    door.try_out(&serving).with_context(|| {
        format!("{} cannot open a connection at door `{}`", source.identity(), door.name)
    })
}

/// What becomes of connections that a new version does not take over.
pub(crate) fn leftovers(manifest: &Manifest, component: &str) -> Leftovers {
    match manifest.components.get(component).map(|component| component.swap) {
        None | Some(manifest::Swap::Migrate) => Leftovers::Stay,
        Some(manifest::Swap::Drain) => Leftovers::Drain,
    }
}

/// By what numbers versions are judged.
pub(crate) fn upkeep(manifest: &Manifest) -> Upkeep {
    let (probation, recovery) = (&manifest.probation, &manifest.recovery);
    Upkeep {
        probation_calls: probation.calls,
        probation_faults: probation.faults,
        probation: Duration::from_secs(probation.seconds),
        crashes: recovery.crashes,
        crash_window: Duration::from_secs(recovery.seconds),
        pause_max: Duration::from_millis(recovery.backoff_ms_max),
    }
}

pub(crate) fn make_sandbox(
    capacity: Capacity,
    environment: &Environment,
) -> anyhow::Result<Sandbox> {
    let cache_dir = environment.cache_directory().map(|cache| cache.join("components"));
    let config = SandboxConfig { capacity, cache_dir, ..SandboxConfig::default() };
    let made = match Sandbox::new(config.clone()) {
        // A cache only saves time. One that cannot be used must not keep a host from starting.
        Err(error @ LoadError::Cache { .. }) => {
            tracing::warn!(%error, "compiled code is not cached");
            Sandbox::new(SandboxConfig { cache_dir: None, ..config })
        }
        made => made,
    };
    made.with_context(|| match capacity {
        Capacity::OnDemand => "cannot make a sandbox".to_owned(),
        Capacity::Pool { connections } => format!(
            "cannot make a sandbox with room for {connections} connections, which is `connections-max` of all \
             doors together; try fewer"
        ),
    })
}

pub(crate) fn policy(
    door: &str,
    file: Option<&PathBuf>,
    built_in: Option<&Door>,
) -> anyhow::Result<Policy> {
    if let Some(file) = file {
        let text = read_text(file).with_context(|| {
            format!("cannot read the policy {} of door `{door}`", file.display())
        })?;
        return Ok(Policy::parse(&file.display().to_string(), &text)?);
    }
    match built_in {
        Some(built_in) => Ok(built_in.policy()?),
        None => bail!(
            "the component of door `{door}` has no policy, so it could do nothing; name one with \
             `policy = \"…\"` in its [component] table"
        ),
    }
}

fn load(
    sandbox: &Sandbox,
    name: &str,
    file: Option<&Path>,
    policy: &Policy,
    pins: &Pins,
) -> anyhow::Result<Arc<dyn CodecSource>> {
    let limits = Limits {
        memory_bytes: policy.limits.memory_bytes_max,
        outputs_per_call: policy.limits.outputs_per_call_max,
        bytes_per_call: policy.limits.output_bytes_per_call_max,
        call_base_ms: policy.limits.call_ms_base,
        call_ms_per_mib: policy.limits.call_ms_per_mib,
        ..Limits::default()
    };
    // Read once: what is checked is what is compiled.
    let candidate = Candidate::read(name, file)?;
    pins.admit(&candidate, &policy.trust)?;
    let loaded = sandbox.load(&candidate.title(), &candidate.bytes, limits);
    let loaded = loaded.with_context(|| format!("{} is refused", candidate.shown()))?;
    Ok(loaded)
}
