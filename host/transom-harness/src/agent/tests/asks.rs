//! What is asked of people about calls, and what their word comes to (L-60 to L-62, P-14 to P-19).

use super::*;
use crate::{
    agent::Permissions,
    permissions::{Access, ApprovalPolicy, Mode, Outcome, presets::Defaults},
    ports::Wanted,
};

fn asking(policy: ApprovalPolicy) -> AgentConfig {
    let defaults =
        Defaults { mode: Mode::WorkspaceWrite, policy, ..Permissions::default().defaults };
    let permissions = Permissions { defaults, approvals: true, ..Permissions::default() };
    AgentConfig { permissions, ..AgentConfig::default() }
}

fn wanted(begun: bool) -> Judgement {
    Judgement::Ask(Box::new(Wanted {
        reason: Some("because".to_owned()),
        granted: Access { mode: Mode::DangerFullAccess, ..Access::FULL },
        rejected: ToolOutcome::error("rejected", None),
        cancelled: ToolOutcome::error("cancelled", None),
        unavailable: ToolOutcome::error("unavailable", None),
        begun,
    }))
}

/// An agent whose model has called `calls` tools, the first of which is to be judged.
fn called(config: AgentConfig, calls: u32) -> Play {
    let mut play = Play::with(config);
    play.strict = true;
    play.prompt("go").assemble();
    for index in 0..calls {
        play.call(index, &format!("c{index}"), "t");
    }
    play.finish(Finish::ToolCalls).plan(&vec![false; calls as usize]);
    play.told();
    play
}

fn decide(play: &mut Play, outcome: Outcome) {
    let approval = play.asks.last().unwrap().id.clone();
    play.happen(Happened::Decided { approval, outcome });
}

#[test]
fn each_word_has_its_result_and_one_pair_of_events() {
    // Row 29 of agent-loop, row 7 of permissions-and-jobs.
    for (outcome, word, result) in [
        (Outcome::Rejected, "rejected", "Error: rejected"),
        (Outcome::Cancelled, "cancelled", "Error: cancelled"),
        (Outcome::Unavailable, "unavailable", "Error: unavailable"),
    ] {
        let mut play = called(asking(ApprovalPolicy::Ask), 1);
        play.judge(wanted(false));
        assert!(play.tools.is_empty(), "nothing runs while somebody decides");
        assert_eq!(play.asks[0].arguments, "{}");
        decide(&mut play, outcome);
        let told = play.told();
        assert!(told.contains("approval/asked because"), "{told}");
        assert_eq!(told.matches(&format!("approval/decided {word}")).count(), 1, "{told}");
        assert!(told.contains(&format!("tool/result \"c0\" \"{result}\"")), "{told}");
        assert!(play.tools.is_empty());
    }
}

#[test]
fn a_grant_is_for_this_call_alone() {
    // P-15, P-20, row 6.
    let mut play = called(asking(ApprovalPolicy::Ask), 2);
    assert_eq!(play.judging[0].1.access.mode, Mode::WorkspaceWrite);
    play.judge(wanted(true));
    decide(&mut play, Outcome::AllowedOnce);
    assert_eq!(play.tools[0].1.access.mode, Mode::DangerFullAccess);
    play.tool("c0", ToolOutcome::text("done"));
    assert_eq!(play.judging[0].1.access.mode, Mode::WorkspaceWrite, "the next call is as before");
}

#[test]
fn under_never_nobody_is_consulted_and_the_log_says_so() {
    // L-61, row 30.
    let mut play = called(asking(ApprovalPolicy::Never), 1);
    play.judge(wanted(false));
    assert!(play.asks.is_empty());
    let told = play.told();
    assert!(told.contains("approval/asked because"), "{told}");
    assert!(told.contains("approval/decided rejected"), "{told}");
    assert!(told.contains("\"Error: rejected\""), "{told}");
}

#[test]
fn a_cancel_while_somebody_decides_wins_and_the_late_word_is_dropped() {
    // P-14, L-62, P-19.
    for (begun, text) in [(false, "ABORTED_BEFORE_DISPATCH"), (true, "Error: cancelled")] {
        let mut play = called(asking(ApprovalPolicy::Ask), 2);
        play.judge(wanted(begun));
        play.cancel(InboxFate::Clear);
        let told = play.told();
        assert!(told.contains("approval/decided cancelled"), "{told}");
        assert!(
            told.lines().any(|line| line.contains("tool/result \"c0\"") && line.contains(text))
        );
        assert!(told.contains("tool/result \"c1\" \"Error: tool call aborted before dispatch\""));
        assert!(told.ends_with("idle"), "{told}");
        decide(&mut play, Outcome::AllowedOnce);
        assert_eq!(play.told(), "", "nothing follows");
        assert!(play.tools.is_empty());
    }
}

#[test]
fn a_cancel_while_a_call_is_judged_ends_it_undispatched() {
    let mut play = called(asking(ApprovalPolicy::Ask), 1);
    play.cancel(InboxFate::Clear);
    assert!(play.told().contains("ABORTED_BEFORE_DISPATCH"));
    play.judge(wanted(false));
    assert_eq!(play.told(), "");
}

#[test]
fn a_parallel_call_is_judged_once_the_one_before_it_is_decided() {
    // L-57: policies in order, only bodies overlap.
    let mut play = Play::with(asking(ApprovalPolicy::Ask));
    play.strict = true;
    play.prompt("go").assemble().call(0, "c0", "t").call(1, "c1", "t");
    play.finish(Finish::ToolCalls).plan(&[true, true]);
    assert_eq!(play.judging.len(), 1);
    play.judge(wanted(false));
    assert!(play.judging.is_empty(), "the second waits for the first one's word");
    decide(&mut play, Outcome::AllowedOnce);
    assert_eq!(play.judging.len(), 1);
    play.judge(Judgement::Run);
    assert_eq!(play.tools.len(), 2, "and then both run");
}

#[test]
fn a_refusal_is_the_result_and_the_turn_goes_on() {
    let mut play = called(asking(ApprovalPolicy::Ask), 1);
    play.judge(Judgement::Refuse(ToolOutcome::error("no such thing", None)));
    let told = play.told();
    assert!(told.contains("\"Error: no such thing\""), "{told}");
    assert!(!told.contains("approval/"), "{told}");
    assert_eq!(play.assembling.len(), 1);
}

#[test]
fn a_call_runs_with_what_it_was_judged_with() {
    // P-3, P-11: a switch counts from the next call on.
    let mut play = called(asking(ApprovalPolicy::Ask), 2);
    play.act(|agent, out, now| agent.switch(out, now, "danger-full-access")).unwrap();
    play.judge(Judgement::Run);
    assert_eq!(play.tools[0].1.access.mode, Mode::WorkspaceWrite);
    play.tool("c0", ToolOutcome::text("done"));
    assert_eq!(play.judging[0].1.access.mode, Mode::DangerFullAccess);
}
