//! From the wire to frames and back, without state: texts, bodies, what a notice says.
//! When something may be said is left to `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{
    Excess, Frame, FrameKind, Framing, Manifest, Outputs, Skipped,
    json::{Reader, push_text},
    jsonrpc::{RequestId, string},
};

pub(crate) use transom_guest::jsonrpc::members;

use crate::{
    choices::Selection,
    cursor,
    message::Bad,
    options::{Options, Surface},
    params::Issues,
    slot::{Ending, Fact, Outcome, Stop},
    state::{STATE_FORMAT, STATE_FORMATS},
};

/// Bytes of an id that is kept: published clients use at most 44, and a bound keeps the memory of a connection
/// proportional to its counts.
pub(crate) const ID_BYTES_MAX: usize = 1024;

/// Bytes of a path that is kept: as many as one may have on Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

pub(crate) const METHOD_NOT_FOUND: i32 = -32_601;
pub(crate) const INVALID_PARAMS: i32 = -32_602;
pub(crate) const INTERNAL_ERROR: i32 = -32_603;
pub(crate) const CANCELLED: i32 = -32_800;
const NOT_FOUND: i32 = -32_002;
const INVALID_REQUEST: i32 = -32_600;
const PARSE_ERROR: i32 = -32_700;

pub(crate) const IN_FLIGHT: &str = "Invalid params: a prompt is already in flight for this session";
pub(crate) const NOT_QUEUED_DISPOSED: &str =
    "Internal error: prompt was not queued: the agent was disposed outside the bridge";

/// What a request is answered with when it is refused (A-25).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// JSON text.
    pub(crate) data: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), data: None }
    }

    /// `Invalid params: <detail>`.
    pub(crate) fn params(detail: impl AsRef<str>) -> Refusal {
        Refusal::new(INVALID_PARAMS, concat(&["Invalid params: ", detail.as_ref()]))
    }

    /// A schema failure (A-24).
    pub(crate) fn schema(issues: &Issues) -> Refusal {
        Refusal { data: Some(issues.to_json()), ..Refusal::new(INVALID_PARAMS, "Invalid params") }
    }

    /// What nobody expected: the host's words as `data.details` (A-25).
    pub(crate) fn unexpected(details: &str) -> Refusal {
        let mut data = String::from("{\"details\":");
        push_text(&mut data, details);
        data.push('}');
        Refusal { data: Some(data), ..Refusal::new(INTERNAL_ERROR, "Internal error") }
    }

    pub(crate) fn unknown_session(session: &str) -> Refusal {
        Refusal::params(concat(&["unknown session: ", &shown(session)]))
    }

    /// Of a session that is not there (A-119).
    pub(crate) fn not_found(session: &str) -> Refusal {
        let mut data = String::from("{\"sessionId\":");
        push_text(&mut data, &shown(session));
        data.push('}');
        Refusal { data: Some(data), ..Refusal::new(NOT_FOUND, "Resource not found") }
    }

    /// A request that was under way when the connection ended (A-39).
    pub(crate) fn closed_during(method: &str) -> Refusal {
        let text = concat(&["Internal error: connection closed during ", method]);
        Refusal::new(INTERNAL_ERROR, text)
    }

    /// A-23. What nobody could have meant is not repeated at full length.
    pub(crate) fn unknown_method(method: &str) -> Refusal {
        let method = shown(method);
        let mut data = String::from("{\"method\":");
        push_text(&mut data, &method);
        data.push('}');
        let message = concat(&["\"Method not found\": ", &method]);
        Refusal { data: Some(data), ..Refusal::new(METHOD_NOT_FOUND, message) }
    }
}

/// A text of a client as far as it is repeated.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if text.len() <= PATH_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(PATH_BYTES_MAX);
    Cow::Owned(concat(&[text.get(..end).unwrap_or_default(), "…"]))
}

/// `{"jsonrpc","id","result"}`.
pub(crate) fn result(id: &RequestId, result: &str) -> String {
    concat(&["{\"jsonrpc\":\"2.0\",\"id\":", &id.0, ",\"result\":", result, "}"])
}

