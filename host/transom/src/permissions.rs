//! `transom permissions`: what sessions may do, and what would become of a call, without running anything
//! (P-33).

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::time::timeout;
use transom_config::manifest::Manifest;
use transom_frame::SessionId;
use transom_harness::{
    agent,
    header::Header,
    permissions::{
        Access, ApprovalPolicy, Mode,
        presets::{Knobs, PRESETS},
        rules::{Decision, Known, Rules, ToolKind},
    },
    ports::{
        AskRefused, Attachment, Attachments, Children, Delegation, DelegationEvent, Judgement,
        Page, Questions, Sink, Stop, StoreError, Subagents, ToolCall, ToolOutcome,
    },
    subagents::{ChildCode, ChildOrder, ChildRefused, Obeyed},
};
use transom_process::{Confiner, Launcher, Places, Report, Spawner};
use transom_tools::{BUILT_IN, Explanation, Registry};

use crate::{
    chosen,
    cli::{self, Held},
    deployment::{self, Extras},
    environment::Environment,
    governance::{self, Governance},
    remote, subagents, tooling,
};

/// Longest wait for the judge, which reads a few directories at most.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(command: &cli::Permissions, environment: &Environment) -> anyhow::Result<u8> {
    if let Some(preset) = preset(command)? {
        return remote::permissions(command, preset, environment);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let which = cli::Which { manifests: command.manifests.clone(), sets: command.sets.clone() };
    let deployment = chosen::deployment(&which, &Held::default(), &command.host, environment)?;
    let manifest = deployment.manifest;
    let shown = runtime.block_on(Shown::collect(command, &manifest, environment));
    runtime.shutdown_background();
    let shown = shown?;
    let text = if command.json { format!("{}\n", shown.json()) } else { shown.text() };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// The preset that `--set` names, where it is no `key=value`.
fn preset(command: &cli::Permissions) -> anyhow::Result<Option<&str>> {
    let Some(preset) = command.sets.iter().find(|set| !set.contains('=')) else {
        return Ok(None);
    };
    let cli::Permissions { manifests, session, tool, args: _, sets, control: _, json: _, host } =
        command;
    if session.is_none() {
        bail!(
            "`--set {preset}` names a preset; say with `--session` of which session, or write `--set key=value`"
        );
    }
    let alone = manifests.is_empty()
        && tool.is_none()
        && sets.len() == 1
        && host.store.is_none()
        && host.model_script.is_none();
    if !alone {
        bail!(
            "`--set {preset}` asks the host that runs; leave out whatever is about another deployment"
        );
    }
    Ok(Some(preset))
}

/// What `transom check` says of permissions: what sessions may do, what looks wrong in the rules, and what holds shells
/// back (P-33).
#[derive(Debug)]
pub(crate) struct Outlook {
    /// For people.
    pub(crate) lines: Vec<String>,
    /// The same for programs.
    pub(crate) json: Value,
    pub(crate) warnings: Vec<String>,
    /// `None`: shells are not confined.
    pub(crate) report: Option<Report>,
}

/// Looks at a deployment's permissions.
pub(crate) async fn outlook(
    manifest: &Manifest,
    environment: &Environment,
) -> anyhow::Result<Outlook> {
    let command = cli::Permissions {
        manifests: Vec::new(),
        sets: Vec::new(),
        control: None,
        session: None,
        tool: None,
        args: String::new(),
        json: false,
        host: cli::HostOptions::default(),
    };
    let shown = Shown::collect(&command, manifest, environment).await?;
    let mut lines = Vec::new();
    shown.said(&mut lines);
    let mut json = shown.json();
    if let Value::Object(members) = &mut json {
        // These have places of their own, or are about one session.
        for member in ["warnings", "confiner", "session", "call"] {
            members.remove(member);
        }
    }
    Ok(Outlook { lines, json, warnings: shown.warnings, report: shown.report })
}

impl Outlook {
    pub(crate) fn confiner_lines(&self, lines: &mut Vec<String>) {
        match &self.report {
            None => lines.push("confiner       off".to_owned()),
            Some(report) => confiner_lines(lines, report),
        }
    }
}

/// Everything that is shown.
struct Shown {
    settings: agent::Permissions,
    ceiling: Mode,
    rules: Rules,
    warnings: Vec<String>,
    report: Option<Report>,
    session: Option<Session>,
    call: Option<Call>,
}

/// A stored session.
struct Session {
    id: String,
    mode: Mode,
    policy: ApprovalPolicy,
    preset: &'static str,
    places: Places,
}

/// A call that is not made.
struct Call {
    tool: String,
    mode: Mode,
    explanation: Explanation,
}

impl Shown {
    async fn collect(
        command: &cli::Permissions,
        manifest: &Manifest,
        environment: &Environment,
    ) -> anyhow::Result<Shown> {
        let governance = Governance::Full;
        let settings = governance::agents(manifest, governance);
        let permissions = governance::calls(manifest, governance)?;
        let store = deployment::store_path(manifest, environment)?;
        let confinement = governance::confinement(manifest, governance, environment, &store)?;
        let known = Known { names: &BUILT_IN, prefixes: &[], policy: settings.defaults.policy };
        let rules = permissions.rules.clone();
        let warnings = rules.warnings(&known).into_iter().map(|warning| match warning.place {
            Some(place) => format!("{place}: {}", warning.message),
            None => warning.message,
        });
        let warnings = warnings.collect();

        let confiner = match confinement.off {
            true => None,
            false => {
                let spawner = Spawner::new(tokio::runtime::Handle::current())?;
                Some(Confiner::probe(&confinement, Launcher::own()?, &spawner).await)
            }
        };
        let report = confiner.as_ref().map(|confiner| confiner.report().clone());
        let stored = match &command.session {
            Some(id) => Some(stored(id, &store, &settings)?),
            None => None,
        };
        let directory = match &stored {
            Some((_, _, Some(cwd))) => PathBuf::from(cwd),
            _ => environment.directory.clone(),
        };
        let access = match &stored {
            Some((_, knobs, _)) => {
                let (mode, policy) = knobs.effective(&settings.defaults);
                Access { mode, policy, logged_mode: knobs.logged_mode(), unconfined: false }
            }
            None => {
                let defaults = &settings.defaults;
                let (mode, policy) = (defaults.mode, defaults.policy);
                Access { mode, policy, logged_mode: None, unconfined: false }
            }
        };
        let session = match stored {
            Some((id, knobs, _)) => {
                let places = confinement.places(&id, &directory).with_context(|| {
                    format!("the workspace {} of session \"{id}\"", directory.display())
                })?;
                let preset = knobs.current(&settings.defaults);
                Some(Session { id, mode: access.mode, policy: access.policy, preset, places })
            }
            None => None,
        };
        let call = match &command.tool {
            None => None,
            Some(tool) => {
                let outputs = tempfile::tempdir().context("cannot make a directory")?;
                let extras = Extras::default();
                let registry = Registry::new(transom_tools::Options {
                    confinement,
                    confiner,
                    permissions,
                    jobs: Some(governance::jobs(manifest)?),
                    subagents: Some(transom_tools::Providers::in_process(Arc::new(Nobody))),
                    delegation: subagents::delegating(manifest)?,
                    children: Some(Arc::new(Nobody)),
                    questions: Some(Arc::new(Nobody)),
                    attachments: Some(Arc::new(Nobody)),
                    ..tooling::options(manifest, &extras, environment, &directory, outputs.path())
                })?;
                let call = ToolCall {
                    session: command.session.as_deref().unwrap_or("none").into(),
                    cwd: Some(directory.display().to_string()),
                    root: None,
                    call_id: "call".to_owned(),
                    name: tool.clone(),
                    arguments: command.args.clone(),
                    access,
                    jobs: Vec::new().into(),
                };
                let explanation = explain(&registry, call).await?;
                Some(Call { tool: tool.clone(), mode: access.mode, explanation })
            }
        };
        let ceiling = governance::ceiling(manifest, governance);
        Ok(Shown { settings, ceiling, rules, warnings, report, session, call })
    }

    fn json(&self) -> Value {
        let rules = self.rules.as_slice().iter().map(|rule| {
            let when: serde_json::Map<String, Value> =
                rule.when.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
            json!({
                "tool": rule.tool.as_str(),
                "when": when,
                "mode": rule.mode.map(Mode::as_str),
                "decision": rule.decision.as_str(),
                "reason": rule.reason,
                "file": rule.place.file,
                "line": rule.place.line,
            })
        });
        let rules: Vec<Value> = rules.collect();
        let defaults = &self.settings.defaults;
        json!({
            "preset": defaults.preset,
            "mode": defaults.mode.as_str(),
            "policy": defaults.policy.as_str(),
            "ceiling": self.ceiling.as_str(),
            "children": self.settings.children.as_str(),
            "rules": rules,
            "default": self.rules.default_decision().map(Decision::as_str),
            "warnings": self.warnings,
            "confiner": self.report,
            "session": self.session.as_ref().map(|session| json!({
                "sessionId": session.id,
                "mode": session.mode.as_str(),
                "policy": session.policy.as_str(),
                "preset": session.preset,
                "workspace": session.places.workspace,
                "roots": session.places.roots,
            })),
            "call": self.call.as_ref().map(|call| json!({
                "tool": call.tool,
                "mode": call.mode.as_str(),
                "decision": call.explanation.decision.as_str(),
                "rule": call.explanation.rule.as_ref().map(|rule| rule.place.to_string()),
                "outcome": outcome(&call.explanation.judgement).0,
                "text": outcome(&call.explanation.judgement).1,
            })),
        })
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        match (&self.session, &self.call) {
            (None, None) => self.deployment(&mut lines),
            (Some(session), _) => session.lines(&mut lines),
            (None, Some(_)) => {}
        }
        if let Some(call) = &self.call {
            call.lines(&mut lines);
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn deployment(&self, lines: &mut Vec<String>) {
        self.said(lines);
        for warning in &self.warnings {
            lines.push(format!("warning: {warning}"));
        }
        match &self.report {
            None => lines.push("confiner       off".to_owned()),
            Some(report) => confiner_lines(lines, report),
        }
    }

    /// What the manifest says of sessions.
    fn said(&self, lines: &mut Vec<String>) {
        let defaults = &self.settings.defaults;
        let preset = defaults.preset.as_deref().unwrap_or("custom");
        lines.push(format!(
            "new sessions   {preset} ({}, {})",
            defaults.mode.as_str(),
            defaults.policy.as_str()
        ));
        lines.push(format!(
            "ceiling        {} (the widest that a door may set)",
            self.ceiling.as_str()
        ));
        lines.push(format!("children       {}", self.settings.children.as_str()));
        lines.push("presets".to_owned());
        for preset in &PRESETS {
            lines.push(format!(
                "  {:<20} {}, {}",
                preset.name,
                preset.mode.as_str(),
                preset.policy.as_str()
            ));
        }
        lines.push("rules, the first that matches decides".to_owned());
        for rule in self.rules.as_slice() {
            let mut line = format!("  {:<5} {}", rule.decision.as_str(), rule.tool.as_str());
            for (name, text) in &rule.when {
                line.push_str(&format!(" {name}={:?}", text.as_str()));
            }
            if let Some(mode) = rule.mode {
                line.push_str(&format!(" under {}", mode.as_str()));
            }
            line.push_str(&format!("  ({})", rule.place));
            lines.push(line);
        }
        match self.rules.default_decision() {
            Some(decision) => lines.push(format!("  {:<5} everything else", decision.as_str())),
            None => {
                lines.push("  where none matches".to_owned());
                for mode in [Mode::ReadOnly, Mode::WorkspaceWrite, Mode::DangerFullAccess] {
                    let decide = |kind: ToolKind| kind.decision(mode).as_str();
                    lines.push(format!(
                        "    {:<20} built-in tools {}, MCP and adapter tools {}, delegation to another process {}",
                        mode.as_str(),
                        decide(ToolKind::BuiltIn),
                        decide(ToolKind::Bridged { trusted_read_only: false }),
                        decide(ToolKind::Delegation),
                    ));
                }
            }
        }
    }
}

/// A value's word in JSON, for people as well.
fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn confiner_lines(lines: &mut Vec<String>, report: &Report) {
    let landlock = report.landlock_abi.map_or("none".to_owned(), |abi| format!("ABI {abi}"));
    let yes = |there: bool| if there { "yes" } else { "no" };
    lines.push(format!(
        "confiner       {}: landlock {landlock}, seccomp {}, mounts {}, network {}",
        word(report.enforcement),
        yes(report.seccomp),
        yes(report.mounts),
        word(report.network)
    ));
    if report.root {
        lines.push("  the host runs as root; a service user of its own is safer".to_owned());
    }
    for gap in &report.gaps {
        lines.push(format!("  gap {}: {}", gap.name, gap.remedy));
    }
}

impl Session {
    fn lines(&self, lines: &mut Vec<String>) {
        lines.push(format!("session        {}", self.id));
        lines.push(format!(
            "preset         {} ({}, {})",
            self.preset,
            self.mode.as_str(),
            self.policy.as_str()
        ));
        let list = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        let roots = match self.mode {
            Mode::ReadOnly => "nothing".to_owned(),
            Mode::WorkspaceWrite => list(&self.places.roots),
            Mode::DangerFullAccess => "everything".to_owned(),
        };
        lines.push(format!("may change     {roots}"));
        if self.mode == Mode::WorkspaceWrite && !self.places.absent.is_empty() {
            lines.push(format!(
                "left out       {} (not there, not a directory, or led elsewhere)",
                list(&self.places.absent)
            ));
        }
        if self.mode != Mode::DangerFullAccess {
            lines.push(format!(
                "may not read   {}",
                list(&[&self.places.private[..], &self.places.secrets[..]].concat())
            ));
        }
    }
}

impl Call {
    fn lines(&self, lines: &mut Vec<String>) {
        let Explanation { decision, rule, judgement } = &self.explanation;
        let whence = match rule {
            Some(rule) => format!("by the rule at {}", rule.place),
            None => "by default: no rule matches".to_owned(),
        };
        let (word, text) = outcome(judgement);
        lines.push(format!(
            "{} under {}: {} {whence}",
            self.tool,
            self.mode.as_str(),
            decision.as_str()
        ));
        lines.push(match text {
            Some(text) => format!("it {word}: {text}"),
            None if self.mode == Mode::DangerFullAccess => {
                format!("it {word}, and nothing holds it back")
            }
            None => format!("it {word}, and is held to {}", self.mode.as_str()),
        });
    }
}

/// Takes no work and no questions: nothing is run here.
struct Nobody;

impl Subagents for Nobody {
    fn start(&self, _: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop> {
        sink(DelegationEvent::Refused("nothing is run".to_owned()));
        Box::new(Nobody)
    }
}

impl Children for Nobody {
    fn order(&self, _: &SessionId, _: ChildOrder, sink: Sink<Result<Obeyed, ChildRefused>>) {
        sink(ChildCode::Draining.refuse("nothing is run"));
    }
}

impl Questions for Nobody {
    fn ask(
        &self,
        _: &SessionId,
        _: Value,
        sink: Sink<Result<String, AskRefused>>,
    ) -> Box<dyn Stop> {
        sink(Err(AskRefused { code: "NO_PROVIDER", message: "nothing is run".to_owned() }));
        Box::new(Nobody)
    }
}

impl Attachments for Nobody {
    fn keep_attachment(&self, _: &[u8], _: Option<&str>) -> Result<String, StoreError> {
        Err(StoreError::Io("nothing is run".to_owned()))
    }

    fn attachment(&self, _: &str) -> Result<Option<Attachment>, StoreError> {
        Ok(None)
    }
}

impl Stop for Nobody {
    fn stop(&self) {}
}

fn outcome(judgement: &Judgement) -> (&'static str, Option<String>) {
    match judgement {
        Judgement::Run => ("may begin", None),
        Judgement::Refuse(outcome) => ("is refused", Some(said(outcome))),
        Judgement::Ask(wanted) => ("is asked about", wanted.reason.clone()),
    }
}

fn said(outcome: &ToolOutcome) -> String {
    let texts = outcome.content.iter().filter_map(|block| match block.typed().as_ref() {
        transom_harness::block::Block::Text { text } => Some(text.clone()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

async fn explain(registry: &Registry, call: ToolCall) -> anyhow::Result<Explanation> {
    let registry = registry.clone();
    let explained = tokio::task::spawn_blocking(move || registry.explain(&call));
    timeout(PATIENCE, explained)
        .await
        .context("the call could not be judged")?
        .context("the judge has a bug")
}

/// Id, settings and directory of a stored session.
fn stored(
    id: &str,
    store: &Path,
    settings: &agent::Permissions,
) -> anyhow::Result<(String, Knobs, Option<String>)> {
    let reader = transom_store::open_read_only(store)
        .with_context(|| format!("cannot open the session store {}", store.display()))?;
    let session = SessionId::from(id);
    let Some(found) = reader.find(&session)? else {
        bail!("session \"{id}\" is not in the store {}", store.display())
    };
    let header = Header::parse(&found.header).map_err(anyhow::Error::msg)?;
    let events = reader.read(&session, Page::events(0, found.events))?;
    let config =
        agent::AgentConfig { permissions: settings.clone(), ..agent::AgentConfig::default() };
    let (agent, _) = agent::Agent::restore(
        header,
        &events,
        transom_harness::ports::Route::default(),
        config.into(),
        transom_harness::chance::Chance::new([0; 32]),
        0,
    )?;
    Ok((id.to_owned(), agent.log().knobs().clone(), agent.cwd().map(str::to_owned)))
}
