//! `subagent`: work handed to another agent, waited for or in the background (L-71, P-70). Who that agent is and how
//! it lives is behind the `Subagents` port.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    jobs::{JobKind, JobStatus},
    permissions::rules::ToolKind,
    ports::{Delegation, DelegationEvent, Stop, Subagents, ToolOutcome, ToolSpec},
    subagents::Nature,
};

use crate::{
    jobs::{End, Jobs, Work},
    options::Delegating,
    providers::{IN_PROCESS, Providers, SUBAGENT_ERROR},
    schema::{Root, violations},
    tool::{Call, Running, Tool, ToolError, answer_once, background, check_background},
};

/// The tool.
pub(crate) struct Subagent {
    providers: Providers,
    delegating: Arc<Delegating>,
    jobs: Option<Jobs>,
}

impl Subagent {
    pub(crate) fn new(
        providers: Providers,
        delegating: Delegating,
        jobs: Option<Jobs>,
    ) -> Subagent {
        Subagent { providers, delegating: Arc::new(delegating), jobs }
    }

    /// Whether a call may say that it does not wait, or that it does.
    fn has_background(&self) -> bool {
        self.jobs.is_some() || self.delegating.keeps_any()
    }
}

impl Delegating {
    /// Whether a child may outlive its task.
    pub fn keeps_any(&self) -> bool {
        self.continuable || self.kinds.iter().any(|kind| kind.nature.continuable)
    }

    /// Adds the argument that names a kind, where there are kinds.
    fn describe(&self, parameters: &mut Value) {
        let properties = parameters.get_mut("properties").and_then(Value::as_object_mut);
        let Some(properties) = properties.filter(|_| !self.kinds.is_empty()) else { return };
        let names: Vec<_> = self.kinds.iter().map(|kind| &kind.name).collect();
        let list = self.kinds.iter().map(|kind| format!("{}: {}", kind.name, kind.description));
        let description = format!(
            "Which kind of agent; without it, one like you. {}",
            list.collect::<Vec<_>>().join(" ")
        );
        let kind = json!({ "type": "string", "enum": names, "description": description });
        properties.insert("kind".to_owned(), kind);
    }

