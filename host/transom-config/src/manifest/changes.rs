//! What differs between two manifests, and how each difference can reach a host that runs by the first.
//! Making it so is the program's. Files that a manifest names, such as policies, may change without it and are not looked at.

mod agents;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use serde_json::{Value, json};
use transom_doors::Answers;
use transom_policy::DOOR_LIMITS;

use super::{
    Access, Agent, Carrier, Component, Confine, Delivery, Door, Durability, Hook, Manifest,
    PermissionRule, RuleDecision, Subagent, Temp,
};
use crate::launch::PermissionMode;

/// Characters of a value in a [`Change`].
const SHOWN_MAX: usize = 80;

/// One key with another value, or one door or component that came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The keys that lead to it, such as `door.sdk.options`.
    pub path: String,
    /// How it reaches a running host.
    pub effect: Effect,
    /// What was said, shortened. `None`: nothing.
    pub old: Option<String>,
    /// What is said now, shortened. `None`: nothing.
    pub new: Option<String>,
}

/// How a change reaches a running host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// At once, for whatever happens next.
    Live,
    /// For connections that are opened from now on.
    NewConnections,
    /// By a swap of this component, to the same version if that has not changed (decision 53).
    Swap(String),
    /// Only when the host is started again.
    Restart,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Live => f.write_str("at once"),
            Effect::NewConnections => f.write_str("for new connections"),
            Effect::Swap(component) => write!(f, "by a swap of `{component}`"),
            Effect::Restart => f.write_str("after a restart"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let (old, new) = (shown(&self.old), shown(&self.new));
        write!(f, "{}: {old} → {new}, {}", self.path, self.effect)
    }
}

/// What a key reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Live,
    NewConnections,
    /// Room is set aside when the host starts: less of it holds for new connections, more needs a restart.
    Room,
    /// The component of that name.
    Component,
    /// The component of the door of that name.
    DoorsComponent,
    Restart,
}

