//! What delegated sessions are made with, what those who run them can do, and what is asked of children that live on
//! (L-67, L-69, L-72, P-80). Who carries it out is behind the ports; when it may be done is the router's to say.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transom_frame::SessionId;

use crate::{
    block::Block,
    event::SubagentMode,
    jobs::{SUMMARY_CHARS_MAX, shortened},
    message::{Form, Source},
    permissions::rules::Pattern,
    ports::Route,
};

/// Which tools of the host a session has. `*` in a name stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolFilter {
    /// Those that it has; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Those that it does not have all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// Whether a session has the tool.
    pub fn admits(&self, tool: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| Pattern::new(name).matches(tool));
        self.allow.as_deref().is_none_or(among) && !among(&self.deny)
    }
}

/// What a child is made with besides its task (L-67). The default is what its parent is, for one task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Nature {
    /// The persona section of its system prompt; `None`: the host's.
    pub persona: Option<String>,
    /// Which of the host's tools it has; `None`: those of its parent.
    pub tools: Option<ToolFilter>,
    /// JSON Schema of its last words, within what arguments of tools are checked against; `None`: they are free.
    pub output_schema: Option<Value>,
    /// How deep it may lie, where that is less than what the host allows.
    pub depth_max: Option<u64>,
    /// What of its parent's route is another.
    pub route: Route,
    /// It outlives its task and takes further messages (L-72).
    pub continuable: bool,
}

impl Nature {
    /// What whoever runs the child must be able to do.
    pub fn needs(&self) -> Capabilities {
        Capabilities {
            output_schema: self.output_schema.is_some(),
            depth_limit: self.depth_max.is_some(),
            tool_filter: self.tools.is_some(),
            persona: self.persona.is_some(),
        }
    }
}

/// What a provider of subagents can do (L-69). The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It tells the child what its last words must be.
    pub output_schema: bool,
    /// It knows how deep the child lies.
    pub depth_limit: bool,
    /// It keeps tools from the child.
    pub tool_filter: bool,
    /// It gives the child a persona.
    pub persona: bool,
}

impl Capabilities {
    /// All of them.
    pub const ALL: Capabilities =
        Capabilities { output_schema: true, depth_limit: true, tool_filter: true, persona: true };

    /// The first of `needed` that is not there, by the name that L-69 gives it.
    pub fn lack(self, needed: Capabilities) -> Option<&'static str> {
        [
            ("outputSchema", self.output_schema, needed.output_schema),
            ("depthLimit", self.depth_limit, needed.depth_limit),
            ("toolFilter", self.tool_filter, needed.tool_filter),
            ("persona", self.persona, needed.persona),
        ]
        .into_iter()
        .find_map(|(name, there, needed)| (needed && !there).then_some(name))
    }
}

/// Which tools a session has, where that is not simply all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Toolset {
    /// The filters of those above it, and its own: a tool of the host has to pass all of them.
    pub filters: Vec<ToolFilter>,
    /// It can report to whoever has delegated to it (L-72).
    pub reports: bool,
}

/// What a delegated session is, told in its first turn (L-67).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// How long it lives.
    pub mode: SubagentMode,
    /// Who runs it.
    pub provider: String,
    /// A few words for people.
    pub label: Option<String>,
    /// The model provider that it was given instead of its parent's.
    pub agent_provider: Option<String>,
    /// The model that it was given instead of its parent's.
    pub agent_model: Option<String>,
    /// The persona section of its system prompt.
    pub persona: Option<String>,
    /// Which of the host's tools it has.
    pub tool_filter: Option<ToolFilter>,
    /// The filters of those above it, which count for it as well.
    pub inherited_tool_filters: Vec<ToolFilter>,
}

impl Descriptor {
    /// All filters that a tool of the host has to pass.
    pub fn filters(&self) -> impl Iterator<Item = &ToolFilter> {
        self.inherited_tool_filters.iter().chain(&self.tool_filter)
    }
}

/// A child that outlives its task, as the log of its parent has it (`subagent/catalog`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogued {
    /// Its session.
    pub child: SessionId,
    /// A few words for people.
    pub label: String,
}

/// What one session wants of another that it is related to (L-72).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildOrder {
    /// A parent gives a child another turn.
    Message {
        /// The child.
        child: SessionId,
        /// What it is told.
        text: String,
    },
    /// An ancestor ends the turn that a session is in; what waits there stays.
    Interrupt {
        /// The session.
        agent: SessionId,
    },
    /// A child tells its parent something.
    Report {
        /// What it tells.
        text: String,
    },
    /// A parent wants to know what has become of its children.
    List,
}

/// What an order has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obeyed {
    /// It is carried out, or under way.
    Done,
    /// To `List`: children that outlive their tasks, in the order of their birth.
    Listed(Vec<Listed>),
}

