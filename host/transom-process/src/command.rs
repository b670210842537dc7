//! What to run, checked before anything is forked. How it is forked is `fork.rs` and `spawner.rs`.

use std::{
    fmt, io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
};

use crate::{fork, host::bear, mark::Mark};

/// What a child reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdin {
    /// Nothing: end of input at once.
    #[default]
    Null,
    /// A pipe whose other end is `Process::stdin`.
    Piped,
}

/// Where a child's error output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stderr {
    /// A pipe whose other end is `Process::stderr`.
    #[default]
    Piped,
    /// Where this host's own goes.
    Inherited,
}

/// A child to be. Its standard output is always a pipe.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// An absolute path, or a bare name that is looked up in the child's own `PATH` (L-85).
    pub program: String,
    /// Arguments after the program's name.
    pub arguments: Vec<String>,
    /// Where it runs; the host's own directory if absent.
    pub directory: Option<PathBuf>,
    /// The whole environment: nothing is inherited besides.
    pub environment: Vec<(String, String)>,
    /// What it reads from.
    pub stdin: Stdin,
    /// Where its error output goes.
    pub stderr: Stderr,
    /// What it has open besides input, output and error.
    pub inherited: Inherited,
    /// By what it and its descendants can be told.
    pub mark: Option<Mark>,
}

/// Descriptors that a child has under the numbers they have here. They stay open here as long as this does.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    passed: Vec<Arc<OwnedFd>>,
    /// Needed until the child runs, and not by it.
    held: Vec<Arc<OwnedFd>>,
}

impl Inherited {
    /// Passes on one more.
    pub fn push(&mut self, descriptor: Arc<OwnedFd>) {
        self.passed.push(descriptor);
    }

    /// Keeps one open here that is not passed on.
    pub(crate) fn hold(&mut self, descriptor: Arc<OwnedFd>) {
        self.held.push(descriptor);
    }

    fn numbers(&self) -> Vec<RawFd> {
        self.passed.iter().map(|descriptor| descriptor.as_raw_fd()).collect()
    }
}

/// By number: what is open at the same time has different ones.
impl PartialEq for Inherited {
    fn eq(&self, other: &Inherited) -> bool {
        self.numbers() == other.numbers()
    }
}

impl Eq for Inherited {}

/// Why a child could not be born.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The program has no name.
    #[error("no executable is named; give an absolute path or a bare name")]
    NoProgram,
    /// The program is a path that would mean something else in every directory (L-85).
    #[error("executable \"{0}\" is a relative path; give an absolute path or a bare name")]
    RelativeProgram(String),
    /// The working directory is missing, or is something else.
    #[error("working directory \"{0}\" is not an existing directory")]
    NoDirectory(String),
    /// No such program, at that path or in the child's `PATH`.
    #[error("executable \"{0}\" was not found")]
    NotFound(String),
    /// The system refused.
    #[error("cannot run \"{program}\": {message}")]
    Refused {
        /// As in [`Command::program`].
        program: String,
        /// What the system said.
        message: String,
    },
    /// More children were asked for at once than can wait to be born.
    #[error("{0} children are waiting to be started; retry later")]
    Overloaded(usize),
    /// The thread that gives birth has ended, which it does only with its process.
    #[error("no children are started any more")]
    Closed,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of variables the names only: values may be secrets.
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("directory", &self.directory)
            .field("environment", &names)
            .field("stdin", &self.stdin)
            .field("stderr", &self.stderr)
            .field("inherited", &self.inherited)
            .field("mark", &self.mark)
            .finish()
    }
}

impl Command {
    /// A command without arguments, directory, environment or input.
    pub fn new(program: impl Into<String>) -> Command {
        Command { program: program.into(), ..Command::default() }
    }

    pub(crate) fn check(&self) -> Result<(), SpawnError> {
        if self.program.is_empty() {
            return Err(SpawnError::NoProgram);
        }
        if self.program.contains('/') && !self.program.starts_with('/') {
            return Err(SpawnError::RelativeProgram(self.program.clone()));
        }
        // Checked apart, because the system says "not found" for a missing program, too.
        match &self.directory {
            Some(directory) if !directory.is_dir() => {
                Err(SpawnError::NoDirectory(directory.display().to_string()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Starts the child from the calling thread, with whose end it dies (`fork.rs`). It announces itself at
    /// `ear` first, and carries `mark`, that of the run, besides its own.
    pub(crate) fn start(
        &self,
        ear: Option<RawFd>,
        mark: Option<(&str, &str)>,
    ) -> Result<tokio::process::Child, SpawnError> {
        self.check()?;
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Last, so that nothing else can stand for it.
        command.envs(mark).envs(self.mark.as_ref().map(Mark::variable));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(match self.stdin {
            Stdin::Null => Stdio::null(),
            Stdin::Piped => Stdio::piped(),
        });
        command.stdout(Stdio::piped());
        command.stderr(match self.stderr {
            Stderr::Piped => Stdio::piped(),
            Stderr::Inherited => Stdio::inherit(),
        });
        fork::lead_session(&mut command);
        fork::die_with_parent(&mut command);
        fork::keep_only(&mut command, self.inherited.numbers());
        if let Some(ear) = ear {
            fork::announce(&mut command, ear);
        }
        let mut command = tokio::process::Command::from(command);
        bear(|| command.spawn(), tokio::process::Child::id).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> SpawnError {
        match error.kind() {
            io::ErrorKind::NotFound => SpawnError::NotFound(self.program.clone()),
            _ => SpawnError::Refused { program: self.program.clone(), message: error.to_string() },
        }
    }
}
