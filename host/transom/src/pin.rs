//! `transom pin`: writes down which file each component is. What is pinned already stays as it is unless it is named.
//! What a lock means for a run is `lock.rs`.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use transom_config::{
    lock::{Lock, Pin},
    manifest::Manifest,
};
use transom_policy::Trust;
use transom_sandbox::Kind;

use crate::{
    candidate::{BUILT_IN, Candidate},
    chosen, cli, doors, embedded,
    environment::Environment,
    lock,
    signature::{self, Signed},
};

/// What became of one component.
struct Change {
    pin: Pin,
    word: &'static str,
    /// What the lock said before.
    before: Option<Pin>,
}

pub(crate) fn run(command: &cli::Pin, environment: &Environment) -> anyhow::Result<u8> {
    let which = cli::Which { manifests: command.manifests.clone(), sets: command.sets.clone() };
    let manifest = chosen::parsed(&which.manifests, &chosen::overrides(&which, environment))?;
    let Some(path) = lock::beside(&which.manifests) else { bail!("no manifest is named") };
    let mut lock = lock::read(&path)?.unwrap_or_default();
    let before = lock.clone();
    let changes = changes(&manifest, &mut lock, &path, &command.update)?;
    let forgotten: Vec<&Pin> = lock
        .pins()
        .filter(|pin| !changes.iter().any(|change| change.pin.name == pin.name))
        .collect();
    if lock != before || !path.exists() {
        write(&path, lock.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }

    let mut out = io::stdout().lock();
    if command.json {
        let components: Vec<Value> = changes.iter().map(as_json).collect();
        let forgotten: Vec<&str> = forgotten.iter().map(|pin| pin.name.as_str()).collect();
        writeln!(
            out,
            "{}",
            json!({ "lock": path, "components": components, "notInManifest": forgotten })
        )?;
        return Ok(0);
    }
    for change in &changes {
        writeln!(out, "{}", line(change))?;
    }
    for Pin { name, .. } in forgotten {
        writeln!(
            out,
            "{name} is in the lock and not in the manifest; `transom pin --update {name}` takes it out"
        )?;
    }
    let count = lock.pins().count();
    let pins = if count == 1 { "pin" } else { "pins" };
    writeln!(out, "{} holds {count} {pins}", path.display())?;
    Ok(0)
}

/// Brings a lock up to a manifest. Nothing counts unless all of it can be done.
fn changes(
    manifest: &Manifest,
    lock: &mut Lock,
    path: &Path,
    update: &[String],
) -> anyhow::Result<Vec<Change>> {
    let components = components(manifest);
    for name in update {
        if !components.contains_key(name) && lock.find(name).is_none() {
            let known = components.keys().map(String::as_str);
            let meant = transom_policy::nearest(name, known.clone());
            match meant {
                Some(meant) => bail!("there is no component `{name}`; did you mean `{meant}`?"),
                None => {
                    let known: Vec<_> = known.map(|name| format!("`{name}`")).collect();
                    bail!("there is no component `{name}`; the manifest has {}", known.join(", "))
                }
            }
        }
    }
    let (mut changes, mut wrong) = (Vec::new(), Vec::new());
    for (name, file) in &components {
        match change(manifest, lock, path, name, file.as_deref(), update.contains(name)) {
            Ok(change) => changes.push(change),
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    for change in &changes {
        lock.put(change.pin.clone());
    }
    for name in update.iter().filter(|name| !components.contains_key(*name)) {
        if let Some(pin) = lock.remove(name) {
            changes.push(Change { pin, word: "removed", before: None });
        }
    }
    Ok(changes)
}

fn change(
    manifest: &Manifest,
    lock: &Lock,
    path: &Path,
    name: &str,
    file: Option<&Path>,
    update: bool,
) -> anyhow::Result<Change> {
    let candidate = Candidate::read(name, file)?;
    let shown = candidate.shown();
    match &candidate.inspection {
        Ok(found) => match &found.kind {
            Kind::Codec => {}
            Kind::Other { why } => bail!("{shown} is not pinned: {why}"),
        },
        Err(why) => bail!("{shown} is not pinned: {why}"),
    }
    let signed = signed(manifest, &candidate)?;
    let pin = Pin {
        name: name.to_owned(),
        version: candidate.version_text().to_owned(),
        digest: candidate.digest,
        source: file.map_or(BUILT_IN.to_owned(), |file| source(file, path)),
        signed_by: signed.key().cloned(),
    };
    match lock.find(name) {
        None => Ok(Change { pin, word: "pinned", before: None }),
        Some(before) if *before == pin => Ok(Change { pin, word: "kept", before: None }),
        Some(before) if update => Ok(Change { pin, word: "updated", before: Some(before.clone()) }),
        Some(before) => {
            lock.check(name, &candidate.digest, candidate.version())
                .with_context(|| path.display().to_string())?;
            Ok(Change { pin: before.clone(), word: "kept", before: None })
        }
    }
}

/// Every component that runs here from a file or from the program: its file, if it has one.
pub(crate) fn components(manifest: &Manifest) -> BTreeMap<String, Option<PathBuf>> {
    let doors = manifest.doors.values().map(|door| &door.component);
    let agents = manifest.agents.values().map(|agent| &agent.component);
    let built_in = doors.chain(agents).filter(|name| embedded::component(name).is_some());
    let named = manifest
        .components
        .iter()
        .map(|(name, component)| (name.clone(), Some(component.source.clone())));
    built_in.map(|name| (name.clone(), None)).chain(named).collect()
}

/// The signature of a component, judged by every policy under which it is to run.
pub(crate) fn signed(manifest: &Manifest, candidate: &Candidate) -> anyhow::Result<Signed> {
    let mut best = Signed::Unasked;
    for trust in trusts(manifest, &candidate.name)? {
        let signed = signature::verify(candidate, &trust)?;
        if best.key().is_none() && signed != Signed::Unasked {
            best = signed;
        }
    }
    Ok(best)
}

/// Whom the policies of a component trust: those of the doors that use it, or its own where none does.
fn trusts(manifest: &Manifest, name: &str) -> anyhow::Result<Vec<Trust>> {
    let own = manifest.components.get(name).and_then(|component| component.policy.as_ref());
    let built_in = transom_doors::find(name).ok();
    let mut trusts = Vec::new();
    for (door, found) in manifest.doors.iter().filter(|(_, door)| door.component == name) {
        let policy = doors::policy(door, found.policy.as_ref().or(own), built_in)?;
        trusts.push(policy.trust);
    }
    // Those that speak with agents have one policy, wherever they do.
    if trusts.is_empty() && (own.is_some() || built_in.is_some()) {
        trusts.push(doors::policy(name, own, built_in)?.trust);
    }
    Ok(trusts)
}

/// A source as it is seen from the lock.
fn source(file: &Path, lock: &Path) -> String {
    let directory = lock.parent().unwrap_or(Path::new(""));
    file.strip_prefix(directory).unwrap_or(file).display().to_string()
}

/// Puts a file in its place in one move, so that nobody ever reads half of one.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let unfinished = path.with_file_name(name);
    let written = fs::File::create(&unfinished).and_then(|mut file| {
        file.write_all(content.as_ref())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn as_json(change: &Change) -> Value {
    let Change { pin, word, before } = change;
    let entry = |pin: &Pin| {
        json!({
            "version": pin.version,
            "digest": pin.digest.to_string(),
            "source": pin.source,
            "signedBy": pin.signed_by.as_ref().map(|key| key.as_str()),
        })
    };
    json!({ "name": pin.name, "change": word, "pin": entry(pin), "before": before.as_ref().map(entry) })
}

fn line(change: &Change) -> String {
    let Change { pin: Pin { name, version, digest, source, signed_by }, word, before } = change;
    let signed = signed_by.as_ref().map(|key| format!(", signed by {key}")).unwrap_or_default();
    let before = before.as_ref().map(|pin| format!(", was {} {}", pin.version, pin.digest));
    let before = before.unwrap_or_default();
    format!("{word:<8} {name} {version} {digest} from {source}{signed}{before}")
}
