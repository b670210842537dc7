//! Agents that hang, die, flood and leave things behind, at every stage: each has an outcome of its own, and nothing of any
//! of them is left.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::support::{
    agents::{Parent, agent, end},
    wire::Wire as _,
};

const SHORT: &str = "dispose-eof-grace-ms = 200\ndispose-grace-ms = 200";

#[test]
fn an_agent_that_fails_at_its_task_gives_back_what_it_said() {
    let failed = |what: &str, half: &str| {
        let half = match half {
            "" => String::new(),
            half => format!("\nPartial output before the run ended:\n{half}"),
        };
        format!("Error: subagent run failed\n{what}{half}")
    };
    let table = [
        (
            "die-prompt",
            failed(
                "ACP connection closed (stage: prompt, category: process-exit, exit code 3)",
                "half",
            ),
        ),
        (
            "killed-prompt",
            failed(
                "ACP connection closed (stage: prompt, category: process-exit, ended by SIGKILL)",
                "half",
            ),
        ),
        (
            "close-output",
            failed("ACP connection closed (stage: prompt, category: transport)", "half"),
        ),
        // A descendant holds its output open, in a session of its own.
        (
            "holder",
            failed(
                "ACP connection closed (stage: prompt, category: process-exit, exit code 4)",
                "half",
            ),
        ),
        (
            "error",
            failed(
                "ACP child answered session/prompt with an error of code -32603 (stage: prompt, category: unknown)",
                "",
            ),
        ),
    ];
    let agents: Vec<_> = table.iter().map(|(name, _)| agent(name, SHORT)).collect();
    let mut parent = Parent::start(&agents, "");
    for (name, expected) in &table {
        assert_eq!(parent.run(name), *expected, "{name}");
        assert_eq!(parent.traces(name).living(), Vec::<u32>::new(), "{name}");
    }
    // The agent's own words are for the operator.
    let told: String = parent.peer.lines.concat();
    assert!(!told.contains("sk-words"));
    let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
    end(parent, &names);
}

/// A-165: the words of the agent, and names of what it does not get, are where only the operator looks.
#[test]
fn what_an_operator_wants_to_know_is_in_the_log_at_info() {
    let variables = [("TRANSOM_LOG", "info"), ("X_API_KEY", "a value of it")];
    let agents = [agent("error", SHORT), agent("noise", SHORT)];
    let place = crate::support::place::Place::new();
    let mut parent = Parent::start_with(place, &agents, "", &variables);
    for name in ["error", "noise"] {
        parent.run(name);
    }
    parent.peer.wire.close_input();
    while parent.peer.frame().is_some() {}
    assert_eq!(parent.peer.wire.exit(), 0);
    let log = parent.peer.wire.diagnostics();
    let line = |part: &str| {
        let found = log.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part} in {log}"))
    };
    assert!(line("agent-error").contains("the agent's own sk-words"), "{log}");
    assert!(line("variables that an agent does not get").contains("X_API_KEY"), "{log}");
    assert_eq!(log.matches("line-ignored").count(), 1, "{log}");
    assert!(!log.contains("a value of it"), "{log}");
}

#[test]
fn a_line_without_measure_ends_the_run_and_not_the_host() {
    let mut parent = Parent::start(&[agent("huge-line", SHORT), agent("echo", "")], "");
    let result = parent.run("huge-line");
    assert!(
        result.starts_with("Error: subagent run failed\nACP child wrote a line of 41943")
            && result.contains("(stage: prompt, category: protocol)")
            && result.ends_with("\nbefore"),
        "{result}"
    );
    assert_eq!(parent.traces("huge-line").living(), Vec::<u32>::new());
    assert_eq!(parent.run("echo"), "do it");
    end(parent, &["huge-line", "echo"]);
}

/// A-150, and what has not come up is gone before that is told.
#[test]
fn an_agent_that_does_not_come_up_is_given_up() {
    let table =
        [("hang-initialize", "initialize"), ("hang-new", "session/new"), ("deaf", "initialize")];
    let agents = table.map(|(name, _)| agent(name, "start-ms = 1500\ndispose-eof-grace-ms = 200"));
    let mut parent = Parent::start(&agents, "");
    for (name, method) in table {
        let stage = if method == "initialize" { "initialize" } else { "new-session" };
        let expected = format!(
            "Error: ACP child did not answer {method} within 1500 ms of its start (stage: {stage}, category: transport)"
        );
        assert_eq!(parent.run(name), expected);
        assert_eq!(parent.traces(name).living(), Vec::<u32>::new(), "{name}");
    }
    end(parent, &table.map(|(name, _)| name));
}

