//! `transom check`: what a deployment comes to, without opening a door. Components are asked in their sandbox what they are,
//! and only those that may be loaded. How it is shown is `check/show.rs`, how a door's frames and limits are told
//! `check/door.rs`, whether it could listen where it would `check/places.rs`.

mod door;
mod places;
mod show;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use transom_config::{
    lock::Pin,
    manifest::{Carrier, Manifest},
};
use transom_connection::codec::{self, CodecSource as _};
use transom_doors::DoorCodec;
use transom_policy::{FrameRules, Policy};
use transom_sandbox::{Capacity, Kind, Sandbox};

use self::door::{Frames, Limit};
use crate::{
    agents,
    candidate::{BUILT_IN, Candidate},
    chosen::{self, Deployment},
    cli, deployment, doors,
    environment::Environment,
    hooks,
    lock::Pinned,
    permissions, pin,
};

/// Exit status where there are only warnings and `--strict` was said.
const WARNED: u8 = 3;

/// The contract of codecs, as the loader judges it.
const WORLD: &str = "transom:codec@0.1";

/// Everything that is known.
struct Checked {
    manifests: Vec<PathBuf>,
    lock: Option<PathBuf>,
    components: Vec<ComponentReport>,
    doors: Vec<DoorReport>,
    agents: Vec<agents::Report>,
    permissions: permissions::Outlook,
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// What is known of a component.
struct ComponentReport {
    name: String,
    source: String,
    /// `None`: it could not be read.
    candidate: Option<Candidate>,
    pin: String,
    signature: String,
    /// What it says of itself. `None`: it was not asked.
    manifest: Option<codec::Manifest>,
    upgrade: Option<Upgrade>,
}

/// What is known of a door.
struct DoorReport {
    name: String,
    component: String,
    carrier: String,
    policy: String,
    /// `None`: what the component sends is not known.
    frames: Option<Frames>,
    limits: Vec<Limit>,
}

/// What the manifest's version of a component has that another one has not.
enum Upgrade {
    /// Of the other one only what the lock says is known.
    From(Pin),
    Against {
        version: String,
        digest: String,
        imports: Vec<String>,
        frames: Vec<String>,
        /// Those of the frames that policies allow, with their doors.
        gains: Vec<String>,
        lost: Vec<String>,
        /// Whether live connections can be moved.
        resumes: bool,
    },
}

pub(crate) fn run(command: &cli::Check, environment: &Environment) -> anyhow::Result<u8> {
    let options = cli::HostOptions::default();
    let deployment = chosen::deployment(&command.which, &command.held, &options, environment)?;
    let Deployment { manifest, .. } = &deployment;
    let against = against(&command.against, manifest)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outlook = runtime.block_on(permissions::outlook(manifest, environment));
    runtime.shutdown_background();

    let mut checked = Checked {
        manifests: command.which.manifests.clone(),
        lock: deployment.pins.lock().map(|(path, _)| path.to_owned()),
        components: Vec::new(),
        doors: Vec::new(),
        agents: Vec::new(),
        warnings: outlook.as_ref().map(|outlook| outlook.warnings.clone()).unwrap_or_default(),
        permissions: outlook?,
        errors: Vec::new(),
    };
    checked.components(&deployment, &against, environment);
    let sent = checked.doors(manifest);
    for complaint in places::complaints(manifest, environment) {
        checked.wrong(complaint);
    }
    let Checked { warnings, errors, .. } = &mut checked;
    let reports = agents::Report::all(manifest, environment, warnings, errors);
    checked.agents = reports;
    checked.gains(&sent);
    checked.pins(&deployment);
    if checked.errors.is_empty() {
        checked.trial(&deployment, environment);
    }

    let text = if command.json { format!("{}\n", checked.json()) } else { checked.text() };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(match (checked.errors.is_empty(), checked.warnings.is_empty()) {
        (false, _) => 1,
        (true, false) if command.strict => WARNED,
        (true, _) => 0,
    })
}

/// The files to compare with, by component.
fn against(given: &[String], manifest: &Manifest) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let components = pin::components(manifest);
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for text in given {
        let (name, file) = match text.split_once('=') {
            Some((name, file)) => (name.to_owned(), file),
            None => match components.iter().collect::<Vec<_>>().as_slice() {
                [(only, _)] => ((*only).clone(), text.as_str()),
                _ => bail!(
                    "`--against {text}` does not say of which component; write `--against <component>={text}`"
                ),
            },
        };
        if !components.contains_key(&name) {
            let known: Vec<_> = components.keys().map(|name| format!("`{name}`")).collect();
            bail!(
                "`--against {text}` names no component of the manifest, which has {}",
                known.join(", ")
            );
        }
        files.push((name, PathBuf::from(file)));
    }
    Ok(files)
}

