//! Hooks: whoever has a say at fixed points of a turn (L-31, L-55). Here is what is asked and what can be answered; when it
//! is asked is the agent's (`agent/hooks.rs`), who answers is the driver's.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use transom_frame::SessionId;

use crate::{
    block::Block,
    message::Message,
    permissions::Mode,
    ports::{ToolErrorCode, ToolOutcome},
};

/// At which points there is anybody to ask. Where there is nobody, nothing is asked and nothing waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookPoints {
    /// Before each step.
    pub pre_step: bool,
    /// Before each call that the operator's rules let through.
    pub pre_execute: bool,
    /// After each call whose body ran.
    pub post_execute: bool,
    /// Before a turn ends by itself.
    pub turn_stopping: bool,
    /// Somebody watches results.
    pub result: bool,
}

/// What a hook is asked, or told.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAsk {
    /// The session that it is about.
    pub session: SessionId,
    /// The directory of the session's tools; absolute.
    pub cwd: Option<String>,
    /// Where that really stood when the session was given it (P-5).
    pub root: Option<String>,
    /// What the session may do.
    pub mode: Mode,
    /// The turn that is open.
    pub turn: u64,
    /// The step that is open, or would begin; in `TurnStopping` the last one.
    pub step: u64,
    /// The point, and what stands there.
    pub about: HookAbout,
}

/// The points of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAbout {
    /// Whether a step may begin; answered by `Verdict::Step`.
    PreStep {
        /// What would enter with it; none where it only shows results of tools.
        messages: Vec<Arc<Message>>,
    },
    /// Whether a call may begin; answered by `Verdict::Call`.
    PreExecute {
        /// Its arguments are valid, and no rule denies it.
        call: HookedCall,
        /// A person will be asked as it is.
        asks: bool,
    },
    /// What a call has come to; answered by `Verdict::Outcome`.
    PostExecute {
        /// The call.
        call: HookedCall,
        /// As its tool has given it.
        outcome: Box<ToolOutcome>,
    },
    /// Whether the turn may end; answered by `Verdict::Stop`.
    TurnStopping {
        /// A step of the turn hit the output limit.
        limit_hit: bool,
        /// How often hooks have prolonged this turn.
        prolonged: u32,
    },
    /// A result that stands in the log. Nobody waits for an answer.
    Result {
        /// The call.
        call: HookedCall,
        /// As it stands there.
        outcome: Box<ToolOutcome>,
    },
}

impl HookAbout {
    /// The point's name in logs, manifests and what programs read.
    pub fn point(&self) -> &'static str {
        match self {
            HookAbout::PreStep { .. } => "pre-step",
            HookAbout::PreExecute { .. } => "pre-execute",
            HookAbout::PostExecute { .. } => "post-execute",
            HookAbout::TurnStopping { .. } => "turn-stopping",
            HookAbout::Result { .. } => "result",
        }
    }
}

/// A call as hooks are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookedCall {
    /// Chosen by the model provider.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Raw text, as the model wrote it.
    pub arguments: String,
}

/// What hooks say, and how they came to it.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAnswer {
    /// Of the kind that was asked for; any other counts as a refusal.
    pub verdict: Verdict,
    /// Each hook that was asked, in order; they stand in the log as `hook/result`.
    pub reports: Vec<HookReport>,
}

impl HookAnswer {
    /// Where nobody could answer: to a step, a call and a result this is a refusal, and a turn ends as it would.
    pub fn none() -> HookAnswer {
        HookAnswer { verdict: Verdict::Stop(Vec::new()), reports: Vec::new() }
    }
}

/// What hooks say.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Of a step.
    Step(StepVerdict),
    /// Of a call.
    Call(CallVerdict),
    /// What becomes of an outcome: itself, or what takes its place.
    Outcome(Box<ToolOutcome>),
    /// Of the end of a turn: with messages the turn goes on.
    Stop(Vec<Context>),
}

/// Whether a step may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepVerdict {
    /// It begins.
    Proceed {
        /// Enter with it, behind everything else.
        contexts: Vec<Context>,
    },
    /// The turn ends as `blocked` (L-44).
    Reject,
}

/// Whether a call may begin. A hook narrows what the operator's rules allow and never widens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallVerdict {
    /// As the rules have it.
    Allow,
    /// It does not run, and the model is told why.
    Deny {
        /// Stands behind `Error: ` in the result.
        reason: String,
    },
    /// A person decides, also where the rules let it run.
    Ask {
        /// For that person.
        reason: Option<String>,
    },
}

/// Something the model is told besides (L-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The part of the host that tells it; stands in the message's source.
    pub from: String,
    /// What it says.
    pub text: String,
}

/// What one hook has done, for the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookReport {
    /// The hook's name.
    #[serde(rename = "handlerId")]
    pub hook: String,
    /// In one word, for example `reject`.
    pub decision: String,
    /// What it gave as the reason, or what was wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of its program, where that ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of its error output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_summary: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
}

/// What a hook that looks at an outcome does with it.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultVerdict {
    /// It stays as it is.
    Accept,
    /// The model is shown something else.
    Content(Vec<Block>),
    /// The value becomes another one, which is validated and rendered like the tool's own.
    Value(Value),
    /// The result becomes an error with this content.
    Block(Vec<Block>),
}

impl ResultVerdict {
    /// What becomes of the outcome. `render` makes a result of a value; an error says why it is not one of the tool's
    /// values.
    pub fn apply(
        self,
        outcome: ToolOutcome,
        render: impl FnOnce(Value) -> ToolOutcome,
    ) -> ToolOutcome {
        match self {
            ResultVerdict::Accept => outcome,
            // What the content was made of, and what people are shown of it, may say what it no longer does.
            ResultVerdict::Content(content) => {
                ToolOutcome { content, value: None, meta: None, ..outcome }
            }
            ResultVerdict::Value(value) => {
                let ToolOutcome { content, value, meta, is_error, error, .. } = render(value);
                if is_error {
                    return outcome.replaced(content, error);
                }
                ToolOutcome { content, value, meta, is_error, error, ..outcome }
            }
            ResultVerdict::Block(feedback) => outcome.replaced(feedback, None),
        }
    }
}

impl ToolOutcome {
    /// An error in the place of this outcome. A job that has begun is one all the same (P-69), and what the call has done
    /// to the list of what is to be done is undone.
    pub fn replaced(self, content: Vec<Block>, error: Option<ToolErrorCode>) -> ToolOutcome {
        ToolOutcome { job: self.job, content, error, ..ToolOutcome::error("", None) }
    }
}
