//! Published ACP clients, installed once for all tests, and one of them under way with an agent of its own. What it is
//! asked, and what must come of it, is left to the stories.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        LazyLock,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{CACHE, here, once, process_in, run};

/// How long a test waits for what must come, on the slowest machine. Nothing waits this long in order to pass.
const PATIENCE: Duration = Duration::from_secs(180);

/// Reports that wait to be read.
const REPORTS_MAX: usize = 4096;

/// A published client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// `@agentclientprotocol/sdk` 0.25.1.
    FirstScript,
    /// `@agentclientprotocol/sdk` 2.4.0.
    LatestScript,
    /// `agent-client-protocol` 0.12.1 for Python.
    Python,
    /// `agent-client-protocol` 5.2.0 for Rust.
    Rust,
}

impl Published {
    pub(crate) const ALL: [Published; 4] =
        [Published::FirstScript, Published::LatestScript, Published::Python, Published::Rust];

    /// Those that can take a single request back.
    pub(crate) const TAKING_BACK: [Published; 2] = [Published::LatestScript, Published::Rust];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Published::FirstScript => "typescript 0.25.1",
            Published::LatestScript => "typescript 2.4.0",
            Published::Python => "python 0.12.1",
            Published::Rust => "rust 5.2.0",
        }
    }

    fn command(self) -> Command {
        let script = |name: &str| here().join("acp").join(name);
        let run = |program: &Path, name: &str| {
            let mut command = Command::new(program);
            command.arg(script(name));
            command
        };
        match self {
            Published::FirstScript => run(Path::new("node"), "typescript_0_25_1.mjs"),
            Published::LatestScript => run(Path::new("node"), "typescript_2_4_0.mjs"),
            Published::Python => run(&PYTHON.join("bin/python"), "python_0_12_1.py"),
            Published::Rust => Command::new(RUST.join("debug/transom-acp-peer")),
        }
    }
}

/// A client with an agent that it has started. Dropping it ends both.
pub(crate) struct Peer {
    driver: Child,
    orders: ChildStdin,
    reports: Receiver<Value>,
    pub(crate) place: Place,
    /// The agent's process.
    agent: Pid,
    asked: u64,
    /// Every report so far, in order.
    seen: Vec<Value>,
    /// How many of them were looked at.
    looked: usize,
}

/// Where a client and its agent live.
pub(crate) struct Place {
    root: TempDir,
    /// The directory of its sessions.
    pub(crate) workspace: PathBuf,
}