/// Every key of a manifest, and what it reaches. `*` stands for any name.
const REACHES: &[(&str, Reach)] = &[
    // Sessions were told of them in their first request, and their processes are started by what held then.
    ("agent.*.component", Reach::Restart),
    ("agent.*.command", Reach::Restart),
    ("agent.*.cwd", Reach::Restart),
    ("agent.*.permission", Reach::Restart),
    ("agent.*.env", Reach::Restart),
    ("agent.*.keep-environment", Reach::Restart),
    ("agent.*.without-environment", Reach::Restart),
    ("agent.*.start-ms", Reach::Restart),
    ("agent.*.dispose-eof-grace-ms", Reach::Restart),
    ("agent.*.dispose-grace-ms", Reach::Restart),
    ("component.*.source", Reach::Component),
    ("component.*.policy", Reach::Component),
    // Read when the next swap begins, and by whoever watches the files.
    ("component.*.swap", Reach::Live),
    ("component.*.watch", Reach::Live),
    ("confine.off", Reach::Live),
    ("confine.required", Reach::Live),
    ("confine.network", Reach::Live),
    ("confine.unix-sockets", Reach::Live),
    ("confine.temp", Reach::Live),
    ("confine.write", Reach::Live),
    ("confine.hide", Reach::Live),
    ("confine.show", Reach::Live),
    ("confine.guard", Reach::Live),
    ("confine.guard-git", Reach::Live),
    ("control.listen", Reach::Restart),
    ("control.off", Reach::Restart),
    // Another protocol at the same address: its peers could not go on.
    ("door.*.component", Reach::Restart),
    ("door.*.carrier", Reach::Restart),
    ("door.*.listen", Reach::Restart),
    ("door.*.options", Reach::DoorsComponent),
    ("door.*.route-map", Reach::Live),
    // Whether anybody may be asked is a fact that sessions are told when they begin.
    ("door.*.answers", Reach::Restart),
    ("door.*.policy", Reach::DoorsComponent),
    ("door.*.limits.unit-bytes-max", Reach::NewConnections),
    ("door.*.limits.nesting-max", Reach::NewConnections),
    ("door.*.limits.pending-requests-max", Reach::NewConnections),
    ("door.*.limits.unwritten-bytes-rest", Reach::NewConnections),
    ("door.*.limits.unwritten-bytes-stop", Reach::NewConnections),
    ("door.*.limits.live-notices-max", Reach::NewConnections),
    ("door.*.limits.connections-max", Reach::Room),
    ("door.*.limits.sessions-max", Reach::NewConnections),
    // The loop is told at its start where anybody has a say.
    ("hook", Reach::Restart),
    ("jobs.delivery", Reach::Live),
    ("jobs.per-session-max", Reach::Live),
    ("jobs.host-max", Reach::Live),
    ("metrics.listen", Reach::Restart),
    ("model.provider", Reach::Live),
    ("model.model", Reach::Live),
    ("model.context-window", Reach::Live),
    ("model.script", Reach::Live),
    ("model.base-url", Reach::Live),
    ("permissions.preset", Reach::Live),
    ("permissions.policy", Reach::Live),
    ("permissions.ceiling", Reach::Live),
    ("permissions.children", Reach::Live),
    ("permissions.default", Reach::Live),
    ("permissions.workspaces", Reach::Live),
    ("permissions.rule", Reach::Live),
    ("probation.calls", Reach::Live),
    ("probation.faults", Reach::Live),
    ("probation.seconds", Reach::Live),
    ("recovery.crashes", Reach::Live),
    ("recovery.seconds", Reach::Live),
    ("recovery.backoff-ms-max", Reach::Live),
    ("store.path", Reach::Restart),
    ("store.durability", Reach::Restart),
    // So was what a session may ask for.
    ("subagents.*.description", Reach::Restart),
    ("subagents.*.agent", Reach::Restart),
    ("subagents.*.persona", Reach::Restart),
    ("subagents.*.persona-file", Reach::Restart),
    ("subagents.*.tools", Reach::Restart),
    ("subagents.*.without-tools", Reach::Restart),
    ("subagents.*.continuable", Reach::Restart),
    ("subagents.*.provider", Reach::Restart),
    ("subagents.*.model", Reach::Restart),
    ("subagents.*.depth-max", Reach::Restart),
    ("subagents.*.output-schema", Reach::Restart),
    // Sessions were promised these tools in their first request.
    ("tools.enabled", Reach::Restart),
    ("tools.keep-environment", Reach::Restart),
    ("tools.shell-timeout-ms", Reach::Restart),
    ("tools.subagent-depth-max", Reach::Restart),
    ("tools.subagent-mode", Reach::Restart),
    ("tools.subagents-live-max", Reach::Restart),
];

/// Values by key; `None` where nothing is said and nothing else holds.
type Settings = BTreeMap<String, Option<String>>;

