//! Bodies of requests, parsed once into typed values (`frames.md`). What has the wrong shape is
//! refused with the member and what would be right.

use serde::Deserialize;
use serde_json::value::RawValue;
use transom_frame::{Code, Failure, Frame};
use transom_harness::{
    block::{Block, compact},
    ports::Route,
};

/// A request of a door, typed.
#[derive(Debug)]
pub(crate) enum Request {
    HostDescribe,
    HostShutdown,
    SessionOpen(Open),
    SessionPrompt(Prompt),
    SessionCancel(Cancel),
    SessionWait,
    SessionClose,
    SessionDescribe,
    SessionList(List),
    SessionRead(Read),
    SessionDirectory(Directory),
    ModelsCheck(Route),
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
    pub(crate) mode: Mode,
    pub(crate) rpc_id: Option<String>,
    pub(crate) client_time_zone: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
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
    mode: Mode,
    source: Option<PromptSource>,
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
#[expect(dead_code, reason = "there are no descendants yet; the member is checked all the same")]
struct Wait {
    #[serde(default)]
    descendants: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct List {
    pub(crate) live: Option<bool>,
    pub(crate) stored: Option<bool>,
    pub(crate) cwd: Option<String>,
    /// Position to go on from, as the last answer gave it.
    pub(crate) cursor: Option<String>,
    pub(crate) limit: Option<usize>,
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
                body::<Wait>(frame)?;
                Request::SessionWait
            }
            "session/close" => empty(frame, Request::SessionClose)?,
            "session/describe" => empty(frame, Request::SessionDescribe)?,
            "session/list" => Request::SessionList(body(frame)?),
            "session/read" => Request::SessionRead(body(frame)?),
            "session/directory" => Request::SessionDirectory(body(frame)?),
            "models/check" => Request::ModelsCheck(body(frame)?),
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
    let content = serde_json::from_str(&compact(raw.content.get()))
        .map_err(|error| Failure::invalid(&[&format!("content: {error}")]))?;
    let (rpc_id, client_time_zone) =
        raw.source.map_or((None, None), |source| (source.rpc_id, source.client_time_zone));
    Ok(Prompt { content, mode: raw.mode, rpc_id, client_time_zone })
}
