//! What peers may change of a session: permissions, directory, queue, title; and what they are shown of jobs.

use transom_harness::{
    jobs::{JobCause, JobChange, JobKind, JobStatus},
    permissions::rules::Pattern,
    ports::StartedJob,
};

use crate::Settings;

use super::{
    asks::{answered, answering, asking},
    *,
};

fn with_host(host: HostFacts) -> House {
    let mut house = House::of(host, asking());
    house.connect(1, answering(Reach::Owned, Answers::Owned));
    house.watch_all(1, "owned", None);
    house
}

fn preset(house: &mut House, preset: &str) -> String {
    house.ask(1, "session/permissions", Some("main"), json!({ "set": preset }));
    house.commit();
    house.told()
}

#[test]
fn other_settings_hold_from_the_next_request_on() {
    let mut house = with_host(HostFacts { ceiling: Mode::ReadOnly, ..host() });
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.told();
    preset(&mut house, "read-only");
    assert!(preset(&mut house, "workspace-write").starts_with("1 failure session/permissions"));
    let (route, workspaces) = (host().route, Vec::new());
    let ceiling = Mode::WorkspaceWrite;
    let (kept_mode_max, config) = (Mode::ReadOnly, asking());
    let settings = Settings { route, ceiling, kept_mode_max, workspaces, config };
    house.happen(Event::Configured(settings));
    assert_eq!(house.router.host.kept_mode_max, Mode::ReadOnly);
    assert!(preset(&mut house, "workspace-write").ends_with("reply session/permissions"));
    assert_eq!(house.body(1, "session/permissions")["ceiling"], "workspace-write");
}

#[test]
fn a_door_may_widen_up_to_the_ceiling_and_always_narrow() {
    // P-35, row 15.
    let mut house = with_host(HostFacts { ceiling: Mode::ReadOnly, ..host() });
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.told();
    // It begins at full access, by the operator's default.
    let told = preset(&mut house, "workspace-write");
    in_order(&told, &["permission/preset", "sandbox/mode", "session/projection main"]);
    assert!(told.ends_with("reply session/permissions"), "narrower, though above: {told}");
    let reply = house.body(1, "session/permissions");
    assert_eq!(
        (&reply["current"], &reply["ceiling"]),
        (&json!("workspace-write"), &json!("read-only"))
    );
    assert_eq!(reply["options"].as_array().unwrap().len(), 3);
    let wide = |name: &str| {
        format!(
            "denied: preset \"{name}\" is wider than \"read-only\", the widest that a door may set"
        )
    };
    for name in ["danger-full-access", "workspace-write"] {
        let told = preset(&mut house, name);
        assert_eq!(told, format!("1 failure session/permissions {}", wide(name)));
    }
    assert_eq!(house.body(1, "session/permissions")["details"]["frame"], "session/permissions");
    assert!(preset(&mut house, "read-only").ends_with("reply session/permissions"));
    assert_eq!(preset(&mut house, "read-only"), "1 reply session/permissions", "nothing changes");
    let told = preset(&mut house, "custom");
    let text =
        "unknown preset \"custom\" (available: read-only, workspace-write, danger-full-access)";
    assert_eq!(told, format!("1 failure session/permissions invalid: {text}"));
    house.ask(1, "session/permissions", Some("main"), json!({}));
    assert_eq!(house.body(1, "session/permissions")["current"], "read-only");
    let projection = house.body(1, "session/projection");
    assert_eq!(projection["key"], "permissions");
    assert_eq!(projection["value"]["currentValue"], "read-only");
}

#[test]
fn a_change_of_policy_is_told_to_the_model() {
    // P-11.
    let mut house = answered();
    let told = preset(&mut house, "danger-full-access");
    in_order(
        &told,
        &[
            "approval/policy",
            "agent/inbox/spliced",
            "session/queue main [context]",
            "session/projection main",
            "reply session/permissions",
        ],
    );
    assert!(!told.contains("running"), "it wakes nobody: {told}");
}

#[test]
fn where_the_model_cannot_be_told_nothing_changes() {
    let mut house = House::with(AgentConfig { inbox_messages_max: 1, ..asking() });
    house.connect(1, answering(Reach::Owned, Answers::Owned));
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    for text in ["one", "two"] {
        house.prompt("main", text);
    }
    house.commit();
    house.told();
    let before = house.kinds("main");
    let told = preset(&mut house, "danger-full-access");
    assert!(told.starts_with("1 failure session/permissions overloaded"), "{told}");
    assert_eq!(house.kinds("main"), before);
}

