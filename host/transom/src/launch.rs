//! The command lines under which published clients start a runtime (`spec` sections S-203 to S-206): what
//! `transom-config` made of them becomes a manifest with one door.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;
use tempfile::TempDir;
use transom_config::{
    launch::{self, Invocation, Launch, PermissionMode, Sessions, Surroundings},
    manifest::{
        Access, Confine, Control, Durability, Jobs, Manifest, Metrics, Model, Permissions,
        Probation, Recovery, SUBAGENTS_LIVE_MAX, StoreSettings, SubagentMode, Tools,
    },
};
use transom_harness::image::ImageLimits;
use transom_router::{Images, Unseen};

use crate::{
    deployment::{self, Extras},
    environment::{CONFIGURATION_BYTES_MAX, Environment, read_bounded},
    governance::Governance,
    stdio,
    storage::Form,
};

/// The store of sessions that are not kept.
const TRANSIENT: &str = "transom.db";

/// Runs a command line that is none of this program's own.
pub(crate) fn run(arguments: &[String], environment: &Environment) -> anyhow::Result<u8> {
    let variables: BTreeMap<String, String> = environment.variables.iter().cloned().collect();
    let surroundings = Surroundings {
        environment: &variables,
        directory: &environment.directory,
        read: &|path: &Path| read_bounded(path, CONFIGURATION_BYTES_MAX),
    };
    let invocation = launch::invocation(arguments)?;
    match invocation {
        Invocation::Version => return print(env!("CARGO_PKG_VERSION")),
        Invocation::Help => return print(&help()),
        Invocation::Configuration { .. } | Invocation::Profile { .. } => {}
    }
    let launch = launch::launch(&invocation, surroundings)?;
    for notice in &launch.notices {
        eprint_line(notice);
    }
    warn_of_freedom(&launch);
    let environment = Environment {
        variables: launch.environment.clone().into_iter().collect(),
        directory: environment.directory.clone(),
    };
    if !launch.serves_sdk && launch.acp.is_none() {
        return wait_for_end();
    }
    // Sessions that nobody wants to keep end with the process that made them.
    let transient = match launch.sessions {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("transom-")
                .tempdir()
                .context("cannot make a directory for sessions that are not kept")?,
        ),
    };
    let (store, store_form) = match (&launch.sessions, &transient) {
        (Some(Sessions::JsonLines { root, compressed }), _) => {
            (root.clone(), Form::JsonLines { compressed: *compressed })
        }
        (Some(Sessions::Sqlite { path }), _) => (path.clone(), Form::Database),
        (None, directory) => {
            let directory = directory.as_ref().map(TempDir::path).unwrap_or(Path::new(""));
            (directory.join(TRANSIENT), Form::Database)
        }
    };
    let extras = Extras {
        store_form,
        directory: Some(launch.workspace.clone()),
        persona: launch.system_prompt.clone(),
        anonymous: !launch.names_harness,
        shell_variables: shell_variables(&environment),
        governance: governance(&launch),
        max_tokens: launch.model.max_tokens,
        reasoning_effort: launch.model.reasoning_effort.clone(),
        runtime_context: launch.runtime_context,
        background_jobs: launch.jobs,
        images: images(&launch),
        ..Extras::default()
    };
    let status = stdio::serve_one(&manifest(launch, store), &extras, &environment);
    drop(transient);
    status
}

