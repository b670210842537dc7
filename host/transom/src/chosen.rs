//! Which deployment a command is about: its manifests one above the other, what environment and command line say
//! instead, and its lock; or all of that from a bundle.

use std::{path::PathBuf, sync::Arc};

use transom_config::{
    ConfigErrors,
    manifest::{Manifest, Overrides},
};

use crate::{
    bundle::Unpacked,
    cli::{Held, HostOptions, Which},
    environment::{CONFIGURATION_BYTES_MAX, Environment, read_bounded},
    lock::{self, Pins},
};

/// A deployment, checked. Nothing of it runs.
#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) manifest: Manifest,
    pub(crate) pins: Pins,
    /// The files of a bundle, which are gone with this.
    pub(crate) unpacked: Option<Arc<Unpacked>>,
}

/// Where a deployment is read from, each time anew.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) which: Which,
    pub(crate) held: Held,
    pub(crate) options: HostOptions,
    pub(crate) environment: Environment,
}

impl Origin {
    /// The deployment as it is now.
    pub(crate) fn read(&self) -> anyhow::Result<Deployment> {
        deployment(&self.which, &self.held, &self.options, &self.environment)
    }

    /// The files that only the operator may change: manifests or bundle, lock and policies.
    pub(crate) fn files(&self, manifest: &Manifest) -> Vec<PathBuf> {
        let files = operators_files(&self.which.manifests, manifest, &self.environment);
        let bundle = self.held.bundle.iter().map(|bundle| self.environment.absolute(bundle));
        files.into_iter().chain(bundle).collect()
    }
}

/// The deployment of a command.
pub(crate) fn deployment(
    which: &Which,
    held: &Held,
    options: &HostOptions,
    environment: &Environment,
) -> anyhow::Result<Deployment> {
    let overrides = overrides(which, environment);
    let (mut manifest, pins, unpacked) = match &held.bundle {
        Some(bundle) => {
            let unpacked = Unpacked::new(bundle, environment)?;
            let manifest = unpacked.manifest(&overrides, environment)?;
            (manifest, unpacked.pins.clone(), Some(Arc::new(unpacked)))
        }
        None => {
            let manifest = from_files(&which.manifests, &overrides, environment)?;
            (manifest, Pins::of(&which.manifests, held.locked)?, None)
        }
    };
    if let Some(store) = &options.store {
        manifest.store.path = Some(environment.absolute(store));
    }
    if let Some(script) = &options.model_script {
        manifest.model.script = Some(environment.absolute(script));
    }
    Ok(Deployment { manifest, pins, unpacked })
}

/// What is said instead of manifests.
pub(crate) fn overrides(which: &Which, environment: &Environment) -> Overrides {
    let variables = environment.variables.iter().cloned().collect();
    Overrides::new(&environment.directory, &variables, which.sets.iter().map(String::as_str))
}

fn from_files(
    files: &[PathBuf],
    overrides: &Overrides,
    environment: &Environment,
) -> anyhow::Result<Manifest> {
    if files.is_empty() {
        return Ok(Manifest::built_in_with(&environment.state_directory()?, overrides)?);
    }
    let mut manifest = parsed(files, overrides)?;
    let guarded = operators_files(files, &manifest, environment);
    manifest.confine.guard.extend(guarded);
    Ok(manifest)
}

/// Reads manifests and checks them as a whole.
pub(crate) fn parsed(files: &[PathBuf], overrides: &Overrides) -> Result<Manifest, ConfigErrors> {
    let texts = texts(files)?;
    let layers: Vec<_> =
        files.iter().zip(&texts).map(|(file, bytes)| (file.as_path(), bytes.as_slice())).collect();
    Manifest::parse_layers(&layers, overrides)
}

/// The texts of manifests, or every file that cannot be read.
pub(crate) fn texts(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, ConfigErrors> {
    let (mut texts, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        match read_bounded(file, CONFIGURATION_BYTES_MAX) {
            Ok(bytes) => texts.push(bytes),
            Err(error) => wrong.extend(ConfigErrors::unreadable(file, &error).0),
        }
    }
    if wrong.is_empty() { Ok(texts) } else { Err(ConfigErrors(wrong)) }
}

/// What says what shells may do is not theirs to change (P-46): manifests, what locks them, policies, and personas.
fn operators_files(
    files: &[PathBuf],
    manifest: &Manifest,
    environment: &Environment,
) -> Vec<PathBuf> {
    let components = manifest.components.values().filter_map(|component| component.policy.as_ref());
    let doors = manifest.doors.values().filter_map(|door| door.policy.as_ref());
    let policies = components.chain(doors).map(|policy| environment.absolute(policy));
    let personas = manifest.subagents.values().filter_map(|kind| kind.persona_file.as_ref());
    let policies = policies.chain(personas.map(|persona| environment.absolute(persona)));
    let lock = lock::beside(files);
    let files = files.iter().chain(&lock).map(|file| environment.absolute(file));
    policies.chain(files).collect()
}
