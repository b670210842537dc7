//! Calls against rules, and rules against what there is to say of them.

use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Decision, Facts, Known, Pattern, Place, Rule, RuleError, Rules, ToolKind, Verdict, refusal,
};
use crate::permissions::{ApprovalPolicy, Mode, Outcome};

const BRIDGED: ToolKind = ToolKind::Bridged { trusted_read_only: false };

fn place(line: usize) -> Place {
    Place { file: "transom.toml".to_owned(), line }
}

/// `decision tool [argument=pattern] [@mode]`; the line is that of the list, from 1.
fn rule((at, text): (usize, &&str)) -> Rule {
    let mut words = text.split(' ');
    let mut rule = Rule {
        decision: Decision::parse(words.next().unwrap()).unwrap(),
        tool: Pattern::new(words.next().unwrap()),
        when: Vec::new(),
        mode: None,
        reason: None,
        place: place(at + 1),
    };
    for word in words {
        match word.split_once('=') {
            Some((argument, pattern)) => {
                rule.when.push((argument.to_owned(), Pattern::new(pattern.replace('+', " "))));
            }
            None => rule.mode = Some(Mode::parse(word.trim_start_matches('@')).unwrap()),
        }
    }
    rule
}

fn checked(texts: &[&str]) -> Result<Rules, Vec<RuleError>> {
    Rules::new(texts.iter().enumerate().map(rule).collect(), None)
}

fn rules(texts: &[&str]) -> Rules {
    checked(texts).unwrap()
}

/// Decides a call at the root `/w`, where a path leads to itself, `link` to `/etc/link` and `loop` nowhere.
/// The answer is the decision with the line of its rule.
fn decide(
    rules: &Rules,
    tool: &str,
    mode: Mode,
    kind: ToolKind,
    arguments: Value,
) -> (Decision, Option<usize>) {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let resolved = |name: &str| match arguments[name].as_str().unwrap() {
        "link" => Some("/etc/link".to_owned()),
        "loop" => None,
        "." => Some("/w".to_owned()),
        path if path.starts_with('/') => Some(path.to_owned()),
        path => Some(format!("/w/{path}")),
    };
    let call = Facts { tool, mode, arguments: &arguments, resolved: &resolved, root: "/w", kind };
    let Verdict { decision, rule } = rules.decide(&call);
    (decision, rule.map(|rule| rule.place.line))
}

/// A built-in tool under `workspace-write`.
fn built_in(rules: &Rules, tool: &str, arguments: Value) -> (Decision, Option<usize>) {
    decide(rules, tool, Mode::WorkspaceWrite, ToolKind::BuiltIn, arguments)
}

/// P-26; checklist 11.
#[test]
fn the_first_rule_that_matches_decides() {
    let asked = rules(&["ask mcp__a__*", "deny mcp__a__drop"]);
    let denied = rules(&["deny mcp__a__drop", "ask mcp__a__*"]);
    let call =
        |rules: &Rules, tool: &str| decide(rules, tool, Mode::DangerFullAccess, BRIDGED, json!({}));
    assert_eq!(call(&asked, "mcp__a__drop"), (Decision::Ask, Some(1)));
    assert_eq!(call(&denied, "mcp__a__drop"), (Decision::Deny, Some(1)));
    assert_eq!(call(&denied, "mcp__a__list"), (Decision::Ask, Some(2)));
    assert_eq!(call(&denied, "MCP__a__drop"), (Decision::Allow, None));
    assert_eq!(call(&denied, "mcp__a__drop2"), (Decision::Ask, Some(2)));
    assert_eq!(call(&denied, "mcp__b__drop"), (Decision::Allow, None));
}

/// P-29; checklist 14.
#[test]
fn without_a_rule_only_foreign_tools_are_asked_about_and_only_under_read_only() {
    let none = Rules::default();
    let check = |mode: Mode, kind: ToolKind, expected: Decision| {
        assert_eq!(
            decide(&none, "t", mode, kind, json!({})),
            (expected, None),
            "{mode:?} {kind:?}"
        );
    };
    let trusted = ToolKind::Bridged { trusted_read_only: true };
    check(Mode::ReadOnly, ToolKind::BuiltIn, Decision::Allow);
    check(Mode::ReadOnly, BRIDGED, Decision::Ask);
    check(Mode::ReadOnly, trusted, Decision::Allow);
    check(Mode::ReadOnly, ToolKind::Delegation, Decision::Ask);
    for mode in [Mode::WorkspaceWrite, Mode::DangerFullAccess] {
        for kind in [ToolKind::BuiltIn, BRIDGED, trusted, ToolKind::Delegation] {
            check(mode, kind, Decision::Allow);
        }
    }
    // The operator's default holds for all of them.
    let denying = Rules::new(Vec::new(), Some(Decision::Deny)).unwrap();
    assert_eq!(
        decide(&denying, "read", Mode::DangerFullAccess, ToolKind::BuiltIn, json!({})),
        (Decision::Deny, None)
    );
}

