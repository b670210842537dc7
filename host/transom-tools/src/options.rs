//! What an operator decides about the built-in tools.

use std::path::PathBuf;

use tokio::runtime::Handle;
use transom_process::SpillLimits;

/// The names of the built-in tools.
pub const BUILT_IN: [&str; 6] = ["bash", "edit", "glob", "grep", "read", "write"];

/// How the built-in tools are set up.
#[derive(Debug, Clone)]
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
}

impl Options {
    /// All tools, with the limits of L-102.
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
            enabled: BUILT_IN.map(str::to_owned).to_vec(),
            directory: directory.into(),
            shell_timeout_ms: 120_000,
            search_timeout_ms: 30_000,
        }
    }
}
