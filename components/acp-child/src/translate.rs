//! From the wire to frames and back, without state: texts and bodies. When something may be said is left to
//! `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{
    Frame, FrameKind, Framing, Manifest, Outputs,
    json::{Reader, push_text},
    jsonrpc::{RequestId, string},
};

use crate::{
    failure::{Failure, Stage},
    message::{Refused, members},
    permission::Decision,
    state::STATE_FORMAT,
};

/// Bytes of an id that is echoed, and of a session's id. Published agents use at most some dozens.
pub(crate) const ID_BYTES_MAX: usize = 4096;

/// Bytes of the agent's own words in the host's log.
const WORDS_BYTES_MAX: usize = 1024;

const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_REQUEST: i32 = -32_600;

/// The numbers of this side's requests (A-148, A-152).
pub(crate) const INITIALIZE: u64 = 0;
pub(crate) const NEW_SESSION: u64 = 1;
pub(crate) const PROMPT: u64 = 2;

pub(crate) fn manifest() -> Manifest {
    Manifest {
        protocol: "acp-child".to_owned(),
        revisions: vec!["1".to_owned()],
        framings: vec![Framing::Lines],
        sends: vec!["agent/output".to_owned()],
        headers: Vec::new(),
        state_format: STATE_FORMAT,
        resumes: vec![STATE_FORMAT],
    }
}

/// No capability is offered: the agent has files and terminals of its own (A-162).
pub(crate) fn initialize() -> String {
    request(INITIALIZE, "initialize", r#"{"protocolVersion":1,"clientCapabilities":{}}"#)
}

pub(crate) fn new_session(cwd: &str) -> String {
    let mut params = String::from("{\"cwd\":");
    push_text(&mut params, cwd);
    params.push_str(",\"mcpServers\":[]}");
    request(NEW_SESSION, "session/new", &params)
}

/// The blocks are JSON text.
pub(crate) fn prompt(session: &str, blocks: &str) -> String {
    let mut params = String::from("{\"sessionId\":");
    push_text(&mut params, session);
    params.push_str(",\"prompt\":");
    params.push_str(blocks);
    params.push('}');
    request(PROMPT, "session/prompt", &params)
}

pub(crate) fn cancel(session: &str) -> String {
    let mut unit = String::from(
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":",
    );
    push_text(&mut unit, session);
    unit.push_str("}}");
    unit
}

fn request(id: u64, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
}

/// The answer to a request of the agent.
pub(crate) fn result(id: &RequestId, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", id.0)
}

/// The answer to a method that this side does not have. What nobody could have meant is not repeated at full length.
pub(crate) fn unknown_method(id: &RequestId, method: &str) -> String {
    let method = shortened(method, ID_BYTES_MAX);
    let mut unit = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{{\"code\":{METHOD_NOT_FOUND},\"message\":",
        id.0
    );
    push_text(&mut unit, &format!("\"Method not found\": {method}"));
    unit.push_str(",\"data\":{\"method\":");
    push_text(&mut unit, &method);
    unit.push_str("}}}");
    unit
}

/// The answer to a request whose id is longer than what is kept.
pub(crate) fn long_id() -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":{INVALID_REQUEST},\"message\":\"Invalid request: the id is longer than {ID_BYTES_MAX} bytes\"}}}}"
    )
}

/// The blocks of text among the content of `agent/prompt`, as the protocol has them; `None` where there are none (A-152).
pub(crate) fn text_blocks(content: &str) -> Option<String> {
    let mut blocks = String::from("[");
    Reader::new(content).array(|reader| {
        let block = reader.value()?;
        let [kind, text] = members(block, ["type", "text"]).unwrap_or_default();
        if string(kind).as_deref() == Some("text")
            && let Some(text) = string(text)
        {
            blocks.push_str(if blocks.len() > 1 { ",{" } else { "{" });
            blocks.push_str("\"type\":\"text\",\"text\":");
            push_text(&mut blocks, &text);
            blocks.push('}');
        }
        Some(())
    })?;
    let has_some = blocks.len() > 1;
    blocks.push(']');
    has_some.then_some(blocks)
}

/// What an update means for the answer.
pub(crate) enum Update<'a> {
    /// A piece of a message, and the id of the message.
    Text(Cow<'a, str>, Option<Cow<'a, str>>),
    /// The agent used a tool: what it says next is another message.
    Tool,
    /// Nothing (A-153).
    Other,
}