#[test]
fn a_session_that_goes_away_is_not_changed() {
    // Its log is closed, or about to be.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "bash")]);
    house.commit();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.told();
    for (name, body) in [
        ("session/permissions", json!({ "set": "read-only" })),
        ("session/rename", json!({ "title": "late" })),
        ("session/queue", json!({ "itemId": "x", "action": { "kind": "remove" } })),
        ("session/directory", json!({ "set": "/late" })),
        ("session/prompt", json!({ "content": [] })),
    ] {
        house.ask(1, name, Some("main"), body);
        let expected =
            format!("1 failure {name} session-disposed: session \"main\" is being disposed");
        assert_eq!(house.told(), expected);
    }
}

fn confined() -> House {
    let workspaces = vec![Pattern::new("/srv/work/*"), Pattern::new("/host")];
    with_host(HostFacts { workspaces, ..host() })
}

#[test]
fn sessions_work_where_they_may() {
    // P-5.
    let mut house = confined();
    let listed = "is not one that sessions may use here: /srv/work/*, /host";
    let missing = "is not there, so it cannot be one that sessions may use here";
    for (cwd, expected) in [
        ("/srv/work/a", "1 session/added x\n1 reply session/open".to_owned()),
        ("/srv/work", "1 session/added x\n1 reply session/open".to_owned()),
        (
            "/srv/workshop",
            format!("1 failure session/open denied: directory \"/srv/workshop\" {listed}"),
        ),
        ("/etc", format!("1 failure session/open denied: directory \"/etc\" {listed}")),
        (
            "/srv/work/missing",
            format!("1 failure session/open denied: directory \"/srv/work/missing\" {missing}"),
        ),
    ] {
        house.ask(1, "session/open", Some("x"), json!({ "want": "new", "cwd": cwd }));
        assert_eq!(house.told(), expected);
        if expected.contains("reply") {
            house.ask(1, "session/close", Some("x"), json!({}));
            house.told();
        }
        assert!(house.done().ends_with("release x"));
    }
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    assert!(house.told().ends_with("reply session/open"), "the host's own directory is listed");
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/srv/work/b" }));
    house.commit();
    assert!(house.told().ends_with("reply session/directory"));
    house.ask(1, "session/directory", Some("main"), json!({ "set": "../../../etc" }));
    assert!(house.told().ends_with(&format!("denied: directory \"/etc\" {listed}")));
    assert_eq!(house.body(1, "session/directory")["details"]["frame"], "session/directory");
}

#[test]
fn a_stored_session_is_looked_at_where_it_would_work() {
    // The directory that it was moved to counts, not that of its header.
    let mut first = answered();
    first.ask(1, "session/open", Some("far"), json!({ "want": "new", "cwd": "/far" }));
    first.ask(1, "session/directory", Some("main"), json!({ "set": "/far" }));
    first.ask(1, "session/directory", Some("far"), json!({ "set": "/srv/work/a" }));
    first.commit();
    let mut house = confined();
    for (id, expected) in [("main", "denied"), ("far", "1 reply session/open")] {
        let log: Vec<_> =
            first.log.iter().filter(|append| append.session.as_str() == id).cloned().collect();
        let header = log[0].header.to_string();
        let events = log.len() as u64;
        house.stored.push(StoredSession { id: id.into(), header, events, updated_at: 1 });
        house.log.extend(log);
        house.ask(1, "session/open", Some(id), json!({ "want": "stored" }));
        house.commit();
        let told = house.told();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_fork_is_looked_at_where_it_would_work() {
    let mut house = confined();
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.prompt("main", "one");
    house.commit();
    house.answer("one");
    house.commit();
    house.told();
    house.ask(1, "session/fork", Some("main"), json!({}));
    house.commit();
    assert!(house.told().ends_with("reply session/fork"));
    // What was allowed once may not be any more.
    house.router.host.workspaces = vec![Pattern::new("/srv/work/*")];
    house.ask(1, "session/fork", Some("main"), json!({}));
    let told = house.told();
    assert!(told.starts_with("1 failure session/fork denied"), "{told}");
}

#[test]
fn what_is_asked_while_a_directory_is_looked_at_waits_and_a_cancel_does_not() {
    // Design §4, rule 4.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.told();
    house.held = Some(VecDeque::new());
    house.ask(1, "session/directory", Some("main"), json!({ "set": "/w" }));
    house.ask(1, "session/directory", Some("main"), json!({ "set": "x" }));
    house.ask(1, "session/rename", Some("main"), json!({ "title": "t" }));
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "keep" }));
    house.commit();
    let told = house.told();
    assert!(told.ends_with("1 idle main\n1 reply session/cancel"), "{told}");
    house.answer_held();
    house.commit();
    let expected = ["reply session/directory", "reply session/directory", "reply session/rename"];
    in_order(&house.told(), &expected);
    let changes: Vec<_> = house
        .log
        .iter()
        .filter(|event| &*event.kind == "working-directory/change")
        .map(|event| serde_json::from_str::<Value>(&event.text).unwrap()["data"]["cwd"].clone())
        .collect();
    assert_eq!(changes, ["/w", "/w/x"]);
}

