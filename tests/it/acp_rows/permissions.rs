//! Rows 34 to 37: a call that goes beyond its bounds is put to the client.

use serde_json::{Value, json};

use crate::support::acp::{Stage, chunks, stop};

/// A host that asks, with a session.
fn asking() -> (Stage, String) {
    let mut stage = Stage::with("[permissions]\npreset = \"workspace-write\"\n");
    let session = stage.session();
    (stage, session)
}

fn options() -> Value {
    json!([
        {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
    ])
}

#[test]
fn row_34_only_allow_once_runs_the_tool() {
    for (answer, runs) in [
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "allow-once"}}}), true),
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "reject-once"}}}), false),
        (json!({"result": {"outcome": {"outcome": "selected", "optionId": "for-ever"}}}), false),
        (json!({"result": {"outcome": {"outcome": "cancelled"}}}), false),
        (json!({"error": {"code": -32603, "message": "client gone"}}), false),
        (json!({"result": {}}), false),
    ] {
        let (mut stage, session) = asking();
        stage.client.prompt("p", &session, "[[PERM]]");
        let asked = stage.client.next();
        assert_eq!(
            (&asked["id"], asked["method"].as_str()),
            (&json!(0), Some("session/request_permission"))
        );
        let params = &asked["params"];
        assert_eq!(
            (params["sessionId"].as_str(), &params["options"]),
            (Some(session.as_str()), &options())
        );
        let call = &params["toolCall"];
        assert!(call["toolCallId"].is_string(), "{call}");
        assert_eq!(
            [&call["title"], &call["kind"], &call["status"]],
            ["bash", "execute", "pending"],
            "A-65"
        );
        assert_eq!(call["rawInput"]["command"], "printf escalated");
        assert!(call["content"][0]["content"]["text"].is_string(), "it says why: {call}");

        let mut line = json!({"jsonrpc": "2.0", "id": 0});
        line.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        stage.client.say(&line.to_string());
        let (updates, end) = stage.client.until("p");
        let said = chunks(&updates).concat();
        assert_eq!(
            (said == "done: escalated", said.starts_with("done: Error: ")),
            (runs, !runs),
            "{answer}: {said}"
        );
        assert_eq!(stop(&end), "end_turn");
    }
}

#[test]
fn row_35_two_calls_are_asked_about_one_after_the_other() {
    let (mut stage, session) = asking();
    stage.client.prompt("p", &session, "[[PERM2]]");
    let mut commands = Vec::new();
    for id in [0, 1] {
        let asked = stage.client.next();
        assert_eq!(asked["id"], id);
        commands.push(asked["params"]["toolCall"]["rawInput"]["command"].clone());
        stage.client.decide(id, json!({"outcome": "selected", "optionId": "allow-once"}));
    }
    assert_eq!(commands, ["printf a", "printf b"], "in the order of the calls");
    let (updates, end) = stage.client.until("p");
    assert_eq!((chunks(&updates), stop(&end)), (vec!["both done".to_owned()], "end_turn"));
}

#[test]
fn row_36_a_cancel_does_not_wait_for_the_client() {
    let (mut stage, session) = asking();
    stage.client.prompt("p", &session, "[[PERM]]");
    assert_eq!(stage.client.next()["id"], 0);
    stage.client.cancel(&session);
    assert_eq!(stop(&stage.client.next()), "cancelled");
    // Too late, and whatever it says.
    stage.client.decide(0, json!({"outcome": "selected", "optionId": "allow-once"}));
    let (updates, end) = stage.client.turn(&session, "[[PLAIN]] after");
    assert_eq!((chunks(&updates), stop(&end)), (vec!["hello there".to_owned()], "end_turn"));
}

#[test]
fn row_37_nobody_is_asked_where_everything_is_allowed() {
    let mut stage = Stage::with("[permissions]\npreset = \"danger-full-access\"\n");
    let session = stage.session();
    let (updates, end) = stage.client.turn(&session, "[[PERM]]");
    assert!(chunks(&updates).concat().starts_with("done: "), "no request came: {updates:?}");
    assert_eq!(stop(&end), "end_turn");
}

/// A host whose children ask, with a session and these options of the door.
fn asking_below(options: &str) -> (Stage, String) {
    let permissions = "[permissions]\npreset = \"workspace-write\"\nchildren = \"ask\"\n";
    let mut stage = Stage::with(&format!("{permissions}\n[door.acp.options]\n{options}\n"));
    let session = stage.session();
    (stage, session)
}

#[test]
fn a_61_a_child_asks_the_client_of_the_root() {
    for (option, runs) in [("allow-once", true), ("reject-once", false)] {
        let (mut stage, session) = asking_below("");
        stage.client.prompt("p", &session, "[[CHILD]]");
        let asked = stage.client.next();
        let params = &asked["params"];
        assert_eq!(
            (&asked["id"], params["sessionId"].as_str()),
            (&json!(0), Some(session.as_str())),
            "a session that the client knows: {asked}"
        );
        let child =
            params["toolCall"]["_meta"]["dsh/sessionId"].as_str().expect("it says who asks");
        assert_ne!(child, session);
        assert_eq!(params["toolCall"]["rawInput"]["command"], "printf escalated");
        stage.client.decide(0, json!({"outcome": "selected", "optionId": option}));
        let (updates, end) = stage.client.until("p");
        let said = chunks(&updates).concat();
        assert!(
            said.starts_with("child says: ") && said.contains("done: escalated") == runs,
            "{option}: {said}"
        );
        assert_eq!(stop(&end), "end_turn");
    }
}

#[test]
fn a_61_a_cancel_takes_the_question_of_a_child_back() {
    let (mut stage, session) = asking_below("");
    stage.client.prompt("p", &session, "[[CHILD]]");
    assert_eq!(stage.client.next()["id"], 0);
    stage.client.cancel(&session);
    assert_eq!(stop(&stage.client.next()), "cancelled");
    stage.client.decide(0, json!({"outcome": "selected", "optionId": "allow-once"}));
    let (updates, end) = stage.client.turn(&session, "[[PLAIN]] after");
    assert_eq!((chunks(&updates), stop(&end)), (vec!["hello there".to_owned()], "end_turn"));
}

#[test]
fn a_61_children_ask_nobody_where_the_door_or_the_host_says_so() {
    let mut by_default = Stage::with("[permissions]\npreset = \"workspace-write\"\n");
    let session = by_default.session();
    for (mut stage, session) in [(by_default, session), asking_below("childPermissions = false")] {
        let (updates, end) = stage.client.turn(&session, "[[CHILD]]");
        let said = chunks(&updates).concat();
        assert!(
            said.starts_with("child says: ") && !said.contains("done: escalated"),
            "refused without a question: {said}"
        );
        assert_eq!(stop(&end), "end_turn");
    }
}
