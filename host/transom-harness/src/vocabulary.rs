//! Every event type of a session's log (L-17): which class it is of, and what its data must be. The order
//! in which events may follow each other is `audit.rs`'s; the text form of what this host writes is
//! `event.rs`'s.

mod members;
mod numbers;
mod shape;
mod tables;

use serde_json::value::RawValue;

pub use self::numbers::{NotJsonSafe, json_safe, text_safe};

pub(crate) use self::{
    members::{Members, list, text},
    numbers::lost_number,
    shape::is_absolute,
};

use self::{
    shape::{
        Part::{self, Has, May, When},
        Shape::{Bool, Is, List, OneOf, Path, Record},
    },
    tables::{
        ANY, ASSISTANT_MESSAGE, BLOCKS, CHUNK, COUNT, COUNT_OR_NULL, DESCRIPTOR, GOAL_CHANGE,
        ORDINAL, RANGE, REASON, REQUEST_HEADER, RESULT_MESSAGE, RETRY, ROUTE, SCHEDULE_CHANGE,
        SEQS, TEXT, TITLE_SOURCE, TRUE, USAGE, USER_MESSAGE, USER_MESSAGES, VALUES, WHOLE, WORD,
        one_result,
    },
};

/// What a reader may do with a type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It puts a message on the surface, and only it carries `surfaceOp` and `sourceEventSeqs` (L-8).
    Surface,
    /// It changes what is folded from the log; a reader that does not know it refuses the log.
    LogOnly,
    /// It is written with `ignorable: true`, so that older readers pass over it (L-19).
    Ignorable,
}

/// A type of event.
#[derive(Debug)]
pub struct Known {
    /// The event's `type`.
    pub kind: &'static str,
    /// What a reader may do with it.
    pub class: Class,
    parts: &'static [Part],
    also: Option<Also>,
}

/// Checks what no single member can say.
type Also = fn(&Members<'_>) -> Result<(), String>;

/// The type of that name.
pub fn find(kind: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind)
}

/// All types, in the order of L-17.
pub fn all() -> &'static [Known] {
    KNOWN
}

/// Compares the data of an event with what its type asks for. The message names the member and what would
/// be right. Members that the type does not name are passed over. Whether numbers survive is
/// [`json_safe`]'s.
pub fn check(kind: &str, data: &RawValue) -> Result<(), String> {
    find(kind).ok_or_else(|| format!("kind \"{kind}\" is unknown"))?.check(data)
}

impl Known {
    /// Compares the data of an event of this type with what the type asks for.
    pub fn check(&self, data: &RawValue) -> Result<(), String> {
        shape::check(self.parts, data)?;
        match (self.also, Members::read(data.get())) {
            (Some(also), Some(members)) => also(&members),
            (None, _) | (_, None) => Ok(()),
        }
    }
}

const fn surface(kind: &'static str, parts: &'static [Part]) -> Known {
    Known { kind, class: Class::Surface, parts, also: None }
}

const fn logged(kind: &'static str, parts: &'static [Part]) -> Known {
    Known { kind, class: Class::LogOnly, parts, also: None }
}

const fn ignorable(kind: &'static str, parts: &'static [Part]) -> Known {
    Known { kind, class: Class::Ignorable, parts, also: None }
}

const STEP: &[Part] = &[Has("turn", &ORDINAL), Has("step", &ORDINAL)];
const DELEGATION: Part = May("source", &OneOf(&["delegation"]));
const BY_USER: Part = Has("source", &Record(&[Has("kind", &OneOf(&["user"]))]));

