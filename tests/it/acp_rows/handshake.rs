//! Rows 1 to 5 and 13: the handshake, and methods that there are not.

use serde_json::{Value, json};

use crate::support::acp::{Stage, chunks, error, stop};

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

/// A picture of one pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn decision_39_images_are_an_option() {
    // That they are refused without it although the model would take them, rows 1 and 23 show.
    let mut stage = Stage::with("[door.acp.options]\nimages = true\n");
    let session = stage.session();
    let picture = json!({"type": "image", "data": PICTURE, "mimeType": "image/png"});
    let looked = json!({"sessionId": session, "prompt": [{"type": "text", "text": "[[PLAIN]] look"}, picture]});
    let early = stage.client.call("a", "session/prompt", looked.clone());
    let unsaid =
        "-32602 Invalid params: inline image prompts were not advertised by this connection";
    assert_eq!(error(&early), unsaid);
    let answer = stage.client.call("i", "initialize", json!({"protocolVersion": 1}));
    let capabilities = &answer["result"]["agentCapabilities"]["promptCapabilities"];
    assert_eq!(*capabilities, json!({"image": true, "audio": false, "embeddedContext": false}));
    stage.client.ask("b", "session/prompt", looked);
    let (updates, answer) = stage.client.until("b");
    assert_eq!((chunks(&updates), stop(&answer)), (vec!["hello there".to_owned()], "end_turn"));
}
