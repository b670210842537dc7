//! Agents made with the published TypeScript library of the Agent Client Protocol, in the release that the reference uses
//! and in a recent one, take tasks of a host's sessions. What an agent does stands in `acp_agent/agent.mjs`.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        LazyLock,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{PROGRAM, once, run};

/// Bounds a hang: a task takes a second, on the slowest machine ten.
const PATIENCE: Duration = Duration::from_secs(120);

/// The releases of the library, as `agent.mjs` and `package.json` call them.
const RELEASES: [&str; 2] = ["0", "2"];

static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let pins = ["package.json", "package-lock.json", ".npmrc"].map(|name| here().join(name));
    once("acp-agents", &pins.each_ref(), |place| {
        for pin in &pins {
            fs::copy(pin, place.join(pin.file_name().expect("a file"))).expect("a copy");
        }
        run(
            "install Node.js 20 or later with npm; the first time, it needs the package registry",
            Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(place),
        );
    })
});

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/acp_agent")
}

/// A host whose sessions delegate to an agent of one release.
struct Host {
    home: TempDir,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    asked: u64,
}

impl Host {
    /// `permission` is the manifest's word. What a session is prompted with is the agent's task.
    fn start(release: &str, permission: &str) -> Host {
        let home = TempDir::new().expect("a home");
        let at = |name: &str| home.path().join(name).display().to_string();
        let manifest = format!(
            "[door.frames]\ncomponent = 'frames'\ncarrier = 'stdio'\n[model]\nprovider = 'scripted'\n\
             script = 'model.json'\n[store]\npath = 'store.db'\n[permissions]\npreset = 'danger-full-access'\n\
             [agent.published]\ncommand = ['node', '{}', '{}', '{release}']\npermission = '{permission}'\n\
             env = {{ AGENT_NOTES = '{}' }}\n\
             [subagents.published]\ndescription = 'an agent'\nagent = 'published'\n",
            here().join("agent.mjs").display(),
            LIBRARY.display(),
            at("notes"),
        );
        let call = |task: &str| {
            json!({"when": {"contains": task, "step": 1}, "answer": [{"tool": {"name": "subagent", "arguments": {
                "kind": "published", "description": "a task", "prompt": format!("do {task}"),
            }}}]})
        };
        let tasks = ["[[TOOL]]", "[[ASK]]", "[[FILE]]", "[[FAIL]]", "[[LENGTH]]", "[[HANG]]"];
        let mut rules: Vec<Value> = tasks.into_iter().map(call).collect();
        rules.push(json!({"answer": [{"text": "noted"}]}));
        fs::write(at("transom.toml"), manifest).expect("a manifest");
        fs::write(at("model.json"), json!({ "rules": rules }).to_string()).expect("a script");
        let mut child = Command::new(&*PROGRAM)
            .args(["stdio", "frames", "--manifest", &at("transom.toml")])
            .current_dir(home.path())
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a piped input");
        let output = child.stdout.take().expect("a piped output");
        let (line, lines) = mpsc::sync_channel(65_536);
        thread::spawn(move || {
            for read in BufReader::new(output).lines().map_while(Result::ok) {
                if line.send(read).is_err() {
                    return;
                }
            }
        });
        let mut host = Host { home, child, input, lines, asked: 0 };
        let topics = ["events", "status"];
        host.ask("events/subscribe", None, json!({"scope": "all", "topics": topics}));
        host
    }

    fn ask(&mut self, name: &str, session: Option<&str>, body: Value) {
        self.asked += 1;
        let mut frame = json!({"kind": "request", "id": format!("q{}", self.asked), "name": name, "body": body});
        if let Some(session) = session {
            frame["session"] = session.into();
        }
        writeln!(self.input, "{frame}").expect("the host reads");
        let id = frame["id"].clone();
        let answer = self.until(|frame| frame["id"] == id);
        assert_eq!(answer["kind"], "reply", "{answer}");
    }

