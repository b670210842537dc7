//! Children that outlive their task: further messages, reports, interrupts, the notice of P-80, and every code of
//! L-72.

mod narrowing;
mod settling;

use transom_harness::{
    chunk::LlmFailure,
    hooks::{HookAnswer, HookPoints, StepVerdict, Verdict},
    jobs::{JobCause, JobChange, JobKind, JobStatus},
    ports::StartedJob,
    subagents::{ChildCode, ChildOrder, ChildState, ToolFilter},
};

use super::*;

impl House {
    /// A session `main` whose turn waits for a call of `subagent`.
    fn parent(config: AgentConfig) -> House {
        let mut house = House::with(config);
        house.connect(1, facts(Reach::Owned));
        house.watch_all(1, "owned", None);
        house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
        house.prompt("main", "go");
        house.commit();
        house.call(&[("c", "subagent")]);
        house.commit();
        house
    }

    /// The same where hooks have let the first step begin.
    fn parent_with_hooks(config: AgentConfig) -> House {
        let mut house = House::with(config);
        house.connect(1, facts(Reach::Owned));
        house.watch_all(1, "owned", None);
        house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
        house.prompt("main", "go");
        house.commit();
        house.hooked(Verdict::Step(StepVerdict::Proceed { contexts: Vec::new() }));
        house.commit();
        house.call(&[("c", "subagent")]);
        house.commit();
        house
    }

    /// Hooks answer what they were asked last.
    fn hooked(&mut self, verdict: Verdict) {
        let (session, token) = self.hooks.pop().unwrap();
        let answer = HookAnswer { verdict, reports: Vec::new() };
        self.happen(Event::Happened { session, happened: Happened::Hooked(token, answer) });
    }

    /// A call of `parent` starts a child that lives on. Gives its id.
    fn keep(&mut self, run: u64, parent: &str) -> String {
        self.keep_as(run, parent, Nature { continuable: true, ..Nature::default() });
        self.child(run)
    }

    fn keep_as(&mut self, run: u64, parent: &str, nature: Nature) {
        let delegation = Delegation {
            parent: parent.into(),
            description: "look".to_owned(),
            prompt: "look closely".to_owned(),
            access: Access::FULL,
            directory: Some("/host".into()),
            nature,
        };
        self.happen(Event::Delegate { run: RunId(run), delegation });
        self.commit();
    }

    /// `main` with a child that works. `main`'s call has its result, and its model is asked.
    fn keeping() -> (House, String) {
        House::keeping_with(AgentConfig::default())
    }

    fn keeping_with(config: AgentConfig) -> (House, String) {
        let mut house = House::parent(config);
        let child = house.keep(7, "main");
        house.tool_of("main", ToolOutcome::text("started"));
        house.commit();
        house.told();
        (house, child)
    }

    /// The model of a session says `text` and stops.
    fn says(&mut self, session: &str, text: &str) {
        // Of those that were stopped nobody hears.
        let at = self.calls.iter().rposition(|(of, _)| of.as_str() == session).unwrap();
        let (session, token) = self.calls.remove(at);
        for chunk in [
            Chunk::TextDelta { index: 0, text: text.to_owned() },
            Chunk::Finish { reason: Finish::Stop },
        ] {
            let happened = Happened::Chunk(token, chunk);
            self.happen(Event::Happened { session: session.clone(), happened });
        }
        self.commit();
    }

    /// What an order comes to, at once or once what was kept back is answered.
    fn order(&mut self, session: &str, wanted: ChildOrder) -> Option<Result<Obeyed, ChildCode>> {
        self.next += 1;
        let order = OrderId(self.next);
        self.happen(Event::Order { order, session: session.into(), wanted });
        self.result(order)
    }

    fn result(&self, order: OrderId) -> Option<Result<Obeyed, ChildCode>> {
        let found = self.ordered.iter().find(|(of, _)| *of == order);
        found.map(|(_, result)| result.clone().map_err(|refused| refused.code))
    }

