//! What the log tells, and what it keeps to itself.

use serde_json::Value;

use crate::support::{
    client::{Client, route},
    place::{Place, text},
    process::{Launch, Process},
    wire::Wire,
};

/// A value that no log may hold, at any level.
const KEY: &str = "orange-peel-94";

/// A prompt, a tool's output and an answer, each with this word.
const WORD: &str = "marmalade";

/// One conversation over the SDK door with this log. Gives what was logged.
fn logged(level: &str, format: &str) -> String {
    let place = Place::new();
    let script = format!(
        r#"{{"rules": [{{"when": {{"step": 1}}, "answer": [
            {{"tool": {{"name": "bash", "arguments": {{"command": "echo {WORD}", "description": "{WORD}"}}}}}}]}},
            {{"answer": [{{"text": "{WORD} {{{{result}}}}"}}]}}]}}"#
    );
    let script = place.file("script.json", script);
    let launch = Launch::new(["stdio", "sdk", "--model-script", text(&script)])
        .directory(&place.cwd)
        .env("HOME", &place.home)
        .env("TRANSOM_LOG", level)
        .env("TRANSOM_LOG_FORMAT", format)
        .env("SOME_API_KEY", KEY)
        .env("TRANSOM_MODEL__PROVIDER", "scripted");
    let mut client: Client<Process> = Client::new(launch.start());
    client.call("init", "initialize", route(text(&place.cwd)));
    let turn = client.turn("main", &format!("{WORD} with {KEY} and password=hidden-too"));
    assert!(turn.iter().any(|frame| frame.to_string().contains(WORD)), "{turn:?}");
    // A unit that the component notes, and one that it refuses.
    client.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"{WORD}\"}}"));
    client.response("x");
    assert_eq!(client.shut_down(), 0);
    client.wire.diagnostics()
}

#[test]
fn what_people_and_models_say_is_logged_at_trace_alone() {
    let said = logged("debug", "text");
    for span in ["transom.connection{", "transom.policy.decide{"] {
        assert!(said.contains(span), "{span} is not in {said}");
    }
    for hidden in [WORD, KEY, "hidden-too"] {
        assert!(!said.contains(hidden), "{hidden} is in {said}");
    }
}

#[test]
fn what_is_logged_at_trace_has_no_secrets() {
    let said = logged("transom_io=trace", "text");
    assert!(said.contains(&format!("{WORD} with [hidden] and password=[hidden]")), "{said}");
    for hidden in [KEY, "hidden-too"] {
        assert!(!said.contains(hidden), "{hidden} is in {said}");
    }
}

#[test]
fn a_log_for_programs_is_json_with_the_spans_it_stands_in() {
    let said = logged("info,transom_sandbox=debug", "json");
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let spans = |line: &Value| -> Vec<String> {
        let spans = line["spans"].as_array().into_iter().flatten();
        spans.map(|span| span["name"].as_str().expect("a name").to_owned()).collect()
    };
    let disconnected = lines.iter().find(|line| line["fields"]["message"] == "disconnected");
    let disconnected = disconnected.expect("it is said");
    assert_eq!(spans(disconnected), ["transom.connection"], "{disconnected}");
    let span = &disconnected["span"];
    assert_eq!(
        (&span["door"], &span["component"], &span["connection"], &span["version"]),
        (&"sdk".into(), &"sdk".into(), &1.into(), &1.into()),
        "{disconnected}"
    );
}
