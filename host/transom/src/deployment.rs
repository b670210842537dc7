//! From a checked manifest to a running host: components loaded, ports made, the loop started.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use tokio::runtime::Handle;
use transom_config::manifest::{self, Carrier, Manifest};
use transom_doors::Answers;
use transom_harness::{
    image::ImageLimits,
    ports::{Attachments, Models, Store},
    system_prompt::{PromptSection, Text},
};
use transom_io::{Core, Host, OpenDoor, Ports};
use transom_model::{
    DeepSeek, Providers, Scripted,
    deepseek::{Endpoint, Key, Settings},
    scripted::Script,
};
use transom_router::{HostFacts, Images, Router, Unseen};

use crate::{
    doors::{self, Loader, Opened},
    environment::{Environment, read_text},
    governance::Governance,
    live::{self, Switches},
    lock::Pins,
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
    /// What becomes of images in prompts.
    pub(crate) images: Images,
    /// What is at the path of the manifest's store.
    pub(crate) store_form: storage::Form,
    /// Room for every connection that the doors allow is reserved at once; without it, one at a time as
    /// it comes.
    pub(crate) pooled: bool,
    /// What components are held to.
    pub(crate) pins: Pins,
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
            images: Images::Kept { limits: ImageLimits::default(), unseen: Unseen::Refused },
            store_form: storage::Form::Database,
            pooled: false,
            pins: Pins::default(),
        }
    }
}

/// A host whose loop runs.
pub(crate) struct Running {
    pub(crate) host: Host,
    pub(crate) doors: Vec<(OpenDoor, Carrier)>,
    /// The doors at which agents are spoken with.
    pub(crate) agents: Vec<OpenDoor>,
    pub(crate) loader: Arc<Loader>,
    pub(crate) tooling: Arc<Tooling>,
    pub(crate) switches: Arc<Switches>,
    pub(crate) store: Arc<dyn Store>,
}

impl Running {
    /// Ends every session, closes the store. Gives what went wrong.
    pub(crate) async fn shut_down(&self) -> Vec<String> {
        let (mut failures, ()) =
            tokio::join!(self.host.shut_down(), self.tooling.delegates.shut_down());
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
    let (Opened { doors, agents }, loader) =
        doors::open(manifest, extras, environment, &directory)?;
    let (host, inbox) = Host::new();
    let path = store_path(manifest, environment)?;
    let durability = manifest.store.durability;
    let Storage { store, session_log } =
        Storage::open(&path, extras.store_form, durability, host.commits())?;
    let attachments = Arc::clone(&store) as Arc<dyn Attachments>;
    let switches =
        Switches::new(manifest, live::models(manifest, extras, environment, attachments)?);
    let site = Site { directory: &directory, path: &path, store: &store, session_log };
    let tooling = Tooling::new(manifest, extras, environment, site, &host, &agents)?;

    let transom_router::Settings { route, ceiling, kept_mode_max, workspaces, config } =
        live::settings(manifest, extras, tooling.hooks.as_ref());
    let facts = HostFacts {
        version: env!("CARGO_PKG_VERSION").into(),
        directory: directory.display().to_string().into(),
        doors: doors.iter().map(|(door, _)| door.name.to_string()).collect(),
        route,
        sessions_max: HOST_SESSIONS_MAX,
        always_answered: doors.iter().any(|(door, _)| door.answers == Answers::Always),
        ceiling,
        kept_mode_max,
        workspaces,
        images: extras.images,
    };
    let points = config.hooks;
    let router = Router::new(facts, config, seed());
    let doors_models = switches.doors.iter();
    let ports = Ports {
        door_models: doors_models
            .map(|(name, switch)| (Arc::clone(name), Arc::clone(switch) as _))
            .collect(),
        models: Arc::clone(&switches.host) as _,
        tools: Arc::clone(&tooling.tools) as _,
        store: Arc::clone(&store),
    };
    let core = Core::new(host.clone(), inbox, router, ports);
    let core = match tooling.hooks.clone() {
        Some(hooks) => core.with_hooks(Arc::new(hooks), points),
        None => core,
    };
    tokio::spawn(core.run());
    Ok(Running {
        host,
        doors,
        agents,
        loader: Arc::new(loader),
        tooling: Arc::new(tooling),
        switches: Arc::new(switches),
        store,
    })
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

pub(crate) type DoorModels = HashMap<Arc<str>, Arc<dyn Models>>;

/// What the scripted model plays.
pub(crate) fn script(manifest: &Manifest) -> anyhow::Result<Script> {
    let Some(file) = &manifest.model.script else { return Ok(Script::builtin()) };
    let text = read_text(file)
        .with_context(|| format!("cannot read the model script {}", file.display()))?;
    text.parse().with_context(|| format!("model script {}", file.display()))
}

pub(crate) fn models(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
    attachments: Arc<dyn Attachments>,
) -> anyhow::Result<(Arc<dyn Models>, DoorModels)> {
    let script = script(manifest)?;
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
        .with("scripted", Scripted::new(script).seeing(attachments));

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

pub(crate) fn prompt_sections(manifest: &Manifest, extras: &Extras) -> Vec<PromptSection> {
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
