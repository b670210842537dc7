//! An operator and a running host: what the host tells of itself, what a changed file may change, and who may not ask.

use std::{fs, path::PathBuf, thread, time::Instant};

use nix::{
    sys::signal::{Signal as Number, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::support::{
    control::Control,
    frames::{Frames, is_status},
    place::{Place, text},
    process::{Finished, Launch, Process, binary, built},
    socket::Socket,
    wire::{PATIENCE, Signal, Wire},
};

/// A prompt is a shell command, a job if it begins so; every turn ends with its second step.
const SCRIPT: &str = r#"{"rules": [
    {"when": {"notice": "finished"}, "answer": [{"text": "told: {{notice}}"}]},
    {"when": {"contains": "sleep", "step": 1}, "answer": [
        {"tool": {"name": "bash", "arguments": {"command": "{{prompt}}", "description": "work", "run_in_background": true}}}]},
    {"when": {"step": 1}, "answer": [
        {"tool": {"name": "bash", "arguments": {"command": "{{prompt}}", "description": "work"}}}]},
    {"answer": [{"text": "{{result}}"}]}
]}"#;

/// A host with one door at which its own language is spoken.
struct House {
    place: Place,
    process: Process,
    control: Control,
}

fn manifest(more: &str) -> String {
    format!(
        "[door.frames]\ncomponent = \"frames\"\ncarrier = \"unix\"\nlisten = \"frames.sock\"\n\
         [model]\nprovider = \"scripted\"\nscript = \"script.json\"\n\
         [control]\nlisten = \"control.sock\"\n[store]\npath = \"store.db\"\n{more}"
    )
}

impl House {
    fn new(more: &str) -> House {
        let place = Place::apart();
        place.file("transom.toml", manifest(more));
        let file = place.root().join("transom.toml");
        House::launched(place, Launch::new(["run", "--manifest", text(&file)]))
    }

    fn launched(place: Place, launch: Launch) -> House {
        place.file("script.json", SCRIPT);
        let launch =
            launch.directory(&place.cwd).env("HOME", &place.home).env("TRANSOM_LOG", "warn");
        let mut process = launch.start();
        while let Some(line) = process.line() {
            if line.starts_with("ready") {
                let control = Control::connect(&place.root().join("control.sock"));
                return House { place, process, control };
            }
        }
        panic!("the host did not start:\n{}", process.diagnostics());
    }

    /// A command of the operator's.
    fn run(&self, arguments: &[&str]) -> Finished {
        let control = self.place.root().join("control.sock");
        let launch =
            Launch::new(arguments).directory(&self.place.cwd).env("HOME", &self.place.home);
        launch.arg("--control").arg(control).run("")
    }

    /// A peer with a session that works in this directory.
    fn session(&self, id: &str, directory: PathBuf) -> Frames<Socket> {
        let mut peer = Frames::new(Socket::connect(&self.place.root().join("frames.sock")));
        let body = json!({"want": "new", "owner": "connection", "cwd": directory});
        let asked = peer.ask("session/open", id, body);
        let opened = peer.first(|frame| frame["id"] == *asked);
        assert_eq!(opened["kind"], "reply", "{opened}");
        let topics = json!({"scope": "session", "topics": ["events", "status", "jobs"]});
        let asked = peer.ask("events/subscribe", id, topics);
        peer.first(|frame| frame["id"] == *asked);
        peer
    }

    fn reload(&mut self) -> Value {
        self.control.ask("reload", json!({})).expect("read again")
    }

    fn says(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.process.diagnostics().contains(words) {
            let said = self.process.diagnostics();
            assert!(Instant::now() < end, "{words:?} was not said: {said}");
            thread::yield_now();
        }
    }

    fn end(mut self) -> String {
        self.process.signal(Signal::Terminate);
        assert_eq!(self.process.exit(), 0, "{}", self.process.diagnostics());
        self.process.diagnostics()
    }
}

/// The result of the shell command that this prompt is.
fn shell(peer: &mut Frames<Socket>, session: &str, command: &str) -> String {
    let said = peer.seen.len();
    let content = json!({"content": [{"type": "text", "text": command}]});
    peer.ask("session/prompt", session, content);
    while !(peer.seen.len() > said
        && peer.seen[said..].iter().any(|frame| is_status(frame, session, "idle")))
    {
        peer.next();
    }
    let mut since = peer.seen[said..].iter().rev();
    let result = since.find(|frame| frame["body"]["type"] == "tool/result");
    result.map(|frame| frame["body"]["data"].to_string()).expect("a result")
}

