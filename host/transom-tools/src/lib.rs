//! The tools of a host: what the model is told of them, how a call is checked, bounded and ended,
//! and the six that are built in. Who may call what, and when, is the loop's business.
//!
//! Code here runs on the runtime it is given; work on files never runs on a worker of it.

mod abort;
mod bash;
mod edit;
mod files;
mod glob;
mod grep;
mod options;
mod page;
mod read;
mod registry;
mod schema;
mod search;
mod sessions;
#[cfg(test)]
mod tests;
mod tool;
mod write;

pub use crate::{
    abort::Abort,
    options::{BUILT_IN, Options},
    registry::{Registry, RegistryError},
    schema::{Root, decode, unsupported, violations},
    tool::{Call, Running, Tool, ToolError},
};
