//! What the host costs, measured from outside: one module for each measurement, one table for all. Whether a figure is good is left to
//! the reader and to `--compare`.

mod acp;
#[cfg(feature = "codec-bench")]
mod codec;
mod connections;
mod memory;
mod peer;
mod process;
mod sessions;
mod start;
mod statistics;
mod swap;
mod table;
mod turns;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    build_components,
    run::build_host,
    workspace::{Profile, Workspace, perform},
};

/// How `cargo xtask bench` is asked.
#[derive(Debug, Args)]
pub struct Options {
    /// Only measurements whose name begins with one of these: codec, start, memory, sessions,
    /// turns, acp, connections, swap.
    only: Vec<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Put the figures of an earlier `--json` beside these.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Measure with the binaries there are.
    #[arg(long)]
    no_build: bool,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which measurement, and of what: `start: median of 30`. Rows of two runs belong together when this is equal.
    pub name: String,
    pub value: f64,
    pub unit: String,
    /// What the figure is a multiple of, measured in the same run on the same machine.
    pub base: Option<Base>,
}

/// The cheaper thing that a figure is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Base {
    pub name: String,
    pub value: f64,
}

impl Row {
    fn new(name: impl Into<String>, value: f64, unit: &str) -> Row {
        Row { name: name.into(), value, unit: unit.to_owned(), base: None }
    }

    fn over(self, name: impl Into<String>, value: f64) -> Row {
        Row { base: Some(Base { name: name.into(), value }), ..self }
    }
}

type Measure = fn(&Workspace) -> Result<Vec<Row>>;

const MEASUREMENTS: &[(&str, Measure)] = &[
    #[cfg(feature = "codec-bench")]
    ("codec", codec::rows),
    ("start", start::rows),
    ("memory", memory::rows),
    ("sessions", sessions::rows),
    ("turns", turns::rows),
    ("acp", acp::rows),
    ("connections", connections::rows),
    ("swap", swap::rows),
];

/// Builds what is measured, measures, prints.
pub fn bench(workspace: &Workspace, options: &Options) -> Result<()> {
    let earlier = options.compare.as_ref().map(|path| earlier(path)).transpose()?;
    if !options.no_build {
        // The sandbox is measured in this very process, which must then be optimised as the host is.
        eprintln!("building");
        build_components(workspace)?;
        build_host(workspace, Profile::Release)?;
        return again(workspace, options);
    }
    let wanted = |name: &str| {
        options.only.is_empty() || options.only.iter().any(|only| name.starts_with(only.as_str()))
    };
    if let Some(only) = options
        .only
        .iter()
        .find(|only| !MEASUREMENTS.iter().any(|(name, _)| name.starts_with(only.as_str())))
    {
        let names: Vec<&str> = MEASUREMENTS.iter().map(|(name, _)| *name).collect();
        bail!("no measurement is called `{only}`: there are {}", names.join(", "));
    }
    let mut rows = Vec::new();
    for (name, measure) in MEASUREMENTS.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("measuring {name}");
        rows.extend(measure(workspace).with_context(|| format!("measuring {name}"))?);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table::print(&rows, earlier.as_deref()));
    }
    Ok(())
}

fn earlier(path: &std::path::Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| {
        format!("{} holds no figures of `cargo xtask bench --json`", path.display())
    })
}

/// Runs this program once more, optimised and with the sandbox in it.
fn again(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut command = workspace.cargo();
    command.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--features",
        "codec-bench",
        "--",
        "bench",
        "--no-build",
    ]);
    if options.json {
        command.arg("--json");
    }
    if let Some(path) = &options.compare {
        command.arg("--compare").arg(std::path::absolute(path)?);
    }
    perform(command.args(&options.only))
}