#[test]
fn messages_that_wait_can_be_changed_removed_and_moved() {
    // B-153, decision 46.
    let mut house = answered();
    for text in ["one", "two", "three"] {
        house.prompt("main", text);
    }
    house.commit();
    let told = house.told();
    assert!(told.contains("session/queue main [queued queued]"), "{told}");
    let items = house.queue();
    let [two, three] = [0, 1].map(|at| items[at]["id"].as_str().unwrap().to_owned());
    assert_eq!(items[0]["message"]["content"][0]["text"], "two");
    let change = |house: &mut House, item: &str, action: Value| {
        house.ask(1, "session/queue", Some("main"), json!({ "itemId": item, "action": action }));
        house.commit();
        house.told()
    };
    let edit = json!({ "kind": "edit", "content": [{ "type": "text", "text": "2" }] });
    let told = change(&mut house, &two, edit);
    in_order(
        &told,
        &["agent/inbox/spliced", "session/queue main [queued queued]", "reply session/queue"],
    );
    let items = house.queue();
    assert_eq!(items[0]["id"], two.as_str(), "an edit keeps the id");
    assert_eq!(items[0]["message"]["content"][0]["text"], "2");
    let told = change(&mut house, &two, json!({ "kind": "steer" }));
    assert!(told.contains("session/queue main [steering queued]"), "{told}");
    let told = change(&mut house, &two, json!({ "kind": "steer" }));
    assert!(told.starts_with("1 failure session/queue steer-unavailable"), "{told}");
    let told = change(&mut house, &three, json!({ "kind": "remove" }));
    in_order(
        &told,
        &["inbox/discarded main", "session/queue main [steering]", "reply session/queue"],
    );
    let told = change(&mut house, &three, json!({ "kind": "remove" }));
    assert!(told.starts_with("1 failure session/queue queue-item-not-found"), "{told}");
    for action in [
        json!({ "kind": "edit", "content": [] }),
        json!({ "kind": "edit", "content": [{ "type": "image", "data": "" }] }),
        json!({ "kind": "edit" }),
        json!({ "kind": "remove", "content": [] }),
        json!({ "kind": "burn" }),
        json!("remove"),
    ] {
        let told = change(&mut house, &two, action.clone());
        assert!(told.starts_with("1 failure session/queue invalid"), "{action}: {told}");
    }
}

#[test]
fn a_title_is_what_is_left_of_it_without_needless_space() {
    // B-154.
    let mut house = answered();
    house.ask(1, "session/rename", Some("main"), json!({ "title": "  new \n  name  " }));
    house.commit();
    assert_eq!(house.told(), "1 event main 0 session/title\n1 reply session/rename");
    assert_eq!(house.body(1, "session/rename"), json!({ "title": "new name", "seq": 0 }));
    assert!(house.log[0].text.contains(r#""source":{"kind":"user"}"#));
    house.ask(1, "session/rename", Some("main"), json!({ "title": " \t " }));
    let expected = "1 failure session/rename title-invalid: the title has nothing to show";
    assert_eq!(house.told(), expected);
}

/// A session with a job of this label that runs.
fn with_job(label: &str) -> House {
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "bash")]);
    house.commit();
    house.told();
    let job = StartedJob {
        id: "bash-1".to_owned(),
        kind: JobKind::Bash,
        label: label.to_owned(),
        started_at: 5,
    };
    house.tool(ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
    house
}