/// A door's policy, and what its codec says that it sends.
struct Sent {
    door: String,
    component: String,
    policy: Policy,
}

impl Checked {
    /// Something is wrong. Once: a policy, say, is read for the component and for each of its doors.
    fn wrong(&mut self, error: String) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn components(
        &mut self,
        deployment: &Deployment,
        against: &[(String, PathBuf)],
        environment: &Environment,
    ) {
        let sandbox = match doors::make_sandbox(Capacity::OnDemand, environment) {
            Ok(sandbox) => Some(sandbox),
            Err(error) => {
                self.wrong(format!("{error:#}"));
                None
            }
        };
        for (name, file) in pin::components(&deployment.manifest) {
            let other = against.iter().find(|(known, _)| *known == name).map(|(_, file)| file);
            let report = self.component(
                deployment,
                &name,
                file.as_deref(),
                other.map(PathBuf::as_path),
                sandbox.as_ref(),
            );
            self.components.push(report);
        }
    }

    fn component(
        &mut self,
        deployment: &Deployment,
        name: &str,
        file: Option<&Path>,
        other: Option<&Path>,
        sandbox: Option<&Sandbox>,
    ) -> ComponentReport {
        let mut report = ComponentReport {
            name: name.to_owned(),
            source: file.map_or(BUILT_IN.to_owned(), |file| file.display().to_string()),
            candidate: None,
            pin: "unknown".to_owned(),
            signature: "unknown".to_owned(),
            manifest: None,
            upgrade: None,
        };
        let candidate = match Candidate::read(name, file) {
            Ok(candidate) => candidate,
            Err(error) => {
                self.wrong(format!("{error:#}"));
                return report;
            }
        };
        let mut may_load = true;
        report.pin = match deployment.pins.check(&candidate) {
            Ok(Pinned::NoLock) => "there is no lock".to_owned(),
            Ok(Pinned::Unpinned) => {
                self.warnings.push(format!("component `{name}` is not in the lock"));
                "not in the lock".to_owned()
            }
            Ok(Pinned::Matches) => "is what the lock wants".to_owned(),
            Err(error) => {
                self.wrong(format!("{error:#}"));
                // Whoever compares versions wants to know what the new one would be.
                may_load = other.is_some();
                "is not what the lock wants".to_owned()
            }
        };
        report.signature = match pin::signed(&deployment.manifest, &candidate) {
            Ok(signed) => signed.text(),
            Err(error) => {
                self.wrong(format!("{error:#}"));
                may_load = false;
                "refused".to_owned()
            }
        };
        match &candidate.inspection {
            Ok(found) => {
                if let Kind::Other { why } = &found.kind {
                    self.wrong(format!("{} is refused: {why}", candidate.shown()));
                    may_load = false;
                }
            }
            Err(why) => {
                self.wrong(format!("{} is refused: {why}", candidate.shown()));
                may_load = false;
            }
        }
        if let (true, Some(sandbox)) = (may_load, sandbox) {
            match describe(sandbox, &candidate) {
                Ok(manifest) => report.manifest = Some(manifest),
                Err(error) => {
                    self.wrong(format!("{} is refused: {error:#}", candidate.shown()));
                }
            }
        }
        report.upgrade = match (other, sandbox) {
            (Some(other), Some(sandbox)) => match compared(sandbox, &report, &candidate, other) {
                Ok(upgrade) => upgrade,
                Err(error) => {
                    self.wrong(format!("{error:#}"));
                    None
                }
            },
            _ => {
                let pin = deployment.pins.lock().and_then(|(_, lock)| lock.find(name));
                pin.filter(|pin| pin.digest != candidate.digest).cloned().map(Upgrade::From)
            }
        };
        report.candidate = Some(candidate);
        report
    }

