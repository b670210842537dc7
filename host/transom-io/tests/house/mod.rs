//! A real host for the tests of its carriers, and a peer that speaks frames and blocks.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
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
use transom_frame::SessionId;
use transom_harness::{
    agent::AgentConfig,
    image::ImageLimits,
    ports::{
        Append, Asker, Attachment, Attachments, Page, Store, StoreError, StoredSession,
        ToolOutcome, ToolSpec,
    },
};
use transom_io::{
    Core, Host, OpenDoor, Ports,
    slot::{Slot, Upkeep},
    unix::Socket,
};
use transom_model::{Providers, Scripted, scripted::Script};
use transom_router::{HostFacts, Images, Reach, Router, Unseen};
use transom_store::{Durability, SqliteStore};
use transom_tools::{Addition, Call, Options, Output, Registry, Running, Tool};

/// Longest wait for anything; nothing here takes a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A host with the native door on a socket.
pub(crate) struct House {
    pub(crate) path: PathBuf,
    pub(crate) stop: watch::Sender<bool>,
    serving: Option<JoinHandle<()>>,
    pub(crate) runtime: Runtime,
    _directory: TempDir,
}

impl House {
    pub(crate) fn new(script: &str, limits: &str) -> House {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("run/frames.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (stop, stopping) = watch::channel(false);
        let entered = runtime.enter();
        let serving = {
            let host = start(directory.path(), script, None);
            let socket = Socket::bind(&path).unwrap();
            tokio::spawn(socket.serve(host, frames_door(limits), stopping))
        };
        drop(entered);
        House { path, stop, serving: Some(serving), runtime, _directory: directory }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::connect(&self.path)
    }

    /// Asks for an orderly end and waits for it.
    pub(crate) fn end(&mut self) {
        self.stop.send_replace(true);
        let serving = self.serving.take().unwrap();
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, serving).await })
            .unwrap()
            .unwrap();
    }
}

/// Starts a host whose store may not grow beyond `pages_max` pages of 4 KiB.
pub(crate) fn start(directory: &Path, script: &str, pages_max: Option<u32>) -> Host {
    let (host, inbox) = Host::new();
    let facts = HostFacts {
        version: "0".into(),
        directory: "/".into(),
        doors: vec!["frames".to_owned()],
        route: transom_harness::ports::Route::default(),
        sessions_max: 100,
        images: Images::Kept { limits: ImageLimits::default(), unseen: Unseen::Admitted },
        ..HostFacts::default()
    };
    let router = Router::new(facts, AgentConfig::default(), [1; 32]);
    let file = directory.join("store.db");
    let store = match pages_max {
        None => SqliteStore::open(&file, Durability::Process, host.commits()),
        Some(pages) => SqliteStore::open_bounded(&file, Durability::Process, pages, host.commits()),
    };
    let script: Script = script.parse().unwrap();
    let models = Providers::new(Handle::current()).with("scripted", Scripted::new(script));
    let tools = Registry::new(Options::new(
        Handle::current(),
        Vec::new(),
        directory.join("spill"),
        directory,
    ));
    let tools = tools.unwrap();
    for name in ["odd", "loud", "blind"] {
        tools.register(Arc::new(Odd(name))).unwrap();
    }
    let ports = Ports {
        door_models: HashMap::new(),
        models: Arc::new(models),
        tools: Arc::new(tools),
        store: Arc::new(Frail(store.unwrap())),
    };
    tokio::spawn(Core::new(host.clone(), inbox, router, ports).run());
    host
}

/// A tool with a bug: `odd` cannot say whether its calls may overlap, `loud` spoils what it has made, and `blind` cannot
/// be described to a session of that name.
struct Odd(&'static str);

impl Tool for Odd {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({ "type": "object" });
        ToolSpec { name: self.0.to_owned(), description: String::new(), parameters }
    }

    fn output(&self) -> Output {
        match self.0 {
            "loud" => Output::text().finalised(|_| panic!("a bug in a last touch")),
            _ => Output::text(),
        }
    }

    fn addition(&self) -> Option<Addition> {
        let describe = |asker: &Asker| {
            assert_ne!(asker.session.as_str(), "blind", "a bug in a description");
            None
        };
        (self.0 == "blind").then(|| Arc::new(describe) as Addition)
    }

    fn is_parallel(&self, _call: &serde_json::Map<String, Value>) -> bool {
        assert_ne!(self.0, "odd", "a bug in a predicate");
        false
    }

    fn run(&self, _call: Call) -> Running {
        Box::pin(async { Ok(ToolOutcome::text("ran")) })
    }
}