/// P-25.
#[test]
fn a_rule_with_a_mode_holds_under_that_mode_only() {
    let rules = rules(&["deny bash @workspace-write"]);
    for (mode, expected) in [
        (Mode::ReadOnly, Decision::Allow),
        (Mode::WorkspaceWrite, Decision::Deny),
        (Mode::DangerFullAccess, Decision::Allow),
    ] {
        assert_eq!(decide(&rules, "bash", mode, ToolKind::BuiltIn, json!({})).0, expected);
    }
}

/// P-27; checklist 13.
#[test]
fn all_named_arguments_have_to_be_texts_that_match() {
    let rules = rules(&["deny bash command=*git+push* description=*", "ask edit replace_all=true"]);
    let bash = |arguments| built_in(&rules, "bash", arguments).0;
    assert_eq!(bash(json!({"command": "cd x && git push -f", "description": ""})), Decision::Deny);
    assert_eq!(bash(json!({"command": "git pull", "description": "d"})), Decision::Allow);
    assert_eq!(bash(json!({"command": "git push"})), Decision::Allow);
    assert_eq!(bash(json!({"command": ["git push"], "description": "d"})), Decision::Allow);
    assert_eq!(bash(json!({"nested": {"command": "git push"}})), Decision::Allow);
    assert_eq!(built_in(&rules, "edit", json!({"replace_all": true})).0, Decision::Allow);
}

/// P-27: what counts is where the path leads.
#[test]
fn paths_are_compared_where_they_lead_and_relative_patterns_stand_below_the_root() {
    let check = |pattern: &str, path: &str, matches: bool| {
        let rules = rules(&[&format!("deny write file_path={pattern}")]);
        let found = built_in(&rules, "write", json!({ "file_path": path })).0;
        assert_eq!(found == Decision::Deny, matches, "{pattern} {path}");
    };
    check("src/*", "src/a.rs", true);
    check("src/*", "/w/src/deep/a.rs", true);
    check("src/*", "/w2/src/a.rs", false);
    check("src/*", "srcs/a.rs", false);
    check("*.pem", "a/b.pem", true);
    check("*.pem", "/etc/b.pem", false);
    check("*", ".", true);
    check("*", "x", true);
    check("*", "/wx", false);
    check("/etc/*", "link", true);
    check("link", "link", false);
    check("/w/*", "a", true);
    check("/*", "/etc/passwd", true);
}

/// P-27: `file_path`, `path` and `workdir` are paths whatever the tool; nothing else is.
#[test]
fn only_three_arguments_are_paths() {
    let rules = rules(&["deny * path=/w/a", "deny * workdir=/w/a", "deny * pattern=a"]);
    for (argument, line) in [("path", 1), ("workdir", 2), ("pattern", 3)] {
        let call = decide(&rules, "t", Mode::ReadOnly, BRIDGED, json!({ (argument): "a" }));
        assert_eq!(call, (Decision::Deny, Some(line)));
    }
}

/// A root at the top of the file system, and one with a `*` in its name.
#[test]
fn a_roots_name_is_taken_literally() {
    let rules = rules(&["deny read path=b"]);
    let arguments = json!({ "path": "?" });
    let check = |root: &str, path: &str, expected: Decision| {
        let resolved = |_: &str| Some(path.to_owned());
        let call = Facts {
            tool: "read",
            mode: Mode::WorkspaceWrite,
            arguments: arguments.as_object().unwrap(),
            resolved: &resolved,
            root,
            kind: ToolKind::BuiltIn,
        };
        assert_eq!(rules.decide(&call).decision, expected, "{root} {path}");
    };
    check("/", "/b", Decision::Deny);
    check("/", "/a/b", Decision::Allow);
    check("/a*", "/a*/b", Decision::Deny);
    check("/a*", "/ax/b", Decision::Allow);
}

