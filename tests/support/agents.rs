//! Agents of `agent.py`: how a manifest names them, and whether anything of them is left. What they are told is left to the
//! stories.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    frames::Frames,
    place::{Place, text},
    process::{Launch, Process, workspace},
    wire::{PATIENCE, Wire as _},
};

/// The program that plays agents.
pub fn program() -> PathBuf {
    workspace().join("tests/support/agent.py")
}

/// Where the traces of one agent are.
#[derive(Debug, Clone)]
pub struct Traces(pub PathBuf);

impl Traces {
    /// A fresh directory for them.
    pub fn new(place: &Place, name: &str) -> Traces {
        let directory = place.root().join(format!("traces-{name}"));
        fs::create_dir_all(&directory).expect("a directory");
        Traces(directory)
    }

    /// What was noted under this name so far, line by line.
    pub fn read(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until something is noted under this name.
    pub fn wait(&self, name: &str) -> Vec<String> {
        until(&format!("{name} is noted in {:?}", self.0), || {
            Some(self.read(name)).filter(|lines| !lines.is_empty())
        })
    }

    /// The processes of the agent that still live.
    pub fn living(&self) -> Vec<u32> {
        let numbers = self.read("pids").into_iter().filter_map(|line| line.parse().ok());
        numbers.filter(|process| lives(*process)).collect()
    }

    /// Waits until nothing of the agent is left. There must have been something.
    pub fn gone(&self) {
        assert!(!self.read("pids").is_empty(), "no process was noted in {:?}", self.0);
        until(&format!("{:?} are gone", self.living()), || self.living().is_empty().then_some(()));
    }
}

/// Whether a process is there and not only waits to be reaped.
pub fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}

/// Waits for what must come, and only a failure waits long.
pub fn until<T>(what: &str, mut is_there: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = is_there() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// A host whose sessions can delegate to agents, one for each of some behaviours.
pub struct Parent {
    pub place: Place,
    pub peer: Frames,
}

/// One agent of a host.
pub struct Described<'a> {
    /// Of the agent, of the kind that it runs, and of its mark in prompts.
    pub name: &'a str,
    /// What `agent.py` does.
    pub behaviour: &'a str,
    /// More lines of its table.
    pub table: &'a str,
}

/// An agent that is called as it behaves.
pub fn agent<'a>(behaviour: &'a str, table: &'a str) -> Described<'a> {
    Described { name: behaviour, behaviour, table }
}

impl Parent {
    /// Starts `transom stdio frames` with these agents. `tables` are further ones of the manifest.
    pub fn start(agents: &[Described<'_>], tables: &str) -> Parent {
        Parent::start_with(Place::new(), agents, tables, &[])
    }

    /// The same in a place, and with these variables.
    pub fn start_with(
        place: Place,
        agents: &[Described<'_>],
        tables: &str,
        variables: &[(&str, &str)],
    ) -> Parent {
        let mut manifest = format!(
            "[door.frames]\ncomponent = 'frames'\ncarrier = 'stdio'\n[model]\nprovider = 'scripted'\n{tables}\n"
        );
        if !tables.contains("[permissions]") {
            manifest.push_str("[permissions]\npreset = 'danger-full-access'\n");
        }
        let mut rules = Vec::new();
        for Described { name, behaviour, table } in agents {
            let traces = Traces::new(&place, name);
            let command =
                [text(&program()), behaviour, text(&traces.0)].map(|word| format!("'{word}'"));
            let steps = place.root().join(format!("{name}.steps"));
            manifest.push_str(&format!(
                "[agent.{name}]\ncommand = ['python3', {}, '{}']\n{table}\n[subagents.{name}]\ndescription = 'd'\nagent = '{name}'\n",
                command.join(", "),
                text(&steps),
            ));
            rules.push(json!({
                "when": {"contains": format!("[[{name}]]"), "step": 1},
                "answer": [{"tool": {"name": "subagent", "arguments": {
                    "kind": name, "description": "a test", "prompt": "do it",
                }}}],
            }));
        }
        rules.push(json!({"answer": [{"text": "noted"}]}));
        let manifest = place.file("transom.toml", manifest);
        let script = place.file("script.json", json!({ "rules": rules }).to_string());
        let mut launch = Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
            .arg("--model-script")
            .arg(&script)
            .arg("--store")
            .arg(place.root().join("store.db"))
            .directory(&place.cwd)
            .env("HOME", &place.home);
        for (name, value) in variables {
            launch = launch.env(name, *value);
        }
        let mut peer = Frames::new(launch.start());
        peer.watch();
        Parent { place, peer }
    }

    /// Where an agent leaves its traces.
    pub fn traces(&self, name: &str) -> Traces {
        Traces(self.place.root().join(format!("traces-{name}")))
    }

    /// Opens a session called like the agent, and has it delegate to it. Gives the id of the prompt.
    pub fn delegate(&mut self, name: &str) -> String {
        let body = json!({"want": "any", "cwd": text(&self.place.cwd)});
        self.peer.call("session/open", name, body);
        self.peer.prompt(name, &format!("go [[{name}]]"))
    }

    /// The text of the result, which must come.
    pub fn result(&mut self, name: &str) -> String {
        result_text(&self.peer.event(name, "tool/result"))
    }

    /// Delegates, and gives the text of the result.
    pub fn run(&mut self, name: &str) -> String {
        self.delegate(name);
        self.result(name)
    }

    /// Cancels what the session does.
    pub fn cancel(&mut self, name: &str) {
        self.peer.call("session/cancel", name, json!({"inbox": "clear"}));
    }
}

/// Ends the host in order, and proves that nothing of any agent is left.
pub fn end(mut parent: Parent, agents: &[&str]) {
    parent.peer.wire.close_input();
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0, "{}", parent.peer.wire.diagnostics());
    for name in agents {
        assert_eq!(parent.traces(name).living(), Vec::<u32>::new(), "{name}");
    }
}

/// The text of a `tool/result`.
pub fn result_text(event: &Value) -> String {
    let content = event.pointer("/data/message/content/0/content");
    let blocks = content.and_then(Value::as_array).cloned().unwrap_or_default();
    let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    assert!(!texts.is_empty(), "a result without text: {event}");
    texts.join("\n")
}

/// The host of a parent, for signals and its process id.
pub fn host(parent: &mut Parent) -> &mut Process {
    &mut parent.peer.wire
}