    fn write(&mut self, parent: &str, child: &str) -> Option<Result<Obeyed, ChildCode>> {
        let text = "and now?".to_owned();
        self.order(parent, ChildOrder::Message { child: child.into(), text })
    }

    fn interrupt(&mut self, caller: &str, agent: &str) -> Option<Result<Obeyed, ChildCode>> {
        self.order(caller, ChildOrder::Interrupt { agent: agent.into() })
    }

    fn report(&mut self, child: &str) -> Option<Result<Obeyed, ChildCode>> {
        self.order(child, ChildOrder::Report { text: "half way".to_owned() })
    }

    /// `main` is closed, with its children, and continued.
    fn continued() -> (House, String) {
        let (mut house, child) = House::keeping();
        house.says(&child, "done");
        house.says("main", "well");
        house.says("main", "noted");
        house.ask(1, "session/close", Some("main"), json!({}));
        house.commit();
        house.commit();
        assert_eq!(house.router.live_sessions(), 0);
        house.keep_stored();
        house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
        house.commit();
        house.told();
        (house, child)
    }

    /// First sentences of the notices that `main` was given.
    fn settled(&self) -> Vec<String> {
        let all = self.spliced("main").into_iter();
        all.filter(|(_, message)| message["source"]["kind"] == "subagent-settled")
            .map(|(_, message)| message["content"][0]["text"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The model of a session calls a tool, which starts a job.
    fn starts_job(&mut self, session: &str, id: &str) {
        let at = self.calls.iter().rposition(|(of, _)| of.as_str() == session).unwrap();
        let call = self.calls.remove(at);
        self.calls.push(call);
        self.call(&[(id, "bash")]);
        self.commit();
        let job = StartedJob {
            id: id.to_owned(),
            kind: JobKind::Bash,
            label: "make".to_owned(),
            started_at: 1,
        };
        self.tool_of(session, ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
        self.commit();
    }

    fn ends_job(&mut self, session: &str, id: &str) {
        let change = JobChange::Ended {
            id: id.to_owned(),
            status: JobStatus::Completed,
            detail: None,
            finished_at: 2,
            cause: JobCause::Producer,
            reported: false,
        };
        self.happen(Event::Happened { session: session.into(), happened: Happened::Job(change) });
        self.commit();
    }

    /// The model of a session fails.
    fn fails(&mut self, session: &str) {
        let at = self.calls.iter().rposition(|(of, _)| of.as_str() == session).unwrap();
        let (session, token) = self.calls.remove(at);
        let reason = Finish::Error { failure: LlmFailure::new("AUTH", "no key") };
        let happened = Happened::Chunk(token, Chunk::Finish { reason });
        self.happen(Event::Happened { session, happened });
        self.commit();
    }

    /// Messages of a session's inbox splices: target and kind of source.
    fn spliced(&self, session: &str) -> Vec<(String, Value)> {
        let of = self.log.iter().filter(|append| append.session.as_str() == session);
        let splices = of.filter(|append| &*append.kind == "agent/inbox/spliced");
        let data = splices.map(|append| {
            let event: Value = serde_json::from_str(&append.text).unwrap();
            event["data"].clone()
        });
        data.flat_map(|data| {
            let target = data["target"].as_str().unwrap().to_owned();
            let inserted = data["inserted"].as_array().unwrap().clone();
            inserted.into_iter().map(move |message| (target.clone(), message))
        })
        .collect()
    }
}

#[test]
fn l72_a_child_lives_on_and_takes_a_second_message() {
    let mut house = House::parent(AgentConfig::default());
    let child = house.keep(7, "main");
    assert_eq!(house.delegated.last().unwrap().1, DelegationEvent::Kept);
    let kinds = house.kinds("main");
    assert_eq!(kinds.last().unwrap(), "subagent/catalog", "before the call's result");
    house.tool_of("main", ToolOutcome::text("started"));
    house.commit();
    house.says("main", "it works on it");
    house.told();

    house.says(&child, "done");
    let told = house.told();
    // The notice stands before the end of the run is told, as in the recording `v0.2.1rc2.prompt-subagent`.
    let idle = format!("1 idle {child}");
    let splice = told.lines().find(|line| line.contains("event main") && line.contains("spliced"));
    let splice = splice.unwrap().to_owned();
    in_order(&told, &[&idle, &splice, "1 running main", "1 subagent/finished main completed"]);
    let (target, message) = house.spliced("main").pop().unwrap();
    assert_eq!(target, "next-turn", "P-80: an idle parent is woken");
    assert_eq!(message["source"]["kind"], "subagent-settled");
    assert_eq!(message["source"]["form"], "notice");
    assert_eq!(message["source"]["senderSessionId"], child);
    assert_eq!(message["content"][2]["text"], "done");
    house.says("main", "good");

    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    let (target, message) = house.spliced(&child).pop().unwrap();
    assert_eq!(target, "next-turn");
    let source = json!({ "kind": "coordinator", "form": "relay", "senderSessionId": "main" });
    assert_eq!(message["source"], source);
    house.told();
    house.says(&child, "done again");
    assert!(house.told().contains("1 subagent/finished main completed"), "S-78: each run its own");
    let (_, message) = house.spliced("main").pop().unwrap();
    assert_eq!(message["content"][2]["text"], "done again");
    let descriptors = house.kinds(&child);
    assert_eq!(descriptors.iter().filter(|kind| *kind == "subagent/descriptor").count(), 1);
}

#[test]
fn l72_unauthorized_is_whoever_is_not_above() {
    let (mut house, child) = House::keeping();
    house.ask(1, "session/open", Some("other"), json!({ "want": "new" }));
    house.commit();
    assert_eq!(house.write("other", &child), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(house.interrupt("other", &child), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(house.write("main", "nobody"), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(house.interrupt("main", "nobody"), Some(Err(ChildCode::Unauthorized)));
    assert_eq!(
        house.report("main"),
        Some(Err(ChildCode::Unauthorized)),
        "it has no parent to tell"
    );
    assert_eq!(house.order("other", ChildOrder::List), Some(Ok(Obeyed::Listed(Vec::new()))));
}

#[test]
fn l72_an_interrupt_ends_the_turn_and_keeps_the_inbox() {
    let (mut house, child) = House::keeping();
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    assert_eq!(house.interrupt("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    let told = house.told();
    assert!(told.contains(&format!("idle {child}")), "{told}");
    assert!(!told.contains("inbox/discarded"), "{told}");
    let waits = "and 1 message waits there until the next one is sent";
    let stopped = format!("subagent {child} was stopped, {waits}.");
    assert_eq!(house.settled(), [&*stopped], "P-80: what waits there wakes nobody");
    let Some(Ok(Obeyed::Listed(children))) = house.order("main", ChildOrder::List) else {
        panic!("a list")
    };
    assert_eq!((children[0].state, children[0].waiting), (ChildState::Idle, 1));
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    house.says(&child, "first");
    assert_eq!(house.settled().len(), 1);
    house.says(&child, "second");
    assert_eq!(house.settled(), [stopped, format!("subagent {child} has finished.")]);
    let ends = house
        .log
        .iter()
        .filter(|append| append.session.as_str() == child && &*append.kind == "turn/end");
    let reasons: Vec<Value> = ends
        .map(|append| {
            serde_json::from_str::<Value>(&append.text).unwrap()["data"]["reason"].clone()
        })
        .collect();
    assert_eq!(reasons[0], json!({ "kind": "aborted", "reason": { "kind": "parent" } }));
    assert_eq!(reasons.len(), 3);
}

#[test]
fn l72_a_report_reaches_the_parent_at_once() {
    let (mut house, child) = House::keeping();
    assert_eq!(house.report(&child), Some(Ok(Obeyed::Done)));
    let (target, message) = house.spliced("main").pop().unwrap();
    let source = json!({ "kind": "subagent-report", "form": "relay", "senderSessionId": child });
    assert_eq!((target.as_str(), &message["source"]), ("next-step", &source));
    house.commit();
    house.says("main", "well");
    house.says("main", "I wait");
    house.told();
    assert_eq!(house.report(&child), Some(Ok(Obeyed::Done)));
    house.commit();
    assert!(house.told().contains("1 running main"), "an idle parent is woken");
}

#[test]
fn l72_parent_unavailable_is_a_child_that_is_open_on_its_own() {
    let (mut house, child) = House::continued();
    house.ask(1, "session/open", Some(&child), json!({ "want": "stored" }));
    house.commit();
    assert_eq!(house.report(&child), Some(Err(ChildCode::ParentUnavailable)));
    assert_eq!(house.write("main", &child), Some(Err(ChildCode::NotResumable)));
}

#[test]
fn l72_a_child_of_an_earlier_life_comes_back() {
    let (mut house, child) = House::continued();
    let listed = house.order("main", ChildOrder::List);
    let Some(Ok(Obeyed::Listed(children))) = listed else { panic!("{listed:?}") };
    assert_eq!((children[0].child.as_str(), children[0].state), (&*child, ChildState::Stored));
    house.equipped.clear();
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    house.commit();
    assert_eq!(house.equipped.len(), 1);
    assert!(house.equipped[0].1.reports, "it can still report");
    let told = house.told();
    in_order(&told, &[&format!("1 session/added {child}"), &format!("1 running {child}")]);
    house.says(&child, "here I am");
    let (target, message) = house.spliced("main").pop().unwrap();
    assert_eq!(
        (target.as_str(), &message["content"][2]["text"]),
        ("next-turn", &json!("here I am"))
    );
    let kinds = house.kinds(&child);
    assert_eq!(kinds.iter().filter(|kind| *kind == "subagent/descriptor").count(), 1);
    house.says("main", "welcome");
    // What rests in the store has no turn: there is nothing to interrupt, and nothing wrong.
    let (mut house, child) = House::continued();
    assert_eq!(house.interrupt("main", &child), Some(Ok(Obeyed::Done)));
}

#[test]
fn l67_a_child_whose_first_turn_takes_no_step_can_be_gone_on_with() {
    let hooks = HookPoints { pre_step: true, ..HookPoints::default() };
    let mut house = House::parent_with_hooks(AgentConfig { hooks, ..AgentConfig::default() });
    let nature = Nature {
        route: Route { model: Some("small".to_owned()), ..Route::default() },
        continuable: true,
        ..Nature::default()
    };
    house.keep_as(7, "main", nature);
    let child = house.child(7);
    let at = |kind: &str, session: &str| {
        house
            .log
            .iter()
            .position(|append| &*append.kind == kind && append.session.as_str() == session)
            .unwrap()
    };
    assert!(
        at("subagent/descriptor", &child) < at("subagent/catalog", "main"),
        "the catalog promises no more than the child's log holds"
    );
    house.hooked(Verdict::Step(StepVerdict::Reject));
    house.commit();
    let expected = [
        "agent/inbox/spliced",
        "turn/start",
        "agent/inbox/spliced",
        "subagent/descriptor",
        "turn/end",
    ];
    assert_eq!(house.kinds(&child), expected);

    house.tool_of("main", ToolOutcome::text("started"));
    house.ask(1, "session/close", Some("main"), json!({}));
    for _ in 0..3 {
        house.commit();
    }
    house.keep_stored();
    house.ask(1, "session/open", Some("main"), json!({ "want": "stored" }));
    house.commit();
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)));
    let route = house.router.sessions[&SessionId::from(&*child)].agent.route();
    assert_eq!(route.model.as_deref(), Some("small"), "not that of its parent");
}

#[test]
fn l72_messages_to_a_child_on_its_way_back_are_given_in_their_order() {
    let (mut house, child) = House::continued();
    house.held = Some(VecDeque::new());
    assert_eq!(house.write("main", &child), None);
    let first = OrderId(house.next);
    assert_eq!(house.write("main", &child), None);
    let second = OrderId(house.next);
    house.ask(1, "session/open", Some(&child), json!({ "want": "stored" }));
    assert!(house.told().contains("failure session/open session-exists"), "it is on its way back");
    house.answer_held();
    house.commit();
    assert_eq!(house.result(first), Some(Ok(Obeyed::Done)));
    assert_eq!(house.result(second), Some(Ok(Obeyed::Done)));
    house.says(&child, "one");
    house.says(&child, "two");
}

#[test]
fn l72_not_resumable_says_what_is_wrong_with_the_stored_child() {
    let broken: [fn(&mut House, &str); 5] = [
        |house, child| house.elsewhere.push(child.into()),
        |house, child| house.stored.retain(|stored| stored.id.as_str() != child),
        |house, child| {
            for stored in house.stored.iter_mut().filter(|stored| stored.id.as_str() == child) {
                stored.header =
                    stored.header.replace(r#""parentSession":"main""#, r#""parentSession":"x""#);
            }
        },
        |house, child| {
            for stored in house.stored.iter_mut().filter(|stored| stored.id.as_str() == child) {
                stored.events += 1;
            }
        },
        |house, child| {
            let of = |append: &&mut Append| append.session.as_str() == child;
            for append in house.log.iter_mut().filter(of) {
                append.text =
                    append.text.replace(r#""mode":"continuable""#, r#""mode":"one-shot""#).into();
            }
        },
    ];
    for (number, broken) in broken.into_iter().enumerate() {
        let (mut house, child) = House::continued();
        broken(&mut house, &child);
        let refused = Some(Err(ChildCode::NotResumable));
        assert_eq!(house.write("main", &child), refused, "case {number}");
        house.elsewhere.clear();
    }
    // One that works on one task only.
    let mut house = House::parent(AgentConfig::default());
    house.delegate(7, "main");
    house.commit();
    let child = house.child(7);
    assert_eq!(house.write("main", &child), Some(Err(ChildCode::NotResumable)));
}

#[test]
fn l72_persistence_unavailable_is_a_store_that_does_not_answer() {
    let (mut house, child) = House::continued();
    house.no_claims = true;
    assert_eq!(house.write("main", &child), Some(Err(ChildCode::PersistenceUnavailable)));
    house.no_claims = false;
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)), "it may come back later");
}

#[test]
fn l72_activation_closing_is_a_child_that_is_just_leaving() {
    let (mut house, child) = House::keeping();
    house.ask(1, "session/open", Some("other"), json!({ "want": "new" }));
    house.connect(2, facts(Reach::All));
    house.ask(2, "session/close", Some(&child), json!({}));
    assert_eq!(house.write("main", &child), Some(Err(ChildCode::ActivationClosing)));
    assert_eq!(house.interrupt("main", &child), Some(Err(ChildCode::ActivationClosing)));
    house.commit();
    house.keep_stored();
    assert_eq!(house.write("main", &child), Some(Ok(Obeyed::Done)), "from the store");
}

#[test]
fn l72_draining_is_a_caller_that_goes_away() {
    let (mut house, child) = House::keeping();
    house.ask(1, "session/close", Some("main"), json!({}));
    assert_eq!(house.write("main", &child), Some(Err(ChildCode::Draining)));
    assert_eq!(house.report(&child), Some(Err(ChildCode::Draining)));

    let (mut house, child) = House::continued();
    house.held = Some(VecDeque::new());
    assert_eq!(house.write("main", &child), None);
    let order = OrderId(house.next);
    house.ask(1, "session/close", Some("main"), json!({}));
    house.answer_held();
    assert_eq!(house.result(order), Some(Err(ChildCode::Draining)));
}

#[test]
fn l67_a_child_has_its_nature_and_no_more_tools_than_its_parent() {
    let filter = |allow: &str| ToolFilter { allow: Some(vec![allow.to_owned()]), deny: Vec::new() };
    let mut house = House::parent(AgentConfig::default());
    let nature = Nature {
        persona: Some("You judge.".to_owned()),
        tools: Some(filter("r*")),
        route: Route { model: Some("small".to_owned()), ..Route::default() },
        continuable: true,
        ..Nature::default()
    };
    house.keep_as(7, "main", nature);
    let child = house.child(7);
    let descriptor =
        house.log.iter().find(|append| &*append.kind == "subagent/descriptor").unwrap();
    let descriptor: Value = serde_json::from_str(&descriptor.text).unwrap();
    let expected = json!({
        "version": 2,
        "mode": "continuable",
        "provider": "spawn",
        "label": "look",
        "agentModel": "small",
        "persona": "You judge.",
        "toolFilter": { "allow": ["r*"] },
    });
    assert_eq!(descriptor["data"], expected);
    house.keep_as(8, &child, Nature { tools: Some(filter("read")), ..Nature::default() });
    let filters = |at: usize| house.equipped[at].1.filters.clone();
    assert_eq!(filters(0), [filter("r*")]);
    assert_eq!(filters(1), [filter("r*"), filter("read")]);
    assert!(house.equipped[0].1.reports && !house.equipped[1].1.reports);

    house.keep_as(9, &child, Nature { depth_max: Some(1), ..Nature::default() });
    assert_eq!(house.outcome(9).unwrap(), "subagent depth 2 exceeds maxDepth 1");
}

#[test]
fn l67_filters_outlive_those_whose_they_were() {
    let filter = |allow: &str| ToolFilter { allow: Some(vec![allow.to_owned()]), deny: Vec::new() };
    let nature =
        |tools: Option<ToolFilter>| Nature { tools, continuable: true, ..Nature::default() };
    let mut house = House::parent(AgentConfig::default());
    house.keep_as(7, "main", nature(Some(filter("r*"))));
    let child = house.child(7);
    house.keep_as(8, &child, nature(None));
    let grandchild = house.child(8);
    let descriptor = house.log.iter().rfind(|append| &*append.kind == "subagent/descriptor");
    let descriptor: Value = serde_json::from_str(&descriptor.unwrap().text).unwrap();
    assert_eq!(descriptor["data"].get("toolFilter"), None);
    assert_eq!(descriptor["data"]["inheritedToolFilters"], json!([{ "allow": ["r*"] }]));
    house.says(&grandchild, "found");
    house.says(&child, "done");
    house.tool_of("main", ToolOutcome::text("started"));
    house.ask(1, "session/close", Some("main"), json!({}));
    for _ in 0..4 {
        house.commit();
    }
    assert_eq!(house.router.live_sessions(), 0);
    house.keep_stored();

    // Opened by themselves, and forked from there, they have what they had.
    for session in [&child, &grandchild] {
        house.ask(1, "session/open", Some(session), json!({ "want": "stored" }));
        house.ask(1, "session/fork", Some(session), json!({}));
        house.commit();
        let [.., (opened, _), (fork, toolset)] = &house.equipped[..] else { panic!("no tools") };
        assert_eq!(opened.as_str(), session);
        assert_ne!(fork, opened);
        assert_eq!(toolset.filters, [filter("r*")]);
        assert!(!toolset.reports, "a fork has nobody to report to");
    }
    let opened: Vec<_> = house.equipped.iter().map(|(_, toolset)| &toolset.filters).collect();
    assert!(opened.iter().all(|filters| **filters == [filter("r*")]), "{opened:?}");
}
