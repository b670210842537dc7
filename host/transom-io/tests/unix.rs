//! The unix carrier with a real host behind it: who may connect, what a slow peer costs, how it ends.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
    task::JoinHandle,
};
use transom_harness::agent::AgentConfig;
use transom_io::{
    Core, Host, OpenDoor, Ports,
    unix::{BindError, Socket},
};
use transom_model::{Providers, Scripted, scripted::Script};
use transom_router::{HostFacts, Reach, Router};
use transom_store::{Durability, SqliteStore};
use transom_tools::{Options, Registry};

/// Longest wait for anything; nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A host with the native door on a socket.
struct House {
    path: PathBuf,
    stop: watch::Sender<bool>,
    serving: Option<JoinHandle<()>>,
    runtime: Runtime,
    _directory: TempDir,
}

impl House {
    fn new(script: &str, limits: &str) -> House {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("run/frames.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (stop, stopping) = watch::channel(false);
        let serving = runtime.block_on(async {
            let (host, inbox) = Host::new();
            let facts = HostFacts {
                version: "0".into(),
                directory: "/".into(),
                doors: vec!["frames".to_owned()],
                sessions_max: 100,
            };
            let router = Router::new(facts, AgentConfig::default(), [1; 32]);
            let store = directory.path().join("store.db");
            let store = SqliteStore::open(&store, Durability::Process, host.commits()).unwrap();
            let script: Script = script.parse().unwrap();
            let models = Providers::new(Handle::current()).with("scripted", Scripted::new(script));
            let spills = directory.path().join("spill");
            let tools = Registry::new(Options::new(
                Handle::current(),
                Vec::new(),
                spills,
                directory.path(),
            ));
            let ports = Ports {
                door_models: HashMap::new(),
                models: Arc::new(models),
                tools: Arc::new(tools.unwrap()),
                store: Arc::new(store),
            };
            tokio::spawn(Core::new(host.clone(), inbox, router, ports).run());
            let door = frames_door(limits);
            let socket = Socket::bind(&path).unwrap();
            tokio::spawn(socket.serve(host, door, stopping))
        });
        House { path, stop, serving: Some(serving), runtime, _directory: directory }
    }

    fn peer(&self) -> Peer {
        Peer::connect(&self.path)
    }

    /// Asks for an orderly end and waits for it.
    fn end(&mut self) {
        self.stop.send_replace(true);
        let serving = self.serving.take().unwrap();
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, serving).await })
            .unwrap()
            .unwrap();
    }
}

fn frames_door(limits: &str) -> OpenDoor {
    let built_in = transom_doors::find("frames").unwrap();
    let transom_doors::DoorCodec::Native(source) = built_in.codec else {
        panic!("frames is native")
    };
    let text = built_in.policy_text.split("[limits]").next().unwrap();
    let policy =
        transom_policy::Policy::parse("test", &format!("{text}[limits]\n{limits}")).unwrap();
    OpenDoor {
        name: "frames".into(),
        source: source(),
        policy: Arc::new(policy),
        framing: built_in.framing,
        options: "{}".into(),
        reach: Reach::All,
        directory: "/".into(),
    }
}

/// A peer that speaks frames and blocks.
struct Peer {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    asked: u64,
}

impl Peer {
    fn connect(path: &Path) -> Peer {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Peer { stream, reader, asked: 0 }
    }

    fn ask(&mut self, name: &str, session: Option<&str>, body: Value) {
        self.asked += 1;
        let mut frame =
            json!({ "kind": "request", "id": self.asked.to_string(), "name": name, "body": body });
        if let Some(session) = session {
            frame["session"] = json!(session);
        }
        self.stream.write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().expect("the host closed the connection");
            let is_it = found(&frame);
            frames.push(frame);
            if is_it {
                return frames;
            }
        }
    }

    /// Opens a session and watches it.
    fn open(&mut self, session: &str) {
        let route = json!({ "provider": "scripted", "model": "m" });
        self.ask("session/open", Some(session), json!({ "want": "new", "route": route }));
        let watch = json!({ "scope": "session", "topics": ["events", "status"] });
        self.ask("events/subscribe", Some(session), watch);
        self.until(|frame| frame["name"] == "events/subscribe");
    }

    fn prompt(&mut self, session: &str, text: &str) {
        let content = json!({ "content": [{ "type": "text", "text": text }] });
        self.ask("session/prompt", Some(session), content);
    }
}

fn idle(frame: &Value) -> bool {
    frame["name"] == "session/status" && frame["body"]["status"] == "idle"
}

const ECHO: &str = r#"{"rules": [{"answer": [{"text": "you said {{prompt}}"}]}]}"#;

#[test]
fn a_socket_belongs_to_its_owner_alone() {
    let house = House::new(ECHO, "");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.path), 0o600);
    assert_eq!(mode(house.path.parent().unwrap()), 0o700);
}

