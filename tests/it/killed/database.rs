//! Lives of a host with a database and a client of its `frames` door, which answers asks, steers, cancels, and at some
//! moment is alone.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Value, json};

use super::{
    dice::Dice,
    record::{Log, Shown, Tally, number},
    remains,
};
use crate::support::{
    frames::{Frames, event_text, is_status},
    place::{Place, text},
    process::{Launch, Process},
    wire::Wire as _,
};

/// Sessions that work at the same time.
const SESSIONS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// What they are asked to do.
const WORK: [&str; 8] = ["talk", "shell", "asked", "job", "delegate", "fail", "limit", "files"];

const MANIFEST: &str = r#"
[door.frames]
component = "frames"
carrier = "stdio"

[[permissions.rule]]
tool = "bash"
when = { command = "*asked*" }
decision = "ask"
reason = "somebody should look"
"#;

/// So many lives on one place, and one that ends in order.
pub(super) fn lives(dice: &mut Dice, tally: &mut Tally, lives: usize) {
    let mut world = World::new();
    for life in 0..lives {
        let mut host = world.begin(dice, life);
        host.work(dice, &mut world.shown);
        world.end(tally, host);
    }
    world.close(dice, lives);
}

/// What outlives hosts.
struct World {
    place: Place,
    launch: Launch,
    store: PathBuf,
    shown: Shown,
    /// What the last host left, by session.
    left: BTreeMap<String, Log>,
    /// The mark of the last host's processes.
    mark: Option<String>,
}

/// One life.
struct Host {
    peer: Frames<Process>,
    mark: String,
    /// Frames that have been looked at.
    looked: usize,
    /// An ask is left without an answer.
    left_open: bool,
    prompts: usize,
}

impl World {
    fn new() -> World {
        let place = Place::new();
        let manifest = place.file("transom.toml", MANIFEST);
        let script = place.file("script.json", script().to_string());
        let store = place.root().join("store.db");
        let launch = Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
            .arg("--model-script")
            .arg(&script)
            .arg("--store")
            .arg(&store)
            .directory(&place.cwd)
            .env("HOME", &place.home);
        std::fs::write(place.cwd.join("notes.txt"), "first\nsecond\n").expect("a file");
        World { place, launch, store, shown: Shown::default(), left: BTreeMap::new(), mark: None }
    }

    /// Starts a host, which goes on with every session.
    fn begin(&mut self, dice: &mut Dice, life: usize) -> Host {
        let mark = format!("{}-{life}-{}", std::process::id(), dice.below(usize::MAX));
        let peer = Frames::new(self.launch.clone().env(remains::MARK, &mark).start());
        let mut host = Host { peer, mark, looked: 0, left_open: false, prompts: 0 };
        host.peer.watch();
        if let Some(mark) = self.mark.take() {
            remains::are_gone(&mark);
        }
        for (session, before) in std::mem::take(&mut self.left) {
            let body = json!({"want": "stored", "route": {"provider": "scripted"}});
            let opened = host.peer.call("session/open", &session, body);
            assert_eq!(opened["created"], false, "{session}");
            let log = Log::read(&self.store, &session).expect("it is stored");
            assert_eq!(number(&opened["lastSeq"]) + 1, log.events.len(), "{session}");
            log.closes(&before);
        }
        self.shown.is_in(&self.store);
        for session in SESSIONS {
            let route = json!({"provider": "scripted"});
            let body = json!({"want": "any", "cwd": text(&self.place.cwd), "route": route});
            host.peer.call("session/open", session, body);
        }
        host
    }

    /// Kills the host, and holds what it had shown against what it has left.
    fn end(&mut self, tally: &mut Tally, mut host: Host) {
        host.peer.wire.kill();
        host.peer.lines.extend(host.peer.wire.last_words());
        for line in &host.peer.lines {
            if let Some((session, event)) = event_text(line) {
                self.shown.note(&session, event);
            }
        }
        self.shown.is_in(&self.store);
        for session in self.shown.sessions() {
            let log = Log::read(&self.store, session).expect("it is stored");
            tally.count(&log);
            self.left.insert(session.to_owned(), log);
        }
        self.mark = Some(host.mark);
    }

    /// The last host of the place: each session takes one more prompt, and nobody is killed.
    fn close(&mut self, dice: &mut Dice, life: usize) {
        let mut host = self.begin(dice, life);
        for session in SESSIONS {
            // What waited for a turn when the host was killed still waits (L-27).
            host.peer.call("session/cancel", session, json!({"inbox": "clear"}));
            let rests = host.rests(session);
            let id = host.peer.prompt(session, "limit");
            host.peer.reply(&id);
            host.peer.idle(session, rests + 1);
            let ends = host.peer.events(session);
            let end = ends.iter().rev().find(|event| event["type"] == "turn/end").expect("an end");
            assert_eq!(end["data"]["reason"], json!({"kind": "max-tokens"}), "{session}");
        }
        host.peer.wire.close_input();
        while host.peer.frame().is_some() {}
        assert_eq!(host.peer.wire.exit(), 0, "{}", host.peer.wire.diagnostics());
        for session in self.shown.sessions() {
            Log::read(&self.store, session).expect("it is stored").audited_closed();
        }
        remains::are_gone(&host.mark);
    }
}

impl Host {
    fn rests(&self, session: &str) -> usize {
        self.peer.seen.iter().filter(|frame| is_status(frame, session, "idle")).count()
    }

