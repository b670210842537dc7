//! Child processes for everybody who needs one: what they may know, how they are born, how their
//! output is kept within bounds, and how they end. What a child is for is decided elsewhere.
//!
//! The environment is an argument; nothing here reads the host's own.

mod capture;
mod command;
mod environment;
mod fork;
mod guard;
mod process;
mod spawner;
mod spill;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::{
    capture::{Capture, Captured},
    command::{Command, SpawnError, Stdin},
    environment::{Environment, is_withheld, scrub},
    process::{Exit, Process},
    spawner::Spawner,
    spill::{Spill, SpillDirectory, SpillLimits, Spilled},
    tree::{Ending, Tree},
};
pub use nix::sys::signal::Signal;
