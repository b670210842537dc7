//! Asks: who is asked, who may answer, and in which order peers hear of it (P-14, P-15, B-136 to B-141).

use transom_harness::{
    agent::Permissions,
    permissions::{
        ApprovalPolicy,
        presets::{Defaults, PRESETS},
    },
};

use super::*;

/// A host whose sessions ask, and so do their children.
pub(super) fn asking() -> AgentConfig {
    let defaults = Defaults {
        mode: Mode::DangerFullAccess,
        policy: ApprovalPolicy::Ask,
        preset: None,
        presets: PRESETS.to_vec(),
    };
    let permissions = Permissions {
        defaults,
        approvals: true,
        children: ApprovalPolicy::Ask,
        ..Permissions::default()
    };
    AgentConfig { permissions, ..AgentConfig::default() }
}

pub(super) fn answering(reach: Reach, answers: Answers) -> Facts {
    Facts { answers, live_notices_max: 1000, ..facts(reach) }
}

/// One connection that answers for what it owns, with one session.
pub(super) fn answered() -> House {
    let mut house = House::with(asking());
    house.connect(1, answering(Reach::Owned, Answers::Owned));
    house.watch_all(1, "owned", None);
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.told();
    house
}

/// A call in `main` that somebody has to decide about; nobody has heard of it yet.
fn ask_in(house: &mut House, session: &str) {
    house.prompt(session, "go");
    house.commit();
    house.judgements.push_back(wanted());
    house.call(&[("c", "bash")]);
}

fn open_ask() -> House {
    let mut house = answered();
    ask_in(&mut house, "main");
    house.commit();
    house
}

/// What an answer to the last ask looks like.
fn value(house: &House, outcome: &str) -> Value {
    let opened = house.body(1, "ask/opened");
    json!({ "sessionId": "main", "approvalId": opened["approvalId"], "outcome": outcome })
}

fn answer(house: &mut House, connection: u64, value: Value) {
    let ask = house.body(1, "ask/opened")["askId"].clone();
    house.ask(connection, "ask/answer", None, json!({ "askId": ask, "value": value }));
}

#[test]
fn an_ask_stands_behind_its_event_and_names_its_call() {
    let mut house = answered();
    ask_in(&mut house, "main");
    house.told();
    house.commit();
    let told = house.told();
    in_order(&told, &["tool/call", "approval/asked", "1 ask/opened main approval"]);
    assert!(told.ends_with("ask/opened main approval"), "{told}");
    let opened = house.body(1, "ask/opened");
    let event = house.log.iter().find(|event| &*event.kind == "approval/asked").unwrap();
    let event: Value = serde_json::from_str(&event.text).unwrap();
    assert_eq!(opened["approvalId"], event["data"]["id"], "B-140");
    let id = opened["askId"].as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "UUID v4 (decision 9)");
    assert!(opened.get("rootSessionId").is_none(), "it asks for itself");
    for (member, expected) in
        [("toolName", "bash"), ("callId", "c"), ("reason", "rule"), ("arguments", "{}")]
    {
        assert_eq!(opened[member], expected, "P-15");
    }
}

#[test]
fn an_end_stands_behind_its_event_and_before_the_receipt() {
    // B-138, frames.md `ask/closed`.
    for (outcome, result) in [("allowed-once", None), ("rejected", Some("Error: rejected"))] {
        let mut house = open_ask();
        house.told();
        let value = value(&house, outcome);
        answer(&mut house, 1, value);
        assert_eq!(house.told(), "", "nothing before the decision is durable");
        assert!(!house.done().contains("run main"), "L-74");
        house.commit();
        let told = house.told();
        let closed = format!("ask/closed main {outcome}");
        in_order(&told, &["approval/decided", &closed, "1 reply ask/answer accepted"]);
        assert_eq!(house.done().contains("run main c"), result.is_none());
        assert_eq!(told.contains("tool/result"), result.is_some(), "{told}");
        if let Some(text) = result {
            let event = house.log.iter().find(|event| &*event.kind == "tool/result").unwrap();
            assert!(event.text.contains(text), "{}", event.text);
        }
    }
}

