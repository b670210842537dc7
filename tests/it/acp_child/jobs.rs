//! Agents that work in the background (P-65, P-70, P-71): their calls are answered at once, and their last words are read
//! when they have ended well.

use serde_json::{Value, json};

use crate::support::{
    agents::{Parent, Traces, program, result_text},
    frames::{Frames, is_event},
    place::{Place, text},
    process::Launch,
    wire::Wire as _,
};

/// The first job of a session.
const JOB: &str = "subagent-1";

/// A host whose session has begun a job with an agent. What the model does once the job has ended, or when it is told to
/// `kill`, is the same in every story.
fn begun(behaviour: &str) -> (Parent, Traces) {
    let place = Place::new();
    let traces = Traces::new(&place, behaviour);
    let call =
        |tool: &str, arguments: Value| json!({"tool": {"name": tool, "arguments": arguments}});
    let read = call("job_output", json!({"job_id": JOB}));
    let begin = call(
        "subagent",
        json!({"kind": "worker", "description": "a test", "prompt": "do it", "run_in_background": true}),
    );
    let script = json!({"rules": [
        {"when": {"contains": "begin", "notice": "finished"}, "answer": [read]},
        {"when": {"contains": "begin", "step": 1}, "answer": [begin]},
        {"when": {"contains": "kill", "step": 1}, "answer": [call("job_kill", json!({"job_id": JOB}))]},
        {"when": {"contains": "look", "step": 1}, "answer": [read]},
        {"answer": [{"text": "noted"}]},
    ]});
    let script = place.file("script.json", script.to_string());
    let manifest = format!(
        "[door.frames]\ncomponent = 'frames'\ncarrier = 'stdio'\n[model]\nprovider = 'scripted'\n\
         [permissions]\npreset = 'danger-full-access'\n\
         [agent.worker]\ncommand = ['python3', '{}', '{behaviour}', '{}']\n\
         dispose-eof-grace-ms = 200\ndispose-grace-ms = 200\n\
         [subagents.worker]\ndescription = 'd'\nagent = 'worker'\n",
        text(&program()),
        text(&traces.0),
    );
    let manifest = place.file("transom.toml", manifest);
    let launch = Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
        .arg("--model-script")
        .arg(&script)
        .arg("--store")
        .arg(place.root().join("store.db"))
        .directory(&place.cwd)
        .env("HOME", &place.home);
    let mut peer = Frames::new(launch.start());
    peer.watch();
    peer.call("session/open", "main", json!({"want": "new", "cwd": text(&place.cwd)}));
    peer.prompt("main", "begin");
    let told = result_text(&peer.event("main", "tool/result"));
    assert_eq!(told, format!("started background subagent task {JOB}"));
    (Parent { place, peer }, traces)
}

/// How the job ended.
fn settled(parent: &mut Parent) -> Value {
    parent.peer.event("main", "job/settled")["data"].clone()
}

/// The text of the n-th result of the session.
fn told(parent: &mut Parent, n: usize) -> String {
    result_text(&parent.peer.event_nth("main", "tool/result", n))
}

fn over(mut parent: Parent, traces: &Traces) {
    parent.peer.wire.close_input();
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0, "{}", parent.peer.wire.diagnostics());
    assert_eq!(traces.living(), Vec::<u32>::new());
}

/// P-77: the end of the job wakes the session, whose turn was over long ago.
#[test]
fn an_agent_works_on_while_its_session_rests_and_its_words_are_read_in_the_end() {
    let (mut parent, traces) = begun("gate");
    parent.peer.event("main", "turn/end");
    traces.wait("said");
    assert_eq!(traces.living().len(), 1);
    let ended = |frame: &Value| is_event(frame, "main", "job/settled");
    assert!(!parent.peer.seen.iter().any(ended), "it has not ended");
    std::fs::write(traces.0.join("go"), "").expect("a file");
    assert_eq!(settled(&mut parent)["status"], "completed");
    assert_eq!(told(&mut parent, 2), "before and after\n[status: completed]");
    assert_eq!(traces.living(), Vec::<u32>::new(), "it is gone before its answer is there");
    over(parent, &traces);
}

/// the agent is told, then ended.
#[test]
fn an_agent_is_killed_with_its_job() {
    let (mut parent, traces) = begun("ignore-cancel");
    parent.peer.event("main", "turn/end");
    traces.wait("said");
    parent.peer.prompt("main", "kill");
    assert_eq!(told(&mut parent, 2), format!("requested cancellation of job {JOB}"));
    let end = settled(&mut parent);
    assert_eq!((&end["status"], &end["cause"]), (&json!("killed"), &json!("kill")), "{end}");
    traces.gone();
    assert_eq!(traces.read("heard"), ["session/cancel", "end"]);
    parent.peer.idle("main", 2);
    parent.peer.prompt("main", "look");
    assert_eq!(told(&mut parent, 3), "(no new output)\n[status: killed]");
    over(parent, &traces);
}

/// P-65: "`failed` with the stop reason … and no partial text", unlike where somebody waits.
#[test]
fn an_agent_that_dies_fails_its_job_which_says_how() {
    let (mut parent, traces) = begun("die-prompt");
    let how = "error: ACP connection closed (stage: prompt, category: process-exit, exit code 3)";
    assert_eq!(settled(&mut parent)["detail"], how);
    assert_eq!(told(&mut parent, 2), format!("(no new output)\n[status: failed, {how}]"));
    over(parent, &traces);
}

/// P-70: "a child that cannot start is a `failed` job with that error as detail, not a failed call".
#[test]
fn an_agent_that_does_not_come_up_is_a_failed_job() {
    let (mut parent, traces) = begun("die-initialize");
    let how = "ACP connection closed (stage: initialize, category: process-exit, exit code 5)";
    assert_eq!(settled(&mut parent)["detail"], how);
    over(parent, &traces);
}
