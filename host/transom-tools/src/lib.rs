//! The tools of a host: what the model is told of them, how a call is checked, bounded and ended,
//! and those that are built in. Who is asked, and when a call is made, is the loop's business.
//!
//! Code here runs on the runtime it is given; work on files never runs on a worker of it.

mod abort;
mod bash;
mod change;
mod child_tools;
mod edit;
mod editor;
mod fence;
mod files;
mod glob;
mod grep;
mod hooks;
mod job_tools;
mod jobs;
mod judge;
mod options;
mod output;
mod page;
mod providers;
mod question;
mod read;
mod read_image;
mod registry;
mod report;
mod schema;
mod search;
mod sessions;
mod shell;
mod skill;
mod subagent;
#[cfg(test)]
mod tests;
mod todo;
mod tool;
mod write;

pub use crate::{
    abort::Abort,
    fence::Fence,
    hooks::{HookEvent, HookProgram, ProgramHooks},
    job_tools::{JOBS_PROMPT, JOBS_PROMPT_ORDER},
    jobs::KillError,
    judge::{Explanation, Permissions},
    options::{BUILT_IN, Delegating, JobLimits, JobSink, Options, SessionLog, SubagentKind},
    output::Output,
    providers::{IN_PROCESS, ProviderError, Providers},
    registry::{Registry, RegistryError},
    schema::{Root, decode, unsupported, violations},
    tool::{Addition, Call, Running, Tool, ToolError},
};
