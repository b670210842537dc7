//! Logs against what they come to, and what is written in which state.

use serde_json::{json, value::to_raw_value};

use super::{CUSTOM, Defaults, Knobs, PRESETS, Preset, Setting, policy_changed};
use crate::permissions::{ApprovalPolicy, Mode};

/// Folds `type data` lines.
fn knobs(log: &[(&str, serde_json::Value)]) -> Knobs {
    let mut knobs = Knobs::default();
    for (kind, data) in log {
        knobs.fold(kind, &to_raw_value(data).unwrap());
    }
    knobs
}

fn preset(name: &str) -> (&'static str, serde_json::Value) {
    ("permission/preset", json!({ "preset": name }))
}

fn mode(name: &str) -> (&'static str, serde_json::Value) {
    ("sandbox/mode", json!({ "mode": name }))
}

fn policy(name: &str) -> (&'static str, serde_json::Value) {
    ("approval/policy", json!({ "policy": name }))
}

fn workspace_write() -> Defaults {
    Defaults::of(&PRESETS[1])
}

/// `type data` of each event.
fn written(settings: &[Setting]) -> Vec<String> {
    settings
        .iter()
        .map(|setting| format!("{} {}", setting.kind(), serde_json::to_string(setting).unwrap()))
        .collect()
}

/// P-2, P-3, P-4.
#[test]
fn the_last_event_of_each_type_wins_and_what_is_unknown_is_narrow() {
    let check = |log: &[(&str, serde_json::Value)], expected: (Mode, ApprovalPolicy)| {
        assert_eq!(knobs(log).effective(&workspace_write()), expected, "{log:?}");
    };
    use ApprovalPolicy::{Ask, Never};
    use Mode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    check(&[], (WorkspaceWrite, Ask));
    check(&[mode("read-only"), mode("danger-full-access")], (DangerFullAccess, Ask));
    check(&[policy("never"), policy("ask")], (WorkspaceWrite, Ask));
    check(&[mode("everything")], (ReadOnly, Ask));
    check(&[("sandbox/mode", json!({ "mode": 7 }))], (ReadOnly, Ask));
    check(&[("sandbox/mode", json!(null))], (ReadOnly, Ask));
    check(&[policy("on-request")], (WorkspaceWrite, Never));
    check(
        &[("approval/policy", json!({ "policy": "ask", "source": "delegation" }))],
        (WorkspaceWrite, Ask),
    );
    check(&[("turn/start", json!({ "mode": "read-only" }))], (WorkspaceWrite, Ask));
    // A preset is a name and sets nothing.
    check(&[preset("danger-full-access")], (WorkspaceWrite, Ask));

    assert_eq!(knobs(&[]).logged_mode(), None);
    assert_eq!(knobs(&[mode("?")]).logged_mode(), Some(ReadOnly));
}

/// P-9.
#[test]
fn the_current_preset_is_the_recorded_one_else_the_first_that_fits() {
    let check = |log: &[(&str, serde_json::Value)], expected: &str| {
        assert_eq!(knobs(log).current(&workspace_write()), expected, "{log:?}");
    };
    check(&[], "workspace-write");
    check(&[mode("read-only")], "read-only");
    check(&[mode("danger-full-access"), policy("never")], "danger-full-access");
    check(&[preset("read-only")], "workspace-write");
    check(&[preset("gone")], "workspace-write");
    check(&[mode("read-only"), policy("never")], CUSTOM);
    check(&[preset(CUSTOM), mode("read-only"), policy("never")], CUSTOM);

    // Of two equal entries the one that a person chose.
    let twin = Preset { name: "twin", ..PRESETS[1] };
    let defaults = Defaults { presets: vec![PRESETS[1], twin], ..workspace_write() };
    assert_eq!(knobs(&[]).current(&defaults), "workspace-write");
    assert_eq!(knobs(&[preset("twin")]).current(&defaults), "twin");
    assert_eq!(knobs(&[preset("twin"), mode("read-only")]).current(&defaults), CUSTOM);
}

