//! How calls of the chat-completions API fail, in the loop's words (L-93, L-94). Whether to try
//! again is the loop's to decide.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::{Map, Value};
use transom_harness::chunk::LlmFailure;

use crate::deepseek::credentials::{Endpoint, Key};

/// Longest message taken from a peer. Messages are logged, stored and shown.
const MESSAGE_CHARS_MAX: usize = 4096;

/// Longest code made of a peer's word, and longest word of a peer inside of a sentence.
const WORD_CHARS_MAX: usize = 64;

/// How much of a payload that cannot be read is shown (L-93).
const PAYLOAD_CHARS_MAX: usize = 120;

/// Longest wait a peer can ask for: beyond this numbers are no numbers to the clients of the log.
const RETRY_AFTER_MS_MAX: u64 = (1 << 53) - 1;

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

    /// The body is packed in a way that was not asked for, so nothing in it can be read.
    pub(super) fn encoded(&self, encoding: &str) -> LlmFailure {
        let encoding = clip(&self.hide(encoding), WORD_CHARS_MAX);
        LlmFailure::new(
            "MALFORMED_RESPONSE",
            format!(
                "the response has the content encoding \"{encoding}\", which was not asked for"
            ),
        )
    }

    /// The response is a refusal.
    pub(super) fn refused(
        &self,
        status: u16,
        body: &[u8],
        retry_after_ms: Option<u64>,
    ) -> LlmFailure {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = body.get("error").map(|error| self.error(error)).unwrap_or_default();
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

    /// A failure told inside the stream. The request had been accepted, so what no word explains is
    /// the server's fault.
    pub(super) fn told(&self, error: &Value) -> LlmFailure {
        let error = self.error(error);
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

    /// The answer ended for a reason that is neither its own end nor the output cap (L-92).
    pub(super) fn stopped(&self, reason: &str) -> LlmFailure {
        let reason = self.hide(reason);
        LlmFailure::new(
            &clip(&reason, WORD_CHARS_MAX).to_uppercase(),
            format!("model stopped: {}", clip(&reason, MESSAGE_CHARS_MAX)),
        )
    }

    /// A payload that cannot be read.
    pub(super) fn malformed(&self, payload: &str) -> LlmFailure {
        let start: String = self.hide(payload).chars().take(PAYLOAD_CHARS_MAX).collect();
        LlmFailure::new("MALFORMED_RESPONSE", format!("malformed SSE payload: {start}"))
    }

    /// Two calls with one id would have results that cannot be told apart, in every later request too.
    pub(super) fn shared_id(&self, id: &str) -> LlmFailure {
        let id = clip(&self.hide(id), WORD_CHARS_MAX);
        LlmFailure::new(
            "MALFORMED_RESPONSE",
            format!("two tool calls of the response have the id \"{id}\""),
        )
    }

    /// A bound was crossed.
    pub(super) fn crossed(&self, bound: Bound) -> LlmFailure {
        let message = match bound {
            Bound::Event(max) => format!("one event of the response has more than {max} bytes"),
            Bound::Values(max) => format!("one event of the response has more than {max} values"),
            Bound::Answer(max) => format!("the answer of the response has more than {max} bytes"),
            Bound::Calls(max) => {
                format!("the answer of the response has more than {max} tool calls")
            }
        };
        // Trying again would meet it again, so the code is one that is not retried.
        LlmFailure::new("MALFORMED_RESPONSE", message)
    }

    /// What to quote when asking the provider about a call.
    pub(super) fn request_id(&self, headers: &HeaderMap) -> Option<String> {
        ["x-request-id", "x-deepseek-request-id"]
            .into_iter()
            .filter_map(|name| headers.get(name)?.to_str().ok())
            .find(|id| !id.is_empty())
            .map(|id| clip(&self.hide(id), MESSAGE_CHARS_MAX))
    }

    /// Takes the key out of a peer's text: some servers repeat what they refuse. Comes before any cut,
    /// which could leave a half of the key standing.
    pub(super) fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.key.as_ref().map(Key::reveal) {
            Some(key) if key.len() >= SECRET_BYTES_MIN && text.contains(key) => {
                text.replace(key, "<key>").into()
            }
            _ => text.into(),
        }
    }

    /// The `error` member of a body or a payload: an object as documented, or just a sentence.
    fn error(&self, error: &Value) -> Error {
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
        let message = Some(clip(&self.hide(&message), MESSAGE_CHARS_MAX));
        Error { message: message.filter(|message| !message.is_empty()), kind, number }
    }
}

/// A bound that a response can cross.
pub(super) enum Bound {
    /// Bytes of one event.
    Event(usize),
    /// Values in the JSON of one event.
    Values(usize),
    /// Bytes of the answer.
    Answer(usize),
    /// Tool calls of the answer.
    Calls(usize),
}

/// Seconds or an HTTP date; only what lies ahead counts.
pub(super) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that are too many for a number still ask for a very long wait.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?
    };
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(RETRY_AFTER_MS_MAX);
    Some(ms).filter(|ms| *ms > 0)
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

/// What an `error` member says.
#[derive(Default)]
struct Error {
    message: Option<String>,
    /// `code` and `type`, read as in [`plain`].
    kind: String,
    number: Option<u64>,
}

impl Error {
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

fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
