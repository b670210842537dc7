//! Where sessions really work: looked at once, held from then on (P-5).

use transom_harness::{
    permissions::rules::Pattern,
    subagents::{ChildCode, ChildOrder},
};

use super::*;

/// The model of a session that runs calls a tool. Gives the directory and the root that the call has.
fn place(house: &mut House, session: &str) -> (String, Option<String>) {
    house.call(&[("c", "bash")]);
    house.commit();
    let (called, cwd, root) = house.judged.pop().unwrap();
    assert_eq!(called.as_str(), session);
    (cwd.unwrap(), root)
}

fn at(cwd: &str, root: &str) -> (String, Option<String>) {
    (cwd.to_owned(), Some(root.to_owned()))
}

/// A host whose `/w` leads to `/real`, with a session there.
fn linked(host: HostFacts) -> House {
    let mut house = House::of(host, AgentConfig::default());
    house.leads.insert("/w".to_owned(), "/real".to_owned());
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house.ask(1, "session/open", Some("main"), json!({ "want": "new", "cwd": "/w" }));
    house.told();
    house
}

fn turn(house: &mut House, session: &str) {
    house.prompt(session, "go");
    house.commit();
}

#[test]
fn a_session_is_held_to_where_its_directory_stood() {
    let mut house = linked(host());
    assert_eq!(house.body(1, "session/open")["cwd"], "/w", "peers are told what they have said");
    // Commands of another session may put a link in its place before the first call.
    house.leads.insert("/w".to_owned(), "/etc".to_owned());
    turn(&mut house, "main");
    assert_eq!(place(&mut house, "main"), at("/w", "/real"));

    // One that works for it stands where it stands.
    house.delegate(7, "main");
    house.commit();
    let child = house.child(7);
    assert_eq!(place(&mut house, &child), at("/w", "/real"));
}

#[test]
fn a_fork_stands_where_its_source_stood() {
    let mut house = linked(host());
    turn(&mut house, "main");
    house.answer("one");
    house.commit();
    for leads in ["/etc", "/missing"] {
        house.leads.insert("/w".to_owned(), leads.to_owned());
        house.told();
        house.ask(1, "session/fork", Some("main"), json!({}));
        house.commit();
        let told = house.told();
        let (_, fork) = told.lines().find_map(|line| line.split_once("session/added ")).unwrap();
        turn(&mut house, fork);
        assert_eq!(place(&mut house, fork), at("/w", "/real"), "{leads}");
    }
    // It was elsewhere at the time of the cut, so it is looked at there.
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/x" }));
    house.commit();
    house.leads.insert("/w".to_owned(), "/later".to_owned());
    house.told();
    house.ask(1, "session/fork", Some("main"), json!({ "atSeq": 2 }));
    house.commit();
    let told = house.told();
    let (_, fork) = told.lines().find_map(|line| line.split_once("session/added ")).unwrap();
    turn(&mut house, fork);
    assert_eq!(place(&mut house, fork), at("/w", "/later"));
}

#[test]
fn a_directory_that_is_set_is_looked_at_and_held_in_one_step() {
    let workspaces = ["/real", "/srv/*"].map(Pattern::new).to_vec();
    let mut house = linked(HostFacts { workspaces, ..host() });
    house.leads.insert("/y".to_owned(), "/srv/y".to_owned());
    house.leads.insert("/srv/out".to_owned(), "/etc".to_owned());
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/srv/out" }));
    let told = house.told();
    assert!(told.contains("denied: directory \"/etc\""), "{told}");
    turn(&mut house, "main");
    assert_eq!(place(&mut house, "main"), at("/w", "/real"), "nothing has changed");
    house.tool(ToolOutcome::text("done"));
    house.commit();

    house.ask(1, "session/directory", Some("main"), json!({ "set": "/y" }));
    house.commit();
    assert_eq!(house.body(1, "session/directory")["cwd"], "/y");
    house.leads.insert("/y".to_owned(), "/etc".to_owned());
    assert_eq!(place(&mut house, "main"), at("/y", "/srv/y"));
    house.tool(ToolOutcome::text("done"));
    house.commit();
    // Only asking where it is changes nothing.
    house.ask(1, "session/directory", Some("main"), json!({}));
    house.commit();
    assert_eq!(place(&mut house, "main"), at("/y", "/srv/y"));
}

