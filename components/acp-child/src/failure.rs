//! How a run can fail, in words of this side: a stage, a category and a fixed sentence. What the agent itself says of it
//! goes to the host's log and to nobody else.

use transom_guest::{
    Excess, Millis, Skipped,
    json::push_text,
    pack::{Packer, Unpacker},
};

/// What the agent was to do when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Initialize,
    NewSession,
    Prompt,
}

/// What sort of failure it is. Starting and ending processes is the host's, so are those of them that are about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    /// The wire ended or broke, or nothing arrives on it.
    Transport,
    /// What arrived is not what the protocol wants.
    Protocol,
    /// The agent has reached a limit of its own.
    RemoteLimit,
    /// The agent says that it failed.
    Unknown,
}

/// The failure code of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    AgentFailed,
    Timeout,
    Cancelled,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) stage: Stage,
    pub(crate) category: Category,
    pub(crate) message: String,
}

/// What an agent answers that wants its user to log in.
const AUTH_REQUIRED: i64 = -32_000;

impl Stage {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Stage::Initialize => "initialize",
            Stage::NewSession => "new-session",
            Stage::Prompt => "prompt",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Stage::Initialize => "initialize",
            Stage::NewSession => "session/new",
            Stage::Prompt => "session/prompt",
        }
    }

    const ALL: [Stage; 3] = [Stage::Initialize, Stage::NewSession, Stage::Prompt];
}

impl Category {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Category::Transport => "transport",
            Category::Protocol => "protocol",
            Category::RemoteLimit => "remote-limit",
            Category::Unknown => "unknown",
        }
    }

    const ALL: [Category; 4] =
        [Category::Transport, Category::Protocol, Category::RemoteLimit, Category::Unknown];
}

impl Code {
    fn as_str(self) -> &'static str {
        match self {
            Code::AgentFailed => "agent-failed",
            Code::Timeout => "timeout",
            Code::Cancelled => "cancelled",
        }
    }

    const ALL: [Code; 3] = [Code::AgentFailed, Code::Timeout, Code::Cancelled];
}

impl Failure {
    fn new(stage: Stage, category: Category, message: impl Into<String>) -> Failure {
        Failure { code: Code::AgentFailed, stage, category, message: message.into() }
    }

    /// The agent has closed its output, or is gone.
    pub(crate) fn closed(stage: Stage) -> Failure {
        Failure::new(stage, Category::Transport, "ACP connection closed")
    }

    /// The agent has answered with an error. Its code is a number and is told; its words are not.
    pub(crate) fn refused(stage: Stage, code: i64) -> Failure {
        let method = stage.method();
        let message = match code {
            AUTH_REQUIRED => {
                format!(
                    "ACP child requires authentication: it answered {method} with code {code}; log in to it once outside of this host"
                )
            }
            code => format!("ACP child answered {method} with an error of code {code}"),
        };
        Failure::new(stage, Category::Unknown, message)
    }

    /// The agent has answered, and not with what the answer must hold.
    pub(crate) fn malformed(stage: Stage) -> Failure {
        let message = format!("ACP child answered {} with no result", stage.method());
        Failure::new(stage, Category::Protocol, message)
    }

    /// Only version 1 is spoken. `found` is JSON text.
    pub(crate) fn version(found: Option<&str>) -> Failure {
        let message = match found.filter(|found| found.len() <= 20 && found.parse::<f64>().is_ok())
        {
            Some(number) => {
                format!("ACP child speaks protocol version {number}; this host speaks 1")
            }
            None => "ACP child names no protocol version; this host speaks 1".to_owned(),
        };
        Failure::new(Stage::Initialize, Category::Protocol, message)
    }

    pub(crate) fn no_session() -> Failure {
        let message = "ACP child published without a session id";
        Failure::new(Stage::NewSession, Category::Protocol, message)
    }

    pub(crate) fn late(stage: Stage, limit: Millis) -> Failure {
        let method = stage.method();
        let message = format!("ACP child did not answer {method} within {limit} ms of its start");
        Failure { code: Code::Timeout, ..Failure::new(stage, Category::Transport, message) }
    }

    /// What was in the line is not known: it may have been the answer.
    pub(crate) fn skipped(stage: Stage, skipped: Skipped) -> Failure {
        let why = match skipped.why {
            Excess::TooLong => "longer",
            Excess::TooDeep => "nested deeper",
        };
        let bytes = skipped.bytes;
        let message =
            format!("ACP child wrote a line of {bytes} bytes, which is {why} than a line may be");
        Failure::new(stage, Category::Protocol, message)
    }

    /// The agent has used up the requests to its model that it allows itself for a turn.
    pub(crate) fn limit() -> Failure {
        let message = "ACP child reached its limit of requests in one turn";
        Failure::new(Stage::Prompt, Category::RemoteLimit, message)
    }

    pub(crate) fn stop_reason() -> Failure {
        let message = "ACP child ended its turn for a reason that the protocol does not have";
        Failure::new(Stage::Prompt, Category::Protocol, message)
    }

    /// Nothing was asked of the agent.
    pub(crate) fn unprompted(message: &str) -> Failure {
        Failure::new(Stage::Prompt, Category::Unknown, message)
    }

    /// The host wants no agent any more.
    pub(crate) fn aborted(stage: Stage) -> Failure {
        let message = "subagent request was aborted before the ACP child started";
        Failure { code: Code::Cancelled, ..Failure::new(stage, Category::Unknown, message) }
    }

    /// The body of a failure frame.
    pub(crate) fn body(&self) -> String {
        let mut body = String::from("{\"code\":\"");
        body.push_str(self.code.as_str());
        body.push_str("\",\"message\":");
        push_text(&mut body, &self.message);
        body.push_str(",\"details\":{");
        self.push_place(&mut body);
        body.push_str("}}");
        body
    }

    /// Stage and category, as members.
    pub(crate) fn push_place(&self, out: &mut String) {
        out.push_str("\"stage\":\"");
        out.push_str(self.stage.as_str());
        out.push_str("\",\"category\":\"");
        out.push_str(self.category.as_str());
        out.push('"');
    }

    pub(crate) fn pack(&self, out: &mut Packer) {
        out.text(self.code.as_str());
        out.text(self.stage.as_str());
        out.text(self.category.as_str());
        out.text(&self.message);
    }

    pub(crate) fn unpack(reader: &mut Unpacker<'_>) -> Option<Failure> {
        let (code, stage, category) = (reader.text()?, reader.text()?, reader.text()?);
        Some(Failure {
            code: Code::ALL.into_iter().find(|known| known.as_str() == code)?,
            stage: Stage::ALL.into_iter().find(|known| known.as_str() == stage)?,
            category: Category::ALL.into_iter().find(|known| known.as_str() == category)?,
            message: reader.text()?.to_owned(),
        })
    }
}
