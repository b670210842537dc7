//! The launcher: the host's own program, run again with a hidden subcommand, on its way to becoming a command (P-51).
//! It has one thread, does what its plan says in a fixed order, and either becomes the command or says why not.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Seek, Write},
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
};

use nix::sys::prctl::set_no_new_privs;

use crate::confine::{
    attempt, calls, capabilities, files, mounts, namespaces,
    plan::{LauncherFailed, Plan, Task},
    system,
};

/// The hidden subcommand that a launcher is started with.
pub const SUBCOMMAND: &str = "__confine";

/// How a launcher ends that has not become its command.
const EXIT_FAILED: u8 = 125;

/// What a holder of a network says when it can be looked at.
pub(crate) const READY: &str = "ready";

/// Plays the launcher, given the arguments after [`SUBCOMMAND`]. Must be called before the program starts a thread
/// or opens anything. Returns the exit status if this process does not become a command.
pub fn launch(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut arguments = arguments.into_iter();
    let numbers = (number(arguments.next()), number(arguments.next()));
    let (Some(plan), Some(verdict)) = numbers else { return misused() };
    let Ok(verdict) = system::adopt(verdict) else { return misused() };
    let mut verdict = File::from(verdict);
    match run(plan, &mut verdict, arguments) {
        Ok(()) => 0,
        Err(failed) => {
            let text = serde_json::to_string(&failed).unwrap_or_else(|_| failed.to_string());
            // Whoever does not listen any more will see the exit status.
            let _ = verdict.write_all(text.as_bytes());
            EXIT_FAILED
        }
    }
}

fn number(argument: Option<OsString>) -> Option<RawFd> {
    argument?.to_str()?.parse().ok()
}

/// Nobody but the host starts this, and the host passes what is needed.
fn misused() -> u8 {
    let _ = writeln!(io::stderr(), "transom: {SUBCOMMAND} is not meant to be called");
    EXIT_FAILED
}

fn run(
    plan: RawFd,
    verdict: &mut File,
    mut command: impl Iterator<Item = OsString>,
) -> Result<(), LauncherFailed> {
    let plan = read(plan).map_err(|error| failed("profile", &error))?;
    match &plan.task {
        Task::Run => {
            apply(&plan)?;
            let program = command.next().unwrap_or_default();
            // Returns only on failure.
            Err(failed("exec", &exec(&program, command)))
        }
        Task::Network => {
            namespaces::make_network(plan.user).map_err(|error| failed("namespaces", &error))?;
            verdict.write_all(READY.as_bytes()).map_err(|error| failed("profile", &error))?;
            // Ends when the host has taken hold of the network, or has ended.
            io::copy(&mut io::stdin(), &mut io::sink())
                .map_err(|error| failed("profile", &error))?;
            Ok(())
        }
        Task::Try(attempts) => {
            apply(&plan)?;
            let results: Vec<i32> = attempts.iter().map(attempt::errno).collect();
            let text = serde_json::to_string(&results)
                .map_err(|error| failed("profile", &error.into()))?;
            verdict.write_all(text.as_bytes()).map_err(|error| failed("profile", &error))
        }
    }
}

fn read(plan: RawFd) -> io::Result<Plan> {
    let mut file = File::from(system::adopt(plan)?);
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// The order matters: each step needs what the later ones take away.
fn apply(plan: &Plan) -> Result<(), LauncherFailed> {
    let stage = |name: &'static str| move |error: io::Error| failed(name, &error);
    namespaces::enter(plan).map_err(stage("namespaces"))?;
    if plan.mounts {
        mounts::build(plan).map_err(stage("mounts"))?;
    }
    capabilities::give_up().map_err(stage("capabilities"))?;
    set_no_new_privs().map_err(|error| failed("capabilities", &error.into()))?;
    files::restrict(plan).map_err(stage("landlock"))?;
    if plan.seccomp {
        calls::restrict(plan).map_err(stage("seccomp"))?;
    }
    Ok(())
}

fn exec(program: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Error {
    // Environment, directory and standard descriptors are the command's already. The library undoes what Rust
    // changed about signals at the start of this program.
    Command::new(program).args(arguments).exec()
}

fn failed(stage: &str, error: &io::Error) -> LauncherFailed {
    LauncherFailed { stage: stage.to_owned(), error: error.to_string() }
}
