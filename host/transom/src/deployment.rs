//! From a checked manifest to a running host: components loaded, ports made, the loop started.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use tokio::runtime::Handle;
use transom_config::manifest::{self, Carrier, Component, Manifest, Overrides};
use transom_connection::codec::{CodecSource, Framing};
use transom_doors::{Answers, Door, DoorCodec};
use transom_harness::{
    agent::AgentConfig,
    ports::{Models, Route, Store},
    system_prompt::{PromptSection, Text},
};
use transom_io::{Core, Host, OpenDoor, Ports};
use transom_model::{
    DeepSeek, Providers, Scripted,
    deepseek::{Endpoint, Key, Settings},
    scripted::Script,
};
use transom_policy::Policy;
use transom_router::{HostFacts, Reach, Router};
use transom_sandbox::{Capacity, Limits, LoadError, Sandbox, SandboxConfig};

use crate::{
    embedded,
    environment::{
        COMPONENT_BYTES_MAX, CONFIGURATION_BYTES_MAX, Environment, read_bounded, read_text,
    },
    governance::{self, Governance},
    storage::{self, Storage},
    tooling::{Site, Tooling},
};

/// Live sessions of one host. Each holds its conversation in memory; this many of a usual size need
/// some gigabytes.
const HOST_SESSIONS_MAX: usize = 100_000;

/// What a deployment has besides its manifest.
#[derive(Debug, Clone)]
pub(crate) struct Extras {
    /// Where sessions without a directory of their own work; the process's directory without it.
    pub(crate) directory: Option<PathBuf>,
    /// Text of section 0 of the system prompt.
    pub(crate) persona: Option<String>,
    /// Variables that shells get besides, for example `DSH_HOME` (L-85).
    pub(crate) shell_variables: Vec<(String, String)>,
    /// The system prompt does not begin by naming the harness (L-95).
    pub(crate) anonymous: bool,
    /// Whether rules, asks and confinement hold.
    pub(crate) governance: Governance,
    /// The provider's output cap where a route names none; its own without it.
    pub(crate) max_tokens: Option<u64>,
    /// The provider's effort where a route names none; its own without it.
    pub(crate) reasoning_effort: Option<String>,
    /// Whether the model is told what changes around it (L-96).
    pub(crate) runtime_context: bool,
    /// Whether work may go on behind the call that began it.
    pub(crate) background_jobs: bool,
    /// What is at the path of the manifest's store.
    pub(crate) store_form: storage::Form,
    /// Room for every connection that the doors allow is reserved at once; without it, one at a time as
    /// it comes.
    pub(crate) pooled: bool,
}

impl Default for Extras {
    fn default() -> Extras {
        Extras {
            directory: None,
            persona: None,
            shell_variables: Vec::new(),
            anonymous: false,
            governance: Governance::Full,
            max_tokens: None,
            reasoning_effort: None,
            runtime_context: true,
            background_jobs: true,
            store_form: storage::Form::Database,
            pooled: false,
        }
    }
}

/// A host whose loop runs.
pub(crate) struct Running {
    pub(crate) host: Host,
    pub(crate) doors: Vec<(OpenDoor, Carrier)>,
    store: Arc<dyn Store>,
    _tooling: Tooling,
}

impl Running {
    /// Ends every session, closes the store. Gives what went wrong.
    pub(crate) async fn shut_down(&self) -> Vec<String> {
        let mut failures = self.host.shut_down().await;
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(format!("the store did not close: {error}")),
            Err(error) => failures.push(format!("the store did not close: {error}")),
        }
        failures
    }
}

