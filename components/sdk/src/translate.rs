//! From the wire to frames and back, without state: members checked, bodies built around untouched text.
//! When something may be said is left to `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{Excess, Frame, FrameKind, Framing, Manifest, Outputs, Skipped};

pub(crate) use transom_guest::jsonrpc::members;

use crate::{
    json::{Reader, push_text},
    message::{Params, RequestId, string},
    state::STATE_FORMAT,
};

/// Bytes of a text that is kept or repeated: ids of requests and sessions.
///
/// Published clients use at most 44; a bound keeps the memory of a connection proportional to its counts.
pub(crate) const ID_BYTES_MAX: usize = 1024;

/// Bytes of `cwd`, `provider`, `model` and `reasoningEffort`: as much as a path may have on Linux.
pub(crate) const MEMBER_BYTES_MAX: usize = 4096;

/// Result of `initialize` (S-41).
pub(crate) const SERVER_INFO: &str =
    r#"{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}"#;

pub(crate) const NOT_INITIALIZED: &str = "SDK server is not initialized";
pub(crate) const SHUTTING_DOWN: &str = "SDK server is shutting down";
const NO_STORE: &str = "SDK image prompt requires an attachment store";
const TEARDOWN_FAILED: &str = "SDK server teardown failed";
const MAX_TOKENS: &str = "initialize maxTokens must be a positive safe integer";
const REASONING_EFFORT: &str = "initialize reasoningEffort must be a non-empty string";

/// The largest integer that every double below it can express: 2^53 - 1.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// What a successful `initialize` fixes for later sessions (S-46).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// Absolute.
    pub(crate) cwd: Box<str>,
    /// `Route` of the frame language, as JSON text.
    pub(crate) route: Box<str>,
}

/// Checks the members of `initialize`, `maxTokens` first (S-42, S-43, S-49).
pub(crate) fn handshake(params: &Params<'_>, directory: &str) -> Result<Handshake, String> {
    let max_tokens = match params.max_tokens {
        None => None,
        Some(raw) => Some(positive_safe_integer(raw).ok_or(MAX_TOKENS)?),
    };
    let cwd = member("cwd", params.cwd)?;
    let provider = member("provider", params.provider)?;
    let model = member("model", params.model)?;

    let mut route = String::from("{\"provider\":");
    push_text(&mut route, &provider);
    route.push_str(",\"model\":");
    push_text(&mut route, &model);
    if let Some(max_tokens) = max_tokens {
        route.push_str(",\"maxTokens\":");
        route.push_str(&max_tokens.to_string());
    }
    if params.reasoning_effort.is_some() {
        let effort = string(params.reasoning_effort)
            .filter(|effort| !effort.is_empty())
            .ok_or(REASONING_EFFORT)?;
        within("initialize reasoningEffort", &effort, MEMBER_BYTES_MAX)?;
        route.push_str(",\"reasoningEffort\":");
        push_text(&mut route, &effort);
    }
    route.push('}');
    Ok(Handshake { cwd: absolute(directory, &cwd).into(), route: route.into() })
}

fn member(name: &str, value: Option<&str>) -> Result<String, String> {
    let Some(text) = string(value) else {
        return Err(format!("initialize {name} must be a string"));
    };
    within(&format!("initialize {name}"), &text, MEMBER_BYTES_MAX)?;
    Ok(text.into_owned())
}

fn positive_safe_integer(raw: &str) -> Option<u64> {
    // Strings and other kinds do not parse; what parses is a JSON number, for `raw` is JSON.
    let number = raw.parse::<f64>().ok()?;
    let fits = number.fract() == 0.0 && (1.0..=SAFE_INTEGER_MAX).contains(&number);
    fits.then_some(number as u64)
}

/// Refuses a text that is longer than what is kept.
pub(crate) fn within(what: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    if text.len() > bytes_max {
        return Err(format!("{what} is longer than {bytes_max} bytes"));
    }
    Ok(())
}