fn manifest(launch: Launch, store: PathBuf) -> Manifest {
    let name = if launch.acp.is_some() { "acp" } else { "sdk" };
    let mut door = deployment::stdio_door(name);
    match &launch.acp {
        Some(server) => {
            let route = [("provider", &server.provider), ("model", &server.model)];
            let given = route.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?)));
            door.options.extend(given.map(|(name, value)| (name.to_owned(), json!(value))));
        }
        None => {
            let success = json!(launch.max_tokens_as_success);
            door.options.insert("maxTokensAsSuccess".to_owned(), success);
        }
    }
    Manifest {
        components: BTreeMap::new(),
        doors: BTreeMap::from([(name.to_owned(), door)]),
        model: Model {
            // The provider that clients of the reference mean.
            provider: Some("deepseek-official".to_owned()),
            model: launch.model.model,
            context_window: launch.model.context_window,
            script: None,
            base_url: launch.model.base_url,
        },
        store: StoreSettings { path: Some(store), durability: Durability::Process },
        tools: Tools {
            enabled: launch.tools.into_iter().map(str::to_owned).collect(),
            keep_environment: Vec::new(),
            shell_timeout_ms: launch.shell_timeout_ms,
            subagent_depth_max: launch.subagent_depth_max,
            subagent_mode: match launch.subagents_continuable {
                true => SubagentMode::Continuable,
                false => SubagentMode::OneShot,
            },
            subagents_live_max: SUBAGENTS_LIVE_MAX,
        },
        agents: BTreeMap::new(),
        subagents: BTreeMap::new(),
        hooks: Vec::new(),
        permissions: Permissions::of(launch.permission_mode),
        // P-56: clients of the reference count on both.
        confine: Confine {
            network: Access::Allow,
            unix_sockets: Access::Allow,
            ..Confine::default()
        },
        jobs: Jobs::default(),
        // Clients that launch the process own it: nobody else reaches it or swaps in it.
        control: Control { listen: None, off: true },
        metrics: Metrics::default(),
        probation: Probation::default(),
        recovery: Recovery::default(),
    }
}

/// A profile and the ACP server bring rules, asks and confinement; other configurations of form A bring none of them
/// (P-8).
fn governance(launch: &Launch) -> Governance {
    match launch.acp.is_some() || launch.composition.starts_with("profile ") {
        true => Governance::Full,
        false => Governance::None,
    }
}

/// Images are kept where an entry keeps attachments. Where none does, a configuration of form A leaves them in the log as
/// they came, as the runtime that it was written for, and a profile refuses them (S-58).
fn images(launch: &Launch) -> Images {
    match (launch.attachments, governance(launch)) {
        // The runtimes whose compositions these are take every image, whatever the model (S-58).
        (true, _) => Images::Kept { limits: ImageLimits::default(), unseen: Unseen::Admitted },
        (false, Governance::None) => Images::AsTheyCame,
        (false, Governance::Full) => Images::Refused,
    }
}

/// Says in one line what holds back nothing (P-8), and what P-56 leaves open.
fn warn_of_freedom(launch: &Launch) {
    match governance(launch) {
        Governance::None => eprint_line(
            "permission mode danger-full-access: tools act with the rights of this process, and nobody is asked",
        ),
        Governance::Full if launch.permission_mode != PermissionMode::DangerFullAccess => {
            eprint_line(
                "commands may use the network and unix sockets, as clients of this launch form expect",
            );
        }
        Governance::Full => {}
    }
}

/// What shells of a launch see of its settings (L-85).
fn shell_variables(environment: &Environment) -> Vec<(String, String)> {
    let home = environment.given("DSH_HOME").map(|home| ("DSH_HOME".to_owned(), home.to_owned()));
    home.into_iter().collect()
}

/// A configuration without a serving component: nothing is answered, and the process ends with its
/// input (S-141).
fn wait_for_end() -> anyhow::Result<u8> {
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(0)
}

fn help() -> String {
    use clap::CommandFactory;

    let mut help = crate::cli::Cli::command().render_help().to_string();
    help.push_str(
        "\nStarted by a client of the SDK or of ACP:\n  \
         transom [configuration.yml]                          configuration of the reference, or DSH_CORDIS_CONFIG\n  \
         transom --profile <acp|sdk|sdk-minimal> [--patch F]…  a profile, with DSH_HOME\n",
    );
    help
}

/// What was asked for on standard output (S-204).
fn print(text: &str) -> anyhow::Result<u8> {
    writeln!(io::stdout(), "{text}")?;
    Ok(0)
}

/// Notices of a launch belong on standard error (S-215). Where nobody takes them, the launch goes on.
fn eprint_line(line: &str) {
    let _ = writeln!(io::stderr(), "transom: {line}");
}
