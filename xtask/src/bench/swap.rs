//! What a swap costs those who are connected: how long each stands still, and what many swaps leave behind. The host measures the first
//! itself, in the very call that moves a connection; peers measure what they notice of it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    Row, connections,
    peer::{Host, Peer},
    process,
};
use crate::workspace::{Profile, Workspace};

const CONNECTIONS: usize = 1000;
const SWAPS: usize = 200;

/// Swaps before memory is first read: both versions and their code are there then.
const WARM: usize = 20;

const ANSWER_MAX: Duration = Duration::from_secs(60);

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    connections::descriptors()?;
    let folder = tempfile::tempdir()?;
    let place = |name: &str| folder.path().join(name);
    let component = fs::read(workspace.root.join("target/components/sdk.wasm"))
        .context("the component sdk is not built")?;
    fs::write(place("one.wasm"), &component)?;
    // A custom section at the end means nothing, and makes another version of it.
    fs::write(place("two.wasm"), [&component, b"\0\x06\x04note2".as_slice()].concat())?;
    fs::write(place("transom.toml"), text(folder.path()))?;
    let mut command = Command::new(workspace.host(Profile::Release));
    command.arg("run").arg("--manifest").arg(place("transom.toml")).current_dir(folder.path());
    for name in ["TRANSOM_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"] {
        command.env(name, folder.path());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut host = Host::start(&mut command)?;
    connections::listening(&mut host, &place("sdk.sock"))?;

    let mut peers = Vec::with_capacity(CONNECTIONS);
    while peers.len() < CONNECTIONS {
        let mut peer = Peer::connect(&place("sdk.sock"))?;
        peer.initialize().with_context(|| format!("connection {}", peers.len() + 1))?;
        peers.push(peer);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (stopping, path) = (Arc::clone(&stop), place("sdk.sock"));
    let asking = thread::spawn(move || asks(&path, &stopping));

    let mut control = Control::connect(&place("control.sock"))?;
    let mut whole = Vec::with_capacity(SWAPS);
    let mut before = None;
    for round in 0..SWAPS {
        if round == WARM {
            before = Some(process::memory(host.id())?);
        }
        let file = place(if round % 2 == 0 { "two.wasm" } else { "one.wasm" });
        let begun = Instant::now();
        let answer = control.ask("swap", json!({ "component": "sdk", "source": file }))?;
        whole.push(begun.elapsed());
        if let Some(stayed) = answer.pointer("/doors/0/stayed").and_then(Value::as_u64)
            && stayed > 0
        {
            bail!("{stayed} connections were not moved: {answer}");
        }
    }
    let after = process::memory(host.id())?;
    let before = before.context("too few swaps")?;
    stop.store(true, Ordering::Relaxed);
    let Ok(noticed) = asking.join() else { bail!("the peer that asked has failed") };
    let mut noticed = noticed?;
    let status = control.ask("status", json!({}))?;
    let pause = |name: &str| {
        let row = status.pointer("/doors/0").and_then(|row| row.get(name)).and_then(Value::as_f64);
        row.with_context(|| format!("the status has no {name}"))
    };
    let row = |name: &str, value: f64, unit: &str| Row::new(format!("swap: {name}"), value, unit);
    Ok(vec![
        row("pause of a connection, p50", pause("pause_us_p50")?, "µs"),
        row("pause of a connection, p99", pause("pause_us_p99")?, "µs"),
        row("all of 1000 connections, p50", share(&mut whole, 0.5) * 1e3, "ms"),
        row("answer to a peer meanwhile, p50", share(&mut noticed, 0.5) * 1e6, "µs"),
        row("answer to a peer meanwhile, p99", share(&mut noticed, 0.99) * 1e6, "µs"),
        row("VmRSS, swap 20 to 200", after.resident as f64 - before.resident as f64, "KiB")
            .over("VmRSS after swap 20", before.resident as f64),
    ])
}

fn text(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "[component.sdk]\nsource = '{}'\n[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlisten = '{}'\n\
         route-map = {{ deepseek-official = \"scripted\" }}\nlimits = {{ connections-max = 1100 }}\n\
         [control]\nlisten = '{}'\n",
        at("one.wasm"),
        at("sdk.sock"),
        at("control.sock"),
    )
}

/// Asks without end what the codec answers by itself. Gives how long each answer took.
fn asks(path: &Path, stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut peer = Peer::connect(path)?;
    peer.initialize()?;
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        // Refused, which is an answer as well; the end of the connection is none.
        if let Err(error) = peer.request("no/such/method", json!({}))
            && !error.to_string().contains("refuses")
        {
            return Err(error);
        }
        took.push(begun.elapsed());
    }
    Ok(took)
}

/// Seconds that this share of them does not exceed.
fn share(took: &mut [Duration], share: f64) -> f64 {
    took.sort_unstable();
    let at = ((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1));
    took.get(at).map_or(0.0, Duration::as_secs_f64)
}

struct Control {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Control {
    fn connect(path: &Path) -> Result<Control> {
        let stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Control { answers: BufReader::new(stream.try_clone()?), stream })
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.stream.write_all(format!("{asked}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line)?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("the host refuses `{method}`: {answer}"),
        }
    }
}
