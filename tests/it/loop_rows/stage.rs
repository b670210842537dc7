//! One host of `transom stdio frames` with a place, a model and a peer that watches everything; gates with which a
//! test decides when a shell or the model goes on.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::Duration,
};

use nix::{fcntl::OFlag, sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use crate::support::{
    frames::{Frames, prompt},
    model_server::{ModelServer, Reply, delta, finish, usage},
    place::{Place, text},
    process::Launch,
    wire::{PATIENCE, Wire as _},
};

/// What makes the host a `frames` door.
const DOOR: &str = "[door.frames]\ncomponent = \"frames\"\ncarrier = \"stdio\"\n";

/// A host that runs, and its surroundings.
pub(super) struct Stage {
    pub(super) place: Place,
    pub(super) model: ModelServer,
    pub(super) peer: Frames,
    launch: Launch,
    door: String,
    route: Value,
}

/// How a host is to be started.
pub(super) struct Setting {
    manifest: String,
    script: Value,
    route: Value,
    /// The peer is shown asks.
    asks: bool,
    /// The door may switch sessions (P-35).
    switches: bool,
}

impl Setting {
    /// With the scripted model, and these rules of its script.
    pub(super) fn scripted(rules: Value) -> Setting {
        let script = json!({ "rules": rules });
        let route = json!({"provider": "scripted"});
        Setting { manifest: String::new(), script, route, asks: true, switches: false }
    }

    /// With the provider that speaks to a model server.
    pub(super) fn served() -> Setting {
        let route = json!({"provider": "deepseek-official", "model": "deepseek-v4-flash"});
        Setting { route, ..Setting::scripted(json!([])) }
    }

    /// With a scripted model that takes images.
    pub(super) fn seeing(mut self) -> Setting {
        self.script["images"] = true.into();
        self
    }

    /// With these tables of the manifest.
    pub(super) fn manifest(self, tables: &str) -> Setting {
        Setting { manifest: tables.to_owned(), ..self }
    }

    /// With a door that may switch sessions.
    pub(super) fn switching(self) -> Setting {
        Setting { switches: true, ..self }
    }

    /// With a peer that is shown no asks.
    pub(super) fn without_asks(self) -> Setting {
        Setting { asks: false, ..self }
    }

    /// Starts the host, without a session.
    pub(super) fn start(self) -> Stage {
        let place = Place::new();
        let model = ModelServer::start();
        let mut door = DOOR.to_owned();
        if self.switches {
            let policy = "[frames]\nallow = [\"host/*\", \"session/*\", \"events/*\"]\n";
            let policy = place.file("policy.toml", policy);
            door.push_str(&format!("policy = {:?}\n", text(&policy)));
        }
        let manifest = place.file("transom.toml", format!("{}\n{door}", self.manifest));
        let script = place.file("script.json", self.script.to_string());
        let launch = Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
            .arg("--model-script")
            .arg(&script)
            .arg("--store")
            .arg(place.root().join("store.db"))
            .directory(&place.cwd)
            .env("HOME", &place.home)
            .env("DEEPSEEK_BASE_URL", model.base_url())
            .env("DEEPSEEK_API_KEY", "sk-mock");
        let mut peer = Frames::new(launch.start());
        peer.watch_without(if self.asks { &[] } else { &["asks"] });
        Stage { place, model, peer, launch, door, route: self.route }
    }

    /// Starts the host and begins the session `main`.
    pub(super) fn ready(self) -> Stage {
        let mut stage = self.start();
        stage.open("main");
        stage
    }
}

impl Stage {
    /// Begins a session.
    pub(super) fn open(&mut self, session: &str) -> Value {
        let body = json!({"want": "new", "cwd": text(&self.place.cwd), "route": self.route});
        self.peer.call("session/open", session, body)
    }

    /// Continues a stored session.
    pub(super) fn resume(&mut self, session: &str) -> Value {
        let body = json!({"want": "stored", "route": self.route});
        self.peer.call("session/open", session, body)
    }

    /// Prompts `main` and waits until it has come to rest once more. Gives the events since.
    pub(super) fn turn(&mut self, words: &str) -> Vec<Value> {
        let before = self.peer.events("main").len();
        let rests = self.peer.told("main").iter().filter(|told| *told == "idle").count();
        let id = self.peer.prompt("main", words);
        self.peer.reply(&id);
        self.peer.idle("main", rests + 1);
        self.peer.events("main").split_off(before)
    }

    /// Kills the host. Whatever it has said is in `seen`.
    pub(super) fn kill(&mut self) {
        self.peer.wire.kill();
        for line in self.peer.wire.last_words() {
            self.peer.seen.push(serde_json::from_str(&line).expect("a frame"));
            self.peer.lines.push(line);
        }
    }

    /// Another host on the same place, with a peer that has seen nothing.
    pub(super) fn restart(&mut self) {
        self.peer = Frames::new(self.launch.start());
        self.peer.watch();
    }

    /// The tables of the manifest from the next start on.
    pub(super) fn rewrite(&self, tables: &str) {
        self.place.file("transom.toml", format!("{tables}\n{}", self.door));
    }

    /// A stored session: its header, then its events.
    pub(super) fn exported(&self, session: &str) -> Vec<Value> {
        let store = self.place.root().join("store.db");
        let launch = Launch::new(["export", session, "--store", text(&store)]);
        let finished = launch.env("HOME", &self.place.home).run("");
        assert_eq!(finished.code, 0, "{finished:?}");
        let lines = finished.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The whole log of a session that is live.
    pub(super) fn log(&mut self, session: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let body = json!({"from": events.len(), "limit": 1000});
            let read = self.peer.call("session/read", session, body);
            let page = read["events"].as_array().cloned().unwrap_or_default();
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }

    /// A gate for shells in the session's directory.
    pub(super) fn gate(&self, name: &str) -> Gate {
        Gate::new(self.place.cwd.join(name))
    }

    /// A file that shells write lines to and the test reads.
    pub(super) fn ear(&self, name: &str) -> Ear {
        Ear::new(self.place.cwd.join(name))
    }
}

/// A pipe with a name; both ends are open here, so that nobody waits for the other to open.
fn pipe(path: &PathBuf) -> File {
    mkfifo(path, Mode::S_IRWXU).expect("a fifo");
    let options = OFlag::O_CLOEXEC.bits();
    OpenOptions::new().read(true).write(true).custom_flags(options).open(path).expect("the fifo")
}

/// Where shells wait: `read _ < name` goes on once the test says so.
pub(super) struct Gate(File);

impl Gate {
    fn new(path: PathBuf) -> Gate {
        Gate(pipe(&path))
    }

    /// Lets one of those who wait go on, or the next who comes.
    pub(super) fn open(&mut self) {
        self.0.write_all(b"\n").expect("a line for whoever waits");
    }
}

/// Bytes that shells may have said before the test listens.
const SAID_MAX: usize = 4096;

/// What shells say to the test: `echo word > name`.
pub(super) struct Ear(mpsc::Receiver<u8>);

impl Ear {
    fn new(path: PathBuf) -> Ear {
        let mut file = pipe(&path);
        let (said, hears) = mpsc::sync_channel(SAID_MAX);
        thread::spawn(move || {
            let mut byte = [0];
            while file.read_exact(&mut byte).is_ok() && said.send(byte[0]).is_ok() {}
        });
        Ear(hears)
    }

    /// The next line that somebody says.
    pub(super) fn hear(&self) -> String {
        let mut line = Vec::new();
        loop {
            match self.0.recv_timeout(PATIENCE).expect("somebody says something") {
                b'\n' => return String::from_utf8(line).expect("readable characters"),
                byte => line.push(byte),
            }
        }
    }

    /// Whether nobody has said anything so far.
    pub(super) fn is_silent(&self) -> bool {
        self.0.recv_timeout(Duration::ZERO).is_err()
    }
}

/// An action of a script: a call of this tool.
pub(super) fn call(id: &str, tool: &str, arguments: Value) -> Value {
    json!({"tool": {"id": id, "name": tool, "arguments": arguments}})
}

/// An action of a script: this command.
pub(super) fn bash(id: &str, command: &str) -> Value {
    call(id, "bash", json!({"command": command, "description": "Does it"}))
}

/// A rule of a script: this answer to prompts with that text, at that step.
pub(super) fn rule(contains: &str, step: u32, answer: Value) -> Value {
    json!({"when": {"contains": contains, "step": step}, "answer": answer})
}

/// A reply of a model server: these tool calls, as `(id, name, arguments)`.
pub(super) fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let entry = |(index, (id, name, arguments)): (usize, &(&str, &str, &str))| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"index": index, "id": id, "type": "function", "function": function})
    };
    let entries: Vec<_> = calls.iter().enumerate().map(entry).collect();
    Reply::events(&[delta(json!({"tool_calls": entries})), finish("tool_calls"), usage()])
}

