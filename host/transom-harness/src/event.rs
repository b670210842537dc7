//! Events of a session's log: their vocabulary and their one text form (L-5, L-17).

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    chunk::{Chunk, LlmFailure, TokenUsage},
    hooks::HookReport,
    jobs::{JobCause, JobKind, JobStatus},
    message::Message,
    permissions::{Outcome, presets::Setting},
    ports::{ToolErrorCode, ToolSpec},
    subagents::ToolFilter,
};

/// An event as it was appended. `text` is the whole envelope, the form in which stores keep it and
/// doors pass it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Place in the log, contiguous from 0 (L-5).
    pub seq: u64,
    /// Epoch milliseconds.
    pub time: u64,
    /// The event's `type` (L-17).
    pub kind: Cow<'static, str>,
    /// JSON text; immutable.
    pub text: Arc<str>,
}

/// What an event says. Borrowed: it lives only until its text is made.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Data<'a> {
    /// `agent/inbox/spliced`: one list of the inbox has changed (L-21).
    InboxSpliced {
        /// The list.
        target: Target,
        /// Where in the list, from 0.
        start: usize,
        /// Messages taken out at `start`; absent instead of 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        removed_count: Option<usize>,
        /// Messages put in at `start`.
        inserted: &'a [Arc<Message>],
        /// Present when those taken out were thrown away.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Discarded>,
    },
    /// `turn/start`: the agent begins to work.
    TurnStart {
        /// Counts from 1 over the whole log.
        turn: u64,
    },
    /// `turn/end`: every `turn/start` gets one.
    TurnEnd {
        /// That of its `turn/start`.
        turn: u64,
        /// How the turn ended.
        reason: &'a TurnEnd,
    },
    /// `step/start`: one question to the model and what follows from it begins.
    StepStart {
        /// The turn it belongs to.
        turn: u64,
        /// Counts from 1 within the turn.
        step: u64,
    },
    /// `step/end`: the results of all its tool calls stand before it.
    StepEnd {
        /// The turn it belongs to.
        turn: u64,
        /// That of its `step/start`.
        step: u64,
    },
    /// `user/message`: a message joins the surface; the data is the message itself.
    UserMessage(&'a Message),
    /// `assistant/chunk`: as it was streamed, also by attempts that failed.
    AssistantChunk {
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// To the letter.
        chunk: &'a Chunk,
    },
    /// `assistant/message`: made of the winning attempt's chunks; joins the surface.
    AssistantMessage {
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// Its content may be empty.
        message: &'a Message,
        /// Absent where the provider did not count.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
    },
    /// `tool/call`: written before the tool is started (L-74).
    ToolCall {
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// Pairs it with its result.
        call_id: &'a str,
        /// As the model wrote it; there may be no such tool.
        name: &'a str,
        /// Raw text, not checked.
        arguments: &'a str,
    },
    /// `tool/result`: one for each `tool/call`, in the model's order; joins the surface.
    ToolResult {
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// Holds exactly one tool-result block.
        message: &'a Message,
        /// Only for errors of the harness itself (L-55).
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ToolErrorCode>,
        /// For people's eyes; never sent to the model (L-59).
        #[serde(skip_serializing_if = "Option::is_none")]
        meta: Option<&'a serde_json::Value>,
    },
    /// `request/header`: written only when it differs from the last one (L-37).
    RequestHeader {
        /// Holds from here on.
        header: &'a RequestHeader,
        /// Why it is written now.
        reason: HeaderReason,
    },
    /// `request/context`: written only when it differs from the last one (L-37).
    RequestContext {
        /// Name under which the provider is registered.
        provider: &'a str,
        /// The provider's name for it.
        model: &'a str,
        /// Tokens that fit into one request and its answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// `session/title`: follows the message that it was made of (L-18).
    SessionTitle {
        /// One line.
        title: &'a str,
        /// The `seq`s of the messages it was made of.
        message_seqs: &'a [u64],
        /// Who made it.
        source: TitleSource,
    },
    /// `llm/retry`: an attempt has failed, and another will follow (L-41).
    LlmRetry {
        /// UUID v4, one for the whole series of a step.
        retry_id: &'a str,
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// The provider whose attempt failed.
        provider: &'a str,
        /// Whether the series has an end.
        mode: RetryMode,
        /// Equal keys mean that counts may be added up.
        policy_key: &'a str,
        /// Counts from 1 within the series.
        retry: u32,
        /// Absent where there is no bound.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_retries: Option<u32>,
        /// Milliseconds until the next attempt.
        delay_ms: u64,
        /// How the attempt failed.
        failure: &'a LlmFailure,
    },
    /// `llm/retry-started`: the delay is over, and the attempt begins.
    LlmRetryStarted {
        /// That of the `llm/retry`.
        retry_id: &'a str,
        /// The turn it belongs to.
        turn: u64,
        /// The step it belongs to.
        step: u64,
        /// That of the `llm/retry`.
        retry: u32,
    },
    /// `working-directory/change`: tools work elsewhere from here on.
    WorkingDirectoryChange {
        /// Absolute.
        cwd: &'a str,
    },
    /// `permission/preset`, `sandbox/mode`, `approval/policy`: what the session may do from here on (P-2).
    Setting(&'a Setting),
    /// `approval/asked`: a call waits for somebody's word (L-60).
    ApprovalAsked {
        /// UUID v4.
        id: &'a str,
        /// The tool that was called.
        tool_name: &'a str,
        /// The call; its arguments stand in its `tool/call` (P-15).
        call_id: &'a str,
        /// Why somebody has to decide.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    /// `approval/decided`: exactly one per ask, in the same turn (P-14).
    ApprovalDecided {
        /// That of the `approval/asked`.
        id: &'a str,
        /// How it came out.
        outcome: Outcome,
    },
    /// `subagent/descriptor`: what a delegated session is; in its first turn, before the first step (L-67).
    SubagentDescriptor {
        /// 2.
        version: u32,
        /// How long it lives.
        mode: SubagentMode,
        /// Who runs it.
        provider: &'a str,
        /// A few words for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<&'a str>,
        /// The model provider that it was given instead of its parent's.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_provider: Option<&'a str>,
        /// The model that it was given instead of its parent's.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_model: Option<&'a str>,
        /// The persona section of its system prompt.
        #[serde(skip_serializing_if = "Option::is_none")]
        persona: Option<&'a str>,
        /// Which of the host's tools it has.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_filter: Option<&'a ToolFilter>,
        /// The filters of those above it, the uppermost first.
        #[serde(skip_serializing_if = "<[ToolFilter]>::is_empty")]
        inherited_tool_filters: &'a [ToolFilter],
    },
    /// `subagent/catalog`: the session has a child that outlives its task (L-72).
    SubagentCatalog {
        /// 0.
        version: u32,
        /// The child's session.
        child_id: &'a str,
        /// Epoch milliseconds; that of the child's header.
        child_created_at: u64,
        /// Continuable.
        mode: SubagentMode,
        /// A few words for people.
        label: &'a str,
    },
    /// `todo/write`: what is to be done from here on; right before the result of the call that says so.
    TodoWrite {
        /// Items with `content` and `status`.
        todos: &'a serde_json::Value,
    },
    /// `job/registered`: a call has started a job; right before its result (P-78).
    JobRegistered {
        /// `<kind>-<n>`.
        job_id: &'a str,
        /// What it runs.
        kind: JobKind,
        /// Whole.
        label: &'a str,
        /// Epoch milliseconds.
        started_at: u64,
        /// The call that started it.
        tool_call: CallRef<'a>,
    },
    /// `job/settled`: a job is over; before the notice to its owner (P-78).
    JobSettled {
        /// That of the `job/registered`.
        job_id: &'a str,
        /// An end.
        status: JobStatus,
        /// For example `exit code: 3`.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
        /// Epoch milliseconds.
        finished_at: u64,
        /// Why it ended.
        cause: JobCause,
    },
    /// `hook/result`: a hook has had its say (L-17).
    HookResult {
        /// The turn it belongs to.
        turn: u64,
        /// Where it was asked.
        point: &'a str,
        /// Who, what, and how it came to it.
        #[serde(flatten)]
        report: &'a HookReport,
    },
    /// `session/end-seed`: what stands before it was there when the session was continued or forked (L-10).
    EndSeed {},
}

impl Data<'_> {
    /// The event's `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Data::InboxSpliced { .. } => "agent/inbox/spliced",
            Data::TurnStart { .. } => "turn/start",
            Data::TurnEnd { .. } => "turn/end",
            Data::StepStart { .. } => "step/start",
            Data::StepEnd { .. } => "step/end",
            Data::UserMessage(_) => "user/message",
            Data::AssistantChunk { .. } => "assistant/chunk",
            Data::AssistantMessage { .. } => "assistant/message",
            Data::ToolCall { .. } => "tool/call",
            Data::ToolResult { .. } => "tool/result",
            Data::RequestHeader { .. } => "request/header",
            Data::RequestContext { .. } => "request/context",
            Data::SessionTitle { .. } => "session/title",
            Data::LlmRetry { .. } => "llm/retry",
            Data::LlmRetryStarted { .. } => "llm/retry-started",
            Data::WorkingDirectoryChange { .. } => "working-directory/change",
            Data::Setting(setting) => setting.kind(),
            Data::ApprovalAsked { .. } => "approval/asked",
            Data::ApprovalDecided { .. } => "approval/decided",
            Data::SubagentDescriptor { .. } => "subagent/descriptor",
            Data::SubagentCatalog { .. } => "subagent/catalog",
            Data::TodoWrite { .. } => "todo/write",
            Data::JobRegistered { .. } => "job/registered",
            Data::JobSettled { .. } => "job/settled",
            Data::HookResult { .. } => "hook/result",
            Data::EndSeed {} => "session/end-seed",
        }
    }

    /// Whether a reader that does not know the type may pass over it (L-19).
    pub fn is_ignorable(&self) -> bool {
        matches!(
            self,
            Data::JobRegistered { .. } | Data::JobSettled { .. } | Data::SubagentCatalog { .. }
        )
    }
}

