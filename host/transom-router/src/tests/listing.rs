//! What can be chosen from: sessions in lists, and models.

use transom_harness::catalogue::{Advertised, Catalogue, Group};

use crate::Settings;

use super::*;

/// Answers what a list asks of its driver. Session `x` is called `about x`.
pub(super) fn answer(house: &House, question: Question) -> Answer {
    match question {
        Question::Same { path, mut others } => {
            let leads = |path: &String| house.leads.get(path).unwrap_or(path).clone();
            let place = leads(&path);
            others.retain(|other| leads(other) == place);
            Answer::Same(others)
        }
        Question::Titles(sessions) => {
            let title = |id: &SessionId| {
                json!({ "data": { "title": format!("about {id}") } }).to_string().into()
            };
            Answer::Titles(Ok(sessions.iter().map(|id| Some(title(id))).collect()))
        }
        Question::Catalogue { door } => {
            let model = Advertised { id: door.to_string(), ..Advertised::default() };
            let group = Group { id: "p".into(), name: "P".into(), models: vec![model] };
            Answer::Catalogue(Catalogue { groups: vec![group], failures: Vec::new() })
        }
        other => panic!("{other:?} is no question of a list"),
    }
}

fn stored(house: &mut House, id: &str, header: Value) {
    let (id, header) = (id.into(), header.to_string());
    house.stored.push(StoredSession { id, header, events: 0, updated_at: 9 });
}

