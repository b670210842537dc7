//! The fixed course of one call: look up, check, run, bound, end (L-49, L-52, L-54 to L-56).

use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{task::JoinHandle, time::timeout};
use tracing::warn;
use transom_frame::SessionId;
use transom_harness::{
    permissions::Mode,
    ports::{ToolCall, ToolOutcome},
};

use super::{Entry, Registry};
use crate::{
    abort::AbortSource,
    output::Output,
    schema::{Root, decode, violations},
    sessions::Ticket,
    tool::{Call, ToolError},
};

type Joined = Result<Result<ToolOutcome, ToolError>, tokio::task::JoinError>;

impl Registry {
    /// The tool and its arguments, if there is one and they are valid (L-54, L-56).
    pub(super) fn valid(
        &self,
        session: &SessionId,
        name: &str,
        arguments: &str,
    ) -> Result<(Entry, Map<String, Value>), ToolError> {
        let entry = self.find_for(session, name).ok_or_else(|| {
            let message = format!("unknown tool \"{name}\"");
            ToolError::coded(message, "ToolNotFoundError", "UNKNOWN_TOOL")
        })?;
        let arguments = decode(arguments);
        let found = violations(&entry.parameters, &arguments, Root::Arguments);
        match arguments {
            Value::Object(members) if found.is_empty() => Ok((entry, members)),
            _ => {
                let message = format!("invalid arguments: {}", found.join("; "));
                Err(ToolError::coded(message, "ToolArgsError", "INVALID_ARGS"))
            }
        }
    }

    /// What a call comes to, whatever panics on the way (L-55).
    pub(super) async fn performed(
        &self,
        call: ToolCall,
        source: AbortSource,
        ticket: Ticket,
    ) -> ToolOutcome {
        let (registry, name) = (self.clone(), call.name.clone());
        // A body that has begun is waited for inside; outside, nothing holds anything.
        let course = async move { registry.perform(call, source, ticket).await };
        match self.shared.runtime.spawn(course).await {
            Ok(result) => result.unwrap_or_else(ToolOutcome::from),
            Err(failure) => ToolError::bug(&name, &failure).into(),
        }
    }

    async fn perform(
        &self,
        call: ToolCall,
        source: AbortSource,
        ticket: Ticket,
    ) -> Result<ToolOutcome, ToolError> {
        let (entry, arguments) = self.valid(&call.session, &call.name, &call.arguments)?;
        entry.tool.check(&arguments)?;
        let permissions = self.permissions();
        let confines = entry.subject.is_some_and(|subject| permissions.confines(subject));
        let is_free = call.access.mode == Mode::DangerFullAccess || call.access.unconfined;

        let abort = source.signal();
        let call = Call {
            has_directory: call.cwd.is_some(),
            directory: call.cwd.map_or_else(|| self.shared.directory.clone(), PathBuf::from),
            root: call.root.map(PathBuf::from),
            call_id: call.call_id,
            access: call.access,
            confined: Some(call.access.mode).filter(|_| confines && !is_free),
            jobs: call.jobs,
            arguments,
            abort: abort.clone(),
            ticket,
            session: call.session,
        };
        if abort.is_set() {
            return Err(ToolError::aborted());
        }
        let Entry { tool, name, output, .. } = entry;
        let deadline = tool.timeout();
        // A task of its own, so that a panic ends there.
        let mut body = self.shared.runtime.spawn(async move { tool.run(call).await });

        let timed_out = tokio::select! {
            biased;
            result = &mut body => {
                let outcome = settled(&name, result, abort.is_set())?;
                return Ok(kept(&output, &name, outcome));
            }
            () = abort.set() => None,
            after = passed(deadline) => Some(after),
        };
        source.abort();
        let drained = drain(&name, body, self.shared.drain).await;
        let ended = drained.map(|result| settled(&name, result, true));
        match (timed_out, ended) {
            (Some(after), ended) => {
                // A job that it has begun is one all the same (P-69).
                let job = ended.and_then(Result::ok).and_then(|outcome| outcome.job);
                Ok(ToolOutcome { job, ..ToolError::timed_out(after).into() })
            }
            (None, Some(ended)) => ended.map(|outcome| kept(&output, &name, outcome)),
            (None, None) => Err(ToolError::aborted()),
        }
    }
}

/// What a body has given, as its contract has it. A contract that panics takes no job with it (P-69).
fn kept(output: &Output, name: &str, outcome: ToolOutcome) -> ToolOutcome {
    let job = outcome.job.clone();
    let settled = panic::catch_unwind(AssertUnwindSafe(|| output.settle(name, outcome)));
    settled.unwrap_or_else(|_| ToolOutcome { job, ..ToolError::unfinished(name).into() })
}

/// Ends at the deadline, if there is one.
async fn passed(deadline: Option<Duration>) -> Duration {
    match deadline {
        Some(deadline) => {
            tokio::time::sleep(deadline).await;
            deadline
        }
        None => std::future::pending().await,
    }
}

/// Waits for a body that was told to end.
async fn drain(
    name: &str,
    mut body: JoinHandle<Result<ToolOutcome, ToolError>>,
    patience: Duration,
) -> Option<Joined> {
    match timeout(patience, &mut body).await {
        Ok(joined) => Some(joined),
        Err(_) => {
            warn!(tool = name, "a tool does not end and is left alone");
            body.abort();
            None
        }
    }
}

/// A success that comes after the abort is none; a failure keeps its text (L-49). A job that has begun is one all the
/// same (P-69).
fn settled(name: &str, joined: Joined, aborted: bool) -> Result<ToolOutcome, ToolError> {
    match joined {
        Ok(Ok(outcome)) if aborted && !outcome.is_error => {
            Ok(ToolOutcome { job: outcome.job, ..ToolError::aborted().into() })
        }
        Ok(result) => result,
        Err(failure) => Err(ToolError::bug(name, &failure)),
    }
}
