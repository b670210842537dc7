//! Hooks are asked and told only of what is durable (L-74), and what becomes of cut answers is said at the opening
//! (decision 42).

use transom_harness::{
    agent::Happened,
    hooks::{HookAnswer, HookPoints, StepVerdict, Verdict},
};

use super::*;

fn hooked() -> House {
    let hooks = HookPoints { pre_step: true, result: true, ..HookPoints::default() };
    let mut house = House::with(AgentConfig { hooks, ..AgentConfig::default() });
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.told();
    house
}

fn proceed(house: &mut House) {
    let (session, token) = house.hooks.remove(0);
    let verdict = Verdict::Step(StepVerdict::Proceed { contexts: Vec::new() });
    let happened = Happened::Hooked(token, HookAnswer { verdict, reports: Vec::new() });
    house.happen(Event::Happened { session, happened });
}

#[test]
fn hooks_are_asked_about_what_is_durable() {
    let mut house = hooked();
    house.prompt("main", "hi");
    assert_eq!(house.done(), "", "nobody outside learns of a prompt that could be lost");
    house.commit();
    assert_eq!(house.done(), "ask pre-step of main");
    proceed(&mut house);
    house.commit();
    assert_eq!(house.done(), "call main");
}

#[test]
fn a_hook_that_was_not_asked_yet_is_not_asked_after_a_cancel() {
    let mut house = hooked();
    house.prompt("main", "hi");
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.commit();
    assert_eq!(house.done(), "");

    house.prompt("main", "again");
    house.commit();
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    assert_eq!(house.done(), "ask pre-step of main\nstop hooks of main");
}

#[test]
fn those_who_watch_are_shown_results_that_are_durable() {
    let mut house = hooked();
    house.prompt("main", "hi");
    house.commit();
    proceed(&mut house);
    house.commit();
    house.done();
    house.call(&[("c", "t")]);
    house.commit();
    assert_eq!(house.done(), "run main c");
    house.tool(ToolOutcome::text("ok"));
    assert_eq!(house.done(), "");
    house.commit();
    assert_eq!(house.done(), "show result of main\nask pre-step of main");
}

#[test]
fn nobody_watches_for_a_session_that_is_gone() {
    // The result and the session's end become durable together.
    let mut house = hooked();
    house.prompt("main", "hi");
    house.commit();
    proceed(&mut house);
    house.commit();
    house.call(&[("c", "t")]);
    house.commit();
    house.tool(ToolOutcome::text("ok"));
    house.done();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    let done = house.done();
    assert!(done.contains("forget main"), "{done}");
    let (_, behind) = done.split_once("forget main").unwrap();
    assert!(!behind.contains("show"), "{done}");
}
