//! Jobs and asks that a crash has left open (P-14, P-78, row 30).

use super::*;
use crate::{event::Target, jobs::JobStatus};

fn event(seq: usize, kind: &str, data: &str) -> Arc<str> {
    let ignorable = if kind.starts_with("job/") { r#","ignorable":true"# } else { "" };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":5,"data":{data}{ignorable}}}"#).into()
}

pub(super) fn log(events: &[(&str, String)]) -> Vec<Arc<str>> {
    events.iter().enumerate().map(|(seq, (kind, data))| event(seq, kind, data)).collect()
}

fn registered(id: &str) -> (&'static str, String) {
    let data = json!({
        "jobId": id, "kind": "bash", "label": "make check", "startedAt": 3,
        "toolCall": { "callId": "c" },
    });
    ("job/registered", data.to_string())
}

fn settled(id: &str) -> (&'static str, String) {
    let data = json!({
        "jobId": id, "status": "completed", "detail": "exit code: 0", "finishedAt": 4,
        "cause": "producer",
    });
    ("job/settled", data.to_string())
}

#[test]
fn jobs_that_ran_are_lost_each_with_one_notice_that_wakes_nobody() {
    let events = log(&[
        registered("bash-1"),
        registered("bash-2"),
        settled("bash-1"),
        registered("subagent-1"),
    ]);
    let restored = restore(header(), &events, 99).unwrap();
    let splice = "agent/inbox/spliced";
    let expected = ["job/settled", splice, "job/settled", splice, "session/end-seed"];
    assert_eq!(kinds(&restored.closers), expected);
    let first = parsed(&restored.closers[0].text);
    let lost = json!({
        "jobId": "bash-2",
        "status": "failed",
        "detail": "lost: the host stopped before it ended",
        "finishedAt": 99,
        "cause": "lost",
    });
    assert_eq!(first["data"], lost);
    assert_eq!((&first["seq"], &first["ignorable"]), (&json!(4), &json!(true)));
    let notice = parsed(&restored.closers[1].text)["data"].clone();
    assert_eq!((&notice["target"], &notice["start"]), (&json!("next-step"), &json!(0)));
    let message = &notice["inserted"][0];
    let status = "[status: failed, lost: the host stopped before it ended]";
    let text = format!(
        "background job bash-2 (bash: make check) finished {status}. Read its output with job_output."
    );
    assert_eq!(message["content"][0]["text"], text, "P-77");
    assert_eq!(message["source"]["plugin"], "tool-jobs");
    assert_eq!(parsed(&restored.closers[3].text)["data"]["start"], 1);
    assert_eq!(restored.inbox.list(Target::NextStep).len(), 2);
    assert!(restored.inbox.list(Target::NextTurn).is_empty());
    let states: Vec<_> =
        restored.log.jobs().iter().map(|job| (job.id.as_str(), job.status)).collect();
    let expected = [
        ("bash-1", JobStatus::Completed),
        ("bash-2", JobStatus::Failed),
        ("subagent-1", JobStatus::Failed),
    ];
    assert_eq!(states, expected, "ids go on from here (P-66)");
}

#[test]
fn jobs_are_lost_once() {
    let events = log(&[registered("bash-1")]);
    let restored = restore(header(), &events, 99).unwrap();
    let closers = restored.closers.iter().map(|event| Arc::clone(&event.text));
    let closed: Vec<_> = events.into_iter().chain(closers).collect();
    let again = restore(header(), &closed, 100).unwrap();
    assert!(again.closers.is_empty(), "{:?}", kinds(&again.closers));
    assert_eq!(again.inbox.len(), 1);
}

#[test]
fn lost_jobs_stand_behind_the_end_of_the_turn_that_started_them() {
    let turn = ("turn/start", r#"{"turn":1}"#.to_owned());
    let restored = restore(header(), &log(&[turn, registered("bash-1")]), 99).unwrap();
    let expected = ["turn/end", "job/settled", "agent/inbox/spliced", "session/end-seed"];
    assert_eq!(kinds(&restored.closers), expected);
}

#[test]
fn a_notice_of_a_lost_job_enters_with_the_next_turn() {
    let events = log(&[registered("bash-1")]);
    let config = Arc::new(AgentConfig::default());
    let (mut agent, _) =
        Agent::restore(header(), &events, Route::default(), config, Chance::new([3; 32]), 9)
            .unwrap();
    assert_eq!(agent.status(), crate::agent::Status::Idle, "nothing wakes by itself (L-27)");
    let said: Vec<_> = prompt(&mut agent, "what now?")
        .iter()
        .map(|text| parsed(text))
        .filter(|event| event["type"] == "user/message")
        .map(|event| event["data"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert!(said[0].starts_with("background job bash-1"), "{said:?}");
    assert_eq!(said[1], "what now?");
}

#[test]
fn so_many_ended_jobs_are_remembered() {
    // P-68.
    let events: Vec<_> = (1..=150)
        .flat_map(|n| {
            let id = format!("bash-{n}");
            [registered(&id), settled(&id)]
        })
        .chain([registered("bash-151")])
        .collect();
    let restored = restore(header(), &log(&events), 9).unwrap();
    let jobs = restored.log.jobs();
    assert_eq!(jobs.len(), 101);
    assert_eq!((jobs[0].id.as_str(), jobs[100].id.as_str()), ("bash-51", "bash-151"));
}

#[test]
fn an_ask_that_was_open_at_a_crash_is_closed_before_its_call() {
    // P-14: exactly one decision per ask, in the same turn.
    let call = r#"{"type":"tool-call","id":"c","name":"bash","arguments":"{}"}"#;
    let message = format!(
        r#"{{"role":"assistant","content":[{call}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"a"}}"#
    );
    let answer = format!(r#"{{"turn":1,"step":1,"message":{message}}}"#);
    let asked = |id: &str| {
        ("approval/asked", json!({ "id": id, "toolName": "bash", "callId": "c" }).to_string())
    };
    let decided = json!({ "id": "x", "outcome": "rejected" }).to_string();
    let mut events = log(&[
        ("turn/start", r#"{"turn":1}"#.to_owned()),
        ("step/start", r#"{"turn":1,"step":1}"#.to_owned()),
        ("assistant/message", answer),
        (
            "tool/call",
            json!({ "turn": 1, "step": 1, "callId": "c", "name": "bash", "arguments": "{}" })
                .to_string(),
        ),
        asked("x"),
        ("approval/decided", decided),
        asked("y"),
    ]);
    events[2] = events[2].replace(r#""time":5,"#, r#""time":5,"surfaceOp":"append","#).into();
    let restored = restore(header(), &events, 9).unwrap();
    let expected = [
        "approval/decided",
        "tool/result TOOL_OUTCOME_UNKNOWN",
        "step/end",
        "turn/end",
        "session/end-seed",
    ];
    assert_eq!(kinds(&restored.closers), expected);
    let data = parsed(&restored.closers[0].text)["data"].clone();
    assert_eq!(data, json!({ "id": "y", "outcome": "cancelled" }));
}
