//! Shutdown, disconnection, the end of the host (S-125 to S-130, decision 15).

use super::*;

#[test]
fn a_shutdown_closes_the_log_and_shows_nothing_of_it() {
    // C-38, S-116: the answer comes once the end is durable.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.chunk(Chunk::TextDelta { index: 0, text: "half".to_owned() });
    house.commit();
    house.told();
    house.done();
    house.ask(1, "host/shutdown", None, json!({}));
    assert_eq!(house.told(), "");
    assert_eq!(house.done(), "terminate main 300\nstop main");
    house.commit();
    assert_eq!(house.told(), "1 reply host/shutdown");
    let last = &house.log.last().unwrap().text;
    assert!(last.contains(r#""reason":{"kind":"aborted","reason":{"kind":"disposed"}}"#), "{last}");
    assert_eq!(house.done(), "forget main\nrelease main");
}

#[test]
fn shutdowns_join_and_what_comes_later_is_refused() {
    // C-37, S-127.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.told();
    house.ask(1, "host/shutdown", None, json!({}));
    house.ask(1, "host/shutdown", None, json!({}));
    house.prompt("main", "late");
    assert_eq!(house.told(), "1 failure session/prompt shutting-down: the host is shutting down");
    house.commit();
    assert_eq!(house.told(), "1 reply host/shutdown\n1 reply host/shutdown");
}

#[test]
fn a_shutdown_of_nothing_is_answered_at_once() {
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    house.ask(1, "host/shutdown", None, json!({}));
    assert_eq!(house.told(), "1 reply host/shutdown");
}

#[test]
fn a_teardown_that_fails_says_what_failed() {
    // C-42, S-126.
    for (sessions, expected) in [
        (1, "the session log could not be written: disk full"),
        (2, "2 sessions could not be brought to an end"),
    ] {
        let mut house = House::new();
        house.connect(1, facts(Reach::Owned));
        for session in 0..sessions {
            let id = format!("s{session}");
            house.ask(1, "session/open", Some(&id), json!({ "want": "new" }));
            house.prompt(&id, "hi");
        }
        house.commit();
        house.told();
        house.ask(1, "host/shutdown", None, json!({}));
        house.fail_commit();
        assert_eq!(house.told(), format!("1 failure host/shutdown teardown-failed: {expected}"));
        let body: Value = serde_json::from_str(&house.frames.last().unwrap().1.body).unwrap();
        assert_eq!(body["details"]["failures"].as_array().unwrap().len(), sessions);
        house.ask(1, "host/shutdown", None, json!({}));
        assert!(house.told().contains(expected), "a later call gets the same outcome (S-127)");
    }
}

#[test]
fn the_end_of_a_connection_disposes_what_it_owns_natively() {
    // Decision 15.
    let mut house = House::with_session();
    house.connect(2, facts(Reach::Owned));
    house.ask(2, "session/open", Some("other"), json!({ "want": "new" }));
    house.prompt("main", "hi");
    house.commit();
    house.told();
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    assert!(house.quiesced.is_empty(), "its log is not closed yet");
    house.commit();
    assert_eq!(house.quiesced, [(1, vec![])]);
    assert_eq!(house.told(), "", "nobody is left to be told");
    house.prompt_from(2, "other", "still here");
    house.commit();
    assert!(house.told().contains("2 reply session/prompt"));
}

#[test]
fn what_the_host_owns_outlives_its_connection() {
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    house.ask(1, "session/open", Some("kept"), json!({ "want": "new", "owner": "host" }));
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    assert_eq!(house.quiesced.len(), 1);
    assert_eq!(house.router.live_sessions(), 1);
    house.happen(Event::Shutdown);
    assert_eq!(house.quiet, Some(vec![]));
}

#[test]
fn the_host_ends_when_every_log_is_closed() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.happen(Event::Shutdown);
    assert_eq!(house.quiet, None);
    house.ask(1, "session/open", Some("late"), json!({ "want": "new" }));
    house.commit();
    assert_eq!(house.quiet, Some(vec![]));
    assert!(house.told().contains("failure session/open shutting-down"));
}

#[test]
fn tools_are_waited_for_and_given_up_in_the_time_of_a_teardown() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.chunk(Chunk::ToolCallDelta {
        index: 0,
        id: "c".to_owned(),
        name: Some("bash".to_owned()),
        arguments_delta: "{}".to_owned(),
    });
    house.chunk(Chunk::Finish { reason: Finish::ToolCalls });
    assert!(!house.done().contains("run"), "no tool body before its call is durable (L-74)");
    house.commit();
    assert!(house.done().contains("run main c"));
    house.told();
    house.ask(1, "host/shutdown", None, json!({}));
    assert_eq!(house.done(), "terminate main 300\nstop tool main");
    let (session, token, after_ms) = house.timers.pop().unwrap();
    assert_eq!(after_ms, 600);
    house.happen(Event::Happened { session, happened: Happened::Timer(token) });
    house.commit();
    assert_eq!(house.told(), "1 reply host/shutdown");
}

#[test]
fn a_tool_that_never_began_is_aborted_where_it_waits() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.chunk(Chunk::ToolCallDelta {
        index: 0,
        id: "c".to_owned(),
        name: Some("bash".to_owned()),
        arguments_delta: "{}".to_owned(),
    });
    house.chunk(Chunk::Finish { reason: Finish::ToolCalls });
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.commit();
    let told = house.told();
    assert!(told.contains("tool/result"), "{told}");
    assert!(told.contains("idle main"), "{told}");
    assert!(told.ends_with("1 reply session/cancel"), "{told}");
    assert!(!house.done().contains("run"), "its body never ran");
}

#[test]
fn a_tool_ends_a_step_and_the_next_one_begins() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.chunk(Chunk::ToolCallDelta {
        index: 0,
        id: "c".to_owned(),
        name: Some("bash".to_owned()),
        arguments_delta: "{}".to_owned(),
    });
    house.chunk(Chunk::Finish { reason: Finish::ToolCalls });
    house.calls.pop();
    house.commit();
    house.tool(ToolOutcome::text("done"));
    house.commit();
    house.answer("well");
    house.commit();
    assert!(house.told().ends_with("1 idle main"));
}

#[test]
fn what_an_earlier_life_had_asked_for_is_nobodys() {
    // Decision 17: the id is the same, the session is another.
    let mut house = House::with_session();
    house.prompt("main", "one");
    house.commit();
    let (session, token) = house.calls.pop().unwrap();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    // Nothing is left of it, so that the id can begin anew.
    house.log.clear();
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.prompt("main", "two");
    house.commit();
    house.told();
    let late = Happened::Chunk(token, Chunk::Finish { reason: Finish::Stop });
    house.happen(Event::Happened { session, happened: late });
    house.commit();
    assert_eq!(house.told(), "", "the new turn still waits for its own model");
    house.answer("mine");
    house.commit();
    assert!(house.told().contains("turn/end"));
}