    fn doors(&mut self, manifest: &Manifest) -> Vec<Sent> {
        let mut all = Vec::new();
        let calling = doors::of_agents(manifest);
        let called = manifest.doors.iter().map(|(name, door)| (name, door, true));
        let calling = calling.iter().map(|(name, door)| (name, door, false));
        for (name, door, is_called) in called.chain(calling) {
            let built_in = transom_doors::find(&door.component).ok();
            let component = manifest.components.get(&door.component);
            let file = door.policy.as_ref().or(component.and_then(|found| found.policy.as_ref()));
            let mut policy = match doors::policy(name, file, built_in) {
                Ok(policy) => policy,
                Err(error) => {
                    self.wrong(format!("{error:#}"));
                    continue;
                }
            };
            door.limits.apply(&mut policy.limits);
            let native = match (component, built_in.map(|built_in| built_in.codec)) {
                (None, Some(DoorCodec::Native(source))) => Some(source().manifest().sends.clone()),
                _ => None,
            };
            let report = self.components.iter().find(|report| report.name == door.component);
            let sends = native.or_else(|| {
                report.and_then(|report| Some(report.manifest.as_ref()?.sends.clone()))
            });
            let frames = match sends.map(|sends| rules(&sends)).transpose() {
                Ok(declared) => declared.map(|declared| Frames::new(&declared, &policy.frames)),
                Err(error) => {
                    self.wrong(format!("component `{}`: {error:#}", door.component));
                    None
                }
            };
            self.doors.push(DoorReport {
                name: name.clone(),
                component: door.component.clone(),
                carrier: match &door.carrier {
                    _ if !is_called => "child".to_owned(),
                    Carrier::Stdio => "stdio".to_owned(),
                    Carrier::Unix { listen } => format!("unix {}", listen.display()),
                },
                policy: file.map_or(BUILT_IN.to_owned(), |file| file.display().to_string()),
                frames,
                limits: door::limits(name, door, &policy, file, built_in),
            });
            all.push(Sent { door: name.clone(), component: door.component.clone(), policy });
        }
        all
    }

    /// What policies make of the frames that an upgrade adds.
    fn gains(&mut self, sent: &[Sent]) {
        for report in &mut self.components {
            let Some(Upgrade::Against { frames, gains, .. }) = &mut report.upgrade else {
                continue;
            };
            let Ok(added) = rules(frames) else { continue };
            for door in sent.iter().filter(|door| door.component == report.name) {
                let allowed = Frames::new(&added, &door.policy.frames).allowed;
                gains.extend(
                    allowed.into_iter().map(|(frame, _)| format!("{frame} at door {}", door.door)),
                );
            }
        }
    }

    /// Tries what a start tries besides: options, framings and limits as the doors have them, the model's script.
    fn trial(&mut self, deployment: &Deployment, environment: &Environment) {
        let Deployment { manifest, pins, .. } = deployment;
        let extras = deployment::Extras { pins: pins.clone(), ..deployment::Extras::default() };
        let directory = environment.directory.clone();
        let opened = doors::open(manifest, &extras, environment, &directory);
        let script = deployment::script(manifest);
        let hooks = hooks::programs(manifest, environment);
        let errors = [opened.err(), script.err(), hooks.err()];
        for error in errors.into_iter().flatten() {
            self.wrong(format!("{error:#}"));
        }
    }

    fn pins(&mut self, deployment: &Deployment) {
        match deployment.pins.lock() {
            None if !self.manifests.is_empty() => self.warnings.push(format!(
                "there is no {} beside the manifest, so that nothing is pinned; write it with `transom pin`",
                crate::lock::LOCK
            )),
            None => {}
            Some((path, lock)) => {
                for pin in lock.pins() {
                    if !self.components.iter().any(|report| report.name == pin.name) {
                        self.warnings.push(format!(
                            "{}: component `{}` is in the lock and not in the manifest",
                            path.display(),
                            pin.name
                        ));
                    }
                }
            }
        }
    }
}

fn rules(sends: &[String]) -> anyhow::Result<FrameRules> {
    FrameRules::parse(sends.iter().map(String::as_str))
        .context("a frame that it says it sends is none")
}

/// Asks a component what it is, in its sandbox.
fn describe(sandbox: &Sandbox, candidate: &Candidate) -> anyhow::Result<codec::Manifest> {
    let limits = transom_sandbox::Limits::default();
    Ok(sandbox.load(&candidate.title(), &candidate.bytes, limits)?.manifest().clone())
}

fn compared(
    sandbox: &Sandbox,
    report: &ComponentReport,
    candidate: &Candidate,
    other: &Path,
) -> anyhow::Result<Option<Upgrade>> {
    let old = Candidate::read(&report.name, Some(other))?;
    let shown = || old.shown();
    let imports = |candidate: &Candidate| -> anyhow::Result<Vec<String>> {
        match &candidate.inspection {
            Ok(found) => Ok(found.imports.clone()),
            Err(why) => bail!("{why}"),
        }
    };
    let before = describe(sandbox, &old).with_context(shown)?;
    let (Some(after), Ok(now)) = (&report.manifest, imports(candidate)) else { return Ok(None) };
    let was = imports(&old).with_context(shown)?;
    Ok(Some(Upgrade::Against {
        version: old.version_text().to_owned(),
        digest: old.digest.to_string(),
        imports: beyond(&now, &was),
        frames: beyond(&after.sends, &before.sends),
        gains: Vec::new(),
        lost: beyond(&before.sends, &after.sends),
        resumes: after.protocol == before.protocol && after.resumes.contains(&before.state_format),
    }))
}

/// Those of a list that are not in another.
fn beyond(list: &[String], other: &[String]) -> Vec<String> {
    list.iter().filter(|name| !other.contains(name)).cloned().collect()
}
