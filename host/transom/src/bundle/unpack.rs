//! What is in a bundle, read as what it is: somebody's file. Every name in it is one that a bundle has, so that none leads
//! elsewhere; the components are what the lock inside says.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};
use transom_config::{
    lock::{Digest, Lock},
    manifest::{Component, Manifest, Overrides, Swap},
};
use transom_process::OwnDirectory;

use super::{
    BYTES_MAX, FILES_MAX, MANIFESTS_MAX, SCRIPT, component_file, component_policy, door_policy,
    manifest_file, persona,
};
use crate::{
    embedded,
    environment::{COMPONENT_BYTES_MAX, CONFIGURATION_BYTES_MAX, Environment, read_bounded},
    lock::{LOCK, Pins},
};

/// Folders of a bundle.
const FOLDERS: [&str; 4] = ["components", "manifests", "personas", "policies"];

/// Characters of a name of components and doors.
const NAME_MAX: usize = 64;

/// A bundle on disk, in a directory of its own that is gone with this.
#[derive(Debug)]
pub(crate) struct Unpacked {
    bundle: PathBuf,
    directory: OwnDirectory,
    /// What is in each of its files.
    files: BTreeMap<String, Digest>,
    pub(crate) pins: Pins,
}

impl Unpacked {
    /// Unpacks a bundle below the state directory: shells of the model read nothing there, so they change nothing either.
    pub(crate) fn new(bundle: &Path, environment: &Environment) -> anyhow::Result<Unpacked> {
        let below = environment.state_directory()?.join("bundles");
        let directory = place(&below)
            .with_context(|| format!("cannot make a directory in {}", below.display()))?;
        let shown = || format!("bundle {}", bundle.display());
        let files = extract(bundle, directory.path()).with_context(shown)?;
        for needed in [LOCK.to_owned(), manifest_file(0)] {
            if !files.contains_key(&needed) {
                bail!("{}: it has no {needed}; make it with `transom bundle`", shown());
            }
        }
        let path = directory.path().join(LOCK);
        let bytes = read_bounded(&path, CONFIGURATION_BYTES_MAX).with_context(shown)?;
        let lock = Lock::parse(Path::new(LOCK), &bytes).with_context(shown)?;
        let pins = Pins::complete(bundle.join(LOCK), lock);
        Ok(Unpacked { bundle: bundle.to_owned(), directory, files, pins })
    }

    /// The manifest of the bundle, whose files are those of the bundle. Only what is said on this machine instead names
    /// others. Sockets and the store of relative paths are below the directory in which the program was started.
    pub(crate) fn manifest(
        &self,
        overrides: &Overrides,
        environment: &Environment,
    ) -> anyhow::Result<Manifest> {
        let shown = || format!("bundle {}", self.bundle.display());
        let plain = self.parse(&Overrides::default()).with_context(shown)?;
        let mut manifest = self.parse(overrides).with_context(shown)?;
        let own = |inside: String| self.file(&inside);
        for (name, component) in &mut manifest.components {
            let Some(written) = plain.components.get(name) else { continue };
            if component.source == written.source {
                component.source = own(component_file(name))?;
            }
            if component.policy.is_some() && component.policy == written.policy {
                component.policy = Some(own(component_policy(name))?);
            }
        }
        for (name, door) in &mut manifest.doors {
            let written = plain.doors.get(name).and_then(|door| door.policy.as_ref());
            if door.policy.is_some() && door.policy.as_ref() == written {
                door.policy = Some(own(door_policy(name))?);
            }
        }
        for (name, kind) in &mut manifest.subagents {
            let written = plain.subagents.get(name).and_then(|kind| kind.persona_file.as_ref());
            if kind.persona_file.is_some() && kind.persona_file.as_ref() == written {
                kind.persona_file = Some(own(persona(name))?);
            }
        }
        if manifest.model.script.is_some() && manifest.model.script == plain.model.script {
            manifest.model.script = Some(own(SCRIPT.to_owned())?);
        }
        // A component that was part of the program that made the bundle need not be the same in this one.
        let doors: Vec<String> =
            manifest.doors.values().map(|door| door.component.clone()).collect();
        for name in doors {
            let packed = self.directory.path().join(component_file(&name));
            if embedded::component(&name).is_some() && packed.is_file() {
                let component =
                    Component { source: packed, policy: None, swap: Swap::default(), watch: false };
                manifest.components.entry(name).or_insert(component);
            }
        }
        manifest.confine.guard.push(environment.absolute(&self.bundle));
        Ok(manifest)
    }