impl Manifest {
    /// What `new` says otherwise, by path. Empty: nothing that a host would notice; where rules stand in their files is
    /// not compared.
    pub fn changes(&self, new: &Manifest) -> Vec<Change> {
        let mut changes = Vec::new();
        compare(&mut changes, self, new, ("", ""), &plain(self), &plain(new));
        compare_rules(&mut changes, &self.permissions.rules, &new.permissions.rules);
        let components = Named {
            kind: "component",
            old: &self.components,
            new: &new.components,
            settings: of_component,
            shown: |component| shown(component.source.display()),
        };
        compare_named(&mut changes, self, new, &components, |name| swap(self, new, name));
        let doors = Named {
            kind: "door",
            old: &self.doors,
            new: &new.doors,
            settings: of_door,
            shown: address,
        };
        compare_named(&mut changes, self, new, &doors, |_| Effect::Restart);
        agents::compare_agents(&mut changes, self, new);
        let kinds = Named {
            kind: "subagents",
            old: &self.subagents,
            new: &new.subagents,
            settings: of_subagent,
            shown: |kind| shown(&kind.description),
        };
        compare_named(&mut changes, self, new, &kinds, |_| Effect::Restart);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

/// Tables that have a name each.
struct Named<'m, T> {
    kind: &'static str,
    old: &'m BTreeMap<String, T>,
    new: &'m BTreeMap<String, T>,
    settings: fn(&T) -> Settings,
    /// One of them in few words.
    shown: fn(&T) -> String,
}

/// What those of one name say otherwise, and who came or went, which has this effect.
fn compare_named<T>(
    changes: &mut Vec<Change>,
    old: &Manifest,
    new: &Manifest,
    all: &Named<'_, T>,
    effect: impl Fn(&str) -> Effect,
) {
    let names: BTreeSet<_> = all.old.keys().chain(all.new.keys()).collect();
    for name in names {
        match (all.old.get(name), all.new.get(name)) {
            (Some(before), Some(after)) => {
                let (before, after) = ((all.settings)(before), (all.settings)(after));
                compare(changes, old, new, (all.kind, name), &before, &after);
            }
            (before, after) => changes.push(Change {
                path: format!("{}.{name}", all.kind),
                effect: effect(name),
                old: before.map(all.shown),
                new: after.map(all.shown),
            }),
        }
    }
}

/// `at`: the kind and the name that the settings are of; both empty where they have none.
fn compare(
    changes: &mut Vec<Change>,
    old: &Manifest,
    new: &Manifest,
    at: (&str, &str),
    old_settings: &Settings,
    new_settings: &Settings,
) {
    let (kind, name) = at;
    for (key, old_value) in old_settings {
        let new_value = new_settings.get(key).unwrap_or(&None);
        if old_value == new_value {
            continue;
        }
        let (path, pattern) = match kind {
            "" => (key.clone(), key.clone()),
            kind => (format!("{kind}.{name}.{key}"), format!("{kind}.*.{key}")),
        };
        // A key without an entry would be a slip of this file, which a test finds; starting again always helps.
        let reach = REACHES
            .iter()
            .find(|(known, _)| *known == pattern)
            .map_or(Reach::Restart, |(_, reach)| *reach);
        let effect = match reach {
            Reach::Live => Effect::Live,
            Reach::NewConnections => Effect::NewConnections,
            Reach::Room => room(old_value, new_value),
            Reach::Component => swap(old, new, name),
            Reach::DoorsComponent => match new.doors.get(name) {
                Some(door) => swap(old, new, &door.component),
                None => Effect::Restart,
            },
            Reach::Restart => Effect::Restart,
        };
        let short = |value: &Option<String>| value.as_ref().map(shown);
        changes.push(Change { path, effect, old: short(old_value), new: short(new_value) });
    }
}

fn room(old: &Option<String>, new: &Option<String>) -> Effect {
    let number = |value: &Option<String>| value.as_ref().and_then(|text| text.parse::<u64>().ok());
    match (number(old), number(new)) {
        (Some(old), Some(new)) if new < old => Effect::NewConnections,
        // Where one of them is the policy's, it is not known here which is more.
        (Some(_) | None, Some(_) | None) => Effect::Restart,
    }
}

/// A swap reaches the doors that stay. Without one, the component is not in use yet, or no longer.
fn swap(old: &Manifest, new: &Manifest, component: &str) -> Effect {
    let uses = |door: &Door| door.component == component;
    let speaks = |agent: &Agent| agent.component == component;
    let stays =
        new.doors.iter().any(|(name, door)| uses(door) && old.doors.get(name).is_some_and(uses))
            || new
                .agents
                .iter()
                .any(|(name, agent)| speaks(agent) && old.agents.get(name).is_some_and(speaks));
    match stays {
        // The host's own language has no component that could be swapped.
        true if component == "frames" => Effect::Restart,
        true => Effect::Swap(component.to_owned()),
        false => Effect::Live,
    }
}

fn shown(value: impl fmt::Display) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    text.chars().take(SHOWN_MAX - 1).chain(['…']).collect()
}

fn address(door: &Door) -> String {
    match &door.carrier {
        Carrier::Stdio => "stdio".to_owned(),
        Carrier::Unix { listen } => shown(format_args!("unix {}", listen.display())),
    }
}

fn path(path: &Path) -> Option<String> {
    Some(path.display().to_string())
}

fn list<T: fmt::Display>(entries: impl IntoIterator<Item = T>) -> Option<String> {
    let texts: Vec<Value> = entries.into_iter().map(|entry| json!(entry.to_string())).collect();
    Some(Value::from(texts).to_string())
}