/// The non-empty session id of a request, or `refusal`.
pub(crate) fn session_id<'a>(params: &Params<'a>, refusal: &str) -> Result<Cow<'a, str>, String> {
    let id = string(params.session_id).filter(|id| !id.is_empty()).ok_or(refusal)?;
    within("sessionId", &id, ID_BYTES_MAX)?;
    Ok(id)
}

/// `path` against `base`, without looking at the disk (S-43): `.` and `..` and repeated slashes go.
pub(crate) fn absolute(base: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { base };
    let mut steps = Vec::new();
    for step in base.split('/').chain(path.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// Body of `session/open` for an id that the client chose and nobody may have used (S-120, S-123).
pub(crate) fn open_new(handshake: &Handshake) -> String {
    let mut body = String::from(r#"{"want":"new","owner":"connection","cwd":"#);
    push_text(&mut body, &handshake.cwd);
    body.push_str(",\"route\":");
    body.push_str(&handshake.route);
    body.push('}');
    body
}

/// Body of `session/open` for a stored session, which keeps its directory (S-61).
pub(crate) fn open_stored(handshake: &Handshake) -> String {
    format!(r#"{{"want":"stored","owner":"connection","route":{}}}"#, handshake.route)
}

/// Body of `session/prompt` around untouched blocks (S-52).
pub(crate) fn prompt(blocks: &str) -> String {
    concat(&["{\"content\":", blocks, "}"])
}

/// Body of `session/directory`: get, or set to `path`, which the host resolves (S-63).
pub(crate) fn directory(path: Option<&str>) -> String {
    match path {
        None => "{}".to_owned(),
        Some(path) => {
            let mut body = String::from("{\"set\":");
            push_text(&mut body, path);
            body.push('}');
            body
        }
    }
}

/// `{"jsonrpc","id","result"}` (S-31).
pub(crate) fn result(id: &RequestId, result: &str) -> String {
    concat(&["{\"jsonrpc\":\"2.0\",\"id\":", &id.0, ",\"result\":", result, "}"])
}

/// The result that holds one member of a reply, by the same name.
pub(crate) fn result_member(id: &RequestId, name: &str, reply: &str) -> String {
    match find(reply, name) {
        Some(value) => result(id, &concat(&["{\"", name, "\":", value, "}"])),
        None => error(id, &format!("the host's reply lacks {name}")),
    }
}

/// `{"jsonrpc","id","error":{"code","message"}}`, never with `data` (S-20).
pub(crate) fn error(id: &RequestId, message: &str) -> String {
    let mut unit = concat(&[
        "{\"jsonrpc\":\"2.0\",\"id\":",
        &id.0,
        ",\"error\":{\"code\":-32603,\"message\":",
    ]);
    push_text(&mut unit, message);
    unit.push_str("}}");
    unit
}

/// What a notice says on this wire; `None`: nothing.
pub(crate) fn notification(frame: &Frame, max_tokens_as_success: bool) -> Option<String> {
    let session = frame.session.as_deref()?;
    match frame.name.as_str() {
        "session/event" => Some(session_event(session, &frame.body)),
        "session/status" => session_status(session, &frame.body),
        "session/added" => subagent_started(session, &frame.body),
        "subagent/finished" => subagent_finished(session, &frame.body, max_tokens_as_success),
        _ => None,
    }
}

/// The envelope is passed on as it is (S-68), but for a mark that clients of the baseline do not know.
fn session_event(session: &str, event: &str) -> String {
    let event = &*unmarked(event);
    const HEAD: &str =
        "{\"jsonrpc\":\"2.0\",\"method\":\"session.event\",\"params\":{\"sessionId\":";
    const MIDDLE: &str = ",\"event\":";
    // Most ids need no escape, and if one does the text grows once.
    let mut unit =
        String::with_capacity(HEAD.len() + session.len() + 2 + MIDDLE.len() + event.len() + 2);
    unit.push_str(HEAD);
    push_text(&mut unit, session);
    unit.push_str(MIDDLE);
    unit.push_str(event);
    unit.push_str("}}");
    unit
}

/// An answer without the mark that a cancel has cut it (decision 42). The host writes the mark last in the message's
/// source, and in no other text can an unescaped quotation mark stand before a name.
fn unmarked(event: &str) -> Cow<'_, str> {
    const MARK: &str = ",\"partial\":true}";
    match event.find(MARK) {
        Some(at) if event.starts_with("{\"type\":\"assistant/message\"") => {
            let (before, after) = event.split_at(at);
            Cow::Owned(concat(&[before, "}", after.get(MARK.len()..).unwrap_or_default()]))
        }
        _ => Cow::Borrowed(event),
    }
}

fn session_status(session: &str, body: &str) -> Option<String> {
    let status = find(body, "status")?;
    let mut unit = String::from(
        "{\"jsonrpc\":\"2.0\",\"method\":\"session.status\",\"params\":{\"sessionId\":",
    );
    push_text(&mut unit, session);
    unit.push_str(",\"status\":");
    unit.push_str(status);
    unit.push_str("}}");
    Some(unit)
}

/// Only sessions with a parent are announced, whatever created them (S-71).
fn subagent_started(session: &str, body: &str) -> Option<String> {
    let parent = string(find(body, "parentSessionId"))?;
    let mut unit = String::from(
        "{\"jsonrpc\":\"2.0\",\"method\":\"subagent.started\",\"params\":{\"parentSessionId\":",
    );
    push_text(&mut unit, &parent);
    unit.push_str(",\"childSessionId\":");
    push_text(&mut unit, session);
    unit.push_str("}}");
    Some(unit)
}

/// Only local runs are reported (S-73); the frame's session is the delegating one (S-74).
fn subagent_finished(parent: &str, body: &str, max_tokens_as_success: bool) -> Option<String> {
    let [local, provider, agent, child, stop_reason, message] = members(
        body,
        ["local", "provider", "agentId", "childSessionId", "stopReason", "lastAssistantMessage"],
    )?;
    if local? != "true" {
        return None;
    }
    let stop_reason = stop_reason?;
    let ok = match stop_reason {
        "\"completed\"" => true,
        "\"max-tokens\"" => max_tokens_as_success,
        _ => false,
    };

    let mut unit = concat(&[
        "{\"jsonrpc\":\"2.0\",\"method\":\"subagent.finished\",\"params\":{\"provider\":",
        provider?,
        ",\"agentId\":",
        agent?,
        ",\"parentSessionId\":",
    ]);
    push_text(&mut unit, parent);
    unit.push_str(",\"childSessionId\":");
    unit.push_str(child?);
    unit.push_str(if ok {
        ",\"status\":\"ok\",\"stopReason\":"
    } else {
        ",\"status\":\"error\",\"stopReason\":"
    });
    unit.push_str(stop_reason);
    // Absent rather than empty (S-77).
    if let Some(message) = message.filter(|message| *message != "[]") {
        unit.push_str(",\"lastAssistantMessage\":");
        unit.push_str(message);
    }
    unit.push_str("}}");
    Some(unit)
}

/// A failure of the host, as far as this door reads it.
pub(crate) struct Refusal {
    code: String,
    message: String,
    /// What more the code says, where it does.
    reason: String,
    /// More than one thing could not be brought to an end.
    several: bool,
}

impl Refusal {
    /// Reads the body of a failure frame.
    pub(crate) fn read(body: &str) -> Refusal {
        let [code, message, details] =
            members(body, ["code", "message", "details"]).unwrap_or_default();
        let code = string(code).unwrap_or_default().into_owned();
        let message = match string(message) {
            Some(message) => message.into_owned(),
            None => format!("the host refused: {code}"),
        };
        let reason = string(details.and_then(|details| find(details, "reason")));
        let reason = reason.unwrap_or_default().into_owned();
        let several =
            details.and_then(|details| find(details, "failures")).is_some_and(|failures| {
                let mut count = 0;
                let mut reader = Reader::new(failures);
                reader.array(|reader| {
                    count += 1;
                    reader.value().map(drop)
                });
                count > 1
            });
        Refusal { code, message, reason, several }
    }

    /// Whether the session was disposed elsewhere (S-159).
    pub(crate) fn says_disposed(&self) -> bool {
        self.code == "session-disposed"
    }

    /// What a client is told about a request on a session.
    pub(crate) fn on_session(&self, session: &str) -> String {
        match self.code.as_str() {
            "session-disposed" => disposed(session),
            "session-exists" => format!("session \"{session}\" already exists"),
            "session-not-found" => format!("session \"{session}\" not found"),
            "session-live" => already_open(session),
            "shutting-down" => SHUTTING_DOWN.to_owned(),
            // S-58.
            "attachment-error" if self.reason == "NO_ATTACHMENT_STORE" => NO_STORE.to_owned(),
            _ => self.message.clone(),
        }
    }

    /// What a client is told about its `initialize`: the texts of S-44 and S-49 name what the client asked for,
    /// whatever the host made of it.
    pub(crate) fn on_handshake(&self, handshake: &Handshake) -> String {
        let [provider, model, effort] =
            members(&handshake.route, ["provider", "model", "reasoningEffort"]).unwrap_or_default();
        let [provider, model, effort] =
            [provider, model, effort].map(|value| string(value).unwrap_or_default());
        match self.code.as_str() {
            "no-adapter" => format!("no adapter registered for provider \"{provider}\""),
            "effort-unsupported" => {
                format!(
                    "provider \"{provider}\" model \"{model}\" does not support reasoning effort \"{effort}\""
                )
            }
            "shutting-down" => SHUTTING_DOWN.to_owned(),
            _ => self.message.clone(),
        }
    }

    /// What a client is told about its `shutdown` (S-126).
    pub(crate) fn on_shutdown(&self) -> &str {
        if self.several { TEARDOWN_FAILED } else { &self.message }
    }
}

/// S-159.
pub(crate) fn disposed(session: &str) -> String {
    format!("session agent was disposed outside the server: {session}")
}

/// S-61.
pub(crate) fn already_open(session: &str) -> String {
    format!("SDK session is already open or opening: {session}")
}

/// S-62.
pub(crate) fn unknown_session(session: &str) -> String {
    format!("unknown SDK session: {session}")
}

/// S-64.
pub(crate) fn unknown_method(method: &str) -> String {
    format!("unknown DeepSeek Harness SDK runtime method: {method}")
}

/// The answer to a request of the host: this door serves none.
pub(crate) fn unknown_frame(request: Frame) -> Frame {
    let mut body = String::from(
        r#"{"code":"unknown-frame","message":"the sdk door serves no requests","details":{"frame":"#,
    );
    push_text(&mut body, &request.name);
    body.push_str("}}");
    Frame { kind: FrameKind::Failure, body, ..request }
}

/// One member of an object.
pub(crate) fn find<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let [value] = members(object, [name])?;
    value
}

fn concat(parts: &[&str]) -> String {
    parts.concat()
}

/// What the codec says of itself.
pub(crate) fn manifest() -> Manifest {
    let sends = [
        "events/subscribe",
        "host/shutdown",
        "models/check",
        "session/directory",
        "session/open",
        "session/prompt",
        "session/wait",
    ];
    Manifest {
        protocol: "sdk".to_owned(),
        revisions: vec!["0.1.0rc6".to_owned(), "0.2.1rc2".to_owned()],
        framings: vec![Framing::Lines],
        sends: sends.map(str::to_owned).to_vec(),
        headers: Vec::new(),
        state_format: STATE_FORMAT,
        resumes: vec![STATE_FORMAT],
    }
}

/// For the log: a line that was dropped (S-9).
pub(crate) fn note_skipped(out: &mut Outputs, skipped: Skipped) {
    let why = match skipped.why {
        Excess::TooLong => "too-long",
        Excess::TooDeep => "too-deep",
    };
    out.note("unit-skipped", format!(r#"{{"why":"{why}","bytes":{}}}"#, skipped.bytes));
}
