//! Form B: profiles and patches against what they come to.

use std::path::PathBuf;

use super::Machine;
use crate::launch::{AcpServer, PermissionMode, Sessions};

/// S-204, S-208, S-219, fourth row.
#[test]
fn the_profile_sdk_is_a_coding_agent_in_a_sandbox() {
    let found = Machine::new(&[("DSH_HOME", "/h")], &[]).launch(&["--profile", "sdk"]).unwrap();
    assert_eq!(found.composition, "profile sdk");
    assert!(
        found.serves_sdk
            && found.max_tokens_as_success
            && found.names_harness
            && found.runtime_context
    );
    assert_eq!(
        found.tools.join(" "),
        "bash edit glob grep interrupt_agent job_kill job_list job_output list_agents read read_image send_message \
         skill subagent todo_write write"
    );
    assert_eq!(
        found.notices[0],
        "tools not part of this host: create_goal, exit_plan_mode, get_goal, subagent_fork, update_goal, web_fetch, \
         web_search, workflow, working_directory"
    );
    assert!(found.subagents_continuable, "L-103");
    // P-83, P-85.
    assert_eq!((found.jobs, found.shell_timeout_ms), (true, 60_000));
    assert_eq!(found.permission_mode, PermissionMode::WorkspaceWrite);
    assert_eq!(
        found.sessions,
        Some(Sessions::JsonLines { root: "/h/sessions".into(), compressed: true })
    );
    assert_eq!(found.workspace, PathBuf::from("/project"));
    assert_eq!(found.workspace_instructions_bytes_max, Some(65536));
}

/// S-219, fifth row.
#[test]
fn the_profile_sdk_minimal_has_a_shell() {
    let variables =
        [("HOME", "/home/u"), ("DSH_SYSTEM_PROMPT", "p"), ("DSH_MAX_TOKENS_AS_SUCCESS", "true")];
    let found = Machine::new(&variables, &[]).launch(&["sdk-minimal"]).unwrap();
    assert_eq!(found.tools, ["bash", "read_image"]);
    assert!(found.attachments);
    assert_eq!((found.jobs, found.shell_timeout_ms), (false, 60_000));
    assert_eq!(found.notices[0], "tools not part of this host: working_directory");
    assert!(
        found.serves_sdk
            && !found.max_tokens_as_success
            && !found.names_harness
            && !found.runtime_context
    );
    assert_eq!(found.system_prompt.as_deref(), Some("p"));
    assert_eq!(found.permission_mode, PermissionMode::DangerFullAccess);
    assert_eq!(found.model.context_window, Some(1_000_000));
    assert_eq!(
        found.sessions,
        Some(Sessions::JsonLines { root: "/home/u/.dsh/sessions".into(), compressed: false })
    );
}

///
#[test]
fn the_profile_acp_is_a_coding_agent_for_editors() {
    let home = ("DSH_HOME", "/h");
    for arguments in [&["--profile", "acp"][..], &["acp"], &["--profile=acp"]] {
        let found = Machine::new(&[home], &[]).launch(arguments).unwrap();
        assert_eq!(found.composition, "profile acp");
        assert_eq!((found.serves_sdk, &found.acp), (false, &Some(AcpServer::default())));
        assert_eq!(
            found.tools.join(" "),
            "bash edit glob grep interrupt_agent job_kill job_list job_output list_agents read read_image send_message skill subagent todo_write write"
        );
        assert_eq!(found.permission_mode, PermissionMode::WorkspaceWrite);
        assert_eq!(found.model.model.as_deref(), Some("deepseek-v4-flash"));
        let sessions = Sessions::JsonLines { root: "/h/sessions".into(), compressed: true };
        assert_eq!(found.sessions, Some(sessions));
    }
    let variables = [home, ("DSH_PERMISSION_MODE", "read-only"), ("DSH_MODEL", "m")];
    let patch = "- {id: acp, config: {provider: p, model: n}}";
    let found = Machine::new(&variables, &[("/project/p.yml", patch)])
        .launch(&["acp", "--patch", "p.yml"])
        .unwrap();
    assert_eq!(found.permission_mode, PermissionMode::ReadOnly);
    assert_eq!(found.model.model.as_deref(), Some("m"));
    let route = AcpServer { provider: Some("p".to_owned()), model: Some("n".to_owned()) };
    assert_eq!(found.acp, Some(route));
}

