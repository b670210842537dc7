//! Which requests are answered how, and who may ask for what.

use super::*;

/// Sends a request from connection 1 and checks the one line that comes back.
fn check(house: &mut House, name: &str, session: Option<&str>, body: Value, expected: &str) {
    house.ask(1, name, session, body);
    assert_eq!(house.told(), format!("1 {expected}"), "{name}");
}

#[test]
fn a_body_of_the_wrong_shape_is_refused_with_what_is_wrong() {
    let mut house = House::with_session();
    for (name, body, expected) in [
        ("session/prompt", json!({}), "body of session/prompt: missing field `content`"),
        (
            "session/prompt",
            json!({ "content": "hi" }),
            "content: invalid type: string \"hi\", expected a sequence",
        ),
        (
            "session/prompt",
            json!({ "content": [{}] }),
            "content: a content block must be an object with a string `type`",
        ),
        (
            "session/prompt",
            json!({ "content": [], "mood": 1 }),
            "body of session/prompt: unknown field `mood`",
        ),
        (
            "session/cancel",
            json!({ "inbox": "burn" }),
            "body of session/cancel: unknown variant `burn`",
        ),
        ("host/shutdown", json!({ "now": true }), "body of host/shutdown: unknown field `now`"),
    ] {
        house.ask(1, name, Some("main"), body.clone());
        let told = house.told();
        assert!(
            told.starts_with(&format!("1 failure {name} invalid: {expected}")),
            "{body}: {told}"
        );
    }
}

#[test]
fn an_unknown_frame_is_named() {
    let mut house = House::with_session();
    check(
        &mut house,
        "session/fry",
        Some("main"),
        json!({}),
        "failure session/fry unknown-frame: the host has no frame \"session/fry\"",
    );
}

#[test]
fn an_id_is_opened_once() {
    // S-123, L-3.
    let mut house = House::with_session();
    let expected = "failure session/open session-exists: session \"main\" already exists";
    check(&mut house, "session/open", Some("main"), json!({ "want": "new" }), expected);
    house.stored.push(StoredSession {
        id: "old".into(),
        header: "{}".to_owned(),
        events: 3,
        updated_at: 9,
    });
    let expected = "failure session/open session-exists: session \"old\" already exists";
    check(&mut house, "session/open", Some("old"), json!({ "want": "new" }), expected);
    let expected = "failure session/open session-not-found: session \"none\" not found";
    check(&mut house, "session/open", Some("none"), json!({ "want": "stored" }), expected);
}

#[test]
fn a_directory_of_a_session_is_absolute() {
    let mut house = House::with_session();
    let expected =
        "failure session/open invalid: session header cwd must be an absolute path, got \"here\"";
    check(&mut house, "session/open", Some("x"), json!({ "want": "new", "cwd": "here" }), expected);
}

#[test]
fn the_host_mints_what_nobody_named() {
    let mut house = House::with_session();
    house.ask(1, "session/open", None, json!({ "want": "new", "mint": "session-uuid" }));
    let (_, frame) = house.frames.last().unwrap();
    let id = frame.session.as_ref().unwrap().as_str();
    assert_eq!((id.len(), &id[..8]), (44, "session-"));
    house.told();
    house.ask(1, "session/open", None, json!({ "want": "new" }));
    assert_eq!(
        house.told(),
        "1 failure session/open invalid: session/open needs a session in the frame, or `mint`"
    );
}