/// A store with a bug: it cannot keep pictures.
struct Frail(SqliteStore);

impl Attachments for Frail {
    fn keep_attachment(&self, _: &[u8], _: Option<&str>) -> Result<String, StoreError> {
        panic!("a bug in a store")
    }

    fn attachment(&self, id: &str) -> Result<Option<Attachment>, StoreError> {
        self.0.attachment(id)
    }
}

impl Store for Frail {
    fn append(&self, events: Vec<Append>) {
        self.0.append(events);
    }

    fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError> {
        self.0.find(id)
    }

    fn claim(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.0.claim(id)
    }

    fn release(&self, id: &SessionId) {
        self.0.release(id);
    }

    fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError> {
        self.0.read(id, page)
    }

    fn list(&self) -> Result<Vec<StoredSession>, StoreError> {
        self.0.list()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }
}

pub(crate) fn frames_door(limits: &str) -> OpenDoor {
    let built_in = transom_doors::find("frames").unwrap();
    let transom_doors::DoorCodec::Native(source) = built_in.codec else {
        panic!("frames is native")
    };
    let text = built_in.policy_text.split("[limits]").next().unwrap();
    let policy =
        transom_policy::Policy::parse("test", &format!("{text}[limits]\n{limits}")).unwrap();
    let (policy, upkeep) = (Arc::new(policy), Upkeep::default());
    OpenDoor {
        redactor: Arc::default(),
        name: "frames".into(),
        slot: Slot::new("frames", "frames", source(), "{}".into(), policy, upkeep),
        framing: built_in.framing,
        reach: Reach::All,
        answers: built_in.answers,
        directory: "/".into(),
    }
}

/// A peer that speaks frames and blocks.
pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    pub(crate) reader: BufReader<UnixStream>,
    asked: u64,
}

impl Peer {
    pub(crate) fn connect(path: &Path) -> Peer {
        Peer::on(UnixStream::connect(path).unwrap())
    }

    pub(crate) fn on(stream: UnixStream) -> Peer {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Peer { stream, reader, asked: 0 }
    }

    pub(crate) fn ask(&mut self, name: &str, session: Option<&str>, body: Value) {
        self.asked += 1;
        let mut frame =
            json!({ "kind": "request", "id": self.asked.to_string(), "name": name, "body": body });
        if let Some(session) = session {
            frame["session"] = json!(session);
        }
        self.stream.write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
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
    pub(crate) fn open(&mut self, session: &str) {
        let route = json!({ "provider": "scripted", "model": "m" });
        self.ask("session/open", Some(session), json!({ "want": "new", "route": route }));
        let watch = json!({ "scope": "session", "topics": ["events", "status"] });
        self.ask("events/subscribe", Some(session), watch);
        self.until(|frame| frame["name"] == "events/subscribe");
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) {
        let content = json!({ "content": [{ "type": "text", "text": text }] });
        self.ask("session/prompt", Some(session), content);
    }
}

/// Whether this says that a session has come to rest.
pub(crate) fn idle(frame: &Value) -> bool {
    frame["name"] == "session/status" && frame["body"]["status"] == "idle"
}

/// The events of a kind among these frames.
pub(crate) fn of_kind<'f>(seen: &'f [Value], kind: &str) -> Vec<&'f Value> {
    seen.iter().filter(|frame| frame["body"]["type"] == kind).collect()
}

/// Why the turn among them has ended.
pub(crate) fn end(seen: &[Value]) -> &Value {
    &of_kind(seen, "turn/end")[0]["body"]["data"]["reason"]
}
