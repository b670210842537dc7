//! `[agent.<name>]`: agents in processes of their own that tasks can be delegated to. What is spoken with them is
//! their component's; starting them is up to the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use toml::{Spanned, de::DeTable};

use super::{Component, Subagent, keys::AGENT};
use crate::{
    error::remedy,
    reader::{Node, Reader},
    shape,
};

/// Components of reverse doors, which need no table of their own: with an agent's process it is this host that is the client.
pub const AGENT_COMPONENTS: &[&str] = &["acp-child"];

/// The provider of this host's own sessions (L-69), whose name no agent can have.
const OWN_PROVIDER: &str = "spawn";

/// How long an agent may take to be ready where the manifest says nothing, in milliseconds.
pub const AGENT_START_MS: u64 = 60_000;

/// The longest of that: somebody waits.
pub(super) const AGENT_START_MS_MOST: u64 = 600_000;

/// How long an agent may take to end by itself where the manifest says nothing, in milliseconds: it writes its log and
/// ends what it has started meanwhile.
pub const AGENT_EOF_GRACE_MS: u64 = 6_000;

/// Between `SIGTERM` and `SIGKILL` where the manifest says nothing, in milliseconds.
pub const AGENT_GRACE_MS: u64 = 3_000;

/// The longest of both.
pub(super) const AGENT_GRACE_MS_MOST: u64 = 2_147_483_647;

pub(super) const AGENT_PERMISSIONS: [&str; 2] = ["reject", "allow"];

/// What the operator says to every question of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentPermission {
    /// No.
    #[default]
    Reject,
    /// Yes.
    Allow,
}

impl AgentPermission {
    /// The word in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentPermission::Reject => "reject",
            AgentPermission::Allow => "allow",
        }
    }
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// A key of `Manifest::components`, or else one of [`AGENT_COMPONENTS`].
    pub component: String,
    /// The program: a path, below the manifest's directory if it was relative, or a name without `/`.
    pub program: PathBuf,
    /// What it is started with.
    pub arguments: Vec<String>,
    /// Where it works. `None`: where the session does that delegates to it.
    pub cwd: Option<PathBuf>,
    /// What its questions are answered.
    pub permission: AgentPermission,
    /// Variables that it gets besides.
    pub environment: BTreeMap<String, String>,
    /// Variables of the host that it gets although their names look like secrets.
    pub keep_environment: Vec<String>,
    /// Variables of the host that it does not get.
    pub without_environment: Vec<String>,
    /// How long it may take to be ready, in milliseconds.
    pub start_ms: u64,
    /// How long it may take to end by itself once its input has ended, in milliseconds.
    pub eof_grace_ms: u64,
    /// Between `SIGTERM` and `SIGKILL`, in milliseconds.
    pub grace_ms: u64,
}

pub(super) fn agents(
    reader: &mut Reader<'_>,
    node: Option<&Node<'_>>,
    components: &BTreeMap<String, Component>,
) -> BTreeMap<String, Agent> {
    let mut agents = BTreeMap::new();
    let Some(tables) = node.and_then(|node| reader.any_table(node, "agent")) else {
        return agents;
    };
    for (name, node) in tables {
        if !reader.is_name(name, "agent") {
            continue;
        }
        if name.get_ref() == OWN_PROVIDER {
            let message =
                "`spawn` is the provider of this host's own sessions; choose another name";
            reader.complain(name.span().start, message.to_owned());
            continue;
        }
        if let Some(agent) = agent(reader, name, node, components) {
            agents.insert(name.get_ref().to_string(), agent);
        }
    }
    agents
}

fn agent(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    node: &Node<'_>,
    components: &BTreeMap<String, Component>,
) -> Option<Agent> {
    let title = format!("agent.{}", name.get_ref());
    let table = reader.any_table(node, &title)?;
    let message =
        format!("[{title}] has no `command`; add the program with its arguments, as a list");
    reader.require(table, "command", &AGENT.names(), name.span().start, &message);
    let component = component(reader, table, &title, components);
    let environment = variables(reader, table);
    let keep_environment = names(reader, table, "keep-environment");
    let without_environment = names(reader, table, "without-environment");
    for (key, named) in
        [("keep-environment", &keep_environment), ("without-environment", &without_environment)]
    {
        if let Some((name, at)) = named.iter().find(|(name, _)| environment.contains_key(name)) {
            let message =
                format!("`{key}` names `{name}`, which `env` sets; leave it out of one of them");
            reader.complain(*at, message);
        }
    }
    let kept: BTreeSet<_> = keep_environment.iter().map(|(name, _)| name).collect();
    if let Some((name, at)) = without_environment.iter().find(|(name, _)| kept.contains(name)) {
        let message = format!(
            "`{name}` is in `keep-environment` and in `without-environment`; keep one of them"
        );
        reader.complain(*at, message);
    }
    let permission = match reader.choice(table, "permission", &AGENT_PERMISSIONS).as_deref() {
        Some("allow") => AgentPermission::Allow,
        _ => AgentPermission::Reject,
    };
    let cwd = reader.path(table, "cwd");
    let count = |key: &str, otherwise| reader.count(table, key).unwrap_or(otherwise);
    let (start_ms, eof_grace_ms, grace_ms) = (
        count("start-ms", AGENT_START_MS),
        count("dispose-eof-grace-ms", AGENT_EOF_GRACE_MS),
        count("dispose-grace-ms", AGENT_GRACE_MS),
    );
    let command = table.get("command")?;
    let (program, arguments) = shape::program(reader, command)?;
    let named = |list: Vec<(String, usize)>| list.into_iter().map(|(name, _)| name).collect();
    Some(Agent {
        component: component?,
        program,
        arguments,
        cwd,
        permission,
        environment,
        keep_environment: named(keep_environment),
        without_environment: named(without_environment),
        start_ms,
        eof_grace_ms,
        grace_ms,
    })
}

