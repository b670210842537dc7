//! Jobs as their owner learns of them (P-77, P-78).

use super::*;
use crate::{
    jobs::{JobCause, JobChange, JobKind, JobStatus},
    ports::StartedJob,
};

fn started(id: &str) -> ToolOutcome {
    let job = StartedJob {
        id: id.to_owned(),
        kind: JobKind::Bash,
        label: "make".to_owned(),
        started_at: 5,
    };
    ToolOutcome { job: Some(job), ..ToolOutcome::text(format!("started background job {id}")) }
}

fn ended(id: &str, reported: bool) -> Happened {
    Happened::Job(JobChange::Ended {
        id: id.to_owned(),
        status: JobStatus::Completed,
        detail: Some("exit code: 3".to_owned()),
        finished_at: 9,
        cause: JobCause::Producer,
        reported,
    })
}

/// An idle agent with jobs of these ids.
fn with_jobs(ids: &[&str]) -> Play {
    let mut play = Play::new();
    play.prompt("go").assemble();
    for (index, id) in (0..).zip(ids) {
        play.call(index, id, "bash");
    }
    play.finish(Finish::ToolCalls).plan(&vec![false; ids.len()]);
    for id in ids {
        play.tool(id, started(id));
    }
    play.assemble().answer("started");
    play.told();
    play
}

#[test]
fn a_start_is_logged_right_before_its_result() {
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "c", "bash").finish(Finish::ToolCalls).plan(&[false]);
    play.told();
    play.tool("c", started("bash-1"));
    let told = play.told();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].ends_with("job/registered bash-1"), "{told}");
    assert_eq!(lines[1], "jobs");
    assert!(lines[2].contains("tool/result"), "{told}");
    let event = play.events.iter().find(|event| event["type"] == "job/registered").unwrap();
    assert_eq!(event["ignorable"], true);
    assert_eq!(event["data"]["toolCall"]["callId"], "c");
}

#[test]
fn an_end_that_comes_before_the_start_is_logged_waits_for_it() {
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "c", "bash").finish(Finish::ToolCalls).plan(&[false]);
    play.told();
    play.happen(ended("bash-1", false));
    assert_eq!(play.told(), "");
    play.tool("c", started("bash-1"));
    let told = play.told();
    let at = |what: &str| told.find(what).unwrap_or_else(|| panic!("{what} in {told}"));
    assert!(at("job/registered") < at("tool/result") && at("tool/result") < at("job/settled"));
    assert!(at("job/settled") < at("next-step"), "then the notice (P-77)");
}

#[test]
fn an_end_wakes_an_idle_owner_three_times_in_a_row() {
    // Row 27.
    let ids = ["bash-1", "bash-2", "bash-3", "bash-4"];
    let mut play = with_jobs(&ids);
    for id in &ids[..3] {
        play.happen(ended(id, false));
        let told = play.told();
        assert!(told.contains("next-turn -null +1"), "{told}");
        assert!(told.contains("turn/start"), "{told}");
        play.assemble().answer("noted");
        play.told();
    }
    play.happen(ended(ids[3], false));
    let told = play.told();
    assert!(told.contains("next-step -null +1") && !told.contains("turn/start"), "{told}");

    play.prompt("and now?").assemble().answer("all done");
    play.told();
    let mut play = again(play);
    play.happen(ended("bash-5", false));
    assert!(play.told().contains("turn/start"), "a person's word refills the three");
}

/// The same agent with one more job.
fn again(mut play: Play) -> Play {
    play.happen(Happened::Timer(Token(u64::MAX)));
    play.prompt("once more")
        .assemble()
        .call(0, "x", "bash")
        .finish(Finish::ToolCalls)
        .plan(&[false]);
    play.tool("x", started("bash-5")).assemble().answer("started");
    play.told();
    play
}

#[test]
fn two_ends_in_one_step_cost_one_step_more() {
    // Row 25.
    let mut play = with_jobs(&["bash-1", "bash-2"]);
    play.prompt("wait").assemble().text("...");
    play.told();
    play.happen(ended("bash-1", false)).happen(ended("bash-2", false));
    assert_eq!(play.told().matches("next-step -null +1").count(), 2);
    play.finish(Finish::Stop);
    play.assemble();
    let told = play.told();
    assert_eq!(told.matches("user/message \"background job").count(), 2, "{told}");
    assert_eq!(told.matches("step/start").count(), 1, "{told}");
    assert!(!told.contains("turn/end"), "the turn does not end without it (L-32): {told}");
}

#[test]
fn what_was_reported_is_not_told_again() {
    // Row 26.
    let mut play = with_jobs(&["bash-1"]);
    play.happen(ended("bash-1", true));
    let told = play.told();
    assert!(told.contains("job/settled bash-1 \"completed\" \"producer\""), "{told}");
    assert!(!told.contains("spliced"), "{told}");
    play.happen(ended("bash-1", false));
    assert_eq!(play.told(), "", "the first end wins (P-64)");
}

#[test]
fn quiet_delivery_never_wakes() {
    let mut play = with_jobs(&["bash-1"]);
    play.agent.config = Arc::new(AgentConfig { quiet_jobs: true, ..AgentConfig::default() });
    play.happen(ended("bash-1", false));
    assert!(play.told().contains("next-step -null +1"));
}

#[test]
fn a_session_that_goes_away_waits_for_its_jobs_and_sends_no_notice() {
    // Row 29, P-78.
    let mut play = with_jobs(&["bash-1", "bash-2"]);
    play.dispose();
    assert!(!play.disposed, "two jobs still run");
    play.happen(ended("bash-1", false));
    assert!(!play.disposed);
    play.ring();
    assert!(play.disposed, "the time is over");
    let told = play.told();
    assert!(told.contains("job/settled bash-1 \"completed\""), "{told}");
    assert!(told.contains("job/settled bash-2 \"killed\" \"teardown\""), "{told}");
    assert!(!told.contains("spliced"), "{told}");
}

#[test]
fn a_cancelled_turn_touches_no_job_and_a_later_end_wakes() {
    // Row 29.
    let mut play = with_jobs(&["bash-1"]);
    play.prompt("wait").assemble().text("...");
    play.cancel(InboxFate::Clear);
    play.told();
    play.happen(ended("bash-1", false));
    assert!(play.told().contains("turn/start"));
}

#[test]
fn nothing_follows_in_a_log_that_cannot_be_written() {
    // Decision 1g.
    let mut play = with_jobs(&["bash-1"]);
    play.happen(Happened::StoreFailed("disk full".to_owned()));
    play.told();
    play.happen(ended("bash-1", false));
    assert_eq!(play.told(), "");
}
