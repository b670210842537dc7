//! The workspace's own tooling: `cargo xtask run`, `test`, `ci` and their kin. What the host does is left to the host.
#![expect(clippy::print_stdout, reason = "a task talks to the person who started it")]
#![expect(unreachable_pub, reason = "a program exports nothing, so `pub` means its own modules")]

mod bench;
mod components;
mod machine;
mod phases;
mod run;
mod schema;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::{Profile, Workspace};

/// Tasks of this checkout.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the doors' components and prove that they import nothing.
    Components,
    /// Build everything and run the host with its built-in manifest and the scripted model.
    Run {
        /// Build without optimisation: sooner there, slower in use.
        #[arg(long)]
        dev: bool,
        /// What `transom run` gets.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Set everything up and run every test.
    Test {
        /// Run the slow tests too.
        #[arg(long)]
        slow: bool,
        /// Check format, lints and tidiness first, as CI does.
        #[arg(long)]
        ci: bool,
        /// What `cargo test` gets.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Everything CI checks: the same as `test --ci`.
    Ci {
        /// Run the slow tests too.
        #[arg(long)]
        slow: bool,
    },
    /// Check the rules that no compiler knows.
    Tidy,
    /// Measure codec calls, start, memory and turns, and print a table of ratios.
    Bench(bench::Options),
    /// Write the generated files, or say which are stale.
    Schema {
        /// Write nothing; fail when a file is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match perform(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<()> {
    let workspace = Workspace::here()?;
    match task {
        Task::Components => build_components(&workspace),
        Task::Run { dev, arguments } => {
            run::run(&workspace, if dev { Profile::Dev } else { Profile::Release }, &arguments)
        }
        Task::Test { slow, ci, arguments } => {
            test::test(&workspace, test::Extent { slow, ci }, &arguments)
        }
        Task::Ci { slow } => test::test(&workspace, test::Extent { slow, ci: true }, &[]),
        Task::Tidy => tidy::tidy(&workspace),
        Task::Bench(options) => bench::bench(&workspace, &options),
        Task::Schema { check } => schema::schema(&workspace, check),
    }
}

/// Builds the components and shows what came of it.
fn build_components(workspace: &Workspace) -> Result<()> {
    for built in components::build(&workspace.root, &mut |line| println!("{line}"))? {
        println!(
            "{}  {:>8} bytes  sha256:{}  {}",
            built.name,
            built.bytes,
            built.sha256,
            workspace.shown(&built.path)
        );
    }
    Ok(())
}