/// `{"jsonrpc","id","error"}`.
pub(crate) fn error(id: &RequestId, refusal: &Refusal) -> String {
    let code = refusal.code.to_string();
    let mut unit = concat(&[
        "{\"jsonrpc\":\"2.0\",\"id\":",
        &id.0,
        ",\"error\":{\"code\":",
        &code,
        ",\"message\":",
    ]);
    push_text(&mut unit, &refusal.message);
    if let Some(data) = &refusal.data {
        unit.push_str(",\"data\":");
        unit.push_str(data);
    }
    unit.push_str("}}");
    unit
}

/// The answer to a line that is none of the others; what it said is not repeated (A-11).
pub(crate) fn bad(bad: Bad) -> String {
    let refusal = match bad {
        Bad::NotJson => Refusal::new(PARSE_ERROR, "Parse error"),
        Bad::Batch => {
            Refusal::new(INVALID_REQUEST, "Invalid request: JSON-RPC batches are not supported")
        }
        Bad::Invalid => Refusal::new(INVALID_REQUEST, "Invalid request"),
    };
    error(&RequestId("null".into()), &refusal)
}

/// The answer to a line that was never seen, because it crossed a bound (A-21).
pub(crate) fn skipped(skipped: Skipped) -> String {
    let why = match skipped.why {
        Excess::TooLong => "is longer than a line may be",
        Excess::TooDeep => "is nested deeper than a line may be",
    };
    let message = format!("Invalid request: what has {} bytes {why}", skipped.bytes);
    error(&RequestId("null".into()), &Refusal::new(INVALID_REQUEST, message))
}

/// The answer to a request whose id is longer than what is kept.
pub(crate) fn long_id() -> String {
    let message = format!("Invalid request: the id is longer than {ID_BYTES_MAX} bytes");
    error(&RequestId("null".into()), &Refusal::new(INVALID_REQUEST, message))
}

/// The result of `initialize`: a constant of the deployment but for images (A-28, A-110). `mcpCapabilities` would say that
/// servers can be bridged.
pub(crate) fn agent(options: &Options, images: bool) -> String {
    let mut agent = String::from("{\"protocolVersion\":1,\"agentInfo\":{\"name\":");
    push_text(&mut agent, &options.agent_name);
    agent.push_str(",\"version\":");
    push_text(&mut agent, &options.agent_version);
    agent.push_str("},\"agentCapabilities\":{\"promptCapabilities\":{\"image\":");
    agent.push_str(if images { "true" } else { "false" });
    agent.push_str(",\"audio\":false,\"embeddedContext\":false}");
    if options.surface == Surface::Standard {
        agent.push_str(",\"sessionCapabilities\":{\"close\":{},\"list\":{},\"resume\":{}}");
    }
    agent.push_str("},\"authMethods\":[]}");
    agent
}

/// The answer to a prompt (A-67, A-69, A-77).
pub(crate) fn outcome(id: &RequestId, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Stopped(Stop::EndTurn) => result(id, "{\"stopReason\":\"end_turn\"}"),
        Outcome::Stopped(Stop::Cancelled) => result(id, "{\"stopReason\":\"cancelled\"}"),
        Outcome::Stopped(Stop::MaxTokens) => result(id, "{\"stopReason\":\"max_tokens\"}"),
        Outcome::Undelivered(why) => {
            let message = concat(&["Internal error: assistant output delivery failed: ", why]);
            error(id, &Refusal::new(INTERNAL_ERROR, message))
        }
        Outcome::Failed(why) => {
            let message = concat(&["Internal error: turn failed: ", why]);
            error(id, &Refusal::new(INTERNAL_ERROR, message))
        }
    }
}