    /// A file of this unpacking, called by what is in it: the same in every unpacking of every bundle that has the same there.
    pub(super) fn by_content(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.directory.path()).ok()?.to_str()?;
        let digest = self.files.get(inside)?;
        Some(format!("{} {digest}", self.bundle.join(inside).display()).into())
    }

    fn parse(&self, overrides: &Overrides) -> anyhow::Result<Manifest> {
        let mut texts = Vec::new();
        for index in 0..MANIFESTS_MAX {
            let inside = manifest_file(index);
            let path = self.directory.path().join(&inside);
            if !path.is_file() {
                break;
            }
            // In complaints it has its name, and relative paths in it are below no directory yet.
            let name = PathBuf::from(inside.replace('/', "-"));
            texts.push((name, read_bounded(&path, CONFIGURATION_BYTES_MAX)?));
        }
        let layers: Vec<_> =
            texts.iter().map(|(name, bytes)| (name.as_path(), bytes.as_slice())).collect();
        Ok(Manifest::parse_layers(&layers, overrides)?)
    }

    fn file(&self, inside: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.path().join(inside);
        if !path.is_file() {
            bail!(
                "bundle {}: its manifest needs {inside}, which is not in it; make it with `transom bundle`",
                self.bundle.display()
            );
        }
        Ok(path)
    }
}

/// A directory of its own. Those that nobody holds any more are removed: their hosts were killed.
fn place(below: &Path) -> io::Result<OwnDirectory> {
    DirBuilder::new().recursive(true).mode(0o700).create(below)?;
    OwnDirectory::new(below, "bundle-")
}

/// Writes the files of a bundle into a directory. Gives their names and digests.
fn extract(bundle: &Path, directory: &Path) -> anyhow::Result<BTreeMap<String, Digest>> {
    for folder in FOLDERS {
        fs::create_dir(directory.join(folder)).context("cannot make its folders")?;
    }
    let file = File::open(bundle).context("cannot be read")?;
    let mut archive = tar::Archive::new(file);
    let mut files = BTreeMap::new();
    let mut left = BYTES_MAX;
    // Raw: extensions of the format, with which names could come from elsewhere, are entries like any other, and refused.
    for entry in archive.entries().context("it is no tar archive")?.raw(true) {
        let mut entry = entry.context("it is no tar archive, or cut short")?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular {
            bail!("{name:?} in it is no plain file, and a bundle holds nothing else");
        }
        if !is_part(&name) {
            bail!(
                "{name:?} is no name that a bundle has; make it with `transom bundle`, which puts in nothing else"
            );
        }
        if files.len() >= FILES_MAX {
            bail!("it has more than {FILES_MAX} files");
        }
        let most =
            if name.ends_with(".wasm") { COMPONENT_BYTES_MAX } else { CONFIGURATION_BYTES_MAX };
        let size = entry.size();
        if size > most.min(left) {
            bail!("{name:?} in it has {size} bytes; {} are allowed", most.min(left));
        }
        left -= size;
        if files.contains_key(&name) {
            bail!("{name:?} is in it twice");
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).with_context(|| format!("{name:?} is cut short"))?;
        if bytes.len() as u64 != size {
            bail!("{name:?} in it is cut short; fetch the bundle again");
        }
        let mut file = File::create_new(directory.join(&name))
            .with_context(|| format!("cannot write {name:?}"))?;
        file.write_all(&bytes).with_context(|| format!("cannot write {name:?}"))?;
        files.insert(name, Digest(Sha256::digest(&bytes).into()));
    }
    Ok(files)
}

/// Whether a bundle has a file of this name.
fn is_part(name: &str) -> bool {
    if name == LOCK || name == SCRIPT {
        return true;
    }
    let Some((folder, file)) = name.split_once('/') else { return false };
    match folder {
        "manifests" => file
            .strip_suffix(".toml")
            .is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|c| c.is_ascii_digit())),
        "components" => {
            let file = file.strip_suffix(".minisig").unwrap_or(file);
            file.strip_suffix(".wasm").is_some_and(is_name)
        }
        "personas" => file.strip_suffix(".md").is_some_and(is_name),
        "policies" => file
            .strip_suffix(".toml")
            .and_then(|file| file.strip_prefix("component.").or(file.strip_prefix("door.")))
            .is_some_and(is_name),
        _ => false,
    }
}

/// A name of components and doors.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}
