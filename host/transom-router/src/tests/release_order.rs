//! Durable before visible, in one order (decision 1).

use super::*;

#[test]
fn nothing_is_shown_before_it_is_durable() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    assert_eq!(house.told(), "", "the receipt waits for its event");
    assert_eq!(house.done(), "", "no model is called for a prompt that could be lost (L-74)");
    house.commit();
    let expected = "\
1 event main 0 agent/inbox/spliced
1 running main
1 event main 1 turn/start
1 event main 2 agent/inbox/spliced
1 inbox/claimed main
1 reply session/prompt";
    assert!(house.told().starts_with(expected), "S-54");
    assert_eq!(house.done(), "call main");
}

#[test]
fn an_item_waits_for_nothing_behind_it() {
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit_through(1);
    assert_eq!(house.told(), "1 event main 0 agent/inbox/spliced\n1 running main");
    house.commit_through(3);
    assert!(house.told().ends_with("1 reply session/prompt"));
}

#[test]
fn one_session_does_not_wait_for_another() {
    // Trees are released apart: L-30.
    let mut house = House::with_session();
    house.ask(1, "session/open", Some("other"), json!({ "want": "new" }));
    house.told();
    house.prompt("main", "hi");
    let of_main = house.appended;
    house.prompt("other", "hi");
    house.commit_through(of_main);
    let told = house.told();
    assert!(told.contains("reply session/prompt"), "{told}");
    assert!(!told.contains("other"), "{told}");
    house.ask(1, "session/describe", Some("main"), json!({}));
    assert_eq!(house.told(), "1 reply session/describe", "main owes nothing");
    house.ask(1, "session/describe", Some("other"), json!({}));
    assert_eq!(house.told(), "", "other's answer stands behind its events");
    house.commit();
    assert!(house.told().ends_with("1 reply session/describe"));
}

#[test]
fn what_is_read_is_what_was_shown() {
    // Decision 1h.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit_through(2);
    house.told();
    house.ask(1, "session/read", Some("main"), json!({ "from": 0, "limit": 100 }));
    let (_, frame) = house.frames.last().unwrap();
    let body: Value = serde_json::from_str(&frame.body).unwrap();
    assert_eq!(body["lastSeq"], 1);
    assert_eq!(body["events"].as_array().unwrap().len(), 2);
}

#[test]
fn a_failed_commit_is_told_to_who_waited_and_ends_the_agent() {
    // Decision 1g.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.fail_commit();
    let told = house.told();
    let failure = "the session log could not be written: disk full";
    assert!(told.contains(&format!("1 failure session/prompt store-failed: {failure}")), "{told}");
    assert!(told.contains("1 agent/error main"), "{told}");
    assert!(told.ends_with("1 idle main"), "{told}");
    assert!(!told.contains("event main"), "{told}");
    house.prompt("main", "again");
    assert_eq!(house.told(), format!("1 failure session/prompt store-failed: {failure}"));
    assert!(!house.done().contains("call"), "nothing was begun on the strength of what was lost");
}

#[test]
fn a_turn_whose_end_is_lost_is_told_to_rest_all_the_same() {
    // Decision 1g: whoever has a receipt waits for the session to be idle.
    let failure = "the session log could not be written: disk full";
    for ended in [false, true] {
        let mut house = House::with_session();
        house.prompt("main", "hi");
        house.commit();
        let before = house.told();
        assert!(before.contains("1 running main"), "{before}");
        assert!(before.contains("1 reply session/prompt"), "{before}");
        if ended {
            // In memory, and nothing of that is stored.
            house.answer("fine");
        } else {
            house.call(&[("1", "read")]);
        }
        house.fail_commit();
        let told = house.told();
        assert!(told.ends_with("1 agent/error main\n1 idle main"), "{told}");
        assert_eq!(told.matches("agent/error").count(), 1, "{told}");
        house.prompt("main", "again");
        assert_eq!(house.told(), format!("1 failure session/prompt store-failed: {failure}"));
    }
}

#[test]
fn what_is_told_of_a_loss_waits_for_nothing_that_is_lost_too() {
    // Decision 1g: what is under way behind the lost batch fails by itself, later.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.commit();
    house.answer("fine");
    house.told();
    let (from, last) = (house.committed + 1, house.appended);
    assert!(from < last);
    let failed = |from, through| {
        let message = "disk full".to_owned();
        Event::Committed(Commit::Failed { from, through, message })
    };
    house.happen(failed(from, from));
    assert_eq!(house.told(), "1 agent/error main\n1 idle main");
    house.happen(failed(from + 1, last));
    assert_eq!(house.told(), "");
}

#[test]
fn a_commit_that_fails_for_one_session_spares_another() {
    let mut house = House::with_session();
    house.ask(1, "session/open", Some("other"), json!({ "want": "new" }));
    house.prompt("other", "hi");
    house.commit();
    house.prompt("main", "hi");
    house.told();
    house.fail_commit();
    house.told();
    house.answer("fine");
    house.commit();
    assert!(house.told().ends_with("1 idle other"));
}

#[test]
fn a_wait_is_answered_behind_everything_of_its_time() {
    // S-62.
    let mut house = House::with_session();
    house.prompt("main", "hi");
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    house.commit();
    assert!(!house.told().contains("session/wait"));
    house.answer("yes");
    house.commit();
    assert!(house.told().ends_with("1 idle main\n1 reply session/wait"));
    house.ask(1, "session/wait", Some("main"), json!({}));
    assert_eq!(house.told(), "1 reply session/wait");
}
