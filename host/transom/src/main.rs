//! The program: reads arguments, environment and configuration files, and starts what they ask for.
//! What a host is made of stands in the crates beside this one.

mod agents;
mod background;
mod bundle;
mod candidate;
mod check;
mod chosen;
mod cli;
mod confine;
mod deployment;
mod doors;
mod embedded;
mod ending;
mod environment;
mod export;
mod governance;
mod hooks;
mod launch;
mod live;
mod lock;
mod operator;
#[cfg(any(feature = "otlp", test))]
mod otlp;
mod permissions;
mod pin;
#[expect(clippy::indexing_slicing, reason = "a JSON value answers a missing member with null")]
mod prompt;
mod remote;
mod run;
mod signature;
mod stdio;
mod storage;
mod subagents;
mod telemetry;
mod tooling;

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    environment::Environment,
};

/// How long the system may take to end what is left when the program ends.
const LEFT_PATIENCE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // First of all: a launcher must have one thread, and every command waits for it.
    if let Some(status) = confine::play() {
        return status;
    }
    let ended = program();
    // Whatever commands have left behind ends with the host, however it was hidden.
    transom_process::end_descendants(LEFT_PATIENCE);
    match ended {
        Ok(status) => ExitCode::from(status),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn program() -> anyhow::Result<u8> {
    // Other processes of this user, shells of the model among them, must not read the environment, and with
    // it the key, from /proc. Where that cannot be had the program runs all the same.
    if let Err(error) = transom_process::protect_host() {
        let _ = writeln!(
            io::stderr(),
            "transom: other processes of this user can read the memory of this one, and the keys in it: {error}"
        );
    }
    let environment = Environment::of_process()?;
    let log = telemetry::start(&environment)?;
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    // Subcommands first; everything else is a launch form (decision 51).
    if !arguments.first().is_some_and(|first| cli::owns(first)) {
        if let Some((found, meant)) = arguments.first().and_then(|first| cli::misspelt(first)) {
            anyhow::bail!("usage: there is no command {found:?}; did you mean {meant:?}?");
        }
        return launch::run(&arguments, &environment);
    }
    match Cli::parse().command {
        Command::Run(command) => run::run(&command, &environment, &log),
        Command::Stdio(command) => stdio::run(&command, &environment),
        Command::Prompt(command) => prompt::run(&command, &environment),
        Command::Export(command) => export::session(&command, &environment),
        Command::Permissions(command) => permissions::run(&command, &environment),
        Command::Status(command) => remote::status(&command, &environment),
        Command::Connections(command) => remote::connections(&command, &environment),
        Command::Swap(command) => remote::swap(&command, &environment),
        Command::Rollback(command) => remote::rollback(&command, &environment),
        Command::Drain(command) => remote::drain(&command, &environment),
        Command::Reload(command) => remote::reload(&command, &environment),
        Command::Log(command) => remote::log(&command, &environment),
        Command::Jobs(command) => remote::jobs(&command, &environment),
        Command::Inspect(command) => export::inspect(&command),
        Command::Check(command) => check::run(&command, &environment),
        Command::Pin(command) => pin::run(&command, &environment),
        Command::Bundle(command) => bundle::run(&command),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// One complaint on standard error: `transom: what: why: why`. A complaint of several lines keeps them.
/// The exit status tells even where nobody takes the words.
fn complain(error: &anyhow::Error) {
    let chain: Vec<_> = error.chain().map(ToString::to_string).collect();
    let text = chain.join(": ");
    let name = if text.starts_with("usage:") { "" } else { "transom: " };
    let _ = writeln!(io::stderr(), "{name}{text}");
}
