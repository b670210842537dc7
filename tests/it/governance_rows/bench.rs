//! A host under a manifest of the test's own, spoken to in frames, with a scripted model that does what the test
//! says. What is then expected is left to the rows.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    frames::{Frames, is_status},
    place::{text, yard},
    process::{Finished, Launch, Process},
    vector::parse,
    wire::{PATIENCE, Signal, Wire},
};

/// Where one deployment lives. Nothing of it stands below a temporary directory that shells may write anyhow, so
/// `outside` really is outside.
pub(super) struct Site {
    root: TempDir,
    /// The workspace R.
    pub(super) cwd: PathBuf,
    /// The user's home, with Transom's own below it.
    pub(super) home: PathBuf,
    /// Nobody's business.
    pub(super) outside: PathBuf,
    rules: Vec<Value>,
    tables: String,
    variables: Vec<(String, String)>,
    /// The text of the door's own policy, in place of the built-in one.
    policy: Option<&'static str>,
}

impl Site {
    pub(super) fn new() -> Site {
        let root = TempDir::with_prefix_in("rows-", yard()).expect("a place");
        let below = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).expect("a directory");
            path
        };
        let (cwd, home, outside) = (below("cwd"), below("home"), below("outside"));
        let (rules, tables, variables) = (Vec::new(), String::new(), Vec::new());
        Site { root, cwd, home, outside, rules, tables, variables, policy: None }
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    /// With these rules of the script, before those that every script ends with.
    pub(super) fn script(mut self, rules: impl IntoIterator<Item = Value>) -> Site {
        self.rules.extend(rules);
        self
    }

    /// With these tables of the manifest.
    pub(super) fn tables(mut self, tables: &str) -> Site {
        self.tables.push_str(tables);
        self.tables.push('\n');
        self
    }

    /// With this policy of the frames door.
    pub(super) fn door_policy(mut self, policy: &'static str) -> Site {
        self.policy = Some(policy);
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Site {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.root().join("transom.toml")
    }

    /// Transom's own directory.
    pub(super) fn state(&self) -> PathBuf {
        self.home.join(".local/state/transom")
    }

    /// Writes manifest and script. A prompt that no rule knows is a shell command; every turn ends with its second
    /// step.
    fn write(&self) {
        let mut rules = self.rules.clone();
        rules.push(on_step("{{prompt}}"));
        rules.push(json!({"answer": [{"text": "done"}]}));
        let script = self.root().join("script.json");
        fs::write(script, json!({ "rules": rules }).to_string()).expect("a script");
        let policy = match self.policy {
            None => "",
            Some(policy) => {
                fs::write(self.root().join("door.toml"), policy).expect("a policy");
                "policy = \"door.toml\"\n"
            }
        };
        let manifest = format!(
            "[door.frames]\ncomponent = \"frames\"\ncarrier = \"stdio\"\n{policy}\n[model]\nprovider = \
             \"scripted\"\nscript = \"script.json\"\n\n{}",
            self.tables
        );
        fs::write(self.manifest(), manifest).expect("a manifest");
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        let launch = Launch::new(arguments).directory(&self.cwd).env("HOME", &self.home);
        self.variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// A host whose only peer is the test.
    pub(super) fn start(&self) -> Host {
        self.write();
        let manifest = self.manifest();
        let launch = self.launch(&["stdio", "frames", "--manifest", text(&manifest)]);
        Host { peer: Frames::new(launch.start()), cwd: text(&self.cwd).to_owned() }
    }

    /// Runs another command on the same manifest to its end.
    pub(super) fn run(&self, arguments: &[&str]) -> Finished {
        self.write();
        let manifest = self.manifest();
        self.launch(arguments).arg("--manifest").arg(&manifest).run("")
    }

    /// `transom prompt` with these arguments, in R, with a private host of its own.
    pub(super) fn prompt(&self, arguments: &[&str]) -> Finished {
        self.write();
        let script = self.root().join("script.json");
        let base = ["prompt", "--provider", "scripted", "--model-script", text(&script)];
        self.launch(&[&base, arguments].concat()).run("")
    }

    /// The events of a stored session. The host must have ended.
    pub(super) fn exported(&self, session: &str) -> Vec<Value> {
        let store = self.state().join("store.db");
        let finished = self.launch(&["export", session, "--store", text(&store)]).run("");
        assert_eq!(finished.code, 0, "{finished:?}");
        let lines = finished.stdout.lines().skip(1);
        lines.map(|line| parse(line).expect("events are JSON")).collect()
    }

    /// What `transom permissions --json` says, with these further arguments.
    pub(super) fn permissions(&self, arguments: &[&str]) -> Value {
        let finished = self.run(&[&["permissions", "--json"], arguments].concat());
        assert_eq!(finished.code, 0, "{finished:?}");
        parse(&finished.stdout).expect("JSON")
    }

    /// What holds shells back on this machine.
    pub(super) fn confiner(&self) -> Confiner {
        Confiner(self.permissions(&[])["confiner"].clone())
    }
}

/// The report of P-58.
pub(super) struct Confiner(Value);

impl Confiner {
    /// Whether commands can be confined at all.
    pub(super) fn confines(&self) -> bool {
        self.0["enforcement"] != "none"
    }

    pub(super) fn has_mounts(&self) -> bool {
        self.0["mounts"] == true
    }

    /// The kernel's own numbering of what Landlock can say; 0 where there is none.
    pub(super) fn landlock(&self) -> u64 {
        self.0["landlock"]["abi"].as_u64().unwrap_or_default()
    }

    pub(super) fn has_loopback(&self) -> bool {
        self.0["network"] == "loopback"
    }

    /// Something is missing here, and the operator must have been told so by this name.
    pub(super) fn demand_gap(&self, name: &str) {
        let listed = self.0["gaps"].as_array().into_iter().flatten();
        let named = listed.filter(|gap| gap["name"] == name || **gap == name);
        assert_eq!(named.count(), 1, "the gap `{name}` is not listed in {}", self.0);
        assert_ne!(self.0["enforcement"], "full", "{}", self.0);
    }

    /// The words by which a denied change of a file is known (P-21).
    pub(super) fn denial(&self) -> &'static str {
        if self.has_mounts() { "Read-only file system" } else { "Permission denied" }
    }
}