#[test]
fn an_answer_that_does_not_fit_leaves_the_ask_open() {
    // B-137, row C40: first whether anybody waits, then ids and shape (decision 10).
    let mut house = open_ask();
    house.told();
    let opened = house.body(1, "ask/opened");
    let good = value(&house, "rejected");
    let with = |member: &str, other: &str| {
        let mut value = good.clone();
        value[member] = other.into();
        json!({ "askId": opened["askId"], "value": value })
    };
    let error = json!({ "code": "cancelled", "message": "no", "details": {} });
    for (body, receipt) in [
        (with("approvalId", "another"), "invalid"),
        (with("sessionId", "another"), "invalid"),
        (with("outcome", "cancelled"), "invalid"),
        (with("outcome", "unavailable"), "invalid"),
        (with("outcome", "yes"), "invalid"),
        (json!({ "askId": opened["askId"], "value": "yes" }), "invalid"),
        (json!({ "askId": opened["askId"] }), "invalid"),
        (json!({ "askId": opened["askId"], "error": error }), "invalid"),
        (json!({ "askId": opened["askId"], "value": good, "error": error }), "invalid"),
        (json!({ "askId": "another", "value": good }), "not-pending"),
    ] {
        house.ask(1, "ask/answer", None, body.clone());
        assert_eq!(house.told(), format!("1 reply ask/answer {receipt}"), "{body}");
    }
    answer(&mut house, 1, good.clone());
    house.commit();
    assert!(house.told().contains("reply ask/answer accepted"));
    answer(&mut house, 1, good);
    house.commit();
    assert_eq!(house.told(), "1 reply ask/answer not-pending", "C39");
}

#[test]
fn of_two_answers_one_counts() {
    // B-138.
    let mut house = open_ask();
    house.connect(2, answering(Reach::All, Answers::Always));
    house.watch_all(2, "all", None);
    let (yes, no) = (value(&house, "allowed-once"), value(&house, "rejected"));
    answer(&mut house, 2, yes);
    answer(&mut house, 1, no);
    house.commit();
    let told = house.told();
    assert_eq!(told.matches("ask/closed main allowed-once").count(), 2, "both hear: {told}");
    assert!(told.contains("1 reply ask/answer not-pending"), "{told}");
    assert!(told.contains("2 reply ask/answer accepted"), "{told}");
    assert!(house.done().contains("run main c"));
    let decided = house.kinds("main").iter().filter(|kind| *kind == "approval/decided").count();
    assert_eq!(decided, 1, "P-14");
}

#[test]
fn those_who_may_not_answer_see_and_are_not_heard() {
    let mut house = open_ask();
    for (connection, reach, answers) in [
        (2, Reach::All, Answers::Never),
        // Not its session.
        (3, Reach::All, Answers::Owned),
        (4, Reach::Owned, Answers::Always),
    ] {
        house.connect(connection, answering(reach, answers));
        let baseline = house.watch_all(connection, "all", None);
        let asks = baseline["asks"].as_array().unwrap().len();
        assert_eq!(asks, usize::from(reach == Reach::All), "{connection}");
        let yes = value(&house, "allowed-once");
        answer(&mut house, connection, yes);
        assert_eq!(house.told(), format!("{connection} reply ask/answer not-pending"));
        let ask = house.body(1, "ask/opened")["askId"].clone();
        let settle = json!({ "askId": ask, "outcome": "cancelled" });
        house.ask(connection, "ask/settle", None, settle);
        assert_eq!(house.told(), format!("{connection} reply ask/settle not-pending"));
    }
}