/// How the agent ended, as its client saw it.
pub(crate) struct Ended {
    pub(crate) status: Value,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        let root = TempDir::with_prefix("transom-acp-").expect("a scratch directory");
        let true_root = root.path().canonicalize().expect("its true path");
        let workspace = true_root.join("workspace");
        for directory in [&workspace, &true_root.join("home")] {
            fs::create_dir(directory).expect("a directory");
        }
        Place { root, workspace }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

impl Peer {
    /// Lets a client start this agent with these arguments and these variables besides the few that any program has.
    pub(crate) fn start(
        published: Published,
        place: Place,
        agent: &Path,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Peer {
        let mut env = json!({
            "PATH": env::var("PATH").unwrap_or_default(),
            "HOME": place.path("home"),
            "XDG_CACHE_HOME": *CACHE,
        });
        for (name, value) in variables {
            env[name] = json!(value);
        }
        let settings = json!({
            "program": agent, "args": args, "cwd": place.path("home"), "env": env, "client": *SCRIPT,
        });
        let mut driver = published
            .command()
            .arg(settings.to_string())
            .current_dir(place.root.path())
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.path("home"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} did not start: {error}", published.name()));
        let orders = driver.stdin.take().expect("a piped input");
        let output = driver.stdout.take().expect("a piped output");
        let (report, reports) = sync_channel(REPORTS_MAX);
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line)
                    .unwrap_or_else(|error| json!({"broken": line, "why": error.to_string()}));
                if report.send(value).is_err() {
                    return;
                }
            }
        });
        let agent = Pid::from_raw(0);
        let mut peer =
            Peer { driver, orders, reports, place, agent, asked: 0, seen: Vec::new(), looked: 0 };
        let started = peer.next();
        let pid = started["started"].as_i64().unwrap_or_else(|| panic!("no start: {started}"));
        peer.agent = Pid::from_raw(i32::try_from(pid).expect("a process id"));
        peer
    }

    fn order(&mut self, order: &Value) {
        writeln!(self.orders, "{order}").expect("the driver listens");
    }

    fn next(&mut self) -> Value {
        if let Some(report) = self.seen.get(self.looked) {
            self.looked += 1;
            return report.clone();
        }
        match self.reports.recv_timeout(PATIENCE) {
            Ok(report) => {
                assert!(report.get("broken").is_none(), "{report}");
                self.seen.push(report.clone());
                self.looked += 1;
                report
            }
            Err(RecvTimeoutError::Timeout) => {
                panic!("no report in {PATIENCE:?}; so far {:#?}", self.seen)
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the driver has ended; so far {:#?}", self.seen)
            }
        }
    }

    /// The first report, behind those looked at, of which this is so. The others stay.
    fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let begun = self.looked;
        loop {
            let report = self.next();
            if is_it(&report) {
                let at = self.looked - 1;
                self.seen.remove(at);
                self.looked = begun;
                return report;
            }
        }
    }

    /// Asks through the client's own method, and waits for nothing.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let order = json!({"ask": self.asked, "method": method, "params": params});
        self.order(&order);
        self.asked
    }

    /// What the client made of the answer: `result` or `error`.
    pub(crate) fn answer(&mut self, number: u64) -> Value {
        self.find(|report| report["answered"] == number)
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let number = self.ask(method, params);
        self.answer(number)
    }

    /// Shakes hands as an editor does, and expects what the automation surface says of itself.
    pub(crate) fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": 1,
            "clientInfo": {"name": "editor", "title": "An editor", "version": "1.0.0"},
            "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true},
        });
        let answer = self.call("initialize", params);
        let result = &answer["result"];
        assert_eq!(
            (&result["protocolVersion"], &result["agentInfo"]["name"]),
            (&json!(1), &json!("transom")),
            "{answer}"
        );
        let said = &result["agentCapabilities"]["promptCapabilities"];
        for capability in ["image", "audio", "embeddedContext"] {
            // Some clients leave out what is false.
            assert_ne!(said[capability], json!(true), "{answer}");
        }
    }

    pub(crate) fn session(&mut self) -> String {
        let answer =
            self.call("session/new", json!({"cwd": self.place.workspace, "mcpServers": []}));
        let id = answer["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("no session: {answer}")).to_owned()
    }

    /// Prompts, and waits for nothing.
    pub(crate) fn prompt(&mut self, session: &str, words: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": words}]);
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Prompts, and gives the answer.
    pub(crate) fn turn(&mut self, session: &str, words: &str) -> Value {
        let number = self.prompt(session, words);
        self.answer(number)
    }

    pub(crate) fn cancel(&mut self, session: &str) {
        self.order(&json!({"tell": "session/cancel", "params": {"sessionId": session}}));
    }

    /// Takes one request back.
    pub(crate) fn take_back(&mut self, number: u64) {
        self.order(&json!({"take_back": number}));
    }

    /// The next permission that the client is asked for: its number and parameters.
    pub(crate) fn permission(&mut self) -> (u64, Value) {
        let mut report = self.find(|report| report.get("asked").is_some());
        (report["asked"].as_u64().expect("a number"), report["params"].take())
    }

    pub(crate) fn decide(&mut self, number: u64, outcome: Value) {
        self.order(&json!({"decide": number, "outcome": outcome}));
    }

    /// The texts of a session that the client was told so far and has not given out yet.
    pub(crate) fn said(&mut self, session: &str) -> Vec<String> {
        let mut texts = Vec::new();
        self.seen.retain(|report| {
            let params = &report["update"];
            if params["sessionId"] != session {
                return true;
            }
            assert_eq!(params["update"]["sessionUpdate"], "agent_message_chunk", "{report}");
            texts.extend(params["update"]["content"]["text"].as_str().map(str::to_owned));
            false
        });
        texts
    }

    /// Waits for the next text of a session.
    pub(crate) fn hears(&mut self, session: &str) -> String {
        let report = self.find(|report| report["update"]["sessionId"] == session);
        let text = report["update"]["update"]["content"]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {report}")).to_owned()
    }

    /// Waits until a file is there that a command of the agent's makes.
    pub(crate) fn file(&self, name: &str) {
        let path = self.place.workspace.join(name);
        self.until(&format!("{} was not made", path.display()), || path.exists());
    }

    /// Waits until no process works in the sessions' directory.
    pub(crate) fn alone(&self) {
        self.until("a process of a tool lives on", || process_in(&self.place.workspace).is_none());
    }

    fn until(&self, complaint: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < end, "{complaint}; so far {:#?}", self.seen);
            thread::yield_now();
        }
    }

    /// Kills the agent, as a machine that is short of memory does.
    pub(crate) fn kill_agent(&self) {
        kill(self.agent, Signal::SIGKILL).expect("the agent is there");
    }

    /// Ends the agent in the client's own way.
    pub(crate) fn close(mut self) -> Ended {
        self.order(&json!({"close": true}));
        let mut report = self.find(|report| report.get("ended").is_some());
        let status = self.driver.wait().expect("the driver's end");
        assert!(status.success(), "the driver ended with {status}");
        let stderr = report["stderr"].as_str().unwrap_or_default().to_owned();
        assert_eq!(process_in(&self.place.workspace), None, "a process outlived the agent");
        Ended { status: report["ended"].take(), stderr }
    }

    /// The same for an agent that must end by itself, well and in time.
    pub(crate) fn close_well(self) {
        let ended = self.close();
        let well = json!({"code": 0, "signal": null, "signals": []});
        assert_eq!(ended.status, well, "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked at"), "{}", ended.stderr);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both may be gone, and a test that fails has said why.
        if self.driver.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.driver.kill();
            let _ = self.driver.wait();
        }
    }
}

static SCRIPT: LazyLock<PathBuf> = LazyLock::new(|| {
    let pins =
        ["package.json", "package-lock.json", ".npmrc"].map(|name| here().join("acp").join(name));
    once("acp-typescript", &pins.each_ref(), |place| {
        for pin in &pins {
            fs::copy(pin, place.join(pin.file_name().expect("a file"))).expect("a copy");
        }
        run(
            "install Node.js 20 or later with npm; the first time, it needs the package registry",
            Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(place),
        );
    })
});

static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
    let pins = here().join("acp/requirements-0_12_1.txt");
    once("acp-python", &[&pins], |place| crate::clients::environment(place, &pins))
});

static RUST: LazyLock<PathBuf> = LazyLock::new(|| {
    let package = here().join("acp/rust");
    let pins = ["Cargo.toml", "Cargo.lock", "src/main.rs"].map(|name| package.join(name));
    once("acp-rust", &pins.each_ref(), |place| {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(
            "the first time, it needs the crate registry",
            Command::new(cargo)
                .args(["build", "--quiet", "--locked", "--target-dir"])
                .arg(place)
                .current_dir(&package),
        );
    })
});