/// P-10; checklist 1.
#[test]
fn a_session_is_pinned_to_what_it_has_or_to_todays_default() {
    let check = |log: &[(&str, serde_json::Value)], seeded: bool, expected: &[&str]| {
        let found = written(&knobs(log).pin(&workspace_write(), seeded));
        assert_eq!(found, expected, "{log:?} {seeded}");
    };
    let all = [
        r#"permission/preset {"preset":"workspace-write"}"#,
        r#"sandbox/mode {"mode":"workspace-write"}"#,
        r#"approval/policy {"policy":"ask"}"#,
    ];
    check(&[], false, &all);
    check(&[], true, &all);
    check(&[preset("workspace-write"), mode("workspace-write"), policy("ask")], true, &[]);
    check(
        &[mode("danger-full-access"), policy("never")],
        true,
        &[r#"permission/preset {"preset":"danger-full-access"}"#],
    );
    // `custom` is never logged.
    check(&[policy("never")], true, &[r#"sandbox/mode {"mode":"workspace-write"}"#]);
    check(
        &[mode("read-only")],
        false,
        &[r#"permission/preset {"preset":"read-only"}"#, r#"approval/policy {"policy":"ask"}"#],
    );
    // Recorded, if no longer true: it is not missing.
    check(&[preset("read-only"), mode("workspace-write"), policy("ask")], true, &[]);
}

/// P-10: only a session without a past takes the operator's word for which of two equal entries it is.
#[test]
fn the_operators_choice_decides_between_equal_entries() {
    let twin = Preset { name: "twin", ..PRESETS[1] };
    let defaults = Defaults {
        preset: Some("twin".to_owned()),
        presets: vec![PRESETS[1], twin],
        ..workspace_write()
    };
    let first = |seeded| written(&Knobs::default().pin(&defaults, seeded)).remove(0);
    assert_eq!(first(false), r#"permission/preset {"preset":"twin"}"#);
    assert_eq!(first(true), r#"permission/preset {"preset":"workspace-write"}"#);

    let custom = Defaults { policy: ApprovalPolicy::Never, ..workspace_write() };
    assert_eq!(
        written(&Knobs::default().pin(&custom, false)),
        [r#"sandbox/mode {"mode":"workspace-write"}"#, r#"approval/policy {"policy":"never"}"#]
    );
}

/// P-11; checklist 3.
#[test]
fn a_switch_writes_what_changes_and_nothing_twice() {
    let defaults = workspace_write();
    let mut knobs = Knobs::default();
    let mut switch = |to: &str| {
        let settings = knobs.switch(&defaults, to).unwrap();
        settings.iter().for_each(|setting| knobs.apply(setting));
        written(&settings)
    };
    assert_eq!(switch("workspace-write"), [""; 0]);
    assert_eq!(
        switch("danger-full-access"),
        [
            r#"permission/preset {"preset":"danger-full-access"}"#,
            r#"sandbox/mode {"mode":"danger-full-access"}"#,
            r#"approval/policy {"policy":"never"}"#,
        ]
    );
    assert_eq!(switch("danger-full-access"), [""; 0]);
    assert_eq!(switch("read-only").len(), 3);
    assert_eq!(
        switch("workspace-write"),
        [
            r#"permission/preset {"preset":"workspace-write"}"#,
            r#"sandbox/mode {"mode":"workspace-write"}"#,
        ]
    );
    assert_eq!(
        policy_changed(ApprovalPolicy::Ask, ApprovalPolicy::Never),
        "The approval policy changed from \"ask\" to \"never\" (changed by the user)."
    );
}

/// P-11: of equal entries only the name changes.
#[test]
fn a_switch_between_equal_entries_writes_the_name_alone() {
    let twin = Preset { name: "twin", ..PRESETS[1] };
    let defaults = Defaults { presets: vec![PRESETS[1], twin], ..workspace_write() };
    let settings = knobs(&[]).switch(&defaults, "twin").unwrap();
    assert_eq!(written(&settings), [r#"permission/preset {"preset":"twin"}"#]);
}

/// P-12; checklist 4.
#[test]
fn custom_is_shown_last_and_cannot_be_chosen() {
    let defaults = Defaults::default();
    let custom = knobs(&[mode("read-only"), policy("never")]);
    assert_eq!(
        custom.switch(&defaults, "custom").unwrap_err(),
        "unknown preset \"custom\" (available: workspace-write, danger-full-access)"
    );
    assert_eq!(
        custom.listing(&defaults),
        "current preset custom (available: workspace-write, danger-full-access)"
    );
    let shown = serde_json::to_value(custom.projection(&defaults)).unwrap();
    assert_eq!(shown["currentValue"], "custom");
    assert_eq!(shown["options"][0]["value"], "workspace-write");
    assert!(shown["options"][0]["description"].is_string());
    assert_eq!(shown["options"][2], json!({ "value": "custom", "name": "custom" }));

    let shown = serde_json::to_value(Knobs::default().projection(&workspace_write())).unwrap();
    assert_eq!(shown["currentValue"], "workspace-write");
    assert_eq!(shown["options"].as_array().unwrap().len(), 3);
}

/// P-23, P-24; checklist 10.
#[test]
fn a_child_is_given_its_parents_logged_mode_and_the_policy_for_children() {
    use ApprovalPolicy::{Ask, Never};
    let given = |mode, policy, approvals| written(&Knobs::delegate(mode, policy, approvals));
    let inherited = r#"sandbox/mode {"mode":"read-only","source":"delegation"}"#;
    let never = r#"approval/policy {"policy":"never","source":"delegation"}"#;
    let ask = r#"approval/policy {"policy":"ask","source":"delegation"}"#;
    assert_eq!(given(Some(Mode::ReadOnly), Never, true), [inherited, never]);
    assert_eq!(given(Some(Mode::ReadOnly), Ask, true), [inherited, ask]);
    assert_eq!(given(None, Never, true), [never]);
    assert_eq!(given(Some(Mode::ReadOnly), Never, false), [inherited]);

    // What was handed on is kept, and pinning fills in the rest.
    let mut child = Knobs::default();
    for setting in Knobs::delegate(None, Never, true) {
        child.apply(&setting);
    }
    assert_eq!(
        written(&child.pin(&workspace_write(), false)),
        [r#"sandbox/mode {"mode":"workspace-write"}"#]
    );
}
