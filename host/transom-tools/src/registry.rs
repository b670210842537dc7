//! The registry: names to tools, and the fixed course of every call (L-53 to L-57, L-49). Decisions
//! about permission come before it, results go where the caller says.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use serde_json::Value;
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};
use tracing::{error, warn};
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    ports::{Judgement, Sink, Stop, ToolCall, ToolOutcome, ToolSpec, Tools},
};
use transom_process::{Spawner, SpillDirectory, scrub};

use crate::{
    abort::AbortSource,
    bash::Bash,
    edit::Edit,
    files::Files,
    glob::Glob,
    grep::Grep,
    options::{BUILT_IN, Options},
    read::Read,
    schema::{Root, decode, unsupported, violations},
    sessions::Sessions,
    tool::{Call, Tool, ToolError},
    write::Write,
};

/// Length of a tool's name; providers refuse longer ones.
const NAME_BYTES_MAX: usize = 64;

/// Kept for a tool that runs tools.
const RESERVED: &str = "run_code";

/// Text of one result. Twice the shell's tails, even if every byte of them became a replacement
/// character, fits; a tool that returns more has no bound of its own.
const RESULT_BYTES_MAX: usize = 512 << 10;

/// How long a body that was told to end may take before it is left alone (L-52).
const DRAIN: Duration = Duration::from_secs(10);

/// Why tools could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The operator enables a tool that does not exist.
    #[error("unknown tool \"{name}\"; {hint}")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// The nearest known name, or all of them.
        hint: String,
    },
    /// Two tools of one name (L-53).
    #[error("tool \"{0}\" is already registered; give one of the two another name")]
    Duplicate(String),
    /// A name that providers would refuse (L-53).
    #[error("tool name \"{0}\" is invalid; use 1 to 64 of the characters A-Z, a-z, 0-9, _ and -")]
    InvalidName(String),
    /// A name that is kept for something else (L-53).
    #[error("tool name \"{0}\" is reserved")]
    ReservedName(String),
    /// The arguments could not be validated.
    #[error(
        "the parameters of tool \"{name}\" use \"{found}\", which is not checked; leave it out"
    )]
    UnsupportedSchema {
        /// The tool.
        name: String,
        /// The first offending keyword.
        found: String,
    },
    /// Output has no place to go.
    #[error("spill directory \"{path}\" cannot be used")]
    SpillDirectory {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The thread that starts children could not be started.
    #[error("the thread that starts children cannot be started")]
    Spawner(#[source] std::io::Error),
}

/// The tools of a host. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Handle,
    directory: PathBuf,
    sessions: Sessions,
    spills: SpillDirectory,
    withheld: Vec<String>,
    tools: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<String, Entry>,
    specs: Arc<[ToolSpec]>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    parameters: Arc<Value>,
}

impl Registry {
    /// A registry with the enabled built-in tools.
    pub fn new(options: Options) -> Result<Registry, RegistryError> {
        let spills = SpillDirectory::create(&options.spill_directory, options.spill_limits)
            .map_err(|source| RegistryError::SpillDirectory {
                path: options.spill_directory.clone(),
                source,
            })?;
        let explicit =
            options.shell_variables.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        let environment = scrub(&options.environment, &options.keep, &explicit.collect::<Vec<_>>());
        let shared = Shared {
            runtime: options.runtime.clone(),
            directory: options.directory.clone(),
            sessions: Sessions::default(),
            spills: spills.clone(),
            withheld: environment.withheld,
            tools: RwLock::default(),
        };
        let registry = Registry { shared: Arc::new(shared) };

        let files = Files::default();
        let search = Duration::from_millis(options.search_timeout_ms);
        for name in &options.enabled {
            let tool: Arc<dyn Tool> = match name.as_str() {
                "bash" => {
                    let spawner =
                        Spawner::new(options.runtime.clone()).map_err(RegistryError::Spawner)?;
                    let timeout = options.shell_timeout_ms;
                    Arc::new(Bash::new(
                        spawner,
                        spills.clone(),
                        environment.variables.clone(),
                        timeout,
                    ))
                }
                "edit" => Arc::new(Edit::new(files.clone())),
                "glob" => Arc::new(Glob::new(search)),
                "grep" => Arc::new(Grep::new(search)),
                "read" => Arc::new(Read),
                "write" => Arc::new(Write::new(files.clone())),
                _ => return Err(unknown(name)),
            };
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// Adds a tool.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
            return Err(RegistryError::InvalidName(name));
        }
        if name == RESERVED {
            return Err(RegistryError::ReservedName(name));
        }
        if let Some(found) = unsupported(&spec.parameters) {
            return Err(RegistryError::UnsupportedSchema { name, found });
        }
        let mut table = self.shared.tools.write().unwrap_or_else(PoisonError::into_inner);
        if table.entries.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        let entry = Entry { tool, parameters: Arc::new(spec.parameters.clone()) };
        table.entries.insert(name, entry);
        // Names are ASCII, so byte order is code unit order (L-95).
        let mut specs = table.specs.to_vec();
        specs.push(spec);
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        table.specs = specs.into();
        Ok(())
    }

    /// Names of the host's variables that shells do not get; never values.
    pub fn withheld(&self) -> &[String] {
        &self.shared.withheld
    }

    fn find(&self, name: &str) -> Option<Entry> {
        let table = self.shared.tools.read().unwrap_or_else(PoisonError::into_inner);
        table.entries.get(name).cloned()
    }
}

