//! Questions to the client whether one call of a tool may run, and its answers.
//! When one is put or withdrawn is left to `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::string,
};

use crate::{state::Permission, translate::members};

/// What `ask/opened` says of an approval. Others are not for this wire.
pub(crate) struct Approval<'a> {
    pub(crate) ask: Cow<'a, str>,
    pub(crate) approval: Cow<'a, str>,
    /// The session on top of the one that asks, where it works for another.
    pub(crate) root: Option<Cow<'a, str>>,
    call: Cow<'a, str>,
    tool: Option<Cow<'a, str>>,
    reason: Option<Cow<'a, str>>,
    arguments: Option<Cow<'a, str>>,
}

pub(crate) fn approval(body: &str) -> Option<Approval<'_>> {
    let names = [
        "kind",
        "askId",
        "approvalId",
        "rootSessionId",
        "callId",
        "toolName",
        "reason",
        "arguments",
    ];
    let [kind, ask, approval, root, call, tool, reason, arguments] = members(body, names)?;
    if string(kind)? != "approval" {
        return None;
    }
    Some(Approval {
        ask: string(ask)?,
        approval: string(approval)?,
        root: string(root),
        call: string(call)?,
        tool: string(tool),
        reason: string(reason),
        arguments: string(arguments),
    })
}

/// Of whom a permission is asked, and what its client knows.
pub(crate) struct Asked<'a> {
    pub(crate) id: u64,
    /// The client's session.
    pub(crate) session: &'a str,
    /// The session that asks, where it works for the client's.
    pub(crate) child: Option<&'a str>,
    /// A call that was announced has its status already.
    pub(crate) announced: bool,
}

/// `session/request_permission`, with a title and what else lets a person decide.
pub(crate) fn request_permission(
    &Asked { id, session, child, announced }: &Asked<'_>,
    approval: &Approval<'_>,
) -> String {
    let mut unit = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/request_permission\",\"params\":{{\"sessionId\":"
    );
    push_text(&mut unit, session);
    unit.push_str(",\"toolCall\":{\"toolCallId\":");
    push_text(&mut unit, &approval.call);
    if let Some(tool) = &approval.tool {
        unit.push_str(",\"title\":");
        push_text(&mut unit, tool);
        unit.push_str(",\"kind\":\"");
        unit.push_str(tool_kind(tool));
        unit.push('"');
    }
    if !announced {
        unit.push_str(",\"status\":\"pending\"");
    }
    if let Some(arguments) = &approval.arguments {
        unit.push_str(",\"rawInput\":");
        push_raw_input(&mut unit, arguments);
    }
    if let Some(reason) = &approval.reason {
        unit.push_str(
            ",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":",
        );
        push_text(&mut unit, reason);
        unit.push_str("}}]");
    }
    if let Some(child) = child {
        unit.push_str(",\"_meta\":{\"dsh/sessionId\":");
        push_text(&mut unit, child);
        unit.push('}');
    }
    unit.push_str(
        "},\"options\":[{\"optionId\":\"allow-once\",\"name\":\"Allow once\",\"kind\":\"allow_once\"},{\"optionId\":\"reject-once\",\"name\":\"Reject\",\"kind\":\"reject_once\"}]}}",
    );
    unit
}

/// What a model wrote as arguments: as JSON where it is, else as the text that it is. A line ends at a line feed, so
/// those of JSON, which stand between its values only, are left out.
pub(crate) fn push_raw_input(out: &mut String, arguments: &str) {
    let mut reader = Reader::new(arguments);
    let is_json = reader.value().is_some() && reader.at_end();
    if is_json && !reader.met_unpaired() {
        out.extend(arguments.split(['\n', '\r']));
    } else {
        push_text(out, arguments);
    }
}

/// The protocol's word for what a tool does.
pub(crate) fn tool_kind(tool: &str) -> &'static str {
    match tool {
        "bash" | "job_output" | "job_list" | "job_kill" => "execute",
        "read" | "read_image" => "read",
        "edit" | "write" | "str_replace_editor" => "edit",
        "glob" | "grep" => "search",
        "web_fetch" | "web_search" => "fetch",
        "todo_write" => "think",
        _ => "other",
    }
}

/// What a client decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    AllowedOnce,
    Rejected,
    Cancelled,
    Unavailable,
}

/// Reads the result of a permission request. Only the one choice grants; what cannot be read is no answer.
pub(crate) fn decision(result: Option<&str>) -> Decision {
    let outcome =
        result.and_then(|result| members(result, ["outcome"])).and_then(|[outcome]| outcome);
    let found = outcome.and_then(|outcome| members(outcome, ["outcome", "optionId"]));
    let Some([kind, option]) = found else { return Decision::Unavailable };
    match (string(kind).as_deref(), string(option).as_deref()) {
        (Some("selected"), Some("allow-once")) => Decision::AllowedOnce,
        (Some("selected"), Some(_)) => Decision::Rejected,
        (Some("cancelled"), _) => Decision::Cancelled,
        (Some(_) | None, _) => Decision::Unavailable,
    }
}

/// The frame that carries a decision: its name and body.
pub(crate) fn answer(decision: Decision, permission: &Permission) -> (&'static str, String) {
    let outcome = match decision {
        Decision::AllowedOnce => "allowed-once",
        Decision::Rejected => "rejected",
        Decision::Cancelled => return ("ask/settle", settle(&permission.ask, "cancelled")),
        Decision::Unavailable => return ("ask/settle", settle(&permission.ask, "unavailable")),
    };
    let mut body = String::from("{\"askId\":");
    push_text(&mut body, &permission.ask);
    body.push_str(",\"value\":{\"sessionId\":");
    push_text(&mut body, permission.child.as_ref().unwrap_or(&permission.session));
    body.push_str(",\"approvalId\":");
    push_text(&mut body, &permission.approval);
    body.push_str(",\"outcome\":\"");
    body.push_str(outcome);
    body.push_str("\"}}");
    ("ask/answer", body)
}

/// Body of `ask/settle`.
pub(crate) fn settle(ask: &str, outcome: &str) -> String {
    let mut body = String::from("{\"askId\":");
    push_text(&mut body, ask);
    body.push_str(",\"outcome\":\"");
    body.push_str(outcome);
    body.push_str("\"}");
    body
}
