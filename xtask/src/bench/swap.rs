//! What a swap costs those who are connected, and those at other doors: how long each stands still, and what many swaps leave behind. The
//! host measures the first itself, in the very call that moves a connection; peers measure what they notice of it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
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
use tempfile::TempDir;

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

/// Swaps by which memory must not have grown, and how many connections live through them.
const MANY_SWAPS: usize = 10_000;
const MANY_WARM: usize = 1000;
const FEW_CONNECTIONS: usize = 10;

/// How long the same peers ask before anybody swaps.
const QUIET: Duration = Duration::from_secs(15);

const ANSWER_MAX: Duration = Duration::from_secs(60);

pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    connections::descriptors()?;
    let mut rows = under_load(workspace)?;
    rows.extend(many(workspace)?);
    Ok(rows)
}

/// A host with the door `sdk`, which is swapped, and two that are not, with as many peers of the first as are wanted.
struct House {
    folder: TempDir,
    host: Host,
    control: Control,
    _peers: Vec<Peer>,
}

impl House {
    fn new(workspace: &Workspace, peers: usize) -> Result<House> {
        let folder = tempfile::tempdir()?;
        let place = |name: &str| folder.path().join(name);
        let component = fs::read(workspace.root.join("target/components/sdk.wasm"))
            .context("the component sdk is not built")?;
        fs::write(place("one.wasm"), &component)?;
        // A custom section at the end means nothing, and makes another version of it.
        fs::write(place("two.wasm"), [&component, b"\0\x06\x04note2".as_slice()].concat())?;
        fs::copy(workspace.root.join("policies/sdk.toml"), place("policy.toml"))?;
        fs::write(place("transom.toml"), text(folder.path()))?;
        // To try the measurement itself out, with a build that is there.
        let program = env::var_os("TRANSOM_BIN").map(PathBuf::from);
        let mut command = Command::new(program.unwrap_or_else(|| workspace.host(Profile::Release)));
        command.arg("run").arg("--manifest").arg(place("transom.toml")).current_dir(folder.path());
        for name in ["TRANSOM_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"] {
            command.env(name, folder.path());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut host = Host::start(&mut command)?;
        connections::listening(&mut host, &place("sdk.sock"))?;
        let mut connected = Vec::with_capacity(peers);
        while connected.len() < peers {
            let mut peer = Peer::connect(&place("sdk.sock"))?;
            peer.initialize().with_context(|| format!("connection {}", connected.len() + 1))?;
            connected.push(peer);
        }
        let control = Control::connect(&place("control.sock"))?;
        Ok(House { folder, host, control, _peers: connected })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Swaps to and fro. Gives how long it took until every connection had moved.
    fn swap(&mut self, round: usize) -> Result<Duration> {
        let file = self.place(if round.is_multiple_of(2) { "two.wasm" } else { "one.wasm" });
        let begun = Instant::now();
        let answer = self.control.ask("swap", json!({ "component": "sdk", "source": file }))?;
        let took = begun.elapsed();
        for (name, wanted) in [("stayed", 0), ("lost", 0), ("behind", 0)] {
            let found = answer.pointer(&format!("/doors/0/{name}")).and_then(Value::as_u64);
            if found != Some(wanted) {
                bail!("`{name}` is {found:?} and not {wanted}: {answer}");
            }
        }
        Ok(took)
    }
}

fn row(name: &str, value: f64, unit: &str) -> Row {
    Row::new(format!("swap: {name}"), value, unit)
}

/// A thousand connections that are moved two hundred times, with one of them and a neighbour asking all the while.
fn under_load(workspace: &Workspace) -> Result<Vec<Row>> {
    let mut house = House::new(workspace, CONNECTIONS)?;
    let quiet = Asking::begin(&house);
    let until = Instant::now() + QUIET;
    while Instant::now() < until {
        thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
    let Asked { beside: mut quiet, .. } = quiet.end()?;
    let asking = Asking::begin(&house);

    let mut whole = Vec::with_capacity(SWAPS);
    let mut before = None;
    for round in 0..SWAPS {
        if round == WARM {
            before = Some(process::memory(house.host.id())?);
        }
        whole.push(house.swap(round)?);
    }
    let after = process::memory(house.host.id())?;
    let before = before.context("too few swaps")?;
    let Asked { mut swapped, mut beside } = asking.end()?;
    let status = house.control.ask("status", json!({}))?;
    let pause = |name: &str| {
        let doors = status.get("doors").and_then(Value::as_array).into_iter().flatten();
        let door = doors.into_iter().find(|row| row.get("door").is_some_and(|door| door == "sdk"));
        let figure = door.and_then(|row| row.get(name)).and_then(Value::as_f64);
        figure.with_context(|| format!("the status has no {name}"))
    };
    let micros = |took: &mut [Duration], part: f64| share(took, part) * 1e6;
    let beside_before = [0.5, 0.99].map(|part| micros(&mut quiet, part));
    Ok(vec![
        row("pause of a connection, p50", pause("pause_us_p50")?, "µs"),
        row("pause of a connection, p99", pause("pause_us_p99")?, "µs"),
        row("all of 1000 connections, p50", share(&mut whole, 0.5) * 1e3, "ms"),
        row("answer to a peer meanwhile, p50", micros(&mut swapped, 0.5), "µs"),
        row("answer to a peer meanwhile, p99", micros(&mut swapped, 0.99), "µs"),
        row("answer at another door meanwhile, p50", micros(&mut beside, 0.5), "µs")
            .over("without swaps", beside_before[0]),
        row("answer at another door meanwhile, p99", micros(&mut beside, 0.99), "µs")
            .over("without swaps", beside_before[1]),
        row("VmRSS, swap 20 to 200", after.resident as f64 - before.resident as f64, "KiB")
            .over("VmRSS after swap 20", before.resident as f64),
    ])
}

/// Ten thousand swaps: what each leaves behind, and whether the last take as long as the first.
fn many(workspace: &Workspace) -> Result<Vec<Row>> {
    let mut house = House::new(workspace, FEW_CONNECTIONS)?;
    let mut took = Vec::with_capacity(MANY_SWAPS);
    let mut before = None;
    for round in 0..MANY_SWAPS {
        if round == MANY_WARM {
            before = Some(process::memory(house.host.id())?);
        }
        took.push(house.swap(round)?);
    }
    let after = process::memory(house.host.id())?;
    let before = before.context("too few swaps")?;
    let (first, last) = took.split_at_mut(MANY_SWAPS / 2);
    let first = share(first, 0.5) * 1e3;
    Ok(vec![
        row("VmRSS, swap 1000 to 10000", after.resident as f64 - before.resident as f64, "KiB")
            .over("VmRSS after swap 1000", before.resident as f64),
        row("a swap of 10 connections, p50 of the last 5000", share(last, 0.5) * 1e3, "ms")
            .over("of the first 5000", first),
    ])
}

fn text(folder: &Path) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let door = |name: &str, connections: usize| {
        format!(
            "[component.{name}]\nsource = '{}'\npolicy = '{}'\n\
             [door.{name}]\ncomponent = \"{name}\"\ncarrier = \"unix\"\nlisten = '{}'\n\
             route-map = {{ deepseek-official = \"scripted\" }}\nlimits = {{ connections-max = {connections} }}\n",
            at("one.wasm"),
            at("policy.toml"),
            at(&format!("{name}.sock")),
        )
    };
    format!(
        "{}{}{}[control]\nlisten = '{}'\n",
        door("sdk", 1100),
        door("near", 8),
        door("far", 8),
        at("control.sock")
    )
}

/// One peer at each of the three doors, who asks all the while.
struct Asking {
    stop: Arc<AtomicBool>,
    peers: [thread::JoinHandle<Result<Vec<Duration>>>; 3],
}

/// How long each answer took.
struct Asked {
    /// At the door that is swapped.
    swapped: Vec<Duration>,
    /// At the two others.
    beside: Vec<Duration>,
}

impl Asking {
    fn begin(house: &House) -> Asking {
        let stop = Arc::new(AtomicBool::new(false));
        let peers = ["sdk.sock", "near.sock", "far.sock"].map(|door| {
            let (stop, path) = (Arc::clone(&stop), house.place(door));
            thread::spawn(move || asks(&path, &stop))
        });
        Asking { stop, peers }
    }

    fn end(self) -> Result<Asked> {
        self.stop.store(true, Ordering::Relaxed);
        let [swapped, near, far] = self.peers.map(|peer| match peer.join() {
            Ok(took) => took,
            Err(_) => bail!("a peer that asked has failed"),
        });
        let mut beside = near?;
        beside.extend(far?);
        Ok(Asked { swapped: swapped?, beside })
    }
}

/// Asks what the codec answers by itself, until it is told to stop. Gives how long each took.
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
