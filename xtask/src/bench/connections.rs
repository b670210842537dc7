//! What an idle connection costs: memory of a host by the number of peers that introduced themselves and then fell silent.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{
    Row,
    peer::{Host, Peer},
    process, statistics,
};
use crate::workspace::{Profile, Workspace};

const STEP: usize = 100;
const MOST: usize = 1000;

/// Each connection is a descriptor at either end and a thread here; the rest is for everything else.
const DESCRIPTORS: u64 = 4096;

const START_MAX: Duration = Duration::from_secs(60);

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    descriptors()?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("sdk.sock");
    let manifest = folder.path().join("transom.toml");
    fs::write(&manifest, text(&socket))?;
    let mut command = Command::new(workspace.host(Profile::Release));
    command.arg("run").arg("--manifest").arg(&manifest).current_dir(folder.path());
    // Nothing of the person who measures is read or written.
    for name in ["TRANSOM_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, folder.path());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut host = Host::start(&mut command)?;
    listening(&mut host, &socket)?;

    let mut peers = Vec::with_capacity(MOST);
    let mut resident = Vec::new();
    let mut proportional = Vec::new();
    while peers.len() < MOST {
        for _ in 0..STEP {
            let mut peer = Peer::connect(&socket)?;
            peer.initialize().with_context(|| format!("connection {}", peers.len() + 1))?;
            peers.push(peer);
        }
        let memory = process::memory(host.id())?;
        resident.push((peers.len() as f64, memory.resident as f64));
        proportional.push((peers.len() as f64, memory.proportional as f64));
    }
    let each = |name: &str, points: &[(f64, f64)]| -> Result<Row> {
        let slope = statistics::slope(points).context("too few points")?;
        Ok(Row::new(
            format!("connections: {name} of an idle one, slope {STEP} to {MOST}"),
            slope,
            "KiB",
        ))
    };
    Ok(vec![each("VmRSS", &resident)?, each("Pss", &proportional)?])
}

fn text(socket: &Path) -> String {
    // A path is written as a TOML literal; that of a temporary folder holds no quote.
    format!(
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlisten = '{}'\nroute-map = {{ deepseek-official = \"scripted\" }}\n",
        socket.display(),
    )
}

/// Raises this process's own bound, which the host inherits.
pub fn descriptors() -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= DESCRIPTORS {
        return Ok(());
    }
    if hard < DESCRIPTORS {
        bail!(
            "a process may hold {hard} descriptors here, and this needs {DESCRIPTORS}: raise `ulimit -Hn`"
        );
    }
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard)
        .context("the bound on descriptors cannot be raised")
}

pub fn listening(host: &mut Host, socket: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        if Peer::connect(socket).is_ok() {
            return Ok(());
        }
        if let Some(status) = host.ended()? {
            bail!("the host ended with {status} before it listened");
        }
        if begun.elapsed() > START_MAX {
            bail!("the host does not listen after {} s", START_MAX.as_secs());
        }
        // A socket that does not exist yet cannot be waited for; nothing is measured meanwhile.
        thread::park_timeout(Duration::from_millis(5));
    }
}