/// Starts a host. Doors are loaded and checked, but nobody can connect yet.
pub(crate) fn start(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
) -> anyhow::Result<Running> {
    let directory = extras.directory.as_deref().unwrap_or(&environment.directory);
    let directory = environment.absolute(directory);
    let doors = open_doors(manifest, extras, environment, &directory)?;
    let (models, door_models) = models(manifest, extras, environment)?;
    let (host, inbox) = Host::new();
    let path = store_path(manifest, environment)?;
    let durability = manifest.store.durability;
    let Storage { store, session_log } =
        Storage::open(&path, extras.store_form, durability, host.commits())?;
    let site = Site { directory: &directory, store: &path, session_log };
    let tooling = Tooling::new(manifest, extras, environment, site, &host)?;

    let facts = HostFacts {
        version: env!("CARGO_PKG_VERSION").into(),
        directory: directory.display().to_string().into(),
        doors: doors.iter().map(|(door, _)| door.name.to_string()).collect(),
        route: Route {
            provider: manifest.model.provider.clone(),
            model: manifest.model.model.clone(),
            ..Route::default()
        },
        sessions_max: HOST_SESSIONS_MAX,
        always_answered: doors.iter().any(|(door, _)| door.answers == Answers::Always),
        ceiling: governance::ceiling(manifest, extras.governance),
        workspaces: governance::workspaces(manifest),
    };
    let mut permissions = governance::agents(manifest, extras.governance);
    // P-8: sessions of this surface begin without the three events.
    permissions.pins &= manifest.doors.values().any(|door| door.component != "acp");
    let config = AgentConfig {
        prompt: prompt_sections(manifest, extras),
        permissions,
        subagent_depth_max: manifest.tools.subagent_depth_max,
        runtime_context: extras.runtime_context,
        quiet_jobs: manifest.jobs.delivery == manifest::Delivery::Quiet,
        ..AgentConfig::default()
    };
    let router = Router::new(facts, config, seed());
    let ports = Ports {
        door_models,
        models,
        tools: Arc::clone(&tooling.tools) as _,
        store: Arc::clone(&store),
    };
    tokio::spawn(Core::new(host.clone(), inbox, router, ports).run());
    Ok(Running { host, doors, store, _tooling: tooling })
}

/// The store of a manifest.
pub(crate) fn store_path(
    manifest: &Manifest,
    environment: &Environment,
) -> anyhow::Result<PathBuf> {
    match &manifest.store.path {
        Some(path) => Ok(environment.absolute(path)),
        None => Ok(environment.state_directory()?.join("store.db")),
    }
}

fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let (front, back) = seed.split_at_mut(16);
    front.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    back.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    seed
}

/// A door whose settings are put together and whose codec is not loaded yet.
struct Plan<'a> {
    name: &'a str,
    door: &'a manifest::Door,
    built_in: Option<&'static Door>,
    /// What the manifest says of the component; it takes the place of a built-in one.
    component: Option<&'a Component>,
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
        Ok(Plan { name, door, built_in, component, policy })
    }

    /// The codec that is part of the host itself, where the door has none of its own.
    fn native(&self) -> Option<Arc<dyn CodecSource>> {
        match (self.built_in?.codec, self.component) {
            (DoorCodec::Native(source), None) => Some(source()),
            _ => None,
        }
    }

    fn open(self, codec: Codec, directory: &Path) -> anyhow::Result<(OpenDoor, Carrier)> {
        let Plan { name, door, built_in, component, policy } = self;
        let mut options: serde_json::Map<String, serde_json::Value> = match built_in {
            Some(built_in) => serde_json::from_str(built_in.options).context("built-in options")?,
            None => serde_json::Map::new(),
        };
        options.extend(door.options.clone());
        // Only the host's own codec reaches sessions that others opened.
        let (source, reach) = match codec {
            Codec::Native(source) => (source, Reach::All),
            Codec::Component(source) => (source, Reach::Owned),
        };
        let open = OpenDoor {
            name: name.into(),
            source,
            policy: Arc::new(policy),
            framing: built_in.map_or(Framing::Lines, |built_in| built_in.framing),
            options: serde_json::Value::Object(options).to_string().into(),
            reach,
            answers: door
                .answers
                .or(built_in.map(|built_in| built_in.answers))
                .unwrap_or(Answers::Never),
            directory: directory.display().to_string().into(),
        };
        open.try_out().with_context(|| {
            let file = component.map(|component| format!(" from {}", component.source.display()));
            let (file, used) = (file.unwrap_or_default(), &door.component);
            format!("component `{used}`{file} cannot open a connection at door `{name}`")
        })?;
        Ok((open, door.carrier.clone()))
    }
}

/// Who turns a door's units into frames.
enum Codec {
    Native(Arc<dyn CodecSource>),
    Component(Arc<dyn CodecSource>),
}

fn open_doors(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
    directory: &Path,
) -> anyhow::Result<Vec<(OpenDoor, Carrier)>> {
    let plans = manifest.doors.iter().map(|(name, door)| Plan::new(manifest, name, door));
    let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;

    let connections: u64 = plans.iter().map(|plan| plan.policy.limits.connections_max).sum();
    let capacity = match extras.pooled {
        true => Capacity::Pool { connections: u32::try_from(connections).unwrap_or(u32::MAX) },
        false => Capacity::OnDemand,
    };
    let mut sandbox = None;
    let mut doors = Vec::new();
    for plan in plans {
        let codec = match plan.native() {
            Some(native) => Codec::Native(native),
            None => {
                let sandbox = match &mut sandbox {
                    Some(sandbox) => sandbox,
                    none => none.insert(make_sandbox(capacity, environment)?),
                };
                Codec::Component(load(sandbox, &plan.door.component, plan.component, &plan.policy)?)
            }
        };
        doors.push(plan.open(codec, directory)?);
    }
    Ok(doors)
}

