//! The command lines under which published clients start a runtime, and what they ask of this one.
//! Form A is a configuration file of the reference (S-203, S-206), form B a profile with patches (S-204).
//!
//! Both come to a [`Launch`]: facts for the program, and notices of what was asked for and is not here,
//! which belong on stderr. Starting anything is the program's.

mod arguments;
mod compose;
mod entries;
mod expression;
mod packages;
mod profiles;
mod variables;
mod yaml;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use variables::Variables;

pub use arguments::{Invocation, UsageError, invocation};
pub use variables::permission_mode;

use crate::error::{ConfigErrors, utf8};

/// What the program lets a launch see.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The process environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The process directory; absolute.
    pub directory: &'a Path,
    /// Reads a file.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// What a launch asks for, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The configuration file, or `profile <name>`: for logs.
    pub composition: String,
    /// Whether anybody answers on stdin and stdout; without, the process only waits for the end of its
    /// input (S-141).
    pub serves_sdk: bool,
    /// The ACP server, where it is the one that answers there.
    pub acp: Option<AcpServer>,
    /// A subagent that ends at its token limit has succeeded (S-119).
    pub max_tokens_as_success: bool,
    /// Whether an entry keeps attachments. Without, images of prompts cannot be kept (S-58).
    pub attachments: bool,
    /// Built-in tools that the model is offered, sorted.
    pub tools: Vec<&'static str>,
    /// Whether tools work in the background: `run_in_background` is in the schemas, and there may be job tools
    /// among `tools`. Without, neither is (P-69, P-83).
    pub jobs: bool,
    /// Deadline of a shell command that names none (P-85).
    pub shell_timeout_ms: u64,
    /// How deep sessions may delegate to further sessions; 0 forbids it (L-67).
    pub subagent_depth_max: u64,
    /// Whether children take further messages (L-72, L-103).
    pub subagents_continuable: bool,
    /// Where sessions are kept. `None`: nowhere.
    pub sessions: Option<Sessions>,
    /// Workspace of shell and file tools where a session names none; absolute.
    pub workspace: PathBuf,
    /// Models.
    pub model: LaunchModel,
    /// The persona section of the system prompt.
    pub system_prompt: Option<String>,
    /// Whether the system prompt begins by naming the harness (L-95).
    pub names_harness: bool,
    /// Whether changing values are told to the model (L-96). Without, the host tells it no runtime context.
    pub runtime_context: bool,
    /// Bytes of workspace instructions that the composition lets into the prompt. No program reads them so far,
    /// which is among `notices`.
    pub workspace_instructions_bytes_max: Option<u64>,
    /// What tools may do: what the composition says, else full access in form A, and in form B and for the ACP server
    /// what `DSH_PERMISSION_MODE` says, else `workspace-write` (P-8).
    pub permission_mode: PermissionMode,
    /// The environment, with what `.env` adds (S-142).
    pub environment: BTreeMap<String, String>,
    /// What was asked for and is not here, one short line each, for stderr (S-215, decision 37).
    pub notices: Vec<String>,
}

/// What a composition says of its ACP server. What it leaves out is the host's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AcpServer {
    /// The provider of every session.
    pub provider: Option<String>,
    /// The model of every session.
    pub model: Option<String>,
}

/// Where and how sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sessions {
    /// One JSON-lines log for each session below `root`, compressed or not (L-75, L-76).
    JsonLines {
        /// Absolute.
        root: PathBuf,
        /// Zstandard frames.
        compressed: bool,
    },
    /// One database.
    Sqlite {
        /// Absolute.
        path: PathBuf,
    },
}

/// What a launch says of models. `initialize` of the SDK wire may say otherwise for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchModel {
    /// Whether an entry asks for the DeepSeek adapter. Without, no provider answers to its name.
    pub has_adapter: bool,
    /// The model where a request names none.
    pub model: Option<String>,
    /// Base of the endpoint; `DEEPSEEK_BASE_URL` otherwise (S-207).
    pub base_url: Option<String>,
    /// The variable that holds the key; looked at when a request is made, not at start (S-207).
    pub key_variable: String,
    /// Tokens that fit into one request and its answer.
    pub context_window: Option<u64>,
    /// Output cap in tokens. The program applies it where a request names none; the reference logs it as a default
    /// of the adapter.
    pub max_tokens: Option<u64>,
    /// How hard the model is to think: `off`, `high` or `max`. Applied and logged like `max_tokens`.
    pub reasoning_effort: Option<String>,
}