#[test]
fn the_status_tells_of_sessions_jobs_and_what_confines_them() {
    // P-58, P-82.
    let mut house = House::new("");
    let mut peer = house.session("main", house.place.cwd.clone());
    shell(&mut peer, "main", "sleep 1000");
    let status = house.control.ask("status", json!({})).expect("it is told");
    assert_eq!(status["sessions"], 1, "{status}");
    let job = &status["jobs"][0]["jobs"][0];
    assert_eq!(
        (&status["jobs"][0]["sessionId"], &job["id"], &job["kind"], &job["status"], &job["label"]),
        (&json!("main"), &json!("bash-1"), &json!("bash"), &json!("running"), &json!("sleep 1000")),
        "{status}"
    );
    let told = house.run(&["status"]);
    let told =
        told.stdout.lines().find(|line| line.starts_with("main ")).expect("a row").to_owned();
    let words: Vec<_> = told.split_whitespace().collect();
    assert_eq!(words, ["main", "bash-1", "bash", "running", "sleep", "1000"]);
    // What the status says of the machine is what `transom permissions` finds out by itself.
    let file = house.place.root().join("transom.toml");
    let permissions = Launch::new(["permissions", "--json", "--manifest", text(&file)])
        .directory(&house.place.cwd)
        .env("HOME", &house.place.home)
        .run("");
    let permissions: Value = serde_json::from_str(&permissions.stdout).expect("JSON");
    assert_eq!(status["confiner"]["enforcement"], permissions["confiner"]["enforcement"]);
    assert_eq!(status["confiner"]["seccomp"], permissions["confiner"]["seccomp"]);

    let nobody = house.run(&["jobs", "kill", "main", "bash-7"]);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (1, ""), "{nobody:?}");
    let killed = house.run(&["jobs", "kill", "main", "bash-1"]);
    assert_eq!(
        (killed.code, killed.stdout.as_str()),
        (0, "bash-1 is asked to end\n"),
        "{killed:?}"
    );
    // The model is told, in a turn of its own.
    let told = peer.first(|frame| {
        frame["body"]["type"] == "assistant/message" && frame.to_string().contains("told: ")
    });
    assert!(told.to_string().contains("killed by the operator"), "{told}");
    let status = house.control.ask("status", json!({})).expect("it is told");
    let ended = &status["jobs"][0]["jobs"][0];
    assert_ne!(ended["status"], "running", "{status}");
    house.end();
}

#[test]
fn what_a_session_may_write_is_not_read_again_by_itself() {
    // P-32, P-34.
    let place = Place::apart();
    let inside = fs::canonicalize(&place.cwd).expect("a directory").join("transom.toml");
    let mut rooted = manifest("");
    for name in ["script.json", "store.db", "frames.sock", "control.sock"] {
        rooted = rooted.replace(name, &format!("../{name}"));
    }
    fs::write(&inside, &rooted).expect("a manifest");
    let launch = Launch::new(["run", "--manifest", text(&inside)]);
    let mut house = House::launched(place, launch);
    let elsewhere = house.place.home.clone();
    let mut apart = house.session("apart", elsewhere);
    assert!(shell(&mut apart, "apart", "echo free").contains("free"));

    // Nobody can write it yet, so a signal counts.
    let rule =
        |tool: &str| format!("[[permissions.rule]]\ntool = \"{tool}\"\ndecision = \"deny\"\n");
    fs::write(&inside, format!("{rooted}{}", rule("bash"))).expect("a manifest");
    let host = Pid::from_raw(house.process.id());
    kill(host, Number::SIGHUP).expect("it runs");
    let end = Instant::now() + PATIENCE;
    while !shell(&mut apart, "apart", "echo free")
        .contains("is denied by this host's permission rules")
    {
        assert!(Instant::now() < end, "{}", house.process.diagnostics());
    }

    let mut within = house.session("within", house.place.cwd.clone());
    fs::write(&inside, &rooted).expect("a manifest");
    for _ in 0..2 {
        kill(host, Number::SIGHUP).expect("it runs");
        house.says("nothing is read again by itself");
        let refused = shell(&mut within, "within", "echo free");
        assert!(refused.contains("is denied by this host's permission rules"), "{refused}");
    }
    // Whoever asks for it decides otherwise, and is shown what changes.
    let answer = house.reload();
    let change = &answer["changes"][0];
    assert_eq!(
        (&change["path"], &change["new"]),
        (&json!("permissions.rule"), &Value::Null),
        "{answer}"
    );
    assert!(change["old"].as_str().is_some_and(|old| old.starts_with("deny bash (")), "{answer}");
    assert!(shell(&mut within, "within", "echo free").contains("free"));
    fs::write(&inside, format!("{rooted}{}", rule("read"))).expect("a manifest");
    let told = house.run(&["reload"]).stdout;
    assert!(told.contains("permissions.rule  nothing  deny read ("), "{told}");
    let said = house.end();
    assert_eq!(said.matches("nothing is read again by itself").count(), 1, "once: {said}");
}

