//! `[subagents.<name>]`: kinds of children that a session can ask for, and what children are where nothing is asked
//! (L-67, L-72). Whether an output schema can be checked is for whoever checks it to say.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Map, Value};
use toml::de::DeTable;

use super::{CHILD_TOOLS, PROVIDERS, TOOLS, Tools, keys::SUBAGENT};
use crate::{
    error::remedy,
    reader::{Node, Reader},
};

pub(super) const SUBAGENT_MODES: [&str; 2] = ["one-shot", "continuable"];

/// What becomes of a child once it has done its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubagentMode {
    /// It is gone.
    #[default]
    OneShot,
    /// It takes further messages (L-72).
    Continuable,
}

impl SubagentMode {
    /// The word in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            SubagentMode::OneShot => "one-shot",
            SubagentMode::Continuable => "continuable",
        }
    }
}

/// A kind of children.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subagent {
    /// For the model: when to use it.
    pub description: String,
    /// The agent that runs it, a key of `Manifest::agents`. `None`: this host, as a session of its own.
    pub agent: Option<String>,
    /// The persona section of its system prompt.
    pub persona: Option<String>,
    /// A file with the persona.
    pub persona_file: Option<PathBuf>,
    /// The tools that it has, or patterns of them; `None`: those of its parent.
    pub tools: Option<Vec<String>>,
    /// Tools that it does not have, or patterns of them.
    pub without_tools: Vec<String>,
    /// Whether it takes further messages; `None`: as `[tools] subagent-mode` says.
    pub continuable: Option<bool>,
    /// The model provider; `None`: its parent's.
    pub provider: Option<String>,
    /// The model; `None`: its parent's, or the provider's default.
    pub model: Option<String>,
    /// How deep it may lie.
    pub depth_max: Option<u64>,
    /// JSON Schema of its last words.
    pub output_schema: Option<Map<String, Value>>,
}

impl Subagent {
    /// Whether it takes further messages, where children of no kind are as `mode` says. One whose last words have to
    /// be of a certain form takes none, and neither does one in a process of its own.
    pub fn is_continuable(&self, mode: SubagentMode) -> bool {
        let otherwise = mode == SubagentMode::Continuable
            && self.output_schema.is_none()
            && self.agent.is_none();
        self.continuable.unwrap_or(otherwise)
    }
}

/// Whether there can be children that take further messages.
pub(super) fn keeps_any(mode: SubagentMode, kinds: &BTreeMap<String, Subagent>) -> bool {
    mode == SubagentMode::Continuable || kinds.values().any(|kind| kind.is_continuable(mode))
}

pub(super) fn subagents(
    reader: &mut Reader<'_>,
    node: Option<&Node<'_>>,
) -> BTreeMap<String, Subagent> {
    let mut kinds = BTreeMap::new();
    let Some(tables) = node.and_then(|node| reader.any_table(node, "subagents")) else {
        return kinds;
    };
    for (name, node) in tables {
        let title = format!("subagents.{}", name.get_ref());
        if !reader.is_name(name, "subagents") {
            continue;
        }
        let Some(table) = reader.any_table(node, &title) else { continue };
        let at = name.span().start;
        let message = format!("[{title}] has no `description`; say for the model when to use it");
        reader.require(table, "description", &SUBAGENT.names(), at, &message);
        kinds.insert(name.get_ref().to_string(), subagent(reader, table, &title));
    }
    kinds
}

fn subagent(reader: &mut Reader<'_>, table: &DeTable<'_>, title: &str) -> Subagent {
    let output_schema = table
        .get("output-schema")
        .and_then(|node| reader.any_table(node, "output-schema"))
        .map(|schema| reader.json(schema, "output-schema"));
    let kind = Subagent {
        description: reader.text(table, "description").unwrap_or_default(),
        agent: reader.text(table, "agent"),
        persona: reader.text(table, "persona"),
        persona_file: reader.path(table, "persona-file"),
        tools: tools(reader, table, "tools"),
        without_tools: tools(reader, table, "without-tools").unwrap_or_default(),
        continuable: reader.boolean(table, "continuable"),
        provider: reader.choice(table, "provider", PROVIDERS),
        model: reader.text(table, "model"),
        depth_max: reader.count(table, "depth-max"),
        output_schema,
    };
    let at = |key: &str| table.get(key).map_or(0, |node| node.span().start);
    if kind.persona.is_some() && kind.persona_file.is_some() {
        let message = format!("[{title}] has `persona` and `persona-file`; keep one of them");
        reader.complain(at("persona-file"), message);
    }
    if kind.continuable == Some(true) && kind.output_schema.is_some() {
        let message = format!(
            "[{title}] takes further messages, so it has no last words that `output-schema` could be for; leave one of \
             the two out"
        );
        reader.complain(at("output-schema"), message);
    }
    kind
}

/// Names of tools. Those of bridged tools are not known here, so patterns and names with their prefix pass.
fn tools(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> Option<Vec<String>> {
    let texts = reader.texts(table, key)?;
    for (name, at) in &texts {
        if !name.contains('*') && !name.starts_with("mcp__") && !TOOLS.contains(&name.as_str()) {
            reader.complain(*at, format!("unknown tool `{name}`; {}", remedy(name, TOOLS)));
        }
    }
    Some(texts.into_iter().map(|(name, _)| name).collect())
}

/// Which tools there are, as far as children decide it. `named`: the manifest says so itself; gives where.
pub(super) fn settle_tools(
    reader: &mut Reader<'_>,
    tools: &mut Tools,
    kinds: &BTreeMap<String, Subagent>,
    named: Option<usize>,
) {
    let keeps = keeps_any(tools.subagent_mode, kinds);
    match named {
        None if keeps => {
            tools.enabled = TOOLS.iter().map(|&name| name.to_owned()).collect();
        }
        Some(at) if !keeps => {
            let idle = tools.enabled.iter().find(|name| CHILD_TOOLS.contains(&name.as_str()));
            if let Some(name) = idle {
                let message = format!(
                    "`{name}` is for children that take further messages, and there are none; set `subagent-mode` to \
                     \"continuable\", or leave it out"
                );
                reader.complain(at, message);
            }
        }
        None | Some(_) => {}
    }
}

#[cfg(test)]
mod tests;
