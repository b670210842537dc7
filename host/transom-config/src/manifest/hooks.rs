//! The tables `[[hook]]`: programs that have a say at points of a turn (`docs/hooks.md`). Asking them is up to the program
//! and whoever it gives them to.

use std::path::PathBuf;

use toml::de::DeTable;

use super::keys::HOOK;
use crate::{
    reader::{Node, Reader},
    shape::{self, tables},
};

/// How long an answer may take where the manifest says nothing, in milliseconds.
pub const HOOK_TIMEOUT_MS: u64 = 10_000;

/// The longest that an answer may take. Somebody waits for it.
pub(super) const HOOK_TIMEOUT_MS_MOST: u64 = 600_000;

/// Hooks of a host. Each is a program that may be started at every step.
const HOOKS_MOST: usize = 64;

/// Where a hook has its say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// Before a step.
    PreStep,
    /// Before a call.
    PreExecute,
    /// After a call.
    PostExecute,
    /// Before the end of a turn.
    TurnStopping,
    /// At a result, without a say.
    Result,
}

impl HookEvent {
    /// In the order of a turn.
    pub(super) const WORDS: [&'static str; 5] = {
        let [step, call, outcome, end, result] = HookEvent::ALL;
        [step.as_str(), call.as_str(), outcome.as_str(), end.as_str(), result.as_str()]
    };

    const ALL: [HookEvent; 5] = [
        HookEvent::PreStep,
        HookEvent::PreExecute,
        HookEvent::PostExecute,
        HookEvent::TurnStopping,
        HookEvent::Result,
    ];

    /// The word in manifests and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            HookEvent::PreStep => "pre-step",
            HookEvent::PreExecute => "pre-execute",
            HookEvent::PostExecute => "post-execute",
            HookEvent::TurnStopping => "turn-stopping",
            HookEvent::Result => "result",
        }
    }

    /// Whether it is about a call, and so about a tool.
    fn has_tool(self) -> bool {
        match self {
            HookEvent::PreExecute | HookEvent::PostExecute | HookEvent::Result => true,
            HookEvent::PreStep | HookEvent::TurnStopping => false,
        }
    }
}

/// One `[[hook]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Unique; stands in logs.
    pub name: String,
    /// Where it has its say.
    pub event: HookEvent,
    /// Pattern of the public names of the tools it is asked about. `None`: all.
    pub tool: Option<String>,
    /// The program: a path, below the manifest's directory if it was relative, or a name without `/`.
    pub program: PathBuf,
    /// What it is started with.
    pub arguments: Vec<String>,
    /// Where it runs: the directory of the file that names it, which may be relative.
    pub directory: PathBuf,
    /// How long one answer may take, in milliseconds.
    pub timeout_ms: u64,
}

/// In the order in which they are asked.
pub(super) fn hooks(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Vec<Hook> {
    let mut hooks: Vec<(Hook, usize)> = Vec::new();
    let Some(node) = node else { return Vec::new() };
    let nodes = tables(reader, node, "hook", "hook").unwrap_or_default();
    if let Some(first) = nodes.get(HOOKS_MOST) {
        let message = format!("there are {} hooks; {HOOKS_MOST} are allowed", nodes.len());
        reader.complain(first.span().start, message);
    }
    for node in nodes {
        let Some((hook, at)) = hook(reader, node) else { continue };
        // Hooks of a later file come first here. Whoever wrote last is told, whichever that is.
        if let Some((_, other_at)) = hooks.iter().find(|(earlier, _)| earlier.name == hook.name) {
            let (at, other_at) = (at.max(*other_at), at.min(*other_at));
            let (file, line) = reader.sources.place(other_at);
            let place = match reader.sources.same(at, other_at) {
                true => format!("line {line}"),
                false => format!("{file}:{line}"),
            };
            let message =
                format!("there is a hook `{}` at {place} already; give it another name", hook.name);
            reader.complain(at, message);
        }
        hooks.push((hook, at));
    }
    hooks.into_iter().map(|(hook, _)| hook).collect()
}

fn hook(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<(Hook, usize)> {
    let at = node.span().start;
    let table = reader.any_table(node, "hook")?;
    for (key, what) in [
        ("name", "a name of its own"),
        ("event", "where it has its say"),
        ("command", "the program with its arguments, as a list"),
    ] {
        let message = format!("[[hook]] has no `{key}`; add {what}");
        reader.require(table, key, &HOOK.names(), at, &message);
    }
    let name = name(reader, table);
    let event = reader.choice(table, "event", &HookEvent::WORDS);
    let event = HookEvent::ALL.into_iter().find(|known| Some(known.as_str()) == event.as_deref());
    let tool = reader.text(table, "tool");
    if let (Some(event), Some(node)) = (event.filter(|event| !event.has_tool()), table.get("tool"))
    {
        let message = format!("a hook of `{}` is about no tool; leave `tool` out", event.as_str());
        reader.complain(node.span().start, message);
    }
    let command = table.get("command").and_then(|node| shape::program(reader, node));
    let timeout_ms = reader.count(table, "timeout-ms").unwrap_or(HOOK_TIMEOUT_MS);
    let (program, arguments) = command?;
    let directory = reader.sources.directory(at).to_owned();
    Some((Hook { name: name?, event: event?, tool, program, arguments, directory, timeout_ms }, at))
}

fn name(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<String> {
    let text = reader.text(table, "name")?;
    let at = table.get("name")?.span().start;
    reader.is_name_at(at, &text, "hook").then_some(text)
}

#[cfg(test)]
mod tests;
