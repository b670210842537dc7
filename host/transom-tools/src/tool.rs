//! What a tool is to the registry.

use std::{
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, task::JoinError};
use tracing::error;
use transom_frame::SessionId;
use transom_harness::{
    jobs::JobRecord,
    permissions::{Access, Mode, rules::ToolKind},
    ports::{Asker, ToolOutcome, ToolSpec},
};

use crate::{abort::Abort, output::Output, sessions::Ticket};

/// A call on its way. Dropping it must not leave anything behind.
pub type Running = Pin<Box<dyn Future<Output = Result<ToolOutcome, ToolError>> + Send>>;

/// What a description ends with for one session, if anything. May look at files.
pub type Addition = Arc<dyn Fn(&Asker) -> Option<String> + Send + Sync>;

/// Something the model can call.
pub trait Tool: Send + Sync {
    /// Name, description and argument schema. The schema stays within what [`crate::violations`]
    /// checks.
    fn spec(&self) -> ToolSpec;

    /// Which values its bodies give, and how the model is shown one (L-53).
    fn output(&self) -> Output {
        Output::text()
    }

    /// When the registry gives up on a call: it sets the signal, waits for the body, and reports a
    /// time-out (L-56).
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether a call with these valid arguments may overlap its neighbours (L-57).
    fn is_parallel(&self, _arguments: &Map<String, Value>) -> bool {
        false
    }

    /// Who carries it out; decides what the default of P-29 is. Built-in tools are known as such.
    fn kind(&self) -> ToolKind {
        ToolKind::Bridged { trusted_read_only: false }
    }

    /// Who carries out a call with these valid arguments, where that depends on them (P-29).
    fn kind_of(&self, _arguments: &Map<String, Value>) -> Option<ToolKind> {
        None
    }

    /// What a schema cannot say of arguments. Asked before anybody is asked about the call (P-19, P-30), and of
    /// arguments that are valid against the schema.
    fn check(&self, _arguments: &Map<String, Value>) -> Result<(), ToolError> {
        Ok(())
    }

    /// What finds out what its description says besides to one session; asked for once, when the tool is registered.
    fn addition(&self) -> Option<Addition> {
        None
    }

    /// Starts a call. The arguments have been validated against the schema, and checked.
    fn run(&self, call: Call) -> Running;
}

/// One call with valid arguments.
#[derive(Debug)]
pub struct Call {
    /// Whose call it is.
    pub session: SessionId,
    /// The directory relative paths stand in; absolute.
    pub directory: PathBuf,
    /// Whether that is one of the session's own; otherwise it is the host's.
    pub has_directory: bool,
    /// Where the session's directory really stood when the session was given it (P-5).
    pub root: Option<PathBuf>,
    /// The model's name for this call.
    pub call_id: String,
    /// What it may do.
    pub access: Access,
    /// The mode that holds it back, if it is a shell command or a change of files and one does.
    pub confined: Option<Mode>,
    /// The session's jobs as its log has them.
    pub jobs: Arc<[JobRecord]>,
    /// Valid against the tool's schema.
    pub arguments: Map<String, Value>,
    /// Set when the call is to end early.
    pub abort: Abort,
    pub(crate) ticket: Ticket,
}

/// Why a tool has no result. The model sees `Error: <message>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// For the model.
    pub message: String,
    /// Name and code, where the harness itself refuses (L-55).
    pub code: Option<(&'static str, &'static str)>,
}

impl ToolError {
    /// An error without a code.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), code: None }
    }

    /// An error of the harness itself.
    pub fn coded(message: impl Into<String>, name: &'static str, code: &'static str) -> ToolError {
        ToolError { message: message.into(), code: Some((name, code)) }
    }

    /// The end of a call whose signal was set (L-49).
    pub fn aborted() -> ToolError {
        ToolError::coded("tool call aborted", "AbortError", "ABORTED")
    }

    /// A panic is logged here and nowhere else.
    pub(crate) fn bug(tool: &str, failure: &JoinError) -> ToolError {
        error!(tool, %failure, "a tool has a bug");
        ToolError::unfinished(tool)
    }

    /// A bug has ended the call; it has been reported.
    pub(crate) fn unfinished(tool: &str) -> ToolError {
        ToolError::new(format!("tool \"{tool}\" failed because of an error in this host"))
    }

    pub(crate) fn timed_out(after: Duration) -> ToolError {
        let message = format!("tool call timed out after {}ms", after.as_millis());
        ToolError::coded(message, "ToolTimeoutError", "TOOL_TIMEOUT")
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> ToolOutcome {
        ToolOutcome::error(&error.message, error.code)
    }
}

/// What a body gives, for its tool's contract to render.
pub(crate) fn given(value: Value) -> ToolOutcome {
    ToolOutcome { value: Some(Box::new(value)), content: Vec::new(), ..ToolOutcome::text("") }
}

impl Call {
    /// A string argument that the schema requires.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A string argument that must not be blank.
    pub(crate) fn filled_text(&self, name: &str) -> Result<&str, ToolError> {
        filled(&self.arguments, name)
    }

    pub(crate) fn optional_text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).and_then(Value::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.arguments.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// An integer argument within bounds, or the default.
    pub(crate) fn integer(&self, name: &str, default: u64, max: u64) -> Result<u64, ToolError> {
        // The schema has made sure that the number is whole; it may still be written as `3.0`.
        let Some(number) = self.arguments.get(name).and_then(Value::as_f64) else {
            return Ok(default);
        };
        if number < 1.0 {
            return Err(ToolError::new(format!("{name} must be greater than or equal to 1")));
        }
        if number > max as f64 {
            return Err(ToolError::new(format!("{name} must be less than or equal to {max}")));
        }
        Ok(number as u64)
    }

    /// An absolute path from an argument. Links and `..` are left to the file system (P-5).
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.directory.join(text).components().collect()
    }
}

/// A string argument that must not be blank.
pub(crate) fn filled<'a>(
    arguments: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a str, ToolError> {
    let text = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(ToolError::new(format!("invalid {name}: expected a non-empty string")));
    }
    Ok(text)
}

/// Adds `run_in_background` to a schema (P-69).
pub(crate) fn background(parameters: &mut Value, description: &str) {
    let properties = parameters.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties {
        let property = json!({ "type": "boolean", "description": description });
        properties.insert("run_in_background".to_owned(), property);
    }
}

/// Where there are no jobs, the schema does not speak of them, and so does not check either (P-69).
pub(crate) fn check_background(
    arguments: &Map<String, Value>,
    has_jobs: bool,
) -> Result<(), ToolError> {
    if !has_jobs && arguments.get("run_in_background") == Some(&Value::Bool(true)) {
        return Err(ToolError::new(
            "run_in_background is disabled for this deployment (enableRunInBackground: false)",
        ));
    }
    Ok(())
}

/// A sink whose first value is the answer, and where the answer comes. Whoever waits for it may be gone by then.
pub(crate) fn answer_once<T: Send>() -> (impl Fn(T) + Send + Sync, oneshot::Receiver<T>) {
    let (sender, answer) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let sink = move |value| {
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(sender.map(|sender| sender.send(value)));
    };
    (sink, answer)
}

/// Runs work on files away from the runtime's workers.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ToolError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            // Reported where all panics of tools are.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::aborted()),
        },
    }
}