fn make_sandbox(capacity: Capacity, environment: &Environment) -> anyhow::Result<Sandbox> {
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

fn policy(door: &str, file: Option<&PathBuf>, built_in: Option<&Door>) -> anyhow::Result<Policy> {
    if let Some(file) = file {
        let text = read_text(file).with_context(|| {
            format!("cannot read the policy {} of door `{door}`", file.display())
        })?;
        let policy = Policy::parse(&file.display().to_string(), &text)?;
        if policy.trust.require_signature {
            bail!("{}: signatures are not part of this version; leave [trust] out", file.display());
        }
        return Ok(policy);
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
    component: Option<&Component>,
    policy: &Policy,
) -> anyhow::Result<Arc<dyn CodecSource>> {
    let limits = Limits {
        memory_bytes: policy.limits.memory_bytes_max,
        outputs_per_call: policy.limits.outputs_per_call_max,
        bytes_per_call: policy.limits.output_bytes_per_call_max,
        call_base_ms: policy.limits.call_ms_base,
        call_ms_per_mib: policy.limits.call_ms_per_mib,
        ..Limits::default()
    };
    let loaded = match component {
        Some(component) => {
            let file = component.source.display();
            let bytes = read_bounded(&component.source, COMPONENT_BYTES_MAX)
                .with_context(|| format!("cannot read component `{name}` from {file}"))?;
            sandbox
                .load(name, &bytes, limits)
                .with_context(|| format!("component `{name}` from {file} is refused"))?
        }
        None => {
            let Some(bytes) = embedded::component(name) else {
                bail!(
                    "component `{name}` is not part of this program; describe it in [component.{name}]"
                );
            };
            let version = format!("{name} {}", env!("CARGO_PKG_VERSION"));
            sandbox
                .load(&version, bytes, limits)
                .with_context(|| format!("built-in component `{name}`"))?
        }
    };
    Ok(loaded)
}

type DoorModels = HashMap<Arc<str>, Arc<dyn Models>>;

fn models(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
) -> anyhow::Result<(Arc<dyn Models>, DoorModels)> {
    let script = match &manifest.model.script {
        None => Script::builtin(),
        Some(file) => {
            let text = read_text(file)
                .with_context(|| format!("cannot read the model script {}", file.display()))?;
            text.parse::<Script>().with_context(|| format!("model script {}", file.display()))?
        }
    };
    let configured = manifest.model.base_url.clone();
    let variables = environment.clone();
    let credentials = move || Endpoint {
        base_url: configured
            .clone()
            .or_else(|| variables.given("DEEPSEEK_BASE_URL").map(str::to_owned)),
        key: variables.given("DEEPSEEK_API_KEY").map(Key::new),
    };
    let mut settings = Settings::default();
    if let Some(window) = manifest.model.context_window {
        settings.context_window = window;
    }
    if let Some(tokens) = extras.max_tokens {
        settings.max_tokens = tokens;
    }
    settings.effort.clone_from(&extras.reasoning_effort);
    let providers = Providers::new(Handle::current())
        .with("deepseek-official", DeepSeek::new(credentials, settings))
        .with("scripted", Scripted::new(script));

    let mut by_door: DoorModels = HashMap::new();
    for (name, door) in &manifest.doors {
        if door.route_map.is_empty() {
            continue;
        }
        let mut mapped = providers.clone();
        for (asked, answering) in &door.route_map {
            mapped =
                mapped.map(asked, answering).with_context(|| format!("[door.{name}] route-map"))?;
        }
        by_door.insert(name.as_str().into(), Arc::new(mapped));
    }
    Ok((Arc::new(providers), by_door))
}

fn prompt_sections(manifest: &Manifest, extras: &Extras) -> Vec<PromptSection> {
    let section =
        |name: &str, order, text: Text| PromptSection { name: name.to_owned(), order, text };
    let identity = "You are a software agent that works through Transom. You act with the tools you are given, \
                    and you say plainly what you did and what you could not do.";
    let workspace =
        "The working directory is {{cwd}}. Relative paths and shell commands start there.";
    let identity =
        (!extras.anonymous).then(|| section("identity", -100, Text::Verbatim(identity.to_owned())));
    let persona = extras.persona.clone().map(|text| section("persona", 0, Text::Verbatim(text)));
    let workspace = section("workspace", 100, Text::Template(workspace.to_owned()));
    let has_jobs =
        extras.background_jobs && manifest.tools.enabled.iter().any(|tool| tool == "job_output");
    let jobs = has_jobs.then(|| {
        let text = Text::Verbatim(transom_tools::JOBS_PROMPT.to_owned());
        section("jobs", transom_tools::JOBS_PROMPT_ORDER, text)
    });
    identity.into_iter().chain(persona).chain([workspace]).chain(jobs).collect()
}

/// The manifest of a command: from its files, or the built-in one, with what environment and command line say
/// instead.
pub(crate) fn manifest(
    files: &[PathBuf],
    options: &crate::cli::HostOptions,
    environment: &Environment,
) -> anyhow::Result<Manifest> {
    let variables = environment.variables.iter().cloned().collect();
    let sets = options.set.iter().map(String::as_str);
    let overrides = Overrides::new(&environment.directory, &variables, sets);
    let mut manifest = if files.is_empty() {
        Manifest::built_in_with(&environment.state_directory()?, &overrides)?
    } else {
        let mut layers = Vec::new();
        for file in files {
            let bytes = read_bounded(file, CONFIGURATION_BYTES_MAX)
                .map_err(|error| transom_config::ConfigErrors::unreadable(file, &error))?;
            layers.push((file.as_path(), bytes));
        }
        let layers: Vec<_> = layers.iter().map(|(file, bytes)| (*file, &bytes[..])).collect();
        let mut manifest = Manifest::parse_layers(&layers, &overrides)?;
        let guarded = operators_files(files, &manifest, environment);
        manifest.confine.guard.extend(guarded);
        manifest
    };
    refuse_unbuilt(&manifest)?;
    if let Some(store) = &options.store {
        manifest.store.path = Some(environment.absolute(store));
    }
    if let Some(script) = &options.model_script {
        manifest.model.script = Some(environment.absolute(script));
    }
    Ok(manifest)
}

/// What says what shells may do is not theirs to change (P-46): the manifest, what will lock it, and policies.
fn operators_files(
    files: &[PathBuf],
    manifest: &Manifest,
    environment: &Environment,
) -> Vec<PathBuf> {
    let components = manifest.components.values().filter_map(|component| component.policy.as_ref());
    let doors = manifest.doors.values().filter_map(|door| door.policy.as_ref());
    let policies = components.chain(doors).map(|policy| environment.absolute(policy));
    let files = files.iter().map(|file| environment.absolute(file));
    let files = files.flat_map(|file| [file.with_extension("lock"), file]);
    policies.chain(files).collect()
}

/// Refuses what a manifest may say and this version does not do yet: nobody must believe that it holds.
fn refuse_unbuilt(manifest: &Manifest) -> anyhow::Result<()> {
    let component = |wanted: fn(&Component) -> bool| manifest.components.values().any(wanted);
    let unbuilt = [
        ("`swap` of a component", component(|one| one.swap != manifest::Swap::default())),
        ("`watch` of a component", component(|one| one.watch)),
        ("[control]", manifest.control != manifest::Control::default()),
        ("[metrics]", manifest.metrics != manifest::Metrics::default()),
        ("[probation]", manifest.probation != manifest::Probation::default()),
        ("[recovery]", manifest.recovery != manifest::Recovery::default()),
    ];
    match unbuilt.iter().find(|(_, said)| *said) {
        Some((what, _)) => bail!("{what} is not part of this version; leave it out"),
        None => Ok(()),
    }
}

/// A door of its own on standard input and output.
pub(crate) fn stdio_door(component: &str) -> manifest::Door {
    manifest::Door {
        component: component.to_owned(),
        carrier: Carrier::Stdio,
        options: serde_json::Map::new(),
        route_map: std::collections::BTreeMap::new(),
        answers: None,
        policy: None,
        limits: manifest::DoorLimits::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use transom_config::manifest::Manifest;

    use super::refuse_unbuilt;

    #[test]
    fn what_the_page_shows_starts_a_host() {
        let page = include_str!("../../../docs/manifest.md");
        let after = page.split("```toml\n").skip(1);
        let shown = after.filter_map(|rest| rest.split("```").next()).collect::<Vec<_>>();
        assert!(!shown.is_empty());
        for text in shown {
            let manifest = Manifest::parse(Path::new("transom.toml"), text.as_bytes()).unwrap();
            refuse_unbuilt(&manifest).unwrap();
        }
    }
}
