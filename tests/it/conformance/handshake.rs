//! C-1 to C-7, C-53, C-54: the handshake and unknown methods.

use serde_json::{Value, json};

use super::{probe, probed, unknown};
use crate::support::{
    bench::Bench,
    client::{error, events, kind, of_type, route},
    place::text,
    wire::Wire,
};

#[test]
fn c_01_initialize_answers() {
    let mut bench = Bench::fresh();
    bench.client.ask("init-1", "initialize", route(text(&bench.place.cwd)));
    // Byte for byte (S-31, S-41).
    let line = bench.client.wire.line().expect("an answer");
    assert_eq!(
        line,
        r#"{"jsonrpc":"2.0","id":"init-1","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}"#
    );
}

#[test]
fn c_02_ids_are_echoed_with_type_and_value() {
    let mut bench = Bench::fresh();
    for id in [
        json!(2),
        json!(0),
        json!(-3.5),
        json!(""),
        json!("init-1"),
        json!(9_007_199_254_740_991_u64),
    ] {
        bench.client.ask(id.clone(), "initialize", route(text(&bench.place.cwd)));
        let answer = bench.client.next();
        assert_eq!(answer["id"], id);
        assert!(answer.get("result").is_some(), "{answer}");
    }
}

#[test]
fn c_03_max_tokens_is_a_positive_safe_integer() {
    let mut bench = Bench::fresh();
    for value in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_992_u64),
        json!("12"),
        Value::Null,
    ] {
        let mut params = route(text(&bench.place.cwd));
        params["maxTokens"] = value.clone();
        let answer = bench.client.call("mt", "initialize", params);
        assert_eq!(
            error(&answer),
            "-32603 initialize maxTokens must be a positive safe integer",
            "{value}"
        );
    }
    // S-42: this check precedes all others.
    let answer = bench.client.call("mt", "initialize", json!({"maxTokens": 0}));
    assert_eq!(error(&answer), "-32603 initialize maxTokens must be a positive safe integer");
}

#[test]
fn c_04_a_refused_provider_leaves_the_route_as_it_was() {
    let mut bench = Bench::ready();
    let mut params = route(text(&bench.place.cwd));
    params["provider"] = json!("private");
    params["model"] = json!("secret");
    let answer = bench.client.call("prov", "initialize", params);
    assert_eq!(error(&answer), "-32603 no adapter registered for provider \"private\"");

    let turn = bench.client.turn("main", "PROMPT: PLAIN");
    let events = events(&turn, "main");
    let config = &of_type(&events, "request/header")[0]["data"]["header"]["config"];
    assert_eq!(
        (&config["provider"], &config["model"]),
        (&json!("deepseek-official"), &json!("deepseek-v4-flash"))
    );
}

#[test]
fn c_05_params_that_are_no_object_lack_a_cwd() {
    let mut bench = Bench::fresh();
    bench.client.ask("array", "initialize", json!([1, 2]));
    assert!(error(&bench.client.response("array")).contains("cwd"));
    bench.client.say(r#"{"jsonrpc":"2.0","id":"absent","method":"initialize"}"#);
    assert!(error(&bench.client.response("absent")).contains("cwd"));
}

#[test]
fn c_06_an_unknown_method_is_refused_by_name() {
    let mut bench = Bench::fresh();
    bench.client.say(r#"{"id":"x","method":"nope/unknown"}"#);
    assert_eq!(bench.client.next(), unknown("x", "nope/unknown"));
}

#[test]
fn c_07_there_is_no_cancel() {
    let mut bench = Bench::ready();
    bench.client.ask("x", "session/cancel", json!({"sessionId": "main"}));
    assert_eq!(bench.client.next(), unknown("x", "session/cancel"));
}

#[test]
fn c_53_a_handshake_during_shutdown_is_refused() {
    let mut bench = Bench::ready();
    let params = route(text(&bench.place.cwd));
    let late = json!({"jsonrpc": "2.0", "id": "late", "method": "initialize", "params": params});
    bench
        .client
        .say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"sd\",\"method\":\"shutdown\"}}\n{late}"));
    let frames = bench.client.rest();
    let of = |id: &str| {
        frames.iter().find(|frame| frame["id"] == id).unwrap_or_else(|| panic!("{id}: {frames:?}"))
    };
    assert_eq!(error(of("late")), "-32603 SDK server is shutting down");
    assert_eq!(of("sd")["result"], json!({}));
    assert_eq!(frames.len(), 2);
    assert_eq!(bench.client.wire.exit(), 0);
}

#[test]
fn c_54_max_tokens_reach_the_model() {
    let mut bench = Bench::fresh();
    let mut params = route(text(&bench.place.cwd));
    params["maxTokens"] = json!(1234);
    bench.client.call("init", "initialize", params);
    bench.client.turn("main", "PROMPT: PLAIN");
    let requests = bench.model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].body["max_tokens"], 1234);
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-mock"));
}

/// S-47: a repeated handshake holds for sessions to come; S-48: the first one is not needed for everything.
#[test]
fn a_repeated_handshake_leaves_open_sessions_alone() {
    let mut bench = Bench::fresh();
    assert_eq!(probe(&mut bench.client), probed());
    bench.shake_hands();
    bench.client.turn("old", "PROMPT: PLAIN");

    let mut params = route(text(&bench.place.cwd));
    params["model"] = json!("deepseek-v4-pro");
    bench.client.call("again", "initialize", params);
    bench.client.turn("old", "PROMPT: PLAIN");
    bench.client.turn("new", "PROMPT: PLAIN");
    let models: Vec<_> =
        bench.model.requests().iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(models, ["deepseek-v4-flash", "deepseek-v4-flash", "deepseek-v4-pro"]);
    assert!(
        bench.client.seen.iter().all(|frame| kind(frame) != "R:error" || frame["id"] == "probe")
    );
}
