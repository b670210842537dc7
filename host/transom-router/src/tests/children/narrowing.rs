//! A child never does more than its parent may at that moment (P-23, P-35): switches, births and returns.

use transom_harness::permissions::Access;

use super::*;

impl House {
    fn switch(&mut self, session: &str, preset: &str) -> String {
        self.told();
        if session != "main" {
            // Children are no session of the first connection's own.
            self.connect(2, facts(Reach::All));
        }
        let me = if session == "main" { 1 } else { 2 };
        self.ask(me, "session/permissions", Some(session), json!({ "set": preset }));
        self.commit();
        self.told()
    }

    fn mode(&self, session: &str) -> Mode {
        self.router.sessions[&SessionId::from(session)].agent.access().mode
    }

    /// Modes that the log of a session has, with who has set them.
    fn modes(&self, session: &str) -> Vec<Value> {
        let of = self.log.iter().filter(|append| append.session.as_str() == session);
        of.filter(|append| &*append.kind == "sandbox/mode")
            .map(|append| serde_json::from_str::<Value>(&append.text).unwrap()["data"].clone())
            .collect()
    }

    /// `main` and its stored child, continued by a host that keeps no wider mode than this.
    fn kept_to(kept_mode_max: Mode) -> (House, String) {
        let (mut house, child) = House::keeping();
        house.says(&child, "done");
        house.says("main", "well");
        house.says("main", "noted");
        house.ask(1, "session/close", Some("main"), json!({}));
        house.commit();
        house.commit();
        house.keep_stored();
        house.router.host.kept_mode_max = kept_mode_max;
        house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
        house.commit();
        house.told();
        (house, child)
    }
}

fn handed_on(mode: &str) -> Value {
    json!({ "mode": mode, "source": "delegation" })
}

#[test]
fn p23_a_parent_that_becomes_narrower_takes_its_whole_tree_along() {
    let (mut house, child) = House::keeping();
    let grandchild = house.keep(8, &child);
    let told = house.switch("main", "workspace-write");
    let of = |session: &str| format!("1 event {session}");
    let at = |session: &str| told.find(&of(session)).unwrap_or_else(|| panic!("{session}: {told}"));
    assert!(at("main") < at(&child) && at(&child) < at(&grandchild), "{told}");
    for below in [&child, &grandchild] {
        assert_eq!(house.modes(below), [handed_on("workspace-write")]);
    }

    // Wider it does not become by that, and what is narrower stays so.
    house.switch(&grandchild, "read-only");
    house.switch("main", "danger-full-access");
    assert_eq!(house.mode("main"), Mode::DangerFullAccess);
    assert_eq!(house.mode(&child), Mode::WorkspaceWrite);
    house.switch(&child, "read-only");
    house.switch("main", "read-only");
    assert_eq!(house.modes(&child).last().unwrap(), &json!({ "mode": "read-only" }));
    assert_eq!(house.modes(&grandchild).len(), 2, "nothing to narrow");
}

#[test]
fn p35_a_door_does_not_switch_a_child_beyond_its_parent() {
    let (mut house, child) = House::keeping();
    house.switch("main", "workspace-write");
    let told = house.switch(&child, "danger-full-access");
    assert!(told.contains("wider than \"workspace-write\""), "{told}");
    house.switch(&child, "read-only");
    house.switch(&child, "workspace-write");
    assert_eq!(house.mode(&child), Mode::WorkspaceWrite, "as far as its parent may");
    assert_eq!(house.body(2, "session/permissions")["ceiling"], "workspace-write");
}

#[test]
fn p23_a_child_is_born_no_wider_than_its_parent_is_by_then() {
    let mut house = House::parent(AgentConfig::default());
    let delegation = Delegation {
        parent: "main".into(),
        description: "look".to_owned(),
        prompt: "look closely".to_owned(),
        access: Access::FULL,
        directory: Some("/host".into()),
        nature: Nature { continuable: true, ..Nature::default() },
    };
    house.held = Some(VecDeque::new());
    house.happen(Event::Delegate { run: RunId(7), delegation });
    house.switch("main", "read-only");
    house.answer_held();
    house.commit();
    let child = house.child(7);
    assert_eq!(house.modes(&child), [handed_on("read-only")]);
}

#[test]
fn p23_a_child_that_comes_back_is_no_wider_than_its_parent_is_by_then() {
    let (mut house, child) = House::continued();
    house.switch("main", "read-only");
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    assert_eq!(house.mode(&child), Mode::ReadOnly);
    assert_eq!(house.modes(&child), [handed_on("read-only")]);
}

#[test]
fn p35_what_comes_from_the_store_keeps_to_a_ceiling_that_is_named() {
    let (mut house, child) = House::kept_to(Mode::WorkspaceWrite);
    assert_eq!(house.modes("main"), [json!({ "mode": "workspace-write" })], "as by a switch");
    house.router.host.kept_mode_max = Mode::ReadOnly;
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    assert_eq!(house.modes(&child), [handed_on("read-only")]);

    let (house, _) = House::kept_to(Mode::DangerFullAccess);
    assert_eq!(house.modes("main"), [Value::Null; 0], "P-10: new defaults touch nothing stored");
}
