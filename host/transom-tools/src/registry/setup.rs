//! How a registry is set up: which tools there are, and why there could be none. What it does afterwards is
//! `registry.rs`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use transom_process::{Spawner, SpillDirectory, scrub};

use super::{Registry, Shared};
use crate::{
    bash::Bash,
    child_tools::{ChildTool, What},
    edit::Edit,
    editor::Editor,
    fence::Fence,
    files::Files,
    glob::Glob,
    grep::Grep,
    job_tools::{JobKill, JobList, JobOutput},
    jobs::Jobs,
    options::{BUILT_IN, Options},
    question::AskUserQuestion,
    read::Read,
    read_image::{ReadImage, Sight},
    sessions::Sessions,
    shell::Shell,
    skill::{Shelf, Skill},
    subagent::Subagent,
    todo::TodoWrite,
    tool::Tool,
    write::Write,
};

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
    /// The operator enables a tool without what it works on.
    #[error("tool \"{name}\" needs {lack}, which this host does not have; do not enable it")]
    Lacking {
        /// The tool.
        name: String,
        /// What is not there.
        lack: &'static str,
    },
    /// Two tools of one name (L-53).
    #[error("tool \"{0}\" is already registered; give one of the two another name")]
    Duplicate(String),
    /// Two tools of one name that one session has of its own (L-53).
    #[error("tool \"{0}\" is already registered in this scope")]
    DuplicateInScope(String),
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
    /// What it gives could not be validated.
    #[error("the output of tool \"{name}\" uses \"{found}\", which is not checked; leave it out")]
    UnsupportedOutput {
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

/// What built-in tools are made of.
struct Parts {
    options: Options,
    shell: Arc<Shell>,
    jobs: Option<Jobs>,
    sight: Sight,
    shelf: Shelf,
    files: Files,
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
        let spawner = match options.spawner.clone() {
            Some(spawner) => spawner,
            None => Spawner::new(options.runtime.clone()).map_err(RegistryError::Spawner)?,
        };
        let fence = Fence::new(options.confinement.clone());
        let shell = Arc::new(Shell {
            spawner,
            spills: spills.clone(),
            environment: environment.variables,
            session_log: options.session_log.clone(),
            fence: fence.clone(),
            confiner: options.confiner.clone().into(),
        });
        let jobs = options.jobs.map(|limits| {
            let sink = options.job_sink.clone();
            Jobs::new(options.runtime.clone(), limits, sink, fence.clone())
        });
        let sight = Sight::default();
        let shelf = Shelf::new(fence.clone(), options.skills.clone(), options.directory.clone());
        let shared = Shared {
            runtime: options.runtime.clone(),
            fence: fence.clone(),
            directory: options.directory.clone(),
            sessions: Sessions::new(fence.clone()),
            spills,
            withheld: environment.withheld,
            drain: Duration::from_millis(options.drain_ms),
            shell: shell.clone(),
            jobs: jobs.clone(),
            sight: sight.clone(),
            permissions: Arc::new(options.permissions.clone()).into(),
            tools: Default::default(),
            scopes: Default::default(),
            children: options.children.clone(),
        };
        let registry = Registry { shared: Arc::new(shared) };
        let enabled = options.enabled.clone();
        let parts = Parts { options, shell, jobs, sight, shelf, files: Files::new(fence) };
        for name in &enabled {
            registry.add(parts.build(name)?, true)?;
        }
        Ok(registry)
    }
}

impl Parts {
    fn build(&self, name: &str) -> Result<Arc<dyn Tool>, RegistryError> {
        let search = Duration::from_millis(self.options.search_timeout_ms);
        let jobs = || self.jobs.clone().ok_or_else(|| lacking(name, "background jobs"));
        Ok(match name {
            "ask_user_question" => {
                let questions = self.options.questions.clone();
                let questions = questions.ok_or_else(|| lacking(name, "a way to ask people"))?;
                Arc::new(AskUserQuestion::new(questions))
            }
            "bash" => {
                let (shell, timeout) = (self.shell.clone(), self.options.shell_timeout_ms);
                Arc::new(Bash::new(shell, self.jobs.clone(), timeout))
            }
            "edit" => Arc::new(Edit::new(self.files.clone())),
            "glob" => Arc::new(Glob::new(self.files.clone(), search)),
            "grep" => Arc::new(Grep::new(self.files.clone(), search)),
            "job_kill" => Arc::new(JobKill { jobs: jobs()? }),
            "job_list" => Arc::new(JobList { jobs: jobs()? }),
            "job_output" => Arc::new(JobOutput { jobs: jobs()? }),
            "read" => Arc::new(Read::new(self.files.clone())),
            "read_image" => {
                let attachments = self.options.attachments.clone();
                let attachments =
                    attachments.ok_or_else(|| lacking(name, "a store for attachments"))?;
                Arc::new(ReadImage::new(self.files.clone(), attachments, self.sight.clone()))
            }
            "skill" => Arc::new(Skill::new(self.shelf.clone())),
            "str_replace_editor" => Arc::new(Editor::new(self.files.clone())),
            "subagent" => {
                let subagents = self.options.subagents.clone();
                let subagents = subagents.ok_or_else(|| lacking(name, "delegation"))?;
                let delegation = self.options.delegation.clone();
                Arc::new(Subagent::new(subagents, delegation, self.jobs.clone()))
            }
            "todo_write" => Arc::new(TodoWrite),
            "write" => Arc::new(Write::new(self.files.clone())),
            _ => {
                let what = What::for_parent(name).ok_or_else(|| unknown(name))?;
                let children = self.options.children.clone();
                let children = children
                    .ok_or_else(|| lacking(name, "subagents that take further messages"))?;
                Arc::new(ChildTool { children, what })
            }
        })
    }
}

fn lacking(name: &str, lack: &'static str) -> RegistryError {
    RegistryError::Lacking { name: name.to_owned(), lack }
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