/// Of which session an update is, and what it means.
pub(crate) fn update(params: &str) -> Option<(Cow<'_, str>, Update<'_>)> {
    let [session, update] = members(params, ["sessionId", "update"])?;
    let [kind, content, message] = members(update?, ["sessionUpdate", "content", "messageId"])?;
    let update = match string(kind).as_deref()? {
        "agent_message_chunk" => {
            let [kind, text] = members(content?, ["type", "text"])?;
            match (string(kind).as_deref(), string(text)) {
                (Some("text"), Some(text)) => Update::Text(text, string(message)),
                (Some(_) | None, _) => Update::Other,
            }
        }
        "tool_call" | "tool_call_update" => Update::Tool,
        _ => Update::Other,
    };
    Some((string(session)?, update))
}

/// How an agent's turn came out.
pub(crate) enum Ended {
    /// The word of the frame.
    Well(&'static str),
    Badly(Failure),
}

/// The table of A-154.
pub(crate) fn ended(result: &str) -> Ended {
    let reason = members(result, ["stopReason"]).and_then(|[reason]| string(reason));
    match reason.as_deref() {
        Some("end_turn") => Ended::Well("completed"),
        Some("max_tokens") => Ended::Well("max-tokens"),
        Some("refusal") => Ended::Well("refusal"),
        Some("cancelled") => Ended::Well("aborted"),
        Some("max_turn_requests") => Ended::Badly(Failure::limit()),
        Some(_) => Ended::Badly(Failure::stop_reason()),
        None => Ended::Badly(Failure::malformed(Stage::Prompt)),
    }
}

/// The body of the reply to `agent/prompt`. `blocks` is JSON text.
pub(crate) fn outcome(
    blocks: &str,
    stop_reason: &str,
    failure: Option<&Failure>,
    decision: Option<Decision>,
) -> String {
    let mut body = String::from("{\"output\":");
    body.push_str(blocks);
    body.push_str(",\"stopReason\":\"");
    body.push_str(stop_reason);
    body.push('"');
    let decision =
        decision.map(|decision| format!("last permission decision: {}", decision.as_str()));
    let message = failure.map(|failure| failure.message.clone());
    let parts: Vec<String> = message.into_iter().chain(decision).collect();
    if !parts.is_empty() {
        body.push_str(",\"diagnostic\":");
        push_text(&mut body, &parts.join("; "));
    }
    if let Some(failure) = failure {
        body.push(',');
        failure.push_place(&mut body);
    }
    body.push('}');
    body
}

/// `agent/output`: a piece of text as it came, and whether it begins another message.
pub(crate) fn output(text: &str, begins: bool) -> String {
    let mut body = String::from("{\"text\":");
    push_text(&mut body, text);
    body.push_str(if begins { ",\"begins\":true}" } else { "}" });
    body
}

/// The member of a body that is a text.
pub(crate) fn text_of<'a>(body: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let [value] = members(body, [name])?;
    string(value)
}

/// The raw member of a body.
pub(crate) fn member<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let [value] = members(body, [name])?;
    value
}

/// A failure of a frame that cannot be obeyed.
pub(crate) fn invalid(request: &Frame, issue: &str) -> Frame {
    let mut body = String::from("{\"code\":\"invalid\",\"message\":");
    push_text(&mut body, issue);
    body.push_str(",\"details\":{\"issues\":[");
    push_text(&mut body, issue);
    body.push_str("]}}");
    Frame::failure(request, body)
}

/// The answer to a request that this door does not serve.
pub(crate) fn unknown_frame(request: Frame) -> Frame {
    let mut body = String::from(
        r#"{"code":"unknown-frame","message":"acp-child serves agent/start and agent/prompt","details":{"frame":"#,
    );
    push_text(&mut body, &request.name);
    body.push_str("}}");
    Frame { kind: FrameKind::Failure, body, ..request }
}

/// For the log: the agent's own words about a failure, which are shown to nobody else.
pub(crate) fn note_refused(out: &mut Outputs, stage: Stage, refused: &Refused<'_>) {
    let mut note =
        format!("{{\"stage\":\"{}\",\"code\":{},\"message\":", stage.as_str(), refused.code);
    push_text(&mut note, &shortened(&refused.message, WORDS_BYTES_MAX));
    note.push('}');
    out.note("agent-error", note);
}

/// For the log: a question of the agent and what it was answered, without what it was about.
pub(crate) fn note_decision(out: &mut Outputs, decision: Decision) {
    out.note("permission-answered", format!("{{\"decision\":\"{}\"}}", decision.as_str()));
}

fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes_max);
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}