#[test]
fn a_session_that_is_gone_on_with_stands_where_its_directory_stands_now() {
    let mut first = linked(host());
    first.ask(1, "session/directory", Some("main"), json!({ "set": "/y" }));
    first.commit();
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    let header = first.log[0].header.to_string();
    let events = first.log.len() as u64;
    house.stored.push(StoredSession { id: "main".into(), header, events, updated_at: 1 });
    house.log.clone_from(&first.log);
    house.leads.insert("/y".to_owned(), "/srv/y".to_owned());
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
    turn(&mut house, "main");
    assert_eq!(place(&mut house, "main"), at("/y", "/srv/y"));
}

/// `main` in `/w`, continued, with a child of its earlier life in the store. A link was put in the place of `/w` since
/// `main` was given it.
fn with_stored_child() -> (House, String) {
    let mut house = linked(host());
    turn(&mut house, "main");
    let delegation = Delegation {
        parent: "main".into(),
        description: "look".to_owned(),
        prompt: "look closely".to_owned(),
        access: Access::FULL,
        directory: Some("/host".into()),
        nature: Nature { continuable: true, ..Nature::default() },
    };
    house.happen(Event::Delegate { run: RunId(7), delegation });
    house.commit();
    let child = house.child(7);
    house.ask(1, "session/close", Some("main"), json!({}));
    for _ in 0..3 {
        house.commit();
    }
    assert_eq!(house.router.live_sessions(), 0);
    house.keep_stored();
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
    house.commit();
    house.leads.insert("/w".to_owned(), "/etc".to_owned());
    (house, child)
}

fn write(house: &mut House, child: &str) -> Result<Obeyed, ChildCode> {
    let order = OrderId(1000);
    let wanted = ChildOrder::Message { child: child.into(), text: "and now?".to_owned() };
    house.happen(Event::Order { order, session: "main".into(), wanted });
    house.commit();
    let (_, result) = house.ordered.pop().unwrap();
    result.map_err(|refused| refused.code)
}

#[test]
fn p5_a_child_that_comes_back_stands_where_its_parent_stands() {
    let (mut house, child) = with_stored_child();
    assert_eq!(write(&mut house, &child), Ok(Obeyed::Done));
    assert_eq!(place(&mut house, &child), at("/w", "/real"));
}

#[test]
fn p5_a_child_that_stood_elsewhere_does_not_come_back() {
    let (mut house, child) = with_stored_child();
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/x" }));
    house.commit();
    assert_eq!(write(&mut house, &child), Err(ChildCode::NotResumable));
}

#[test]
fn a_session_may_be_opened_before_its_directory_is_there() {
    let mut house = House::new();
    house.connect(1, facts(Reach::Owned));
    house.ask(1, "session/open", Some("main"), json!({ "want": "new", "cwd": "/missing" }));
    turn(&mut house, "main");
    assert_eq!(place(&mut house, "main"), ("/missing".to_owned(), None));
}

#[test]
fn a_late_look_at_a_directory_is_not_for_another_life_of_the_session() {
    // Decision 17. What the other life waits for is its own as well.
    let mut house = House::with_session();
    house.connect(2, facts(Reach::Owned));
    house.held = Some(VecDeque::new());
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/late" }));
    let late = house.held.take().unwrap();
    house.connected.retain(|connection| *connection != 1);
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.commit();
    house.log.clear();
    house.ask(2, "session/open", Some("main"), json!({ "want": "new" }));
    house.held = Some(VecDeque::new());
    house.ask(2, "session/directory", Some("main"), json!({ "set": "/own" }));
    house.ask(2, "session/rename", Some("main"), json!({ "title": "t" }));
    house.told();
    for answer in late {
        house.happen(answer);
    }
    house.commit();
    assert_eq!(house.told(), "");
    assert_eq!(house.kinds("main"), [""; 0]);
    house.answer_held();
    house.commit();
    in_order(&house.told(), &["2 reply session/directory", "2 reply session/rename"]);
    assert_eq!(house.body(2, "session/directory")["cwd"], "/own");
}
