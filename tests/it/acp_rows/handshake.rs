//! Rows 1 to 5 and 13: the handshake, and methods that there are not.

use serde_json::{Value, json};

use crate::support::acp::{Stage, error};

fn agent() -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "transom", "version": env!("CARGO_PKG_VERSION")},
        "agentCapabilities": {"promptCapabilities": {"image": false, "audio": false, "embeddedContext": false}},
        "authMethods": [],
    })
}

#[test]
fn row_1_row_2_row_4_whatever_is_asked_for_version_1_is_answered() {
    let mut stage = Stage::new();
    for version in [1, 0, 2, 99, 65535, 1] {
        let answer = stage.client.call(version, "initialize", json!({"protocolVersion": version}));
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": version, "result": agent()}));
    }
    let keys: Vec<_> = stage.client.seen[0]["result"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["protocolVersion", "agentInfo", "agentCapabilities", "authMethods"], "A-28");
    assert_eq!(stage.client.end(), (vec![], 0));
}

#[test]
fn row_4_a_session_needs_no_handshake() {
    let mut stage = Stage::new();
    stage.session();
}

#[test]
fn row_3_what_is_no_version_is_refused() {
    let mut stage = Stage::new();
    for params in [
        json!({"protocolVersion": -1}),
        json!({"protocolVersion": 70000}),
        json!({"protocolVersion": 1.5}),
        json!({"protocolVersion": "1"}),
        json!({}),
    ] {
        let answer = stage.client.call("x", "initialize", params.clone());
        assert_eq!(error(&answer), "-32602 Invalid params", "{params}");
        assert!(answer["error"]["data"]["_errors"].is_array(), "{answer}");
    }
    stage.client.say(r#"{"jsonrpc":"2.0","id":"y","method":"initialize"}"#);
    let answer = stage.client.next();
    assert_eq!(error(&answer), "-32602 Invalid params");
    assert!(answer["error"]["data"]["_errors"].is_array(), "{answer}");
}

#[test]
fn row_5_any_method_authenticates() {
    let mut stage = Stage::new();
    assert_eq!(stage.client.call(1, "authenticate", json!({"methodId": "x"}))["result"], json!({}));
    assert_eq!(error(&stage.client.call(2, "authenticate", json!({}))), "-32602 Invalid params");
}

#[test]
fn row_13_unknown_methods_are_named() {
    let mut stage = Stage::new();
    let session = stage.session();
    for method in [
        "session/load",
        "session/list",
        "session/resume",
        "session/close",
        "session/delete",
        "session/fork",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
        "logout",
        "_x/y",
        "shutdown",
    ] {
        let answer = stage.client.call("m", method, json!({"sessionId": session}));
        assert_eq!(error(&answer), format!("-32601 \"Method not found\": {method}"));
        assert_eq!(answer["error"]["data"], json!({"method": method}));
    }
}
