//! Everything there is to check, in the order in which a mistake shows soonest. How a test works is left to the tests.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use anyhow::{Context, Result, bail};

use crate::{
    build_components, components, machine,
    phases::Phases,
    schema, tidy,
    workspace::{Profile, Workspace, perform},
};

/// Builds for no machine but the sandbox: hostile guests that would not link natively.
const PROGRAMS: &str = "transom-programs";

/// What `cargo xtask bench` turns on by itself: here it costs nothing, as the sandbox is compiled anyway.
const BENCH: &str = "xtask/codec-bench";

/// What is in no build unless it is asked for, and must compile all the same.
const OPTIONAL: &str = "transom/otlp";

/// How much is checked.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub slow: bool,
    pub ci: bool,
}

/// Sets up what tests need, then runs them.
pub fn test(workspace: &Workspace, extent: Extent, arguments: &[String]) -> Result<()> {
    let mut phases = Phases::default();
    phases.demand("what the tests need", || {
        machine::ensure(&[
            machine::C_COMPILER,
            machine::PYTHON,
            machine::NODE,
            machine::NPM,
            machine::JQ,
            machine::GIT,
        ])
    })?;
    if extent.ci {
        phases.attempt("format", || format(workspace));
        phases.attempt("generated files", || schema::schema(workspace, true));
    }
    phases.demand("components", || build_components(workspace))?;
    phases.demand("hostile programs", || build_programs(workspace))?;
    if extent.ci {
        phases.attempt("tidy", || tidy::tidy(workspace));
        phases.attempt("clippy", || clippy(workspace));
        phases.attempt("clippy in the sandbox", || clippy_guests(workspace));
    }
    phases.demand("host and tests", || build_everything(workspace))?;
    phases.attempt("tests", || run_tests(workspace, extent.slow, arguments));
    phases.finish()
}

fn build_programs(workspace: &Workspace) -> Result<()> {
    let built = components::programs(&workspace.root, &mut |line| println!("{line}"))?;
    println!("{} programs", built.len());
    Ok(())
}

fn format(workspace: &Workspace) -> Result<()> {
    perform(workspace.cargo().args(["fmt", "--all", "--check"]))
        .context("`cargo fmt --all` mends it")
}

fn clippy(workspace: &Workspace) -> Result<()> {
    perform(workspace.cargo().args([
        "clippy",
        "--workspace",
        "--exclude",
        PROGRAMS,
        "--features",
        BENCH,
        "--features",
        OPTIONAL,
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

/// Guests are read again as the sandbox compiles them: code behind `cfg(target_arch)` and the bans of
/// `components/clippy.toml` are invisible natively.
fn clippy_guests(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command
        .args(["clippy", "--target", "wasm32-unknown-unknown", "--target-dir"])
        .arg(workspace.root.join("target/guests"));
    for guest in guests(workspace)? {
        command.args(["--package", &guest]);
    }
    perform(command.args(["--", "-D", "warnings"]))
}

/// The packages that become components, by name.
fn guests(workspace: &Workspace) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for folder in ["components", "guest-sdk"] {
        for entry in fs::read_dir(workspace.root.join(folder))
            .with_context(|| format!("{folder} cannot be listed"))?
        {
            let manifest = entry?.path().join("Cargo.toml");
            if !manifest.exists() {
                continue;
            }
            let table: toml::Table = fs::read_to_string(&manifest)?
                .parse()
                .with_context(|| manifest.display().to_string())?;
            if let Some(name) = table
                .get("package")
                .and_then(|package| package.get("name"))
                .and_then(toml::Value::as_str)
            {
                names.push(name.to_owned());
            }
        }
    }
    if names.is_empty() {
        bail!("no guest was found under components and guest-sdk");
    }
    names.sort();
    Ok(names)
}

/// Builds the host together with the tests: built by itself it would want its dependencies with other features,
/// and the sandbox would be compiled twice.
fn build_everything(workspace: &Workspace) -> Result<()> {
    perform(workspace.cargo().args([
        "build",
        "--workspace",
        "--exclude",
        PROGRAMS,
        "--features",
        BENCH,
        "--all-targets",
    ]))
}

fn run_tests(workspace: &Workspace, slow: bool, arguments: &[String]) -> Result<()> {
    let mut command = workspace.cargo();
    command
        .args(["test", "--workspace", "--exclude", PROGRAMS, "--features", BENCH, "--no-fail-fast"])
        .args(arguments);
    command.env("TRANSOM_BIN", workspace.host(Profile::Dev));
    if slow {
        command.env("RUN_SLOW_TESTS", "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut count = Count::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("the output of cargo cannot be read")?;
        println!("{line}");
        count.add(&line);
    }
    let status = child.wait().context("cargo cannot be waited for")?;
    println!("{} passed, {} failed", count.passed, count.failed);
    if !status.success() {
        bail!("cargo test ended with {status}");
    }
    if count.passed == 0 {
        bail!("no test was run: is the filter right?");
    }
    Ok(())
}

/// What the test binaries say in their last lines, summed up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |what: &str| {
            let part = result.split(['.', ';']).find(|part| part.trim().ends_with(what))?;
            part.split_whitespace().next()?.parse::<u64>().ok()
        };
        self.passed += number(" passed").unwrap_or_default();
        self.failed += number(" failed").unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn results_of_all_binaries_are_summed_up() {
        let mut count = Count::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 60 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.58s",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            count.add(line);
        }
        assert_eq!(count, Count { passed: 63, failed: 1 });
    }
}
