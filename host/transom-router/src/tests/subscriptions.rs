//! Who sees what: scopes of subscriptions over trees of sessions, and the baselines that they begin with
//! (B-106 to B-109, decision 1h).

use super::{
    asks::{answering, asking},
    *,
};

/// A session with a child and a grandchild, all running; and one apart.
fn tree() -> (House, String, String) {
    let mut house = House::new();
    house.connect(1, answering(Reach::Owned, Answers::Never));
    for id in ["main", "apart"] {
        house.ask(1, "session/open", Some(id), json!({ "want": "new" }));
    }
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "subagent")]);
    house.commit();
    house.delegate(7, "main");
    house.commit();
    let child = house.child(7);
    house.call(&[("k", "subagent")]);
    house.commit();
    house.delegate(8, &child);
    house.commit();
    let grandchild = house.child(8);
    house.told();
    (house, child, grandchild)
}

fn rows(baseline: &Value) -> Vec<String> {
    let rows = baseline["sessions"].as_array().unwrap().iter();
    rows.map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
}

/// Sessions of which a peer was told events.
fn seen(told: &str, connection: u64) -> BTreeSet<String> {
    let prefix = format!("{connection} event ");
    let events = told.lines().filter_map(|line| line.strip_prefix(&prefix));
    events.map(|rest| rest.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_scope_reaches_as_far_as_it_says() {
    let (mut house, child, grandchild) = tree();
    let (main, apart) = ("main".to_owned(), "apart".to_owned());
    house.watch_all(1, "owned", None);
    let all = vec![main.clone(), apart.clone(), child.clone(), grandchild.clone()];
    let mut expected = vec![(1, all.clone())];
    for (connection, scope, session, covered) in [
        (2, "all", None, all.clone()),
        (3, "owned", None, vec![]),
        (4, "tree", Some(&main), vec![main.clone(), child.clone(), grandchild.clone()]),
        (5, "tree", Some(&child), vec![child.clone(), grandchild.clone()]),
        (6, "tree", Some(&grandchild), vec![grandchild.clone()]),
        (7, "session", Some(&main), vec![main.clone()]),
        (8, "session", Some(&child), vec![child.clone()]),
        (9, "host", None, vec![]),
    ] {
        house.connect(connection, answering(Reach::All, Answers::Never));
        let baseline = house.watch_all(connection, scope, session.map(String::as_str));
        assert_eq!(rows(&baseline), covered, "{scope}");
        expected.push((connection, covered));
    }
    house.answer("deep");
    house.prompt("apart", "hi");
    house.prompt("main", "more");
    house.commit();
    let told = house.told();
    for (connection, covered) in expected {
        let mut covered: BTreeSet<_> = covered.into_iter().collect();
        // It waits for its call and says nothing.
        covered.remove(&child);
        assert_eq!(seen(&told, connection), covered, "{connection}: {told}");
    }
}

#[test]
fn a_baseline_is_of_its_own_topics_and_lineage() {
    let (mut house, child, _) = tree();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.prompt("main", "waits");
    house.commit();
    house.ask(2, "events/subscribe", None, json!({ "scope": "all", "topics": ["status"] }));
    let baseline = house.body(2, "events/subscribe");
    assert_eq!(rows(&baseline).len(), 4);
    assert_eq!((&baseline["queues"], &baseline["jobs"]), (&json!([]), &json!([])));
    let row = &baseline["sessions"][2];
    assert_eq!(row["sessionId"], child.as_str());
    assert_eq!((&row["parentSessionId"], &row["origin"]), (&json!("main"), &json!("subagent")));
    assert_eq!(row["running"], true);
    let baseline = house.watch_all(2, "all", None);
    assert_eq!(baseline["queues"].as_array().unwrap().len(), 1);
    assert_eq!(baseline["queues"][0]["sessionId"], "main");
    assert_eq!(baseline["queues"][0]["items"][0]["placement"], "queued");
}

#[test]
fn a_queue_is_shown_once_it_is_durable() {
    // Decision 1h.
    let (mut house, ..) = tree();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.prompt("main", "secret for now");
    assert_eq!(house.watch_all(2, "all", None)["queues"], json!([]));
    house.commit();
    assert!(house.told().contains("2 session/queue main [queued]"), "but then it is told");
}

#[test]
fn a_session_is_either_in_the_baseline_or_announced() {
    // B-107: here its settings hold its announcement back.
    let mut config = asking();
    config.permissions.pins = true;
    let mut house = House::with(config);
    house.connect(1, answering(Reach::Owned, Answers::Never));
    house.connect(2, answering(Reach::All, Answers::Never));
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    assert!(rows(&house.watch_all(2, "all", None)).is_empty());
    house.ask(2, "session/list", None, json!({}));
    assert_eq!(house.body(2, "session/list")["items"], json!([]));
    house.told();
    house.commit();
    assert_eq!(house.told(), "2 session/added main\n1 reply session/open");
    house.ask(2, "session/list", None, json!({}));
    let row = house.body(2, "session/list")["items"][0].clone();
    assert_eq!((&row["sessionId"], &row["blank"]), (&json!("main"), &json!(true)), "B-121");
    assert_eq!(rows(&house.watch_all(2, "all", None)), ["main"]);
}

#[test]
fn a_child_that_leaves_is_told_in_its_place() {
    // What its tree still waits for stands behind it, and does not hide it.
    let (mut house, child, grandchild) = tree();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.watch_all(2, "all", None);
    house.answer("deep");
    let of_child = house.appended;
    house.prompt("main", "later");
    house.commit_through(of_child);
    let told = house.told();
    let removed = format!("2 session/removed {grandchild}");
    in_order(&told, &[&format!("2 subagent/finished {child} completed"), &removed]);
    assert!(!told.contains("event main"), "{told}");
}

#[test]
fn a_subscription_is_to_one_life_of_a_session() {
    // Decision 17.
    let (mut house, ..) = tree();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.watch_all(2, "session", Some("apart"));
    house.ask(1, "session/close", Some("apart"), json!({}));
    assert_eq!(house.told(), "2 session/removed apart\n1 reply session/close");
    house.ask(1, "session/open", Some("apart"), json!({ "want": "new" }));
    house.prompt("apart", "a new life");
    house.commit();
    let told = house.told();
    assert!(!told.contains("2 "), "{told}");
}
