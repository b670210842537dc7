//! Rows 24 to 30: work that outlives its call, who is told of its end, and what ends it.

use std::{fs, path::Path, time::Instant};

use serde_json::{Value, json};

use super::bench::{Site, bash, bash_with, on, tool, word};
use crate::support::{frames::is_event, wire::PATIENCE};

/// A command that goes on as soon as this file is there, and takes it away.
fn after(file: &str, command: &str) -> String {
    format!("until [ -e {file} ]; do sleep 0.01; done; rm {file}; {command}")
}

/// A job.
fn job(command: &str) -> Value {
    bash_with(command, &json!({"run_in_background": true}))
}

/// A rule: at the n-th request since this prompt.
fn then(prompt: &str, step: u64, calls: impl IntoIterator<Item = Value>) -> Value {
    let calls: Vec<Value> = calls.into_iter().collect();
    json!({"when": {"exact": prompt, "step": step}, "answer": calls})
}

/// A rule: once a notice has come.
fn noticed(prompt: &str, calls: impl IntoIterator<Item = Value>) -> Value {
    let calls: Vec<Value> = calls.into_iter().collect();
    json!({"when": {"exact": prompt, "notice": "finished"}, "answer": calls})
}

fn output(id: &str) -> Value {
    tool("job_output", json!({"job_id": id}))
}

fn touch(site: &Site, file: &str) {
    fs::write(site.cwd.join(file), "").expect("a file");
}

/// Whether a `session/jobs` shows this job so.
fn shows(frame: &Value, id: &str, status: &str) -> bool {
    let jobs = frame["body"]["jobs"].as_array().into_iter().flatten();
    frame["name"] == "session/jobs"
        && jobs.clone().any(|job| job["id"] == id && job["status"] == status)
}

/// The messages of ended jobs that were put into an inbox, each with its target.
fn notices(events: &[&Value]) -> Vec<(String, String)> {
    let splices = events.iter().filter(|event| event["type"] == "agent/inbox/spliced");
    let mut found = Vec::new();
    for splice in splices {
        for message in splice["data"]["inserted"].as_array().into_iter().flatten() {
            if message["source"]["plugin"] == "tool-jobs" {
                assert_eq!(message["source"]["form"], "notice", "{message}");
                assert!(word(&message["source"]["summary"]).chars().count() <= 120, "{message}");
                found.push((word(&splice["data"]["target"]), word(&message["content"][0]["text"])));
            }
        }
    }
    found
}

fn all(log: &[Value]) -> Vec<&Value> {
    log.iter().collect()
}

/// What a notice says (P-77).
fn finished(id: &str, label: &str, status: &str) -> String {
    format!(
        "background job {id} (bash: {label}) finished [status: {status}]. Read its output with job_output."
    )
}

/// Waits for a process to be gone.
fn wait_gone(pid: &str) {
    let entry = Path::new("/proc").join(pid.trim());
    let begun = Instant::now();
    while fs::read_to_string(entry.join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < PATIENCE, "process {pid} is still there");
        std::thread::yield_now();
    }
}

