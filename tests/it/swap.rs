//! Components that are exchanged under a running host: nothing that was received or owed is lost, doubled or reordered, and a
//! version that fails goes by itself (design §7).

mod acp;
mod load;
mod versions;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use nix::{
    sys::signal::{Signal as Number, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::support::{
    control::Control,
    place::{Place, text},
    process::{Launch, Process, built},
    socket::Socket,
    wire::{PATIENCE, Signal, Wire},
};

const POLICY: &str = "[frames]\nallow = []\n";

/// A host with a door `counts` whose component is a file of its own, a second such door that nobody touches, and a good door.
struct House {
    place: Place,
    process: Process,
    control: Control,
    /// What it said before it was ready.
    said: Vec<String>,
}

impl House {
    fn new(component: &str, more: &str) -> House {
        House::with(component, more, "")
    }

    fn with(component: &str, more: &str, of_door: &str) -> House {
        House::under(&manifest(component, more, of_door))
    }

    /// Under a manifest that may name all of these files.
    fn under(manifest: &str) -> House {
        let place = Place::new();
        place.file("policy.toml", POLICY);
        place.file("counts.wasm", program("counts"));
        place.file("watched.wasm", program("counts"));
        place.file("sdk.wasm", fs::read(built("components/sdk.wasm")).expect("a component"));
        place.file("transom.toml", manifest);
        House::at(place)
    }

    fn at(place: Place) -> House {
        let file = place.root().join("transom.toml");
        let mut process = Launch::new(["run", "--manifest", text(&file)])
            .directory(&place.cwd)
            .env("HOME", place.root())
            .env("TRANSOM_LOG", "info")
            .start();
        let mut said = Vec::new();
        while let Some(line) = process.line() {
            if line.starts_with("ready") {
                let control = Control::connect(&place.root().join("control.sock"));
                return House { place, process, control, said };
            }
            said.push(line);
        }
        panic!("the host did not start:\n{}", process.diagnostics());
    }

    fn socket(&self, door: &str) -> PathBuf {
        self.place.root().join(format!("{door}.sock"))
    }

    fn peer(&self, door: &str) -> Socket {
        Socket::connect(&self.socket(door))
    }

    fn swap(&mut self, component: &str, file: &Path) -> Result<Value, String> {
        self.control.ask("swap", json!({"component": component, "source": file}))
    }

    /// Waits until this is so of a door.
    fn until(&mut self, door: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let row = self.control.door(door);
            if is_so(&row) {
                return row;
            }
            assert!(Instant::now() < end, "{row}\n{}", self.process.diagnostics());
            thread::yield_now();
        }
    }

    fn end(mut self) -> String {
        self.process.signal(Signal::Terminate);
        assert_eq!(self.process.exit(), 0, "{}", self.process.diagnostics());
        self.process.diagnostics()
    }
}

fn manifest(component: &str, more: &str, of_door: &str) -> String {
    format!(
        r#"
[component.sdk]
source = "sdk.wasm"
[component.counts]
source = "{component}"
policy = "policy.toml"
{more}
[component.other]
source = "counts.wasm"
policy = "policy.toml"
[door.counts]
component = "counts"
carrier = "unix"
listen = "counts.sock"
limits = {{ connections-max = 1200 }}
{of_door}
[door.other]
component = "other"
carrier = "unix"
listen = "other.sock"
[door.sdk]
component = "sdk"
carrier = "unix"
listen = "sdk.sock"
route-map = {{ deepseek-official = "scripted" }}
limits = {{ connections-max = 64 }}
[store]
path = "store.db"
[control]
listen = "control.sock"
[probation]
faults = 2
"#
    )
}

fn program(name: &str) -> Vec<u8> {
    fs::read(built(&format!("programs/{name}.wasm"))).expect("a component")
}

/// The same component with another digest: a custom section at its end means nothing.
fn renamed(mut component: Vec<u8>, note: &str) -> Vec<u8> {
    let size = |text: &[u8]| u8::try_from(text.len()).expect("a short text");
    let mut section = vec![4];
    section.extend(b"note");
    section.extend(note.as_bytes());
    component.extend([0, size(&section)]);
    component.extend(section);
    component
}

fn says(peer: &mut Socket, unit: &str, answer: &str) {
    peer.write(format!("{unit}\n").as_bytes());
    assert_eq!(peer.line().as_deref(), Some(answer));
}

#[test]
fn a_connection_goes_on_with_the_next_version_and_with_the_one_before() {
    let mut house = House::new("counts.wasm", "");
    let second = house.place.file("second.wasm", renamed(program("counts"), "second"));
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    let answer = house.swap("counts", &second).expect("it is swapped");
    let row = &answer["doors"][0];
    assert_eq!((&row["moved"], &row["stayed"], &row["behind"]), (&json!(1), &json!(0), &json!(0)));
    says(&mut peer, "b", "2 b");
    let status = house.control.door("counts");
    assert_eq!((&status["version"], &status["probation"]), (&json!(2), &json!(true)));
    assert!(status["memory_bytes"].as_u64() > Some(0), "{status}");
    let other = house.control.door("other");
    assert_eq!((&other["version"], &other["swaps"]), (&json!(1), &json!(0)), "nobody else noticed");

    house.control.ask("rollback", json!({"component": "counts"})).expect("there is one before");
    says(&mut peer, "c", "3 c");
    let status = house.control.door("counts");
    assert_eq!(status["version"], 1);
    let causes: Vec<_> = status["history"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["cause"].clone())
        .collect();
    assert_eq!(causes, ["swap", "rollback"]);
    let said = house.end();
    assert_eq!(said.matches("component swapped").count(), 2, "one line for each: {said}");
}

#[test]
fn a_component_that_crashes_in_a_loop_rests_until_it_is_swapped() {
    let traps = built("programs/traps.wasm");
    let recovery = "[recovery]\ncrashes = 3\nbackoff-ms-max = 400";
    let mut house = House::with(text(&traps), "", recovery);
    let mut witness = house.peer("other");
    // Each pause is longer than the one before, so that some peer comes while the door rests, however slow this machine is.
    let mut crashes = 0;
    loop {
        let mut peer = house.peer("counts");
        peer.write(b"a\n");
        let Some(line) = peer.line() else { break };
        assert_eq!(line, "a");
        peer.write(b"trap\n");
        assert_eq!(peer.line(), None);
        crashes += 1;
    }
    assert!(crashes >= 3, "{crashes} crashes are no loop");
    let row = house.until("counts", |row| row["state"] != "serving");
    assert!(row["refused"].as_u64() > Some(0), "{row}");
    // Not even the longest pause helps.
    let end = Instant::now() + PATIENCE;
    while house.control.door("counts")["state"] != "failed" {
        assert!(Instant::now() < end, "{}", house.process.diagnostics());
        let mut peer = house.peer("counts");
        peer.write(b"trap\n");
        assert_eq!(peer.line(), None);
    }
    says(&mut witness, "b", "1 b");
    says(&mut house.peer("other"), "a", "1 a");

    house.swap("counts", &built("programs/counts.wasm")).expect("it is swapped");
    says(&mut house.peer("counts"), "trap", "1 trap");
    assert_eq!(house.control.door("counts")["state"], "serving");
    let said = house.end();
    assert_eq!(said.matches("crashes whenever it is tried").count(), 1, "{said}");
}

#[test]
fn other_options_reach_live_connections_with_a_reload() {
    // Decision 53.
    let mut house = House::new("counts.wasm", "");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    assert_eq!(house.control.ask("reload", json!({})).expect("read again")["changes"], json!([]));

    let options = "options = { loud = true }";
    house.place.file("transom.toml", manifest("counts.wasm", "", options));
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["changes"][0]["path"], "door.counts.options", "{answer}");
    assert_eq!(answer["swaps"][0]["moved"], 1, "{answer}");
    says(&mut peer, "b", "loud 2 b");

