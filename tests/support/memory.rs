//! One host in memory: the real router, loop, model provider, tools and store, and a door over a pipe in memory, with
//! the codec that a test brings.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    runtime::Runtime,
    sync::watch,
};
use transom_connection::codec::CodecSource;
use transom_harness::{
    agent::AgentConfig,
    ports::{Models, Route, Store, Tools},
};
use transom_io::{
    Core, Ended, Host, OpenDoor, PeerFacts, Ports, serve,
    slot::{Slot, Upkeep},
};
use transom_model::{
    DeepSeek, Providers,
    deepseek::{self, Endpoint, Key, Settings},
};
use transom_router::{HostFacts, Images, Reach, Router};
use transom_store::{Durability, SqliteStore};
use transom_tools::{JobLimits, Options, Permissions, Providers as Subagents, Registry};

use super::{
    place::{Place, text},
    wire::{PATIENCE, Signal, Wire, checked_line},
};

/// What one host in memory is made of.
pub struct Setup<'a> {
    pub place: &'a Place,
    /// The built-in door.
    pub door: &'static str,
    /// What is looked at before a call.
    pub permissions: Permissions,
    pub source: Arc<dyn CodecSource>,
    pub base_url: String,
    pub key: Option<String>,
    /// The tools that the model may call.
    pub tools: &'a [&'a str],
    /// What the provider is set to where a route names none.
    pub effort: Option<&'a str>,
    pub shell_timeout_ms: u64,
    /// What becomes of images in prompts.
    pub images: Images,
    pub agents: AgentConfig,
    /// Where a session names none.
    pub route: Route,
}

/// A running host with one client, who holds this.
pub struct Memory {
    runtime: Runtime,
    host: Host,
    store: Arc<SqliteStore>,
    store_path: PathBuf,
    input: Option<DuplexStream>,
    lines: Receiver<Vec<u8>>,
    ended: Receiver<Ended>,
    stop: watch::Sender<bool>,
    signal: Option<Signal>,
}

/// Bytes that the pipe holds before the writer waits.
const PIPE_BYTES: usize = 64 * 1024;

/// Where a host in memory keeps its log.
pub fn store_path(place: &Place) -> PathBuf {
    place.home.join("memory.db")
}

impl Memory {
    /// Starts a host and connects its client.
    pub fn start(setup: Setup<'_>) -> Memory {
        Memory::start_with(setup, None)
    }

    /// The same with options of the door, as JSON text.
    pub fn start_with(setup: Setup<'_>, given: Option<&str>) -> Memory {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let (host, inbox) = Host::new();
        let store_path = store_path(setup.place);
        let store =
            SqliteStore::open(&store_path, Durability::Process, host.commits()).expect("a store");
        let store = Arc::new(store);

        let endpoint = Endpoint { base_url: Some(setup.base_url), key: setup.key.map(Key::new) };
        let settings = Settings { effort: setup.effort.map(str::to_owned), ..Settings::default() };
        let models = Providers::new(runtime.handle().clone())
            .with(deepseek::ID, DeepSeek::new(move || endpoint.clone(), settings));
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = vec![("PATH".to_owned(), path)];
        let spill = setup.place.home.join("spill");
        let mut options =
            Options::new(runtime.handle().clone(), environment, spill, &setup.place.cwd);
        options.enabled = setup.tools.iter().map(|name| (*name).to_owned()).collect();
        let has_jobs = setup.tools.contains(&"job_list");
        options.jobs = has_jobs.then(JobLimits::default);
        options.shell_timeout_ms = setup.shell_timeout_ms;
        options.job_sink = Some(host.jobs());
        options.permissions = setup.permissions;
        options.subagents = Some(Subagents::in_process(Arc::new(host.clone())));
        let ports = Ports {
            door_models: HashMap::new(),
            models: Arc::new(models) as Arc<dyn Models>,
            tools: Arc::new(Registry::new(options).expect("the tools")) as Arc<dyn Tools>,
            store: Arc::clone(&store) as Arc<dyn Store>,
        };

        let directory: Arc<str> = text(&setup.place.cwd).into();
        let facts = HostFacts {
            version: "0".into(),
            directory: Arc::clone(&directory),
            doors: vec![setup.door.to_owned()],
            route: setup.route,
            sessions_max: 10_000,
            images: setup.images,
            ..HostFacts::default()
        };
        let router = Router::new(facts, setup.agents, [7; 32]);
        runtime.spawn(Core::new(host.clone(), inbox, router, ports).run());

        let built_in = transom_doors::find(setup.door).expect("the door is built in");
        let policy = Arc::new(built_in.policy().expect("its policy"));
        let options = given.unwrap_or(built_in.options).into();
        let door = OpenDoor {
            redactor: Arc::default(),
            name: setup.door.into(),
            slot: Slot::new(
                setup.door,
                setup.door,
                setup.source,
                options,
                policy,
                Upkeep::default(),
            ),
            framing: built_in.framing,
            reach: Reach::Owned,
            answers: built_in.answers,
            directory,
        };
        let (input, reader) = tokio::io::duplex(PIPE_BYTES);
        let (writer, output) = tokio::io::duplex(PIPE_BYTES);
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = mpsc::sync_channel(1);
        let serving = host.clone();
        runtime.spawn(async move {
            let peer =
                PeerFacts { carrier: "stdio", peer: "a test".to_owned(), owns_process: true };
            let _ = end.send(serve(&serving, &door, &peer, reader, writer, stopping).await);
        });
        let (line, lines) = mpsc::sync_channel(65_536);
        runtime.spawn(async move {
            let mut output = BufReader::new(output);
            let mut bytes = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut bytes).await {
                if line.send(std::mem::take(&mut bytes)).is_err() {
                    return;
                }
            }
        });
        Memory {
            runtime,
            host,
            store,
            store_path,
            input: Some(input),
            lines,
            ended,
            stop,
            signal: None,
        }
    }

    /// Where its log is.
    pub fn store_path(&self) -> &Path {
        &self.store_path
    }
}

impl Wire for Memory {
    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        let written = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, input.write_all(bytes)).await });
        // A host that has ended reads no more; that is found out by its end.
        let _ = written.expect("the host reads");
    }

    fn close_input(&mut self) {
        self.input = None;
    }

    fn signal(&mut self, signal: Signal) {
        self.signal = Some(signal);
        // Whoever served may be gone: signals race with an end of its own.
        let _ = self.stop.send(true);
    }

    fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(bytes) => Some(checked_line(bytes)),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line in {PATIENCE:?}"),
        }
    }

    /// What the program would exit with (S-139).
    fn exit(&mut self) -> i32 {
        let ended = self.ended.recv_timeout(PATIENCE).expect("the connection ends");
        let failures = self.runtime.block_on(self.host.shut_down());
        self.store.close().expect("the store closes");
        match self.signal {
            _ if ended.failed
                || ended.stuck
                || !ended.failures.is_empty()
                || !failures.is_empty() =>
            {
                1
            }
            Some(Signal::Interrupt) => 130,
            Some(Signal::Kill) => -9,
            Some(Signal::Terminate) | None => 0,
        }
    }

    fn diagnostics(&self) -> String {
        String::new()
    }
}
