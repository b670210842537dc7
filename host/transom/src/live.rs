//! What of a manifest may change while its host runs, beside its components: models, permissions, confinement, jobs.
//! Put together here for the start and for every reload; a reload that fails has touched nothing.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use transom_config::manifest::{self, Manifest};
use transom_frame::Failure;
use transom_harness::{
    agent::AgentConfig,
    catalogue::Catalogue,
    chunk::Chunk,
    ports::{Attachments, ModelRequest, Models, RetryPolicy, Route, Served, Sink, Stop},
};
use transom_router::Settings;
use transom_tools::ProgramHooks;

use crate::{
    deployment::{self, Extras},
    environment::Environment,
    governance,
};

/// Models that can be exchanged. A request that is under way ends with those that began it.
pub(crate) struct Switch(RwLock<Arc<dyn Models>>);

impl Switch {
    fn new(models: Arc<dyn Models>) -> Switch {
        Switch(RwLock::new(models))
    }

    fn set(&self, models: Arc<dyn Models>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = models;
    }

    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Models for Switch {
    fn serve(&self, route: &Route) -> Result<Served, Failure> {
        self.models().serve(route)
    }

    fn catalogue(&self) -> Catalogue {
        self.models().catalogue()
    }

    fn retry_policy(&self, provider: &str) -> RetryPolicy {
        self.models().retry_policy(provider)
    }

    fn call(&self, request: ModelRequest, sink: Sink<Chunk>) -> Box<dyn Stop> {
        self.models().call(request, sink)
    }
}

/// The models of a host.
pub(crate) struct Switches {
    pub(crate) host: Arc<Switch>,
    pub(crate) doors: HashMap<Arc<str>, Arc<Switch>>,
}

/// The same as they are to be.
pub(crate) struct Wanted {
    pub(crate) host: Arc<dyn Models>,
    /// Of doors that map routes in their own way.
    pub(crate) doors: HashMap<Arc<str>, Arc<dyn Models>>,
}

impl Switches {
    pub(crate) fn new(manifest: &Manifest, wanted: Wanted) -> Switches {
        let Wanted { host, mut doors } = wanted;
        let switch = |name: &String| {
            let name: Arc<str> = name.as_str().into();
            let models = doors.remove(&name).unwrap_or_else(|| Arc::clone(&host));
            (name, Arc::new(Switch::new(models)))
        };
        let doors = manifest.doors.keys().map(switch).collect();
        Switches { host: Arc::new(Switch::new(host)), doors }
    }

    pub(crate) fn set(&self, wanted: Wanted) {
        let Wanted { host, mut doors } = wanted;
        for (name, switch) in &self.doors {
            switch.set(doors.remove(name).unwrap_or_else(|| Arc::clone(&host)));
        }
        self.host.set(host);
    }
}

/// What requests and new sessions go by.
pub(crate) fn settings(
    manifest: &Manifest,
    extras: &Extras,
    hooks: Option<&ProgramHooks>,
) -> Settings {
    Settings {
        route: Route {
            provider: manifest.model.provider.clone(),
            model: manifest.model.model.clone(),
            ..Route::default()
        },
        ceiling: governance::ceiling(manifest, extras.governance),
        kept_mode_max: governance::kept_mode_max(manifest, extras.governance),
        workspaces: governance::workspaces(manifest),
        config: AgentConfig {
            prompt: deployment::prompt_sections(manifest, extras),
            permissions: governance::agents(manifest, extras.governance),
            subagent_depth_max: manifest.tools.subagent_depth_max,
            subagents_live_max: usize::try_from(manifest.tools.subagents_live_max)
                .unwrap_or(usize::MAX),
            runtime_context: extras.runtime_context,
            hooks: hooks.map(ProgramHooks::points).unwrap_or_default(),
            quiet_jobs: manifest.jobs.delivery == manifest::Delivery::Quiet,
            ..AgentConfig::default()
        },
    }
}

/// The models that a manifest wants.
pub(crate) fn models(
    manifest: &Manifest,
    extras: &Extras,
    environment: &Environment,
    attachments: Arc<dyn Attachments>,
) -> anyhow::Result<Wanted> {
    let (host, doors) = deployment::models(manifest, extras, environment, attachments)?;
    Ok(Wanted { host, doors })
}
