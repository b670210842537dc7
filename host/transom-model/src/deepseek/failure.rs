//! How calls of the chat-completions API fail, in the loop's words (L-93, L-94). Whether to try
//! again is the loop's to decide.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::{Map, Value};
use transom_harness::chunk::LlmFailure;

use crate::deepseek::credentials::{Endpoint, Key};

/// Longest message taken from a peer. Messages are logged, stored and shown.
const MESSAGE_CHARS_MAX: usize = 4096;

/// Shorter keys are not looked for in messages: they are no secrets, but they might be words.
const SECRET_BYTES_MIN: usize = 8;

/// Phrases by which providers say that an account has run dry, with `_` and `-` read as blanks.
const QUOTA: &[&str] = &[
    "insufficient balance",
    "insufficient quota",
    "insufficient credit",
    "quota exceeded",
    "exceeded quota",
    "exceeded your quota",
    "exceeded your current quota",
    "billing hard limit",
];

/// Phrases by which they say that a request does not fit the model.
const CONTEXT: &[&str] = &[
    "context length",
    "context window",
    "maximum context",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
];

/// The server of one request, for messages about it.
pub(super) struct Upstream {
    shown: String,
    idle_ms_max: u64,
    key: Option<Key>,
}

impl Upstream {
    pub(super) fn new(endpoint: &Endpoint, idle_ms_max: u64) -> Upstream {
        Upstream { shown: endpoint.shown(), idle_ms_max, key: endpoint.key.clone() }
    }

    /// No response came.
    pub(super) fn unreachable(&self) -> LlmFailure {
        LlmFailure::new("TRANSPORT", format!("DeepSeek API request to {} failed", self.shown))
    }

    /// The response broke off.
    pub(super) fn broken(&self) -> LlmFailure {
        LlmFailure::new("TRANSPORT", format!("DeepSeek API stream from {} failed", self.shown))
    }

    /// Nothing arrived for too long.
    pub(super) fn silent(&self) -> LlmFailure {
        LlmFailure::new(
            "TIMEOUT",
            format!("DeepSeek stream idle timeout after {}ms", self.idle_ms_max),
        )
    }

    /// The response has no body.
    pub(super) fn no_body(&self) -> LlmFailure {
        LlmFailure::new("EMPTY_RESPONSE", "DeepSeek API response has no body")
    }

    /// The response is a refusal.
    pub(super) fn refused(
        &self,
        status: u16,
        body: &[u8],
        retry_after_ms: Option<u64>,
    ) -> LlmFailure {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = body.get("error").map(Error::read).unwrap_or_default();
        let code = match status {
            401 | 403 => "AUTH".to_owned(),
            _ if error.says(QUOTA) => "QUOTA".to_owned(),
            429 => "RATE_LIMIT".to_owned(),
            400 if error.says(CONTEXT) => "CONTEXT_WINDOW_EXCEEDED".to_owned(),
            400 => "INVALID_REQUEST".to_owned(),
            500.. => "SERVER".to_owned(),
            _ => format!("HTTP_{status}"),
        };
        let message =
            error.message.unwrap_or_else(|| format!("DeepSeek API error (HTTP {status})"));
        LlmFailure {
            message,
            code,
            status: Some(status),
            provider_retry_after_ms: retry_after_ms,
            request_id: None,
        }
    }

    /// Takes the key out of a message: some servers repeat what they refuse.
    pub(super) fn redact(&self, mut failure: LlmFailure) -> LlmFailure {
        if let Some(key) = self.key.as_ref().map(Key::reveal)
            && key.len() >= SECRET_BYTES_MIN
        {
            failure.message = failure.message.replace(key, "<key>");
            failure.request_id = failure.request_id.map(|id| id.replace(key, "<key>"));
        }
        failure
    }
}

/// A failure told inside the stream. The request had been accepted, so what no word explains is the
/// server's fault.
pub(super) fn in_stream(error: &Value) -> LlmFailure {
    let error = Error::read(error);
    let code = if error.says(QUOTA) {
        "QUOTA"
    } else if error.says(CONTEXT) {
        "CONTEXT_WINDOW_EXCEEDED"
    } else if error.kind_says(&["rate limit", "too many requests"]) || error.code_is(429) {
        "RATE_LIMIT"
    } else if error.kind_says(&["authentication", "invalid api key"]) || error.code_is(401) {
        "AUTH"
    } else if error.kind_says(&["invalid request"]) || error.code_is(400) {
        "INVALID_REQUEST"
    } else {
        "SERVER"
    };
    LlmFailure::new(
        code,
        error.message.unwrap_or_else(|| "DeepSeek API error in the stream".to_owned()),
    )
}

/// A payload that cannot be read.
pub(super) fn malformed(payload: &str) -> LlmFailure {
    let start: String = payload.chars().take(120).collect();
    LlmFailure::new("MALFORMED_RESPONSE", format!("malformed SSE payload: {start}"))
}

/// A bound was crossed. Trying again would meet it again, so the code is one that is not retried.
pub(super) fn too_large(what: &str, bytes_max: usize) -> LlmFailure {
    LlmFailure::new(
        "MALFORMED_RESPONSE",
        format!("{what} of the response has more than {bytes_max} bytes"),
    )
}

/// Seconds or an HTTP date; only what lies ahead counts.
pub(super) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().ok()?)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?
    };
    u64::try_from(wait.as_millis()).ok().filter(|ms| *ms > 0)
}

/// What to quote when asking the provider about a call.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-request-id", "x-deepseek-request-id"]
        .into_iter()
        .filter_map(|name| headers.get(name)?.to_str().ok())
        .find(|id| !id.is_empty())
        .map(|id| id.chars().take(MESSAGE_CHARS_MAX).collect())
}

/// An error with everything below it, for the log.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// The `error` member of a body or a payload: an object as documented, or just a sentence.
#[derive(Default)]
struct Error {
    message: Option<String>,
    /// `code` and `type`, read as in [`plain`].
    kind: String,
    number: Option<u64>,
}

impl Error {
    fn read(error: &Value) -> Error {
        let text = |object: &Map<String, Value>, name: &str| {
            object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (message, kind, number) = match error {
            Value::String(message) => (message.clone(), String::new(), None),
            Value::Object(object) => (
                text(object, "message"),
                plain(&format!("{}\n{}", text(object, "code"), text(object, "type"))),
                object.get("code").and_then(Value::as_u64),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Error::default();
            }
        };
        let message = Some(message).filter(|message| !message.is_empty());
        Error { message: message.map(|message| clip(&message)), kind, number }
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = plain(self.message.as_deref().unwrap_or_default());
        self.kind_says(phrases) || phrases.iter().any(|phrase| message.contains(phrase))
    }

    fn kind_says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.kind.contains(phrase))
    }

    fn code_is(&self, status: u64) -> bool {
        self.number == Some(status)
    }
}

fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], " ")
}

fn clip(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", message.get(..at).unwrap_or_default()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
