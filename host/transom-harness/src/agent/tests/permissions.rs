//! Settings of a session, and how the model learns of them (P-8 to P-13, P-23, L-96).

use super::*;
use crate::{
    agent::Permissions,
    event::SubagentMode,
    header::Origin,
    permissions::{
        ApprovalPolicy, Mode,
        presets::{Defaults, PRESETS},
    },
    subagents::Descriptor,
};

fn pinned() -> AgentConfig {
    let permissions = Permissions {
        defaults: Defaults::of(&PRESETS[1]),
        pins: true,
        confines: true,
        approvals: true,
        children: ApprovalPolicy::Never,
    };
    AgentConfig { permissions, ..AgentConfig::default() }
}

fn texts(events: &[crate::event::Event]) -> Vec<String> {
    events.iter().map(|event| line(&serde_json::from_str(&event.text).unwrap())).collect()
}

#[test]
fn a_new_session_is_born_with_the_settings_of_its_day() {
    // Row 1 of permissions-and-jobs.
    let mut play = Play::with(pinned());
    let expected = [
        "0 permission/preset workspace-write",
        "1 sandbox/mode workspace-write",
        "2 approval/policy ask",
    ];
    assert_eq!(texts(&play.agent.pin(5)), expected);
    assert!(play.agent.pin(6).is_empty(), "once");
    assert!(Play::new().agent.pin(5).is_empty(), "a host without permissions writes none");
}

#[test]
fn a_switch_is_three_events_a_message_and_one_new_snapshot() {
    // Row 3 of permissions-and-jobs, row 42 of agent-loop.
    let mut play = Play::with(pinned());
    play.agent.pin(5);
    play.prompt("one").assemble().answer("first");
    assert_eq!(play.told().matches("user/message \"This runtime context").count(), 1);

    play.act(|agent, out, now| agent.switch(out, now, "danger-full-access")).unwrap();
    let told = play.told();
    let kinds: Vec<_> = told.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(
        kinds[..4],
        ["permission/preset", "sandbox/mode", "approval/policy", "agent/inbox/spliced"],
        "{told}"
    );
    let inserted = &play.events.last().unwrap()["data"]["inserted"][0];
    assert_eq!(
        inserted["content"][0]["text"],
        "The approval policy changed from \"ask\" to \"never\" (changed by the user)."
    );
    assert_eq!(inserted["source"]["plugin"], "user-approval");
    play.act(|agent, out, now| agent.switch(out, now, "danger-full-access")).unwrap();
    assert_eq!(play.told(), "", "nothing changes, nothing is written");

    play.prompt("two").assemble().answer("second");
    assert_eq!(play.told().matches("user/message \"This runtime context").count(), 1);
    play.prompt("three").assemble().answer("third");
    assert_eq!(play.told().matches("user/message \"This runtime context").count(), 0);
}

#[test]
fn the_model_is_told_of_the_root_and_not_of_the_way_there() {
    // P-13.
    let mut play = Play::with(pinned());
    play.agent.pin_root(Some("/real".to_owned()));
    play.prompt("one").assemble().answer("first");
    let context = |play: &Play| {
        let messages = play.events.iter().filter(|event| event["type"] == "user/message");
        let mut texts = messages.map(|event| event["data"]["content"][0]["text"].to_string());
        texts.rfind(|text| text.contains("workspace-write")).unwrap()
    };
    assert!(context(&play).contains(r#"below \"/real\""#), "{}", context(&play));
    play.act(|agent, out, now| agent.set_directory(out, now, "/link", "/there")).unwrap();
    play.prompt("two").assemble();
    assert!(context(&play).contains(r#"below \"/there\""#), "{}", context(&play));
}

#[test]
fn custom_cannot_be_chosen() {
    // Row 4.
    let mut play = Play::with(pinned());
    let failure = play.act(|agent, out, now| agent.switch(out, now, "custom")).unwrap_err();
    assert_eq!(
        failure.message,
        "unknown preset \"custom\" (available: read-only, workspace-write, danger-full-access)"
    );
}

#[test]
fn a_delegated_session_is_born_with_its_parents_mode_and_asks_nobody() {
    // Row 10, P-23, L-67.
    let mut play = Play::with(pinned());
    let header = Header {
        origin: Some(Origin::Subagent),
        delegation_depth: 1,
        ..Header::clone(play.agent.header())
    };
    let config = Arc::clone(&play.agent.config);
    play.agent = Agent::new(header, play.agent.route().clone(), config, Chance::new([1; 32]));
    let descriptor = Descriptor {
        mode: SubagentMode::OneShot,
        provider: "spawn".to_owned(),
        label: Some("look".to_owned()),
        agent_provider: None,
        agent_model: None,
        persona: None,
        tool_filter: None,
        inherited_tool_filters: Vec::new(),
    };
    let born = play.agent.delegated(5, descriptor, Some(Mode::ReadOnly));
    assert_eq!(texts(&born), ["0 sandbox/mode read-only", "1 approval/policy never"]);
    let source: Value = serde_json::from_str(&born[1].text).unwrap();
    assert_eq!(source["data"]["source"], "delegation");
    assert!(texts(&play.agent.pin(6)).is_empty(), "its values match no preset");

    play.prompt("look").assemble();
    let told = play.told();
    let at = |what: &str| told.find(what).unwrap_or_else(|| panic!("{what} in {told}"));
    assert!(at("subagent/descriptor") < at("step/start"));
    assert!(at("user/message \"look\"") < at("This runtime context"));
    assert!(at("This runtime context") < at("session/title"));
    assert!(at("session/title") < at("request/header"));
    play.answer("seen");
    play.prompt("again").assemble();
    assert!(!play.told().contains("descriptor"), "once");
}

#[test]
fn p23_a_session_is_narrowed_and_never_widened_by_whoever_is_above_it() {
    let mut play = Play::with(pinned());
    play.agent.pin(5);
    play.act(|agent, out, now| agent.narrow(out, now, Mode::DangerFullAccess));
    play.act(|agent, out, now| agent.narrow(out, now, Mode::WorkspaceWrite));
    assert_eq!(play.told(), "", "it is no wider than that");
    play.act(|agent, out, now| agent.narrow(out, now, Mode::ReadOnly));
    assert_eq!(play.agent.access().mode, Mode::ReadOnly);
    let event = play.events.last().unwrap();
    assert_eq!(event["type"], "sandbox/mode");
    let data = serde_json::json!({ "mode": "read-only", "source": "delegation" });
    assert_eq!(event["data"], data);
    assert_eq!(play.agent.access().policy, ApprovalPolicy::Ask, "it may ask as before");

    // P-35: the operator's ceiling is no delegation, and holds also where the log has no mode.
    let mut play = Play::with(pinned());
    let event = play.agent.capped(5, Mode::ReadOnly, crate::agent::Cap::Ceiling).unwrap();
    assert_eq!(texts(&[event]), ["0 sandbox/mode read-only"]);
    assert!(play.agent.capped(5, Mode::ReadOnly, crate::agent::Cap::Ceiling).is_none());
}
