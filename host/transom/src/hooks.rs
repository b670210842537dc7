//! The manifest's hooks, in the words of the crates that ask them (`docs/hooks.md`).

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::sync::watch;
use transom_config::manifest::{self, Hook, Manifest};
use transom_harness::permissions::{Mode, rules::Pattern};
use transom_process::{Spawner, scrub};
use transom_tools::{HookEvent, HookProgram, ProgramHooks, Registry};

use crate::environment::Environment;

/// The programs that are asked, in order. One that is named by a path has to be there.
pub(crate) fn programs(
    manifest: &Manifest,
    environment: &Environment,
) -> anyhow::Result<Vec<HookProgram>> {
    manifest.hooks.iter().map(|hook| program(hook, environment)).collect()
}

fn program(hook: &Hook, environment: &Environment) -> anyhow::Result<HookProgram> {
    let name = &hook.name;
    let program = match file(hook) {
        None => hook.program.clone(),
        Some(path) => {
            let path = environment.absolute(path);
            if !path.is_file() {
                bail!("the program of hook `{name}` is not a file: {}", path.display());
            }
            path
        }
    };
    let program = program.into_os_string().into_string().ok();
    Ok(HookProgram {
        name: name.clone(),
        event: event(hook.event),
        tool: hook.tool.as_ref().map(Pattern::new),
        program: program.with_context(|| format!("the program of hook `{name}` is no text"))?,
        arguments: hook.arguments.clone(),
        directory: environment.absolute(&hook.directory),
        timeout: Duration::from_millis(hook.timeout_ms),
    })
}

fn event(event: manifest::HookEvent) -> HookEvent {
    match event {
        manifest::HookEvent::PreStep => HookEvent::PreStep,
        manifest::HookEvent::PreExecute => HookEvent::PreExecute,
        manifest::HookEvent::PostExecute => HookEvent::PostExecute,
        manifest::HookEvent::TurnStopping => HookEvent::TurnStopping,
        manifest::HookEvent::Result => HookEvent::Result,
    }
}

/// The path of a hook's program, where it is not a name that is looked up.
pub(crate) fn file(hook: &Hook) -> Option<&Path> {
    let is_name = hook.program.components().count() == 1 && !hook.program.is_absolute();
    (!is_name).then_some(hook.program.as_path())
}

/// The files of hooks: what has a say about tools is not theirs to change (P-46). Besides programs these are the files
/// that arguments name, such as the script of an interpreter; a hook runs where such a name leads to them.
pub(crate) fn files(
    manifest: &Manifest,
    environment: &Environment,
) -> impl Iterator<Item = PathBuf> {
    manifest.hooks.iter().flat_map(|hook| {
        let directory = environment.absolute(&hook.directory);
        let named = hook.arguments.iter().map(move |argument| directory.join(argument));
        let named = named.filter(|path| path.is_file());
        file(hook).map(|path| environment.absolute(path)).into_iter().chain(named)
    })
}

/// Those who have a say, if there are any. What they get of the environment is what shells get (L-83), and what holds
/// them back is what holds back shells of new sessions (P-38).
pub(crate) fn hooks(
    manifest: &Manifest,
    environment: &Environment,
    registry: &Registry,
    spawner: &Spawner,
    held: (Mode, watch::Receiver<bool>),
) -> anyhow::Result<Option<ProgramHooks>> {
    let programs = programs(manifest, environment)?;
    if programs.is_empty() {
        return Ok(None);
    }
    let scrubbed = scrub(&environment.variables, &manifest.tools.keep_environment, &[]);
    let (registry, spawner) = (registry.clone(), spawner.clone());
    Ok(Some(ProgramHooks::new(registry, spawner, scrubbed.variables, held, programs)))
}