fn settings<const N: usize>(entries: [(&str, Option<String>); N]) -> Settings {
    entries.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

fn of_component(component: &Component) -> Settings {
    let Component { source, policy, swap, watch } = component;
    settings([
        ("source", path(source)),
        ("policy", policy.as_deref().and_then(path)),
        ("swap", Some(swap.as_str().to_owned())),
        ("watch", Some(watch.to_string())),
    ])
}

fn of_subagent(kind: &Subagent) -> Settings {
    let Subagent {
        description,
        agent,
        persona,
        persona_file,
        tools,
        without_tools,
        continuable,
        provider,
        model,
        depth_max,
        output_schema,
    } = kind;
    settings([
        ("description", Some(description.clone())),
        ("agent", agent.clone()),
        ("persona", persona.clone()),
        ("persona-file", persona_file.as_deref().and_then(path)),
        ("tools", tools.as_ref().and_then(list)),
        ("without-tools", list(without_tools)),
        ("continuable", continuable.as_ref().map(ToString::to_string)),
        ("provider", provider.clone()),
        ("model", model.clone()),
        ("depth-max", depth_max.as_ref().map(ToString::to_string)),
        ("output-schema", output_schema.as_ref().map(|schema| json!(schema).to_string())),
    ])
}

fn of_door(door: &Door) -> Settings {
    let Door { component, carrier, options, route_map, answers, policy, limits } = door;
    let (carrier, listen) = match carrier {
        Carrier::Stdio => ("stdio", None),
        Carrier::Unix { listen } => ("unix", path(listen)),
    };
    let answers = answers.map(|answers| match answers {
        Answers::Never => "never".to_owned(),
        Answers::Owned => "owned".to_owned(),
        Answers::Always => "always".to_owned(),
    });
    let mut settings = settings([
        ("component", Some(component.clone())),
        ("carrier", Some(carrier.to_owned())),
        ("listen", listen),
        ("options", Some(json!(options).to_string())),
        ("route-map", Some(json!(route_map).to_string())),
        ("answers", answers),
        ("policy", policy.as_deref().and_then(path)),
    ]);
    for name in DOOR_LIMITS.names() {
        let number = limits.0.get(name).map(ToString::to_string);
        settings.insert(format!("limits.{name}"), number);
    }
    settings
}

/// The tables of which there is one.
fn plain(manifest: &Manifest) -> Settings {
    let Manifest {
        components: _,
        doors: _,
        agents: _,
        subagents: _,
        model,
        store,
        tools,
        hooks,
        permissions,
        confine,
        jobs,
        control,
        metrics,
        probation,
        recovery,
    } = manifest;
    let durability = match store.durability {
        Durability::Process => "process",
        Durability::Power => "power",
    };
    let delivery = match jobs.delivery {
        Delivery::Notify => "notify",
        Delivery::Quiet => "quiet",
    };
    let number = |number: u64| Some(number.to_string());
    let word = |word: &str| Some(word.to_owned());
    let mut settings = settings([
        ("model.provider", model.provider.clone()),
        ("model.model", model.model.clone()),
        ("model.context-window", model.context_window.as_ref().map(ToString::to_string)),
        ("model.script", model.script.as_deref().and_then(path)),
        ("model.base-url", model.base_url.clone()),
        ("store.path", store.path.as_deref().and_then(path)),
        ("store.durability", word(durability)),
        ("tools.enabled", list(&tools.enabled)),
        ("tools.keep-environment", list(&tools.keep_environment)),
        ("tools.shell-timeout-ms", number(tools.shell_timeout_ms)),
        ("tools.subagent-depth-max", number(tools.subagent_depth_max)),
        ("tools.subagent-mode", word(tools.subagent_mode.as_str())),
        ("tools.subagents-live-max", number(tools.subagents_live_max)),
        ("permissions.preset", word(permissions.preset.as_str())),
        ("permissions.policy", word(permissions.policy.as_str())),
        ("permissions.ceiling", word(permissions.ceiling.as_str())),
        ("permissions.children", word(permissions.children.as_str())),
        ("permissions.default", permissions.default.map(RuleDecision::as_str).and_then(word)),
        ("permissions.workspaces", permissions.workspaces.as_ref().and_then(list)),
        ("hook", of_hooks(hooks)),
        ("jobs.delivery", word(delivery)),
        ("jobs.per-session-max", number(jobs.per_session_max)),
        ("jobs.host-max", number(jobs.host_max)),
        ("control.listen", control.listen.as_deref().and_then(path)),
        ("control.off", Some(control.off.to_string())),
        ("metrics.listen", metrics.listen.as_ref().map(ToString::to_string)),
        ("probation.calls", number(probation.calls)),
        ("probation.faults", number(probation.faults)),
        ("probation.seconds", number(probation.seconds)),
        ("recovery.crashes", number(recovery.crashes)),
        ("recovery.seconds", number(recovery.seconds)),
        ("recovery.backoff-ms-max", number(recovery.backoff_ms_max)),
    ]);
    settings.extend(of_confine(confine));
    settings
}

fn of_confine(confine: &Confine) -> Settings {
    let Confine { off, required, network, unix_sockets, temp, write, hide, show, guard, guard_git } =
        confine;
    let access = |access: &Access| match access {
        Access::Deny => Some("deny".to_owned()),
        Access::Allow => Some("allow".to_owned()),
    };
    let temp = match temp {
        Temp::Shared => "shared",
        Temp::Private => "private",
    };
    let paths = |paths: &[std::path::PathBuf]| list(paths.iter().map(|path| path.display()));
    settings([
        ("confine.off", Some(off.to_string())),
        ("confine.required", Some(required.to_string())),
        ("confine.network", access(network)),
        ("confine.unix-sockets", access(unix_sockets)),
        ("confine.temp", Some(temp.to_owned())),
        ("confine.write", paths(write)),
        ("confine.hide", paths(hide)),
        ("confine.show", paths(show)),
        ("confine.guard", paths(guard)),
        ("confine.guard-git", Some(guard_git.to_string())),
    ])
}

/// Each rule that came and each that went, with its place; or that they are judged in another order (P-34).
fn compare_rules(changes: &mut Vec<Change>, old: &[PermissionRule], new: &[PermissionRule]) {
    let texts = |rules: &[PermissionRule]| rules.iter().map(rule).collect::<Vec<_>>();
    let (before, after) = (texts(old), texts(new));
    if before == after {
        return;
    }
    let path = "permissions.rule".to_owned();
    let change = |old, new| Change { path: path.clone(), effect: Effect::Live, old, new };
    let gone = beyond(old.iter().zip(&before), &after);
    let come = beyond(new.iter().zip(&after), &before);
    if gone.is_empty() && come.is_empty() {
        let whole = |texts: &[String]| Some(shown(texts.join("; ")));
        changes.push(change(whole(&before), whole(&after)));
        return;
    }
    changes.extend(gone.into_iter().map(|text| change(Some(text), None)));
    changes.extend(come.into_iter().map(|text| change(None, Some(text))));
}

/// Those of the rules that are not among the texts, each as often as it is not.
fn beyond<'r>(
    rules: impl Iterator<Item = (&'r PermissionRule, &'r String)>,
    texts: &[String],
) -> Vec<String> {
    let mut others: BTreeMap<&String, usize> = BTreeMap::new();
    for text in texts {
        *others.entry(text).or_default() += 1;
    }
    let mut found = Vec::new();
    for (rule, text) in rules {
        match others.get_mut(text).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => found.push(format!("{} ({}:{})", shown(text), rule.file, rule.line)),
        }
    }
    found
}

