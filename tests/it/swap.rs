//! Components that are exchanged under a running host: nothing that was received or owed is lost, doubled or reordered, and a
//! version that fails goes by itself (design §7).

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal as Number, kill},
    },
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::support::{
    client::{Client, is_idle},
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
        let place = Place::new();
        place.file("policy.toml", POLICY);
        place.file("counts.wasm", program("counts"));
        place.file("watched.wasm", program("counts"));
        place.file("sdk.wasm", fs::read(built("components/sdk.wasm")).expect("a component"));
        place.file("transom.toml", manifest(component, more, of_door));
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
fn counts_two_and_counts_take_over_from_each_other() {
    // Two state formats, each of which both versions resume.
    let mut house = House::new("counts.wasm", "");
    let [one, two] = [house.place.root().join("counts.wasm"), built("programs/counts_two.wasm")];
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.swap("counts", &two).expect("an upgrade");
    says(&mut peer, "bb", "2 bb (2)");
    says(&mut house.peer("counts"), "a", "1 a (1)");
    house.swap("counts", &one).expect("and the other way round");
    says(&mut peer, "c", "3 c");
    house.control.ask("rollback", json!({"component": "counts"})).expect("back");
    says(&mut peer, "d", "4 d (1)");
    // Without a word in between: what a version has not heard of it passes on.
    for (file, stayed) in [(&one, 0), (&two, 0), (&one, 0)] {
        let answer = house.swap("counts", file).expect("it is swapped");
        assert_eq!(answer["doors"][0]["stayed"], stayed, "{answer}");
    }
    says(&mut peer, "e", "5 e");
}

#[test]
fn a_version_is_judged_by_its_types_and_not_by_what_it_calls_itself() {
    let mut house = House::new("counts.wasm", "");
    let called = |name: &str| {
        let mut component = fs::read(built(&format!("programs/{name}.wasm"))).expect("a component");
        component.extend(b"\0\x0d\x07version1.0.0");
        component
    };
    let good = house.place.file("good.wasm", called("counts"));
    let other = house.place.file("other.wasm", called("wrong_types"));
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.swap("counts", &good).expect("it is swapped");
    let version = |house: &mut House| house.control.door("counts")["identity"].clone();
    let before = version(&mut house);
    assert!(
        before.as_str().is_some_and(|text| text.starts_with("counts 1.0.0 sha256:")),
        "{before}"
    );
    let refused = house.swap("counts", &other).expect_err("refused");
    assert!(refused.contains("missing: `connection.suspend"), "{refused}");
    assert_eq!(version(&mut house), before);
    says(&mut peer, "b", "2 b");
}

#[test]
fn other_bytes_at_the_same_path_are_swapped_in_once() {
    let mut house = House::new("counts.wasm", "");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.place.file("counts.wasm", renamed(program("counts"), "other"));
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["changes"], json!([]), "the manifest says the same");
    let doors: Vec<_> = answer["swaps"].as_array().expect("rows").iter().collect();
    assert_eq!(doors.len(), 2, "both doors with that file: {answer}");
    assert!(doors.iter().all(|row| row["from"] != row["to"]), "{answer}");
    says(&mut peer, "b", "2 b");
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer, json!({"changes": [], "swaps": [], "restart": []}));
}

#[test]
fn a_full_door_is_swapped_like_any_other() {
    // A connection that moves has two instances for a moment.
    let mut house = House::with("counts.wasm", "", "");
    let narrow =
        manifest("counts.wasm", "", "").replace("connections-max = 1200", "connections-max = 3");
    house.place.file("transom.toml", narrow);
    house.process.signal(Signal::Terminate);
    house = House::at(house.place);
    let mut peers = [(); 3].map(|()| house.peer("counts"));
    for peer in &mut peers {
        says(peer, "a", "1 a");
    }
    assert_eq!(house.peer("counts").line(), None, "it is full");
    let second = house.place.file("second.wasm", renamed(program("counts"), "second"));
    for (round, file) in
        [&second, &house.place.root().join("counts.wasm")].into_iter().cycle().take(10).enumerate()
    {
        let answer = house.swap("counts", file).expect("it is swapped");
        assert_eq!(
            (&answer["doors"][0]["moved"], &answer["doors"][0]["stayed"]),
            (&json!(3), &json!(0)),
            "{answer}"
        );
        for peer in &mut peers {
            says(peer, "b", &format!("{} b", round + 2));
        }
    }
}