/// P-69, P-71, P-73, P-77: a job's end opens a turn of its own; its output is read once.
#[test]
fn row_24_the_end_of_a_job_wakes_an_idle_session() {
    let command = after("go", "echo x; exit 3");
    let site = Site::new().script([
        on("start", [job(&command)]),
        noticed("start", [output("bash-1"), output("bash-1"), tool("job_list", json!({}))]),
    ]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn("main", "start");
    assert_eq!(turn.result().went_well(), "started background job bash-1");
    let kinds: Vec<_> = turn
        .frames
        .iter()
        .filter(|frame| frame["name"] == "session/event")
        .map(|frame| word(&frame["body"]["type"]))
        .collect();
    let place = |kind: &str| kinds.iter().position(|known| known == kind);
    assert_eq!(
        place("job/registered").map(|place| place + 1),
        place("tool/result"),
        "P-78: {kinds:?}"
    );

    touch(&site, "go");
    let woken = host.rest("main");
    let events: Vec<_> = woken
        .frames
        .iter()
        .filter(|frame| frame["name"] == "session/event")
        .map(|frame| &frame["body"])
        .collect();
    let status = "completed, exit code: 3";
    assert_eq!(notices(&events), [("next-turn".to_owned(), finished("bash-1", &command, status))]);
    let order: Vec<_> = woken
        .frames
        .iter()
        .filter_map(|frame| match frame["body"]["type"].as_str() {
            Some(kind @ ("job/settled" | "turn/start")) => Some(kind.to_owned()),
            Some("agent/inbox/spliced") if frame["body"]["data"]["inserted"][0].is_object() => {
                Some("notice".to_owned())
            }
            _ if frame["name"] == "session/jobs" => Some("session/jobs".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(order[..4], ["job/settled", "session/jobs", "notice", "turn/start"], "{order:?}");
    let results = woken.results();
    assert_eq!(results[0].went_well(), format!("x\n[status: {status}]"));
    assert_eq!(results[1].went_well(), format!("(no new output)\n[status: {status}]"));
    assert_eq!(results[2].went_well(), format!("bash-1 [bash] completed — {command}"));
    let settled = woken.events("job/settled");
    assert_eq!(settled[0]["data"]["cause"], "producer");
    assert_eq!(settled[0]["ignorable"], true);
    host.stop();
}

/// P-77: what ends during a turn enters at its next step, both in one, and the turn does not end before.
#[test]
fn row_25_ends_during_a_turn_enter_at_the_next_step() {
    let (one, other) = (after("a", "true"), after("b", "true"));
    let site = Site::new().script([
        on("start", [job(&one), job(&other)]),
        then("start", 2, [bash(&after("c", "true"))]),
        noticed("start", [json!({"text": "I was told: {{notice}}"})]),
    ]);
    let mut host = site.start();
    host.open("main");
    host.prompt("main", "start");
    host.until(|frame| is_event(frame, "main", "tool/call") && frame["body"]["data"]["step"] == 2);
    touch(&site, "a");
    touch(&site, "b");
    host.until(|frame| shows(frame, "bash-1", "completed") && shows(frame, "bash-2", "completed"));
    touch(&site, "c");
    host.rest("main");

    let log = host.log("main");
    let told = notices(&all(&log));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(target, _)| target == "next-step"), "{told:?}");
    let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("turn/start"), count("step/start"), count("turn/end")), (1, 3, 1));
    let third = log.iter().rposition(|event| event["type"] == "step/start").expect("three steps");
    let entered: Vec<_> = log[third..]
        .iter()
        .filter(|event| {
            event["type"] == "user/message" && event["data"]["source"]["plugin"] == "tool-jobs"
        })
        .collect();
    assert_eq!(entered.len(), 2, "both notices in one step");
    let last = log.iter().rfind(|event| event["type"] == "assistant/message").expect("an answer");
    let said = word(&last["data"]["message"]["content"][0]["text"]);
    assert!(said.contains("bash-1") && said.contains("bash-2"), "{said}");
    host.stop();
}

/// P-73, P-75, P-77: an end that was reported by a wait or a kill is not reported again.
#[test]
fn row_26_a_wait_or_a_kill_is_a_report() {
    let site = Site::new().script([
        on("wait", [job(&after("go", "echo x"))]),
        then("wait", 2, [tool("job_output", json!({"job_id": "bash-1", "wait": true}))]),
        on("kill", [job("echo up; touch up; exec sleep 1000"), bash(&after("up", "true"))]),
        then("kill", 2, [tool("job_kill", json!({"job_id": "bash-2"}))]),
        on(
            "look",
            [
                output("bash-2"),
                tool("job_kill", json!({"job_id": "bash-2"})),
                output("bash-9"),
                output(""),
            ],
        ),
    ]);
    let mut host = site.start();
    host.open("main");
    host.prompt("main", "wait");
    host.until(|frame| {
        is_event(frame, "main", "tool/call") && frame["body"]["data"]["name"] == "job_output"
    });
    touch(&site, "go");
    let turn = host.rest("main");
    assert_eq!(turn.result().went_well(), "x\n[status: completed, exit code: 0]");

    let turn = host.turn("main", "kill");
    assert_eq!(turn.results()[2].went_well(), "requested cancellation of job bash-2");
    let ended = |frame: &Value| shows(frame, "bash-2", "killed");
    if !turn.frames.iter().any(ended) {
        host.until(ended);
    }
    let results = host.turn("main", "look").results();
    assert_eq!(results[0].went_well(), "up\n[status: killed, signal: SIGTERM]");
    assert_eq!(
        results[1].went_well(),
        "job bash-2 had already finished [status: killed, signal: SIGTERM]"
    );
    results[2].failed("unknown job bash-9");
    results[3].failed("invalid job_id: expected a non-empty string, got \"\"");
    let log = host.log("main");
    assert_eq!(notices(&all(&log)), []);
    let causes: Vec<_> = log
        .iter()
        .filter(|event| event["type"] == "job/settled")
        .map(|event| word(&event["data"]["cause"]))
        .collect();
    assert_eq!(causes, ["producer", "kill"]);
    assert_eq!(
        log.iter().filter(|event| event["type"] == "turn/start").count(),
        3,
        "nothing woke it"
    );
    host.stop();
}