fn ids(body: &Value) -> Vec<String> {
    let items = body["items"].as_array().unwrap();
    items.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sessions_are_listed_newest_first_in_pages() {
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    for (id, created_at, updated_at) in [("a", 3, 1), ("b", 1, 3), ("c", 2, 2)] {
        let header = json!({ "createdAt": created_at, "cwd": "/w" }).to_string();
        house.stored.push(StoredSession { id: id.into(), header, events: 1, updated_at });
    }
    let page = |house: &mut House, body: Value| {
        house.ask(1, "session/list", None, body);
        let body: Value = serde_json::from_str(&house.frames.last().unwrap().1.body).unwrap();
        let ids: Vec<_> =
            body["items"].as_array().unwrap().iter().map(|row| row["sessionId"].clone()).collect();
        (ids, body["cursor"].clone())
    };
    assert_eq!(
        page(&mut house, json!({ "limit": 2 })),
        (vec![json!("b"), json!("c")], json!("2:c"))
    );
    assert_eq!(page(&mut house, json!({ "cursor": "2:c" })), (vec![json!("a")], Value::Null));
    assert_eq!(page(&mut house, json!({ "stored": false })), (vec![], Value::Null));
    let by_birth = json!({ "order": "created", "limit": 2 });
    assert_eq!(page(&mut house, by_birth), (vec![json!("a"), json!("c")], json!("2:c")));
    let next = json!({ "order": "created", "cursor": "2:c" });
    assert_eq!(page(&mut house, next), (vec![json!("b")], Value::Null));
}

#[test]
fn a_list_of_roots_has_forks_and_no_delegated_sessions() {
    //
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    let child = json!({ "createdAt": 1, "parentSession": "main", "origin": "subagent" });
    let fork = json!({ "createdAt": 2, "parentSession": "main", "seedLength": 3 });
    for (id, header) in [("child", child), ("fork", fork), ("main", json!({ "createdAt": 0 }))] {
        let (header, updated_at) = (header.to_string(), 1);
        house.stored.push(StoredSession { id: id.into(), header, events: 1, updated_at });
    }
    let mut ids = |body: Value| {
        house.ask(1, "session/list", None, body);
        let body: Value = serde_json::from_str(&house.frames.last().unwrap().1.body).unwrap();
        let rows = body["items"].as_array().unwrap();
        rows.iter().map(|row| row["sessionId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(json!({})), ["child", "fork", "main"]);
    assert_eq!(ids(json!({ "roots": true })), ["fork", "main"]);
}

#[test]
fn a_page_goes_on_behind_a_session_that_is_not_listed_any_more() {
    // it may have been gone on with meanwhile.
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    for (id, created_at) in [("a", 1), ("b", 2), ("d", 2)] {
        stored(&mut house, id, json!({ "createdAt": created_at }));
    }
    house.ask(1, "session/list", None, json!({ "order": "created", "cursor": "2:c" }));
    assert_eq!(ids(&house.body(1, "session/list")), ["d", "a"]);
    house.ask(1, "session/list", None, json!({ "cursor": "c" }));
    let text = "invalid: cursor \"c\" must be <time>:<session id>";
    assert_eq!(house.lines.last().unwrap(), &format!("1 failure session/list {text}"));
}

#[test]
fn a_list_is_of_one_directory_by_whatever_path_and_says_titles() {
    //
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    house.leads.insert("/link".into(), "/w".into());
    for (id, cwd) in [("here", "/w"), ("linked", "/link"), ("there", "/v")] {
        stored(&mut house, id, json!({ "createdAt": 1, "cwd": cwd }));
    }
    stored(&mut house, "nowhere", json!({ "createdAt": 1 }));
    house.ask(1, "session/list", None, json!({ "cwd": "/link" }));
    let body = house.body(1, "session/list");
    assert_eq!(ids(&body), ["here", "linked"]);
    assert_eq!(body["items"][0]["title"], "about here");
}

#[test]
fn only_who_owns_the_process_sees_what_nobody_has_open() {
    let mut house = House::new();
    stored(&mut house, "old", json!({ "createdAt": 1 }));
    house.connect(1, facts(Reach::Owned));
    house.connect(2, Facts { sees_stored: true, ..facts(Reach::Owned) });
    for (peer, expected) in [(1, &[][..]), (2, &["old".to_owned()])] {
        house.ask(peer, "session/list", None, json!({ "live": false }));
        assert_eq!(ids(&house.body(peer, "session/list")), expected);
    }
}

#[test]
fn a_session_is_gone_on_with_where_it_works_and_as_a_root() {
    //
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    house.leads.insert("/link".into(), "/w".into());
    stored(&mut house, "child", json!({ "id": "child", "origin": "subagent", "cwd": "/w" }));
    stored(&mut house, "main", json!({ "id": "main", "createdAt": 1, "cwd": "/w" }));
    let mut open = |id: &str, cwd: &str| {
        let body = json!({ "want": "stored", "cwd": cwd, "roots": true });
        house.ask(1, "session/open", Some(id), body);
        house.lines.last().unwrap().clone()
    };
    let text =
        "1 failure session/open not-resumable: session \"child\" is the child of another session";
    assert_eq!(open("child", "/w"), text);
    let text = "1 failure session/open session-conflict: session \"main\" works in /w, not in /v";
    assert_eq!(open("main", "/v"), text);
    assert!(
        open("main", "/link").starts_with("1 failure session/open not-resumable: "),
        "it is read"
    );
}

#[test]
fn models_are_listed_as_the_door_has_them_and_changes_are_told() {
    // B-132, A-114.
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    house.connect(2, facts(Reach::Owned));
    let topics = json!({ "scope": "owned", "topics": ["models"] });
    house.ask(1, "events/subscribe", None, topics);
    house.ask(1, "models/list", None, json!({}));
    let expected = json!({
        "groups": [{ "id": "p", "name": "P", "models": [{ "id": "sdk", "name": "" }] }],
        "failures": [],
    });
    assert_eq!(house.body(1, "models/list"), expected);
    house.told();
    let HostFacts { route, ceiling, kept_mode_max, workspaces, .. } = host();
    let config = AgentConfig::default();
    house.happen(Event::Configured(Settings { route, ceiling, kept_mode_max, workspaces, config }));
    assert_eq!(house.told(), "1 models/changed");
}

#[test]
fn a_prompt_brings_its_route_along() {
    // Decision 48.
    let mut house = House::with_session();
    let route = |house: &mut House| {
        let session = house.router.sessions.get(&SessionId::from("main")).unwrap();
        session.agent.route().clone()
    };
    house.prompt("main", "first");
    house.commit();
    assert_eq!(route(&mut house).model.as_deref(), Some("m"));
    let content = json!([{ "type": "text", "text": "second" }]);
    let wanted = json!({ "provider": "p", "model": "other", "reasoningEffort": "max" });
    house.ask(1, "session/prompt", Some("main"), json!({ "content": content, "route": wanted }));
    house.commit();
    assert_eq!(
        route(&mut house).model.as_deref(),
        Some("m"),
        "the turn under way goes on as it is"
    );
    house.answer("done");
    house.commit();
    let after = route(&mut house);
    assert_eq!(after.model.as_deref(), Some("other"));
    assert_eq!(after.reasoning_effort.as_deref(), Some("max"));
}
