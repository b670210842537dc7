//! Rows 11 to 14: which rule decides, what a call is asked about, and who may change a rule.

use std::fs;

use serde_json::json;

use super::bench::{Answer, Site, bash, bash_with, on, tool, word};
use crate::support::place::text;

/// Two rules on the tools of a server, in this order.
fn ordered(first: (&str, &str), second: (&str, &str)) -> String {
    let rule = |(tool, decision)| {
        format!("[[permissions.rule]]\ntool = \"{tool}\"\ndecision = \"{decision}\"\n")
    };
    format!("{}{}", rule(first), rule(second))
}

/// P-26, P-31: the first rule that matches decides. (No server offers tools yet, so the calls themselves are left to
/// the tests of the bridge; what is decided of their names stands here.)
#[test]
fn row_11_the_first_rule_that_matches_decides() {
    let (ask, deny) = (("mcp__a__*", "ask"), ("mcp__a__drop", "deny"));
    let call = |tables: &str| {
        let site = Site::new().tables(tables);
        site.permissions(&["--tool", "mcp__a__drop", "--args", "{}"])["call"].clone()
    };
    let asked = call(&ordered(ask, deny));
    assert_eq!(asked["decision"], "ask", "{asked}");
    let denied = call(&ordered(deny, ask));
    assert_eq!(denied["decision"], "deny", "{denied}");
    assert_ne!(asked["rule"], denied["rule"]);
    for call in [&asked, &denied] {
        assert!(word(&call["rule"]).contains("transom.toml:"), "{call}");
    }

    // The same with a tool that there is.
    let (ask, deny) = (("ba*", "ask"), ("bash", "deny"));
    let outcome = |tables: &str| {
        let site = Site::new().tables(tables);
        let mut host = site.start();
        host.open("main");
        let turn = host.turn_answering("main", "echo ran", Answer::Allow);
        host.stop();
        (turn.decisions(), turn.result())
    };
    let (decisions, result) = outcome(&ordered(ask, deny));
    assert_eq!(decisions, [("permission rule".to_owned(), "allowed-once".to_owned())]);
    assert_eq!(result.went_well(), "ran\n");
    let (decisions, result) = outcome(&ordered(deny, ask));
    assert_eq!(decisions, []);
    result.failed("tool \"bash\" is denied by this host's permission rules");
    assert_eq!(result.code, "");
}

/// P-30: at most one ask for a call, none for one that cannot run.
#[test]
fn row_12_one_ask_for_all_reasons() {
    let tables = "[[permissions.rule]]\ntool = \"bash\"\ndecision = \"ask\"\nreason = \"somebody looks at shells\"\n";
    let wider =
        json!({"sandbox_permissions": "danger-full-access", "justification": "the test wants it"});
    let site = Site::new().tables(tables).script([
        on("both", [bash_with("touch a", &wider)]),
        on("bad", [tool("bash", json!({"command": "touch a"})), bash("")]),
    ]);
    let mut host = site.start();
    host.open("main");
    let turn = host.turn_answering("main", "both", Answer::Reject);
    let reason =
        "escalate sandbox to danger-full-access: the test wants it; somebody looks at shells";
    assert_eq!(turn.decisions(), [(reason.to_owned(), "rejected".to_owned())]);
    assert_eq!(turn.named("ask/opened").len(), 1);
    turn.result().failed("the user rejected escalating this command to \"danger-full-access\"");
    assert!(!site.cwd.join("a").exists());

    let turn = host.turn_answering("main", "bad", Answer::Allow);
    assert_eq!(turn.decisions(), [], "nobody is asked about a call that cannot run");
    let results = turn.results();
    assert!(results.iter().all(|result| result.is_error), "{results:?}");
    assert!(results[0].text.contains("description"), "{results:?}");

    let turn = host.turn_answering("main", "both", Answer::Allow);
    assert_eq!(turn.decisions(), [(reason.to_owned(), "allowed-once".to_owned())]);
    assert!(site.cwd.join("a").exists());
    host.stop();
}

