//! Events of a session's log: their vocabulary and their one text form (L-5, L-17).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    chunk::{Chunk, LlmFailure, TokenUsage},
    message::Message,
    ports::{ToolErrorCode, ToolSpec},
};

/// An event as it was appended. `text` is the whole envelope, the form in which stores keep it and
/// doors pass it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    /// Epoch milliseconds.
    pub time: u64,
    pub kind: &'static str,
    pub text: Arc<str>,
}

/// What an event says. Borrowed: it lives only until its text is made.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Data<'a> {
    InboxSpliced {
        target: Target,
        start: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        removed_count: Option<usize>,
        inserted: &'a [Arc<Message>],
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Discarded>,
    },
    TurnStart {
        turn: u64,
    },
    TurnEnd {
        turn: u64,
        reason: &'a TurnEnd,
    },
    StepStart {
        turn: u64,
        step: u64,
    },
    StepEnd {
        turn: u64,
        step: u64,
    },
    UserMessage(&'a Message),
    AssistantChunk {
        turn: u64,
        step: u64,
        chunk: &'a Chunk,
    },
    AssistantMessage {
        turn: u64,
        step: u64,
        message: &'a Message,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<TokenUsage>,
    },
    ToolCall {
        turn: u64,
        step: u64,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    ToolResult {
        turn: u64,
        step: u64,
        message: &'a Message,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ToolErrorCode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        meta: Option<&'a serde_json::Value>,
    },
    RequestHeader {
        header: &'a RequestHeader,
        reason: HeaderReason,
    },
    RequestContext {
        provider: &'a str,
        model: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    SessionTitle {
        title: &'a str,
        message_seqs: &'a [u64],
        source: TitleSource,
    },
    LlmRetry {
        retry_id: &'a str,
        turn: u64,
        step: u64,
        provider: &'a str,
        mode: RetryMode,
        policy_key: &'a str,
        retry: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_retries: Option<u32>,
        delay_ms: u64,
        failure: &'a LlmFailure,
    },
    LlmRetryStarted {
        retry_id: &'a str,
        turn: u64,
        step: u64,
        retry: u32,
    },
    WorkingDirectoryChange {
        cwd: &'a str,
    },
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
            Data::EndSeed {} => "session/end-seed",
        }
    }
}

/// The envelope's text, members in the order of S-80. `surface` holds the sources of a surface
/// event; only those carry `surfaceOp` (L-8).
pub fn envelope(seq: u64, time: u64, data: &Data<'_>, surface: Option<Surface<'_>>) -> Arc<str> {
    let mut text = format!(r#"{{"type":"{}","seq":{seq},"time":{time},"data":"#, data.kind());
    text.push_str(&crate::json(data));
    if let Some(surface) = surface {
        if let Some(sources) = surface.sources {
            text.push_str(r#","sourceEventSeqs":"#);
            text.push_str(&crate::json(&sources));
        }
        text.push_str(r#","surfaceOp":"append""#);
    }
    text.push('}');
    text.into()
}

/// How a surface event joins the surface. This version only appends.
#[derive(Debug, Clone, Copy)]
pub struct Surface<'a> {
    /// `sourceEventSeqs` (S-82); absent on user messages.
    pub sources: Option<&'a [u64]>,
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
    Canceled,
}

/// How a turn ended (L-44).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEnd {
    Completed,
    MaxTokens,
    Aborted {
        reason: Cause,
    },
    Error {
        error: LlmFailure,
    },
    /// Only recovery writes it (L-79).
    Interrupted,
}

/// Why something was cancelled; the first cause wins (L-47).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Cause {
    User,
    Parent,
    Disposed,
}

/// What a request to a model consists of besides the messages (S-92).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    pub config: RequestConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_defaults: Option<AdapterDefaults>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Arc<[ToolSpec]>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestConfig {
    pub provider: String,
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// Which members of the configuration are the provider's own defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDefaults {
    #[serde(skip_serializing_if = "is_false")]
    pub reasoning_effort: bool,
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
    Initial,
    /// The first request of a session that was continued.
    Resume,
    Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TitleSource {
    Fallback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryMode {
    Normal,
    Always,
}