/// Body of `session/open`: a fresh session of this connection, under an id of the host (A-37).
pub(crate) fn open(cwd: &str, options: &Options) -> String {
    let mut body = String::from(r#"{"want":"new","mint":"uuid","owner":"connection","#);
    body.push_str(kept(options));
    push_text(&mut body, cwd);
    if options.provider.is_some() || options.model.is_some() {
        body.push_str(",\"route\":");
        body.push_str(&route(options));
    }
    body.push('}');
    body
}

/// Body of `session/open` for a stored session: not one that was delegated, and the one that works there. It goes on with
/// the model that it used last (A-118).
pub(crate) fn reopen(cwd: &str, options: &Options) -> String {
    let mut body = String::from(r#"{"want":"stored","roots":true,"owner":"connection","#);
    body.push_str(kept(options));
    push_text(&mut body, cwd);
    body.push('}');
    body
}

/// What becomes of an answer that is cut: only the standard surface shows it (A-53, A-126). Before the directory.
fn kept(options: &Options) -> &'static str {
    match options.surface {
        Surface::Automation => "\"cwd\":",
        Surface::Standard => "\"partial\":\"commit\",\"cwd\":",
    }
}

/// What the operator says of the route, as JSON text; also the body of `models/check`.
pub(crate) fn route(options: &Options) -> String {
    let mut route = String::from("{");
    for (name, value) in [("provider", &options.provider), ("model", &options.model)] {
        let Some(value) = value else { continue };
        route.push_str(if route.len() > 1 { ",\"" } else { "\"" });
        route.push_str(name);
        route.push_str("\":");
        push_text(&mut route, value);
    }
    route.push('}');
    route
}

/// Body of `session/prompt`: one message (A-44), with the route that the client has chosen (A-113).
pub(crate) fn prompt(content: &str, selection: Option<&Selection>) -> String {
    match selection.filter(|selection| selection.chosen) {
        None => concat(&["{\"content\":", content, "}"]),
        Some(chosen) => concat(&["{\"content\":", content, ",\"route\":", &chosen.route(), "}"]),
    }
}

/// Whether the reply to `models/check` says that the model takes images.
pub(crate) fn takes_images(reply: &str) -> bool {
    members(reply, ["images"]).is_some_and(|[images]| images == Some("true"))
}

/// Why images are not kept: the words of A-128 and A-129, else those of the host.
pub(crate) fn image_refusal(
    failure: &str,
    message: &str,
    selection: Option<&Selection>,
) -> Refusal {
    let details = members(failure, ["details"]).and_then(|[details]| details);
    let reason = details.and_then(|details| text_of(details, "reason"));
    if let (Some("MODEL_DOES_NOT_SUPPORT_IMAGES"), Some(Selection { model, .. })) =
        (reason.as_deref(), selection)
    {
        return Refusal::params(format!("model \"{model}\" does not declare image input"));
    }
    Refusal::params(match reason.as_deref() {
        Some("INVALID_IMAGE") => "Unsupported or malformed image data.",
        Some("IMAGE_TYPE_MISMATCH") => "Declared image type does not match its bytes.",
        Some(_) | None => message,
    })
}

/// The result of `session/new` (A-37).
pub(crate) fn session(id: &str) -> String {
    let mut body = String::from("{\"sessionId\":");
    push_text(&mut body, id);
    body.push('}');
    body
}

/// Body of `session/list`: what nobody has open and nobody has delegated, newest first (A-117).
pub(crate) fn list(limit: u64, cwd: Option<&str>, behind: Option<(u64, String)>) -> String {
    let mut body =
        format!(r#"{{"live":false,"stored":true,"roots":true,"order":"created","limit":{limit}"#);
    if let Some(cwd) = cwd {
        body.push_str(",\"cwd\":");
        push_text(&mut body, cwd);
    }
    if let Some((created_at, id)) = behind {
        body.push_str(",\"cursor\":");
        push_text(&mut body, &format!("{created_at}:{id}"));
    }
    body.push('}');
    body
}

/// The result of `session/list`, from the host's rows. A session that works nowhere is no client's.
pub(crate) fn sessions(reply: &str) -> String {
    let [rows, more] = members(reply, ["items", "cursor"]).unwrap_or_default();
    let mut result = String::from("{\"sessions\":[");
    let (mut first, mut last) = (true, None);
    Reader::new(rows.unwrap_or_default()).array(|reader| {
        let names = ["sessionId", "cwd", "title", "updatedAt", "createdAt"];
        let [id, cwd, title, updated, created] =
            members(reader.value()?, names).unwrap_or_default();
        last = id.zip(number(created));
        let (Some(id), Some(path)) = (id, string(cwd)) else { return Some(()) };
        if !path.starts_with('/') {
            return Some(());
        }
        result.push_str(if first { "{\"sessionId\":" } else { ",{\"sessionId\":" });
        first = false;
        result.push_str(id);
        result.push_str(",\"cwd\":");
        push_text(&mut result, &path);
        if let Some(title) = string(title) {
            result.push_str(",\"title\":");
            push_text(&mut result, &title);
        }
        if let Some(updated) = number(updated) {
            result.push_str(",\"updatedAt\":");
            push_text(&mut result, &cursor::rfc3339(updated));
        }
        result.push('}');
        Some(())
    });
    result.push(']');
    if let (Some(_), Some((id, created))) = (more, last) {
        result.push_str(",\"nextCursor\":");
        push_text(&mut result, &cursor::cursor(created, &string(Some(id)).unwrap_or_default()));
    }
    result.push('}');
    result
}

/// Body of `attachment/read`.
pub(crate) fn attachment(name: &str) -> String {
    let mut body = String::from("{\"attachmentId\":");
    push_text(&mut body, name);
    body.push('}');
    body
}

/// Whether the row of a session says that its agent runs.
pub(crate) fn is_running(row: &str) -> bool {
    members(row, ["running"]).is_some_and(|[running]| running == Some("true"))
}

/// Body of `session/queue` that takes a waiting message back (A-83).
pub(crate) fn remove(message: &str) -> String {
    let mut body = String::from("{\"itemId\":");
    push_text(&mut body, message);
    body.push_str(",\"action\":{\"kind\":\"remove\"}}");
    body
}

/// The member of a reply or notice that is a text.
pub(crate) fn text_of<'a>(body: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let [value] = members(body, [name])?;
    string(value)
}

/// What a notice tells of the agent, as far as it can concern a prompt.
pub(crate) fn fact(name: &str, body: &str) -> Option<Fact> {
    match name {
        "inbox/claimed" => {
            let [turn, messages] = members(body, ["turn", "messageIds"])?;
            Some(Fact::Claimed { turn: number(turn)?, messages: texts(messages) })
        }
        "agent/error" => {
            let [message, messages] = members(body, ["message", "messageIds"])?;
            Some(Fact::Failed { message: string(message)?.into_owned(), messages: texts(messages) })
        }
        "session/status" => (text_of(body, "status")? == "idle").then_some(Fact::Rested),
        _ => None,
    }
}

/// An event, as far as it is looked at.
pub(crate) enum Event<'a> {
    /// A committed message of the model: its `data`.
    Message(&'a str),
    Fact(Fact),
}

pub(crate) fn event(body: &str) -> Option<Event<'_>> {
    let [kind, data] = members(body, ["type", "data"])?;
    let data = data?;
    match string(kind).as_deref()? {
        "assistant/message" => Some(Event::Message(data)),
        "turn/end" => {
            let [turn, reason] = members(data, ["turn", "reason"])?;
            Some(Event::Fact(Fact::Ended { turn: number(turn)?, ending: ending(reason?)? }))
        }
        _ => None,
    }
}

