//! What finished turns leave in memory: a thousand sessions, ten turns each, on the scripted model. A session
//! holds its conversation, which the next request needs; everything else of a turn must be gone.

use anyhow::Result;

use super::{Row, peer::Peer, process};
use crate::workspace::{Profile, Workspace};

const SESSIONS: u32 = 1_000;
const TURNS: u32 = 10;

/// The turn after which every session has what it needs once.
const SETTLED: u32 = 2;

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::spawn(&workspace.host(Profile::Release), folder.path())?;
    peer.initialize()?;
    let mut settled = 0;
    for turn in 1..=TURNS {
        for session in 0..SESSIONS {
            peer.prompt(&format!("session-{session}"))?;
            peer.idle(1)?;
        }
        if turn == SETTLED {
            settled = process::memory(peer.host()?)?.proportional;
        }
    }
    let after = process::memory(peer.host()?)?.proportional;
    let turns = f64::from((TURNS - SETTLED) * SESSIONS);
    let grown = after.saturating_sub(settled) as f64 / turns;
    Ok(vec![
        Row::new(
            format!("sessions: Pss with {SESSIONS} sessions of {TURNS} turns"),
            after as f64 / 1024.0,
            "MiB",
        )
        .over(format!("of {SETTLED} turns"), settled as f64 / 1024.0),
        Row::new("sessions: Pss that a further turn leaves", grown, "KiB"),
    ])
}
