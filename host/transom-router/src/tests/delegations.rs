//! Work that one session hands to another: order, depth, cancel, and every way to an early end (L-66 to L-72).

use transom_harness::{
    jobs::{JobCause, JobChange, JobKind, JobStatus},
    ports::StartedJob,
};

use super::{
    asks::{answering, asking},
    *,
};

/// A session whose turn waits for a call of `subagent`.
fn calling_with(config: AgentConfig) -> House {
    let mut house = House::with(config);
    house.connect(1, answering(Reach::Owned, Answers::Owned));
    house.watch_all(1, "owned", None);
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "subagent")]);
    house.commit();
    house.told();
    house.done();
    house
}

fn calling() -> House {
    calling_with(AgentConfig::default())
}

/// The same with a child that waits for its model.
fn delegating() -> (House, String) {
    let mut house = calling();
    house.delegate(7, "main");
    house.commit();
    let child = house.child(7);
    (house, child)
}

/// What a call of `subagent` does once its run is over.
fn pass_on(house: &mut House, run: u64, session: &str) {
    let outcome = house.outcome(run).unwrap();
    house.tool_of(session, ToolOutcome::text(outcome));
}

#[test]
fn a_delegation_keeps_the_order_that_peers_count_on() {
    // L-68, C-30, and the recording `prompt-subagent`.
    let mut house = calling();
    house.delegate(7, "main");
    let child = house.child(7);
    assert_eq!(house.told(), format!("1 session/added {child}"), "no event of it is durable yet");
    house.commit();
    let told = house.told();
    let expected = [
        format!("1 event {child} 0 agent/inbox/spliced"),
        format!("1 running {child}"),
        format!("1 event {child} 1 turn/start"),
        format!("1 event {child} 2 agent/inbox/spliced"),
        format!("1 inbox/claimed {child}"),
    ];
    assert!(told.starts_with(&expected.join("\n")), "{told}");
    in_order(&told, &["3 subagent/descriptor", "4 step/start", "5 user/message", "session/title"]);
    house.answer("a result");
    house.commit();
    let told = house.told();
    let idle = format!("1 idle {child}");
    let removed = format!("1 session/removed {child}");
    in_order(&told, &["turn/end", &idle, "1 subagent/finished main completed", &removed]);
    assert!(!told.contains("event main"), "{told}");
    pass_on(&mut house, 7, "main");
    house.commit();
    assert!(house.told().starts_with("1 event main 12 tool/result"));
    let finished = house.body(1, "subagent/finished");
    let expected = json!({
        "runId": finished["runId"],
        "provider": "spawn",
        "agentId": child,
        "childSessionId": child,
        "local": true,
        "stopReason": "completed",
        "lastAssistantMessage": [{ "type": "text", "text": "a result" }],
    });
    assert_eq!(finished, expected);
    let added = house.body(1, "session/added");
    assert_eq!((&added["parentSessionId"], &added["origin"]), (&json!("main"), &json!("subagent")));
    assert_eq!(added["blank"], true);
    let header: Value = serde_json::from_str(
        &house.log.iter().find(|append| append.session.as_str() == child).unwrap().header,
    )
    .unwrap();
    assert_eq!(header["delegationDepth"], 1, "row 31");
    assert_eq!(header["cwd"], "/host", "the parent's (L-67)");
}

#[test]
fn a_run_is_over_once_everything_of_it_is_released() {
    // P-64: the end is announced after the child is gone.
    let (mut house, child) = delegating();
    house.answer("a result");
    assert_eq!(house.outcome(7), None, "its last events are not durable yet");
    house.commit();
    assert_eq!(house.outcome(7).unwrap(), "completed");
    assert!(house.done().ends_with(&format!("forget {child}\nrelease {child}")));
}

