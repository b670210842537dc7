//! What the tables come to where they say little, and where rules stand. Complaints are in `tests/messages`.

use std::path::Path;

use super::{Access, Approvals, Confine, Delivery, Jobs, PRESETS, Permissions, Temp, builtin};
use crate::{
    launch::PermissionMode,
    manifest::{Manifest, SUBAGENT_DEPTH_MAX, TOOLS},
};

fn manifest(tables: &str) -> Manifest {
    let text = format!("[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n{tables}");
    Manifest::parse(Path::new("transom.toml"), text.as_bytes()).unwrap()
}

/// P-8, P-56, P-85, L-102.
#[test]
fn without_tables_the_defaults_hold() {
    let manifest = manifest("");
    assert_eq!(manifest.permissions, Permissions::of(PermissionMode::WorkspaceWrite));
    assert_eq!(manifest.permissions.policy, Approvals::Ask);
    assert_eq!(manifest.permissions.children, Approvals::Never);
    let Confine { off, required, network, unix_sockets, temp, guard_git, .. } = manifest.confine;
    assert_eq!(
        (off, required, network, unix_sockets, temp, guard_git),
        (false, false, Access::Deny, Access::Deny, Temp::Shared, true)
    );
    assert_eq!(
        manifest.jobs,
        Jobs { delivery: Delivery::Notify, per_session_max: 10, host_max: 256 }
    );
    assert_eq!(manifest.tools.subagent_depth_max, SUBAGENT_DEPTH_MAX);
}

/// P-7, P-25.
#[test]
fn policy_and_ceiling_are_those_of_the_preset_unless_they_are_named() {
    let check = |tables: &str, policy: Approvals, ceiling: PermissionMode| {
        let found = manifest(tables).permissions;
        assert_eq!((found.policy, found.ceiling), (policy, ceiling), "{tables}");
    };
    use PermissionMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    check("[permissions]", Approvals::Ask, WorkspaceWrite);
    check("[permissions]\npreset = 'read-only'", Approvals::Ask, ReadOnly);
    check("[permissions]\npreset = 'danger-full-access'", Approvals::Never, DangerFullAccess);
    check(
        "[permissions]\npreset = 'danger-full-access'\npolicy = 'ask'\nceiling = 'read-only'",
        Approvals::Ask,
        ReadOnly,
    );
    assert_eq!(PRESETS, PermissionMode::ALL.map(PermissionMode::as_str));
}

/// P-33: a rule is named by file and line.
#[test]
fn a_rule_knows_where_it_is_written() {
    let tables = "[permissions]\nrule = [\n  { tool = 'a', decision = 'ask' },\n  { tool = 'b', decision = 'deny' },\n]";
    let lines = |manifest: Manifest| {
        let rules = manifest.permissions.rules;
        rules.iter().map(|rule| (rule.file.clone(), rule.line)).collect::<Vec<_>>()
    };
    let at = |line: usize| ("transom.toml".to_owned(), line);
    assert_eq!(lines(manifest(tables)), [at(6), at(7)]);

    let tables = "\n[[permissions.rule]]\ntool = 'a'\ndecision = 'ask'\n\n[[permissions.rule]]\ntool = 'b'\ndecision = 'ask'";
    assert_eq!(lines(manifest(tables)), [at(5), at(9)]);
}

/// P-28: what an allow rule may say of shells, and of everything else.
#[test]
fn an_allow_rule_may_name_exact_commands() {
    for rule in [
        "tool = 'bash'\nwhen = { command = 'git status' }",
        "tool = 'bash'",
        "tool = 'bash'\nwhen = { workdir = '*' }",
        "tool = 'mcp__sh__run'\nwhen = { command = 'git *' }",
        "tool = 'bashful'\nwhen = { command = 'git *' }",
    ] {
        let manifest = manifest(&format!("[[permissions.rule]]\ndecision = 'allow'\n{rule}"));
        assert_eq!(manifest.permissions.rules.len(), 1, "{rule}");
    }
}

/// P-18, P-27.
#[test]
fn rules_know_the_arguments_of_every_built_in_tool() {
    for tool in TOOLS {
        assert!(builtin::arguments(tool).is_some(), "{tool}");
    }
    for tool in ["bash", "write", "edit"] {
        let texts = builtin::arguments(tool).unwrap().texts;
        assert!(texts.contains(&"sandbox_permissions") && texts.contains(&"justification"));
    }
}
