//! When a child that lives on has come to rest, what its parent is told of it, and who makes room then (P-80).

use super::*;

#[test]
fn p80_a_running_parent_is_told_within_its_turn() {
    let (mut house, child) = House::keeping();
    house.says(&child, "done");
    let (target, message) = house.spliced("main").pop().unwrap();
    assert_eq!(
        (target.as_str(), &message["source"]["kind"]),
        ("next-step", &json!("subagent-settled"))
    );
    house.says("main", "well");
    assert!(!house.told().contains("idle main"), "the turn goes on with the notice (L-32)");
}

#[test]
fn p80_a_parent_that_goes_away_finds_the_notice_when_it_comes_back() {
    let (mut house, child) = House::keeping();
    house.ask(1, "session/close", Some("main"), json!({}));
    for _ in 0..3 {
        house.commit();
    }
    let told = house.told();
    let removed = format!("1 session/removed {child}");
    in_order(&told, &[&removed, "1 session/removed main", "1 reply session/close"]);
    let (target, message) = house.spliced("main").pop().unwrap();
    assert_eq!(target, "next-step");
    assert_eq!(message["content"][0]["text"], format!("subagent {child} was stopped."));
    house.keep_stored();
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
    house.commit();
    assert!(!house.told().contains("running"), "it wakes nobody (L-27)");
    house.prompt("main", "go on");
    house.commit();
    let claimed = house.frames.iter().rev().find(|(_, frame)| &*frame.name == "inbox/claimed");
    let body: Value = serde_json::from_str(&claimed.unwrap().1.body).unwrap();
    assert_eq!(body["messageIds"].as_array().unwrap().len(), 1);
    let messages = house
        .kinds("main")
        .iter()
        .rev()
        .take_while(|kind| *kind != "turn/start")
        .filter(|kind| *kind == "user/message")
        .count();
    assert_eq!(messages, 2, "the notice enters with the prompt");
}