/// The envelope's text, members in the order of S-80. `surface` holds the sources of a surface
/// event; only those carry `surfaceOp` (L-8).
pub fn envelope(seq: u64, time: u64, data: &Data<'_>, surface: Option<Surface<'_>>) -> Arc<str> {
    let mut text = format!(r#"{{"type":"{}","seq":{seq},"time":{time},"data":"#, data.kind());
    text.push_str(&crate::json(data));
    if data.is_ignorable() {
        text.push_str(r#","ignorable":true"#);
    }
    if let Some(surface) = surface {
        if let Some(sources) = surface.sources {
            text.push_str(r#","sourceEventSeqs":"#);
            text.push_str(&crate::json(&sources));
        }
        match surface.replaces {
            None => text.push_str(r#","surfaceOp":"append""#),
            Some((start, end)) => {
                let op = format!(r#","surfaceOp":{{"op":"replace","start":{start},"end":{end}}}"#);
                text.push_str(&op);
            }
        }
    }
    text.push('}');
    text.into()
}

/// How a surface event joins the surface (L-8).
#[derive(Debug, Clone, Copy)]
pub struct Surface<'a> {
    /// `sourceEventSeqs` (S-82); absent on user messages.
    pub sources: Option<&'a [u64]>,
    /// First and last of the nodes whose place it takes; `None`: it stands at the end.
    pub replaces: Option<(u64, u64)>,
}

/// How long a delegated session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentMode {
    /// `one-shot`: for one task.
    OneShot,
    /// `continuable`: beyond its task, for further messages (L-72).
    Continuable,
}

/// Names a tool call.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRef<'a> {
    /// That of its `tool/call`.
    pub call_id: &'a str,
}

/// One of the two lists of an inbox (L-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// One message is consumed per turn.
    NextTurn,
    /// All are consumed at the next step boundary.
    NextStep,
}

/// Says that a splice threw messages away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discarded {
    /// `canceled`: a cancel or a disposal cleared the list (L-47).
    Canceled,
}

