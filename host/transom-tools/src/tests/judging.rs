//! Whether calls may begin: rules, escalation and shells without a confiner (P-18, P-19, P-30, P-31, P-60). What a
//! confined command may do is told where there is a confiner: `tests/confined.rs`.

use serde_json::{Value, json};
use tokio::sync::oneshot;
use transom_harness::{
    permissions::{
        Access, ApprovalPolicy, Mode,
        rules::{Decision, Pattern, Place, Rule, Rules},
    },
    ports::{Judgement, ToolCall, ToolOutcome, Tools, Wanted},
};
use transom_process::Confinement;

use super::{Bench, Made, coded, failure, plain, text};
use crate::{Options, Permissions};

const ASK: Access = Access {
    mode: Mode::WorkspaceWrite,
    policy: ApprovalPolicy::Ask,
    logged_mode: None,
    unconfined: false,
};
const NEVER: Access = Access { policy: ApprovalPolicy::Never, ..ASK };
const READ_ONLY: Access = Access { mode: Mode::ReadOnly, ..ASK };

const NO_CONFINER: &str = "sandbox mode \"workspace-write\" is requested but no sandbox backend is usable on this \
    host; refusing to run the command unconfined: no confiner was set up";
const WITHOUT: &str =
    "no confiner on this host: run this command without confinement under workspace-write";

impl Bench {
    fn confining(change: impl FnOnce(&mut Options)) -> Bench {
        Bench::with(|options| {
            options.permissions = confining(Vec::new(), None);
            change(options);
        })
    }

    fn wished(&self, name: &str, arguments: &str, access: Access) -> ToolCall {
        ToolCall {
            session: self.session.into(),
            cwd: Some(self.shown("")),
            root: None,
            call_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            access,
            jobs: Default::default(),
        }
    }

    async fn judge(&self, name: &str, arguments: Value, access: Access) -> Judgement {
        let call = self.wished(name, &arguments.to_string(), access);
        let (sender, judgement) = oneshot::channel();
        let sender = std::sync::Mutex::new(Some(sender));
        self.registry.judge(
            call,
            Box::new(move |judgement| {
                sender.lock().unwrap().take().unwrap().send(judgement).unwrap();
            }),
        );
        judgement.await.unwrap()
    }

    async fn refused(&self, name: &str, arguments: Value, access: Access) -> (String, String) {
        match self.judge(name, arguments, access).await {
            Judgement::Refuse(outcome) => failure(&outcome),
            other => panic!("a refusal expected, not {other:?}"),
        }
    }

    async fn asked(&self, name: &str, arguments: Value, access: Access) -> Wanted {
        match self.judge(name, arguments, access).await {
            Judgement::Ask(wanted) => *wanted,
            other => panic!("an ask expected, not {other:?}"),
        }
    }
}

fn confining(rules: Vec<Rule>, default: Option<Decision>) -> Permissions {
    Permissions {
        rules: Rules::new(rules, default).unwrap(),
        approvals: true,
        confines_shell: true,
        confines_files: true,
    }
}

/// `tool when decision` in words of the manifest.
fn rule(tool: &str, when: &[(&str, &str)], decision: Decision, reason: Option<&str>) -> Rule {
    Rule {
        tool: Pattern::new(tool),
        when: when.iter().map(|(name, text)| ((*name).to_owned(), Pattern::new(*text))).collect(),
        mode: None,
        decision,
        reason: reason.map(str::to_owned),
        place: Place { file: "transom.toml".to_owned(), line: 7 },
    }
}

fn bash(more: Value) -> Value {
    with(json!({ "command": "true", "description": "a test" }), more)
}

fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn wider(mode: &str) -> Value {
    json!({ "sandbox_permissions": mode, "justification": "it has to be" })
}

fn texts(wanted: &Wanted) -> [(String, String); 3] {
    [&wanted.rejected, &wanted.cancelled, &wanted.unavailable].map(failure)
}

