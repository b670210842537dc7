//! Sessions that begin with the completed turns of another (L-11, B-155).

use transom_harness::{jobs::JobKind, ports::StartedJob};

use super::{
    asks::{answered, answering},
    *,
};

/// A session with two completed turns. Gives where these end.
fn two_turns() -> (House, [u64; 2]) {
    let mut house = answered();
    let mut ends = Vec::new();
    for text in ["one", "two"] {
        house.prompt("main", text);
        house.commit();
        house.answer(text);
        house.commit();
        ends.push(house.kinds("main").len() as u64 - 1);
    }
    house.told();
    house.done();
    (house, [ends[0], ends[1]])
}

fn fork_at(house: &mut House, session: &str, at: Option<u64>) -> String {
    let body = at.map_or(json!({}), |at| json!({ "atSeq": at }));
    house.ask(1, "session/fork", Some(session), body);
    house.commit();
    let (_, frame) = house.frames.last().unwrap();
    assert_eq!(&*frame.name, "session/fork", "{}", frame.body);
    assert_eq!(&*frame.body, "{}");
    frame.session.as_ref().unwrap().to_string()
}

fn texts(house: &House, session: &str) -> Vec<String> {
    let of = house.log.iter().filter(|append| append.session.as_str() == session);
    of.map(|append| append.text.to_string()).collect()
}

fn header(house: &House, session: &str) -> Value {
    let of = house.log.iter().find(|append| append.session.as_str() == session).unwrap();
    serde_json::from_str(&of.header).unwrap()
}