/// How a turn ended (L-44).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEnd {
    /// `completed`: nothing was left to do.
    Completed,
    /// `max-tokens`: the model's output cap cut an answer.
    MaxTokens,
    /// `aborted`: somebody cancelled the turn.
    Aborted {
        /// The first cause, if there were several.
        reason: Cause,
    },
    /// `blocked`: what the turn had claimed was not let in (L-44).
    Blocked,
    /// `error`: the turn could not go on.
    Error {
        /// What stopped it.
        error: LlmFailure,
    },
    /// Only recovery writes it (L-79).
    Interrupted,
}

/// Why something was cancelled; the first cause wins (L-47).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Cause {
    /// `user`: a peer asked for it.
    User,
    /// `parent`: the session that delegated to this one was cancelled.
    Parent,
    /// `hook`: a rule of the operator's.
    Hook {
        /// For people.
        reason: String,
    },
    /// `disposed`: the session itself goes away.
    Disposed,
}

/// What a request to a model consists of besides the messages (S-92).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// Who answers, and how.
    pub config: RequestConfig,
    /// Absent where the caller chose everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_defaults: Option<AdapterDefaults>,
    /// The system prompt; absent rather than empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Arc<str>>,
    /// Sorted by name (L-95); absent rather than empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Arc<[ToolSpec]>>,
}

/// A route as it is served, in the log's words.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestConfig {
    /// Name under which the provider is registered.
    pub provider: String,
    /// The provider's name for it.
    pub model: String,
    /// Output cap in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// In the provider's words, for example `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// Which members of the configuration are the provider's own defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDefaults {
    /// `true`, or absent on the wire.
    #[serde(skip_serializing_if = "is_false")]
    pub reasoning_effort: bool,
    /// `true`, or absent on the wire.
    #[serde(skip_serializing_if = "is_false")]
    pub max_tokens: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Why a `request/header` was written (L-37).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderReason {
    /// The log had none before.
    Initial,
    /// The first request of a session that was continued.
    Resume,
    /// It differs from the last one.
    Change,
}

/// Who made a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TitleSource {
    /// `fallback`: the first words that a person wrote (L-18).
    Fallback,
    /// `user`: a person chose it.
    User,
}

/// Whether a series of retries has an end (L-41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryMode {
    /// `normal`: a bounded number, for certain codes only.
    Normal,
    /// `always`: for as long as it takes, whatever the code.
    Always,
}