#[tokio::test]
async fn p19_rows_1_to_6_are_told_without_asking() {
    let bench = Bench::confining(|_| {});
    let write = |more| with(json!({ "file_path": "a", "content": "" }), more);
    let table = [
        // Checks of bash's own come first.
        (
            "bash",
            with(
                bash(json!({ "sandbox_permissions": "workspace-write" })),
                json!({ "command": " " }),
            ),
            "invalid command: expected a non-empty string",
        ),
        (
            "bash",
            bash(json!({ "sandbox_permissions": "workspace-write", "timeoutMs": -1 })),
            "invalid timeoutMs: expected a positive number of milliseconds, got -1",
        ),
        (
            "bash",
            bash(json!({ "sandbox_permissions": "danger-full-access" })),
            "invalid escalation: sandbox_permissions requires a justification",
        ),
        (
            "write",
            write(json!({ "justification": "" })),
            "invalid escalation: justification is only valid together with sandbox_permissions",
        ),
        (
            "bash",
            bash(json!({ "sandbox_permissions": "danger-full-access", "justification": " \n" })),
            "invalid justification: expected a non-empty sentence",
        ),
        (
            "bash",
            bash(wider("workspace-write")),
            "sandbox escalation to \"workspace-write\" is not strictly wider than this call's current \
             \"workspace-write\" mode",
        ),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(bench.refused(name, arguments, ASK).await, plain(expected));
    }
    // Row 9: under the widest mode every escalation fails by row 5, whatever the policy.
    let expected = "sandbox escalation to \"danger-full-access\" is not strictly wider than this call's current \
                    \"danger-full-access\" mode";
    let refused = bench.refused("bash", bash(wider("danger-full-access")), Access::FULL).await;
    assert_eq!(refused, plain(expected));

    bench.registry.set_permissions(Permissions { approvals: false, ..confining(Vec::new(), None) });
    let expected = "sandbox escalation to \"danger-full-access\" requires approval, but no approval service is \
                    composed";
    let refused = bench.refused("edit", edit(wider("danger-full-access")), ASK).await;
    assert_eq!(refused, plain(expected));
    // Another word is a bad argument (L-54).
    let expected = "invalid arguments: \"sandbox_permissions\" must be one of \
                    [\"workspace-write\",\"danger-full-access\"]";
    let refused = bench.refused("bash", bash(wider("read-only")), ASK).await;
    assert_eq!(refused, coded(expected, "ToolArgsError/INVALID_ARGS"));
}

fn edit(more: Value) -> Value {
    with(json!({ "file_path": "a", "old_string": "a", "new_string": "b" }), more)
}

#[tokio::test]
async fn row_9_where_nothing_confines_there_is_nothing_to_escalate() {
    let bench = Bench::new();
    let shell = "sandbox_permissions is not available in this composition (no sandboxing executor to escalate)";
    let files = "sandbox_permissions is not available in this composition (no sandboxing filesystem to escalate)";
    let refused = bench.refused("bash", bash(wider("danger-full-access")), Access::FULL).await;
    assert_eq!(refused, plain(shell));
    let refused = bench.refused("edit", edit(wider("anything")), ASK).await;
    assert_eq!(refused, plain(files));
    // Other tools have never heard of it.
    let read = with(json!({ "file_path": "a" }), wider("danger-full-access"));
    assert_eq!(bench.judge("read", read, ASK).await, Judgement::Run);
}

