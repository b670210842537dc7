//! Scripts that are refused, and where the finger points.

use super::*;

#[test]
fn the_built_in_script_is_valid() {
    assert!(!Script::builtin().rules.is_empty());
}

fn check(table: &[(String, &str)]) {
    for (text, expected) in table {
        let error = Script::from_str(text).unwrap_err();
        assert_eq!(error.to_string(), *expected, "{text}");
    }
}

#[test]
fn mistakes_in_a_script_are_pointed_at() {
    check(
        &[
            ("", "line 1, column 1: not JSON: EOF while parsing a value"),
            ("{\n  \"rules\": [}", "line 2, column 13: not JSON: expected value"),
            ("{\"rules\": []} x", "line 1, column 15: not JSON: trailing characters"),
            ("[]", "line 1, column 1: a script must be an object, found a list"),
            ("{}", "line 1, column 1: a script needs \"rules\""),
            (
                "{\n  \"rulez\": []}",
                "line 2, column 3: a script has no \"rulez\": did you mean \"rules\"?",
            ),
            (
                "{\"ünknown\": 1}",
                "line 1, column 2: a script has no \"ünknown\": there are \"model\", \"images\", \"context_window\", \"retry\", \"rules\"",
            ),
            (
                "{\"model\": \"ü\", \"rules\": 5}",
                "line 1, column 25: \"rules\" must be a list, found a number",
            ),
            (
                "{\"rules\": [], \"rules\": []}",
                "line 1, column 15: \"rules\" stands twice in a script: keep one",
            ),
            ("{\"model\": \"\", \"rules\": []}", "line 1, column 11: \"model\" must not be empty"),
            (
                "{\"images\": \"yes\", \"rules\": []}",
                "line 1, column 12: \"images\" must be true or false, found \"yes\"",
            ),
            (
                "{\"context_window\": 0, \"rules\": []}",
                "line 1, column 20: \"context_window\" must be at least 1, found 0",
            ),
            (
                "{\"retry\": {\"jitter_ratio\": 1.5}, \"rules\": []}",
                "line 1, column 28: \"jitter_ratio\" must be a number from 0 to 1, found 1.5",
            ),
            (
                "{\"retry\": {\"max_retries\": -1}, \"rules\": []}",
                "line 1, column 27: \"max_retries\" must be a whole number from 0, found -1",
            ),
            (
                "{\"retry\": {\"delay\": 1}, \"rules\": []}",
                "line 1, column 12: \"retry\" has no \"delay\": there are \"max_retries\", \"codes\", \"initial_delay_ms\", \"max_delay_ms\", \"jitter_ratio\"",
            ),
        ]
        .map(|(text, expected)| (text.to_owned(), expected)),
    );
}

#[test]
fn mistakes_in_a_rule_are_pointed_at() {
    check(
        &[
            ("5", "line 2, column 3: a rule must be an object, found a number"),
            ("{}", "line 2, column 3: a rule needs \"answer\""),
            ("{\"answers\": []}", "line 2, column 4: a rule has no \"answers\": did you mean \"answer\"?"),
            (
                "{\"when\": {\"contain\": \"a\"}, \"answer\": []}",
                "line 2, column 13: \"when\" has no \"contain\": did you mean \"contains\"?",
            ),
            (
                "{\"when\": {\"contains\": \"\"}, \"answer\": []}",
                "line 2, column 25: \"contains\" must not be empty: to fit every prompt leave it out",
            ),
            (
                "{\"when\": {\"notice\": []}, \"answer\": []}",
                "line 2, column 23: \"notice\" must not be empty: to fit every notice leave it out",
            ),
            (
                "{\"when\": {\"contains\": [\"a\", 1]}, \"answer\": []}",
                "line 2, column 31: each item of \"contains\" must be a string, found 1",
            ),
            (
                "{\"when\": {\"contains\": \"a\", \"exact\": \"b\"}, \"answer\": []}",
                "line 2, column 39: \"when\" takes one of \"contains\", \"exact\" and \"any\"",
            ),
            (
                "{\"when\": {\"any\": false}, \"answer\": []}",
                "line 2, column 20: \"any\" can only be true: a rule that fits no prompt is never used",
            ),
            (
                "{\"when\": {\"step\": 0}, \"answer\": []}",
                "line 2, column 21: \"step\" must be at least 1, found 0",
            ),
            ("{\"times\": 0, \"answer\": []}", "line 2, column 13: \"times\" must be at least 1, found 0"),
        ]
        .map(|(rule, expected)| (format!("{{\"rules\": [\n  {rule}\n]}}"), expected)),
    );
}