impl Tools for Registry {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.shared.tools.read().unwrap_or_else(PoisonError::into_inner).specs.clone()
    }

    fn is_parallel(&self, name: &str, arguments: &str) -> bool {
        let Some(entry) = self.find(name) else { return false };
        match decode(arguments) {
            Value::Object(members) => {
                let arguments = Value::Object(members);
                violations(&entry.parameters, &arguments, Root::Arguments).is_empty()
                    && arguments
                        .as_object()
                        .is_some_and(|arguments| entry.tool.is_parallel(arguments))
            }
            _ => false,
        }
    }

    fn judge(&self, _call: ToolCall, sink: Sink<Judgement>) {
        sink(Judgement::Run);
    }

    fn call(&self, call: ToolCall, sink: Sink<ToolOutcome>) -> Box<dyn Stop> {
        let source = AbortSource::new();
        let stop = Box::new(Stopper(source.clone()));
        let registry = self.clone();
        self.shared.runtime.spawn(async move {
            let outcome = registry.perform(call, source).await.unwrap_or_else(ToolOutcome::from);
            sink(bounded(outcome));
        });
        stop
    }

    fn forget(&self, session: &SessionId) {
        let spills = self.shared.sessions.forget(session);
        remove(&self.shared.spills, spills);
    }

    fn terminate(&self, session: &SessionId, kill_after_ms: u64) {
        let grace = Duration::from_millis(kill_after_ms);
        self.shared.sessions.terminate(&self.shared.runtime, session, grace);
    }
}

impl Registry {
    async fn perform(&self, call: ToolCall, source: AbortSource) -> Result<ToolOutcome, ToolError> {
        let Some(Entry { tool, parameters }) = self.find(&call.name) else {
            let message = format!("unknown tool \"{}\"", call.name);
            return Err(ToolError::coded(message, "ToolNotFoundError", "UNKNOWN_TOOL"));
        };
        let arguments = decode(&call.arguments);
        let found = violations(&parameters, &arguments, Root::Arguments);
        let arguments = match arguments {
            Value::Object(members) if found.is_empty() => members,
            _ => {
                let message = format!("invalid arguments: {}", found.join("; "));
                return Err(ToolError::coded(message, "ToolArgsError", "INVALID_ARGS"));
            }
        };

        let abort = source.signal();
        let call = Call {
            directory: call.cwd.map_or_else(|| self.shared.directory.clone(), PathBuf::from),
            call_id: call.call_id,
            access: call.access,
            jobs: call.jobs,
            arguments,
            abort: abort.clone(),
            ticket: self.shared.sessions.begin(&call.session, source.clone()),
            session: call.session,
        };
        if abort.is_set() {
            return Err(ToolError::aborted());
        }
        let name = tool.spec().name;
        let deadline = tool.timeout();
        // A task of its own, so that a panic ends there.
        let mut body = self.shared.runtime.spawn(async move { tool.run(call).await });

        let timed_out = tokio::select! {
            biased;
            result = &mut body => return settled(&name, result, abort.is_set()),
            () = abort.set() => None,
            after = passed(deadline) => Some(after),
        };
        source.abort();
        let drained = drain(&name, body).await;
        match timed_out {
            Some(after) => Err(ToolError::timed_out(after)),
            None => drained
                .map_or_else(|| Err(ToolError::aborted()), |result| settled(&name, result, true)),
        }
    }
}

type Joined = Result<Result<ToolOutcome, ToolError>, tokio::task::JoinError>;

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
async fn drain(name: &str, mut body: JoinHandle<Result<ToolOutcome, ToolError>>) -> Option<Joined> {
    match timeout(DRAIN, &mut body).await {
        Ok(joined) => Some(joined),
        Err(_) => {
            warn!(tool = name, "a tool does not end and is left alone");
            body.abort();
            None
        }
    }
}

/// A success that comes after the abort is none; a failure keeps its text (L-49).
fn settled(name: &str, joined: Joined, aborted: bool) -> Result<ToolOutcome, ToolError> {
    match joined {
        Ok(Ok(outcome)) if aborted && !outcome.is_error => Err(ToolError::aborted()),
        Ok(result) => result,
        Err(failure) => {
            error!(tool = name, %failure, "a tool has a bug");
            Err(ToolError::new(format!("tool \"{name}\" failed because of an error in this host")))
        }
    }
}

/// Cuts a result that is longer than any tool's own bounds allow.
fn bounded(mut outcome: ToolOutcome) -> ToolOutcome {
    let mut room = RESULT_BYTES_MAX;
    for block in &mut outcome.content {
        let Block::Text { text } = block else { continue };
        if text.len() > room {
            let end = text.floor_char_boundary(room);
            let cut = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[result cut here: {cut} more bytes were left out]"));
            room = 0;
        } else {
            room -= text.len();
        }
    }
    outcome
}

fn unknown(name: &str) -> RegistryError {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let nearest = BUILT_IN.into_iter().min_by_key(distance).filter(|known| distance(known) <= 2);
    let hint = match nearest {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => format!("known are {}", BUILT_IN.join(", ")),
    };
    RegistryError::UnknownTool { name: name.to_owned(), hint }
}

fn remove(spills: &SpillDirectory, paths: impl IntoIterator<Item = impl AsRef<Path>>) {
    for path in paths {
        spills.remove(path.as_ref());
    }
}

struct Stopper(AbortSource);

impl Stop for Stopper {
    fn stop(&self) {
        self.0.abort();
    }
}