#[test]
fn what_is_asked_of_a_session_that_opens_waits_for_it() {
    // S-121, S-122: here the lookup fails, and everybody who shares it is told.
    let mut house = House::with_session();
    house.stored.push(StoredSession {
        id: "old".into(),
        header: "{}".to_owned(),
        events: 1,
        updated_at: 1,
    });
    let mut effects = Vec::new();
    let open = Frame::request("session/open", Some("old".into()), "a".into(), r#"{"want":"new"}"#);
    let prompt =
        Frame::request("session/prompt", Some("old".into()), "b".into(), r#"{"content":[]}"#);
    for frame in [open, prompt] {
        house.router.handle(&mut effects, 1, Event::Frame { connection: ConnectionId(1), frame });
    }
    for effect in effects {
        if let Some(event) = house.perform(effect) {
            house.happen(event);
        }
    }
    let expected = "\
1 failure session/open session-exists: session \"old\" already exists
1 failure session/prompt session-exists: session \"old\" already exists";
    assert_eq!(house.told(), expected);
}

#[test]
fn a_connection_reaches_what_it_opened_and_nothing_else() {
    // Decision 16: an id is no key to another's session.
    let mut house = House::with_session();
    house.connect(2, facts(Reach::Owned));
    house.watch(2, "all");
    let hidden = "2 failure session/prompt session-not-found: session \"main\" not found";
    house.prompt_from(2, "main", "let me in");
    assert_eq!(house.told(), hidden);
    house.ask(2, "session/open", Some("main"), json!({ "want": "any" }));
    assert!(house.told().starts_with("2 failure session/open session-not-found"));
    house.ask(2, "session/open", Some("x"), json!({ "want": "new", "owner": "host" }));
    assert!(house.told().starts_with("2 failure session/open denied"));
    house.prompt("main", "mine");
    house.commit();
    let told = house.told();
    assert!(told.lines().all(|line| line.starts_with("1 ")), "{told}");
}

#[test]
fn a_native_peer_may_join_a_session_of_somebody_else() {
    let mut house = House::with_session();
    house.connect(2, facts(Reach::All));
    house.watch(2, "all");
    house.ask(2, "session/open", Some("main"), json!({ "want": "any" }));
    assert_eq!(house.told(), "2 reply session/open");
    house.prompt_from(2, "main", "hello");
    house.commit();
    let told = house.told();
    assert!(told.contains("1 event main 0") && told.contains("2 event main 0"), "{told}");
}

#[test]
fn a_door_has_room_for_so_many_sessions() {
    let mut house = House::new();
    house.connect(1, Facts { sessions_max: 1, ..facts(Reach::Owned) });
    house.ask(1, "session/open", Some("a"), json!({ "want": "new" }));
    house.told();
    let expected =
        "failure session/open overloaded: door sdk has 1 live sessions, the most it may have";
    check(&mut house, "session/open", Some("b"), json!({ "want": "new" }), expected);
}

#[test]
fn a_directory_is_set_lexically_and_told_to_the_model() {
    // S-63.
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house.ask(1, "session/open", Some("main"), json!({ "want": "new", "cwd": "/a/b" }));
    house.told();
    house.ask(1, "session/directory", Some("main"), json!({ "set": "../c/./d" }));
    house.commit();
    let told = house.told();
    assert!(told.contains("event main 0 working-directory/change"), "{told}");
    let (_, frame) = house.frames.last().unwrap();
    assert_eq!(&*frame.body, r#"{"cwd":"/a/c/d"}"#);
    house.ask(1, "session/directory", Some("main"), json!({ "set": "missing" }));
    let expected = "1 failure session/directory invalid: working-directory: directory does not exist: \"missing\"";
    assert_eq!(house.told(), expected);
    house.ask(1, "session/directory", Some("main"), json!({}));
    assert_eq!(&*house.frames.last().unwrap().1.body, r#"{"cwd":"/a/c/d"}"#);
}

#[test]
fn a_closed_session_is_gone_for_everybody() {
    // Decision 17.
    let mut house = House::with_session();
    house.ask(1, "session/close", Some("main"), json!({}));
    assert_eq!(house.told(), "1 session/removed main\n1 reply session/close");
    let expected = "1 failure session/prompt session-disposed: session \"main\" was disposed";
    house.prompt("main", "hello?");
    assert_eq!(house.told(), expected);
}

/// A session that another process has stored: one finished turn.
fn stored_before() -> House {
    let mut first = House::with_session();
    first.prompt("main", "hi");
    first.commit();
    first.answer("hello");
    first.commit();
    let mut house = House::new();
    let header = first.log[0].header.to_string();
    let events = first.log.len() as u64;
    house.stored.push(StoredSession { id: "main".into(), header, events, updated_at: 1000 });
    house.log = first.log.clone();
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house
}

#[test]
fn a_stored_session_goes_on_behind_its_history() {
    // S-61, L-80, decision 79: history and seed are not announced, numbers go on.
    let mut house = stored_before();
    let before = house.log.len();
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored", "route": {} }));
    assert_eq!(house.told(), "", "the seed is not durable yet");
    house.commit();
    assert_eq!(house.told(), "1 session/added main\n1 reply session/open");
    let reply: Value = serde_json::from_str(&house.frames.last().unwrap().1.body).unwrap();
    assert_eq!(reply["created"], false);
    assert_eq!(reply["lastSeq"], json!(before), "the seed's own number");
    house.prompt("main", "again");
    house.commit();
    let told = house.told();
    assert!(
        told.starts_with(&format!("1 event main {} agent/inbox/spliced", before + 1)),
        "{told}"
    );
}

#[test]
fn a_session_that_is_live_elsewhere_is_left_alone() {
    // L-82.
    let mut house = stored_before();
    house.elsewhere.push("main".into());
    let text = "cannot prepare session \"main\" while it is live in another process";
    let expected = format!("failure session/open session-live: {text}");
    check(&mut house, "session/open", Some("main"), json!({ "want": "stored" }), &expected);
    let expected = "failure session/open session-exists: session \"main\" already exists";
    check(&mut house, "session/open", Some("main"), json!({ "want": "new" }), expected);
}

#[test]
fn a_damaged_log_is_not_continued_and_says_where() {
    let mut house = stored_before();
    house.log[2].text = "{".into();
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
    let told = house.told();
    let expected = "1 failure session/open not-resumable: corrupt session log: unparsable committed event at seq 2";
    assert!(told.starts_with(expected), "{told}");
    assert!(house.done().ends_with("release main"), "and it is nobody's again");
    house.stored[0].events += 1;
    house.ask(1, "session/open", Some("main"), json!({ "want": "any" }));
    assert!(house.told().contains("events of session \"main\" are there where"));
}

#[test]
fn a_connection_has_so_many_subscriptions() {
    let mut house = House::with_session();
    for _ in 1..64 {
        house.watch(1, "owned");
    }
    let expected = "failure events/subscribe overloaded: a connection has 64 subscriptions at most";
    check(
        &mut house,
        "events/subscribe",
        None,
        json!({ "scope": "owned", "topics": [] }),
        expected,
    );
}

#[test]
fn the_operators_model_answers_where_a_request_names_none() {
    // `[model] provider` and `model` of the manifest.
    let mut house = House::with_session();
    for (asked, expected) in [
        (json!({}), json!({ "provider": "p", "model": "m" })),
        (json!({ "model": "n" }), json!({ "provider": "p", "model": "n" })),
        (json!({ "provider": "p" }), json!({ "provider": "p", "model": "m" })),
        // Its name would mean nothing there.
        (json!({ "provider": "q" }), json!({ "provider": "q" })),
    ] {
        let body = json!({ "want": "new", "mint": "uuid", "route": asked });
        house.ask(1, "session/open", None, body);
        let reply: Value = serde_json::from_str(&house.frames.last().unwrap().1.body).unwrap();
        assert_eq!(reply["route"], expected, "{asked}");
    }
}

#[test]
fn a_connection_remembers_so_many_sessions_that_are_gone() {
    // Decision 17, within a bound.
    let mut house = House::new();
    house.connect(1, Facts { live_notices_max: 10_000, ..facts(Reach::Owned) });
    house.ask(1, "session/open", Some("kept"), json!({ "want": "new" }));
    for session in 0..1_100 {
        let id = format!("s{session}");
        house.ask(1, "session/open", Some(&id), json!({ "want": "new" }));
        house.ask(1, "session/close", Some(&id), json!({}));
        house.happen(Event::Handled { connection: ConnectionId(1), frames: 2 });
    }
    house.told();
    for (id, expected) in [
        ("s0", "failure session/describe session-not-found: session \"s0\" not found"),
        ("s1099", "failure session/describe session-disposed: session \"s1099\" was disposed"),
        ("kept", "reply session/describe"),
    ] {
        check(&mut house, "session/describe", Some(id), json!({}), expected);
    }
}