    let wrong = manifest("counts.wasm", "", "optoins = {}").replace("faults = 2", "faults = 0");
    house.place.file("transom.toml", wrong);
    let refused = house.control.ask("reload", json!({})).expect_err("refused");
    assert!(
        refused.contains("`optoins`") && refused.contains("faults"),
        "all complaints: {refused}"
    );
    says(&mut peer, "c", "loud 3 c");

    // A key that needs a restart is named, as often as it is read, and what does not need one is done.
    let moved = manifest("counts.wasm", "", "").replace("\"store.db\"", "\"other.db\"");
    house.place.file("transom.toml", moved);
    for _ in 0..2 {
        let answer = house.control.ask("reload", json!({})).expect("read again");
        assert_eq!(answer["restart"], json!(["store.path"]), "{answer}");
    }
    says(&mut peer, "d", "4 d");
}

#[test]
fn figures_are_offered_in_the_format_of_prometheus() {
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"";
    let mut house = House::with("counts.wasm", "", metrics);
    let address = house.said.iter().find_map(|line| line.strip_prefix("metrics are at http://"));
    let address = address
        .and_then(|address| address.strip_suffix("/metrics"))
        .expect("an address")
        .to_owned();
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    let second = house.place.file("second.wasm", renamed(program("counts"), "second"));
    house.swap("counts", &second).expect("it is swapped");
    let read = |request: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream
            .write_all(format!("{request} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes())
            .expect("taken");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("an answer");
        page
    };
    let page = read("GET /metrics");
    assert!(page.starts_with("HTTP/1.0 200 OK\r\n"), "{page}");
    let labels = "{door=\"counts\",component=\"counts\"}";
    for line in [
        format!("transom_connections{labels} 1"),
        format!("transom_units_in_total{labels} 1"),
        format!("transom_swaps_total{labels} 1"),
        format!("transom_swap_pause_seconds_count{labels} 1"),
        "# TYPE transom_codec_call_seconds histogram".to_owned(),
        "transom_swap_pause_seconds_bucket{door=\"counts\",component=\"counts\",le=\"+Inf\"} 1"
            .to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    assert!(read("GET /").starts_with("HTTP/1.0 404 "));
    assert!(read("POST /metrics").starts_with("HTTP/1.0 405 "));
}

#[test]
fn a_hangup_reads_the_configuration_again() {
    let mut house = House::new("counts.wasm", "");
    let second = house.place.file("second.wasm", renamed(program("counts"), "second"));
    house.place.file("transom.toml", manifest("second.wasm", "", ""));
    let host = Pid::from_raw(house.process.id());
    kill(host, Number::SIGHUP).expect("it runs");
    let digest = house.until("counts", |row| row["version"] == 2)["identity"].clone();
    // What was chosen by hand stays, until the manifest names another file.
    house.swap("counts", &house.place.root().join("counts.wasm")).expect("it is swapped");
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["swaps"], json!([]), "{answer}");
    fs::rename(&second, house.place.root().join("third.wasm")).expect("another name");
    house.place.file("transom.toml", manifest("third.wasm", "", ""));
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["swaps"][0]["to"], digest, "{answer}");
}

#[test]
fn a_watched_file_is_swapped_in_when_it_changes() {
    let mut house = House::new("watched.wasm", "watch = true");
    let _ = house.control.door("counts");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.place.file("watched.wasm", b"half of something");
    house.place.file("next.wasm", renamed(program("counts"), "next"));
    fs::rename(house.place.root().join("next.wasm"), house.place.root().join("watched.wasm"))
        .expect("a file");
    house.until("counts", |row| row["version"] == 2);
    says(&mut peer, "b", "2 b");
}
