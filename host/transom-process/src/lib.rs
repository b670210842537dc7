//! Child processes for everybody who needs one: what they may know, how they are born, how their
//! output is kept within bounds, and how they end. What a child is for is decided elsewhere.
//!
//! The environment is an argument; nothing here reads the host's own.

mod ancestry;
mod capture;
mod command;
mod confine;
mod environment;
mod fork;
mod guard;
mod host;
mod leftover;
mod mark;
mod own;
mod places;
mod priority;
mod process;
mod spawner;
mod spill;
mod stat;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::{
    ancestry::descends_from_here,
    capture::{Capture, Captured, Observer},
    command::{Command, Inherited, SpawnError, Stderr, Stdin},
    confine::{
        Confined, Confiner, Launcher, Profile, Verdict,
        denial::{denial, escalation, file_denied, network_denied},
        launch::{SUBCOMMAND, launch},
        network::SessionNetwork,
        plan::{LauncherFailed, Width},
        report::{Enforcement, Gap, Reach, Report},
    },
    environment::{Environment, is_secret, is_withheld, scrub},
    host::{adopt_orphans, end_descendants, protect_host},
    leftover::{Leftovers, Sweep, Swept, sweep},
    mark::{Mark, is_mark},
    own::OwnDirectory,
    places::{Confinement, Network, Places},
    priority::step_back,
    process::{Exit, Process},
    spawner::Spawner,
    spill::{Spill, SpillDirectory, SpillLimits, Spilled},
    tree::{Ending, Tree, end_all, end_asked, terminate_all},
};
pub use nix::sys::signal::Signal;
