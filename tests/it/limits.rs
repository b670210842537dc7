//! Each key of a policy's `[limits]`, set low in a file and crossed through a running host: what is parsed is applied, and
//! crossing it is what `docs/limits.md` says.

use std::{fmt::Write as _, io::Write as _, thread, time::Instant};

use serde_json::{Value, json};

use crate::support::{
    client::{self, Client},
    control::Control,
    frames::Frames,
    place::{Place, text},
    process::{Launch, Process, built},
    socket::Socket,
    wire::{PATIENCE, Signal, Wire},
};

/// What doors with sessions behind them may ask for.
const FRAMES: &str = "[frames]\nallow = [\"session/*\", \"events/*\", \"host/*\", \"models/*\"]\n";

/// A host with a door of this component under a policy with these limits, and another frames door that has the default ones.
struct House {
    place: Place,
    process: Process,
    control: Control,
}

impl House {
    fn new(component: &str, limits: &str) -> House {
        let place = Place::new();
        let frames = match component {
            "frames" | "sdk" => FRAMES,
            _ => "[frames]\nallow = []\n",
        };
        place.file("policy.toml", format!("{frames}[limits]\n{limits}\n"));
        place.file("script.json", r#"{"rules": [
            {"when": {"contains": "slow"}, "answer": [{"text": "a"}, {"delay_ms": 3600000}, {"text": "b"}]},
            {"answer": [{"text": ["one", "two", "three", "four", "five", "six", "seven", "eight"]}]}]}"#);
        let mut manifest = String::from(
            "[door.frames]\ncomponent = \"frames\"\ncarrier = \"unix\"\nlisten = \"frames.sock\"\n\
             [model]\nprovider = \"scripted\"\nscript = \"script.json\"\n\
             [store]\npath = \"store.db\"\n[control]\nlisten = \"control.sock\"\n\
             [door.tried]\ncarrier = \"unix\"\nlisten = \"tried.sock\"\npolicy = \"policy.toml\"\n\
             route-map = { deepseek-official = \"scripted\" }\n",
        );
        let name = if matches!(component, "frames" | "sdk") { component } else { "tried" };
        writeln!(manifest, "component = \"{name}\"").expect("a string takes everything");
        if name == "tried" {
            let file = built(&format!("programs/{component}.wasm"));
            writeln!(
                manifest,
                "[component.tried]\nsource = \"{}\"\npolicy = \"policy.toml\"",
                text(&file)
            )
            .expect("a string takes everything");
        }
        let file = place.file("transom.toml", manifest);
        let mut process = Launch::new(["run", "--manifest", text(&file)])
            .directory(&place.cwd)
            .env("HOME", place.root())
            .env("TRANSOM_LOG", "info")
            .start();
        while let Some(line) = process.line() {
            if line.starts_with("ready") {
                let control = Control::connect(&place.root().join("control.sock"));
                return House { place, process, control };
            }
        }
        panic!("the host did not start:\n{}", process.diagnostics());
    }

    fn peer(&self, door: &str) -> Socket {
        Socket::connect(&self.place.root().join(format!("{door}.sock")))
    }

    fn frames(&self, door: &str) -> Frames<Socket> {
        Frames::new(self.peer(door))
    }

    fn end(mut self) -> String {
        self.process.signal(Signal::Terminate);
        assert_eq!(self.process.exit(), 0, "{}", self.process.diagnostics());
        self.process.diagnostics()
    }
}

/// The answer to a request.
fn ask(peer: &mut Frames<Socket>, name: &str, session: &str, body: Value) -> Value {
    let id = peer.ask(name, session, body);
    peer.first(|frame| frame["id"] == *id)
}

fn open(peer: &mut Frames<Socket>, session: &str) -> Value {
    ask(peer, "session/open", session, json!({"want": "new", "owner": "connection"}))
}