#[test]
fn a_reload_reaches_what_holds_back_hooks() {
    // P-38.
    let place = Place::apart();
    let mark = place.root().join("mark");
    let mark_and_allow =
        format!("touch {} 2>/dev/null; echo '{{\"decision\": \"allow\"}}'", text(&mark));
    let command = json!(["sh", "-c", mark_and_allow]);
    let hook =
        format!("[[hook]]\nname = \"marks\"\nevent = \"pre-execute\"\ncommand = {command}\n");
    let preset = |name: &str| manifest(&format!("[permissions]\npreset = \"{name}\"\n{hook}"));
    let file = place.file("transom.toml", preset("read-only"));
    let mut house = House::launched(place, Launch::new(["run", "--manifest", text(&file)]));
    let mut peer = house.session("main", house.place.cwd.clone());
    assert!(shell(&mut peer, "main", "echo free").contains("free"));
    assert!(!mark.exists(), "a hook is held back as a shell of a new session would be");
    house.place.file("transom.toml", preset("danger-full-access"));
    house.reload();
    assert!(shell(&mut peer, "main", "echo free").contains("free"));
    assert!(mark.exists());
    house.end();
}

#[test]
fn a_watched_file_waits_while_a_session_could_have_written_the_policy() {
    // P-34.
    let place = Place::apart();
    let cwd = fs::canonicalize(&place.cwd).expect("a directory");
    place.file("counts.wasm", fs::read(built("programs/counts.wasm")).expect("a component"));
    fs::write(cwd.join("policy.toml"), "[frames]\nallow = []\n").expect("a policy");
    let door = "[component.counts]\nsource = \"counts.wasm\"\npolicy = \"cwd/policy.toml\"\nwatch = true\n\
                [door.counts]\ncomponent = \"counts\"\ncarrier = \"unix\"\nlisten = \"counts.sock\"\n";
    let file = place.file("transom.toml", manifest(door));
    let mut house = House::launched(place, Launch::new(["run", "--manifest", text(&file)]));
    let peer = house.session("within", cwd);
    let mut next = fs::read(built("programs/counts.wasm")).expect("a component");
    next.extend(b"\0\x05\x04next");
    let path = house.place.file("next.wasm", next);
    fs::rename(path, house.place.root().join("counts.wasm")).expect("a file");
    house.says("nothing is read again by itself");
    assert_eq!(house.control.door("counts")["version"], 1);
    // With the session goes the reason.
    drop(peer);
    let end = Instant::now() + PATIENCE;
    while house.control.door("counts")["version"] != 2 {
        assert!(Instant::now() < end, "{}", house.process.diagnostics());
        thread::yield_now();
    }
    house.end();
}