#[test]
fn p80_a_child_rests_once_its_own_children_do() {
    let (mut house, child) = House::keeping();
    let at = house.calls.iter().position(|(of, _)| of.as_str() == child).unwrap();
    let call = house.calls.remove(at);
    house.calls.push(call);
    house.call(&[("c2", "subagent")]);
    house.commit();
    let grandchild = house.keep(8, &child);
    house.tool_of(&child, ToolOutcome::text("started"));
    house.commit();
    house.says(&child, "I have handed it on");
    assert_eq!(house.spliced("main").len(), 1, "its prompt only");
    house.says(&grandchild, "found");
    house.says(&child, "all done");
    let (_, message) = house.spliced("main").pop().unwrap();
    assert_eq!(message["content"][2]["text"], "all done");

    // L-72: only the exact parent writes; every ancestor may interrupt.
    assert_eq!(house.write("main", &grandchild), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(house.write(&child, &grandchild), Some(Ok(Obeyed::Done)));
    house.commit();
    assert_eq!(house.interrupt("main", &grandchild), Some(Ok(Obeyed::Done)));
    assert_eq!(house.interrupt(&grandchild, &child), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(house.interrupt("main", "main"), Some(Err(ChildCode::Unauthorized)));
}

#[test]
fn p80_a_child_is_awaited_only_as_long_as_its_jobs_will_wake_it() {
    let (mut house, child) = House::keeping();
    let finished = format!("subagent {child} has finished.");
    for at in 0..4 {
        house.starts_job(&child, &format!("bash-{at}"));
    }
    house.says(&child, "they run");
    for at in 0..3 {
        assert_eq!(house.settled(), [""; 0], "the end of a job will wake it (P-77)");
        house.ends_job(&child, &format!("bash-{at}"));
        house.says(&child, "one has ended");
    }
    assert_eq!(house.settled(), [&*finished], "the fourth will not");
    house.ends_job(&child, "bash-3");
    assert_eq!(house.settled().len(), 1);

    let (mut house, child) =
        House::keeping_with(AgentConfig { quiet_jobs: true, ..AgentConfig::default() });
    house.starts_job(&child, "bash-1");
    house.says(&child, "it runs");
    assert_eq!(house.settled(), [format!("subagent {child} has finished.")]);
    house.ends_job(&child, "bash-1");
    assert_eq!(house.settled().len(), 1);
}

#[test]
fn p80_an_end_that_leaves_messages_waiting_is_told() {
    let (mut house, child) = House::keeping();
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    house.fails(&child);
    let waits = "and 1 message waits there until the next one is sent";
    assert_eq!(house.settled(), [format!("subagent {child} has failed, {waits}.")], "L-33");

    let hooks = HookPoints { pre_step: true, ..HookPoints::default() };
    let mut house = House::parent_with_hooks(AgentConfig { hooks, ..AgentConfig::default() });
    let child = house.keep(7, "main");
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.hooked(Verdict::Step(StepVerdict::Reject));
    house.commit();
    assert_eq!(house.settled(), [format!("subagent {child} has declined, {waits}.")]);
}

#[test]
fn p80_a_failure_is_told_although_others_still_work_for_the_child() {
    let (mut house, child) = House::keeping();
    house.starts_job(&child, "bash-1");
    let grandchild = house.keep(8, &child);
    house.fails(&child);
    let failed = format!("subagent {child} has failed.");
    assert_eq!(house.settled(), [&*failed]);
    house.says(&grandchild, "found");
    house.says(&child, "all done");
    assert_eq!(house.settled().len(), 1, "its job will wake it");
    house.ends_job(&child, "bash-1");
    house.says(&child, "all done");
    assert_eq!(house.settled(), [failed, format!("subagent {child} has finished.")]);
}

#[test]
fn a_child_that_makes_room_keeps_what_waits_for_it() {
    let config = AgentConfig { subagents_live_max: 1, ..AgentConfig::default() };
    let (mut house, first) = House::keeping_with(config);
    assert_eq!(house.write("main", &first), Some(Ok(Obeyed::Done)));
    house.commit();
    house.fails(&first);
    let second = house.keep(8, "main");
    house.commit();
    house.says(&second, "done");
    house.keep_stored();
    assert_eq!(house.write("main", &first), Some(Ok(Obeyed::Done)));
    house.commit();
    house.says(&first, "to what had waited");
    house.says(&first, "to what came last");
}

#[test]
fn a_child_that_rests_makes_room_and_one_that_works_does_not() {
    let config = AgentConfig { subagents_live_max: 1, ..AgentConfig::default() };
    let (mut house, first) = House::keeping_with(config);
    house.keep_as(8, "main", Nature { continuable: true, ..Nature::default() });
    let refused = house.outcome(8).unwrap();
    assert!(refused.starts_with("this session has its maximum of live subagents (1)"), "{refused}");
    house.says(&first, "done");
    let second = house.keep(9, "main");
    house.commit();
    house.keep_stored();
    assert!(house.told().contains(&format!("1 session/removed {first}")));
    // The one that works stays, so the other cannot come back.
    assert_eq!(house.write("main", &first), Some(Err(ChildCode::Overloaded)));
    house.says(&second, "done too");
    assert_eq!(house.write("main", &first), Some(Ok(Obeyed::Done)));
    house.commit();
    let listed = house.order("main", ChildOrder::List);
    let Some(Ok(Obeyed::Listed(children))) = listed else { panic!("{listed:?}") };
    let states: Vec<_> = children.iter().map(|child| child.state).collect();
    assert_eq!(states, [ChildState::Running, ChildState::Stored]);
}

/// `main` waits for a child on one task, which has handed it on to a child that lives on and said so. Gives the two.
fn handed_on() -> (House, String, String) {
    let mut house = House::parent(AgentConfig::default());
    house.delegate(7, "main");
    house.commit();
    let child = house.child(7);
    house.call(&[("c2", "subagent")]);
    house.commit();
    let grandchild = house.keep(8, &child);
    house.tool_of(&child, ToolOutcome::text("started"));
    house.commit();
    house.says(&child, "I have handed it on");
    (house, child, grandchild)
}

#[test]
fn l66_a_run_is_over_once_the_children_that_it_keeps_have_come_to_rest() {
    let (mut house, child, grandchild) = handed_on();
    assert_eq!(house.outcome(7), None);
    house.says(&grandchild, "found");
    let (_, message) = house.spliced(&child).pop().unwrap();
    assert_eq!(message["content"][2]["text"], "found", "as it was told it would");
    house.says(&child, "it was found");
    for _ in 0..3 {
        house.commit();
    }
    let Some((_, DelegationEvent::Ended { stop_reason, output, .. })) = house.delegated.pop()
    else {
        panic!("the run is not over")
    };
    assert_eq!((&*stop_reason, output), ("completed", vec![Block::text("it was found")]));
    assert_eq!(house.router.live_sessions(), 1, "L-72: what it has kept went with it");
}

#[test]
fn l70_a_run_that_waits_for_its_children_can_be_stopped() {
    let (mut house, _, grandchild) = handed_on();
    house.happen(Event::StopDelegation { run: RunId(7) });
    for _ in 0..3 {
        house.commit();
    }
    assert_eq!(house.outcome(7).as_deref(), Some("aborted"));
    assert!(house.told().contains(&format!("session/removed {grandchild}")));
}

#[test]
fn l66_a_run_is_over_when_the_last_child_that_it_keeps_is_closed() {
    let (mut house, child, grandchild) = handed_on();
    house.connect(2, facts(Reach::All));
    house.ask(2, "session/close", Some(&grandchild), json!({}));
    house.commit();
    house.says(&child, "it was stopped");
    for _ in 0..3 {
        house.commit();
    }
    assert_eq!(house.outcome(7).as_deref(), Some("completed"));
}

#[test]
fn l66_a_run_that_is_cut_while_it_waits_for_its_children_is_over_at_once() {
    let (mut house, child, grandchild) = handed_on();
    house.connect(2, facts(Reach::All));
    house.prompt_from(2, &child, "stop it");
    house.ask(2, "session/cancel", Some(&child), json!({ "inbox": "clear" }));
    for _ in 0..3 {
        house.commit();
    }
    assert_eq!(house.outcome(7).as_deref(), Some("aborted"));
    assert!(house.told().contains(&format!("session/removed {grandchild}")));

    let (mut house, child, _) = handed_on();
    house.connect(2, facts(Reach::All));
    house.ask(2, "session/close", Some(&child), json!({}));
    for _ in 0..3 {
        house.commit();
    }
    assert_eq!(house.outcome(7).as_deref(), Some("aborted"));
}