#[test]
fn a_run_tells_how_its_child_ended() {
    // L-66, row 32, C-31.
    let failed = || Finish::Error {
        failure: transom_harness::chunk::LlmFailure::new("AUTH", "no key".to_owned()),
    };
    for (text, finish, stop_reason, output) in [
        ("abc", Finish::MaxTokens, "max-tokens", Some("abc")),
        ("half", failed(), "error", Some("half")),
        ("", failed(), "error", None),
    ] {
        let (mut house, _) = delegating();
        if !text.is_empty() {
            house.chunk(Chunk::TextDelta { index: 0, text: text.to_owned() });
        }
        house.chunk(Chunk::Finish { reason: finish });
        house.commit();
        assert_eq!(house.outcome(7).unwrap(), stop_reason);
        let finished = house.body(1, "subagent/finished");
        let last = output.map(|text| json!([{ "type": "text", "text": text }]));
        assert_eq!(finished.get("lastAssistantMessage").cloned(), last, "{stop_reason}");
        let Some((_, DelegationEvent::Ended { output: blocks, .. })) = house.delegated.last()
        else {
            panic!("{:?}", house.delegated)
        };
        assert_eq!(blocks.is_empty(), output.is_none());
    }
}

#[test]
fn delegation_goes_so_deep_and_no_deeper() {
    // Row 31.
    let with = |subagent_depth_max| {
        calling_with(AgentConfig { subagent_depth_max, ..AgentConfig::default() })
    };
    let mut house = with(0);
    house.delegate(7, "main");
    assert_eq!(house.outcome(7).unwrap(), "subagent depth 1 exceeds maxDepth 0");
    let mut house = with(1);
    house.delegate(7, "main");
    let child = house.child(7);
    house.delegate(8, &child);
    assert_eq!(house.outcome(8).unwrap(), "subagent depth 2 exceeds maxDepth 1");
}

/// Three generations, each waiting for the next; the last one for its model.
fn three() -> (House, String, String) {
    let (mut house, child) = delegating();
    house.call(&[("k", "subagent")]);
    house.commit();
    house.delegate(8, &child);
    house.commit();
    let grandchild = house.child(8);
    house.told();
    house.done();
    (house, child, grandchild)
}

#[test]
fn a_child_may_have_children() {
    let (mut house, child, grandchild) = three();
    house.answer("deep");
    house.commit();
    pass_on(&mut house, 8, &child);
    house.commit();
    house.answer("middle");
    house.commit();
    pass_on(&mut house, 7, "main");
    house.commit();
    house.answer("top");
    house.commit();
    let finished = format!("subagent/finished {child} completed");
    let removed = format!("session/removed {grandchild}");
    let result = "tool/result";
    let expected = [&finished, &removed, result, "finished main completed", result, "idle main"];
    in_order(&house.told(), &expected);
}

#[test]
fn descendants_leave_before_their_parents() {
    // L-72.
    let (mut house, child, grandchild) = three();
    house.ask(1, "session/close", Some("main"), json!({}));
    let done = house.done();
    let ends: Vec<_> = done.lines().filter(|line| line.starts_with("terminate")).collect();
    let expected = [&grandchild, &child, "main"].map(|id| format!("terminate {id} 300"));
    assert_eq!(ends, expected);
    house.commit();
    // The calls that wait end with their runs.
    pass_on(&mut house, 8, &child);
    house.commit();
    pass_on(&mut house, 7, "main");
    house.commit();
    let told = house.told();
    let removed = [&grandchild, &child, "main"].map(|id| format!("session/removed {id}"));
    in_order(
        &told,
        &[
            &format!("subagent/finished {child} aborted"),
            &removed[0],
            "subagent/finished main aborted",
            &removed[1],
            &removed[2],
            "reply session/close",
        ],
    );
}

#[test]
fn a_parent_whose_calls_do_not_end_still_waits_for_its_children() {
    let (mut house, child) = delegating();
    house.call(&[("k", "bash")]);
    house.commit();
    house.told();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    let timers = mem::take(&mut house.timers);
    let ring = |house: &mut House, of: &str| {
        let (session, token, _) = timers.iter().find(|(id, ..)| id.as_str() == of).unwrap();
        let happened = Happened::Timer(*token);
        house.happen(Event::Happened { session: session.clone(), happened });
        house.commit();
    };
    ring(&mut house, "main");
    let told = house.told();
    assert!(told.contains("idle main") && !told.contains("session/removed"), "{told}");
    ring(&mut house, &child);
    let told = house.told();
    in_order(&told, &[&format!("session/removed {child}"), "session/removed main"]);
    assert_eq!(house.outcome(7).unwrap(), "aborted");
}

