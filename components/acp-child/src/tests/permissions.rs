//! Questions of the agent, which nobody sees (A-161, A-162).

use super::*;

/// At work, where the operator says this to every question.
fn under(permission: &str) -> Vec<String> {
    let asked = ASKED.replace("\"reject\"", &format!("\"{permission}\""));
    [START, GREETED, OPENED].map(str::to_owned).into_iter().chain([asked]).collect()
}

fn question(session: &str, options: &[(&str, &str)]) -> String {
    let options: Vec<_> = options
        .iter()
        .map(|(id, kind)| format!(r#"{{"optionId":"{id}","name":"N","kind":"{kind}"}}"#))
        .collect();
    let options = options.join(",");
    format!(
        r#"6 unit {{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"t"}},"options":[{options}]}}}}"#
    )
}

fn selected(option: &str) -> String {
    format!(
        r#"unit {{"jsonrpc":"2.0","id":"q","result":{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}}}"#
    )
}

const CANCELLED: &str =
    r#"unit {"jsonrpc":"2.0","id":"q","result":{"outcome":{"outcome":"cancelled"}}}"#;

const ALL: [(&str, &str); 4] =
    [("ra", "reject_always"), ("aa", "allow_always"), ("r", "reject_once"), ("a", "allow_once")];

#[test]
fn a161_the_operators_word_chooses_and_once_goes_before_always() {
    type Offered<'a> = &'a [(&'a str, &'a str)];
    let table: [(&str, Offered<'_>, String, &str); 8] = [
        ("reject", &ALL, selected("r"), "rejected"),
        ("allow", &ALL, selected("a"), "allowed once"),
        ("reject", &[("aa", "allow_always"), ("ra", "reject_always")], selected("ra"), "rejected"),
        (
            "allow",
            &[("aa", "allow_always"), ("ra", "reject_always")],
            selected("aa"),
            "allowed always",
        ),
        ("reject", &[("a", "allow_once")], CANCELLED.to_owned(), "cancelled"),
        ("allow", &[("r", "reject_once")], CANCELLED.to_owned(), "cancelled"),
        ("allow", &[], CANCELLED.to_owned(), "cancelled"),
        // A word that nobody knows allows nothing.
        ("perhaps", &ALL, selected("r"), "rejected"),
    ];
    for (permission, options, answer, decision) in table {
        let question = question("c", options);
        let said = said_after(&under(permission), &[question.as_str(), ENDED]);
        assert_eq!(said[0], answer, "{permission} {options:?}");
        let diagnostic = format!("last permission decision: {decision}");
        assert_eq!(outcome(&said)["diagnostic"], diagnostic.as_str());
    }
}

#[test]
fn a_question_that_belongs_to_no_prompt_of_ours_is_cancelled() {
    let ours = question("c", &ALL);
    assert_eq!(said_after(&under("allow"), &[question("other", &ALL)]), [CANCELLED]);
    for before in [&[][..], &[START, GREETED, OPENED]] {
        assert_eq!(said_after::<&str, _>(before, std::slice::from_ref(&ours)), [CANCELLED]);
    }
    let over: Vec<String> = under("allow").into_iter().chain([ENDED.to_owned()]).collect();
    assert_eq!(said_after(&over, &[ours]), [CANCELLED]);
}

#[test]
fn a165_a_failure_names_the_last_decision_too() {
    let end = "9 end";
    let said = at_work(&[question("c", &ALL).as_str(), end]);
    assert_eq!(
        outcome(&said)["diagnostic"],
        "ACP connection closed; last permission decision: rejected"
    );
}

#[test]
fn a_question_without_sense_allows_nothing() {
    for params in [
        "",
        r#","params":7"#,
        r#","params":{"sessionId":"c"}"#,
        r#","params":{"sessionId":"c","options":[7,{"kind":"allow_once"}]}"#,
    ] {
        let question = format!(
            r#"6 unit {{"jsonrpc":"2.0","id":"q","method":"session/request_permission"{params}}}"#
        );
        assert_eq!(said_after(&under("allow"), &[question]), [CANCELLED]);
    }
}

#[test]
fn a162_what_is_not_offered_is_not_found() {
    for method in
        ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x/y"]
    {
        let asked =
            format!(r#"6 unit {{"jsonrpc":"2.0","id":5,"method":"{method}","params":{{}}}}"#);
        let refused = format!(
            r#"unit {{"jsonrpc":"2.0","id":5,"error":{{"code":-32601,"message":"\"Method not found\": {method}","data":{{"method":"{method}"}}}}}}"#
        );
        assert_eq!(at_work(&[asked.as_str()]), [refused.as_str()]);
        assert_eq!(said(&[asked]), [refused]);
    }
    let long = format!(r#"6 unit {{"id":"{}","method":"x"}}"#, "i".repeat(5000));
    assert!(
        at_work(&[long])[0]
            .starts_with(r#"unit {"jsonrpc":"2.0","id":null,"error":{"code":-32600"#)
    );
}

#[test]
fn an_agent_that_asks_in_a_loop_does_not_fill_the_log() {
    let inputs: Vec<String> =
        under("allow").into_iter().chain((0..200).map(|_| question("c", &ALL))).collect();
    let noted = notes(&inputs);
    assert_eq!(noted.len(), 64);
    assert_eq!(noted[0], r#"permission-answered {"decision":"allowed once"}"#);
}