fn prompt(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

/// This unit costs its connection, and the log says which limit of what size it crossed.
fn ends(component: &str, limits: &str, unit: &str, crossed: &str) {
    let house = House::new(component, limits);
    let (mut bystander, mut culprit) = (house.peer("tried"), house.peer("tried"));
    culprit.write(format!("{unit}\n").as_bytes());
    assert_eq!(culprit.line(), None, "{component}");
    bystander.write(b"still here\n");
    assert_eq!(bystander.line().as_deref(), Some("still here"), "nobody else");
    let said = house.end();
    assert!(said.contains(crossed), "{crossed} is not in {said}");
}

/// This unit is dropped, and the one behind it heard.
fn drops(limits: &str, unit: &str) {
    let house = House::new("counts", limits);
    let mut peer = house.peer("tried");
    peer.write(format!("{unit}\nx\n").as_bytes());
    assert_eq!(peer.line().as_deref(), Some("1 x"));
    house.end();
}

#[test]
fn unit_bytes_max_drops_a_unit() {
    drops("unit-bytes-max = 8", "123456789");
}

#[test]
fn nesting_max_drops_a_unit() {
    drops("nesting-max = 2", "[[[]]]");
}

#[test]
fn outputs_per_call_max_ends_a_connection() {
    ends(
        "floods",
        "outputs-per-call-max = 10",
        "flood 11",
        "limit outputs_per_call: 11 is over the allowed 10",
    );
}

#[test]
fn output_bytes_per_call_max_ends_a_connection() {
    let crossed = "is over the allowed 65536";
    ends("huge", "output-bytes-per-call-max = 65536", "huge 1", crossed);
}

#[test]
fn memory_bytes_max_ends_a_connection() {
    ends(
        "grows",
        "unit-bytes-max = 65_536\nmemory-bytes-max = 4_194_304",
        "grow",
        "is over the allowed 4194304",
    );
}

#[test]
fn call_ms_base_ends_a_connection() {
    ends("spins", "call-ms-base = 70", "spin", "limit call_ms: ");
    // As large as the policy says, and not as the default does.
    ends("spins", "call-ms-base = 70", "spin", "is over the allowed 70");
}

#[test]
fn call_ms_per_mib_adds_to_the_time_of_a_large_unit() {
    let unit = format!("spin-{}", "x".repeat((2 << 20) - 5));
    ends("spins", "call-ms-base = 40\ncall-ms-per-mib = 30", &unit, "is over the allowed 100");
}

#[test]
fn a_large_unit_leaves_no_large_instance_behind() {
    // Decision 54.
    let mut house = House::new("sdk", "unit-bytes-max = 16_777_216");
    let mut peer = Client::new(house.peer("tried"));
    peer.initialize(text(&house.place.cwd));
    let before = house.control.door("tried")["memory_bytes"].as_u64().expect("a number");
    let body = client::prompt("s", &"x".repeat(8 << 20));
    peer.ask("large", "session/prompt", body);
    assert_eq!(peer.response("large")["error"], Value::Null);
    let after = house.control.door("tried")["memory_bytes"].as_u64().expect("a number");
    assert!(after < before + (2 << 20), "{before} bytes became {after}");
    peer.until(|frame| client::is_idle(frame, "s"));
    house.end();
}

#[test]
fn pending_requests_max_refuses_a_request() {
    let house = House::new("frames", "pending-requests-max = 2");
    let mut peer = house.frames("tried");
    assert_eq!(open(&mut peer, "s")["kind"], "reply");
    assert_eq!(ask(&mut peer, "session/prompt", "s", prompt("slow"))["kind"], "reply");
    let waits = [(); 3].map(|()| peer.ask("session/wait", "s", json!({})));
    let refused = peer.first(|frame| frame["kind"] == "failure");
    assert_eq!(refused["id"], *waits[2], "{refused}");
    assert_eq!(
        (&refused["body"]["code"], &refused["body"]["details"]["limit"]),
        (&json!("overloaded"), &json!("pending-requests-max")),
        "{refused}"
    );
    ask(&mut peer, "session/cancel", "s", json!({"inbox": "clear"}));
    house.end();
}

#[test]
fn unwritten_bytes_rest_rests_a_subscription() {
    let limits = "unwritten-bytes-rest = 4_096\nunwritten-bytes-stop = 16_777_216\nlive-notices-max = 100_000";
    let mut house = House::new("frames", limits);
    let mut speaker = house.frames("frames");
    open(&mut speaker, "s");
    let mut watcher = house.frames("tried");
    let watched =
        watcher.ask("events/subscribe", "s", json!({"scope": "session", "topics": ["events"]}));
    watcher.first(|frame| frame["id"] == *watched);
    // Half a megabyte, of which the watcher reads nothing: some of it lies in the system's own buffers.
    let long = "x".repeat(8 << 10);
    for _ in 0..64 {
        let body = prompt(&long);
        assert_eq!(ask(&mut speaker, "session/prompt", "s", body)["kind"], "reply");
        ask(&mut speaker, "session/wait", "s", json!({}));
        speaker.seen.clear();
        speaker.lines.clear();
    }
    let unwritten = house.control.door("tried")["unwritten_bytes"].as_u64().expect("a number");
    // What was handed over before it came to rest is a few frames.
    assert!(unwritten < 128 << 10, "{unwritten} bytes wait");
    let last = ask(&mut speaker, "session/describe", "s", json!({}))["body"]["lastSeq"].clone();
    watcher.first(|frame| frame["body"]["seq"] == last);
    house.end();
}

#[test]
fn unwritten_bytes_stop_rests_reading() {
    let mut house =
        House::new("counts", "unwritten-bytes-rest = 1_024\nunwritten-bytes-stop = 65_536");
    let mut peer = house.peer("tried");
    // Twice what the system's own buffers hold in both directions, and nothing of the answers is read meanwhile.
    let unit = format!("{}\n", "y".repeat(1_000));
    let writer = {
        let mut stream = peer.writer();
        thread::spawn(move || {
            for _ in 0..2_000 {
                stream.write_all(unit.as_bytes()).expect("it is read in the end");
            }
        })
    };
    let settled =
        |house: &mut House| house.control.door("tried")["units_in"].as_u64().expect("a number");
    let end = Instant::now() + PATIENCE;
    loop {
        let row = house.control.door("tried");
        let unwritten = row["unwritten_bytes"].as_u64().expect("a number");
        // One read more than the mark, at most.
        assert!(unwritten < 65_536 + (128 << 10), "{row}");
        if unwritten >= 65_536 {
            break;
        }
        assert!(Instant::now() < end, "{row}");
        thread::yield_now();
    }
    assert!(settled(&mut house) < 2_000, "reading rests");
    for number in 1..=2_000 {
        let line = peer.line().expect("every answer comes");
        assert!(line.starts_with(&format!("{number} y")), "{line}");
    }
    writer.join().expect("all of it was taken");
    house.end();
}

#[test]
fn live_notices_max_lets_a_silent_peer_go() {
    let house = House::new("sdk", "unwritten-bytes-rest = 1\nlive-notices-max = 8");
    let mut peer = Client::new(house.peer("tried"));
    peer.initialize(text(&house.place.cwd));
    // It asks for turns and reads nothing of them, until the system's own buffers are full and more notices wait than may.
    let mut stream = peer.wire.writer();
    let end = Instant::now() + PATIENCE;
    let mut turns = 0;
    while !house.process.diagnostics().contains("lagged") {
        assert!(Instant::now() < end, "{}", house.process.diagnostics());
        turns += 1;
        let body = client::prompt("s", "go on");
        let asked =
            json!({"jsonrpc": "2.0", "id": turns, "method": "session/prompt", "params": body});
        // It may have been let go already.
        let _ = stream.write_all(format!("{asked}\n").as_bytes());
    }
    // What was written before it was let go is whole.
    peer.rest();
    let mut another = Client::new(house.peer("tried"));
    another.initialize(text(&house.place.cwd));
    house.end();
}

#[test]
fn connections_max_refuses_a_connection() {
    let house = House::new("counts", "connections-max = 2");
    let mut peers = [house.peer("tried"), house.peer("tried")];
    for peer in &mut peers {
        peer.write(b"a\n");
        assert_eq!(peer.line().as_deref(), Some("1 a"));
    }
    assert_eq!(house.peer("tried").line(), None);
    let said = house.end();
    assert!(said.contains("connections-max"), "{said}");
}

#[test]
fn sessions_max_refuses_a_session() {
    let house = House::new("frames", "sessions-max = 1");
    let mut peer = house.frames("tried");
    assert_eq!(open(&mut peer, "one")["kind"], "reply");
    let refused = open(&mut peer, "two");
    assert_eq!(
        (&refused["kind"], &refused["body"]["code"]),
        (&json!("failure"), &json!("overloaded")),
        "{refused}"
    );
    // The door's, not the host's.
    assert_eq!(open(&mut house.frames("frames"), "two")["kind"], "reply");
    house.end();
}
