//! Rows 31 and 32: work that a session hands to another.

use serde_json::{Value, json};

use super::stage::{Setting, call, kinds, of_kind, reason, results, rule};
use crate::support::{frames::is_event, frames::is_status, place::text};

fn delegated(id: &str, prompt: &str) -> Value {
    call(id, "subagent", json!({"description": "Child task", "prompt": prompt}))
}

/// Where in the conversation the first such frame stands.
fn place(seen: &[Value], is_it: impl Fn(&Value) -> bool) -> usize {
    seen.iter().position(is_it).expect("it was told")
}

/// Row 31. L-68: the child is told of "before any event of the child"; `subagent/finished` comes "after the child's idle
/// and before the parent's `tool/result`". L-67: `origin:"subagent"`, "`delegationDepth` = parent depth + 1", and
/// "`subagent/descriptor` in its first turn before `step/start`"; "over the cap: `subagent depth <d> exceeds maxDepth <m>`".
#[test]
fn row_31_a_child_is_told_of_first_and_answers_last() {
    let script = json!([
        rule("go", 1, json!([delegated("c1", "you are the child")])),
        {"when": {"contains": "you are the child"}, "answer": [{"text": "child's last words"}]},
        {"answer": [{"text": "{{result}}"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let turn = stage.turn("go");
    assert_eq!(results(&turn), [("c1".to_owned(), "child's last words".to_owned(), false)]);

    let seen = &stage.peer.seen;
    let is_added = |frame: &Value| {
        frame["name"] == "session/added" && frame["body"]["parentSessionId"] == "main"
    };
    let added = &seen[place(seen, is_added)];
    let child = added["session"].as_str().expect("the child's id").to_owned();
    assert_eq!(added["body"]["origin"], "subagent");
    assert_eq!(added["body"]["cwd"], text(&stage.place.cwd));
    let order = [
        place(seen, |frame| is_event(frame, "main", "tool/call")),
        place(seen, is_added),
        place(seen, |frame| frame["name"] == "session/event" && frame["session"] == *child),
        place(seen, |frame| is_event(frame, &child, "subagent/descriptor")),
        place(seen, |frame| is_event(frame, &child, "step/start")),
        place(seen, |frame| is_event(frame, &child, "turn/end")),
        place(seen, |frame| is_status(frame, &child, "idle")),
        place(seen, |frame| frame["name"] == "subagent/finished"),
        place(seen, |frame| is_event(frame, "main", "tool/result")),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let finished = &seen[order[7]];
    assert_eq!(finished["session"], "main");
    let body = &finished["body"];
    assert_eq!((&body["childSessionId"], &body["local"]), (&json!(child), &json!(true)));
    assert_eq!(body["stopReason"], "completed");
    let words = json!([{"type": "text", "text": "child's last words"}]);
    assert_eq!(body["lastAssistantMessage"], words);

    // The header, as it is stored.
    let header = stage.exported(&child).swap_remove(0);
    assert_eq!(header["parentSession"], "main");
    assert_eq!(header["origin"], "subagent");
    assert_eq!(header["delegationDepth"], 1);
    assert_eq!(header["cwd"], text(&stage.place.cwd));
}

/// Row 31, the cap. L-67: "default cap 3".
#[test]
fn row_31_the_fourth_generation_is_refused() {
    let script = json!([
        rule("generation", 1, json!([delegated("c1", "the next generation")])),
        {"answer": [{"text": "{{result}}"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let turn = stage.turn("first generation");
    let refusal = "subagent depth 4 exceeds maxDepth 3";
    let (_, text, _) = &results(&turn)[0];
    assert!(text.contains(refusal), "it is handed up from child to child: {text}");
    let added =
        stage.peer.seen.iter().filter(|frame| {
            frame["name"] == "session/added" && frame["body"]["origin"] == "subagent"
        });
    let children: Vec<_> = added.filter_map(|frame| frame["session"].as_str()).collect();
    assert_eq!(children.len(), 3);
    let youngest = stage.peer.events(children[2]);
    assert_eq!(results(&youngest), [("c1".to_owned(), format!("Error: {refusal}"), true)]);
    assert_eq!(reason(&youngest), json!({"kind": "completed"}));
    let depths: Vec<_> =
        children.iter().map(|child| stage.exported(child)[0]["delegationDepth"].clone()).collect();
    assert_eq!(depths, [1, 2, 3]);
}

/// Row 32. L-71: "`subagent run hit its token limit before finishing`, … followed, when there is text, by `\nPartial
/// output before the run ended:\n<text>`".
#[test]
fn row_32_a_child_that_hit_its_limit_is_a_failure_with_what_it_had() {
    let script = json!([
        rule("go", 1, json!([delegated("c1", "you are the child")])),
        {"when": {"contains": "you are the child"}, "answer": [{"text": "abc"}, {"finish": "max-tokens"}]},
        {"answer": [{"text": "well"}]},
    ]);
    let mut stage = Setting::scripted(script).ready();
    let turn = stage.turn("go");
    let expected = "Error: subagent run hit its token limit before finishing\nPartial output before the run ended:\nabc";
    assert_eq!(results(&turn), [("c1".to_owned(), expected.to_owned(), true)]);
    assert_eq!(reason(&turn), json!({"kind": "completed"}), "{:?}", kinds(&turn));
    assert_eq!(of_kind(&turn, "step/start").len(), 2);
    let finished = stage.peer.first(|frame| frame["name"] == "subagent/finished");
    assert_eq!(finished["body"]["stopReason"], "max-tokens");
}