/// The table of A-67, as this surface has it.
pub(crate) fn ending(reason: &str) -> Option<Ending> {
    let [kind, error] = members(reason, ["kind", "error"])?;
    Some(match string(kind).as_deref()? {
        "error" => {
            let message = error.and_then(|error| text_of(error, "message")).unwrap_or_default();
            Ending::Failed(message.into_owned())
        }
        "interrupted" => Ending::Stopped(Stop::Cancelled),
        // `cancelled` is for the client's own cancel, and no other outcome is claimed here.
        _ => Ending::Stopped(Stop::EndTurn),
    })
}

/// The updates of a committed message, one for each block that has something to show (A-50, A-51), with the message's
/// id (A-54) and whose turn it came in (A-57).
pub(crate) fn updates(session: &str, data: &str, prompt_turn: Option<u64>) -> Vec<String> {
    let Some([turn, Some(message)]) = members(data, ["turn", "message"]) else { return Vec::new() };
    let Some([id, Some(content)]) = members(message, ["id", "content"]) else { return Vec::new() };
    let turn = number(turn);
    let mut chunks = Vec::new();
    Reader::new(content).array(|reader| {
        let block = reader.value()?;
        if let Some(text) = visible(block) {
            chunks.push(chunk(session, &text, id, turn, prompt_turn));
        }
        Some(())
    });
    chunks
}

