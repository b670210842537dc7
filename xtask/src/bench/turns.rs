//! Turns a second over the SDK wire, with many sessions at once and with one, on the scripted model.

use std::time::Instant;

use anyhow::Result;

use super::{Row, peer::Peer};
use crate::workspace::{Profile, Workspace};

const SESSIONS: usize = 100;

/// Turns of each session that are counted, behind one that opens it.
const ROUNDS: usize = 10;

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let many = turns_a_second(workspace, SESSIONS)?;
    let one = turns_a_second(workspace, 1)?;
    Ok(vec![
        Row::new("turns: one session", one, "turns/s"),
        Row::new(format!("turns: {SESSIONS} sessions"), many, "turns/s").over("one session", one),
    ])
}

/// Turns of this many sessions at once, over one connection.
pub fn turns_a_second(workspace: &Workspace, sessions: usize) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::spawn(&workspace.host(Profile::Release), folder.path())?;
    peer.initialize()?;
    round(&mut peer, sessions)?;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        round(&mut peer, sessions)?;
    }
    Ok((ROUNDS * sessions) as f64 / begun.elapsed().as_secs_f64())
}

/// A prompt for each session, then rest: the turns overlap, and each session's next prompt meets an idle agent.
fn round(peer: &mut Peer, sessions: usize) -> Result<()> {
    for session in 0..sessions {
        peer.prompt(&format!("session-{session}"))?;
    }
    peer.idle(sessions)
}
