//! The standard surface: sessions that are begun, listed, gone on with, configured and closed (A-110 to A-119), and what is
//! refused.

mod turns;

use super::*;

const CATALOGUE: &str = r#"{"groups":[{"id":"p","name":"P","models":[{"id":"one","name":"One","description":"d","reasoning":{"efforts":[{"id":"off","name":"Off"},{"id":"high","name":"High"}],"defaultEffort":"high"}},{"id":"two","name":"Two","reasoning":{"efforts":[{"id":"low","name":"Low"}]}},{"id":"three","name":"Three"}]}],"failures":[]}"#;
const ROUTE: &str = r#"{"route":{"provider":"p","model":"one","reasoningEffort":"high"},"images":false,"contextWindow":1000}"#;

fn standard() -> Setup {
    with_options(r#"{"surface":"standard"}"#)
}

/// Opens the session `s`; uses the frame numbers 1 to 4.
fn opened() -> Vec<String> {
    [
        OPENED[0],
        OPENED[1],
        r#"0 frame reply session/open session=s id=2 {"created":true,"lastSeq":-1,"cwd":"/w","route":{"provider":"p"}}"#,
        &format!("0 frame reply models/list id=3 {CATALOGUE}"),
        &format!("0 frame reply models/check id=4 {ROUTE}"),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// What is said behind `before` to `inputs`.
fn after<S: AsRef<str>>(before: &[String], inputs: &[S]) -> Vec<String> {
    let all: Vec<&str> =
        before.iter().map(String::as_str).chain(inputs.iter().map(AsRef::as_ref)).collect();
    let count = said_in(standard(), before).len();
    said_in(standard(), &all).split_off(count)
}

fn after_opening<S: AsRef<str>>(inputs: &[S]) -> Vec<String> {
    after(&opened(), inputs)
}

/// The prompt 7, in flight and claimed by turn 1 as message `m7`; uses the frame number 5.
fn prompted() -> Vec<String> {
    let mut inputs = opened();
    inputs.extend([
        prompt(7, "hi"),
        status("running"),
        turn_claims(1, "m7"),
        r#"1 frame reply session/prompt session=s id=5 {"messageId":"m7"}"#.to_owned(),
    ]);
    inputs
}

fn event(kind: &str, data: &str) -> String {
    format!(
        r#"2 frame notice session/event session=s {{"type":"{kind}","seq":8,"time":1,"data":{data}}}"#
    )
}

fn call(id: &str, method: &str, params: &str) -> String {
    format!(r#"3 unit {{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn rests(number: u64) -> String {
    format!("4 frame reply session/wait session=s id={number} {{}}")
}

fn wait(number: u64) -> String {
    format!(r#"frame request session/wait session=s id={number} {{"descendants":true}}"#)
}

/// The same in front of a close: it ends by itself what works in the background.
fn wait_to_close(number: u64) -> String {
    format!(r#"frame request session/wait session=s id={number} {{"descendants":false}}"#)
}

fn update(update: &str) -> String {
    format!(
        r#"unit {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    )
}

const ORIGIN: &str = r#""_meta":{"dsh/turn":1,"dsh/origin":"prompt"}"#;

#[test]
fn what_is_served_is_advertised_and_nothing_else() {
    // A-110. Servers cannot be bridged, so that `mcpCapabilities` is missing.
    let initialize = |images: &str| {
        let reply =
            format!(r#"0 frame reply models/check id=1 {{"route":{{}},"images":{images}}}"#);
        let ask = r#"0 unit {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":7}}"#;
        said_in(standard(), &[ask, &reply])
    };
    let expected = |images: &str| {
        let version = env!("CARGO_PKG_VERSION");
        answered(
            "0",
            &format!(
                r#"{{"protocolVersion":1,"agentInfo":{{"name":"transom","version":"{version}"}},"agentCapabilities":{{"promptCapabilities":{{"image":{images},"audio":false,"embeddedContext":false}},"sessionCapabilities":{{"close":{{}},"list":{{}},"resume":{{}}}}}},"authMethods":[]}}"#
            ),
        )
    };
    for images in ["true", "false"] {
        assert_eq!(initialize(images).pop(), Some(expected(images)));
    }
}

#[test]
fn a_session_comes_with_what_may_be_chosen() {
    // A-111, A-112.
    let said = said_in(standard(), &opened());
    assert!(said[0].contains(r#""sessions","models"]"#), "{}", said[0]);
    assert!(said[1].contains(r#""partial":"commit","cwd":"/w""#), "{}", said[1]);
    assert_eq!(said[2], "frame request models/list id=3 {}");
    assert_eq!(said[3], r#"frame request models/check id=4 {"provider":"p"}"#);
    let expected = concat!(
        r#"{"sessionId":"s","configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"[\"p\",\"one\"]","#,
        r#""options":[{"group":"p","name":"P","options":[{"value":"[\"p\",\"one\"]","name":"One","description":"d"},{"value":"[\"p\",\"two\"]","name":"Two"},{"value":"[\"p\",\"three\"]","name":"Three"}]}]},"#,
        r#"{"id":"reasoning_effort","name":"Reasoning effort","category":"thought_level","type":"select","currentValue":"high","options":[{"value":"off","name":"Off"},{"value":"high","name":"High"}]}]}"#,
    );
    assert_eq!(said[4], answered("1", expected));
    assert_eq!(said.len(), 5);
}

#[test]
fn a_session_without_a_model_has_nothing_to_choose() {
    let mut inputs = opened();
    inputs[2] = inputs[2].replace(r#"{"provider":"p"}"#, "{}");
    inputs[4] = r#"0 frame failure models/check id=4 {"code":"invalid","message":"no"}"#.to_owned();
    let said = said_in(standard(), &inputs);
    assert_eq!(said.last(), Some(&answered("1", r#"{"sessionId":"s","configOptions":[]}"#)));
    let choose = call(
        "2",
        "session/set_config_option",
        r#"{"sessionId":"s","configId":"model","value":"x"}"#,
    );
    let expected = refused("2", -32602, "Invalid params: this session has no model selection");
    assert_eq!(after(&inputs, &[choose]), [expected]);
}

#[test]
fn a_catalogue_that_cannot_be_had_closes_the_session() {
    let mut inputs = opened();
    inputs.truncate(3);
    inputs.push(
        r#"0 frame failure models/list id=3 {"code":"unexpected","message":"no"}"#.to_owned(),
    );
    let said = said_in(standard(), &inputs);
    let details = r#"unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"no"}}}"#;
    assert_eq!(said[3..], [details, "frame request session/close session=s id=4 {}"]);
}

#[test]
fn a_session_that_goes_while_it_is_opened_is_refused() {
    let removed = r#"1 frame notice session/removed session=s {"why":"closed"}"#;
    for known in [3, 4] {
        let said = after(&opened()[..known], &[removed]);
        let refusal = "Internal error: the session was closed while it was opened";
        assert_eq!(said, [refused("1", -32603, refusal)], "{known}");
    }
}

#[test]
fn a_session_that_is_being_closed_is_not_gone_on_with() {
    let close = call("2", "session/close", r#"{"sessionId":"s"}"#);
    let removed = r#"4 frame notice session/removed session=s {"why":"closed"}"#;
    let resume = call("3", "session/resume", r#"{"sessionId":"s","cwd":"/w"}"#);
    let said = after_opening(&[close.as_str(), removed, &resume]);
    let active = refused("3", -32602, "Invalid params: session is already active: s");
    assert_eq!(said.last(), Some(&active));
}

#[test]
fn what_is_chosen_goes_along_with_later_prompts() {
    // A-113.
    let choose = |id: &str, option: &str, value: &str| {
        let params = format!(r#"{{"sessionId":"s","configId":"{option}","value":{value}}}"#);
        call(id, "session/set_config_option", &params)
    };
    let said = after_opening(&[
        choose("2", "reasoning_effort", r#""off""#),
        prompt(3, "a"),
        choose("4", "model", r#""[\"p\",\"two\"]""#),
        choose("5", "reasoning_effort", r#""low""#),
        choose("6", "reasoning_effort", r#""""#),
        choose("7", "model", r#""[\"p\",\"three\"]""#),
    ]);
    assert!(said[0].contains(r#""currentValue":"off""#), "{}", said[0]);
    let content = r#""content":[{"type":"text","text":"a"}]"#;
    let route = r#""route":{"provider":"p","model":"one","reasoningEffort":"off"}"#;
    assert_eq!(
        said[1],
        format!("frame request session/prompt session=s id=5 {{{content},{route}}}")
    );
    // Another model begins with its own default, and one without any may be left to the provider.
    let options = r#""currentValue":"","options":[{"value":"","name":"Provider default"},{"value":"low","name":"Low"}]"#;
    assert!(said[2].contains(options), "{}", said[2]);
    assert!(said[3].contains(r#""currentValue":"low""#), "{}", said[3]);
    assert!(said[4].contains(r#""currentValue":"""#), "{}", said[4]);
    assert!(!said[5].contains("reasoning_effort"), "{}", said[5]);
}

#[test]
fn a_choice_that_there_is_not_is_refused_by_name() {
    let cases = [
        (r#"{"sessionId":"x","configId":"model","value":"v"}"#, "unknown session: x"),
        (
            r#"{"sessionId":"s","configId":"model","value":true,"type":"boolean"}"#,
            "model requires a select value",
        ),
        (r#"{"sessionId":"s","configId":"model","value":"nope"}"#, "unknown model option: nope"),
        (
            r#"{"sessionId":"s","configId":"reasoning_effort","value":"x"}"#,
            "unknown reasoning effort for p/one: x",
        ),
        (
            r#"{"sessionId":"s","configId":"reasoning_effort","value":""}"#,
            "unknown reasoning effort for p/one: ",
        ),
        (
            r#"{"sessionId":"s","configId":"nope","value":"x"}"#,
            "unknown session config option: nope",
        ),
    ];
    for (params, message) in cases {
        let said = after_opening(&[call("2", "session/set_config_option", params)]);
        assert_eq!(said, [refused("2", -32602, &format!("Invalid params: {message}"))]);
    }
    for params in [r#"{"sessionId":"s","configId":"model","value":true}"#, r#"{"sessionId":"s"}"#] {
        let said = after_opening(&[call("2", "session/set_config_option", params)]);
        assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()));
    }
}

#[test]
fn other_models_are_told_to_every_session() {
    // A-114. What is served without being advertised is put first.
    let said = after_opening(&[
        "2 frame notice models/changed {}",
        r#"2 frame reply models/list id=5 {"groups":[{"id":"p","name":"P","models":[{"id":"new","name":"New"}]}],"failures":[]}"#,
    ]);
    let options = r#"[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"[\"p\",\"one\"]","options":[{"group":"p","name":"P","options":[{"value":"[\"p\",\"one\"]","name":"one"},{"value":"[\"p\",\"new\"]","name":"New"}]}]}]"#;
    let told =
        update(&format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{options}}}"#));
    assert_eq!(said, ["frame request models/list id=5 {}", &*told]);
}

#[test]
fn a_list_comes_in_pages() {
    // A-117.
    let list = |params: &str| call("2", "session/list", params);
    let said = after_opening(&[
        list("{}"),
        r#"3 frame reply session/list id=5 {"items":[{"sessionId":"b","createdAt":2,"updatedAt":1000,"cwd":"/w","title":"T"},{"sessionId":"a","createdAt":1,"updatedAt":0}],"cursor":"1:a"}"#.to_owned(),
        list(r#"{"cwd":"/w","cursor":"WzEsImEiXQ"}"#),
        r#"3 frame failure session/list id=6 {"code":"store-failed","message":"no disk"}"#.to_owned(),
    ]);
    let body = r#""live":false,"stored":true,"roots":true,"order":"created","limit":100"#;
    let sessions =
        r#"[{"sessionId":"b","cwd":"/w","title":"T","updatedAt":"1970-01-01T00:00:01.000Z"}]"#;
    assert_eq!(
        said,
        [
            format!("frame request session/list id=5 {{{body}}}"),
            answered("2", &format!(r#"{{"sessions":{sessions},"nextCursor":"WzEsImEiXQ"}}"#)),
            format!(r#"frame request session/list id=6 {{{body},"cwd":"/w","cursor":"1:a"}}"#),
            r#"unit {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"no disk"}}}"#.to_owned(),
        ]
    );
    for cursor in ["!!", "AAAA", ""] {
        let said = after_opening(&[list(&format!(r#"{{"cursor":"{cursor}"}}"#))]);
        assert_eq!(said, [refused("2", -32602, "Invalid params: session/list cursor is invalid")]);
    }
}

#[test]
fn a_stored_session_is_gone_on_with() {
    // A-118.
    let resume = |params: &str| call("2", "session/resume", params);
    let said = after_opening(&[
        resume(r#"{"sessionId":"t","cwd":"/w"}"#),
        resume(r#"{"sessionId":"t","cwd":"/w"}"#).replace("\"id\":2", "\"id\":3"),
        r#"3 frame reply session/open session=t id=5 {"created":false,"lastSeq":9,"cwd":"/w","route":{"provider":"p","model":"two","reasoningEffort":"low"}}"#.to_owned(),
        format!("3 frame reply models/list id=6 {CATALOGUE}"),
        r#"3 frame failure models/check id=7 {"code":"no-adapter","message":"no"}"#.to_owned(),
    ]);
    let body =
        r#"{"want":"stored","roots":true,"owner":"connection","partial":"commit","cwd":"/w"}"#;
    assert_eq!(said[0], format!("frame request session/open session=t id=5 {body}"));
    assert_eq!(said[1], refused("3", -32602, "Invalid params: session is already active: t"));
    assert!(
        said[4].starts_with(
            r#"unit {"jsonrpc":"2.0","id":2,"result":{"configOptions":[{"id":"model""#
        ),
        "{}",
        said[4]
    );
    assert!(said[4].contains(r#""currentValue":"[\"p\",\"two\"]""#), "{}", said[4]);
    let failures = [
        (r#"{"code":"session-not-found","message":"m"}"#, "session is not resumable: t"),
        (r#"{"code":"not-resumable","message":"m"}"#, "session is not resumable: t"),
        (r#"{"code":"session-live","message":"m"}"#, "session is already active: t"),
        (
            r#"{"code":"session-conflict","message":"m","details":{"requestedCwd":"/w"}}"#,
            "session cwd does not match: /w",
        ),
    ];
    for (failure, message) in failures {
        let said = after_opening(&[
            resume(r#"{"sessionId":"t","cwd":"/w","mcpServers":[]}"#),
            format!("3 frame failure session/open session=t id=5 {failure}"),
        ]);
        assert_eq!(said[1..], [refused("2", -32602, &format!("Invalid params: {message}"))]);
    }
    for (params, message) in [
        (r#"{"sessionId":"s","cwd":"/w"}"#, "session is already active: s"),
        (r#"{"sessionId":"t","cwd":"w"}"#, "cwd must be an absolute path: w"),
        (
            r#"{"sessionId":"t","cwd":"/w","additionalDirectories":["/x"]}"#,
            "additionalDirectories is not supported",
        ),
    ] {
        let said = after_opening(&[resume(params)]);
        assert_eq!(said, [refused("2", -32602, &format!("Invalid params: {message}"))]);
    }
}

#[test]
fn a_close_cancels_first_and_is_answered_last() {
    // A-119.
    let close = |id: &str| call(id, "session/close", r#"{"sessionId":"s"}"#);
    let said = after(
        &prompted(),
        &[
            close("8"),
            prompt(9, "meanwhile"),
            close("10"),
            turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
            status("idle"),
            rests(7),
            rests(8),
            r#"4 frame notice session/removed session=s {"why":"disposed"}"#.to_owned(),
            "4 frame reply session/close session=s id=9 {}".to_owned(),
            close("11"),
        ],
    );
    let gone = r#"unit {"jsonrpc":"2.0","id":11,"error":{"code":-32002,"message":"Resource not found","data":{"sessionId":"s"}}}"#;
    assert_eq!(
        said,
        [
            r#"frame request session/cancel session=s id=6 {"inbox":"clear"}"#.to_owned(),
            wait(7),
            wait_to_close(8),
            refused("9", -32602, "Invalid params: session is closing: s"),
            stopped("7", "cancelled"),
            "frame request session/close session=s id=9 {}".to_owned(),
            answered("8", "{}"),
            answered("10", "{}"),
            gone.to_owned(),
        ]
    );
}

#[test]
fn a_session_that_the_host_keeps_is_not_said_to_be_closed() {
    // A-119: `{}` means that it is gone.
    let kept = r#"4 frame failure session/close session=s id=7 {"code":"overloaded","message":"too many","details":{}}"#;
    let gone = r#"4 frame failure session/close session=s id=10 {"code":"session-not-found","message":"no","details":{}}"#;
    let close = |id: &str| call(id, "session/close", r#"{"sessionId":"s"}"#);
    let said = after_opening(&[
        close("8"),
        close("9"),
        rests(6),
        kept.to_owned(),
        close("10"),
        rests(9),
        gone.to_owned(),
    ]);
    let refused = |id: &str| {
        format!(
            r#"unit {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"Internal error","data":{{"details":"too many"}}}}}}"#
        )
    };
    let cancel = |number: u64| {
        format!(r#"frame request session/cancel session=s id={number} {{"inbox":"clear"}}"#)
    };
    let ask = |number: u64| format!("frame request session/close session=s id={number} {{}}");
    let expected = [
        cancel(5),
        wait_to_close(6),
        ask(7),
        refused("8"),
        refused("9"),
        cancel(8),
        wait_to_close(9),
        ask(10),
        answered("10", "{}"),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_request_that_is_taken_back_is_answered_so() {
    // A-85.
    let back = |id: &str| {
        format!(
            r#"3 unit {{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
        )
    };
    let said = after_opening(&[
        call("2", "session/list", "{}"),
        back("2"),
        r#"3 frame reply session/list id=5 {"items":[]}"#.to_owned(),
    ]);
    assert_eq!(said[1..], [refused("2", -32800, "Request cancelled")]);
    // A session that is there and not told of yet is closed again.
    let mut inputs = opened();
    let last = inputs.pop().expect("the route");
    let said = after(&inputs, &[back("1"), last]);
    let close = "frame request session/close session=s id=5 {}".to_owned();
    assert_eq!(said, [refused("1", -32800, "Request cancelled"), close]);
}

#[test]
fn servers_are_judged_and_refused() {
    // A-115, A-116, A-35.
    let cases = [
        (
            r#"{"name":"x","command":"rel","args":[],"env":[]}"#,
            "mcpServers[0].command must be an absolute path",
        ),
        (
            r#"{"type":"http","name":"x","url":"ftp://x/","headers":[]}"#,
            "mcpServers[0].url must be an absolute HTTP(S) URL",
        ),
        (
            r#"{"type":"http","name":"x","url":"http:///p","headers":[]}"#,
            "mcpServers[0].url must be an absolute HTTP(S) URL",
        ),
        (
            r#"{"type":"sse","name":"x","url":"http://x/","headers":[]}"#,
            "mcpServers[0] transport sse is not supported",
        ),
        (r#"{"type":"acp","name":"x"}"#, "mcpServers[0] transport acp is not supported"),
        (
            r#"{"name":"x","command":"/c","args":[],"env":[{"name":"A=B","value":""}]}"#,
            "mcpServers[0].env contains an invalid environment entry",
        ),
        (
            r#"{"name":"x","command":"/c","args":[],"env":[{"name":"A","value":"\u0000"}]}"#,
            "mcpServers[0].env contains an invalid environment entry",
        ),
        (
            r#"{"name":"x","command":"/c","args":[],"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}"#,
            "mcpServers[0].env contains duplicate name: A",
        ),
        (
            r#"{"type":"http","name":"x","url":"http://x/","headers":[{"name":"bad header","value":"x"}]}"#,
            "mcpServers[0].headers contains an invalid header entry",
        ),
        (
            r#"{"type":"http","name":"x","url":"http://x/","headers":[{"name":"A","value":"x"},{"name":"a","value":"y"}]}"#,
            "mcpServers[0].headers contains duplicate name: a",
        ),
        (
            r#"{"name":" ","command":"/c","args":[],"env":[]}"#,
            "mcpServers contains an invalid server name",
        ),
        (
            r#"{"name":"a b","command":"/c","args":[],"env":[]},{"name":"a b","command":"/c","args":[],"env":[]}"#,
            "mcpServers contains duplicate normalized name: a_b_c8687a08",
        ),
        (
            r#"{"name":"fs","command":"/c","args":["x"],"env":[{"name":"A","value":""}]}"#,
            "mcpServers is not supported: this host bridges no MCP servers into ACP sessions yet",
        ),
    ];
    for (servers, message) in cases {
        let params = format!(r#"{{"cwd":"/w","mcpServers":[{servers}]}}"#);
        let said = said_in(standard(), &[call("2", "session/new", &params)]);
        assert_eq!(said, [refused("2", -32602, &format!("Invalid params: {message}"))]);
    }
    for servers in [
        r#"{"nonsense":true}"#,
        r#"{"name":"x","command":"/c","args":[1],"env":[]}"#,
        r#"{"name":"x","command":"/c","args":[],"env":[{"name":"A"}]}"#,
        r#"{"type":"acp"}"#,
        r#"{"type":5,"name":"x","command":"/c","args":[],"env":[]}"#,
        "7",
    ] {
        let params = format!(r#"{{"cwd":"/w","mcpServers":[{servers}]}}"#);
        let said = said_in(standard(), &[call("2", "session/new", &params)]);
        assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()), "{servers}");
    }
    // `null` is no server here, and a missing list is none (A-35).
    let said =
        said_in(standard(), &[call("2", "session/new", r#"{"cwd":"/w","mcpServers":null}"#)]);
    assert!(said[0].starts_with("frame request events/subscribe"), "{said:?}");
    let said = said_in(standard(), &[call("2", "session/new", r#"{"cwd":"/w"}"#)]);
    assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()));
}

#[test]
fn whoever_waits_at_the_end_is_answered() {
    // A-127.
    let mut inputs = prompted();
    inputs.extend([
        call("8", "session/close", r#"{"sessionId":"s"}"#),
        call("9", "session/list", "{}"),
        call("10", "session/resume", r#"{"sessionId":"t","cwd":"/w"}"#),
    ]);
    let said = after(&inputs, &["9 end"]);
    assert_eq!(
        said,
        [
            refused("9", -32603, "Internal error: connection closed during session/list"),
            refused("10", -32603, "Internal error: connection closed during session/resume"),
            stopped("7", "cancelled"),
            answered("8", "{}"),
            "close end of input".to_owned(),
        ]
    );
}