fn job(house: &mut House, change: JobChange) {
    house.happen(Event::Happened { session: "main".into(), happened: Happened::Job(change) });
}

fn job_ended() -> JobChange {
    JobChange::Ended {
        id: "bash-1".to_owned(),
        status: JobStatus::Completed,
        detail: Some("exit code: 2".to_owned()),
        finished_at: 9,
        cause: JobCause::Producer,
        reported: false,
    }
}

#[test]
fn jobs_are_shown_whole_after_every_change() {
    // P-81, B-109, and the order of P-77: record, `session/jobs`, then the notice.
    let label = "x".repeat(300);
    let mut house = with_job(&label);
    assert_eq!(house.told(), "");
    house.connect(2, answering(Reach::All, Answers::Never));
    assert_eq!(house.watch_all(2, "all", None)["jobs"], json!([]), "decision 1h");
    house.commit();
    let told = house.told();
    in_order(
        &told,
        &["job/registered", "1 session/jobs main [running]", "1 event main 14 tool/result"],
    );
    let jobs = house.body(1, "session/jobs")["jobs"].clone();
    let expected = format!("{}…", "x".repeat(199));
    let shown = json!([{
        "id": "bash-1", "kind": "bash", "label": expected, "status": "running", "startedAt": 5,
    }]);
    assert_eq!(jobs, shown, "P-68, B-104");
    house.connect(3, answering(Reach::All, Answers::Never));
    let baseline = house.watch_all(3, "all", None);
    assert_eq!(baseline["jobs"], json!([{ "sessionId": "main", "jobs": shown }]));

    job(&mut house, JobChange::Stopping { id: "bash-1".to_owned() });
    assert_eq!(house.told().matches("session/jobs main [stopping]").count(), 3);
    job(&mut house, job_ended());
    house.commit();
    let told = house.told();
    in_order(
        &told,
        &[
            "1 event main 17 job/settled",
            "1 session/jobs main [completed]",
            "agent/inbox/spliced",
            "1 session/queue main [context]",
        ],
    );
}

#[test]
fn a_session_that_leaves_shows_that_it_has_no_jobs_any_more() {
    // P-78, row 29.
    let mut house = with_job("make");
    house.commit();
    house.answer("started");
    house.commit();
    house.told();
    house.ask(1, "session/close", Some("main"), json!({}));
    assert_eq!(house.told(), "", "the job has not ended");
    let JobChange::Ended { id, status, detail, finished_at, .. } = job_ended() else {
        unreachable!()
    };
    let cause = JobCause::Teardown;
    job(&mut house, JobChange::Ended { id, status, detail, finished_at, cause, reported: true });
    house.commit();
    let expected = [
        "job/settled",
        "session/jobs main [completed]",
        "session/jobs main []",
        "session/removed main",
        "reply session/close",
    ];
    let told = house.told();
    in_order(&told, &expected);
    assert!(!told.contains("spliced"), "no notice: {told}");
}

#[test]
fn a_job_whose_call_is_cancelled_runs_on_and_is_known() {
    // P-69: it was started, so the turn's cancel does not touch it.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "bash")]);
    house.commit();
    house.ask(1, "session/cancel", Some("main"), json!({ "inbox": "clear" }));
    house.told();
    let job = StartedJob {
        id: "bash-1".to_owned(),
        kind: JobKind::Bash,
        label: "make".to_owned(),
        started_at: 5,
    };
    house.tool(ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
    house.commit();
    let told = house.told();
    in_order(&told, &["job/registered", "session/jobs main [running]", "tool/result", "idle main"]);
    self::job(&mut house, job_ended());
    house.commit();
    in_order(&house.told(), &["session/jobs main [completed]", "running main"]);
}

#[test]
fn a_job_that_starts_while_its_session_leaves_is_waited_for_only_so_long() {
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "bash")]);
    house.commit();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.timers.clear();
    let job = StartedJob {
        id: "bash-1".to_owned(),
        kind: JobKind::Bash,
        label: "make".to_owned(),
        started_at: 5,
    };
    house.tool(ToolOutcome { job: Some(job), ..ToolOutcome::text("started") });
    house.commit();
    assert_eq!(house.router.live_sessions(), 1);
    let (session, token, _) = house.timers.pop().unwrap();
    house.happen(Event::Happened { session, happened: Happened::Timer(token) });
    house.commit();
    assert_eq!(house.router.live_sessions(), 0);
}
