//! Cancelling and disposing at every point of a turn (L-47 to L-52).

use super::*;

fn end(reason: &str) -> String {
    format!("{{\"kind\":\"aborted\",\"reason\":{{\"kind\":\"{reason}\"}}}}")
}

#[test]
fn a_cancel_right_behind_the_prompt_leaves_no_step() {
    // Row 27.
    let mut play = Play::new();
    play.prompt("hi").cancel(InboxFate::Clear);
    let told = play.told();
    assert!(told.ends_with(&format!("3 turn/end 1 {}\nidle", end("user"))), "{told}");
    play.assemble();
    assert_eq!(play.told(), "", "the assembly comes late");
}

#[test]
fn a_cancel_while_the_model_speaks_commits_nothing() {
    // Row 26, L-48.
    let mut play = Play::new();
    play.prompt("hi").prompt("queued").assemble().text("half");
    play.told();
    play.cancel(InboxFate::Clear);
    let expected = format!(
        "11 agent/inbox/spliced next-turn -1 +0 canceled\ndiscarded 1\n12 step/end 1.1\n13 turn/end 1 {}\nidle",
        end("user")
    );
    assert_eq!(play.told(), expected);
    assert_eq!(play.stopped.len(), 1);
    play.finish(Finish::Stop);
    assert_eq!(play.told(), "", "what the stopped attempt still says is nobody's");
}

#[test]
fn a_cancel_may_keep_what_waits() {
    let mut play = Play::new();
    play.prompt("hi").prompt("queued").assemble().text("half").cancel(InboxFate::Keep);
    let told = play.told();
    assert!(!told.contains("canceled"), "{told}");
    assert!(told.ends_with("idle"), "{told}");
}

#[test]
fn calls_that_did_not_start_have_results_all_the_same() {
    // Row 25.
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "a", "t").call(1, "b", "t").call(2, "c", "t");
    play.finish(Finish::ToolCalls).plan(&[false, false, false]);
    play.told();
    play.cancel(InboxFate::Clear);
    assert_eq!(play.told(), "", "the running call is waited for");
    assert_eq!(play.timers.last().unwrap().1, 10_000);
    play.tool("a", ToolOutcome::text("too late"));
    let expected = format!(
        "\
14 tool/result \"a\" \"Error: tool call aborted\" \"ABORTED\"
15 tool/call \"b\"
16 tool/result \"b\" \"Error: tool call aborted before dispatch\" \"ABORTED_BEFORE_DISPATCH\"
17 tool/call \"c\"
18 tool/result \"c\" \"Error: tool call aborted before dispatch\" \"ABORTED_BEFORE_DISPATCH\"
19 step/end 1.1
20 turn/end 1 {}
idle",
        end("user")
    );
    assert_eq!(play.told(), expected);
}

#[test]
fn a_failure_keeps_its_own_words() {
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "a", "t").finish(Finish::ToolCalls).plan(&[false]);
    play.cancel(InboxFate::Clear).tool("a", ToolOutcome::error("disk full", None));
    assert!(play.told().contains("\"Error: disk full\" null"));
}

#[test]
fn a_tool_that_ignores_its_signal_is_given_up() {
    // L-52.
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "a", "t").finish(Finish::ToolCalls).plan(&[false]);
    play.cancel(InboxFate::Clear);
    play.told();
    play.ring();
    let told = play.told();
    assert!(told.contains("\"Error: tool call aborted\" \"ABORTED\""), "{told}");
    assert!(told.ends_with("idle"), "{told}");
}

#[test]
fn input_sent_while_an_abort_converges_runs_afterwards() {
    // Row 28, L-50: even a steer becomes a turn of its own.
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "a", "t").finish(Finish::ToolCalls).plan(&[false]);
    play.cancel(InboxFate::Clear);
    play.send("next", Delivery::Steer).unwrap();
    play.told();
    play.tool("a", ToolOutcome::text("x"));
    let told = play.told();
    assert!(told.contains("idle\nrunning\n"), "{told}");
    assert!(told.contains("turn/start 2"), "{told}");
}

#[test]
fn the_first_cause_wins() {
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "a", "t").finish(Finish::ToolCalls).plan(&[false]);
    play.cancel(InboxFate::Clear).dispose().tool("a", ToolOutcome::text("x"));
    assert!(play.told().contains(&end("user")));
    assert!(play.disposed);
}

#[test]
fn disposal_ends_the_turn_and_takes_nothing_more() {
    // L-51, S-129.
    let mut play = Play::new();
    play.prompt("hi").assemble().text("half").dispose();
    assert!(play.told().contains(&end("disposed")));
    assert!(play.disposed);
    let refused = play.send("more", Delivery::Followup).unwrap_err();
    assert_eq!(refused, "session \"main\" is being disposed");
}

#[test]
fn an_idle_agent_is_cancelled_without_a_word() {
    // S-108.
    let mut play = Play::new();
    play.cancel(InboxFate::Clear);
    assert_eq!(play.told(), "");
}

#[test]
fn a_wait_between_attempts_is_cut_short() {
    // L-42: the first without the second.
    let mut play = Play::new();
    play.prompt("hi").assemble().fail("SERVER").cancel(InboxFate::Clear);
    let told = play.told();
    assert!(told.contains("llm/retry 1"), "{told}");
    assert!(told.contains(&end("user")), "{told}");
    play.ring();
    assert_eq!(play.told(), "");
}

#[test]
fn a_log_that_cannot_be_written_ends_the_agent() {
    // Decision 1g.
    let mut play = Play::new();
    play.prompt("hi").assemble().text("half");
    play.told();
    play.happen(Happened::StoreFailed("disk full".to_owned()));
    assert_eq!(play.told(), "error UNKNOWN\nidle");
    assert_eq!(play.send("more", Delivery::Followup).unwrap_err(), "disk full");
    play.dispose();
    assert!(play.disposed);
}
