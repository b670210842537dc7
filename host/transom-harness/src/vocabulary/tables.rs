//! The shapes that many event types share (L-12 to L-15, S-85 to S-92), and what single members cannot
//! say of them.

use serde_json::value::RawValue;

use super::{
    members::{Members, text},
    shape::{
        Part::{self, Has, May, Not, When},
        Shape::{
            Any, Count, Is, List, Nullable, Number, Object, OneOf, Record, Text, True, Whole, Word,
        },
    },
};

pub(super) use super::shape::Shape;

pub(super) static ANY: Shape = Any;
pub(super) static TEXT: Shape = Text;
pub(super) static WORD: Shape = Word;
pub(super) static TRUE: Shape = True;
pub(super) static NUMBER: Shape = Number;
pub(super) static WHOLE: Shape = Whole;
pub(super) static OBJECT: Shape = Object;
/// From 0: sequence numbers, sizes, times, token counts.
pub(super) static COUNT: Shape = Count(0);
/// From 1: turns, steps, attempts.
pub(super) static ORDINAL: Shape = Count(1);
pub(super) static COUNT_OR_NULL: Shape = Nullable(&ORDINAL);
pub(super) static SEQS: Shape = List(&COUNT);
pub(super) static WORDS: Shape = List(&WORD);
pub(super) static VALUES: Shape = List(&ANY);

/// A block of a message that may have come from a peer: kept to the letter, so only its type is sure (S-52).
static GIVEN_BLOCK: Shape = Record(&[Has("type", &TEXT)]);

/// A block that the host or a model has made (L-13). Further types may come (S-85).
pub(super) static BLOCK: Shape = Record(&[
    Has("type", &WORD),
    When("type", "text", &[Has("text", &TEXT)]),
    When("type", "reasoning", &[Has("text", &TEXT)]),
    When("type", "image", &[Has("attachment", &ATTACHMENT)]),
    When("type", "tool-call", &[Has("id", &WORD), Has("name", &TEXT), Has("arguments", &TEXT)]),
    When(
        "type",
        "tool-result",
        &[Has("toolCallId", &WORD), Has("content", &BLOCKS), May("isError", &Shape::Bool)],
    ),
]);
pub(super) static BLOCKS: Shape = List(&BLOCK);

static ATTACHMENT: Shape = Record(&[
    Has("attachmentId", &WORD),
    Has("mediaType", &OneOf(&["image/png", "image/jpeg", "image/webp", "image/gif"])),
    Has("bytes", &COUNT),
    Has("width", &COUNT),
    Has("height", &COUNT),
    May("name", &TEXT),
]);

/// Who produced a message (S-87); further kinds come with the features that make them (L-12).
static SOURCE: Shape = Record(&[
    Has("kind", &WORD),
    When("kind", "user", &[May("rpcId", &TEXT), May("clientTimeZone", &TEXT)]),
    When("kind", "plugin", &[Has("plugin", &WORD), May("form", &FORM)]),
    When("kind", "model", MODEL),
    When("kind", "tool", &[Has("callId", &WORD)]),
    When("kind", "goal", &[Has("goalId", &WORD), Has("revision", &COUNT), Has("round", &COUNT)]),
    When("kind", "coordinator", &[Has("form", &OneOf(&["relay"])), Has("senderSessionId", &TEXT)]),
    When(
        "kind",
        "subagent-report",
        &[Has("form", &OneOf(&["relay"])), Has("senderSessionId", &TEXT)],
    ),
    When(
        "kind",
        "subagent-settled",
        &[Has("form", &OneOf(&["notice"])), Has("senderSessionId", &TEXT)],
    ),
    When("kind", "skill-catalog", &[Has("form", &OneOf(&["catalog"])), Has("entries", &NAMED)]),
    When("kind", "skill-invocation", &[Has("form", &OneOf(&["instructions"])), Has("name", &WORD)]),
    When(
        "kind",
        "session-reference",
        &[Has("form", &OneOf(&["recall"])), Has("references", &VALUES)],
    ),
    When(
        "kind",
        "agent-instructions",
        &[Has("form", &OneOf(&["instructions"])), Has("changes", &VALUES)],
    ),
    When("form", "snapshot", &[Has("sections", &SECTIONS)]),
    When("form", "notice", &[Has("summary", &TEXT)]),
]);
static FORM: Shape = OneOf(&["instructions", "catalog", "snapshot", "notice", "relay", "recall"]);
static SECTIONS: Shape = List(&Record(&[Has("name", &WORD), Has("text", &TEXT)]));
static NAMED: Shape = List(&Record(&[Has("name", &WORD), Has("description", &TEXT)]));
const MODEL: &[Part] = &[
    Has("provider", &WORD),
    Has("model", &WORD),
    May("replayState", &ANY),
    May("partial", &Shape::Bool),
];