#[test]
fn mistakes_in_an_action_are_pointed_at() {
    check(
        &[
            ("{}", "line 2, column 1: an action is empty: it needs one member"),
            ("{\"txt\": \"a\"}", "line 2, column 2: an action has no \"txt\": did you mean \"text\"?"),
            (
                "{\"text\": \"a\", \"delay_ms\": 5}",
                "line 2, column 15: an action has one member: put \"delay_ms\" into one of its own",
            ),
            (
                "{\"text\": {}}",
                "line 2, column 10: \"text\" must be a string or a list of strings, found an object",
            ),
            (
                "{\"text\": \"{{promt}}\"}",
                "line 2, column 10: a template has no \"promt\": did you mean \"prompt\"?",
            ),
            (
                "{\"text\": \"{{result.0}}\"}",
                "line 2, column 10: a template has no \"result.0\": did you mean \"result\"?",
            ),
            (
                "{\"delay_ms\": 3600001}",
                "line 2, column 14: \"delay_ms\" must be at most 3600000, found 3600001",
            ),
            (
                "{\"delay_ms\": 0.5}",
                "line 2, column 14: \"delay_ms\" must be a whole number from 0, found 0.5",
            ),
            (
                "{\"finish\": \"stopp\"}",
                "line 2, column 12: \"finish\" has no \"stopp\": did you mean \"stop\"?",
            ),
            (
                "{\"finish\": \"stop\"}, {\"text\": \"a\"}",
                "line 2, column 21: nothing may follow \"finish\", \"error\" or \"cut\": the answer is over",
            ),
            (
                "{\"cut\": false}",
                "line 2, column 9: \"cut\" can only be true: leave it out for a whole answer",
            ),
            ("{\"error\": {\"message\": \"m\"}}", "line 2, column 11: \"error\" needs \"code\""),
            (
                "{\"error\": {\"code\": \"C\", \"message\": \"m\", \"status\": 42}}",
                "line 2, column 51: \"status\" must be an HTTP status, found 42",
            ),
            (
                "{\"usage\": {\"input_tokens\": 1}}",
                "line 2, column 11: \"usage\" needs \"output_tokens\"",
            ),
            ("{\"tool\": {\"arguments\": {}}}", "line 2, column 10: \"tool\" needs \"name\""),
            (
                "{\"tool\": {\"name\": \"t\", \"arguments\": 5}}",
                "line 2, column 37: \"arguments\" must be an object, a string or a list of strings, found a number",
            ),
            (
                "{\"tool\": {\"name\": \"t\", \"arguments\": {\"a\": [\"{{x}}\"]}}}",
                "line 2, column 37: a template has no \"x\": there are \"prompt\", \"result\", \"notice\", \"step\", \"images\"",
            ),
        ]
        .map(|(action, expected)| (format!("{{\"rules\": [{{\"answer\": [\n{action}\n]}}]}}"), expected)),
    );
}

#[test]
fn a_policy_is_changed_member_by_member() {
    let text = r#"{"retry": {"codes": ["SERVER", "AUTH"], "initial_delay_ms": 0}, "rules": []}"#;
    let script: Script = text.parse().unwrap();
    let expected = RetryPolicy {
        normal: Some(NormalRetry { max_retries: 2, codes: vec!["AUTH".into(), "SERVER".into()] }),
        initial_delay_ms: 0,
        ..RetryPolicy::default()
    };
    assert_eq!(script.retry, expected);
    let script: Script = r#"{"rules": []}"#.parse().unwrap();
    assert_eq!(script.retry, RetryPolicy::default());
    assert_eq!(script.with_retry(expected.clone()).retry, expected);
}