#[test]
fn forgets_leaves_connections_where_they_are() {
    let mut house = House::new("counts.wasm", "");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    let answer = house.swap("counts", &built("programs/forgets.wasm")).expect("it is swapped");
    assert_eq!(
        (&answer["doors"][0]["moved"], &answer["doors"][0]["stayed"]),
        (&json!(0), &json!(1))
    );
    says(&mut peer, "b", "2 b");
    says(&mut house.peer("counts"), "a", "new a");
    let rows = house.control.ask("connections", json!({"door": "counts"})).expect("rows");
    assert_eq!(rows["connections"][0]["version"], 1, "{rows}");
    house.until("counts", |row| row["connections"] == 1 && row["behind"] == 1);

    // Whoever wants the old version gone drains the door.
    let asked = house.control.ask("drain", json!({"door": "counts"})).expect("asked");
    assert_eq!(asked["asked"], 1);
    assert_eq!(peer.line(), None, "this one ends when it is asked to");
}

#[test]
fn connections_that_cannot_be_moved_are_drained_where_the_manifest_says_so() {
    let mut house = House::new("counts.wasm", "swap = \"drain\"");
    let (mut stays, second) =
        (house.peer("counts"), house.place.file("second.wasm", renamed(program("counts"), "2")));
    says(&mut stays, "a", "1 a");
    house.swap("counts", &second).expect("it is swapped");
    says(&mut stays, "b", "2 b");
    house.swap("counts", &built("programs/forgets.wasm")).expect("it is swapped");
    assert_eq!(stays.line(), None, "asked to end, since it could not be moved");
    says(&mut house.peer("counts"), "a", "new a");
}

#[test]
fn a_version_that_traps_at_once_is_rolled_back_and_costs_nobody_anything() {
    // Decision 52; `traps` resumes the state of `counts` and traps at this word, which is the first that it hears.
    let mut house = House::new("counts.wasm", "");
    let mut peers = [house.peer("counts"), house.peer("counts"), house.peer("counts")];
    for peer in &mut peers {
        says(peer, "a", "1 a");
    }
    house.swap("counts", &built("programs/traps.wasm")).expect("it is swapped");
    says(&mut peers[0], "trap", "2 trap");
    assert_eq!(house.control.door("counts")["version"], 2, "one fault is allowed");
    says(&mut peers[1], "trap", "2 trap");
    // The third has heard nothing of it, and is moved back with what it had.
    let row = house.until("counts", |row| row["version"] == 1 && row["behind"] == 0);
    assert_eq!((&row["traps"], &row["rollbacks"]), (&json!(2), &json!(1)), "{row}");
    for peer in &mut peers {
        peer.write(b"z\n");
    }
    assert_eq!(
        peers.map(|mut peer| peer.line()),
        ["3 z", "3 z", "2 z"].map(|line| Some(line.to_owned()))
    );
    let said = house.end();
    assert_eq!(said.matches("new version failed its probation").count(), 1, "{said}");
}