/// A message that is queued, or that joins the surface as a user's (L-12).
pub(super) const USER_MESSAGE: &[Part] = &[
    Has("id", &WORD),
    Has("role", &OneOf(&["user"])),
    Has("content", &List(&GIVEN_BLOCK)),
    Has("source", &SOURCE),
];
pub(super) static USER_MESSAGES: Shape = List(&Record(USER_MESSAGE));

/// A model's answer: its source is always the model (L-12).
pub(super) static ASSISTANT_MESSAGE: Shape = Record(&[
    Has("id", &WORD),
    Has("role", &OneOf(&["assistant"])),
    Has("content", &BLOCKS),
    Has("source", &Record(&[Has("kind", &OneOf(&["model"])), When("kind", "model", MODEL)])),
]);

/// A tool's result (L-13).
pub(super) static RESULT_MESSAGE: Shape = Record(&[
    Has("id", &WORD),
    Has("role", &OneOf(&["user"])),
    Has("content", &BLOCKS),
    Has("source", &Record(&[Has("kind", &OneOf(&["tool"])), Has("callId", &WORD)])),
]);

/// One piece of a model's answer (L-14).
pub(super) static CHUNK: Shape = Record(&[
    Has(
        "type",
        &OneOf(&[
            "block-start",
            "text-delta",
            "reasoning-delta",
            "tool-call-delta",
            "block-end",
            "usage",
            "finish",
        ]),
    ),
    When(
        "type",
        "block-start",
        &[Has("index", &COUNT), Has("blockType", &OneOf(&["text", "reasoning", "tool-call"]))],
    ),
    When("type", "text-delta", &[Has("index", &COUNT), Has("text", &TEXT)]),
    When("type", "reasoning-delta", &[Has("index", &COUNT), Has("text", &TEXT)]),
    When(
        "type",
        "tool-call-delta",
        &[Has("index", &COUNT), Has("id", &TEXT), May("name", &TEXT), Has("argumentsDelta", &TEXT)],
    ),
    When("type", "block-end", &[Has("index", &COUNT), Has("block", &BLOCK)]),
    When("type", "usage", &[Has("usage", &USAGE)]),
    When("type", "finish", &[Has("reason", &FINISH), May("replayState", &ANY)]),
]);

static FINISH: Shape = Record(&[
    Has("kind", &OneOf(&["stop", "tool-calls", "max-tokens", "aborted", "error"])),
    When("kind", "aborted", &[Has("failure", &FAILURE)]),
    When("kind", "error", &[Has("failure", &FAILURE)]),
]);

pub(super) static USAGE: Shape = Record(&[
    Has("inputTokens", &COUNT),
    Has("outputTokens", &COUNT),
    May("cacheReadTokens", &COUNT),
    May("cacheWriteTokens", &COUNT),
    May("reasoningTokens", &COUNT),
]);

/// How a model call failed (L-15). Codes are open: providers have their own (S-90).
pub(super) static FAILURE: Shape = Record(&[
    Has("message", &TEXT),
    Has("code", &WORD),
    May("status", &COUNT),
    May("providerRetryAfterMs", &COUNT),
    May("requestId", &TEXT),
]);

/// How a turn ended (S-91). Kinds are open (L-45).
pub(super) static REASON: Shape = Record(&[
    Has("kind", &WORD),
    When("kind", "aborted", &[Has("reason", &CAUSE)]),
    When("kind", "error", &[Has("error", &FAILURE)]),
]);
static CAUSE: Shape = Record(&[
    Has("kind", &OneOf(&["user", "parent", "hook", "disposed", "legacy"])),
    When("kind", "hook", &[Has("reason", &TEXT)]),
]);

/// What a request to a model consists of besides the messages (S-92).
pub(super) static REQUEST_HEADER: Shape = Record(&[
    Has(
        "config",
        &Record(&[
            Has("provider", &WORD),
            Has("model", &WORD),
            May("maxTokens", &COUNT),
            May("reasoningEffort", &WORD),
            May("temperature", &NUMBER),
            May("stop", &ANY),
        ]),
    ),
    May("adapterDefaults", &Record(&[May("reasoningEffort", &TRUE), May("maxTokens", &TRUE)])),
    May("system", &WORD),
    May(
        "tools",
        &List(&Record(&[
            Has("name", &WORD),
            Has("description", &TEXT),
            Has("parameters", &OBJECT),
        ])),
    ),
]);

/// Who made a title (S-93, decision 76).
pub(super) static TITLE_SOURCE: Shape = Record(&[
    Has("kind", &OneOf(&["fallback", "provider", "user"])),
    When("kind", "provider", &[Has("provider", &WORD), May("model", &ROUTE)]),
]);
pub(super) static ROUTE: Shape = Record(&[Has("provider", &WORD), Has("model", &WORD)]);