/// A-155, A-163: whatever an agent does or does not, whoever has delegated to it is free at once, and it is gone soon.
#[test]
fn a_cancel_ends_an_agent_whatever_it_does() {
    let names = [
        "hang-initialize",
        "hang-new",
        "deaf",
        "hang-prompt",
        "flood",
        "flood-of-questions",
        "endless-line",
        "never-read",
        "ignore-everything",
    ];
    let mut parent = Parent::start(&names.map(|name| agent(name, SHORT)), "");
    for name in names {
        parent.delegate(name);
        parent.traces(name).wait("said");
        parent.cancel(name);
        let turn = parent.peer.event(name, "turn/end");
        assert_eq!(turn["data"]["reason"]["kind"], "aborted", "{name}");
        parent.traces(name).gone();
    }
    end(parent, &names);
}

/// A-158, A-159: the proof is about the whole tree, also about those who have left session, mark and parent.
#[test]
fn what_an_agent_leaves_behind_is_ended_before_its_answer_is_given_back() {
    let mut parent = Parent::start(&[agent("grandchildren", SHORT)], "");
    assert_eq!(parent.run("grandchildren"), "they sleep");
    let traces = parent.traces("grandchildren");
    assert_eq!(traces.read("pids").len(), 5);
    assert_eq!(traces.living(), Vec::<u32>::new());
    end(parent, &["grandchildren"]);
}

/// A program that has gone since the host started.
#[test]
fn what_cannot_be_started_is_refused_in_words() {
    let place = crate::support::place::Place::new();
    let program = place.file("agent.sh", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("its mode");
    let tables = format!(
        "[agent.missing]\ncommand = ['{}']\n[subagents.missing]\ndescription = 'd'\nagent = 'missing'\n",
        program.display()
    );
    let agents = [crate::support::agents::Described { name: "echo", behaviour: "echo", table: "" }];
    let mut parent = Parent::start_with(place, &agents, &tables, &[]);
    // The script knows the mark of `echo`; the kind is what the session is asked to use.
    let script = r#"{"rules":[{"when":{"step":1},"answer":[{"tool":{"name":"subagent","arguments":{"kind":"missing","description":"d","prompt":"p"}}}]},{"answer":[{"text":"noted"}]}]}"#;
    parent.peer.wire.close_input();
    parent.place.file("script.json", script);
    let mut again = relaunched(parent);
    fs::remove_file(&program).expect("it was there");
    again.delegate("echo");
    assert_eq!(
        again.result("echo"),
        format!(
            "Error: spawn {} ENOENT (stage: process, category: process-start)",
            program.display()
        )
    );
}

/// The same host once more, in the same place.
pub(super) fn relaunched(parent: Parent) -> Parent {
    let Parent { place, peer } = parent;
    drop(peer);
    let manifest = place.root().join("transom.toml");
    let text = crate::support::place::text;
    let launch =
        crate::support::process::Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
            .arg("--model-script")
            .arg(place.root().join("script.json"))
            .arg("--store")
            .arg(place.root().join("other.db"))
            .directory(&place.cwd)
            .env("HOME", &place.home);
    let mut peer = crate::support::frames::Frames::new(launch.start());
    peer.watch();
    Parent { place, peer }
}

/// P-29: an agent in another process is not held by the mode, so that somebody has to allow it where only reading is.
#[test]
fn where_only_reading_is_allowed_a_person_is_asked() {
    let tables = "[permissions]\npreset = 'read-only'\n";
    let mut parent = Parent::start(&[agent("echo", "")], tables);
    parent.delegate("echo");
    let asked = parent.peer.first(|frame| frame["name"] == "ask/opened");
    assert_eq!(asked["body"]["toolName"], "subagent");
    let traces = parent.traces("echo");
    assert!(traces.read("pids").is_empty(), "nothing runs before it is allowed");
    let ask = asked["body"]["askId"].clone();
    parent.peer.call(
        "ask/answer",
        "echo",
        serde_json::json!({"askId": ask, "value": {
            "sessionId": "echo", "approvalId": asked["body"]["approvalId"], "outcome": "allowed-once",
        }}),
    );
    assert_eq!(parent.result("echo"), "do it");
    end(parent, &["echo"]);
}
