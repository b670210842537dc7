//! The host's refusals: a closed list of codes, a message for the peer, details of fixed shape.

use serde_json::{Map, Value, json};

/// Body of a failure frame. `message` may be shown to the peer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Fixes which members `details` has.
    pub code: Code,
    /// One line for people; programs look at `code`.
    pub message: String,
    /// Members of `details`; which ones is fixed by the code (`frames.md`).
    pub details: Map<String, Value>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The host's failure codes that this version can give (`frames.md`, "Failure codes").
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code as it stands in a frame.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The body of the request has the wrong shape; `issues` lists what is wrong.
    Invalid = "invalid",
    /// The door's policy does not let it send this frame.
    Denied = "denied",
    /// The host has no such frame.
    UnknownFrame = "unknown-frame",
    /// A bug on the host's side.
    Unexpected = "unexpected",
    /// A bound of the host is reached; `limit` names it.
    Overloaded = "overloaded",
    /// It was withdrawn by a cancel before it took effect.
    Cancelled = "cancelled",
    /// The host, or what this connection owns, is shutting down.
    ShuttingDown = "shutting-down",
    /// A session with this id is stored or live already.
    SessionExists = "session-exists",
    /// The session is live, and what was asked needs it at rest.
    SessionLive = "session-live",
    /// The session is another than the one that was described; `details` has both directories.
    SessionConflict = "session-conflict",
    /// No session of this id.
    SessionNotFound = "session-not-found",
    /// The session that this connection had opened was disposed elsewhere.
    SessionDisposed = "session-disposed",
    /// The stored session cannot be continued.
    NotResumable = "not-resumable",
    /// No provider of this name; `provider` names it.
    NoAdapter = "no-adapter",
    /// The model does not offer this reasoning effort.
    EffortUnsupported = "effort-unsupported",
    /// The log could not be written or read.
    StoreFailed = "store-failed",
    /// Images were not taken, or an attachment not found; `reason` is one of the codes of B-124.
    AttachmentError = "attachment-error",
    /// No such message waits in the session's inbox.
    QueueItemNotFound = "queue-item-not-found",
    /// The message cannot enter a running turn.
    SteerUnavailable = "steer-unavailable",
    /// The session has no completed turn at or behind the place asked for.
    ForkUnavailable = "fork-unavailable",
    /// The title has nothing to show.
    TitleInvalid = "title-invalid",
    /// A question was not put to anybody, or has no answer; `code` is one of the ASK codes (L-65).
    AskRefused = "ask-refused",
    /// An agent that this host has started could not take its task; `stage` and `category` say where and how.
    AgentFailed = "agent-failed",
    /// Something could not be brought to an end; `failures` lists the messages.
    TeardownFailed = "teardown-failed",
}

impl Failure {
    /// A failure whose `details` are empty.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), details: Map::new() }
    }

    /// A request whose body has the wrong shape. Each issue names member and expectation.
    pub fn invalid(issues: &[&str]) -> Failure {
        Failure::new(Code::Invalid, issues.join("; ")).with("issues", json!(issues))
    }

    /// Adds one member to `details`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// `{"code","message","details"}`.
    pub fn to_json(&self) -> String {
        json!({"code": self.code.as_str(), "message": self.message, "details": self.details})
            .to_string()
    }
}