    /// The next frame of this kind; those before it are passed over.
    fn until(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("a frame in time");
            let frame: Value = serde_json::from_str(&line).expect("a frame");
            if is_it(&frame) {
                return frame;
            }
        }
    }

    fn delegate(&mut self, task: &str) {
        let directory = self.home.path().display().to_string();
        self.ask("session/open", Some(task), json!({"want": "new", "cwd": directory}));
        let content = json!([{"type": "text", "text": format!("please [[{task}]]")}]);
        self.ask("session/prompt", Some(task), json!({"content": content}));
    }

    /// The text of the tool's result.
    fn result(&self) -> String {
        let event = self.until(|frame| frame["body"]["type"] == "tool/result");
        let text = event.pointer("/body/data/message/content/0/content/0/text");
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn run(&mut self, task: &str) -> String {
        self.delegate(task);
        self.result()
    }

    fn notes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.home.path().join("notes")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn noted(&self, note: &str) {
        self.wait(note, || self.notes().iter().any(|line| line == note));
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}; {:?}", self.notes());
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// The agents that still live.
    fn agents(&self) -> Vec<String> {
        let started = self
            .notes()
            .into_iter()
            .filter_map(|line| Some(line.strip_prefix("process ")?.to_owned()));
        started.filter(|process| lives(process)).collect()
    }

    /// Ends in order, and leaves nobody behind.
    fn end(mut self) {
        assert_eq!(self.agents(), Vec::<String>::new());
        drop(self.input);
        let status = self.child.wait().expect("the host ends");
        assert!(status.success(), "{status}");
    }
}

fn lives(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// A-148, A-152, A-153: the library understands what it is told, and its last message comes back.
#[test]
fn a_published_agent_takes_a_task() {
    for release in RELEASES {
        let mut host = Host::start(release, "reject");
        let cwd = host.home.path().display().to_string();
        assert_eq!(host.run("TOOL"), format!("I looked in {cwd}."), "{release}");
        assert!(host.notes().contains(&"new []".to_owned()), "{release}: no servers are given");
        host.end();
    }
}

/// A-161, A-162.
#[test]
fn a_published_agent_asks_and_is_answered() {
    for release in RELEASES {
        for (permission, option) in [("reject", "no"), ("allow", "once")] {
            let mut host = Host::start(release, permission);
            let expected = format!(r#"answered {{"outcome":"selected","optionId":"{option}"}}"#);
            assert_eq!(host.run("ASK"), expected, "{release} {permission}");
            assert_eq!(host.run("FILE"), "refused with -32601", "{release}");
            host.end();
        }
    }
}

/// A-154, A-165.
#[test]
fn a_published_agent_fails_and_its_words_stay_here() {
    for release in RELEASES {
        let mut host = Host::start(release, "reject");
        let failed = "Error: subagent run failed\n\
                      ACP child answered session/prompt with an error of code -32603 (stage: prompt, category: unknown)\n\
                      Partial output before the run ended:\nhalf";
        assert_eq!(host.run("FAIL"), failed, "{release}");
        let cut = "Error: subagent run hit its token limit before finishing\n\
                   Partial output before the run ended:\ncut of";
        assert_eq!(host.run("LENGTH"), cut, "{release}");
        host.end();
    }
}

/// A-155 to A-157.
#[test]
fn a_published_agent_hears_a_cancel_and_goes() {
    for release in RELEASES {
        let mut host = Host::start(release, "reject");
        host.delegate("HANG");
        host.noted("hangs");
        host.ask("session/cancel", Some("HANG"), json!({"inbox": "clear"}));
        let turn = host.until(|frame| frame["body"]["type"] == "turn/end");
        assert_eq!(turn.pointer("/body/data/reason/kind"), Some(&json!("aborted")), "{release}");
        host.noted("cancel");
        host.wait("the agent is gone", || host.agents().is_empty());
        host.end();
    }
}