#[test]
fn an_address_is_taken_only_from_the_dead() {
    let house = House::new(ECHO, "");
    let _runtime = house.runtime.enter();
    assert!(matches!(Socket::bind(&house.path), Err(BindError::InUse(_))));

    let stale = house.path.with_file_name("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(Socket::bind(&stale).is_ok(), "nobody answers there any more");
    assert!(!stale.exists(), "and the file goes with the socket");

    let file = house.path.with_file_name("notes.txt");
    fs::write(&file, "keep me").unwrap();
    assert!(matches!(Socket::bind(&file), Err(BindError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&file).unwrap(), "keep me");
}

#[test]
fn a_turn_is_shown_in_order() {
    let house = House::new(ECHO, "");
    let mut peer = house.peer();
    peer.open("main");
    peer.prompt("main", "hi");
    let frames = peer.until(idle);
    let seqs: Vec<_> = frames
        .iter()
        .filter(|frame| frame["name"] == "session/event")
        .map(|frame| frame["body"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    let answer = frames.iter().find(|frame| frame["body"]["type"] == "assistant/message").unwrap();
    assert_eq!(answer["body"]["data"]["message"]["content"][0]["text"], "you said hi");
}

#[test]
fn one_connection_too_many_is_let_go_and_harms_nobody() {
    // Limit connections-max; on a line carrier the refusal is the end of output (decision 56).
    let house = House::new(ECHO, "connections-max = 2");
    let (mut one, mut two) = (house.peer(), house.peer());
    one.open("a");
    two.open("b");
    let mut refused = house.peer();
    assert_eq!(refused.next(), None);
    drop(two);
    one.prompt("a", "still here?");
    one.until(idle);
    // The place is free again once the host has seen the other one leave.
    loop {
        let mut next = house.peer();
        next.ask("host/describe", None, json!({}));
        if next.next().is_some() {
            break;
        }
    }
}

#[test]
fn a_peer_that_does_not_read_misses_nothing_and_holds_up_nobody() {
    // Decision 21: its cursor rests, and goes on from the store.
    let house = House::new(
        r#"{"rules": [{"answer": [{"text": "{{prompt}}"}]}]}"#,
        "unwritten-bytes-rest = 4096\nunwritten-bytes-stop = 65536",
    );
    let (mut slow, mut quick) = (house.peer(), house.peer());
    slow.open("slow");
    quick.open("quick");
    let long = "x".repeat(20_000);
    for _ in 0..60 {
        slow.prompt("slow", &long);
    }
    for _ in 0..20 {
        quick.prompt("quick", "now");
        quick.until(idle);
    }
    let mut seqs = Vec::new();
    let mut receipts = 0;
    while receipts < 60 || seqs.last() != Some(&(seqs.len() as u64 - 1)) {
        let frame = slow.next().expect("a slow peer that reads again is not let go");
        if frame["name"] == "session/event" {
            seqs.push(frame["body"]["seq"].as_u64().unwrap());
        }
        receipts += usize::from(frame["name"] == "session/prompt");
    }
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "no gap, nothing twice");
}

#[test]
fn a_peer_that_only_asks_is_not_read_for_ever() {
    // Limit unwritten-bytes-stop: reading rests when answers are not taken.
    let house = House::new(
        ECHO,
        "unwritten-bytes-rest = 4096\nunwritten-bytes-stop = 16384\nlive-notices-max = 64",
    );
    let peer = house.peer();
    let mut stream = peer.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let line =
        "{\"kind\":\"request\",\"id\":\"1\",\"name\":\"no such frame\",\"body\":{}}\n".repeat(100);
    let mut written = 0;
    let stopped = loop {
        match stream.write(line.as_bytes()) {
            Ok(bytes) => written += bytes,
            Err(_) => break true,
        }
        if written > 64 * 1024 * 1024 {
            break false;
        }
    };
    assert!(stopped, "the host read {written} bytes of requests whose answers nobody took");
}

#[test]
fn an_orderly_end_closes_every_connection_and_removes_the_file() {
    let mut house = House::new(ECHO, "");
    let mut peer = house.peer();
    peer.open("main");
    house.end();
    let mut rest = Vec::new();
    peer.reader.read_to_end(&mut rest).unwrap();
    assert!(!house.path.exists());
}

#[test]
fn a_line_that_is_too_long_costs_its_line_only() {
    // S-9, limit unit-bytes-max.
    let house = House::new(ECHO, "unit-bytes-max = 1000");
    let mut peer = house.peer();
    let long = format!("{{\"kind\":\"request\",\"id\":\"1\",\"name\":\"{}\"}}\n", "x".repeat(2000));
    peer.stream.write_all(long.as_bytes()).unwrap();
    peer.ask("host/describe", None, json!({}));
    let frames = peer.until(|frame| frame["name"] == "host/describe");
    assert_eq!(frames.last().unwrap()["kind"], "reply");
}