/// Of each event its type.
pub(super) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

/// Those of this type.
pub(super) fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Why the last turn of these events ended.
pub(super) fn reason(events: &[Value]) -> Value {
    of_kind(events, "turn/end").last().expect("a turn ends")["data"]["reason"].clone()
}

/// Of each `tool/result`: the call, the text, and whether it is an error.
pub(super) fn results(events: &[Value]) -> Vec<(String, String, bool)> {
    let of = |event: &&Value| {
        let block = &event["data"]["message"]["content"][0];
        let content = block["content"].as_array().cloned().unwrap_or_default();
        let text: String = content.iter().filter_map(|block| block["text"].as_str()).collect();
        let call = block["toolCallId"].as_str().unwrap_or_default().to_owned();
        (call, text, block["isError"] == true)
    };
    of_kind(events, "tool/result").iter().map(of).collect()
}

/// The lines of several requests, as one write, and their ids.
pub(super) fn at_once(peer: &mut Frames, requests: &[(&str, &str, Value)]) -> Vec<String> {
    let mut lines = String::new();
    let mut ids = Vec::new();
    for (name, session, body) in requests {
        let (id, line) = peer.request(name, Some(session), body);
        lines.push_str(&line);
        lines.push('\n');
        ids.push(id);
    }
    peer.wire.write(lines.as_bytes());
    ids
}

/// A prompt, for [`at_once`].
pub(super) fn said<'a>(session: &'a str, words: &str) -> (&'static str, &'a str, Value) {
    ("session/prompt", session, prompt(words))
}
