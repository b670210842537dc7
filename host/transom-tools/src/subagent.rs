//! `subagent`: work handed to another agent, waited for or in the background (L-71, P-70). Who that agent is and how
//! it lives is behind the `Subagents` port.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use transom_harness::{
    block::Block,
    jobs::{JobKind, JobStatus},
    ports::{Delegation, DelegationEvent, Stop, Subagents, ToolOutcome, ToolSpec},
};

use crate::{
    jobs::{End, Jobs, Work},
    tool::{Call, Running, Tool, ToolError, background, check_background},
};

/// The tool.
pub(crate) struct Subagent {
    subagents: Arc<dyn Subagents>,
    jobs: Option<Jobs>,
}

impl Subagent {
    pub(crate) fn new(subagents: Arc<dyn Subagents>, jobs: Option<Jobs>) -> Subagent {
        Subagent { subagents, jobs }
    }
}

impl Tool for Subagent {
    fn spec(&self) -> ToolSpec {
        let mut parameters = json!({
            "type": "object",
            "properties": {
                "description": {
                    "type": "string",
                    "description": "The task in a few words, for the people who watch."
                },
                "prompt": {
                    "type": "string",
                    "description": "Everything the agent has to know: it sees nothing of this conversation."
                }
            },
            "required": ["description", "prompt"]
        });
        if self.jobs.is_some() {
            background(
                &mut parameters,
                "Return at once and let the task run on as a job; you will be told of its end.",
            );
        }
        ToolSpec {
            name: "subagent".to_owned(),
            description: "Gives a task to another agent with a conversation of its own, and returns its last words. \
                Use it for work that can be described in full and whose details are not needed here. Several can \
                work at the same time."
                .to_owned(),
            parameters,
        }
    }

    fn is_parallel(&self, _arguments: &Map<String, Value>) -> bool {
        true
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        for name in ["description", "prompt"] {
            crate::tool::filled(arguments, name)?;
        }
        check_background(arguments, self.jobs.is_some())
    }

    fn run(&self, call: Call) -> Running {
        let (subagents, jobs) = (self.subagents.clone(), self.jobs.clone());
        Box::pin(async move {
            let delegation = Delegation {
                parent: call.session.clone(),
                description: call.filled_text("description")?.to_owned(),
                prompt: call.filled_text("prompt")?.to_owned(),
                access: call.access,
            };
            match jobs.filter(|_| call.flag("run_in_background")) {
                Some(jobs) => {
                    let label = delegation.description.clone();
                    let run = move |work| in_background(subagents, delegation, work);
                    let job = jobs.start(&call, JobKind::Subagent, &label, run)?;
                    let text = format!("started background subagent task {}", job.id);
                    Ok(ToolOutcome { job: Some(job), ..ToolOutcome::text(text) })
                }
                None => in_foreground(&*subagents, delegation, &call).await,
            }
        })
    }
}

async fn in_foreground(
    subagents: &dyn Subagents,
    delegation: Delegation,
    call: &Call,
) -> Result<ToolOutcome, ToolError> {
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let mut run = Run::start(subagents, delegation);
    let last = tokio::select! {
        biased;
        last = run.last() => last,
        () = call.abort.set() => {
            // The end comes all the same, with what there is until then (L-70).
            run.stop();
            run.last().await
        }
    };
    match last {
        Last::Refused(message) => Err(ToolError::new(message)),
        Last::Ended { stop_reason, output } => finished(&stop_reason, &text(&output)),
    }
}

fn finished(stop_reason: &str, text: &str) -> Result<ToolOutcome, ToolError> {
    let failure = match stop_reason {
        "completed" if text.is_empty() => return Ok(ToolOutcome::text("(no output)")),
        "completed" => return Ok(ToolOutcome::text(text)),
        "aborted" => "subagent run was cancelled",
        "max-tokens" => "subagent run hit its token limit before finishing",
        "refusal" => "subagent declined the task",
        _ => "subagent run failed",
    };
    Err(ToolError::new(if text.is_empty() {
        failure.to_owned()
    } else {
        format!("{failure}\nPartial output before the run ended:\n{text}")
    }))
}

/// A start that fails is a failed job (P-70).
async fn in_background(subagents: Arc<dyn Subagents>, delegation: Delegation, work: Work) -> End {
    let mut run = Run::start(&*subagents, delegation);
    let last = tokio::select! {
        biased;
        last = run.last() => last,
        _ = work.ordered() => {
            run.stop();
            run.last().await
        }
    };
    match last {
        Last::Refused(message) => End::failed(message),
        Last::Ended { stop_reason, output } => match stop_reason.as_str() {
            "completed" => {
                work.output.say_last(text(&output));
                End { status: JobStatus::Completed, detail: None }
            }
            "aborted" => End { status: JobStatus::Killed, detail: None },
            other => End::failed(other),
        },
    }
}

/// How a run came out.
enum Last {
    Refused(String),
    Ended { stop_reason: String, output: Vec<Block> },
}

/// A delegation under way. Dropping it ends it.
struct Run {
    stop: Box<dyn Stop>,
    last: oneshot::Receiver<Last>,
}

impl Run {
    fn start(subagents: &dyn Subagents, delegation: Delegation) -> Run {
        let (sender, last) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let tell = move |last| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Whoever started the run may be gone.
            if let Some(sender) = sender {
                let _ = sender.send(last);
            }
        };
        let sink = move |event| match event {
            DelegationEvent::Started { .. } => {}
            DelegationEvent::Refused(message) => tell(Last::Refused(message)),
            DelegationEvent::Ended { stop_reason, output } => {
                tell(Last::Ended { stop_reason, output });
            }
        };
        Run { stop: subagents.start(delegation, Box::new(sink)), last }
    }

    fn stop(&self) {
        self.stop.stop();
    }

    async fn last(&mut self) -> Last {
        let silent = || Last::Ended { stop_reason: "error".to_owned(), output: Vec::new() };
        (&mut self.last).await.unwrap_or_else(|_| silent())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn text(output: &[Block]) -> String {
    let texts = output.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Reasoning { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Raw(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
