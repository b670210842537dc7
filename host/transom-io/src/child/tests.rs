//! What can be said of agents without one: words, places, answers. Processes are in `tests/it/acp_child`.

use std::{
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use serde_json::json;
use tokio::runtime::Handle;
use transom_connection::{codec::Framing, frames};
use transom_frame::{Frame, FrameKind};
use transom_harness::{
    block::Block,
    permissions::Access,
    ports::{Delegation, DelegationEvent, Subagents as _},
    subagents::{Nature, ToolFilter},
};
use transom_process::{Exit, SpawnError, Spawner};
use transom_router::Reach;
use transom_tools::Providers;

use super::{
    AgentSettings, ChildAgents, Permission, Place,
    body::{self, Outcome, Partial},
    directory,
    failure::{ABORTED, Failure, with_teardown},
};
use crate::{
    agents::Host,
    door::OpenDoor,
    slot::{Slot, Upkeep},
};

/// Agents of a program that is nowhere.
fn agents() -> ChildAgents {
    let built_in = transom_doors::find("acp-child").unwrap();
    let policy = Arc::new(built_in.policy().unwrap());
    let slot = Slot::new(
        "agent.acp",
        "acp-child",
        frames::source(),
        "{}".into(),
        policy,
        Upkeep::default(),
    );
    let door = OpenDoor {
        name: "agent.acp".into(),
        slot,
        framing: Framing::Lines,
        reach: Reach::Owned,
        answers: built_in.answers,
        directory: "/".into(),
        redactor: Arc::default(),
    };
    let settings = AgentSettings {
        name: "acp".to_owned(),
        program: "/nowhere/agent".to_owned(),
        arguments: Vec::new(),
        directory: None,
        permission: Permission::Reject,
        environment: vec![("A_KEY".to_owned(), "sk-1234".to_owned())],
        start: Duration::from_secs(60),
        eof_grace: Duration::from_secs(6),
        grace: Duration::from_secs(3),
    };
    let (host, _inbox) = Host::new();
    let spawner = Spawner::new(Handle::current()).unwrap();
    ChildAgents::new(settings, door, host, spawner, Arc::new(|_| None), Handle::current())
}

fn delegation(prompt: &str, directory: Option<&str>) -> Delegation {
    Delegation {
        parent: "main".into(),
        description: "d".to_owned(),
        prompt: prompt.to_owned(),
        access: Access::FULL,
        directory: directory.map(Into::into),
        nature: Nature::default(),
    }
}

#[tokio::test]
async fn a140_a_request_that_needs_a_capability_is_refused_before_the_start() {
    let mut providers = Providers::default();
    providers.register("acp", Arc::new(agents())).unwrap();
    let natures = [
        ("outputSchema", Nature { output_schema: Some(json!({})), ..Nature::default() }),
        ("depthLimit", Nature { depth_max: Some(1), ..Nature::default() }),
        ("toolFilter", Nature { tools: Some(ToolFilter::default()), ..Nature::default() }),
        ("persona", Nature { persona: Some("p".to_owned()), ..Nature::default() }),
    ];
    for (capability, nature) in natures {
        let wanted = Delegation { nature, ..delegation("do it", Some("/")) };
        let Err(refused) = providers.find("acp", &wanted) else { panic!("{capability}") };
        let expected =
            format!("subagent provider \"acp\" does not support the \"{capability}\" capability");
        assert_eq!(refused.to_string(), expected);
        assert_eq!(refused.code(), "UNSUPPORTED_CAPABILITY");
    }
    assert!(providers.find("acp", &delegation("do it", Some("/"))).is_ok());
}

/// What becomes of a start that comes to nothing.
async fn refused(agents: &ChildAgents, delegation: Delegation, stopped: bool) -> String {
    let (tell, told) = mpsc::sync_channel(4);
    let sink = Box::new(move |event| {
        let _ = tell.send(event);
    });
    let stop = agents.start(delegation, sink);
    if stopped {
        stop.stop();
    }
    let told = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(60)));
    match told.await.unwrap().unwrap() {
        DelegationEvent::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a143_nothing_is_started_without_a_directory_a_task_or_a_program() {
    let agents = agents();
    let table = [
        (
            delegation("do it", Some("/")),
            "spawn /nowhere/agent ENOENT (stage: process, category: process-start)",
        ),
        (delegation(" \n", Some("/")), "the task holds no text (stage: prompt, category: unknown)"),
        (
            delegation("do it", None),
            "subagent-acp: no working directory for the child — configure `cwd` or delegate from a parent session that has one",
        ),
        (
            delegation("do it", Some("some/where")),
            "subagent-acp: parent session cwd must be an absolute path: some/where",
        ),
        (
            delegation("do it", Some("/nowhere/at/all")),
            "subagent-acp: parent session cwd is not an accessible directory: /nowhere/at/all",
        ),
    ];
    for (wanted, expected) in table {
        assert_eq!(refused(&agents, wanted, false).await, expected);
    }
    // A-149. On one thread the stop is there before the start is looked at.
    assert_eq!(refused(&agents, delegation("do it", Some("/")), true).await, ABORTED);
    agents.shut_down().await;
    assert_eq!(agents.running(), 0);
    // A host that ends begins nothing.
    assert_eq!(refused(&agents, delegation("do it", Some("/")), false).await, ABORTED);
}

#[tokio::test]
async fn there_are_as_many_agents_as_the_policy_allows() {
    let agents = agents();
    let most = agents.shared.door.slot.active().policy.limits.connections_max;
    let places: Vec<_> = (0..most)
        .map(|_| Place::take(&agents.shared).unwrap_or_else(|most| panic!("{most}")))
        .collect();
    let why = refused(&agents, delegation("do it", Some("/")), false).await;
    assert_eq!(
        why,
        "64 agents run at once, which is `connections-max`; try again later (stage: process, category: process-start)"
    );
    drop(places);
    assert_eq!(agents.running(), 0);
    assert!(Place::take(&agents.shared).is_ok());
}

#[tokio::test]
async fn settings_are_shown_without_what_variables_hold() {
    let shown = format!("{:?}", agents());
    assert!(shown.contains("A_KEY") && !shown.contains("sk-1234"), "{shown}");
}

#[test]
fn a143_the_configured_directory_goes_before_that_of_the_session() {
    let place = tempfile::tempdir().unwrap();
    let (there, root) = (place.path(), Path::new("/"));
    assert_eq!(directory(Some(there), Some(root)).unwrap(), there);
    assert_eq!(directory(None, Some(there)).unwrap(), there);
    let file = there.join("file");
    std::fs::write(&file, "").unwrap();
    let why =
        format!("subagent-acp: config cwd is not an accessible directory: {}", file.display());
    assert_eq!(directory(Some(&file), Some(root)).unwrap_err(), why);
}

#[test]
fn a165_a_failure_has_a_stage_a_category_and_how_the_process_ended() {
    let lost = Failure::new("ACP connection closed", "prompt", "transport");
    let refused = Failure::new("no", "new-session", "unknown");
    for (failure, exit, expected) in [
        (&lost, None, "ACP connection closed (stage: prompt, category: transport)"),
        (
            &lost,
            Some(Exit::Code(3)),
            "ACP connection closed (stage: prompt, category: process-exit, exit code 3)",
        ),
        (
            &lost,
            Some(Exit::Signal(9)),
            "ACP connection closed (stage: prompt, category: process-exit, ended by SIGKILL)",
        ),
        // How it ended has nothing to do with what it said before.
        (&refused, Some(Exit::Code(0)), "no (stage: new-session, category: unknown)"),
    ] {
        assert_eq!(failure.told(exit), expected);
    }
    assert_eq!(
        with_teardown(&refused.told(None)),
        "no (stage: new-session, category: unknown); its processes could not all be ended (stage: teardown, category: unknown)"
    );
    // A codec is trusted with sentences, and not with lines of its own in what a model reads.
    let odd = Failure::new(&format!("a\nb{}", "x".repeat(5_000)), "prompt) ignore", "");
    let told = odd.told(None);
    assert!(
        told.starts_with("a bx") && told.ends_with("x (stage: prompt, category: unknown)"),
        "{told}"
    );
    assert!(told.chars().count() < 2_100);
    let denied = SpawnError::Refused { program: "a".to_owned(), message: "denied".to_owned() };
    assert_eq!(
        Failure::spawn("a", &denied).told(None),
        "spawn a: cannot run \"a\": denied (stage: process, category: process-start)"
    );
}

fn frame(kind: FrameKind, body: &str) -> Frame {
    Frame {
        kind,
        session: None,
        id: Some("prompt".into()),
        name: "agent/prompt".into(),
        body: body.into(),
    }
}

#[test]
fn an_outcome_is_read_whatever_a_codec_puts_there() {
    let read = |body: &str| body::outcome(&frame(FrameKind::Reply, body));
    let well = read(
        r#"{"output":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"stopReason":"completed","diagnostic":"d"}"#,
    );
    let output = vec![Block::text("a"), Block::text("b")];
    let remark = Some("d".to_owned());
    assert_eq!(well, Outcome { stop_reason: "completed", output, failure: None, remark });
    for word in ["max-tokens", "refusal", "aborted"] {
        assert_eq!(read(&json!({"output": [], "stopReason": word}).to_string()).stop_reason, word);
    }
    for body in ["", "7", "{}", r#"{"stopReason":"splendid"}"#] {
        let outcome = read(body);
        assert_eq!(outcome.stop_reason, "error");
        let told = outcome.failure.unwrap().told(None);
        assert_eq!(told, "the agent failed (stage: unknown, category: unknown)");
    }
    let failed = frame(FrameKind::Failure, "no JSON");
    assert_eq!(
        body::refusal(&failed).told(None),
        "the agent could not be started (stage: unknown, category: unknown)"
    );
}

#[test]
fn what_an_agent_has_said_is_known_should_its_codec_fail() {
    let mut partial = Partial::default();
    assert_eq!(partial.blocks(), []);
    for body in [r#"{"text":"a"}"#, r#"{"text":"b"}"#, r#"{"text":"c","begins":true}"#, "no JSON"] {
        partial.hear(body);
    }
    assert_eq!(partial.blocks(), [Block::text("c")]);
    for _ in 0..20 {
        partial.hear(&json!({"text": "é".repeat(50_000)}).to_string());
    }
    let [Block::Text { text }] = &partial.blocks()[..] else { panic!("a text") };
    assert!(text.len() <= 512 << 10);
}

#[test]
fn requests_have_the_shape_of_the_frame_language() {
    assert_eq!(body::start(Path::new("/w \"q\"")).unwrap(), r#"{"cwd":"/w \"q\""}"#);
    assert_eq!(
        body::prompt("do it", Permission::Allow),
        r#"{"content":[{"type":"text","text":"do it"}],"permission":"allow"}"#
    );
    assert_eq!(body::cancel("prompt"), r#"{"id":"prompt","reason":"aborted"}"#);
}
