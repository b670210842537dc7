//! What an operator decides about the built-in tools, and whom they reach.

use std::{fmt, path::PathBuf, sync::Arc};

use tokio::runtime::Handle;
use transom_frame::SessionId;
use transom_harness::{
    jobs::JobChange,
    ports::{Attachments, Children, Questions},
    subagents::Nature,
};
use transom_process::{Confinement, Confiner, Spawner, SpillLimits};

use crate::{judge::Permissions, providers::Providers};

/// The names of the built-in tools.
pub const BUILT_IN: [&str; 18] = [
    "ask_user_question",
    "bash",
    "edit",
    "glob",
    "grep",
    "interrupt_agent",
    "job_kill",
    "job_list",
    "job_output",
    "list_agents",
    "read",
    "read_image",
    "send_message",
    "skill",
    "str_replace_editor",
    "subagent",
    "todo_write",
    "write",
];

/// The tools that need nothing but a workspace.
const PLAIN: [&str; 6] = ["bash", "edit", "glob", "grep", "read", "write"];

/// Hears of jobs. May be called from any thread; must not block, and must not call the registry.
pub type JobSink = Arc<dyn Fn(SessionId, JobChange) + Send + Sync>;

/// Tells where a session's log is, if it is a file of lines (L-85).
pub type SessionLog = Arc<dyn Fn(&SessionId) -> Option<PathBuf> + Send + Sync>;

/// How many background jobs there may be (P-68).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Running or stopping at once, of one session.
    pub session_max: usize,
    /// Running or stopping at once, of the whole host.
    pub host_max: usize,
    /// Kept of one session after their end.
    pub ended_max: usize,
}

impl Default for JobLimits {
    fn default() -> JobLimits {
        JobLimits { session_max: 10, host_max: 256, ended_max: 100 }
    }
}

/// What the tool `subagent` offers (L-67, L-71).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delegating {
    /// A child of no kind outlives its task and takes further messages, unless a call waits for it (L-72).
    pub continuable: bool,
    /// The kinds of children that a call may name, in the order in which the model is told of them.
    pub kinds: Vec<SubagentKind>,
}

/// Children of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentKind {
    /// As a call gives it.
    pub name: String,
    /// For the model: when to use it.
    pub description: String,
    /// Who runs them.
    pub provider: String,
    /// What they are made with.
    pub nature: Nature,
}

/// How the built-in tools are set up.
#[derive(Clone)]
pub struct Options {
    /// Where calls run.
    pub runtime: Handle,
    /// The host's own environment, from which that of shells is made (L-83).
    pub environment: Vec<(String, String)>,
    /// Names that shells may see although they look secret (L-84).
    pub keep: Vec<String>,
    /// Variables that shells get besides, for example `DSH_HOME` (L-85).
    pub shell_variables: Vec<(String, String)>,
    /// Where output goes that is too long for the model.
    pub spill_directory: PathBuf,
    /// How much of it is kept.
    pub spill_limits: SpillLimits,
    /// The tools the model may call.
    pub enabled: Vec<String>,
    /// The directory of sessions that have none of their own; absolute.
    pub directory: PathBuf,
    /// Deadline of a shell command that names none.
    pub shell_timeout_ms: u64,
    /// Deadline of `glob` and `grep`.
    pub search_timeout_ms: u64,
    /// How long a body that was told to end may take before it is left alone (L-52).
    pub drain_ms: u64,
    /// Starts the children; without it the registry makes one of its own.
    pub spawner: Option<Spawner>,
    /// What confined calls may touch.
    pub confinement: Confinement,
    /// Confines shells; without it no confined shell runs unless a person allows it (P-60).
    pub confiner: Option<Confiner>,
    /// Rules, and what is confined; can be replaced while calls run.
    pub permissions: Permissions,
    /// Background jobs; without it nothing runs in the background.
    pub jobs: Option<JobLimits>,
    /// Hears of every change of a job, after the result of the call that began it.
    pub job_sink: Option<JobSink>,
    /// Who runs delegations; `subagent` needs them.
    pub subagents: Option<Providers>,
    /// What `subagent` may ask of them.
    pub delegation: Delegating,
    /// Carries words between sessions and the children that they keep; the tools for it need it.
    pub children: Option<Arc<dyn Children>>,
    /// Puts questions to people; `ask_user_question` needs it.
    pub questions: Option<Arc<dyn Questions>>,
    /// Where a session's log is.
    pub session_log: Option<SessionLog>,
    /// Keeps images; `read_image` needs it.
    pub attachments: Option<Arc<dyn Attachments>>,
    /// Directories of skills that are the user's own, beside those of the workspace; absolute.
    pub skills: Vec<PathBuf>,
}

impl Options {
    /// The tools that need nothing but a workspace, with the limits of L-102; no rules, nobody to ask, nothing
    /// confined.
    pub fn new(
        runtime: Handle,
        environment: Vec<(String, String)>,
        spill_directory: impl Into<PathBuf>,
        directory: impl Into<PathBuf>,
    ) -> Options {
        Options {
            runtime,
            environment,
            keep: Vec::new(),
            shell_variables: Vec::new(),
            spill_directory: spill_directory.into(),
            spill_limits: SpillLimits::default(),
            enabled: PLAIN.map(str::to_owned).to_vec(),
            directory: directory.into(),
            shell_timeout_ms: 120_000,
            search_timeout_ms: 30_000,
            drain_ms: 10_000,
            spawner: None,
            confinement: Confinement::default(),
            confiner: None,
            permissions: Permissions::default(),
            jobs: None,
            job_sink: None,
            subagents: None,
            delegation: Delegating::default(),
            children: None,
            questions: None,
            session_log: None,
            attachments: None,
            skills: Vec::new(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("Options")
            .field("enabled", &self.enabled)
            .field("directory", &self.directory)
            .field("confinement", &self.confinement)
            .field("permissions", &self.permissions)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}