#[test]
fn a_version_of_another_world_is_refused_with_the_difference() {
    let mut house = House::new("counts.wasm", "");
    let refused = |answer: Result<Value, String>, words: &[&str]| {
        let said = answer.expect_err("it is refused");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(
        house.swap("counts", &built("programs/wrong_types.wasm")),
        &["does not fit transom:codec@0.1", "missing: `connection.suspend"],
    );
    refused(
        house.swap("counts", &built("programs/imports_clock.wasm")),
        &["a codec imports nothing"],
    );
    refused(
        house.swap("counts", &built("programs/mirrors.wasm")),
        &["speaks the protocol `mirrors`", "door `counts`"],
    );
    refused(
        house.swap("counts", &built("programs/spins_in_open.wasm")),
        &["cannot open a connection"],
    );
    refused(house.swap("counts", &house.socket("nowhere")), &["cannot read component"]);
    refused(
        house.swap("nobody", &built("programs/counts.wasm")),
        &["no door uses a component `nobody`"],
    );
    refused(house.control.ask("rollback", json!({"component": "counts"})), &["no version"]);
    let row = house.control.door("counts");
    assert_eq!((&row["version"], &row["history"]), (&json!(1), &json!([])), "nothing has changed");
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
            .write_all(format!("{request} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes())
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

/// Raises this process's own bound, which the host inherits.
fn many_descriptors() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a bound");
    if soft < 4096 {
        setrlimit(Resource::RLIMIT_NOFILE, 4096.min(hard), hard).expect("a higher bound");
    }
}

const CONNECTIONS: usize = 1000;

/// 200 where `RUN_SLOW_TESTS` is set.
fn swaps() -> usize {
    if env::var_os("RUN_SLOW_TESTS").is_some() { 200 } else { 20 }
}

/// One of many peers: asks without end, and every answer must be the next one.
async fn ask_on(path: PathBuf, stop: Arc<AtomicBool>) -> u64 {
    let stream = UnixStream::connect(&path).await.expect("the door is open");
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut asked = 0u64;
    let mut answered = 0u64;
    while !stop.load(Ordering::Relaxed) || answered < asked {
        // Two on their way at a time, so that one is always there when the connection moves.
        while asked < answered + 2 && !stop.load(Ordering::Relaxed) {
            asked += 1;
            writer.write_all(format!("u{asked}\n").as_bytes()).await.expect("it is taken");
        }
        if answered == asked {
            break;
        }
        let line = lines.next_line().await.expect("readable").expect("the connection goes on");
        answered += 1;
        assert_eq!(line, format!("{answered} u{answered}"), "lost, doubled or out of order");
    }
    answered
}

#[test]
fn a_thousand_connections_live_through_every_swap() {
    many_descriptors();
    let mut house = House::new("counts.wasm", "");
    let files = [
        house.place.file("second.wasm", renamed(program("counts"), "second")),
        house.place.root().join("counts.wasm"),
    ];
    // A client of the good door, whose host speaks to it unasked.
    let mut client = Client::new(house.peer("sdk"));
    client.initialize(text(&house.place.cwd));
    let mut witness = house.peer("other");

    let stop = Arc::new(AtomicBool::new(false));
    let (path, stopping) = (house.socket("counts"), Arc::clone(&stop));
    let peers = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let peers: Vec<_> = (0..CONNECTIONS)
                .map(|_| tokio::spawn(ask_on(path.clone(), Arc::clone(&stopping))))
                .collect();
            let mut answered = Vec::new();
            for peer in peers {
                answered.push(peer.await.expect("no peer failed"));
            }
            answered
        })
    });
    house.until("counts", |row| row["connections"] == CONNECTIONS);
    let sdk = [
        house
            .place
            .file("sdk-2.wasm", renamed(fs::read(built("components/sdk.wasm")).unwrap(), "2")),
        house.place.root().join("sdk.wasm"),
    ];
    let mut moved = 0;
    let swaps = swaps();
    for round in 0..swaps {
        let answer = house.swap("counts", &files[round % 2]).expect("it is swapped");
        let row = &answer["doors"][0];
        assert_eq!((&row["stayed"], &row["lost"]), (&json!(0), &json!(0)), "{row}");
        moved += row["moved"].as_u64().expect("a number");
        if round % 5 == 0 {
            says(&mut witness, "w", &format!("{} w", round / 5 + 1));
            // In the middle of a turn.
            client.prompt("turn", "main", "PROMPT: PLAIN");
            house.swap("sdk", &sdk[round / 5 % 2]).expect("it is swapped");
            client.until(|frame| is_idle(frame, "main"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let answered = peers.join().expect("every answer was the next one");
    assert_eq!(answered.len(), CONNECTIONS);
    assert!(answered.iter().all(|count| *count > 0), "everybody was served");
    assert!(moved > (CONNECTIONS * swaps / 2) as u64, "{moved} moves are too few to show anything");
    let seqs: Vec<_> = client
        .events("main")
        .iter()
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect();
    let first = seqs.first().copied().expect("events");
    assert_eq!(
        seqs,
        (first..first + seqs.len() as u64).collect::<Vec<_>>(),
        "no event lost, doubled or reordered"
    );
    let row = house.control.door("counts");
    assert_eq!(
        (&row["traps"], &row["faults"], &row["rollbacks"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let other = house.control.door("other");
    assert_eq!((&other["connections"], &other["swaps"]), (&json!(1), &json!(0)), "no disconnect");
}