/// Who speaks with it.
fn component(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    title: &str,
    components: &BTreeMap<String, Component>,
) -> Option<String> {
    let Some(node) = table.get("component") else { return Some("acp-child".to_owned()) };
    let component = reader.text_of(node, "component")?;
    if components.contains_key(&component) || AGENT_COMPONENTS.contains(&component.as_str()) {
        return Some(component);
    }
    let known: Vec<&str> =
        components.keys().map(String::as_str).chain(AGENT_COMPONENTS.iter().copied()).collect();
    let message = format!(
        "[{title}] names the component `{component}`, for which there is no [component.{component}]; {}",
        remedy(&component, &known)
    );
    reader.complain(node.span().start, message);
    None
}

fn variables(reader: &mut Reader<'_>, table: &DeTable<'_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(set) = table.get("env").and_then(|node| reader.any_table(node, "env")) else {
        return variables;
    };
    for (name, node) in set {
        is_variable(reader, name.get_ref(), name.span().start);
        if let Some(value) = node.get_ref().as_str() {
            if value.contains('\0') {
                let message = "`env` holds a zero byte, which no variable can hold";
                reader.complain(node.span().start, message.to_owned());
            }
            variables.insert(name.get_ref().to_string(), value.to_owned());
        }
    }
    variables
}

fn names(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> Vec<(String, usize)> {
    let named = reader.texts(table, key).unwrap_or_default();
    for (name, at) in &named {
        is_variable(reader, name, *at);
    }
    named
}

fn is_variable(reader: &mut Reader<'_>, name: &str, at: usize) {
    if name.is_empty() || name.contains(['=', '\0', '*']) || name.contains(char::is_whitespace) {
        let message =
            format!("{name:?} is no variable's name; write it as it stands in the environment");
        reader.complain(at, message);
    }
}

/// Complains where a kind of children is run by an agent that there is not, or asks of one what it cannot be told.
pub(super) fn settle_kinds(
    reader: &mut Reader<'_>,
    kinds: &BTreeMap<String, Subagent>,
    node: Option<&Node<'_>>,
    agents: Option<&Node<'_>>,
) {
    let known: Vec<&str> = agents
        .and_then(|node| node.get_ref().as_table())
        .map(|tables| tables.iter().map(|(name, _)| &**name.get_ref()).collect())
        .unwrap_or_default();
    for (name, kind) in kinds {
        let Some(agent) = &kind.agent else { continue };
        let table = node
            .and_then(|node| node.get_ref().as_table()?.get(name.as_str())?.get_ref().as_table());
        let Some(table) = table else { continue };
        let at = |key: &str| table.get(key).map_or(0, |node| node.span().start);
        if !known.contains(&agent.as_str()) {
            let remedy = match known.is_empty() {
                true => format!("add [agent.{agent}]"),
                false => remedy(agent, &known),
            };
            let message = format!(
                "[subagents.{name}] is run by the agent `{agent}`, for which there is no [agent.{agent}]; {remedy}"
            );
            reader.complain(at("agent"), message);
        }
        for key in [
            "persona",
            "persona-file",
            "tools",
            "without-tools",
            "provider",
            "model",
            "depth-max",
            "output-schema",
        ] {
            if table.contains_key(key) {
                let message = format!(
                    "[subagents.{name}] is run by the agent `{agent}`, which cannot be told `{key}`; leave it out"
                );
                reader.complain(at(key), message);
            }
        }
        if kind.continuable == Some(true) {
            let message = format!(
                "[subagents.{name}] is run by the agent `{agent}`, which takes one task; leave `continuable` out"
            );
            reader.complain(at("continuable"), message);
        }
    }
}

#[cfg(test)]
mod tests;