pub(super) static RANGE: Shape = Record(&[Has("start", &COUNT), Has("end", &COUNT)]);

/// A change of a goal, whose members depend on the operation.
pub(super) const GOAL_CHANGE: &[Part] = &[
    Has("kind", &OneOf(&["goal/change"])),
    Has("version", &Is(1)),
    Has("operation", &OneOf(&["create", "edit", "pause", "resume", "complete", "block", "clear"])),
    When("operation", "create", GOAL),
    When("operation", "edit", GOAL),
    When("operation", "pause", GOAL),
    When("operation", "resume", GOAL),
    When("operation", "complete", GOAL),
    When("operation", "block", GOAL),
    When(
        "operation",
        "clear",
        &[
            Has("cleared", &Record(&[Has("id", &WORD), Has("revision", &COUNT)])),
            Has("clearedAt", &COUNT),
        ],
    ),
];
const GOAL: &[Part] = &[
    Has(
        "goal",
        &Record(&[
            Has("id", &WORD),
            Has("revision", &COUNT),
            Has("objective", &TEXT),
            Has("phase", &OneOf(&["active", "paused", "blocked", "complete"])),
            May("blockedReason", &Record(&[Has("code", &WORD), Has("message", &TEXT)])),
            Has("maxGoalRounds", &COUNT),
        ]),
    ),
    Has("roundsStarted", &COUNT),
    Has("createdAt", &COUNT),
    Has("updatedAt", &COUNT),
];

/// A change of a schedule, whose members depend on the operation.
pub(super) const SCHEDULE_CHANGE: &[Part] = &[
    Has("version", &Is(1)),
    Has("operation", &OneOf(&["create", "delete", "dispatch"])),
    When("operation", "create", &[Has("schedule", &SCHEDULE)]),
    When("operation", "delete", &[Has("id", &WORD)]),
    When("operation", "dispatch", &[Has("id", &WORD), May("acceptedAt", &COUNT)]),
];
static SCHEDULE: Shape = Record(&[
    Has("id", &WORD),
    Has("kind", &OneOf(&["after", "at", "every"])),
    Has("prompt", &TEXT),
    Has("scheduledAt", &COUNT),
    When("kind", "after", &[Has("afterSeconds", &NUMBER)]),
    When("kind", "every", &[Has("everySeconds", &NUMBER)]),
]);

/// A retry that has been decided on (L-41): only a bounded series names its bound (S-93).
pub(super) const RETRY: &[Part] = &[
    Has("retryId", &WORD),
    Has("turn", &ORDINAL),
    Has("step", &ORDINAL),
    Has("provider", &WORD),
    Has("mode", &OneOf(&["normal", "always"])),
    When("mode", "normal", &[Has("maxRetries", &COUNT)]),
    When("mode", "always", &[Not("maxRetries")]),
    Has("policyKey", &WORD),
    Has("retry", &ORDINAL),
    Has("delayMs", &COUNT),
    Has("failure", &FAILURE),
];

/// What a delegated session is (L-67): only what may go on for longer has to have a label (S-93).
pub(super) const DESCRIPTOR: &[Part] = &[
    Has("version", &Is(2)),
    Has("mode", &OneOf(&["one-shot", "continuable"])),
    Has("provider", &WORD),
    May("label", &TEXT),
    When("mode", "continuable", &[Has("label", &TEXT)]),
    May("agentProvider", &WORD),
    May("agentModel", &WORD),
    May("persona", &TEXT),
    May("toolFilter", &FILTER),
    May("inheritedToolFilters", &List(&FILTER)),
];

static FILTER: Shape = Record(&[May("allow", &WORDS), May("deny", &WORDS)]);

/// A result answers the call that its source names, in the only block of its message (L-13).
pub(super) fn one_result(data: &Members<'_>) -> Result<(), String> {
    let message = data.object("message");
    let Some(content) = message.as_ref().and_then(|message| message.list("content")) else {
        return Ok(());
    };
    let block = match content.as_slice() {
        [block] => kind(block)
            .filter(|kind| kind == "tool-result")
            .and_then(|_| Members::read(block.get())),
        _ => None,
    };
    let Some(block) = block else {
        return Err("\"message.content\" must be exactly one tool-result block".to_owned());
    };
    let source = message.and_then(|message| message.object("source"));
    let called = source.and_then(|source| source.text("callId")).unwrap_or_default();
    let answered = block.text("toolCallId").unwrap_or_default();
    if called != answered {
        return Err(format!(
            "\"message.content[0].toolCallId\" must be the source's callId \"{called}\", got \"{answered}\""
        ));
    }
    Ok(())
}

/// The `type` of a block.
fn kind(block: &RawValue) -> Option<String> {
    let kind = Members::read(block.get())?.raw("type").and_then(text)?.into_owned();
    Some(kind)
}
