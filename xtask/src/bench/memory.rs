//! Memory of a host behind one peer: after the handshake, and with many sessions that have each had a turn.

use anyhow::Result;

use super::{Row, peer::Peer, process};
use crate::workspace::{Profile, Workspace};

const SESSIONS: u32 = 100;

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::spawn(&workspace.host(Profile::Release), folder.path())?;
    peer.initialize()?;
    let before = process::memory(peer.host()?)?;
    for session in 0..SESSIONS {
        peer.prompt(&format!("session-{session}"))?;
        peer.idle(1)?;
    }
    let after = process::memory(peer.host()?)?;

    let row = |name: String, kib: u64| Row::new(format!("memory: {name}"), mib(kib), "MiB");
    let with = |kind: &str| format!("{kind} with {SESSIONS} sessions");
    let each = after.proportional.saturating_sub(before.proportional) as f64 / f64::from(SESSIONS);
    Ok(vec![
        row("VmRSS after initialize".to_owned(), before.resident),
        row("Pss after initialize".to_owned(), before.proportional),
        row(with("VmRSS"), after.resident).over("after initialize", mib(before.resident)),
        row(with("Pss"), after.proportional).over("after initialize", mib(before.proportional)),
        Row::new("memory: Pss that each of them adds", each, "KiB"),
    ])
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
