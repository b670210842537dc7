//! What the ACP door costs over the SDK door, which does the same work on the same machine in the same run: the start of a
//! process until it has answered, and prompts a second over one connection with many sessions.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Row, peer::Peer, start, statistics, turns};
use crate::workspace::{Profile, Workspace};

const RUNS: usize = 30;

const SESSIONS: usize = 50;

/// Prompts of each session that are counted, behind one that opens it.
const ROUNDS: usize = 20;

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let mut rows = starts(workspace)?;
    let sdk = turns::turns_a_second(workspace, SESSIONS)?;
    let acp = prompts_a_second(workspace)?;
    let name = format!("acp: {SESSIONS} sessions of one connection");
    rows.push(Row::new(name, acp, "prompts/s").over("at the door sdk", sdk));
    Ok(rows)
}

/// One after the other in turn, so that both meet the same machine.
fn starts(workspace: &Workspace) -> Result<Vec<Row>> {
    // The first run may compile the components; it is not counted.
    answered(workspace)?;
    start::answered(workspace)?;
    let mut acp_ms = Vec::with_capacity(RUNS);
    let mut sdk_ms = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        acp_ms.push(answered(workspace)?);
        sdk_ms.push(start::answered(workspace)?);
    }
    let row = |name: &str, of: &dyn Fn(&[f64]) -> Option<f64>| -> Result<Row> {
        let value = of(&acp_ms).context("no run was counted")?;
        let base = of(&sdk_ms).context("no run was counted")?;
        let name = format!("acp: {name} of {RUNS}, start to the answered initialize");
        Ok(Row::new(name, value, "ms").over("at the door sdk", base))
    };
    Ok(vec![
        row("median", &statistics::median)?,
        row("p95", &|samples| statistics::percentile(samples, 95))?,
    ])
}

fn answered(workspace: &Workspace) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut peer = Peer::spawn_at("acp", &workspace.host(Profile::Release), folder.path())?;
    peer.request("initialize", json!({ "protocolVersion": 1 }))?;
    Ok(start::milliseconds(begun))
}

fn prompts_a_second(workspace: &Workspace) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::spawn_at("acp", &workspace.host(Profile::Release), folder.path())?;
    peer.request("initialize", json!({ "protocolVersion": 1 }))?;
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let opened = peer.request("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }))?;
        let session = opened.get("sessionId").and_then(Value::as_str);
        sessions.push(session.context("a new session has no id")?.to_owned());
    }
    round(&mut peer, &sessions)?;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        round(&mut peer, &sessions)?;
    }
    Ok((ROUNDS * SESSIONS) as f64 / begun.elapsed().as_secs_f64())
}

/// A prompt for each session, then all answers: the turns overlap, and an answer is the end of its turn.
fn round(peer: &mut Peer, sessions: &[String]) -> Result<()> {
    for session in sessions {
        let prompt = json!([{ "type": "text", "text": "hello" }]);
        peer.send("session/prompt", json!({ "sessionId": session, "prompt": prompt }))?;
    }
    peer.answered(sessions.len())
}