#[test]
fn a_path_that_leads_nowhere_is_not_allowed_by_pattern_and_not_let_past_a_denial() {
    let arguments = || json!({ "path": "loop" });
    assert_eq!(built_in(&rules(&["deny grep path=/etc/*"]), "grep", arguments()).0, Decision::Deny);
    let allowing = Rules::new(vec![rule((0, &"allow grep path=*"))], Some(Decision::Deny)).unwrap();
    assert_eq!(built_in(&allowing, "grep", arguments()), (Decision::Deny, None));
}

#[test]
fn paths_are_resolved_only_for_rules_that_look_at_them() {
    let rules = rules(&["deny bash command=x", "ask wri* file_path=*.pem", "deny read path=b"]);
    for (tool, expected) in [("bash", false), ("write", true), ("read", true), ("grep", false)] {
        assert_eq!(rules.needs_paths(tool), expected, "{tool}");
    }
    let asked = RefCell::new(Vec::new());
    let resolved = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        None
    };
    let arguments = json!({ "command": "y", "path": "p" });
    rules.decide(&Facts {
        tool: "bash",
        mode: Mode::ReadOnly,
        arguments: arguments.as_object().unwrap(),
        resolved: &resolved,
        root: "/w",
        kind: ToolKind::BuiltIn,
    });
    assert!(asked.borrow().is_empty());
}

/// P-25, P-28; checklist 13.
#[test]
fn rules_that_cannot_be_obeyed_are_refused_together() {
    let found = checked(&[
        "allow bash command=git+*",
        "allow ba* command=*",
        "deny * a=x b=y",
        "ask * b=y a=x",
    ])
    .unwrap_err();
    let pattern = "an allow rule cannot recognise shell commands by pattern; use the exact command, or confine instead";
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            format!("transom.toml:1: {pattern}"),
            format!("transom.toml:2: {pattern}"),
            "transom.toml:4: the rule is equal to that of transom.toml:3 up to its decision; leave one of them out"
                .to_owned(),
        ]
    );
    let nameless = Rule { tool: Pattern::new(""), ..rule((8, &"ask x")) };
    assert_eq!(
        Rules::new(vec![nameless], None).unwrap_err(),
        [RuleError::NoTool { place: place(9) }]
    );
    for good in [
        &["allow bash command=git+status"][..],
        &["deny bash command=*git+push*"],
        &["ask bash command=*"],
        &["allow bash description=*"],
        &["allow mcp__sh__run command=*"],
        &["deny x", "deny x @read-only", "deny x a=b", "deny x a=c"],
    ] {
        assert!(checked(good).is_ok(), "{good:?}");
    }
}

/// P-26, P-31.
#[test]
fn rules_without_an_effect_are_named() {
    let known = Known {
        names: &["bash", "read", "write"],
        prefixes: &["mcp__git__"],
        policy: ApprovalPolicy::Ask,
    };
    let check = |texts: &[&str], expected: &[(usize, &str)]| {
        let found = rules(texts).warnings(&known);
        let found: Vec<_> = found
            .iter()
            .map(|warning| (warning.place.as_ref().unwrap().line, warning.message.as_str()))
            .collect();
        assert_eq!(found.len(), expected.len(), "{texts:?} {found:?}");
        for ((line, message), (expected_line, part)) in found.iter().zip(expected) {
            assert_eq!(line, expected_line, "{texts:?}");
            assert!(message.contains(part), "{texts:?} {message}");
        }
    };
    check(&["deny bash", "deny r*", "ask mcp__git__push", "ask mcp__*__push", "deny *"], &[]);
    check(&["deny raed", "deny mcp__gut__*"], &[(1, "\"raed\""), (2, "\"mcp__gut__*\"")]);
    check(&["ask *", "deny bash"], &[(2, "transom.toml:1")]);
    check(&["ask mcp__*", "deny mcp__git__*push"], &[(2, "never decides")]);
    check(&["ask mcp__*push", "deny mcp__*"], &[]);
    check(&["deny bash command=*git*", "ask bash command=*git+push*"], &[(2, "transom.toml:1")]);
    check(&["deny bash command=*git*", "ask bash"], &[]);
    check(&["deny bash", "ask bash command=x"], &[(2, "transom.toml:1")]);
    check(&["deny bash @read-only", "ask bash"], &[]);
    check(&["deny bash", "ask bash @read-only"], &[(2, "transom.toml:1")]);
    // Together they leave nothing.
    check(
        &[
            "deny bash @read-only",
            "ask bash @workspace-write",
            "deny ba* @danger-full-access",
            "allow bash",
        ],
        &[(4, "transom.toml:1")],
    );
    // Relative patterns stand below some root, absolute ones where they say.
    check(&["deny read path=/*", "ask read path=src/*"], &[(2, "transom.toml:1")]);
    check(&["deny read path=*", "ask read path=/src/*"], &[]);
    check(&["deny read path=src/*", "ask read path=src/a/*"], &[(2, "transom.toml:1")]);
    // A path that leads nowhere meets the denial all the same.
    check(&["allow read path=*", "deny read path=a"], &[]);
    check(&["allow read path=*", "allow read path=a"], &[(2, "transom.toml:1")]);
}