/// How an ask is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    Reject,
    /// Withdrawn by the door of the owner.
    Cancel,
    /// The door of the owner has nobody to ask.
    Unavailable,
}

/// A running host and the peer that owns it.
pub(super) struct Host {
    pub(super) peer: Frames<Process>,
    cwd: String,
}

impl Host {
    /// Sends a request without waiting for its answer. Gives its id.
    pub(super) fn send(&mut self, name: &str, session: Option<&str>, body: &Value) -> String {
        let (id, line) = self.peer.request(name, session, body);
        self.peer.say(&line);
        id
    }

    pub(super) fn next(&mut self) -> Value {
        self.peer.next()
    }

    pub(super) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Turn {
        let mut frames = Vec::new();
        loop {
            let frame = self.next();
            let last = is_last(&frame);
            frames.push(frame);
            if last {
                return Turn { frames };
            }
        }
    }

    /// Asks and waits for the answer.
    pub(super) fn request(
        &mut self,
        name: &str,
        session: Option<&str>,
        body: &Value,
    ) -> Result<Value, Value> {
        let id = self.send(name, session, body);
        let seen = self.until(|frame| frame["id"] == *id);
        let answer = &seen.frames[seen.frames.len() - 1];
        match answer["kind"] == "reply" {
            true => Ok(answer["body"].clone()),
            false => Err(answer["body"].clone()),
        }
    }

    /// Asks for what must succeed.
    pub(super) fn call(&mut self, name: &str, session: &str, body: &Value) -> Value {
        let answer = self.request(name, Some(session), body);
        answer.unwrap_or_else(|failure| panic!("{name} {session}: {failure}"))
    }

    /// Opens a new session in R and watches it.
    pub(super) fn open(&mut self, session: &str) {
        let opened = self.open_with(session, "new", &json!({"owner": "connection"}));
        assert_eq!(opened["created"], true, "{opened}");
    }

    /// Opens a session and watches it. Gives what the host said of it.
    pub(super) fn open_with(&mut self, session: &str, want: &str, more: &Value) -> Value {
        let opened = self.open_unwatched(session, want, more);
        let topics = ["events", "status", "errors", "asks", "jobs", "subagents", "inbox"];
        let watch = json!({"scope": "tree", "topics": topics});
        self.call("events/subscribe", session, &watch);
        opened
    }

