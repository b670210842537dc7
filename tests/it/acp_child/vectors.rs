//! The recorded runs, played with a real process as the agent: by the provider with the codec native and sandboxed, each
//! also with the codec moved between every two inputs, and by the real binary. All must say what was recorded, apart from
//! `departures.toml`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, LazyLock, atomic::Ordering, mpsc},
    time::Duration,
};

use serde_json::{Value, json};
use transom_acp_child::Conversation;
use transom_connection::codec::CodecSource;
use transom_harness::{
    block::Block,
    permissions::Access,
    ports::{Delegation, DelegationEvent, Subagents as _},
    subagents::Nature,
};
use transom_io::{
    Host, OpenDoor,
    child::{AgentSettings, ChildAgents, Permission},
    slot::{Slot, Upkeep},
};
use transom_process::{Spawner, scrub};
use transom_router::Reach;
use transom_sandbox::Sandbox;

use crate::support::{
    agents::{Described, Parent, Traces, program},
    child_recording::{Intervention, backend, intervention, lines, names},
    place::{Place, text},
    way::{Way, shipped},
    wire::{PATIENCE, Wire as _},
};

/// One test for each file, named like it.
macro_rules! recordings {
    ($($name:ident = $file:literal,)*) => {
        const PLAYED: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $name() {
                play($file);
            }
        )*
    };
}

recordings! {
    child_auth_required = "child-auth-required.jsonl",
    child_die = "child-die.jsonl",
    child_exit_immediately = "child-exit-immediately.jsonl",
    child_fs_request = "child-fs-request.jsonl",
    child_future_version = "child-future-version.jsonl",
    child_hang_dispose = "child-hang-dispose.jsonl",
    child_hang = "child-hang.jsonl",
    child_happy_cancelled = "child-happy-cancelled.jsonl",
    child_happy_max_tokens = "child-happy-max_tokens.jsonl",
    child_happy_max_turn_requests = "child-happy-max_turn_requests.jsonl",
    child_happy_missing_binary = "child-happy-missing-binary.jsonl",
    child_happy_no_text = "child-happy-no-text.jsonl",
    child_happy_refusal = "child-happy-refusal.jsonl",
    child_happy = "child-happy.jsonl",
    child_ignore_cancel = "child-ignore-cancel.jsonl",
    child_ignore_eof = "child-ignore-eof.jsonl",
    child_init_error = "child-init-error.jsonl",
    child_never_initialize = "child-never-initialize.jsonl",
    child_no_session_id = "child-no-session-id.jsonl",
    child_permission_allow = "child-permission-allow.jsonl",
    child_permission_reject = "child-permission-reject.jsonl",
    child_prompt_error = "child-prompt-error.jsonl",
    child_trap_term = "child-trap-term.jsonl",
}

#[test]
fn every_file_is_played() {
    let mut played = PLAYED.to_vec();
    played.sort_unstable();
    assert_eq!(names(), played);
}

/// The host hands over one text; the recordings' caller handed over two.
const TASK: &str = "do it";

/// The ambient variables and the given ones of the recordings.
const AMBIENT: [(&str, &str); 5] = [
    ("PROBE_PLAIN", "1"),
    ("PROBE_PASSPHRASE", "1"),
    ("PROBE_secret", "1"),
    ("MONKEY_PROBE", "1"),
    ("DSH_PROBE", "1"),
];
const GIVEN: [(&str, &str); 2] = [("PROBE_EXPLICIT_KEY", "1"), ("DSH_PERMISSION_MODE", "1")];

fn play(file: &str) {
    let expected = lines(file);
    for way in [Way::Native, Way::NativeRestless, Way::Sandboxed, Way::SandboxedRestless] {
        by_provider(file, way, &expected);
    }
    // The tool has refused a task without text before any provider is asked.
    if file != "child-happy-no-text.jsonl" {
        by_binary(file, &expected);
    }
}

/// What the agent saw and did, as it was recorded.
fn agents_part(expected: &[Value], cwd: &Path) -> Vec<Value> {
    let seen = expected.iter().filter(|line| line["from"] == "parent" || line["from"] == "process");
    let filled = |line: &Value| {
        let mut line: Value =
            serde_json::from_str(&line.to_string().replace("{{cwd}}", text(cwd))).expect("JSON");
        if line.pointer("/frame/method").is_some_and(|method| method == "session/prompt") {
            line["frame"]["params"]["prompt"] = json!([{"type": "text", "text": TASK}]);
        }
        line
    };
    seen.map(filled).collect()
}

/// The steps of the recording, for `agent.py`.
fn steps(file: &str, expected: &[Value], at: &Path) {
    let trap = json!({"trap": file == "child-trap-term.jsonl"});
    let played = expected.iter().filter(|line| line["from"] != "backend");
    let lines: Vec<_> = [&trap].into_iter().chain(played).map(Value::to_string).collect();
    fs::write(at, lines.join("\n")).expect("a file");
}