/// A rule but where it stands.
fn rule(rule: &PermissionRule) -> String {
    let PermissionRule { tool, when, mode, decision, reason, file: _, line: _ } = rule;
    let mut text = format!("{} {tool}", decision.as_str());
    if !when.is_empty() {
        let when: serde_json::Map<_, _> =
            when.iter().map(|(name, pattern)| (name.clone(), json!(pattern))).collect();
        text.push_str(&format!(" {}", Value::Object(when)));
    }
    if let Some(mode) = mode.map(PermissionMode::as_str) {
        text.push_str(&format!(" under {mode}"));
    }
    if let Some(reason) = reason {
        text.push_str(&format!(" because {}", json!(reason)));
    }
    text
}

/// Every hook.
fn of_hooks(hooks: &[Hook]) -> Option<String> {
    let hook = |hook: &Hook| {
        let Hook { name, event, tool, program, arguments, directory, timeout_ms } = hook;
        let tool = tool.as_ref().map(|tool| format!(" of {tool}")).unwrap_or_default();
        let (event, program, arguments) = (event.as_str(), program.display(), json!(arguments));
        let directory = directory.display();
        format!(
            "{name} at {event}{tool}: {program} {arguments} in {directory:?} within {timeout_ms}ms"
        )
    };
    (!hooks.is_empty()).then(|| hooks.iter().map(hook).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