/// P-27, P-28, P-31, P-33: a pattern allows no shell command, denies one well enough, and is named with file and
/// line.
#[test]
fn row_13_patterns_deny_and_do_not_allow_commands() {
    let rule = |decision: &str, command: &str| {
        format!(
            "[[permissions.rule]]\ntool = \"bash\"\nwhen = {{ command = \"{command}\" }}\ndecision = \"{decision}\"\n"
        )
    };
    let site = Site::new().tables(&rule("allow", "git *"));
    for arguments in [&["stdio", "frames"][..], &["run"], &["permissions"]] {
        let finished = site.run(arguments);
        assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{finished:?}");
        assert!(
            finished.stderr.contains(text(&site.manifest())),
            "the file is named: {finished:?}"
        );
        let line = fs::read_to_string(site.manifest())
            .expect("a manifest")
            .lines()
            .position(|line| line.starts_with("when"))
            .expect("a rule");
        // The rule's own line or that of what is wrong in it.
        let named =
            (line..=line + 2).any(|line| finished.stderr.contains(&format!("transom.toml:{line}")));
        assert!(named, "the line is named: {finished:?}");
        let said = "an allow rule cannot recognise shell commands by pattern; use the exact command, or confine instead";
        assert!(finished.stderr.contains(said), "{finished:?}");
    }

    let site = Site::new().tables(&rule("deny", "*git push*"));
    let mut host = site.start();
    host.open("main");
    host.shell("main", "cd . && git push origin main")
        .failed("tool \"bash\" is denied by this host's permission rules");
    assert_eq!(host.shell("main", "echo git pull").went_well(), "git pull\n");
    host.stop();
    let arguments = json!({"command": "git push", "description": "publish"}).to_string();
    let call = &site.permissions(&["--tool", "bash", "--args", &arguments])["call"];
    assert_eq!(call["decision"], "deny", "{call}");
    assert!(word(&call["rule"]).contains("transom.toml:"), "{call}");
    let finished = site.run(&["permissions", "--tool", "bash", "--args", &arguments]);
    assert!(finished.stdout.contains("transom.toml:"), "{finished:?}");

    // Nothing was run for it, and a command like it that is exact may be allowed.
    let site = Site::new().tables(&rule("allow", "git status"));
    assert_eq!(site.permissions(&[])["rules"][0]["decision"], "allow");
}

/// P-29, P-34: under `read-only` others' tools are asked about and the host's own run; a shell that can reach the
/// manifest changes no rule by it. (Rules are read again by `transom reload`, which this program does not have yet;
/// so what is shown here is that nothing else reads them.)
#[test]
fn row_14_nobody_but_the_operator_changes_a_rule() {
    let site = Site::new()
        .tables("[permissions]\npreset = \"read-only\"\n")
        .script([on("read", [tool("read", json!({"file_path": "note"}))])]);
    fs::write(site.cwd.join("note"), "a note\n").expect("a file");
    let call = &site.permissions(&["--tool", "mcp__x__y"])["call"];
    assert_eq!(call["decision"], "ask", "{call}");
    let mut host = site.start();
    host.open("main");
    assert_eq!(host.shell("main", "echo ran").went_well(), "ran\n");
    assert!(host.turn("main", "read").result().went_well().contains("a note"));
    host.stop();

    // The manifest stands below R.
    let rule = "[[permissions.rule]]\ntool = \"bash\"\nwhen = { command = \"*forbidden*\" }\ndecision = \"deny\"\n";
    let site = Site::new().tables(rule);
    let mut host = site.start();
    host.open_with("main", "new", &json!({"owner": "connection", "cwd": text(site.root())}));
    let before = fs::read_to_string(site.manifest()).expect("a manifest");
    let attack =
        "sed -i s/deny/allow/ transom.toml; mv transom.toml other; echo '#' >> transom.toml";
    // Where the host's own files below R cannot be covered, the command is asked about (P-53, P-60).
    let write = host.turn_answering("main", attack, Answer::Allow).result();
    let after = fs::read_to_string(site.manifest()).unwrap_or_default();
    if site.confiner().has_mounts() {
        assert_eq!(after, before, "the manifest is guarded (P-46): {write:?}");
    } else {
        site.confiner().demand_gap("guarded");
    }
    // Whatever stands there now.
    fs::write(site.manifest(), before.replace("deny", "ask")).expect("a manifest");
    host.shell("main", "echo forbidden")
        .failed("tool \"bash\" is denied by this host's permission rules");
    host.stop();
}