fn compare(file: &str, way: Way, expected: &[Value], traces: &Traces, cwd: &Path) {
    let found: Vec<Value> = traces
        .read("log")
        .iter()
        .map(|line| serde_json::from_str(line).expect("a line of the agent is JSON"))
        .collect();
    let expected = agents_part(expected, cwd);
    let shown = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(shown(&found), shown(&expected), "{way:?}: {file}");
    if !traces.read("pids").is_empty() {
        traces.gone();
    }
}

/// Waits until the agent has read everything up to this moment of the recording.
fn reached(traces: &Traces, expected: &[Value], cwd: &Path) {
    let before = agents_part(expected, cwd)
        .iter()
        .take_while(|line| {
            line["event"] != "stdin-eof"
                && line.pointer("/frame/method") != Some(&json!("session/cancel"))
        })
        .count();
    crate::support::agents::until("the agent has heard its task", || {
        (traces.read("log").len() >= before).then_some(())
    });
}

fn source(way: Way) -> Arc<dyn CodecSource> {
    static COMPONENT: LazyLock<(Sandbox, Arc<dyn CodecSource>)> =
        LazyLock::new(|| shipped("acp-child"));
    way.source::<Conversation>(|| Arc::clone(&COMPONENT.1)).expect("the binary has its own")
}