    /// Keeps every session at work for a random number of frames.
    fn work(&mut self, dice: &mut Dice, shown: &mut Shown) {
        self.looked = self.peer.seen.len();
        let end = self.looked + dice.frames();
        for session in SESSIONS {
            self.prompt(dice, session);
        }
        while self.looked < end {
            if self.looked == self.peer.seen.len() {
                self.peer.next();
            }
            let frame = self.peer.seen[self.looked].clone();
            if let Some((session, event)) = event_text(&self.peer.lines[self.looked]) {
                shown.note(&session, event);
            }
            self.looked += 1;
            self.answer(dice, &frame);
        }
        dice.tarry();
    }

    /// What this client does about a frame.
    fn answer(&mut self, dice: &mut Dice, frame: &Value) {
        let session = frame["session"].as_str().unwrap_or_default().to_owned();
        if let Some(ours) = SESSIONS.into_iter().find(|ours| *ours == session) {
            if is_status(frame, ours, "idle") {
                self.prompt(dice, ours);
            } else if dice.one_in(60) {
                self.peer.steer(ours, "by the way");
            } else if dice.one_in(90) {
                let inbox = dice.pick(&["clear", "keep"]);
                self.peer.ask("session/cancel", ours, json!({"inbox": inbox}));
            }
        }
        if frame["name"] == "ask/opened" {
            self.decide(dice, &session, &frame["body"]);
        }
    }

    fn decide(&mut self, dice: &mut Dice, session: &str, ask: &Value) {
        // One may be left open, the others have somebody who decides: somebody is always at work.
        if !self.left_open && dice.one_in(3) {
            self.left_open = true;
            return;
        }
        let id = &ask["askId"];
        let (name, body) = match dice.pick(&["allowed-once", "rejected", "unavailable"]) {
            "unavailable" => ("ask/settle", json!({"askId": id, "outcome": "unavailable"})),
            outcome => {
                let value = json!({"sessionId": session, "approvalId": ask["approvalId"], "outcome": outcome});
                ("ask/answer", json!({"askId": id, "value": value}))
            }
        };
        let (_, line) = self.peer.request(name, None, &body);
        self.peer.say(&line);
    }

    fn prompt(&mut self, dice: &mut Dice, session: &str) {
        self.prompts += 1;
        // The last one gets stuck in a command, every time.
        let work = if session == "five" { "stuck" } else { dice.pick(&WORK) };
        self.peer.prompt(session, &format!("{work} {}", self.prompts));
    }
}

/// What the model says to each kind of work.
fn script() -> Value {
    let bash = |command: &str| json!({"tool": {"name": "bash", "arguments": {"command": command, "description": "Works"}}});
    let job = |command: &str| {
        json!({"tool": {"name": "bash", "arguments": {
            "command": command, "description": "Works", "run_in_background": true,
        }}})
    };
    let tool =
        |name: &str, arguments: Value| json!({"tool": {"name": name, "arguments": arguments}});
    let child = |prompt: &str| tool("subagent", json!({"description": "Child", "prompt": prompt}));
    let rule = |contains: &str, step: u32, answer: Value| json!({"when": {"contains": contains, "step": step}, "answer": answer});
    let words: Vec<_> = (0..40).map(|n| format!("word {n} ")).collect();
    json!({
        "retry": {"initial_delay_ms": 1, "max_delay_ms": 5},
        "rules": [
            {"when": {"notice": "finished"}, "answer": [
                tool("job_output", json!({"job_id": "{{notice after background job}}"})),
            ]},
            {"when": {"contains": "talk"}, "answer": [
                {"reasoning": ["hm ", "hm"]}, {"text": words}, {"delay_ms": 3}, {"text": words},
                {"usage": {"input_tokens": 7, "output_tokens": 80}},
            ]},
            rule("shell", 1, json!([{"text": "I look."}, bash("echo {{prompt}}; ls"), bash("exit 3"), bash("sleep 0.05")])),
            rule("shell", 2, json!([bash("for n in 1 2 3 4 5; do echo $n >> numbers; done; wc -l numbers")])),
            rule("asked", 1, json!([bash("echo asked"), bash("echo after")])),
            rule("job", 1, json!([job("sleep 0.1; echo done"), job("sleep 1000"), tool("job_list", json!({}))])),
            rule("job", 2, json!([tool("job_kill", json!({"job_id": "bash-2"}))])),
            rule("delegate", 1, json!([child("talk to me"), child("shell out"), child("files of yours")])),
            {"when": {"contains": "fail"}, "times": 3, "answer": [
                {"text": "half an ans"}, {"error": {"code": "SERVER", "message": "stumbled", "status": 503}},
            ]},
            {"when": {"contains": "fail"}, "times": 1, "answer": [{"text": "and"}, {"cut": true}]},
            {"when": {"contains": "limit"}, "answer": [
                {"text": "on and on"}, bash("echo never"), {"finish": "max-tokens"},
            ]},
            rule("files", 1, json!([
                tool("read", json!({"file_path": "notes.txt"})),
                tool("read", json!({"file_path": "no such file"})),
                tool("write", json!({"file_path": "{{prompt}}.txt", "content": "{{prompt}}"})),
                tool("grep", json!({"pattern": "second"})),
            ])),
            rule("stuck", 1, json!([bash("sleep 1000 & sleep 1000"), bash("echo never")])),
            {"answer": [{"text": "done: {{prompt}}"}]},
        ],
    })
}