    /// Opens a session.
    pub(super) fn open_unwatched(&mut self, session: &str, want: &str, more: &Value) -> Value {
        let mut body = json!({"want": want, "cwd": self.cwd});
        for (name, value) in more.as_object().expect("members") {
            body[name] = value.clone();
        }
        self.call("session/open", session, &body)
    }

    /// Watches all sessions at once: there may be more of them than one connection may watch singly.
    pub(super) fn watch_all(&mut self) {
        let topics = ["events", "status", "asks", "jobs"];
        let watched =
            self.request("events/subscribe", None, &json!({"scope": "all", "topics": topics}));
        watched.unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Prompts. Gives everything up to the receipt.
    pub(super) fn prompt(&mut self, session: &str, words: &str) -> Turn {
        let content = json!({"content": [{"type": "text", "text": words}]});
        let id = self.send("session/prompt", Some(session), &content);
        let seen = self.until(|frame| frame["id"] == *id);
        let receipt = &seen.frames[seen.frames.len() - 1];
        assert_eq!(receipt["kind"], "reply", "{receipt}");
        seen
    }

    /// Everything until the session rests.
    pub(super) fn rest(&mut self, session: &str) -> Turn {
        self.until(|frame| is_idle(frame, session))
    }

    /// Prompts, and gives everything until the session rests.
    pub(super) fn turn(&mut self, session: &str, words: &str) -> Turn {
        let mut turn = self.prompt(session, words);
        turn.frames.extend(self.rest(session).frames);
        turn
    }

    /// The same, with every ask answered so.
    pub(super) fn turn_answering(&mut self, session: &str, words: &str, answer: Answer) -> Turn {
        let mut turn = self.prompt(session, words);
        let mut looked_at = 0;
        loop {
            while let Some(frame) = turn.frames.get(looked_at).cloned() {
                looked_at += 1;
                if frame["name"] == "ask/opened" {
                    self.answer(&frame, answer);
                }
                if is_idle(&frame, session) {
                    return turn;
                }
            }
            let frame = self.next();
            turn.frames.push(frame);
        }
    }

    /// Answers an ask. Gives the request's id.
    pub(super) fn answer(&mut self, ask: &Value, answer: Answer) -> String {
        let id = &ask["body"]["askId"];
        let value = |outcome: &str| {
            json!({"askId": id, "value": {
                "sessionId": ask["session"],
                "approvalId": ask["body"]["approvalId"],
                "outcome": outcome,
            }})
        };
        match answer {
            Answer::Allow => self.send("ask/answer", None, &value("allowed-once")),
            Answer::Reject => self.send("ask/answer", None, &value("rejected")),
            Answer::Cancel => {
                self.send("ask/settle", None, &json!({"askId": id, "outcome": "cancelled"}))
            }
            Answer::Unavailable => {
                self.send("ask/settle", None, &json!({"askId": id, "outcome": "unavailable"}))
            }
        }
    }

    /// Runs this shell command and gives its result.
    pub(super) fn shell(&mut self, session: &str, command: &str) -> Outcome {
        self.turn(session, command).result()
    }

    /// Waits until the operator was told so.
    pub(super) fn says(&self, words: &str) {
        let begun = std::time::Instant::now();
        while !self.peer.wire.diagnostics().contains(words) {
            let said = self.peer.wire.diagnostics();
            assert!(begun.elapsed() < PATIENCE, "{words:?} was not said: {said}");
            std::thread::yield_now();
        }
    }

    /// The whole log so far.
    pub(super) fn log(&mut self, session: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let page =
                self.call("session/read", session, &json!({"from": events.len(), "limit": 1000}));
            let page = page["events"].as_array().expect("a list").clone();
            if page.is_empty() {
                return events;
            }
            events.extend(page);
        }
    }

    /// Ends it as its operator would, and demands that it went well.
    pub(super) fn stop(mut self) {
        self.peer.wire.signal(Signal::Terminate);
        while self.peer.wire.line().is_some() {}
        assert_eq!(self.peer.wire.exit(), 0, "{}", self.peer.wire.diagnostics());
    }
}