#[test]
fn the_owner_settles_without_an_answer() {
    // A-60, A-64.
    for outcome in ["cancelled", "unavailable"] {
        let mut house = open_ask();
        house.told();
        let ask = house.body(1, "ask/opened")["askId"].clone();
        let settle = json!({ "askId": ask, "outcome": outcome });
        house.ask(1, "ask/settle", None, settle.clone());
        house.commit();
        let told = house.told();
        let closed = format!("ask/closed main {outcome}");
        in_order(&told, &["approval/decided", &closed, "reply ask/settle accepted"]);
        assert!(told.contains("tool/result"), "the turn goes on (P-16): {told}");
        house.ask(1, "ask/settle", None, settle);
        house.commit();
        assert_eq!(house.told(), "1 reply ask/settle not-pending");
    }
}

#[test]
fn a_cancel_wins_and_the_late_answer_is_dropped() {
    // P-14, B-139.
    let mut house = open_ask();
    house.told();
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    let yes = value(&house, "allowed-once");
    answer(&mut house, 1, yes);
    house.commit();
    let told = house.told();
    in_order(&told, &["approval/decided", "ask/closed main cancelled", "1 idle main"]);
    assert!(told.contains("reply ask/answer not-pending"), "{told}");
    assert!(!house.done().contains("run main"));
}

#[test]
fn an_ask_ends_with_its_owner() {
    let mut house = open_ask();
    house.connect(2, answering(Reach::All, Answers::Always));
    house.watch_all(2, "all", None);
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.commit();
    let told = house.told();
    in_order(&told, &["2 ask/closed main cancelled", "2 idle main", "2 session/removed main"]);
    assert_eq!(house.quiesced, [(1, vec![])]);
}

#[test]
fn an_ask_ends_with_the_host() {
    // B-139: every entry is settled as cancelled.
    let mut house = open_ask();
    house.told();
    house.happen(Event::Shutdown);
    house.commit();
    assert!(house.told().contains("ask/closed main cancelled"));
    assert_eq!(house.quiet, Some(vec![]));
}