/// S-208.
#[test]
fn wrong_variables_of_a_profile_are_refused() {
    let refusal = |variables: &[(&str, &str)]| Machine::new(variables, &[]).refusal(&["sdk"]);
    let home = ("DSH_HOME", "/h");
    for (mode, expected) in [
        ("read-only", PermissionMode::ReadOnly),
        ("workspace-write", PermissionMode::WorkspaceWrite),
        ("danger-full-access", PermissionMode::DangerFullAccess),
    ] {
        let found =
            Machine::new(&[home, ("DSH_PERMISSION_MODE", mode)], &[]).launch(&["sdk"]).unwrap();
        assert_eq!(found.permission_mode, expected);
    }
    // P-6; checklist 2 of permissions.
    for wrong in ["never", "", "Read-only"] {
        assert_eq!(
            refusal(&[home, ("DSH_PERMISSION_MODE", wrong)]),
            format!(
                "DSH_PERMISSION_MODE is {wrong:?}; it must be read-only, workspace-write or danger-full-access"
            )
        );
    }
    assert!(refusal(&[home, ("DSH_MAX_TOKENS_AS_SUCCESS", "sometimes")]).contains(
        "entry `sdk-jsonrpc-server`: `maxTokensAsSuccess`: JSON.parse(…) is given \"sometimes\""
    ));
    assert_eq!(
        refusal(&[home, ("DSH_TELEMETRY_MODE", "ALL")]),
        "DSH_TELEMETRY_MODE is \"ALL\"; it must be FEEDBACK_ONLY or DISABLED"
    );
    assert_eq!(
        refusal(&[("DSH_HOME", " ")]),
        "neither DSH_HOME nor HOME is set; set DSH_HOME to a directory"
    );
}

/// P-8: without a row that says it, the variable does, else the default of form B.
#[test]
fn a_profile_whose_patches_take_the_policy_away_is_still_bounded() {
    let patch = ("/project/p.yml", "{id: sandbox-policy, disabled: true}");
    let mode = |variables: &[(&str, &str)], profile: &str| {
        let machine = Machine::new(variables, &[patch]);
        machine.launch(&[profile, "--patch", "p.yml"]).unwrap().permission_mode
    };
    let home = ("DSH_HOME", "/h");
    for profile in ["sdk", "sdk-minimal"] {
        assert_eq!(mode(&[home], profile), PermissionMode::WorkspaceWrite);
        let asked = [home, ("DSH_PERMISSION_MODE", "read-only")];
        assert_eq!(mode(&asked, profile), PermissionMode::ReadOnly);
    }
}

/// Whoever sets the variable believes in a bound.
#[test]
fn a_composition_that_does_not_look_at_the_mode_says_so() {
    let variables = [("DSH_HOME", "/h"), ("DSH_PERMISSION_MODE", "read-only")];
    let told = |arguments: &[&str]| {
        let files = [("/project/c.yml", crate::launch::tests::BUNDLED)];
        let found = Machine::new(&variables, &files).launch(arguments).unwrap();
        assert_eq!(found.permission_mode, PermissionMode::DangerFullAccess);
        found.notices.last().cloned().unwrap_or_default()
    };
    let expected = "this composition does not ask for DSH_PERMISSION_MODE, which is read-only: tools act under danger-full-access";
    assert_eq!(told(&["sdk-minimal"]), expected);
    assert_eq!(told(&["c.yml"]), expected);

    let machine = Machine::new(
        &[("DSH_PERMISSION_MODE", "all")],
        &[("/project/c.yml", crate::launch::tests::BUNDLED)],
    );
    assert_eq!(
        machine.refusal(&["c.yml"]),
        "DSH_PERMISSION_MODE is \"all\"; it must be read-only, workspace-write or danger-full-access"
    );
}

#[test]
fn patches_change_rows_and_add_some() {
    let patch = "
- {id: tool-fs, config: {write: false, edit: false}}
- {id: tool-bash, disabled: true}
- id: system-prompt
  name: '@deepseek-ai/dsh-system-prompt'
  config: {personaPrefix: !!js process.env.WHO}
- insert:
    - {id: more, name: '@deepseek-ai/cordis-plugin-group'}
- id: more
  insert:
    - {id: default-model, name: '@deepseek-ai/dsh-agent-default-model', config: {provider: deepseek-official, model: m}}
";
    let files = [("/project/p.yml", patch), ("/q.yml", "{id: tool-fs-search, disabled: true}")];
    let machine = Machine::new(&[("DSH_HOME", "/h"), ("WHO", "You are W.")], &files);
    let found = machine.launch(&["sdk", "--patch", "p.yml", "--patch", "/q.yml"]).unwrap();
    assert_eq!(
        found.tools.join(" "),
        "interrupt_agent job_kill job_list job_output list_agents read read_image send_message skill subagent todo_write"
    );
    assert_eq!(found.system_prompt.as_deref(), Some("You are W."));
    assert_eq!(found.model.model.as_deref(), Some("m"));
}