/// Whether this says that the session rests.
pub(super) fn is_idle(frame: &Value, session: &str) -> bool {
    is_status(frame, session, "idle")
}

/// What was said between two moments.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) frames: Vec<Value>,
}

impl Turn {
    /// The events of this type, of whatever session.
    pub(super) fn events(&self, kind: &str) -> Vec<&Value> {
        let of_kind =
            |frame: &&Value| frame["name"] == "session/event" && frame["body"]["type"] == kind;
        self.frames.iter().filter(of_kind).map(|frame| &frame["body"]).collect()
    }

    pub(super) fn named(&self, name: &str) -> Vec<&Value> {
        self.frames.iter().filter(|frame| frame["name"] == name).collect()
    }

    /// The results of tools, in order.
    pub(super) fn results(&self) -> Vec<Outcome> {
        self.events("tool/result").into_iter().map(Outcome::of).collect()
    }

    /// The only result.
    pub(super) fn result(&self) -> Outcome {
        let mut results = self.results();
        assert_eq!(results.len(), 1, "{:#?}", self.frames);
        results.remove(0)
    }

    /// Reasons of the asks, each with its decision, as the log has them: one pair for each ask (P-14).
    pub(super) fn decisions(&self) -> Vec<(String, String)> {
        let asked = self.events("approval/asked");
        let decided = self.events("approval/decided");
        assert_eq!(asked.len(), decided.len(), "every ask is decided once: {:#?}", self.frames);
        let pair = |asked: &&Value| {
            let mut same = decided.iter().filter(|end| end["data"]["id"] == asked["data"]["id"]);
            let decision = same.next().expect("an ask is decided");
            assert!(same.next().is_none(), "an ask is decided once");
            (word(&asked["data"]["reason"]), word(&decision["data"]["outcome"]))
        };
        asked.iter().map(pair).collect()
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) text: String,
    pub(super) is_error: bool,
    /// The host's own code, where it has one (L-55).
    pub(super) code: String,
}

impl Outcome {
    pub(super) fn of(event: &Value) -> Outcome {
        let data = &event["data"];
        let block = &data["message"]["content"][0];
        let texts =
            block["content"].as_array().into_iter().flatten().map(|block| word(&block["text"]));
        Outcome {
            text: texts.collect(),
            is_error: block["isError"] == true,
            code: word(&data["error"]["code"]),
        }
    }

    /// Its text, which is no error's.
    pub(super) fn went_well(&self) -> &str {
        assert!(!self.is_error, "{self:?}");
        &self.text
    }

    /// Holds it against the text of a failure.
    pub(super) fn failed(&self, text: &str) {
        assert!(self.is_error, "{self:?}");
        assert_eq!(self.text, format!("Error: {text}"));
    }
}

/// A text in JSON; nothing where there is none.
pub(super) fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A rule of the script: this prompt is answered with these calls.
pub(super) fn on(prompt: &str, calls: impl IntoIterator<Item = Value>) -> Value {
    let calls: Vec<Value> = calls.into_iter().collect();
    json!({"when": {"exact": prompt, "step": 1}, "answer": calls})
}

/// A call.
pub(super) fn tool(name: &str, arguments: Value) -> Value {
    json!({"tool": {"name": name, "arguments": arguments}})
}

/// A shell command.
pub(super) fn bash(command: &str) -> Value {
    tool("bash", json!({"command": command, "description": "a step of the test"}))
}

/// The same, with these further arguments.
pub(super) fn bash_with(command: &str, more: &Value) -> Value {
    let mut call = bash(command);
    for (name, value) in more.as_object().expect("members") {
        call["tool"]["arguments"][name] = value.clone();
    }
    call
}

fn on_step(command: &str) -> Value {
    json!({"when": {"step": 1}, "answer": [bash(command)]})
}

/// The marker of a denied file access under a mode, and that of the escalation (P-21).
pub(super) fn denied(mode: &str, subject: &str) -> String {
    format!("[sandbox: file access denied under {mode} mode]\n{}", escalation(subject))
}

/// The line that offers an escalation (P-21).
pub(super) fn escalation(subject: &str) -> String {
    format!(
        "[sandbox: escalation available — retry this exact {subject} once with sandbox_permissions (the narrowest \
         wider mode that suffices) + justification; the approval prompt asks the user]"
    )
}