#[test]
fn where_nobody_answers_the_ask_is_unavailable() {
    // P-14 (5): still one `approval/asked` and one `approval/decided`.
    for (answers, watches) in [(Answers::Never, true), (Answers::Owned, false)] {
        let mut house = House::with(asking());
        house.connect(1, answering(Reach::Owned, answers));
        if watches {
            house.watch_all(1, "owned", None);
        }
        house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
        ask_in(&mut house, "main");
        house.commit();
        let told = house.told();
        assert!(!told.contains("ask/"), "{told}");
        let kinds = house.kinds("main");
        let at = kinds.iter().position(|kind| kind == "approval/asked").unwrap();
        assert_eq!(kinds[at + 1..at + 3], ["approval/decided", "tool/result"]);
        let decided = &house.log[at + 1].text;
        assert!(decided.contains(r#""outcome":"unavailable""#), "{decided}");
    }
}

#[test]
fn an_ask_waits_for_an_answerer_that_is_not_there_yet() {
    // B-136, row C41: the entry needs no client and survives every disconnect.
    let mut house = House::of(HostFacts { always_answered: true, ..host() }, asking());
    house.connect(1, answering(Reach::All, Answers::Always));
    house.watch_all(1, "all", None);
    house.ask(1, "session/open", Some("main"), json!({ "want": "new", "owner": "host" }));
    ask_in(&mut house, "main");
    house.commit();
    let opened = house.body(1, "ask/opened");
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.connect(2, answering(Reach::All, Answers::Always));
    let baseline = house.watch_all(2, "all", None);
    let mut again = baseline["asks"][0].clone();
    assert_eq!(again["sessionId"], "main");
    again.as_object_mut().unwrap().remove("sessionId");
    assert_eq!(again, opened, "identical (B-106)");
    let yes = value(&house, "allowed-once");
    answer(&mut house, 2, yes);
    house.commit();
    assert!(house.done().contains("run main c"));
}

#[test]
fn a_baseline_has_only_what_was_shown() {
    // Decision 1h.
    let mut house = answered();
    ask_in(&mut house, "main");
    house.connect(2, answering(Reach::All, Answers::Always));
    assert_eq!(house.watch_all(2, "all", None)["asks"], json!([]));
    house.commit();
    assert!(house.told().contains("2 ask/opened main approval"), "but then it is told");
}

#[test]
fn what_was_over_before_it_was_shown_is_told_to_nobody() {
    // B-139.
    let mut house = answered();
    ask_in(&mut house, "main");
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.commit();
    let told = house.told();
    assert!(!told.contains("ask/"), "{told}");
    in_order(&told, &["approval/asked", "approval/decided", "tool/result", "1 idle main"]);
}

#[test]
fn a_call_that_has_not_begun_and_one_that_is_asked_about_are_cancelled_in_the_order_of_the_log() {
    // The house holds every append against the length of the log.
    let mut house = answered();
    house.parallel = true;
    house.prompt("main", "go");
    house.commit();
    house.judgements.push_back(Judgement::Run);
    house.judgements.push_back(wanted());
    house.call(&[("c1", "read"), ("c2", "bash")]);
    assert!(!house.done().contains("run"), "it waits for its event to be durable");
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.commit();
    let kinds = house.kinds("main");
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool/result").count(), 2);
    assert!(house.told().ends_with("reply session/cancel"));
    assert!(!house.done().contains("run"));
}

#[test]
fn a_log_that_cannot_be_written_ends_its_asks() {
    let mut house = answered();
    house.parallel = true;
    house.prompt("main", "go");
    house.commit();
    house.judgements.push_back(Judgement::Run);
    house.judgements.push_back(wanted());
    house.call(&[("c1", "read"), ("c2", "bash")]);
    house.commit();
    house.told();
    house.tool(ToolOutcome::text("read"));
    house.fail_commit();
    let told = house.told();
    in_order(&told, &["ask/closed main cancelled", "agent/error main", "idle main"]);
    let yes = value(&house, "allowed-once");
    answer(&mut house, 1, yes);
    assert_eq!(house.told(), "1 reply ask/answer not-pending");
}

#[test]
fn an_ask_that_was_lost_with_its_event_is_told_to_nobody() {
    let mut house = answered();
    ask_in(&mut house, "main");
    house.fail_commit();
    let told = house.told();
    assert!(!told.contains("ask/"), "{told}");
    assert!(told.contains("agent/error main"), "{told}");
}

#[test]
fn a_childs_ask_goes_to_whoever_owns_the_root() {
    // P-24.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "subagent")]);
    house.commit();
    house.delegate(7, "main");
    let child = house.child(7);
    house.commit();
    house.judgements.push_back(wanted());
    house.call(&[("k", "bash")]);
    house.told();
    house.commit();
    assert!(house.told().ends_with(&format!("1 ask/opened {child} approval")));
    let opened = house.body(1, "ask/opened");
    assert_eq!(opened["rootSessionId"], "main", "A-61");
    let value = json!({
        "sessionId": child, "approvalId": opened["approvalId"], "outcome": "allowed-once",
    });
    answer(&mut house, 1, value);
    house.commit();
    let told = house.told();
    let closed = format!("ask/closed {child} allowed-once");
    in_order(&told, &["approval/decided", &closed, "reply ask/answer accepted"]);
    assert!(house.done().contains(&format!("run {child} k")));
}

#[test]
fn an_ask_ends_with_the_last_who_would_have_answered() {
    // Fail closed (L-61): whoever stops listening will not answer.
    let mut house = open_ask();
    let subscription = house.body(1, "events/subscribe")["subscription"].clone();
    house.told();
    house.ask(1, "events/unsubscribe", None, json!({ "subscription": subscription }));
    house.commit();
    let decided = house.log.iter().find(|event| &*event.kind == "approval/decided").unwrap();
    assert!(decided.text.contains(r#""outcome":"unavailable""#), "{}", decided.text);
    assert!(house.tools.is_empty());
}
