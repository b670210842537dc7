//! Hostile components behind doors of one running host: each is refused at the start, with its file and a reason,
//! or loses its connection when it commits its crime, while the other doors of the same process go on.

use std::{fmt::Write as _, fs, path::Path, thread, time::Instant};

use serde_json::json;

use crate::support::{
    client::Client,
    place::{Place, text},
    process::{Finished, Launch, Process, built},
    socket::Socket,
    wire::{PATIENCE, Signal, Wire},
};

/// What every hostile component may do and take. The bounds are those of a small door, so that a crime is short.
const POLICY: &str = r#"
[frames]
allow = []

[limits]
unit-bytes-max = 1_048_576
memory-bytes-max = 16_777_216
outputs-per-call-max = 1_000
output-bytes-per-call-max = 4_194_304
call-ms-base = 500
connections-max = 8
"#;

/// A host with a good SDK door and one door for each of these components.
struct Deployment {
    place: Place,
    process: Process,
}

fn manifest(place: &Place, policy: &str, components: &[(&str, &Path)]) -> Launch {
    let policy = place.file("hostile.toml", policy);
    let mut manifest = String::from(
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlisten = \"sdk.sock\"\nroute-map = { deepseek-official = \"scripted\" }\n\n[store]\npath = \"store.db\"\n",
    );
    for (name, source) in components {
        let name = door_name(name);
        let (source, policy) = (text(source), text(&policy));
        write!(
            manifest,
            "\n[component.{name}]\nsource = \"{source}\"\npolicy = \"{policy}\"\n\n[door.{name}]\ncomponent = \"{name}\"\ncarrier = \"unix\"\nlisten = \"{name}.sock\"\n"
        )
        .expect("a string takes everything");
    }
    let file = place.file("transom.toml", manifest);
    Launch::new(["run", "--manifest", text(&file)]).directory(&place.cwd).env("HOME", place.root())
}

/// What a manifest may call a component whose program has this name.
fn door_name(program: &str) -> String {
    program.replace('_', "-")
}

impl Deployment {
    fn start(programs: &[&str]) -> Deployment {
        Deployment::under(POLICY, programs)
    }

    fn under(policy: &str, programs: &[&str]) -> Deployment {
        let place = Place::new();
        let files: Vec<_> =
            programs.iter().map(|name| (*name, built(&format!("programs/{name}.wasm")))).collect();
        let components: Vec<_> = files.iter().map(|(name, file)| (*name, file.as_path())).collect();
        let mut process = manifest(&place, policy, &components).start();
        while let Some(line) = process.line() {
            if line.starts_with("ready") {
                return Deployment { place, process };
            }
        }
        panic!("the host did not start:\n{}", process.diagnostics());
    }

    fn door(&self, name: &str) -> Client<Socket> {
        Client::new(Socket::connect(&self.place.root().join(format!("{}.sock", door_name(name)))))
    }

    /// The good door answers, on a new connection and with a whole turn.
    fn goes_on(&self, session: &str) {
        let mut client = self.door("sdk");
        let answer = client.initialize(text(&self.place.cwd));
        assert!(answer.get("result").is_some(), "{answer}");
        let turn = client.turn(session, "PROMPT: PLAIN");
        assert!(
            turn.iter()
                .any(|frame| frame["params"]["event"]["data"]["reason"]["kind"] == "completed"),
            "{turn:?}"
        );
    }
}

/// A component that echoes until it hears its word; then its connection ends, and only that.
fn contained(name: &str, word: &str) {
    let mut deployment = Deployment::start(&[name]);
    // A client of the good door that is there the whole time.
    let mut witness = deployment.door("sdk");
    witness.initialize(text(&deployment.place.cwd));
    let mut bystander = deployment.door(name);
    bystander.wire.write(b"hello\n");
    assert_eq!(bystander.wire.line().as_deref(), Some("hello"));

    let mut culprit = deployment.door(name);
    culprit.wire.write(b"hello\n");
    assert_eq!(culprit.wire.line().as_deref(), Some("hello"), "it works until it is told not to");
    culprit.wire.write(format!("{word}\n").as_bytes());
    witness.ask("meanwhile", "probe", json!({}));
    assert_eq!(witness.response("meanwhile")["error"]["code"], -32603);
    assert_eq!(
        culprit.wire.line(),
        None,
        "the polite way of a line carrier is the end of output (decision 56)"
    );

    bystander.wire.write(b"still here\n");
    assert_eq!(
        bystander.wire.line().as_deref(),
        Some("still here"),
        "one instance for each connection"
    );
    deployment.door(name).wire.write(b"next\n");
    deployment.goes_on("after");
    let turn = witness.turn("witness", "PROMPT: PLAIN");
    assert!(!turn.is_empty());

    deployment.process.signal(Signal::Terminate);
    assert_eq!(deployment.process.exit(), 0, "{}", deployment.process.diagnostics());
    let said = deployment.process.diagnostics();
    assert!(
        said.contains(&door_name(name)) && said.contains("sha256:"),
        "the log names the component and its digest: {said}"
    );
}