#[test]
fn a_reload_reads_every_layer_and_keeps_what_lies_above_them() {
    let place = Place::apart();
    let base = place.file("base.toml", manifest("[jobs]\nhost-max = 7\nper-session-max = 3\n"));
    let site = place.file("site.toml", "[probation]\nfaults = 5\n");
    let launch = Launch::new(["run", "--manifest", text(&base), "--manifest", text(&site)])
        .arg("--set")
        .arg("probation.calls=9")
        .env("TRANSOM_JOBS__HOST_MAX", "8");
    let mut house = House::launched(place, launch);
    let changes = |house: &mut House| -> Vec<String> {
        let answer = house.reload();
        let changes = answer["changes"].as_array().expect("a list").iter();
        changes
            .map(|change| format!("{} {} {}", change["path"], change["old"], change["new"]))
            .collect()
    };
    assert_eq!(changes(&mut house), Vec::<String>::new());
    // The lower layer, where nothing lies above it and where something does.
    house.place.file("base.toml", manifest("[jobs]\nhost-max = 6\nper-session-max = 4\n"));
    assert_eq!(changes(&mut house), [r#""jobs.per-session-max" "3" "4""#]);
    // The upper layer, its own key and one of the lower.
    house
        .place
        .file("site.toml", "[probation]\nfaults = 6\ncalls = 3\n[jobs]\nper-session-max = 2\n");
    assert_eq!(
        changes(&mut house),
        [r#""jobs.per-session-max" "4" "2""#, r#""probation.faults" "5" "6""#]
    );
    // A layer that is gone or wrong refuses the whole, with its file.
    house.place.file("site.toml", "[probation]\nfautls = 6\n");
    let refused = house.control.ask("reload", json!({})).expect_err("refused");
    assert!(
        refused.starts_with("nothing was changed: ")
            && refused.contains("site.toml:2:1: unknown key `fautls`"),
        "{refused}"
    );
    fs::remove_file(&site).expect("a file");
    let refused = house.control.ask("reload", json!({})).expect_err("refused");
    assert!(refused.contains("site.toml"), "{refused}");
    house.end();
}

#[test]
fn an_edited_policy_reaches_a_running_door_or_is_said_to_need_a_restart() {
    let place = Place::apart();
    let policy = |limits: &str| format!("[frames]\nallow = [\"session/*\"]\n[limits]\n{limits}\n");
    place.file("policy.toml", policy("connections-max = 2\nnesting-max = 9"));
    let door = "[component.counts]\nsource = \"counts.wasm\"\npolicy = \"policy.toml\"\n\
                [door.counts]\ncomponent = \"counts\"\ncarrier = \"unix\"\nlisten = \"counts.sock\"\n";
    place.file("counts.wasm", fs::read(built("programs/counts.wasm")).expect("a component"));
    let file = place.file("transom.toml", manifest(door));
    let mut house = House::launched(place, Launch::new(["run", "--manifest", text(&file)]));
    let peer = |house: &House| Socket::connect(&house.place.root().join("counts.sock"));
    let deep = "[[[[\n";
    let mut early = peer(&house);
    early.write(deep.as_bytes());
    assert_eq!(early.line().as_deref(), Some("1 [[[["));

    house
        .place
        .file("policy.toml", policy("connections-max = 3\nnesting-max = 2\ncall-ms-base = 400"));
    let answer = house.reload();
    let told: Vec<_> = answer["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| {
            format!("{} {} {}: {}", change["path"], change["old"], change["new"], change["effect"])
        })
        .collect();
    assert_eq!(
        told,
        [
            r#""door.counts.limits.nesting-max" "9" "2": "for new connections""#,
            r#""door.counts.limits.call-ms-base" "500" "400": "by a swap of `counts`""#,
            r#""door.counts.limits.connections-max" "2" "3": "after a restart""#,
        ]
    );
    assert_eq!(answer["restart"], json!(["door.counts.limits.connections-max"]));
    assert_eq!(answer["swaps"][0]["moved"], 1, "{answer}");
    early.write(deep.as_bytes());
    assert_eq!(early.line().as_deref(), Some("2 [[[["), "it keeps what it was opened with");
    let mut late = peer(&house);
    late.write(b"[[[[\nx\n");
    assert_eq!(late.line().as_deref(), Some("1 x"), "too deep for the new limit");
    let mut third = peer(&house);
    assert_eq!(third.line(), None, "there is no more room than at the start");
    // What needs a restart is named as often as it is asked.
    assert_eq!(house.reload()["restart"], json!(["door.counts.limits.connections-max"]));
    house.end();
}

#[test]
fn what_a_session_starts_cannot_control_the_host() {
    // P-43; under this mode nothing else would keep it away.
    let mut house = House::new("[permissions]\npreset = \"danger-full-access\"\n");
    let mut peer = house.session("main", house.place.cwd.clone());
    let socket = house.place.root().join("control.sock");
    for command in [
        format!("{} status --control {} 2>&1 || true", text(&binary()), text(&socket)),
        // Nor does a daemon, whose parent is the host in the end.
        format!(
            "(setsid {} status --control {} >daemon 2>&1 &) ; until grep -q . daemon; do :; done; cat daemon",
            text(&binary()),
            text(&socket)
        ),
    ] {
        let said = shell(&mut peer, "main", &command);
        assert!(said.contains("a tool process cannot control the host"), "{said}");
    }
    assert!(house.control.ask("status", json!({})).is_ok(), "the operator can");
    house.end();
}
