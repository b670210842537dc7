//! What doors and host say to each other: frames, ids, failures, faults. Plain data.
//! Who may say what is `transom-policy`'s to decide, and who hears it `transom-router`'s.

mod failure;
mod fault;
mod ids;

use std::sync::Arc;

pub use crate::{
    failure::{Code, Failure},
    fault::{Fault, FaultKind},
    ids::{ConnectionId, FrameId, MessageId, SessionId},
};

/// One message in the host's own language (`frames.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Says whether an answer is owed; `id` and `name` follow from it.
    pub kind: FrameKind,
    /// The session the frame is about; bodies do not repeat it.
    pub session: Option<SessionId>,
    /// Minted by the asker, echoed by reply and failure. Notices carry none.
    pub id: Option<FrameId>,
    /// For example `session/prompt`. Reply and failure repeat the name of their request.
    pub name: Arc<str>,
    /// JSON text. Forwarded untouched wherever nobody has to decide on it.
    pub body: Arc<str>,
}

/// What a frame is to its receiver (`frames.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// Asks; exactly one reply or failure answers it.
    Request,
    /// Answers a request that was carried out.
    Reply,
    /// Answers a request that was refused; the body is a `Failure`.
    Failure,
    /// Tells; nothing answers it.
    Notice,
}

impl FrameKind {
    /// The kind as the codec contract spells it, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            FrameKind::Request => "request",
            FrameKind::Reply => "reply",
            FrameKind::Failure => "failure",
            FrameKind::Notice => "notice",
        }
    }
}

impl Frame {
    /// A question to the other side; `id` must be new in this direction.
    pub fn request(
        name: impl Into<Arc<str>>,
        session: Option<SessionId>,
        id: FrameId,
        body: impl Into<Arc<str>>,
    ) -> Frame {
        Frame {
            kind: FrameKind::Request,
            session,
            id: Some(id),
            name: name.into(),
            body: body.into(),
        }
    }

    /// A frame without an id, so that nobody can answer it.
    pub fn notice(
        name: impl Into<Arc<str>>,
        session: Option<SessionId>,
        body: impl Into<Arc<str>>,
    ) -> Frame {
        Frame { kind: FrameKind::Notice, session, id: None, name: name.into(), body: body.into() }
    }

    /// The reply to `request`; `session` may name a session that the request did not.
    pub fn reply(request: &Frame, session: Option<SessionId>, body: impl Into<Arc<str>>) -> Frame {
        Frame {
            kind: FrameKind::Reply,
            session: session.or_else(|| request.session.clone()),
            id: request.id.clone(),
            name: request.name.clone(),
            body: body.into(),
        }
    }

    /// The refusal of `request`. The body is `{code, message, details}`.
    pub fn failure(request: &Frame, failure: &Failure) -> Frame {
        Frame {
            kind: FrameKind::Failure,
            session: request.session.clone(),
            id: request.id.clone(),
            name: request.name.clone(),
            body: failure.to_json().into(),
        }
    }
}