#[test]
fn spins_is_contained() {
    contained("spins", "spin");
}

/// Ticks of processor time that a process has used.
fn used(process: &Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it runs");
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_signal_counts_while_components_hold_every_thread() {
    // A minute for each call: only whoever cuts them off ends them before the hard stop, whose status would be 1.
    let patient = POLICY.replace("call-ms-base = 500", "call-ms-base = 60_000");
    let mut deployment = Deployment::under(&patient, &["spins"]);
    let mut client = deployment.door("sdk");
    client.initialize(text(&deployment.place.cwd));
    client.turn("kept", "PROMPT: PLAIN");
    let before = used(&deployment.process);
    let mut peers: Vec<_> = (0..8).map(|_| deployment.door("spins")).collect();
    for peer in &mut peers {
        peer.wire.write(b"spin\n");
    }
    // Half a second of spinning, when nothing else is asked for.
    let end = Instant::now() + PATIENCE;
    while used(&deployment.process) < before + 50 {
        assert!(Instant::now() < end, "nothing spins");
        thread::yield_now();
    }
    deployment.process.signal(Signal::Terminate);
    assert_eq!(deployment.process.exit(), 0, "{}", deployment.process.diagnostics());
    let exported = Launch::new(["export", "kept", "--store", "store.db"])
        .directory(deployment.place.root())
        .env("HOME", deployment.place.root())
        .run("");
    assert_eq!(exported.code, 0, "{exported:?}");
    assert!(exported.stdout.contains("turn/end"), "{exported:?}");
}

#[test]
fn grows_is_contained() {
    contained("grows", "grow");
}

#[test]
fn traps_is_contained() {
    contained("traps", "trap");
}

#[test]
fn floods_is_contained() {
    contained("floods", "flood 100000");
}

#[test]
fn huge_is_contained() {
    contained("huge", "huge 5");
}

#[test]
fn recurses_is_contained() {
    contained("recurses", "recurse");
    contained("recurses", "recurse in memory");
}

#[test]
fn faults_after_is_contained() {
    contained("faults_after", "fault");
}

/// A component that is refused when it is loaded: nothing is served, and the operator is told which file and why.
fn refused(name: &str, file: &Path, why: &str) {
    let place = Place::new();
    let finished: Finished = manifest(&place, POLICY, &[(name, file)]).run("");
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(finished.stdout, "", "no door was opened: {finished:?}");
    for said in [text(file), &door_name(name), why] {
        assert!(finished.stderr.contains(said), "{said:?} is not in {:?}", finished.stderr);
    }
}

/// Every door is tried out before anybody may connect.
#[test]
fn spins_in_open_is_refused() {
    let why = "cannot open a connection at door";
    refused("spins_in_open", &built("programs/spins_in_open.wasm"), why);
}

#[test]
fn imports_clock_is_refused() {
    refused("imports_clock", &built("programs/imports_clock.wasm"), "a codec imports nothing");
}

#[test]
fn wrong_types_is_refused() {
    refused("wrong_types", &built("programs/wrong_types.wasm"), "does not fit transom:codec@0.1");
}

#[test]
fn a_file_that_is_no_component_is_refused() {
    let place = Place::new();
    let whole = fs::read(built("programs/traps.wasm")).expect("a component");
    let cut = &whole[..whole.len() / 2];
    // The smallest core module: magic and version.
    let core = b"\0asm\x01\0\0\0";
    for (name, bytes, why) in [
        ("truncated", cut, "cut short"),
        ("empty", b"", "empty"),
        ("core", core, "core WebAssembly module"),
        ("prose", b"#!/bin/sh\n", "not WebAssembly"),
    ] {
        refused(name, &place.file(&format!("{name}.wasm"), bytes), why);
    }
    refused("missing", &place.root().join("missing.wasm"), "cannot read");
}