fn provider(
    file: &str,
    way: Way,
    place: &Place,
    traces: &Traces,
    host: Host,
) -> (ChildAgents, Arc<Slot>) {
    let built_in = transom_doors::find("acp-child").expect("the door is built in");
    let policy = Arc::new(built_in.policy().expect("its policy"));
    let name = "agent.test";
    let upkeep = Upkeep::default();
    let door = OpenDoor {
        redactor: Arc::default(),
        name: name.into(),
        slot: Slot::new(name, "acp-child", source(way), "{}".into(), policy, upkeep),
        framing: built_in.framing,
        reach: Reach::Owned,
        answers: built_in.answers,
        directory: text(&place.cwd).into(),
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let ambient: Vec<_> = [("PATH", &*path)].into_iter().chain(AMBIENT).map(pair).collect();
    let given: Vec<_> =
        GIVEN.into_iter().map(pair).map(|(name, value)| (name, Some(value))).collect();
    let missing = file == "child-happy-missing-binary.jsonl";
    let steps = place.root().join("test.steps");
    let settings = AgentSettings {
        name: "test".to_owned(),
        program: if missing { "/nonexistent/agent" } else { "python3" }.to_owned(),
        arguments: [text(&program()), "play", text(&traces.0), text(&steps)]
            .map(str::to_owned)
            .to_vec(),
        directory: None,
        permission: if file.contains("allow") { Permission::Allow } else { Permission::Reject },
        environment: scrub(&ambient, &[], &given).variables,
        start: PATIENCE,
        eof_grace: grace(file),
        grace: Duration::from_millis(300),
    };
    let runtime = tokio::runtime::Handle::current();
    let spawner = Spawner::new(runtime.clone()).expect("a thread");
    let slot = Arc::clone(&door.slot);
    let agents = ChildAgents::new(settings, door, host, spawner, Arc::new(|_| None), runtime);
    (agents, slot)
}

/// An agent that ends with its input has all the time it needs, however slow the machine.
fn grace(file: &str) -> Duration {
    match file {
        "child-ignore-eof.jsonl" | "child-trap-term.jsonl" => Duration::from_millis(300),
        _ => PATIENCE,
    }
}

fn by_provider(file: &str, way: Way, expected: &[Value]) {
    let place = Place::new();
    let traces = Traces::new(&place, "test");
    steps(file, expected, &place.root().join("test.steps"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    let (host, _inbox) = Host::new();
    let (agents, slot) = provider(file, way, &place, &traces, host);
    let (tell, told) = mpsc::sync_channel(8);
    let sink = Box::new(move |event| {
        let _ = tell.send(event);
    });
    let no_text = file == "child-happy-no-text.jsonl";
    let stop = agents.start(
        Delegation {
            parent: "main".into(),
            description: "d".to_owned(),
            prompt: if no_text { " " } else { TASK }.to_owned(),
            access: Access::FULL,
            directory: Some(place.cwd.clone()),
            nature: Nature::default(),
        },
        sink,
    );
    if intervention(file) != Intervention::None {
        reached(&traces, expected, &place.cwd);
        // And the codec has everything that the agent had said until then.
        let said = expected
            .iter()
            .take_while(|line| line.pointer("/frame/method") != Some(&json!("session/cancel")))
            .filter(|line| line["from"] == "child")
            .count();
        crate::support::agents::until("the codec has heard the agent", || {
            (slot.figures().units_in.load(Ordering::Relaxed) >= said as u64).then_some(())
        });
        if file != "child-never-initialize.jsonl" {
            assert!(matches!(
                told.recv_timeout(PATIENCE).expect("it is published"),
                DelegationEvent::Started { .. }
            ));
        }
        stop.stop();
        // Whoever gives a run back twice has given it back once.
        stop.stop();
    }
    let mut published = None;
    let last = loop {
        match told.recv_timeout(PATIENCE).expect("it ends") {
            DelegationEvent::Started { child } => published = Some(child),
            last => break last,
        }
    };
    // the run's name is not the child's.
    assert!(published.as_ref().is_none_or(|id| id.as_str() != "child-session"));
    match last {
        DelegationEvent::Refused(why) => {
            assert_eq!(backend(expected, "rejected"), Some(&json!(why)), "{way:?}: {file}");
            assert_eq!(published, None);
        }
        DelegationEvent::Ended { stop_reason, output, diagnostic } => {
            let mut found = json!({"output": blocks(&output), "stopReason": stop_reason});
            if let Some(diagnostic) = diagnostic {
                found["diagnostic"] = diagnostic.into();
            }
            assert_eq!(backend(expected, "result"), Some(&found), "{way:?}: {file}");
        }
        other => panic!("{way:?}: {file}: {other:?}"),
    }
    // Left alone, it ends in its own time.
    crate::support::agents::until("the agent is gone", || (agents.running() == 0).then_some(()));
    let over = runtime.block_on(async { tokio::time::timeout(PATIENCE, agents.shut_down()).await });
    over.expect("every agent ends");
    assert_eq!(agents.running(), 0);
    compare(file, way, expected, &traces, &place.cwd);
}

fn blocks(output: &[Block]) -> Value {
    let text = |block: &Block| match block {
        Block::Text { text } => json!({"type": "text", "text": text}),
        other => panic!("a block that is no text: {other:?}"),
    };
    output.iter().map(text).collect()
}

/// The text that a model is shown of an outcome (L-71).
fn as_result(expected: &[Value]) -> String {
    if let Some(rejected) = backend(expected, "rejected") {
        return format!("Error: {}", rejected.as_str().unwrap_or_default());
    }
    let result = backend(expected, "result").expect("an outcome");
    let text = result.pointer("/output/0/text").and_then(Value::as_str).unwrap_or_default();
    let failure = match result["stopReason"].as_str() {
        Some("completed") if text.is_empty() => return "(no output)".to_owned(),
        Some("completed") => return text.to_owned(),
        Some("aborted") => "subagent run was cancelled",
        Some("max-tokens") => "subagent run hit its token limit before finishing",
        Some("refusal") => "subagent declined the task",
        _ => "subagent run failed",
    };
    let mut shown = format!("Error: {failure}");
    if let Some(diagnostic) = result["diagnostic"].as_str() {
        shown.push_str(&format!("\n{diagnostic}"));
    }
    if !text.is_empty() {
        shown.push_str(&format!("\nPartial output before the run ended:\n{text}"));
    }
    shown
}

fn by_binary(file: &str, expected: &[Value]) {
    let place = Place::new();
    steps(file, expected, &place.root().join("test.steps"));
    let permission = if file.contains("allow") { "allow" } else { "reject" };
    let table = format!(
        "permission = '{permission}'\ndispose-eof-grace-ms = {}\ndispose-grace-ms = 300\n\
         env = {{ PROBE_EXPLICIT_KEY = '1', DSH_PERMISSION_MODE = '1' }}",
        grace(file).as_millis()
    );
    let agents = [Described { name: "test", behaviour: "play", table: &table }];
    let mut parent = Parent::start_with(place, &agents, "", &AMBIENT);
    let traces = parent.traces("test");
    if file == "child-happy-missing-binary.jsonl" {
        // A program that is named by a path is missed before anything runs; one that vanishes later is missed then.
        return by_vanished_binary(parent, expected);
    }
    parent.delegate("test");
    if intervention(file) != Intervention::None {
        reached(&traces, expected, &parent.place.cwd);
        parent.cancel("test");
        parent.peer.event("test", "turn/end");
    } else {
        assert_eq!(parent.result("test"), as_result(expected), "{file}");
    }
    if let Some(failure) = backend(expected, "onError").and_then(Value::as_str) {
        let line = format!("child run failed (error): {failure}");
        let said = parent.peer.wire.diagnostics();
        assert_eq!(said.matches(&line).count(), 1, "{file}: {said}");
    }
    if !traces.read("pids").is_empty() {
        traces.gone();
    }
    compare(file, Way::Binary, expected, &traces, &parent.place.cwd);
    crate::support::agents::end(parent, &["test"]);
}

fn by_vanished_binary(mut parent: Parent, expected: &[Value]) {
    parent.peer.wire.kill();
    let program = parent.place.file("agent", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let manifest = parent.place.root().join("transom.toml");
    let written = fs::read_to_string(&manifest).expect("the manifest");
    let replaced = written.replace("['python3', ", &format!("['{}', ", text(&program)));
    assert_ne!(written, replaced);
    fs::write(&manifest, replaced).expect("the manifest");
    let script = parent.place.root().join("script.json");
    let launch =
        crate::support::process::Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
            .arg("--model-script")
            .arg(&script)
            .arg("--store")
            .arg(parent.place.root().join("other.db"))
            .directory(&parent.place.cwd)
            .env("HOME", &parent.place.home);
    parent.peer = crate::support::frames::Frames::new(launch.start());
    parent.peer.watch();
    fs::remove_file(&program).expect("it was there");
    let shown = as_result(expected).replace("/nonexistent/agent", text(&program));
    assert_eq!(parent.run("test"), shown);
}