/// P-31.
#[test]
fn asking_under_a_policy_that_refuses_is_named() {
    let known = Known { names: &["bash"], prefixes: &[], policy: ApprovalPolicy::Never };
    let rules = Rules::new(vec![rule((0, &"ask bash")), rule((1, &"deny *"))], Some(Decision::Ask))
        .unwrap();
    let found = rules.warnings(&known);
    assert_eq!(
        found.iter().map(|warning| warning.place.clone()).collect::<Vec<_>>(),
        [Some(place(1)), None]
    );
    assert!(found.iter().all(|warning| warning.message.contains("`never`")));
}

/// P-31, L-62.
#[test]
fn the_texts_name_the_tool_and_the_operators_reason() {
    let own = Rule { reason: Some("ask ops first".to_owned()), ..rule((0, &"deny x")) };
    let silent = rule((0, &"deny x"));
    let verdict = |rule| Verdict { decision: Decision::Deny, rule };
    let denied = "tool \"x\" is denied by this host's permission rules";
    assert_eq!(verdict(Some(&own)).denial("x"), format!("{denied}: ask ops first"));
    assert_eq!(verdict(Some(&silent)).denial("x"), denied);
    assert_eq!(verdict(None).denial("x"), denied);
    assert_eq!(verdict(Some(&own)).ask_reason(), "ask ops first");
    assert_eq!(verdict(Some(&silent)).ask_reason(), "permission rule");
    assert_eq!(verdict(Some(&own)).unsupported("x"), "ask ops first");
    assert_eq!(
        verdict(Some(&silent)).unsupported("x"),
        "tool \"x\" requires approval (not yet supported)"
    );
    assert_eq!(refusal("x", Outcome::AllowedOnce), None);
    assert_eq!(refusal("x", Outcome::Rejected).unwrap(), "the user rejected tool \"x\"");
    assert_eq!(refusal("x", Outcome::Cancelled).unwrap(), "approval for tool \"x\" was cancelled");
    assert_eq!(
        refusal("x", Outcome::Unavailable).unwrap(),
        "tool \"x\" requires approval, but no approval channel is available"
    );
}

/// P-26, as it is written down.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|end| naive(rest, &text[end..])),
        [letter, rest @ ..] => text.first() == Some(letter) && naive(rest, &text[1..]),
    }
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn patterns_match_what_their_definition_says(pattern in "[aбc*]{0,7}", text in "[aбc*]{0,9}") {
        let expected = naive(&letters(&pattern), &letters(&text));
        prop_assert_eq!(Pattern::new(pattern).matches(&text), expected);
    }

    /// Whatever a covered pattern matches is matched; what is not covered has a witness.
    #[test]
    fn covering_is_inclusion(wide in "[ab*]{0,6}", narrow in "[ab*]{0,6}", filler in "[abz]{0,3}") {
        let (wide, narrow) = (Pattern::new(wide), Pattern::new(narrow));
        let text = narrow.as_str().replace('*', &filler);
        prop_assert!(narrow.matches(&text));
        if wide.covers(&narrow) {
            prop_assert!(wide.matches(&text));
        } else {
            // A letter that the wide pattern does not know has to fall to one of its stars.
            prop_assert!(!wide.matches(&narrow.as_str().replace('*', "z")));
        }
    }

    #[test]
    fn a_pattern_that_can_begin_so_has_a_text_that_does(pattern in "[ab*]{0,5}", prefix in "[ab]{0,4}") {
        let pattern = Pattern::new(pattern);
        // The longest text worth trying ends in the whole pattern.
        let tail = pattern.as_str().replace('*', "");
        let found = (0..=tail.len())
            .map(|from| format!("{prefix}{}", &tail[from..]))
            .any(|text| pattern.matches(&text));
        prop_assert_eq!(pattern.can_begin(&prefix), found);
    }
}