/// What tools may do (S-208, P-1). The order is that of width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionMode {
    /// Nothing is written.
    ReadOnly,
    /// Only the workspace is written.
    WorkspaceWrite,
    /// No bounds.
    DangerFullAccess,
}

impl PermissionMode {
    /// All of them, the narrowest first.
    pub const ALL: [PermissionMode; 3] = [
        PermissionMode::ReadOnly,
        PermissionMode::WorkspaceWrite,
        PermissionMode::DangerFullAccess,
    ];

    /// The name, as `DSH_PERMISSION_MODE` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PermissionMode::ReadOnly => "read-only",
            PermissionMode::WorkspaceWrite => "workspace-write",
            PermissionMode::DangerFullAccess => "danger-full-access",
        }
    }
}

/// Why a launch is refused. The process says it on stderr, writes nothing on stdout and exits with 1 (S-137).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The command line names no configuration that is there.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The configuration cannot be obeyed.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
}

/// Bytes of a configuration or patch: thousands of times the shipped ones.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Looks at a command line that is no subcommand's: form A or form B (decision 51).
///
/// `Version` and `Help` are answered by the program and are no launch.
pub fn launch(
    invocation: &Invocation,
    surroundings: Surroundings<'_>,
) -> Result<Launch, LaunchError> {
    match invocation {
        Invocation::Configuration { argument } => form_a(argument.as_deref(), surroundings),
        Invocation::Profile { name, patches } => profiles::launch(name, patches, surroundings),
        Invocation::Version | Invocation::Help => Err(UsageError::nothing_named().into()),
    }
}

/// Form A (S-203): the file is named by `DSH_CORDIS_CONFIG`, else by the argument.
fn form_a(argument: Option<&str>, surroundings: Surroundings<'_>) -> Result<Launch, LaunchError> {
    let Variables { configuration: environment, process, notices } =
        variables::with_file(surroundings);
    let surroundings = Surroundings { environment: &environment, ..surroundings };
    let wanted = permission_mode(&environment)?;

    let named = [environment.get("DSH_CORDIS_CONFIG").map(String::as_str), argument];
    let Some(named) = named.into_iter().flatten().find(|name| !name.is_empty()) else {
        return Err(UsageError::nothing_named().into());
    };
    let path = surroundings.directory.join(named);
    let text = match read(&path, surroundings) {
        Ok(text) => text,
        Err(ReadError::Missing) => return Err(UsageError::missing(named).into()),
        Err(ReadError::Config(errors)) => return Err(errors.into()),
    };
    let entries = entries::entries(&path, &text)?;
    let mut launch =
        compose::compose(&path.display().to_string(), &entries, surroundings, Layout::FormA)?;
    launch.notices.splice(0..0, notices);
    unheeded(&mut launch, wanted);
    launch.environment = process;
    Ok(launch)
}

/// Says that a composition acts under another mode than the variable names: whoever set it believes in a bound.
fn unheeded(launch: &mut Launch, wanted: Option<PermissionMode>) {
    let Some(wanted) = wanted.filter(|wanted| *wanted != launch.permission_mode) else { return };
    launch.notices.push(format!(
        "this composition does not ask for DSH_PERMISSION_MODE, which is {}: tools act under {}",
        wanted.as_str(),
        launch.permission_mode.as_str()
    ));
}

/// What differs between the forms where a composition says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout<'a> {
    FormA,
    FormB {
        /// The directory of `DSH_HOME`.
        home: &'a Path,
        /// What tools may do (P-8).
        mode: PermissionMode,
    },
}

enum ReadError {
    Missing,
    Config(ConfigErrors),
}

fn read(path: &Path, surroundings: Surroundings<'_>) -> Result<String, ReadError> {
    let bytes = (surroundings.read)(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Config(ConfigErrors::unreadable(path, &error)),
    })?;
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("has {} bytes; {FILE_BYTES_MAX} are read at most", bytes.len());
        return Err(ReadError::Config(ConfigErrors::whole(path, message)));
    }
    utf8(path, &bytes).map(str::to_owned).map_err(ReadError::Config)
}

#[cfg(test)]
mod tests;
