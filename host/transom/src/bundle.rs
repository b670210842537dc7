//! `transom bundle`: a deployment in one file. It is a tar archive of manifests, lock, policies, personas, components, their
//! signatures and the model's script, each under the name of its part, so that no path of the deployment's is in it. Equal
//! deployments make equal bundles. What is in one is read again in `bundle/unpack.rs`.

mod content;
mod unpack;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use transom_config::{lock::Digest, manifest::Overrides};

use crate::{
    candidate::Candidate,
    chosen, cli,
    environment::{CONFIGURATION_BYTES_MAX, read_bounded},
    hooks,
    lock::{LOCK, Pins},
    pin, signature,
};

pub(crate) use content::by_content;
pub(crate) use unpack::Unpacked;

/// Files of a bundle: hundreds of components.
const FILES_MAX: usize = 4096;

/// Bytes of all files of a bundle together.
const BYTES_MAX: u64 = 1 << 30;

/// Manifests of a bundle: their names have two digits.
const MANIFESTS_MAX: usize = 100;

const SCRIPT: &str = "model-script.json";

fn manifest_file(index: usize) -> String {
    format!("manifests/{index:02}.toml")
}

fn component_file(name: &str) -> String {
    format!("components/{name}.wasm")
}

fn component_policy(name: &str) -> String {
    format!("policies/component.{name}.toml")
}

fn persona(name: &str) -> String {
    format!("personas/{name}.md")
}

fn door_policy(name: &str) -> String {
    format!("policies/door.{name}.toml")
}

pub(crate) fn run(command: &cli::Bundle) -> anyhow::Result<u8> {
    let files = contents(command)?;
    let total: u64 = files.values().map(|bytes| bytes.len() as u64).sum();
    if files.len() > FILES_MAX || total > BYTES_MAX {
        bail!(
            "the deployment has {} files of {total} bytes; a bundle holds at most {FILES_MAX} of {BYTES_MAX}",
            files.len()
        );
    }
    let archive = archive(&files)?;
    let out = &command.out;
    pin::write(out, &archive).with_context(|| format!("cannot write {}", out.display()))?;

    let digest = Digest(Sha256::digest(&archive).into()).to_string();
    let mut stdout = io::stdout().lock();
    if command.json {
        let names: Vec<&String> = files.keys().collect();
        writeln!(stdout, "{}", json!({ "bundle": out, "digest": digest, "files": names }))?;
    } else {
        for (name, bytes) in &files {
            writeln!(stdout, "{:>9}  {name}", bytes.len())?;
        }
        writeln!(stdout, "{} is {digest}", out.display())?;
    }
    Ok(0)
}

/// The files of a deployment by their names in the bundle. What `transom run --locked` would refuse is refused here.
fn contents(command: &cli::Bundle) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let manifests = &command.manifests;
    if manifests.len() > MANIFESTS_MAX {
        bail!("{} manifests are named; a bundle holds {MANIFESTS_MAX}", manifests.len());
    }
    // Environment and command line are those of whoever runs the bundle.
    let manifest = chosen::parsed(manifests, &Overrides::default())?;
    let pins = Pins::of(manifests, true).context("a bundle holds a lock")?;
    let mut files = BTreeMap::new();
    for (index, text) in chosen::texts(manifests)?.into_iter().enumerate() {
        files.insert(manifest_file(index), text);
    }
    if let Some((path, _)) = pins.lock() {
        files.insert(LOCK.to_owned(), text(path)?);
    }
    for (name, file) in pin::components(&manifest) {
        let candidate = Candidate::read(&name, file.as_deref())?;
        pins.check(&candidate)?;
        pin::signed(&manifest, &candidate)?;
        let inside = component_file(&name);
        if let Some(signature) = file.map(|file| signature::beside(&file)).filter(|at| at.exists())
        {
            let inside = signature::beside(Path::new(&inside)).display().to_string();
            files.insert(inside, text(&signature)?);
        }
        files.insert(inside, candidate.bytes.into_owned());
    }
    for (name, component) in &manifest.components {
        if let Some(policy) = &component.policy {
            files.insert(component_policy(name), text(policy)?);
        }
    }
    for (name, door) in &manifest.doors {
        if let Some(policy) = &door.policy {
            files.insert(door_policy(name), text(policy)?);
        }
    }
    for (name, kind) in &manifest.subagents {
        if let Some(file) = &kind.persona_file {
            files.insert(persona(name), text(file)?);
        }
    }
    if let Some(hook) = manifest.hooks.iter().find(|hook| hooks::file(hook).is_some()) {
        bail!(
            "the program of hook `{}` is a file, and a bundle holds no programs; name one that is looked up in PATH",
            hook.name
        );
    }
    if let Some(script) = &manifest.model.script {
        files.insert(SCRIPT.to_owned(), text(script)?);
    }
    Ok(files)
}

fn text(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_bounded(path, CONFIGURATION_BYTES_MAX)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// The same files give the same bytes: sorted, of nobody, of no time.
fn archive(files: &BTreeMap<String, Vec<u8>>) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        header.set_path(name)?;
        header.set_cksum();
        archive.append(&header, bytes.as_slice())?;
    }
    archive.into_inner()
}
