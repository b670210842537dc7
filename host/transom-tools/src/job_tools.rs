//! `job_output`, `job_list` and `job_kill`: the model's hands on its background jobs (P-73 to P-76). The jobs
//! themselves are `jobs.rs`.

use std::time::Duration;

use serde_json::{Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    jobs::Jobs,
    tool::{Call, Running, Tool, ToolError},
};

/// What the system prompt says where there are jobs; its place is [`JOBS_PROMPT_ORDER`] (P-76).
pub const JOBS_PROMPT: &str = "Commands and delegations can run in the background as jobs. Remember the id that a \
    start returns. Do not poll a job: go on with other work, and you will be told when it ends. If nothing is left \
    to do but wait, wait for it with job_output. Before you finish, collect the output of each job that still \
    matters and kill each one that does not.";

/// Where [`JOBS_PROMPT`] stands among the sections of the system prompt (L-95).
pub const JOBS_PROMPT_ORDER: i32 = 106;

/// How long `job_output` waits if it is not told (P-85).
const WAIT_MS: u64 = 30_000;

/// The longest wait (P-85).
const WAIT_MS_MAX: u64 = 600_000;

/// `job_output`.
pub(crate) struct JobOutput {
    pub(crate) jobs: Jobs,
}

/// `job_list`.
pub(crate) struct JobList {
    pub(crate) jobs: Jobs,
}

/// `job_kill`.
pub(crate) struct JobKill {
    pub(crate) jobs: Jobs,
}

impl Tool for JobOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "job_output".to_owned(),
            description: "Shows what a background job has written since the last time, and how it stands. With \
                wait, it first waits for the job's end, at most timeout_ms; without, it returns at once."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "job_id": { "type": "string", "description": "The id that the start returned." },
                    "wait": { "type": "boolean", "description": "Wait for the end; false if absent." },
                    "timeout_ms": {
                        "type": "number",
                        "description": "How long to wait, in milliseconds; 30000 if absent, at most 600000."
                    }
                },
                "required": ["job_id"]
            }),
        }
    }

    fn run(&self, call: Call) -> Running {
        let jobs = self.jobs.clone();
        Box::pin(async move {
            let id = job_id(&call)?;
            let patience = patience(&call)?;
            jobs.look(&call, id, patience).await.map(ToolOutcome::text)
        })
    }
}

impl Tool for JobList {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "job_list".to_owned(),
            description: "Lists this session's background jobs, the oldest first.".to_owned(),
            parameters: json!({ "type": "object", "properties": {} }),
        }
    }

    fn run(&self, call: Call) -> Running {
        let jobs = self.jobs.clone();
        Box::pin(async move {
            let lines = jobs.list(&call).into_iter().map(|record| {
                let label = record.short_label().replace(['\n', '\r'], " ");
                let (kind, status) = (record.kind.as_str(), record.status.as_str());
                format!("{} [{kind}] {status} — {label}", record.id)
            });
            let lines: Vec<_> = lines.collect();
            let text =
                if lines.is_empty() { "(no background jobs)".to_owned() } else { lines.join("\n") };
            Ok(ToolOutcome::text(text))
        })
    }
}

impl Tool for JobKill {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "job_kill".to_owned(),
            description: "Asks a background job to end, and returns at once. A command gets SIGTERM, and SIGKILL \
                three seconds later."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "job_id": { "type": "string", "description": "The id that the start returned." },
                    "reason": {
                        "type": "string",
                        "description": "Why, in a few words, for the people who watch."
                    }
                },
                "required": ["job_id"]
            }),
        }
    }

    fn run(&self, call: Call) -> Running {
        let jobs = self.jobs.clone();
        Box::pin(async move {
            let id = job_id(&call)?;
            tracing::trace!(session = %call.session, job = id, reason = call.optional_text("reason"), "job kill");
            jobs.kill(&call, id).map(ToolOutcome::text)
        })
    }
}

fn job_id(call: &Call) -> Result<&str, ToolError> {
    let id = call.text("job_id");
    if id.trim().is_empty() {
        let found = Value::from(id);
        return Err(ToolError::new(format!(
            "invalid job_id: expected a non-empty string, got {found}"
        )));
    }
    Ok(id)
}

/// How long to wait; `None`: not at all.
fn patience(call: &Call) -> Result<Option<Duration>, ToolError> {
    let ms = match call.arguments.get("timeout_ms") {
        None => WAIT_MS,
        Some(value) => match value.as_f64() {
            Some(number) if number > 0.0 => WAIT_MS_MAX.min(number.ceil() as u64),
            _ => {
                return Err(ToolError::new(format!(
                    "invalid wait timeout: expected a positive number of milliseconds, got {value}"
                )));
            }
        },
    };
    Ok(call.flag("wait").then_some(Duration::from_millis(ms)))
}