/// The user's own layers come before those of the command line, which so have the last word.
#[test]
fn patches_of_the_home_apply_to_every_launch() {
    let files = [
        (
            "/h/profiles/sdk/cordis.patch.yml",
            "- {id: system-prompt, config: {personaPrefix: profile}}",
        ),
        ("/h/cordis.patch.yml", "- {id: system-prompt, config: {personaPrefix: home}}"),
        ("/project/p.yml", "- {id: system-prompt, config: {personaPrefix: line}}"),
        ("/i/profiles/sdk/cordis.patch.yml", "# nothing yet\n\n[]\n"),
        ("/i/cordis.patch.yml", "# nothing yet\n"),
    ];
    let prompt = |home: &str, arguments: &[&str]| {
        let machine = Machine::new(&[("DSH_HOME", home)], &files);
        machine.launch(arguments).unwrap().system_prompt.unwrap()
    };
    assert_eq!(prompt("/h", &["sdk"]), "home");
    assert_eq!(prompt("/h", &["sdk", "--patch", "p.yml"]), "line");
    assert_eq!(prompt("/i", &["sdk"]), "You write and change code. Your model is {{model}}.");
}

/// S-204.
#[test]
fn a_patch_that_cannot_apply_is_refused() {
    let check = |patch: &str, expected: &str| {
        let machine = Machine::new(&[("DSH_HOME", "/h")], &[("/project/p.yml", patch)]);
        assert_eq!(
            machine.refusal(&["sdk", "--patch", "p.yml"]),
            format!("/project/p.yml{expected}"),
            "{patch}"
        );
    };
    check("(a directory)", ": cannot be read: it is a directory");
    check("5", ":1:1: a patch must be a mapping with `id`, or `insert`");
    check("- 5", ":1:3: a patch must be a mapping with `id`, or `insert`");
    check(
        "- {disabled: true}",
        ":1:3: the patch has neither `id` nor `insert`; say which row it changes",
    );
    check(
        "- {id: tool-fz}",
        ":1:3: the patch is for the unknown row `tool-fz`; did you mean `tool-fs`?",
    );
    check(
        "- {id: zzzzzzzz}",
        ":1:3: the patch is for the unknown row `zzzzzzzz`; add it with `insert`",
    );
    check(
        "- {id: tool-fs, disable: true}",
        ":1:17: unknown key `disable` of a patch; did you mean `disabled`?",
    );
    check(
        "- {id: tool-fs, name: '@acme/fs', disabled: true}",
        ":1:3: the patch is for `tool-fs` with the name @acme/fs, but there it has @deepseek-ai/dsh-tool-fs",
    );
    check("- {insert: {id: a}}", ":1:12: `insert` must be a list of entries");
    check(
        "- {id: tool-fs, insert: []}",
        ":1:25: the patch inserts into `tool-fs`, which is no group",
    );
    check("- {insert: [{id: a}]}", ":1:13: entry `a` has no `name`; add the name of its package");
    check(
        "- {id: aaaa}\n- {id: bbbb}",
        ":1:3: the patch is for the unknown row `aaaa`; add it with `insert`\n\
         /project/p.yml:2:3: the patch is for the unknown row `bbbb`; add it with `insert`",
    );

    let missing = Machine::new(&[("DSH_HOME", "/h")], &[]).refusal(&["sdk", "--patch", "none.yml"]);
    assert_eq!(missing, "/project/none.yml: the patch does not exist");
    let inserted = Machine::new(
        &[("DSH_HOME", "/h")],
        &[("/p.yml", "- {insert: [{id: a, name: '@acme/a'}]}")],
    );
    assert!(inserted.refusal(&["sdk", "--patch", "/p.yml"]).ends_with(
        "1:13: entry `a` names the unknown package @acme/a; its features are not part of this host"
    ));
}
