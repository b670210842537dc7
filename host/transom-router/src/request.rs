//! Bodies of requests, parsed once into typed values (`frames.md`). What has the wrong shape is
//! refused with the member and what would be right.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use transom_frame::{Code, Failure, Frame};
use transom_harness::{
    agent::Partial,
    block::{Block, compact},
    ports::Route,
    vocabulary::text_safe,
};

/// A request of a door, typed.
#[derive(Debug)]
pub(crate) enum Request {
    HostDescribe,
    HostShutdown,
    SessionOpen(Open),
    SessionPrompt(Prompt),
    SessionCancel(Cancel),
    SessionWait { descendants: bool },
    SessionClose,
    SessionDescribe,
    SessionList(List),
    SessionRead(Read),
    SessionDirectory(Directory),
    SessionPermissions(Permissions),
    SessionQueue(Queue),
    SessionRename(Rename),
    SessionFork(Fork),
    AttachmentRead(AttachmentRead),
    AskAnswer(AskAnswer),
    AskSettle(AskSettle),
    ModelsCheck(Route),
    ModelsList,
    Subscribe(Subscribe),
    Unsubscribe(Unsubscribe),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) want: Want,
    pub(crate) mint: Option<Mint>,
    pub(crate) cwd: Option<String>,
    pub(crate) route: Option<Route>,
    #[serde(default)]
    pub(crate) owner: OwnerWish,
    /// What becomes of an answer that a cancel cuts (decision 42).
    pub(crate) partial: Option<Partial>,
    /// Refuses what another session has delegated.
    #[serde(default)]
    pub(crate) roots: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Want {
    New,
    Stored,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mint {
    Uuid,
    SessionUuid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OwnerWish {
    #[default]
    Connection,
    Host,
}

#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) content: Vec<Block>,
    pub(crate) mode: PromptMode,
    pub(crate) rpc_id: Option<String>,
    pub(crate) client_time_zone: Option<String>,
    /// Holds from its turn on (decision 48).
    pub(crate) route: Option<Route>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PromptMode {
    #[default]
    Queue,
    Steer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawPrompt<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default)]
    mode: PromptMode,
    source: Option<PromptSource>,
    route: Option<Route>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PromptSource {
    rpc_id: Option<String>,
    client_time_zone: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    pub(crate) inbox: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    Clear,
    Keep,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wait {
    #[serde(default)]
    descendants: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct List {
    pub(crate) live: Option<bool>,
    pub(crate) stored: Option<bool>,
    /// Leaves out what other sessions have delegated.
    #[serde(default)]
    pub(crate) roots: bool,
    /// Leaves out what works in another directory, by whatever path.
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) order: Order,
    /// Position to go on from, as the last answer gave it: `<time>:<id>` of its last row, which need not be there any
    /// more.
    pub(crate) cursor: Option<String>,
    pub(crate) limit: Option<usize>,
}

/// By which of its times a list of sessions is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    #[default]
    Updated,
    Created,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    pub(crate) from: u64,
    pub(crate) limit: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    pub(crate) set: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Permissions {
    /// Name of a preset.
    pub(crate) set: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) item_id: String,
    pub(crate) action: QueueAction,
}

#[derive(Debug)]
pub(crate) enum QueueAction {
    Edit { content: Vec<Block> },
    Remove,
    Steer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawQueue<'a> {
    item_id: String,
    #[serde(borrow)]
    action: RawAction<'a>,
}

/// Not a tagged enum, because content is kept to the letter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAction<'a> {
    kind: ActionKind,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionKind {
    Edit,
    Remove,
    Steer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    pub(crate) title: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    /// The cut is behind the first turn that ends at or after this; without it, behind the last.
    pub(crate) at_seq: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AttachmentRead {
    pub(crate) attachment_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AskAnswer {
    pub(crate) ask_id: String,
    #[serde(default)]
    pub(crate) value: Option<Value>,
    pub(crate) error: Option<AskError>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AskError {
    pub(crate) code: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AskSettle {
    pub(crate) ask_id: String,
    pub(crate) outcome: Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Settled {
    Cancelled,
    Unavailable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscribe {
    pub(crate) scope: Scope,
    pub(crate) topics: Vec<Topic>,
}

/// Which sessions a subscription is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scope {
    All,
    Owned,
    /// The session of the frame and its descendants.
    Tree,
    /// The session of the frame.
    Session,
    /// No session: only what concerns the host.
    Host,
}

/// What a subscription may be about in this version; others are refused by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Topic {
    Events,
    Status,
    Inbox,
    Sessions,
    Errors,
    Subagents,
    Asks,
    Jobs,
    Queue,
    Projections,
    Models,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unsubscribe {
    pub(crate) subscription: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

impl Request {
    pub(crate) fn parse(frame: &Frame) -> Result<Request, Failure> {
        Ok(match &*frame.name {
            "host/describe" => empty(frame, Request::HostDescribe)?,
            "host/shutdown" => empty(frame, Request::HostShutdown)?,
            "session/open" => Request::SessionOpen(body(frame)?),
            "session/prompt" => Request::SessionPrompt(prompt(frame)?),
            "session/cancel" => Request::SessionCancel(body(frame)?),
            "session/wait" => {
                let Wait { descendants } = body(frame)?;
                Request::SessionWait { descendants }
            }
            "session/close" => empty(frame, Request::SessionClose)?,
            "session/describe" => empty(frame, Request::SessionDescribe)?,
            "session/list" => Request::SessionList(body(frame)?),
            "session/read" => Request::SessionRead(body(frame)?),
            "session/directory" => Request::SessionDirectory(body(frame)?),
            "session/permissions" => Request::SessionPermissions(body(frame)?),
            "session/queue" => Request::SessionQueue(queue(frame)?),
            "session/rename" => Request::SessionRename(body(frame)?),
            "session/fork" => Request::SessionFork(body(frame)?),
            "attachment/read" => Request::AttachmentRead(body(frame)?),
            "ask/answer" => Request::AskAnswer(body(frame)?),
            "ask/settle" => Request::AskSettle(body(frame)?),
            "models/check" => Request::ModelsCheck(body(frame)?),
            "models/list" => empty(frame, Request::ModelsList)?,
            "events/subscribe" => Request::Subscribe(body(frame)?),
            "events/unsubscribe" => Request::Unsubscribe(body(frame)?),
            other => {
                let text = format!("the host has no frame \"{other}\"");
                return Err(Failure::new(Code::UnknownFrame, text).with("frame", other));
            }
        })
    }
}

fn body<'a, T: Deserialize<'a>>(frame: &'a Frame) -> Result<T, Failure> {
    serde_json::from_str(&frame.body)
        .map_err(|error| Failure::invalid(&[&format!("body of {}: {error}", frame.name)]))
}

fn empty(frame: &Frame, request: Request) -> Result<Request, Failure> {
    body::<Empty>(frame)?;
    Ok(request)
}

fn prompt(frame: &Frame) -> Result<Prompt, Failure> {
    let raw: RawPrompt<'_> = body(frame)?;
    let content = content(raw.content)?;
    let (rpc_id, client_time_zone) =
        raw.source.map_or((None, None), |source| (source.rpc_id, source.client_time_zone));
    Ok(Prompt { content, mode: raw.mode, rpc_id, client_time_zone, route: raw.route })
}

fn content(raw: &RawValue) -> Result<Vec<Block>, Failure> {
    // The insertion is the event that would carry it.
    text_safe("agent/inbox/spliced", raw.get())
        .map_err(|error| Failure::invalid(&[&error.to_string()]))?;
    serde_json::from_str(&compact(raw.get()))
        .map_err(|error| Failure::invalid(&[&format!("content: {error}")]))
}

fn queue(frame: &Frame) -> Result<Queue, Failure> {
    let RawQueue { item_id, action } = body(frame)?;
    let action = match (action.kind, action.content) {
        (ActionKind::Edit, Some(raw)) => QueueAction::Edit { content: content(raw)? },
        (ActionKind::Edit, None) => return Err(Failure::invalid(&["an edit needs `content`"])),
        (ActionKind::Remove, None) => QueueAction::Remove,
        (ActionKind::Steer, None) => QueueAction::Steer,
        (ActionKind::Remove | ActionKind::Steer, Some(_)) => {
            return Err(Failure::invalid(&["only an edit has `content`"]));
        }
    };
    Ok(Queue { item_id, action })
}