/// A child as its parent may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its session.
    pub child: SessionId,
    /// A few words for people.
    pub label: String,
    /// What it does.
    pub state: ChildState,
    /// Messages that it has not begun with, as far as that is known without reading its log.
    pub waiting: usize,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// It works.
    Running,
    /// It waits for a message.
    Idle,
    /// It is in the store only; a message brings it back.
    Stored,
}

impl ChildState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChildState::Running => "running",
            ChildState::Idle => "idle",
            ChildState::Stored => "stored",
        }
    }
}

/// Why an order is not carried out (L-72).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRefused {
    /// Which of the reasons it is.
    pub code: ChildCode,
    /// For the model.
    pub message: String,
}

/// The reasons why an order is not carried out (L-72).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildCode {
    /// The caller is neither the exact live parent nor, where that is enough, an ancestor.
    Unauthorized,
    /// The child is just leaving; once it has, it can be brought back.
    ActivationClosing,
    /// The caller, or the host, is going away.
    Draining,
    /// Nobody live has delegated to the caller.
    ParentUnavailable,
    /// The store has the child, and nobody can go on with it.
    NotResumable,
    /// The store cannot be read or written.
    PersistenceUnavailable,
    /// The child takes no more messages, or the session no more children.
    Overloaded,
}

impl ChildCode {
    /// As it stands in a result's `error.code`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChildCode::Unauthorized => "UNAUTHORIZED",
            ChildCode::ActivationClosing => "ACTIVATION_CLOSING",
            ChildCode::Draining => "DRAINING",
            ChildCode::ParentUnavailable => "PARENT_UNAVAILABLE",
            ChildCode::NotResumable => "NOT_RESUMABLE",
            ChildCode::PersistenceUnavailable => "PERSISTENCE_UNAVAILABLE",
            ChildCode::Overloaded => "OVERLOADED",
        }
    }
}

impl ChildCode {
    /// A refusal with this reason.
    pub fn refuse<T>(self, message: impl Into<String>) -> Result<T, ChildRefused> {
        Err(ChildRefused { code: self, message: message.into() })
    }
}

/// Bytes of text that one session may hand another at once: as much as a child on one task can give back as a tool result.
pub const WORDS_BYTES_MAX: usize = 512 << 10;

/// What a parent is told when a child that lives on has come to rest (P-80): who tells it, and what. `output` is what
/// the child has said last, of which it is told [`WORDS_BYTES_MAX`]; `waiting`, how many messages it has not begun with.
pub fn settled(
    child: &SessionId,
    label: &str,
    stop_reason: &str,
    output: &[Block],
    waiting: usize,
) -> (Source, Vec<Block>) {
    let how = match stop_reason {
        "completed" => "has finished",
        "aborted" => "was stopped",
        "max-tokens" => "ran out of room before it had finished",
        "refusal" => "has declined",
        _ => "has failed",
    };
    let texts = last_words(output);
    let rest = match waiting {
        0 => String::new(),
        1 => ", and 1 message waits there until the next one is sent".to_owned(),
        more => format!(", and {more} messages wait there until the next one is sent"),
    };
    let mut content = vec![Block::text(format!("subagent {child} {how}{rest}."))];
    content.push(Block::text(match texts.is_empty() {
        true => "It has left no closing message.",
        false => "Its last words:",
    }));
    content.extend(texts);
    (notice_of(child, &format!("{label} {how}")), content)
}

/// The same of a child that was at work, as far as its parent knows, when the host stopped. What it has said by then,
/// and what waits there, its own log tells when it is continued.
pub fn interrupted(child: &SessionId, label: &str) -> (Source, Vec<Block>) {
    let how = "was interrupted";
    let content = vec![
        Block::text(format!("subagent {child} {how}: the host stopped before it had finished.")),
        Block::text(
            "It does not go on by itself. It can be written to again, and then takes up what it was sent and had not \
             begun with.",
        ),
    ];
    (notice_of(child, &format!("{label} {how}")), content)
}

fn notice_of(child: &SessionId, summary: &str) -> Source {
    Source::SubagentSettled {
        form: Form::Notice,
        summary: shortened(summary, SUMMARY_CHARS_MAX),
        sender_session_id: child.as_str().to_owned(),
    }
}

/// The texts among what a child has said last, cut at a character where they are too long.
fn last_words(output: &[Block]) -> Vec<Block> {
    let (mut texts, mut room, mut left_out) = (Vec::new(), WORDS_BYTES_MAX, 0);
    for block in output {
        let typed = block.typed();
        let Block::Text { text } = typed.as_ref() else { continue };
        let kept = match left_out {
            0 => text.get(..text.floor_char_boundary(room)).unwrap_or_default(),
            _ => "",
        };
        room -= kept.len();
        left_out += text.len() - kept.len();
        if !kept.is_empty() {
            texts.push(Block::text(kept));
        }
    }
    if left_out > 0 {
        let marker = format!("[last words cut here: {left_out} more bytes were left out]");
        texts.push(Block::text(marker));
    }
    texts
}

#[cfg(test)]
mod tests;
