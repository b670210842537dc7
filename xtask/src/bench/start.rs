//! From the start of the process to its first answer, with a warm cache of compiled components.

use std::{
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};

use super::{Row, peer::Peer, statistics};
use crate::workspace::{Profile, Workspace, perform};

const RUNS: usize = 30;

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let program = workspace.host(Profile::Release);
    // The first run may compile the components; it is not counted.
    answered(workspace)?;
    let mut answered_ms = Vec::with_capacity(RUNS);
    let mut bare_ms = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        answered_ms.push(answered(workspace)?);
        let begun = Instant::now();
        perform(Command::new(&program).arg("--version").stdout(Stdio::null()))?;
        bare_ms.push(milliseconds(begun));
    }
    let of = |samples: &[f64], percent: Option<usize>| match percent {
        Some(percent) => statistics::percentile(samples, percent),
        None => statistics::median(samples),
    };
    [(None, "median"), (Some(95), "p95")]
        .into_iter()
        .map(|(percent, name)| {
            let value = of(&answered_ms, percent).context("no run was counted")?;
            let bare = of(&bare_ms, percent).context("no run was counted")?;
            Ok(Row::new(
                format!("start: {name} of {RUNS}, to the answered initialize"),
                value,
                "ms",
            )
            .over("for --version", bare))
        })
        .collect()
}

/// Milliseconds from the start of a process to its answer at the SDK door.
pub fn answered(workspace: &Workspace) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut peer = Peer::spawn(&workspace.host(Profile::Release), folder.path())?;
    peer.initialize()?;
    Ok(milliseconds(begun))
}

pub fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
