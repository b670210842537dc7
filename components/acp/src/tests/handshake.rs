//! `initialize`, `authenticate`, methods that there are not, and the options of the door.

use serde_json::json;
use transom_guest::{Machine, Outputs};

use super::*;

const AGENT: &str = concat!(
    r#"{"protocolVersion":1,"agentInfo":{"name":"transom","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"agentCapabilities":{"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false}},"authMethods":[]}"#
);

fn initialize(params: &str) -> Vec<String> {
    said(&[format!(r#"0 unit {{"jsonrpc":"2.0","id":3,"method":"initialize","params":{params}}}"#)])
}

#[test]
fn row_1_row_2_whatever_version_is_asked_for_the_same_is_answered() {
    // A-28, A-29.
    for version in ["0", "1", "2", "99", "65535", "1.0", "1e2"] {
        let params = format!(r#"{{"protocolVersion":{version}}}"#);
        assert_eq!(initialize(&params), [answered("3", AGENT)], "{version}");
    }
}

#[test]
fn a_27_capabilities_and_info_have_no_effect() {
    for rest in [
        r#""clientInfo":{"name":5}"#,
        r#""clientInfo":7"#,
        r#""clientCapabilities":{"fs":{"readTextFile":true},"terminal":"x"}"#,
        r#""clientCapabilities":null"#,
        r#""_meta":{"a":1},"unknown":[]"#,
    ] {
        let params = format!(r#"{{"protocolVersion":1,{rest}}}"#);
        assert_eq!(initialize(&params), [answered("3", AGENT)], "{rest}");
    }
    let wrong = initialize(r#"{"protocolVersion":1,"clientCapabilities":"x"}"#);
    assert_eq!(refusal(&wrong), (-32602, "Invalid params".to_owned()));
    let why = "Invalid input: expected object, received string";
    assert_eq!(data(&wrong), json!({"_errors": [], "clientCapabilities": {"_errors": [why]}}));
}

#[test]
fn row_3_a_version_that_is_none_is_refused_with_a_tree() {
    // A-24, A-30.
    for (params, why) in [
        (r#"{"protocolVersion":-1}"#, "Too small: expected number to be >=0"),
        (r#"{"protocolVersion":70000}"#, "Too big: expected number to be <=65535"),
        (r#"{"protocolVersion":1.5}"#, "Invalid input: expected int, received number"),
        (r#"{"protocolVersion":"1"}"#, "Invalid input: expected number, received string"),
        (r#"{"protocolVersion":null}"#, "Invalid input: expected number, received null"),
        ("{}", "Invalid input: expected number, received undefined"),
    ] {
        let said = initialize(params);
        assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()), "{params}");
        let tree = json!({"_errors": [], "protocolVersion": {"_errors": [why]}});
        assert_eq!(data(&said), tree, "{params}");
    }
    let absent = said(&[r#"0 unit {"jsonrpc":"2.0","id":3,"method":"initialize"}"#]);
    let why = "Invalid input: expected object, received undefined";
    assert_eq!(data(&absent), json!({"_errors": [why]}));
    assert_eq!(data(&initialize("[]")), json!({"_errors": [why.replace("undefined", "array")]}));
}

#[test]
fn row_4_a_handshake_may_be_repeated_and_left_out() {
    // A-31; that `session/new` needs none, every story that begins with `OPENED` shows.
    let twice = said(&[
        r#"0 unit {"id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"0 unit {"id":2,"method":"initialize","params":{"protocolVersion":1}}"#,
    ]);
    assert_eq!(twice, [answered("1", AGENT), answered("2", AGENT)]);
}

#[test]
fn row_5_any_method_authenticates() {
    // A-32.
    assert_eq!(
        said(&[r#"0 unit {"id":1,"method":"authenticate","params":{"methodId":"x"}}"#]),
        [answered("1", "{}")]
    );
    let refused = said(&[r#"0 unit {"id":1,"method":"authenticate","params":{}}"#]);
    assert_eq!(refusal(&refused), (-32602, "Invalid params".to_owned()));
}

#[test]
fn row_13_methods_that_there_are_not_are_named() {
    // A-23: `_` is nothing special, and the quotation marks are part of the message.
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
        "session/cancel",
        "logout",
        "_x/y",
        "shutdown",
        "",
    ] {
        let line =
            format!(r#"0 unit {{"id":"q","method":"{method}","params":{{"sessionId":"s"}}}}"#);
        let said = said(&[line]);
        let message = format!("\"Method not found\": {method}");
        assert_eq!(refusal(&said), (-32601, message));
        assert_eq!(data(&said), json!({"method": method}));
    }
}

#[test]
fn a_method_of_any_length_is_answered_and_not_repeated_at_length() {
    let line = format!(r#"0 unit {{"id":1,"method":"{}"}}"#, "é".repeat(100_000));
    let (code, message) = refusal(&said(&[line]));
    assert_eq!(code, -32601);
    assert!(message.len() < 5_000 && message.ends_with('…'), "{}", message.len());
}

#[test]
fn a_22_the_log_names_what_was_refused_and_nothing_it_said() {
    let line = r#"0 unit {"id":"q","method":"session/prompt","params":{"sessionId":"secret","prompt":[]}}"#;
    assert_eq!(
        notes(&[line]),
        [r#"request-refused {"method":"session/prompt","id":"q","code":-32602}"#]
    );
}

#[test]
fn the_operator_names_the_agent_and_its_route() {
    // A-28, A-95.
    let options = r#"{"agentName":"a \"b\"","agentVersion":"9","provider":"p","model":"m","surface":"automation"}"#;
    let said = said_in(
        with_options(options),
        &[
            r#"0 unit {"id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"0 unit {"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
            r#"0 frame reply events/subscribe id=1 {}"#,
        ],
    );
    assert!(said[0].contains(r#""agentInfo":{"name":"a \"b\"","version":"9"}"#), "{}", said[0]);
    assert!(said[2].ends_with(r#""route":{"provider":"p","model":"m"}}"#), "{}", said[2]);
}

#[test]
fn an_option_that_is_wrong_is_refused_by_name() {
    let known = "agentName, agentVersion, childPermissions, images, model, provider, sessionListPageSize, surface";
    for (options, complaint) in [
        (r#"{"surfaces":1}"#, format!("option surfaces is unknown; known are {known}")),
        (
            r#"{"surface":"all"}"#,
            r#"option surface is "all"; it must be "automation" or "standard""#.to_owned(),
        ),
        (
            r#"{"model":""}"#,
            r#"option model is ""; it must be a text of 1 to 256 bytes"#.to_owned(),
        ),
        (
            r#"{"agentName":7}"#,
            "option agentName is 7; it must be a text of 1 to 256 bytes".to_owned(),
        ),
        (r#"{"images":1}"#, "option images is 1; it must be true or false".to_owned()),
        (
            r#"{"childPermissions":"no"}"#,
            "option childPermissions is \"no\"; it must be true or false".to_owned(),
        ),
        (
            r#"{"sessionListPageSize":0}"#,
            "option sessionListPageSize is 0; it must be a number from 1 to 200".to_owned(),
        ),
        ("[]", "options are no JSON object: []".to_owned()),
    ] {
        let refused = Conversation::open(&mut Outputs::default(), with_options(options));
        assert_eq!(refused.expect_err("options that are wrong").detail, complaint);
    }
    for framing in [Framing::Messages, Framing::Exchange, Framing::Outbound, Framing::Chunks] {
        let setup = Setup { framing, ..setup() };
        assert!(Conversation::open(&mut Outputs::default(), setup).is_err());
    }
}

#[test]
fn a_request_of_the_host_is_not_served() {
    assert_eq!(
        said(&[r#"0 frame request tools/call session=s id=4 {}"#]),
        [
            r#"frame failure tools/call session=s id=4 {"code":"unknown-frame","message":"the acp door serves no requests","details":{"frame":"tools/call"}}"#
        ]
    );
}