/// P-77: three wakes in a row, then a person has to speak.
#[test]
fn row_27_three_wakes_in_a_row_and_no_fourth() {
    let next = job(&after("go", "true"));
    let site = Site::new().script([noticed("chain", [next.clone()]), on("chain", [next])]);
    let mut host = site.start();
    host.open("main");
    host.turn("main", "chain");
    for number in 1..=3 {
        touch(&site, "go");
        let woken = host.rest("main");
        assert_eq!(woken.events("turn/start").len(), 1, "wake {number}");
        assert_eq!(
            woken.result().went_well(),
            format!("started background job bash-{}", number + 1)
        );
    }
    touch(&site, "go");
    let quiet = host.until(|frame| is_event(frame, "main", "agent/inbox/spliced"));
    assert_eq!(quiet.events("turn/start").len(), 0);
    let row = host.call("session/describe", "main", &json!({}));
    assert_eq!(row["running"], false, "{row}");
    assert_eq!(notices(&all(&host.log("main"))).len(), 4);

    // A person speaks: the notice enters with the prompt, and jobs wake again.
    let turn = host.turn("main", "chain");
    assert_eq!(turn.events("turn/start").len(), 1);
    assert_eq!(turn.result().went_well(), "started background job bash-5");
    touch(&site, "go");
    let woken = host.rest("main");
    assert_eq!(woken.events("turn/start").len(), 1);
    assert_eq!(woken.result().went_well(), "started background job bash-6");
    host.stop();
}

/// P-67, P-68: ten at a time, and each session knows its own.
#[test]
fn row_28_the_eleventh_job_is_refused_and_strangers_know_nothing() {
    let mut calls: Vec<_> = (0..10).map(|_| job("exec sleep 1000")).collect();
    calls.push(job("touch eleventh"));
    let all_tools = [
        output("bash-1"),
        tool("job_kill", json!({"job_id": "bash-1"})),
        tool("job_list", json!({})),
    ];
    let site = Site::new().script([
        on("many", calls),
        on("look", all_tools),
        on("room", [tool("job_kill", json!({"job_id": "bash-3"}))]),
        on("one", [job("touch eleventh")]),
    ]);
    let mut host = site.start();
    host.open("main");
    let results = host.turn("main", "many").results();
    for (number, result) in results[..10].iter().enumerate() {
        assert_eq!(result.went_well(), format!("started background job bash-{}", number + 1));
    }
    results[10].failed(
        "background job limit reached for this owner (limit: 10); use job_kill to stop an unneeded job, wait for it to \
         finish, then retry",
    );
    host.open("other");
    let results = host.turn("other", "look").results();
    results[0].failed("unknown job bash-1");
    results[1].failed("unknown job bash-1");
    assert_eq!(results[2].went_well(), "(no background jobs)");
    assert!(!site.cwd.join("eleventh").exists(), "nothing was started");

    // The limit is the session's, and what ends makes room. The refused start took no id.
    let turn = host.turn("main", "room");
    let ended = |frame: &Value| shows(frame, "bash-3", "killed");
    if !turn.frames.iter().any(ended) {
        host.until(ended);
    }
    assert_eq!(host.turn("main", "one").result().went_well(), "started background job bash-11");
    assert_eq!(host.turn("other", "one").result().went_well(), "started background job bash-1");
    host.stop();
}