#[test]
fn a_fork_is_cut_behind_the_turn_that_ends_at_or_after_its_place() {
    let (mut house, [first, second]) = two_turns();
    for (at, end) in [
        (None, second),
        (Some(0), first),
        (Some(first - 1), first),
        (Some(first), first),
        (Some(first + 1), second),
        (Some(second), second),
        (Some(second + 1), second),
        (Some(u64::MAX), second),
    ] {
        let fork = fork_at(&mut house, "main", at);
        let copied = texts(&house, &fork);
        let cut = end as usize + 1;
        assert_eq!(copied[..cut], texts(&house, "main")[..cut], "{at:?}");
        let [seed] = &copied[cut..] else { panic!("{at:?}: {copied:?}") };
        assert!(seed.contains(r#""type":"session/end-seed""#), "L-10: {seed}");
        let header = header(&house, &fork);
        assert_eq!(header["seedLength"], cut, "{at:?}");
        assert_eq!(header["parentSession"], "main");
        assert_eq!(header["delegationDepth"], 0);
        assert_eq!(header.get("origin"), None, "it works for nobody");
        assert_eq!(house.body(1, "session/added")["lastSeq"], cut);
    }
}

#[test]
fn what_stands_behind_the_last_turn_belongs_to_it() {
    let (mut house, [_, second]) = two_turns();
    house.ask(1, "session/rename", Some("main"), json!({ "title": "later" }));
    house.commit();
    let fork = fork_at(&mut house, "main", Some(second + 1));
    assert_eq!(header(&house, &fork)["seedLength"], second + 1);
}

#[test]
fn a_fork_never_begins_inside_a_turn() {
    let (mut house, [_, second]) = two_turns();
    house.prompt("main", "three");
    house.commit();
    house.told();
    for at in [second + 1, second + 3] {
        house.ask(1, "session/fork", Some("main"), json!({ "atSeq": at }));
        let text = "session \"main\" has no completed turn to fork behind";
        assert_eq!(house.told(), format!("1 failure session/fork fork-unavailable: {text}"));
    }
    for at in [None, Some(1000)] {
        let fork = fork_at(&mut house, "main", at);
        assert_eq!(header(&house, &fork)["seedLength"], second + 1);
    }
    house.ask(1, "session/open", Some("blank"), json!({ "want": "new" }));
    house.told();
    house.ask(1, "session/fork", Some("blank"), json!({}));
    assert!(house.told().contains("fork-unavailable"));
}

#[test]
fn an_aborted_turn_is_a_completed_one() {
    let mut house = answered();
    house.prompt("main", "one");
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.commit();
    let fork = fork_at(&mut house, "main", None);
    assert_eq!(header(&house, &fork)["seedLength"], house.kinds("main").len());
}

#[test]
fn a_fork_is_announced_behind_its_seed_and_goes_on_from_it() {
    let (mut house, [first, _]) = two_turns();
    house.ask(1, "session/fork", Some("main"), json!({ "atSeq": 0 }));
    assert_eq!(house.told(), "", "the seed is not durable yet");
    house.commit();
    let fork = house.frames.last().unwrap().1.session.clone().unwrap().to_string();
    assert_eq!(house.told(), format!("1 session/added {fork}\n1 reply session/fork"));
    let added = house.body(1, "session/added");
    assert_eq!(added["parentSessionId"], "main");
    assert_eq!(added.get("origin"), None);
    assert_eq!((&added["blank"], &added["cwd"]), (&json!(false), &json!("/host")));
    house.ask(1, "session/describe", Some(&fork), json!({}));
    let row = house.body(1, "session/describe");
    assert_eq!((&row["parentSessionId"], &row["blank"]), (&json!("main"), &json!(false)));
    assert_eq!(row.get("origin"), None);
    house.told();
    house.prompt(&fork, "another way");
    house.commit();
    let told = house.told();
    assert!(told.starts_with(&format!("1 event {fork} {}", first + 2)), "{told}");
    house.answer("indeed");
    house.commit();
    let turns: Vec<_> = texts(&house, &fork)
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .filter(|event| event["type"] == "turn/start")
        .map(|event| event["data"]["turn"].clone())
        .collect();
    assert_eq!(turns, [1, 2], "numbers go on");
    assert!(house.told().contains(&format!("idle {fork}")));
}

#[test]
fn what_waits_in_the_source_does_not_wait_in_the_fork() {
    // L-11.
    let mut house = answered();
    house.prompt("main", "one");
    house.prompt("main", "two");
    house.commit();
    house.answer("first");
    house.commit();
    let fork = fork_at(&mut house, "main", Some(0));
    let copied = texts(&house, &fork);
    assert!(copied.iter().any(|text| text.contains("two")), "its splice was copied");
    house.connect(2, answering(Reach::All, Answers::Never));
    let baseline = house.watch_all(2, "all", None);
    assert_eq!(baseline["queues"], json!([]));
    house.prompt(&fork, "three");
    house.commit();
    house.answer("done");
    house.commit();
    let said: Vec<_> = texts(&house, &fork)
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .filter(|event| event["type"] == "user/message")
        .filter(|event| event["data"]["source"]["kind"] == "user")
        .map(|event| event["data"]["content"][0]["text"].clone())
        .collect();
    assert_eq!(said, ["one", "three"]);
}

#[test]
fn jobs_stay_with_the_source() {
    // P-78.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "bash")]);
    house.commit();
    let job = StartedJob {
        id: "bash-1".to_owned(),
        kind: JobKind::Bash,
        label: "make".to_owned(),
        started_at: 5,
    };
    house.tool(ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
    house.commit();
    house.answer("started");
    house.commit();
    let fork = fork_at(&mut house, "main", None);
    assert!(house.kinds(&fork).iter().any(|kind| kind == "job/registered"), "the event is copied");
    house.connect(2, answering(Reach::All, Answers::Never));
    let baseline = house.watch_all(2, "all", None);
    let jobs = baseline["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["sessionId"], "main");
    house.ask(1, "session/close", Some(&fork), json!({}));
    house.commit();
    let told = house.told();
    assert!(told.ends_with("reply session/close"), "it waits for no job: {told}");
    assert!(!told.contains("session/jobs"), "{told}");
}

#[test]
fn a_fork_can_be_forked() {
    let (mut house, [first, second]) = two_turns();
    let fork = fork_at(&mut house, "main", Some(0));
    house.prompt(&fork, "three");
    house.commit();
    house.answer("three");
    house.commit();
    let again = fork_at(&mut house, &fork, None);
    let header = header(&house, &again);
    assert_eq!(header["parentSession"], fork.as_str());
    assert!(header["seedLength"].as_u64().unwrap() > first + 1);
    let early = fork_at(&mut house, &fork, Some(0));
    assert_eq!(self::header(&house, &early)["seedLength"], first + 1);
    assert_ne!(first, second);
}

#[test]
fn a_fork_and_its_source_leave_apart() {
    let (mut house, _) = two_turns();
    let fork = fork_at(&mut house, "main", None);
    house.told();
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    assert_eq!(house.told(), "1 reply session/wait", "the fork does not work for it");
    house.ask(1, "session/close", Some("main"), json!({}));
    assert_eq!(house.told(), "1 session/removed main\n1 reply session/close");
    house.prompt(&fork, "still here");
    house.commit();
    assert!(house.told().contains(&format!("running {fork}")));
}

#[test]
fn a_fork_is_its_makers_or_the_hosts() {
    let (mut house, _) = two_turns();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.ask(2, "session/fork", Some("main"), json!({}));
    house.commit();
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    assert_eq!(house.quiesced, [(1, vec![])], "it does not wait for another's fork");
    assert_eq!(house.router.live_sessions(), 1);
    house.happen(Event::Disconnected { connection: ConnectionId(2) });
    assert_eq!(house.router.live_sessions(), 0);

    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    house.ask(1, "session/open", Some("kept"), json!({ "want": "new", "owner": "host" }));
    house.prompt("kept", "one");
    house.commit();
    house.answer("one");
    house.commit();
    house.ask(1, "session/fork", Some("kept"), json!({}));
    house.commit();
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    assert_eq!(house.router.live_sessions(), 2);
}

#[test]
fn a_fork_whose_maker_leaves_is_not_made() {
    // While the source is read, and while the new id is claimed.
    for answered in 0..2 {
        let (mut house, _) = two_turns();
        house.held = Some(VecDeque::new());
        house.ask(1, "session/fork", Some("main"), json!({}));
        for _ in 0..answered {
            let event = house.held.as_mut().and_then(VecDeque::pop_front).unwrap();
            house.happen(event);
        }
        house.happen(Event::Disconnected { connection: ConnectionId(1) });
        house.answer_held();
        house.commit();
        assert_eq!(house.router.live_sessions(), 0);
        assert_eq!(house.claimed.len(), 0, "answered {answered}");
    }
}

#[test]
fn the_host_does_not_end_while_a_fork_is_claimed() {
    let (mut house, _) = two_turns();
    house.held = Some(VecDeque::new());
    house.ask(1, "session/fork", Some("main"), json!({}));
    let event = house.held.as_mut().and_then(VecDeque::pop_front).unwrap();
    house.happen(event);
    house.happen(Event::Shutdown);
    house.commit();
    assert_eq!(house.quiet, None);
    house.answer_held();
    assert_eq!(house.quiet, Some(vec![]));
    assert!(
        house.told().ends_with("failure session/fork shutting-down: the host is shutting down")
    );
}

#[test]
fn a_source_that_leaves_meanwhile_is_only_read() {
    let (mut house, _) = two_turns();
    house.held = Some(VecDeque::new());
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.ask(1, "session/close", Some("main"), json!({}));
    house.answer_held();
    house.commit();
    let told = house.told();
    assert!(told.starts_with("1 session/removed main\n1 reply session/close"), "{told}");
    assert!(told.ends_with("1 reply session/fork"), "{told}");
}

#[test]
fn a_fork_takes_a_place_of_the_door() {
    let mut house = House::new();
    house.connect(1, Facts { sessions_max: 2, ..facts(Reach::Owned) });
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.prompt("main", "one");
    house.commit();
    house.answer("one");
    house.commit();
    house.held = Some(VecDeque::new());
    house.told();
    // Both find a place, but only one takes it.
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.answer_held();
    house.commit();
    let full = "overloaded: door sdk has 2 live sessions, the most it may have";
    assert_eq!(house.told(), format!("1 failure session/fork {full}\n1 reply session/fork"));
    house.ask(1, "session/fork", Some("main"), json!({}));
    assert_eq!(house.told(), format!("1 failure session/fork {full}"));
}

#[test]
fn a_store_that_cannot_read_or_claim_makes_no_fork() {
    let (mut house, _) = two_turns();
    house.no_claims = true;
    house.ask(1, "session/fork", Some("main"), json!({}));
    assert_eq!(house.told(), "1 failure session/fork store-failed: no disk");
    house.no_claims = false;
    let log = mem::take(&mut house.log);
    house.ask(1, "session/fork", Some("main"), json!({}));
    assert!(
        house.told().starts_with("1 failure session/fork store-failed: the session log holds 0")
    );
    house.log = log;
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.fail_commit();
    assert!(house.told().contains("1 failure session/fork store-failed"));
    assert_eq!(house.router.live_sessions(), 1, "nothing is left of it");
}

#[test]
fn a_fork_of_an_older_place_is_not_wider_than_a_ceiling_that_is_named() {
    // P-35: its source may have been narrowed since.
    let (mut house, [first, _]) = two_turns();
    house.router.host.kept_mode_max = Mode::ReadOnly;
    let fork = fork_at(&mut house, "main", Some(first));
    let last = texts(&house, &fork).pop().unwrap();
    assert!(last.contains(r#""type":"sandbox/mode""#) && last.contains("read-only"), "{last}");
}
