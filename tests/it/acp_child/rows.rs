//! Rows 48 to 50, against the real binary. The frames of row 48 are played in `vectors.rs`.

use crate::support::agents::{Parent, agent, end};

/// Row 48. A-148: "any failure before that tears the process down completely … and then rejects"; the exits leave no process.
#[test]
fn row_48_an_agent_that_cannot_be_started_leaves_nothing() {
    let table = [
        (
            "die-start",
            "Error: ACP connection closed (stage: initialize, category: process-exit, exit code 5)",
        ),
        (
            "die-initialize",
            "Error: ACP connection closed (stage: initialize, category: process-exit, exit code 5)",
        ),
        (
            "die-new",
            "Error: ACP connection closed (stage: new-session, category: process-exit, exit code 5)",
        ),
        (
            "other-version",
            "Error: ACP child speaks protocol version 2; this host speaks 1 (stage: initialize, category: protocol)",
        ),
        (
            "early-grandchild",
            "Error: ACP child published without a session id (stage: new-session, category: protocol)",
        ),
    ];
    let agents = table.map(|(name, _)| agent(name, "dispose-eof-grace-ms = 200"));
    let mut parent = Parent::start(&agents, "");
    for (name, expected) in table {
        assert_eq!(parent.run(name), expected);
        // It is told once it is gone, not before.
        assert_eq!(parent.traces(name).living(), Vec::<u32>::new(), "{name}");
    }
    end(parent, &table.map(|(name, _)| name));
}

/// Row 48. A-154: outputs and stop reasons.
#[test]
fn row_48_a_task_comes_back_with_the_words_of_the_agent() {
    let names = ["echo", "directory", "noise", "words", "question"];
    let mut parent = Parent::start(&names.map(|name| agent(name, "")), "");
    assert_eq!(parent.run("echo"), "do it");
    let cwd = parent.place.cwd.canonicalize().expect("a directory");
    assert_eq!(parent.run("directory"), cwd.display().to_string());
    assert_eq!(parent.run("noise"), "through the noise");
    // A-145: what an agent says to people is no part of what it answers.
    assert_eq!(parent.run("words"), "said");
    // A-161: a rejection is chosen where one is offered.
    assert_eq!(parent.run("question"), r#"{"outcome":"selected","optionId":"reject_once"}"#);
    for name in names {
        assert_eq!(parent.traces(name).living(), Vec::<u32>::new(), "{name}");
    }
    use crate::support::wire::Wire as _;
    assert!(parent.peer.wire.diagnostics().contains("on standard error"));
    end(parent, &names);
}

/// A-161: "prefer `allow_once`", though what lasts was offered first.
#[test]
fn an_agent_that_may_is_allowed_once() {
    let mut parent = Parent::start(&[agent("question", "permission = 'allow'")], "");
    assert_eq!(parent.run("question"), r#"{"outcome":"selected","optionId":"allow_once"}"#);
    end(parent, &["question"]);
}

/// Row 49. A-146, decision 32.
#[test]
fn row_49_the_environment_is_scrubbed_and_what_is_given_is_there() {
    let table = "env = { Y_KEY = 'y', DSH_PERMISSION_MODE = 'm' }\nkeep-environment = ['KEPT_TOKEN']\n\
                 without-environment = ['NOT_WANTED']";
    let place = crate::support::place::Place::new();
    let variables = [
        ("X_API_KEY", "secret"),
        ("x_token", "secret"),
        ("DSH_X", "x"),
        ("dsh_x", "x"),
        ("A_PASSPHRASE", "secret"),
        ("X_PLAIN", "plain"),
        ("KEPT_TOKEN", "kept"),
        ("NOT_WANTED", "x"),
    ];
    let agents = [agent("environment", table)];
    let mut parent = Parent::start_with(place, &agents, "", &variables);
    let said = parent.run("environment");
    let names: Vec<_> = said.split(' ').collect();
    for there in ["PATH", "HOME", "X_PLAIN", "Y_KEY", "DSH_PERMISSION_MODE", "KEPT_TOKEN"] {
        assert!(names.contains(&there), "{there} is not in {said}");
    }
    for absent in ["X_API_KEY", "x_token", "DSH_X", "dsh_x", "A_PASSPHRASE", "NOT_WANTED"] {
        assert!(!names.contains(&absent), "{absent} is in {said}");
    }
    end(parent, &["environment"]);
}

/// Row 50. A-155: "settles `aborted` at once … proves nothing about the child".
#[test]
fn row_50_an_abort_is_answered_while_the_agent_still_runs() {
    let graces = "dispose-eof-grace-ms = 600000\ndispose-grace-ms = 600000";
    let mut parent = Parent::start(&[agent("ignore-everything", graces)], "");
    parent.delegate("ignore-everything");
    let traces = parent.traces("ignore-everything");
    traces.wait("said");
    parent.cancel("ignore-everything");
    parent.peer.event("ignore-everything", "turn/end");
    // Its graces have ten minutes to go, and nobody waits for them.
    assert_eq!(traces.living().len(), 1);
    end(parent, &["ignore-everything"]);
}

/// Row 50. A-156, A-157: the cancel comes before the end of input; whoever ignores that and `SIGTERM` is killed.
#[test]
fn row_50_whoever_ignores_everything_is_killed() {
    let graces = "dispose-eof-grace-ms = 150\ndispose-grace-ms = 150";
    let names = ["ignore-cancel", "ignore-everything", "stay"];
    let mut parent = Parent::start(&names.map(|name| agent(name, graces)), "");
    for name in ["ignore-cancel", "ignore-everything"] {
        parent.delegate(name);
        parent.traces(name).wait("said");
        parent.cancel(name);
        parent.peer.event(name, "turn/end");
        parent.traces(name).gone();
    }
    assert_eq!(parent.traces("ignore-cancel").read("heard"), ["session/cancel", "end"]);
    // One that has answered well and then does not go is ended before its answer is given back.
    assert_eq!(parent.run("stay"), "done");
    assert_eq!(parent.traces("stay").living(), Vec::<u32>::new());
    end(parent, &names);
}

/// L-70: who waits for the proof that an agent is gone may stop waiting, and keeps the answer.
#[test]
fn an_answer_is_not_held_back_from_whoever_does_not_want_to_wait() {
    let graces = "dispose-eof-grace-ms = 600000\ndispose-grace-ms = 600000";
    let mut parent = Parent::start(&[agent("stay", graces)], "");
    parent.delegate("stay");
    let traces = parent.traces("stay");
    traces.wait("said");
    parent.cancel("stay");
    parent.peer.event("stay", "turn/end");
    assert_eq!(traces.living().len(), 1);
    end(parent, &["stay"]);
}

/// Row 50. A-156: "the EOF window is deliberately wider than the signal window".
#[test]
fn row_50_an_agent_has_time_to_write_what_it_has_to_write() {
    let graces = "dispose-eof-grace-ms = 60000\ndispose-grace-ms = 50";
    let mut parent = Parent::start(&[agent("flush", graces)], "");
    assert_eq!(parent.run("flush"), "done");
    assert_eq!(parent.traces("flush").read("flushed"), ["whole"]);
    end(parent, &["flush"]);
}