/// P-69, P-78: a cancelled turn leaves jobs alone; the end of a session ends them with all that they began.
#[test]
fn row_29_jobs_end_with_their_session_and_not_with_a_turn() {
    // Deaf to requests, and the grandchild in a session of its own.
    let tree = "trap '' TERM; setsid bash -c 'echo $$ > grandchild; exec sleep 1000' & echo $$ > child; wait";
    let site = Site::new().script([
        on("start", [job(&after("go", "true")), bash("exec sleep 1000")]),
        noticed("start", [json!({"text": "I was told"})]),
        on("tree", [job(tree), bash("until [ -s child ] && [ -s grandchild ]; do sleep 0.01; done; cat child grandchild")]),
    ]);
    let mut host = site.start();
    host.open("main");
    host.prompt("main", "start");
    host.until(|frame| {
        is_event(frame, "main", "tool/call")
            && word(&frame["body"]["data"]["arguments"]).contains("sleep 1000")
    });
    host.send("session/cancel", Some("main"), &json!({"inbox": "keep"}));
    let turn = host.rest("main");
    assert_eq!(turn.events("turn/end")[0]["data"]["reason"]["kind"], "aborted");
    assert_eq!(turn.events("job/settled").len(), 0, "the job goes on");
    touch(&site, "go");
    let woken = host.rest("main");
    assert_eq!(woken.events("turn/start").len(), 1);
    assert_eq!(woken.events("job/settled").len(), 1);

    let results = host.turn("main", "tree").results();
    let pids: Vec<_> = results[1].went_well().split_whitespace().map(str::to_owned).collect();
    assert_eq!(pids.len(), 2, "{results:?}");
    let id = host.send("session/close", Some("main"), &json!({}));
    let closing = host.until(|frame| frame["id"] == *id);
    for pid in &pids {
        wait_gone(pid);
    }
    let jobs = closing.named("session/jobs");
    assert_eq!(
        jobs.last().map(|frame| &frame["body"]["jobs"]),
        Some(&json!([])),
        "{:#?}",
        closing.frames
    );
    let events: Vec<_> = closing
        .frames
        .iter()
        .filter(|frame| frame["name"] == "session/event")
        .map(|frame| &frame["body"])
        .collect();
    assert_eq!(notices(&events), []);
    let settled = closing.events("job/settled");
    assert_eq!(settled.len(), 1, "{:#?}", closing.frames);
    assert_eq!(settled[0]["data"]["cause"], "teardown");
    host.stop();
}

/// P-66, P-78, P-79: what a killed host lost is said in the log, and nothing of it goes on living.
#[test]
fn row_30_a_killed_host_loses_its_jobs_and_says_so() {
    let started = "(setsid sleep 1000 & echo $! > grandchild; wait) & echo $$ > child; wait";
    let site = Site::new().script([
        on("start", [job(started), bash("until [ -s child ] && [ -s grandchild ]; do sleep 0.01; done; cat child grandchild")]),
        on("look", [output("bash-1"), job("true")]),
    ]);
    let mut host = site.start();
    host.open("main");
    let results = host.turn("main", "start").results();
    let pids: Vec<_> = results[1].went_well().split_whitespace().map(str::to_owned).collect();
    let before = host.log("main").len();
    host.peer.wire.kill();

    let mut host = site.start();
    let opened = host.open_with("main", "stored", &json!({"owner": "connection"}));
    assert_eq!(opened["created"], false, "{opened}");
    for pid in &pids {
        wait_gone(pid);
    }
    let log = host.log("main");
    let settled: Vec<_> = log.iter().filter(|event| event["type"] == "job/settled").collect();
    assert_eq!(settled.len(), 1, "{:#?}", &log[before..]);
    let data = &settled[0]["data"];
    assert_eq!(
        (&data["jobId"], &data["status"], &data["cause"]),
        (&"bash-1".into(), &"failed".into(), &"lost".into())
    );
    assert!(word(&data["detail"]).starts_with("lost: "), "{data}");
    let told = notices(&all(&log));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].1.contains("bash-1")
            && told[0].1.contains("lost: the host stopped before it ended"),
        "{told:?}"
    );
    let row = host.call("session/describe", "main", &json!({}));
    assert_eq!(row["running"], false, "no turn by itself: {row}");

    let turn = host.turn("main", "look");
    assert_eq!(turn.events("turn/start").len(), 1);
    let results = turn.results();
    assert!(
        results[0].went_well().contains("[status: failed, lost: the host stopped before it ended]"),
        "{results:?}"
    );
    assert_eq!(results[1].went_well(), "started background job bash-2");
    host.stop();
}