static KNOWN: &[Known] = &[
    logged("turn/start", &[Has("turn", &ORDINAL)]),
    logged("turn/end", &[Has("turn", &ORDINAL), Has("reason", &REASON)]),
    logged("step/start", STEP),
    logged("step/end", STEP),
    surface("user/message", USER_MESSAGE),
    logged(
        "assistant/chunk",
        &[Has("turn", &ORDINAL), Has("step", &ORDINAL), Has("chunk", &CHUNK)],
    ),
    surface(
        "assistant/message",
        &[
            Has("turn", &ORDINAL),
            Has("step", &ORDINAL),
            Has("message", &ASSISTANT_MESSAGE),
            May("usage", &USAGE),
        ],
    ),
    logged(
        "tool/call",
        &[
            Has("turn", &ORDINAL),
            Has("step", &ORDINAL),
            Has("callId", &WORD),
            Has("name", &TEXT),
            Has("arguments", &TEXT),
        ],
    ),
    Known {
        also: Some(one_result),
        ..surface(
            "tool/result",
            &[
                Has("turn", &ORDINAL),
                Has("step", &ORDINAL),
                Has("message", &RESULT_MESSAGE),
                May("error", &Record(&[Has("name", &WORD), Has("code", &WORD)])),
                May("meta", &ANY),
            ],
        )
    },
    logged(
        "agent/inbox/spliced",
        &[
            Has("target", &OneOf(&["next-turn", "next-step"])),
            Has("start", &COUNT),
            May("removedCount", &ORDINAL),
            Has("inserted", &USER_MESSAGES),
            May("outcome", &OneOf(&["canceled"])),
        ],
    ),
    logged(
        "request/header",
        &[Has("header", &REQUEST_HEADER), Has("reason", &OneOf(&["initial", "resume", "change"]))],
    ),
    logged(
        "request/context",
        &[Has("provider", &WORD), Has("model", &WORD), May("contextWindow", &COUNT)],
    ),
    logged("llm/retry", RETRY),
    logged(
        "llm/retry-started",
        &[
            Has("retryId", &WORD),
            Has("turn", &ORDINAL),
            Has("step", &ORDINAL),
            Has("retry", &ORDINAL),
        ],
    ),
    logged(
        "approval/asked",
        &[Has("id", &WORD), Has("toolName", &TEXT), May("callId", &WORD), May("reason", &TEXT)],
    ),
    logged(
        "approval/decided",
        &[
            Has("id", &WORD),
            Has("outcome", &OneOf(&["allowed-once", "rejected", "cancelled", "unavailable"])),
        ],
    ),
    logged("approval/policy", &[Has("policy", &OneOf(&["ask", "never"])), DELEGATION]),
    logged("permission/preset", &[Has("preset", &WORD)]),
    logged(
        "sandbox/mode",
        &[Has("mode", &OneOf(&["read-only", "workspace-write", "danger-full-access"])), DELEGATION],
    ),
    logged("plan/mode", &[Has("active", &Bool)]),
    logged("agent-preset/selected", &[Has("agentPreset", &WORD)]),
    logged("subagent/descriptor", DESCRIPTOR),
    logged("session/end-seed", &[]),
    logged(
        "session/title",
        &[Has("title", &WORD), Has("messageSeqs", &SEQS), Has("source", &TITLE_SOURCE)],
    ),
    logged(
        "session/title-llm-request",
        &[
            Has("titleProvider", &WORD),
            Has("messageSeqs", &SEQS),
            Has("route", &ROUTE),
            Has("system", &TEXT),
            Has("messages", &VALUES),
            Has("maxTokens", &COUNT),
        ],
    ),
    logged(
        "command/run",
        &[Has("commandId", &WORD), Has("name", &WORD), May("args", &ANY), BY_USER],
    ),
    logged(
        "command/done",
        &[
            Has("commandId", &WORD),
            Has("kind", &OneOf(&["success", "error"])),
            May("text", &TEXT),
            May("sourceEventSeq", &COUNT),
        ],
    ),
    logged(
        "compaction/start",
        &[Has("compactionId", &WORD), May("sourceCommandId", &WORD), Has("turn", &COUNT_OR_NULL)],
    ),
    logged(
        "compaction/summary",
        &[
            Has("compactionId", &WORD),
            May("sourceCommandId", &WORD),
            Has("summary", &BLOCKS),
            Has("shadowedRange", &RANGE),
            Has("shadowedSeqs", &SEQS),
            Has("shadowedTokenCount", &COUNT),
            Has("provider", &WORD),
            Has("model", &WORD),
            May("maxTokens", &COUNT),
            May("usage", &USAGE),
            May("rawOutput", &ANY),
            May("llmStreamCall", &TRUE),
        ],
    ),
    logged(
        "compaction/prune",
        &[
            Has("shadowedRange", &RANGE),
            Has("shadowedSeqs", &SEQS),
            Has("shadowedTokenCount", &COUNT),
        ],
    ),
    logged(
        "compaction/end",
        &[
            Has("compactionId", &WORD),
            May("sourceCommandId", &WORD),
            Has("turn", &COUNT_OR_NULL),
            May("error", &ANY),
        ],
    ),
    logged(
        "todo/write",
        &[Has(
            "todos",
            &List(&Record(&[
                Has("content", &TEXT),
                Has("status", &OneOf(&["pending", "in_progress", "completed"])),
            ])),
        )],
    ),
    logged("goal/change", GOAL_CHANGE),
    logged("schedule/change", SCHEDULE_CHANGE),
    logged(
        "hook/invoked",
        &[
            Has("turn", &ORDINAL),
            Has("point", &WORD),
            Has("dialect", &OneOf(&["claude-code", "codex"])),
            May("matcher", &TEXT),
            Has("handlerId", &WORD),
        ],
    ),
    logged(
        "hook/result",
        &[
            Has("turn", &ORDINAL),
            Has("point", &WORD),
            Has("handlerId", &WORD),
            Has("decision", &ANY),
            May("exitCode", &WHOLE),
            May("stderrSummary", &TEXT),
            Has("durationMs", &COUNT),
        ],
    ),
    logged("feedback/record", &[Has("text", &TEXT)]),
    logged("tool/code-dispatch-start", DISPATCH),
    logged(
        "tool/code-dispatch",
        &[
            Has("rootCallId", &WORD),
            Has("parentCallId", &WORD),
            Has("subCallId", &WORD),
            Has("name", &TEXT),
            Has("arguments", &ANY),
            Has("isError", &Bool),
            Has("content", &BLOCKS),
        ],
    ),
    logged("tool-workflow/run-start", &[Has("runId", &WORD), Has("name", &TEXT)]),
    logged(
        "tool-workflow/run-end",
        &[Has("runId", &WORD), Has("stopReason", &OneOf(&["completed", "cancelled", "error"]))],
    ),
    logged(
        "tool-workflow/agent-start",
        &[
            Has("runId", &WORD),
            Has("seq", &COUNT),
            Has("label", &TEXT),
            May("phase", &TEXT),
            Has("childId", &WORD),
        ],
    ),
    logged(
        "tool-workflow/agent-end",
        &[
            Has("runId", &WORD),
            Has("seq", &COUNT),
            Has("outcome", &OneOf(&["completed", "failed", "cancelled"])),
        ],
    ),
    logged(
        "web/deepseek-search-llm-request",
        &[
            Has("endpoint", &WORD),
            Has("apiVersion", &TEXT),
            Has(
                "body",
                &Record(&[
                    Has("model", &WORD),
                    Has("max_tokens", &COUNT),
                    Has("messages", &VALUES),
                    Has("tools", &VALUES),
                ]),
            ),
        ],
    ),
    // Decision 3: type 45.
    logged("working-directory/change", &[Has("cwd", &Path)]),
    ignorable(
        "subagent/catalog",
        &[
            Has("version", &Is(0)),
            Has("childId", &WORD),
            Has("childCreatedAt", &COUNT),
            Has("mode", &OneOf(&["one-shot", "continuable"])),
            May("label", &TEXT),
        ],
    ),
    ignorable(
        "job/registered",
        &[
            Has("jobId", &WORD),
            Has("kind", &OneOf(&["bash", "subagent"])),
            Has("label", &TEXT),
            Has("startedAt", &COUNT),
            Has("toolCall", &Record(&[Has("callId", &WORD)])),
        ],
    ),
    ignorable(
        "job/settled",
        &[
            Has("jobId", &WORD),
            Has("status", &OneOf(&["completed", "killed", "failed"])),
            May("detail", &TEXT),
            Has("finishedAt", &COUNT),
            Has("cause", &OneOf(&["producer", "kill", "teardown", "lost"])),
            // A host that was not there has seen no other end (P-78).
            When("cause", "lost", &[Has("status", &OneOf(&["failed"])), Has("detail", &WORD)]),
        ],
    ),
];

const DISPATCH: &[Part] = &[
    Has("rootCallId", &WORD),
    Has("parentCallId", &WORD),
    Has("subCallId", &WORD),
    Has("name", &TEXT),
    Has("arguments", &ANY),
];

#[cfg(test)]
mod tests;
