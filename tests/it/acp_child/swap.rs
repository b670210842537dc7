//! The component behind agents is one like any other: it is pinned, looked at, and exchanged while agents are at work.

use std::fs;

use serde_json::json;

use crate::support::{
    agents::{Traces, program, result_text},
    control::Control,
    frames::Frames,
    place::{Place, text},
    process::{Launch, built},
    socket::Socket,
    wire::{Signal, Wire as _},
};

/// A manifest with one agent that waits for a file in the middle of its answer.
fn manifest(place: &Place, traces: &Traces) -> String {
    format!(
        "[door.frames]\ncomponent = 'frames'\ncarrier = 'unix'\nlisten = 'frames.sock'\n\
         [model]\nprovider = 'scripted'\nscript = 'script.json'\n[store]\npath = 'store.db'\n\
         [control]\nlisten = 'control.sock'\n[permissions]\npreset = 'danger-full-access'\n\
         [component.acp-child]\nsource = '{}'\n\
         [agent.gate]\ncommand = ['python3', '{}', 'gate', '{}']\n\
         [subagents.gate]\ndescription = 'd'\nagent = 'gate'\n",
        place.root().join("acp-child.wasm").display(),
        text(&program()),
        text(&traces.0),
    )
}

#[test]
fn an_agent_at_work_is_spoken_with_by_the_new_version_and_notices_nothing() {
    let place = Place::new();
    let traces = Traces::new(&place, "gate");
    let component = place.root().join("acp-child.wasm");
    fs::copy(built("components/acp-child.wasm"), &component).expect("the component");
    let file = place.file("transom.toml", manifest(&place, &traces));
    let script = json!({"rules": [
        {"when": {"step": 1}, "answer": [{"tool": {"name": "subagent", "arguments": {
            "kind": "gate", "description": "d", "prompt": "do it",
        }}}]},
        {"answer": [{"text": "noted"}]},
    ]});
    place.file("script.json", script.to_string());
    let launch =
        |arguments: &[&str]| Launch::new(arguments).directory(&place.cwd).env("HOME", &place.home);

    // It is pinned, and told of by a check.
    let pinned = launch(&["pin", "--manifest", text(&file)]).run("");
    assert_eq!(pinned.code, 0, "{pinned:?}");
    let lock = fs::read_to_string(place.root().join("transom.lock")).expect("a lock");
    assert!(lock.contains("name = \"acp-child\""), "{lock}");
    let checked = launch(&["check", "--manifest", text(&file), "--json"]).run("");
    assert_eq!(checked.code, 0, "{checked:?}");
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).expect("JSON");
    assert_eq!(report["agents"][0]["name"], "gate");
    assert_eq!(report["agents"][0]["kinds"], json!(["gate"]));
    assert_eq!(report["components"][0]["imports"], json!([]));
    let doors = report["doors"].as_array().expect("a list");
    assert!(doors.iter().any(|door| door["name"] == "agent.gate" && door["carrier"] == "child"));

    let mut process = launch(&["run", "--manifest", text(&file)]).start();
    while !process.line().expect("the host starts").starts_with("ready") {}
    let mut control = Control::connect(&place.root().join("control.sock"));
    let mut peer = Frames::new(Socket::connect(&place.root().join("frames.sock")));
    peer.watch();
    peer.call("session/open", "main", json!({"want": "new", "cwd": text(&place.cwd)}));
    peer.prompt("main", "go");
    traces.wait("said");
    let before = control.door("agent.gate");
    assert_eq!((&before["connections"], &before["version"]), (&json!(1), &json!(1)));

    let swapped =
        control.ask("swap", json!({"component": "acp-child", "source": text(&component)}));
    let row = swapped.expect("it is swapped")["doors"][0].clone();
    assert_eq!((&row["door"], &row["moved"]), (&json!("agent.gate"), &json!(1)), "{row}");
    fs::write(traces.0.join("go"), "").expect("a file");
    assert_eq!(result_text(&peer.event("main", "tool/result")), "before and after");
    let after = control.door("agent.gate");
    assert_eq!((&after["connections"], &after["version"]), (&json!(0), &json!(2)));
    assert_eq!((&after["traps"], &after["faults"]), (&json!(0), &json!(0)));
    assert_eq!(traces.living(), Vec::<u32>::new());

    process.signal(Signal::Terminate);
    assert_eq!(process.exit(), 0, "{}", process.diagnostics());

    // Another file than the pinned one does not run.
    fs::copy(built("components/echo.wasm"), &component).expect("another component");
    let refused = launch(&["run", "--manifest", text(&file)]).run("");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("acp-child"), "{refused:?}");
}

#[test]
fn the_component_of_agents_serves_no_door() {
    let place = Place::new();
    let launch = Launch::new(["stdio", "acp-child"]).directory(&place.cwd).env("HOME", &place.home);
    let refused = launch.run("");
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .stderr
            .contains("is for agents that this host starts; describe one in [agent.<name>]"),
        "{refused:?}"
    );
}