/// What a block shows, as JSON text.
fn visible(block: &str) -> Option<Cow<'_, str>> {
    let [kind, text, attachment] = members(block, ["type", "text", "attachment"])?;
    match string(kind).as_deref()? {
        // Strings of the log are the host's own: they are passed on as they stand.
        "text" => text.filter(|text| *text != "\"\"").map(Cow::Borrowed),
        "image" => {
            let mut shown = String::new();
            let id = text_of(attachment?, "attachmentId")?;
            push_text(&mut shown, &concat(&["[image attachment ", &id, "]"]));
            Some(Cow::Owned(shown))
        }
        _ => None,
    }
}

fn chunk(
    session: &str,
    text: &str,
    message: Option<&str>,
    turn: Option<u64>,
    prompt_turn: Option<u64>,
) -> String {
    let mut unit = update_head(session);
    unit.push_str("{\"sessionUpdate\":\"agent_message_chunk\"");
    if let Some(message) = message {
        unit.push_str(",\"messageId\":");
        unit.push_str(message);
    }
    unit.push_str(",\"content\":{\"type\":\"text\",\"text\":");
    unit.push_str(text);
    unit.push('}');
    if let Some(turn) = turn {
        let origin = if prompt_turn == Some(turn) { "prompt" } else { "autonomous" };
        unit.push_str(&format!(",\"_meta\":{{\"dsh/turn\":{turn},\"dsh/origin\":\"{origin}\"}}"));
    }
    unit.push_str("}}}");
    unit
}

pub(crate) fn update_head(session: &str) -> String {
    let mut unit = String::from(
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":",
    );
    push_text(&mut unit, session);
    unit.push_str(",\"update\":");
    unit
}

/// A failure of the host: its code and its message.
pub(crate) fn failure(body: &str) -> (Cow<'_, str>, Cow<'_, str>) {
    let [code, message] = members(body, ["code", "message"]).unwrap_or_default();
    let code = string(code).unwrap_or_default();
    let message =
        string(message).unwrap_or_else(|| Cow::Owned(concat(&["the host refused: ", &code])));
    (code, message)
}

/// The answer to a request of the host: this door serves none.
pub(crate) fn unknown_frame(request: Frame) -> Frame {
    let mut body = String::from(
        r#"{"code":"unknown-frame","message":"the acp door serves no requests","details":{"frame":"#,
    );
    push_text(&mut body, &request.name);
    body.push_str("}}");
    Frame { kind: FrameKind::Failure, body, ..request }
}

/// For the log: a request that was refused, without what it said (A-22).
pub(crate) fn note_refused(out: &mut Outputs, method: &str, id: &RequestId, code: i32) {
    let mut note = String::from("{\"method\":");
    push_text(&mut note, &shown(method));
    note.push_str(&format!(",\"id\":{},\"code\":{code}}}", id.0));
    out.note("request-refused", note);
}

pub(crate) fn number(value: Option<&str>) -> Option<u64> {
    value?.parse().ok()
}

/// The texts of a list.
fn texts(list: Option<&str>) -> Vec<Box<str>> {
    let mut found = Vec::new();
    Reader::new(list.unwrap_or_default()).array(|reader| {
        let value = reader.value()?;
        found.extend(string(Some(value)).map(Box::from));
        Some(())
    });
    found
}

pub(crate) fn concat(parts: &[&str]) -> String {
    parts.concat()
}

/// What the codec says of itself.
pub(crate) fn manifest() -> Manifest {
    let sends = [
        "ask/answer",
        "ask/settle",
        "attachment/read",
        "events/subscribe",
        "models/check",
        "models/list",
        "session/cancel",
        "session/close",
        "session/describe",
        "session/list",
        "session/open",
        "session/prompt",
        "session/queue",
        "session/wait",
    ];
    Manifest {
        protocol: "acp".to_owned(),
        revisions: vec!["1".to_owned()],
        framings: vec![Framing::Lines],
        sends: sends.map(str::to_owned).to_vec(),
        headers: Vec::new(),
        state_format: STATE_FORMAT,
        resumes: STATE_FORMATS.to_vec(),
    }
}