    /// The provider of the children that a call asks for, and what they are.
    fn wanted(&self, kind: Option<&str>) -> (String, Nature) {
        let named = self.kinds.iter().find(|known| Some(known.name.as_str()) == kind);
        match named {
            Some(kind) => (kind.provider.clone(), kind.nature.clone()),
            None => {
                let nature = Nature { continuable: self.continuable, ..Nature::default() };
                (IN_PROCESS.to_owned(), nature)
            }
        }
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
        self.delegating.describe(&mut parameters);
        if self.delegating.continuable {
            background(
                &mut parameters,
                "Left out or true: return at once; the agent has an id, you will be told when it comes to rest, and it \
                 takes further messages. False: wait for its last words, with which it ends.",
            );
        } else if self.delegating.keeps_any() {
            background(
                &mut parameters,
                "True: return at once and let the task run on; you will be told of its end. Kinds that take further \
                 messages do so unless this is false.",
            );
        } else if self.has_background() {
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

    /// An agent in another process is not held by the session's mode (P-38).
    fn kind_of(&self, arguments: &Map<String, Value>) -> Option<ToolKind> {
        let (provider, _) = self.delegating.wanted(arguments.get("kind").and_then(Value::as_str));
        (provider != IN_PROCESS).then_some(ToolKind::Delegation)
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        for name in ["description", "prompt"] {
            crate::tool::filled(arguments, name)?;
        }
        check_background(arguments, self.has_background())
    }

    fn run(&self, call: Call) -> Running {
        let (providers, delegating, jobs) =
            (self.providers.clone(), Arc::clone(&self.delegating), self.jobs.clone());
        Box::pin(async move {
            let (provider, mut nature) = delegating.wanted(call.optional_text("kind"));
            // What takes messages is not waited for, and what is waited for takes none.
            let background = call.arguments.get("run_in_background").and_then(Value::as_bool);
            nature.continuable &= background != Some(false);
            let delegation = Delegation {
                parent: call.session.clone(),
                description: call.filled_text("description")?.to_owned(),
                prompt: call.filled_text("prompt")?.to_owned(),
                access: call.access,
                directory: call.has_directory.then(|| call.directory.clone()),
                nature,
            };
            let subagents = providers.find(&provider, &delegation)?;
            if delegation.nature.continuable {
                return in_foreground(&*subagents, delegation, &call).await;
            }
            check_background(&call.arguments, jobs.is_some())?;
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

/// Waits for the last words; of a child that lives on the call only learns the id.
async fn in_foreground(
    subagents: &dyn Subagents,
    delegation: Delegation,
    call: &Call,
) -> Result<ToolOutcome, ToolError> {
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let schema = delegation.nature.output_schema.clone();
    match Run::start(subagents, delegation).last(call.abort.set()).await {
        Last::Refused(message) => Err(ToolError::new(message)),
        Last::Ended { stop_reason, output, diagnostic } => {
            finished(&stop_reason, &text(&output), diagnostic.as_deref(), schema.as_ref())
        }
        Last::Kept(child) => Ok(ToolOutcome::text(format!("started subagent {child}"))),
    }
}

fn finished(
    stop_reason: &str,
    text: &str,
    diagnostic: Option<&str>,
    schema: Option<&Value>,
) -> Result<ToolOutcome, ToolError> {
    let failure = match stop_reason {
        "completed" if schema.is_some() => return structured(text, schema).map(ToolOutcome::text),
        "completed" if text.is_empty() => return Ok(ToolOutcome::text("(no output)")),
        "completed" => return Ok(ToolOutcome::text(text)),
        "aborted" => "subagent run was cancelled",
        "max-tokens" => "subagent run hit its token limit before finishing",
        "refusal" => "subagent declined the task",
        _ => "subagent run failed",
    };
    let failure = match diagnostic {
        Some(diagnostic) => format!("{failure}\n{diagnostic}"),
        None => failure.to_owned(),
    };
    Err(ToolError::new(if text.is_empty() {
        failure
    } else {
        format!("{failure}\nPartial output before the run ended:\n{text}")
    }))
}

/// The last words of a child that had to give a certain JSON value, in compact form (L-67).
fn structured(text: &str, schema: Option<&Value>) -> Result<String, ToolError> {
    let Some(schema) = schema else { return Ok(text.to_owned()) };
    let invalid = |why: &str| {
        let message = format!("subagent run gave no valid output: {why}");
        let message = match text.is_empty() {
            true => message,
            false => format!("{message}\nIts last words:\n{text}"),
        };
        ToolError::coded(message, SUBAGENT_ERROR, "INVALID_OUTPUT")
    };
    let value: Value = serde_json::from_str(text.trim())
        .map_err(|error| invalid(&format!("its last words are no JSON ({error})")))?;
    let found = violations(schema, &value, Root::Value);
    match found.is_empty() {
        true => Ok(value.to_string()),
        false => Err(invalid(&found.join("; "))),
    }
}

/// A start that fails is a failed job (P-70).
async fn in_background(subagents: Arc<dyn Subagents>, delegation: Delegation, work: Work) -> End {
    let schema = delegation.nature.output_schema.clone();
    match Run::start(&*subagents, delegation).last(work.ordered()).await {
        Last::Refused(message) => End::failed(message),
        Last::Ended { stop_reason, output, diagnostic } => match stop_reason.as_str() {
            "completed" => match structured(&text(&output), schema.as_ref()) {
                Ok(text) => {
                    work.output.say_last(text);
                    End { status: JobStatus::Completed, detail: None }
                }
                Err(error) => End::failed(error.message),
            },
            "aborted" => End { status: JobStatus::Killed, detail: None },
            other => End::failed(match diagnostic {
                Some(diagnostic) => format!("{other}: {diagnostic}"),
                None => other.to_owned(),
            }),
        },
        Last::Kept(_) => End { status: JobStatus::Completed, detail: None },
    }
}

/// How a run came out.
enum Last {
    /// It lives on.
    Kept(SessionId),
    Refused(String),
    Ended {
        stop_reason: String,
        output: Vec<Block>,
        diagnostic: Option<String>,
    },
}

/// A delegation under way. Dropping it ends it.
struct Run {
    stop: Box<dyn Stop>,
    last: oneshot::Receiver<Last>,
}

impl Run {
    fn start(subagents: &dyn Subagents, delegation: Delegation) -> Run {
        let (tell, last) = answer_once();
        let begun = Mutex::new(None);
        let sink =
            move |event| match event {
                DelegationEvent::Started { child } => {
                    *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
                }
                DelegationEvent::Kept => {
                    let child = begun.lock().unwrap_or_else(PoisonError::into_inner).take();
                    tell(child.map_or_else(
                        || Last::Refused("it was never started".to_owned()),
                        Last::Kept,
                    ));
                }
                DelegationEvent::Refused(message) => tell(Last::Refused(message)),
                DelegationEvent::Ended { stop_reason, output, diagnostic } => {
                    tell(Last::Ended { stop_reason, output, diagnostic });
                }
            };
        Run { stop: subagents.start(delegation, Box::new(sink)), last }
    }

    /// How it comes out. Once it is not wanted any more it is stopped, and its end comes all the same, with what there
    /// is until then (L-70).
    async fn last(mut self, unwanted: impl Future) -> Last {
        let last = tokio::select! {
            biased;
            last = &mut self.last => last,
            _ = unwanted => {
                self.stop.stop();
                (&mut self.last).await
            }
        };
        let silent = |_| Last::Ended {
            stop_reason: "error".to_owned(),
            output: Vec::new(),
            diagnostic: None,
        };
        last.unwrap_or_else(silent)
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