#[tokio::test]
async fn p18_the_arguments_are_in_the_schema_exactly_where_the_tool_is_confined() {
    let bench = Bench::new();
    let told = |bench: &Bench| {
        let has = |property: &str| {
            let specs = bench.registry.specs(&"main".into());
            let with =
                specs.iter().filter(|spec| !spec.parameters["properties"][property].is_null());
            with.map(|spec| spec.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(has("sandbox_permissions"), has("justification"));
        has("justification")
    };
    assert_eq!(told(&bench), "");
    bench
        .registry
        .set_permissions(Permissions { confines_files: false, ..confining(vec![], None) });
    assert_eq!(told(&bench), "bash");
    assert!(
        bench.registry.specs(&"main".into())[0].description.contains("the very same command once")
    );
    bench.registry.set_permissions(confining(vec![], None));
    assert_eq!(told(&bench), "bash edit write");
    let target =
        &bench.registry.specs(&"main".into())[0].parameters["properties"]["sandbox_permissions"];
    assert_eq!(target["enum"], json!(["workspace-write", "danger-full-access"]));
    bench.registry.set_permissions(Permissions::default());
    assert_eq!(told(&bench), "");
    assert!(!bench.registry.specs(&"main".into())[0].description.contains("confined"));
}

#[tokio::test]
async fn row_7_an_escalation_is_an_ask_with_its_own_refusals() {
    let bench = Bench::confining(|_| {});
    let wanted = bench
        .asked(
            "write",
            with(json!({ "file_path": "/etc/x", "content": "" }), wider("danger-full-access")),
            ASK,
        )
        .await;
    assert_eq!(
        wanted.reason.as_deref(),
        Some("escalate sandbox to danger-full-access: it has to be")
    );
    assert_eq!(wanted.granted, Access { mode: Mode::DangerFullAccess, ..ASK });
    assert!(wanted.begun);
    let expected = [
        "the user rejected escalating this operation to \"danger-full-access\"",
        "approval for escalating to \"danger-full-access\" was cancelled",
        "sandbox escalation to \"danger-full-access\" requires approval, but no approval channel is available",
    ];
    assert_eq!(texts(&wanted), expected.map(plain));
    // Row 10: under the policy `never` it is an ask all the same, which the loop rejects.
    let wanted = bench.asked("bash", bash(wider("danger-full-access")), NEVER).await;
    let rejected = "the user rejected escalating this command to \"danger-full-access\"";
    assert_eq!(failure(&wanted.rejected), plain(rejected));
}

#[tokio::test]
async fn row_11_the_first_rule_that_matches_decides() {
    let bench = Bench::confining(|_| {});
    for name in ["mcp__a__drop", "mcp__a__list", "mcp__b__list"] {
        let tool = Made::new(name, |_| async { Ok(ToolOutcome::text("")) });
        bench.registry.register(tool.into_tool()).unwrap();
    }
    let ask = rule("mcp__a__*", &[], Decision::Ask, None);
    let deny = rule("mcp__a__drop", &[], Decision::Deny, None);
    bench.registry.set_permissions(confining(vec![ask.clone(), deny.clone()], None));
    let wanted = bench.asked("mcp__a__drop", json!({}), ASK).await;
    assert_eq!(wanted.reason.as_deref(), Some("permission rule"));
    assert_eq!((wanted.granted, wanted.begun), (ASK, false));
    let expected = [
        "the user rejected tool \"mcp__a__drop\"",
        "approval for tool \"mcp__a__drop\" was cancelled",
        "tool \"mcp__a__drop\" requires approval, but no approval channel is available",
    ];
    assert_eq!(texts(&wanted), expected.map(plain));

    bench.registry.set_permissions(confining(vec![deny.clone(), ask.clone()], None));
    let denied = "tool \"mcp__a__drop\" is denied by this host's permission rules";
    assert_eq!(bench.refused("mcp__a__drop", json!({}), ASK).await, plain(denied));
    assert_eq!(bench.judge("mcp__b__list", json!({}), ASK).await, Judgement::Run);

    let reasoned = Rule { reason: Some("it is final".to_owned()), ..deny };
    bench.registry.set_permissions(confining(vec![reasoned], None));
    let denied = format!("{denied}: it is final");
    assert_eq!(bench.refused("mcp__a__drop", json!({}), ASK).await, plain(denied));

    // Without an approval service an ask is a refusal (L-62).
    let ask_why = Rule { reason: Some("ask the owner".to_owned()), ..ask.clone() };
    for (rule, expected) in [
        (ask, "tool \"mcp__a__list\" requires approval (not yet supported)"),
        (ask_why, "ask the owner"),
    ] {
        let permissions = Permissions { approvals: false, ..confining(vec![rule], None) };
        bench.registry.set_permissions(permissions);
        assert_eq!(bench.refused("mcp__a__list", json!({}), ASK).await, plain(expected));
    }
}

#[tokio::test]
async fn row_12_one_ask_for_all_reasons_and_none_for_bad_arguments() {
    let ask = rule("bash", &[], Decision::Ask, Some("shells are watched"));
    let bench = Bench::confining(|options| {
        options.permissions = confining(vec![ask], None);
    });
    let wanted = bench.asked("bash", bash(wider("danger-full-access")), ASK).await;
    let reason = "escalate sandbox to danger-full-access: it has to be; shells are watched";
    assert_eq!(wanted.reason.as_deref(), Some(reason));
    let rejected = "the user rejected escalating this command to \"danger-full-access\"";
    assert_eq!(failure(&wanted.rejected), plain(rejected));

    // All three, in the order of P-30.
    let wanted = bench.asked("bash", bash(wider("workspace-write")), READ_ONLY).await;
    let reason =
        format!("escalate sandbox to workspace-write: it has to be; {WITHOUT}; shells are watched");
    assert_eq!(wanted.reason, Some(reason));
    let granted = Access { mode: Mode::WorkspaceWrite, unconfined: true, ..ASK };
    assert_eq!(wanted.granted, granted);

    let expected = "invalid arguments: missing required property \"description\"";
    let refused = bench.refused("bash", json!({ "command": "true" }), ASK).await;
    assert_eq!(refused, coded(expected, "ToolArgsError/INVALID_ARGS"));
    let refused = bench.refused("nothing", json!({}), ASK).await;
    assert_eq!(refused, coded("unknown tool \"nothing\"", "ToolNotFoundError/UNKNOWN_TOOL"));
    let disabled =
        "run_in_background is disabled for this deployment (enableRunInBackground: false)";
    let refused = bench.refused("bash", bash(json!({ "run_in_background": true })), ASK).await;
    assert_eq!(refused, plain(disabled));
}

#[tokio::test]
async fn row_13_a_deny_rule_reads_arguments_and_is_named() {
    let deny = rule("bash", &[("command", "*git push*")], Decision::Deny, None);
    let bench = Bench::with(|options| {
        options.permissions = Permissions {
            rules: Rules::new(vec![deny.clone()], None).unwrap(),
            ..Permissions::default()
        };
    });
    let push = json!({ "command": "cd x && git push", "description": "x" });
    let denied = "tool \"bash\" is denied by this host's permission rules";
    assert_eq!(bench.refused("bash", push.clone(), Access::FULL).await, plain(denied));
    assert_eq!(bench.judge("bash", bash(json!({})), Access::FULL).await, Judgement::Run);

    let explained = bench.registry.explain(&bench.wished("bash", &push.to_string(), Access::FULL));
    assert_eq!(explained.decision, Decision::Deny);
    assert_eq!(explained.rule.unwrap().place.to_string(), "transom.toml:7");
    // Without all arguments it can still be told which rule would decide.
    let explained =
        bench.registry.explain(&bench.wished("bash", r#"{"command":"git push"}"#, Access::FULL));
    assert_eq!(explained.rule, Some(deny));
    assert!(
        matches!(explained.judgement, Judgement::Refuse(outcome) if text(&outcome).contains("description"))
    );
    let explained = bench.registry.explain(&bench.wished("mcp__x__y", "", READ_ONLY));
    assert_eq!((explained.decision, explained.rule), (Decision::Ask, None));
}

#[tokio::test]
async fn row_14_what_others_carry_out_is_asked_about_under_read_only() {
    let bench = Bench::with(|options| {
        options.permissions.approvals = true;
    });
    let tool = Made::new("mcp__x__y", |_| async { Ok(ToolOutcome::text("")) });
    bench.registry.register(tool.into_tool()).unwrap();
    let wanted = bench.asked("mcp__x__y", json!({}), READ_ONLY).await;
    assert_eq!(wanted.reason.as_deref(), Some("permission rule"));
    assert_eq!(bench.judge("mcp__x__y", json!({}), ASK).await, Judgement::Run);
    assert_eq!(bench.judge("bash", bash(json!({})), READ_ONLY).await, Judgement::Run);
    assert_eq!(bench.judge("read", json!({ "file_path": "a" }), READ_ONLY).await, Judgement::Run);
}

#[tokio::test]
async fn p27_paths_are_compared_where_they_lead() {
    let deny = rule("write", &[("file_path", "secret/*")], Decision::Deny, None);
    let allow = rule("write", &[("file_path", "*")], Decision::Allow, None);
    let rest = rule("write", &[], Decision::Ask, Some("outside"));
    let bench = Bench::confining(|options| {
        options.permissions = confining(vec![deny, allow, rest], None);
    });
    bench.put("secret/old", "");
    bench.put("open/old", "");
    std::os::unix::fs::symlink(bench.path("secret"), bench.path("open/link")).unwrap();
    std::os::unix::fs::symlink("../secret/nothing", bench.path("open/broken")).unwrap();
    let judge = async |path: &str| match bench
        .judge("write", json!({ "file_path": path, "content": "" }), ASK)
        .await
    {
        Judgement::Run => "allow",
        Judgement::Refuse(_) => "deny",
        Judgement::Ask(_) => "ask",
    };
    let table = [
        ("open/new", "allow"),
        ("open/new/deep/file", "allow"),
        (&bench.shown("open/new"), "allow"),
        ("secret/old", "deny"),
        ("secret/new/deep", "deny"),
        ("open/link/new", "deny"),
        ("open/link/../secret/new", "deny"),
        ("/etc/new", "ask"),
        ("open/broken", "deny"),
        // Nobody knows where this leads: no allow rule holds, and every other one does.
        ("open/missing/../new", "deny"),
    ];
    for (path, expected) in table {
        assert_eq!(judge(path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn row_22_a_shell_without_a_confiner_is_asked_about() {
    let bench = Bench::confining(|_| {});
    let wanted = bench.asked("bash", bash(json!({})), ASK).await;
    assert_eq!(wanted.reason.as_deref(), Some(WITHOUT));
    assert_eq!(wanted.granted, Access { unconfined: true, ..ASK });
    assert!(!wanted.begun);
    let expected = [
        plain("the user rejected running this command without confinement"),
        plain("approval for running this command without confinement was cancelled"),
        coded(NO_CONFINER, "SandboxUnavailableError/SANDBOX_UNAVAILABLE"),
    ];
    assert_eq!(texts(&wanted), expected);

    // The answer is the only way: without it, nothing runs.
    let unavailable = coded(NO_CONFINER, "SandboxUnavailableError/SANDBOX_UNAVAILABLE");
    let arguments = json!({ "command": "touch ran", "description": "x" }).to_string();
    let run = async |access| {
        let (sender, mut results) = tokio::sync::mpsc::channel(1);
        let call = bench.wished("bash", &arguments, access);
        let sink = move |outcome| sender.try_send(outcome).unwrap();
        let _stop = bench.registry.call(call, Box::new(sink));
        results.recv().await.unwrap()
    };
    assert_eq!(failure(&run(ASK).await), unavailable);
    assert!(!bench.path("ran").exists());
    assert_eq!(text(&run(wanted.granted).await), "(no output)");
    assert!(bench.path("ran").exists());

    // Nobody can say yes: no ask.
    assert_eq!(bench.refused("bash", bash(json!({})), NEVER).await, unavailable);
    // File tools are what they are, and so are shells under the widest mode.
    assert_eq!(bench.judge("edit", edit(json!({})), ASK).await, Judgement::Run);
    assert_eq!(bench.judge("bash", bash(json!({})), Access::FULL).await, Judgement::Run);
    let wanted = bench.asked("bash", bash(wider("danger-full-access")), ASK).await;
    let reason = "escalate sandbox to danger-full-access: it has to be";
    assert_eq!(wanted.reason.as_deref(), Some(reason));

    bench.registry.set_permissions(Permissions { approvals: false, ..confining(vec![], None) });
    assert_eq!(bench.refused("bash", bash(json!({})), ASK).await, unavailable);

    let required = Confinement { required: true, ..Confinement::default() };
    bench.registry.set_permissions(confining(vec![], None));
    bench.registry.set_confinement(required, None);
    assert_eq!(bench.refused("bash", bash(json!({})), ASK).await, unavailable);
}