#[test]
fn a_run_that_nobody_wants_ends_as_aborted() {
    // L-70, before and after its child is born.
    let mut house = calling();
    house.held = Some(VecDeque::new());
    house.delegate(7, "main");
    house.happen(Event::StopDelegation { run: RunId(7) });
    assert_eq!(house.outcome(7), None);
    house.answer_held();
    assert_eq!(house.outcome(7).unwrap(), "aborted");
    assert_eq!(house.delegated.len(), 1, "it never began");
    assert!(house.done().starts_with("release "));
    assert_eq!(house.told(), "");

    let (mut house, child) = delegating();
    house.told();
    house.happen(Event::StopDelegation { run: RunId(7) });
    house.happen(Event::StopDelegation { run: RunId(7) });
    house.commit();
    let told = house.told();
    in_order(&told, &["turn/end", &format!("idle {child}"), "finished main aborted"]);
    assert!(house.log.iter().any(|event| event.text.contains(r#"{"kind":"parent"}"#)));
    assert_eq!(house.outcome(7).unwrap(), "aborted");
    house.happen(Event::StopDelegation { run: RunId(7) });
    pass_on(&mut house, 7, "main");
}

#[test]
fn a_cancelled_parent_stops_the_call_and_waits_for_it() {
    let (mut house, _) = delegating();
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    assert!(house.done().ends_with("stop tool main"));
    house.happen(Event::StopDelegation { run: RunId(7) });
    house.commit();
    assert!(house.told().contains("subagent/finished main aborted"));
    house.tool_of("main", ToolOutcome::error("subagent run was cancelled", None));
    house.commit();
    in_order(&house.told(), &["event main 12 tool/result", "turn/end", "idle main"]);
}

#[test]
fn a_parent_that_leaves_while_its_childs_id_is_claimed_gets_no_child() {
    for disconnects in [false, true] {
        let mut house = calling();
        house.held = Some(VecDeque::new());
        house.delegate(7, "main");
        if disconnects {
            house.happen(Event::Disconnected { connection: ConnectionId(1) });
        } else {
            house.ask(1, "session/close", Some("main"), json!({}));
        }
        house.done();
        house.answer_held();
        assert_eq!(house.outcome(7).unwrap(), "the session is going away");
        assert_eq!(house.router.live_sessions(), 1);
        assert!(house.done().starts_with("release "));
        house.tool_of("main", ToolOutcome::error("it could not begin", None));
        house.commit();
        assert_eq!(house.router.live_sessions(), 0);
        house.delegate(8, "main");
        assert_eq!(house.outcome(8).unwrap(), "session \"main\" is not live");
    }
}

#[test]
fn the_host_ends_behind_runs_at_every_stage() {
    let mut house = calling();
    house.held = Some(VecDeque::new());
    house.delegate(7, "main");
    house.happen(Event::Shutdown);
    house.tool_of("main", ToolOutcome::error("it was stopped", None));
    house.commit();
    assert_eq!(house.quiet, None, "the child's id is still claimed");
    house.answer_held();
    assert_eq!(house.quiet, Some(vec![]));
    assert_eq!(house.outcome(7).unwrap(), "session \"main\" is not live");

    let (mut house, _) = delegating();
    house.happen(Event::Shutdown);
    house.commit();
    assert_eq!(house.outcome(7).unwrap(), "aborted");
    house.delegate(8, "main");
    assert_eq!(house.outcome(8).unwrap(), "the session is going away");
    pass_on(&mut house, 7, "main");
    house.commit();
    assert_eq!(house.quiet, Some(vec![]));
}

#[test]
fn a_connection_that_leaves_takes_the_whole_tree_along() {
    let (mut house, child, grandchild) = three();
    house.connect(2, answering(Reach::All, Answers::Never));
    house.watch_all(2, "all", None);
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.commit();
    assert!(house.quiesced.is_empty());
    pass_on(&mut house, 8, &child);
    house.commit();
    pass_on(&mut house, 7, "main");
    house.commit();
    assert_eq!(house.quiesced, [(1, vec![])]);
    let removed = [&grandchild, &child, "main"].map(|id| format!("2 session/removed {id}"));
    in_order(&house.told(), &[&removed[0], &removed[1], &removed[2]]);
}

#[test]
fn what_cannot_begin_is_refused() {
    let mut house = calling();
    house.no_claims = true;
    house.delegate(7, "main");
    assert_eq!(house.outcome(7).unwrap(), "no disk");
    house.no_claims = false;

    let mut house = House::of(HostFacts { sessions_max: 1, ..host() }, AgentConfig::default());
    house.connect(1, facts(Reach::Owned));
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.delegate(7, "main");
    assert_eq!(house.outcome(7).unwrap(), "the host has 1 sessions, the most it may have");
    house.delegate(8, "nowhere");
    assert_eq!(house.outcome(8).unwrap(), "session \"nowhere\" is not live");
}

#[test]
fn a_child_whose_log_cannot_be_written_ends_its_run() {
    let (mut house, child) = delegating();
    house.told();
    house.chunk(Chunk::TextDelta { index: 0, text: "lost".to_owned() });
    house.fail_commit();
    let told = house.told();
    in_order(&told, &["agent/error main", "idle main"]);
    let idle = format!("idle {child}");
    in_order(&told, &[&idle, "finished main error", &format!("session/removed {child}")]);
    assert_eq!(house.outcome(7).unwrap(), "error");
    let why = "the session log could not be written: disk full";
    house.delegate(8, "main");
    assert_eq!(house.outcome(8).unwrap(), why, "its parent's tree is the same");
    house.ask(1, "session/close", Some("main"), json!({}));
    in_order(&house.told(), &["session/removed main", "reply session/close"]);
}

#[test]
fn a_child_whose_birth_was_lost_is_heard_of_by_nobody() {
    // Here its settings are its birth (P-10).
    let mut config = asking();
    config.permissions.pins = true;
    let mut house = calling_with(config);
    house.delegate(7, "main");
    let child = house.child(7);
    house.fail_commit();
    let told = house.told();
    assert!(!told.contains("session/added"), "{told}");
    assert_eq!(house.outcome(7).unwrap(), "error");
    assert!(house.done().contains(&format!("release {child}")));
    assert_eq!(house.router.live_sessions(), 1);
}

#[test]
fn a_session_whose_birth_was_lost_is_not_there() {
    let mut config = asking();
    config.permissions.pins = true;
    let mut house = House::with(config);
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.fail_commit();
    let told = house.told();
    assert!(told.starts_with("1 failure session/open store-failed"), "{told}");
    assert!(!told.contains("session/added"), "{told}");
    assert_eq!(house.router.live_sessions(), 0);
}

#[test]
fn a_child_is_reached_by_those_who_reach_everything() {
    // Decision 16: the owner of a tree has opened its root only.
    let (mut house, child) = delegating();
    house.told();
    house.prompt(&child, "let me in");
    let hidden =
        format!("1 failure session/prompt session-not-found: session \"{child}\" not found");
    assert_eq!(house.told(), hidden);
    house.connect(2, answering(Reach::All, Answers::Never));
    house.watch_all(2, "all", None);
    house.ask(2, "session/close", Some(&child), json!({}));
    house.commit();
    let told = house.told();
    let removed = format!("2 session/removed {child}");
    in_order(&told, &["2 subagent/finished main aborted", &removed, "2 reply session/close"]);
    assert_eq!(house.outcome(7).unwrap(), "aborted");
    pass_on(&mut house, 7, "main");
}

#[test]
fn children_take_no_place_of_their_door() {
    let mut house = House::new();
    house.connect(1, Facts { sessions_max: 2, ..facts(Reach::Owned) });
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.delegate(7, "main");
    house.delegate(8, "main");
    assert_eq!(house.router.live_sessions(), 3);
    house.told();
    house.ask(1, "session/open", Some("other"), json!({ "want": "new" }));
    assert_eq!(house.told(), "1 reply session/open");
    house.ask(1, "session/open", Some("third"), json!({ "want": "new" }));
    assert!(house.told().contains("door sdk has 2 live sessions"));
}

#[test]
fn work_in_the_background_goes_on_behind_its_parents_turn() {
    // P-70, and `session/wait` with descendants (S-62).
    let (mut house, child) = delegating();
    house.tool_of("main", ToolOutcome::text("started background subagent task subagent-1"));
    house.commit();
    house.answer("started");
    house.commit();
    assert!(house.told().ends_with("1 idle main"));
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": false }));
    assert_eq!(house.told(), "1 reply session/wait");
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    assert_eq!(house.told(), "");
    house.answer("a result");
    house.commit();
    let told = house.told();
    in_order(&told, &[&format!("1 idle {child}"), "1 reply session/wait"]);
    assert_eq!(house.outcome(7).unwrap(), "completed");
}

#[test]
fn who_waits_for_a_tree_waits_for_what_a_run_in_the_background_leads_to() {
    // A-124: the run is over before its session hears of that, which then begins a turn.
    let (mut house, _) = delegating();
    let job = StartedJob {
        id: "subagent-1".to_owned(),
        kind: JobKind::Subagent,
        label: "look".to_owned(),
        started_at: 1,
    };
    house.tool_of("main", ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
    house.commit();
    house.answer("started");
    house.commit();
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    house.answer("a result");
    house.commit();
    assert_eq!(house.outcome(7).unwrap(), "completed");
    assert!(!house.told().contains("session/wait"), "the end of the run is on its way");
    let change = JobChange::Ended {
        id: "subagent-1".to_owned(),
        status: JobStatus::Completed,
        detail: None,
        finished_at: 2,
        cause: JobCause::Producer,
        reported: false,
    };
    house.happen(Event::Happened { session: "main".into(), happened: Happened::Job(change) });
    house.commit();
    assert!(!house.told().contains("session/wait"), "a turn has begun");
    house.answer("noted");
    house.commit();
    assert!(house.told().ends_with("1 idle main\n1 reply session/wait"));
}

#[test]
fn who_waits_for_a_tree_is_answered_when_the_last_of_it_rests() {
    let (mut house, child, _) = three();
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    house.answer("deep");
    house.commit();
    pass_on(&mut house, 8, &child);
    house.commit();
    house.answer("middle");
    house.commit();
    pass_on(&mut house, 7, "main");
    house.commit();
    assert!(!house.told().contains("session/wait"));
    house.answer("top");
    house.commit();
    assert!(house.told().ends_with("1 idle main\n1 reply session/wait"));
}

#[test]
fn who_waits_for_a_tree_that_leaves_waits_for_its_rest() {
    let (mut house, _) = delegating();
    house.told();
    house.ask(1, "session/wait", Some("main"), json!({ "descendants": true }));
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    pass_on(&mut house, 7, "main");
    house.commit();
    let expected =
        ["idle main", "reply session/wait", "session/removed main", "reply session/close"];
    in_order(&house.told(), &expected);
}

#[test]
fn a_child_is_pinned_before_it_is_published() {
    // P-23: behind what it inherits stands what it lacks (P-10); none of it is announced (decision 79).
    let mut config = asking();
    config.permissions.pins = true;
    config.permissions.children = transom_harness::permissions::ApprovalPolicy::Never;
    let mut house = calling_with(config);
    let delegation = Delegation {
        parent: "main".into(),
        description: String::new(),
        prompt: "look".to_owned(),
        access: Access { logged_mode: Some(Mode::ReadOnly), ..Access::FULL },
        directory: Some("/host".into()),
        nature: Nature::default(),
    };
    house.happen(Event::Delegate { run: RunId(7), delegation });
    house.commit();
    let child = house.child(7);
    let born: Vec<Value> = house
        .log
        .iter()
        .filter(|append| append.session.as_str() == child)
        .take(2)
        .map(|append| serde_json::from_str(&append.text).unwrap())
        .collect();
    assert_eq!(born[0]["data"], json!({ "mode": "read-only", "source": "delegation" }));
    assert_eq!(born[1]["data"], json!({ "policy": "never", "source": "delegation" }));
    let told = house.told();
    assert!(!told.contains("sandbox/mode"), "{told}");
    assert_eq!(house.body(1, "session/added")["lastSeq"], 1);
}
