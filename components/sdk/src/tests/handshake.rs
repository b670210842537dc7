//! `initialize`: what it refuses, what it asks of the host, when its values count.

use insta::assert_snapshot;

use super::*;

#[test]
fn c_1_a_handshake_checks_the_route_and_subscribes_before_it_is_answered() {
    assert_snapshot!(play(&HANDSHAKE), @r#"
    > 0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request models/check id=1 {"provider":"deepseek-official","model":"deepseek-v4-flash"}
    > 0 frame reply models/check id=1 {"route":{"provider":"deepseek-official"},"images":false}
    < frame request events/subscribe id=2 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 0 frame reply events/subscribe id=2 {"subscription":"s1","sessions":[],"asks":[],"queues":[],"jobs":[]}
    < unit {"jsonrpc":"2.0","id":"init-1","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    "#);
}

#[test]
fn a_shared_carrier_hears_only_of_its_own_sessions() {
    // Decision 14. The option says otherwise where the operator wants it.
    let scope = |setup| {
        let asked = outputs(&play_in(setup, &HANDSHAKE)).remove(1);
        asked
            .split_once("\"scope\":\"")
            .expect("a scope")
            .1
            .split_once('"')
            .expect("its end")
            .0
            .to_owned()
    };
    assert_eq!(scope(setup()), "all");
    assert_eq!(scope(shared()), "owned");
    assert_eq!(scope(with_options(r#"{"scope":"owned"}"#)), "owned");
    assert_eq!(scope(Setup { options: r#" {"scope" : "all"} "#.to_owned(), ..shared() }), "all");
}

#[test]
fn c_2_the_id_is_echoed_by_type_and_value() {
    for id in ["2", "0", "-3.5", r#""""#] {
        let initialize = HANDSHAKE[0].replace(r#""init-1""#, id);
        let said = outputs(&play(&[&initialize, HANDSHAKE[1], HANDSHAKE[2]]));
        let answer = r#"unit {"jsonrpc":"2.0","id":ID,"result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}"#;
        assert_eq!(said.last(), Some(&answer.replace("ID", id)));
    }
}

#[track_caller]
fn refused(params: &str, message: &str) {
    let line = format!(r#"0 unit {{"jsonrpc":"2.0","id":1,"method":"initialize"{params}}}"#);
    let answer = format!(
        r#"unit {{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{message}"}}}}"#
    );
    assert_eq!(outputs(&play(&[&line])), [answer]);
}

#[test]
fn c_3_a_token_limit_is_a_positive_safe_integer() {
    // S-42: before everything else, so a cwd that is missing too is not named.
    for found in
        ["0", "-1", "1.5", "9007199254740992", r#""12""#, "null", "-0", "1e400", "[]", "true"]
    {
        let message = "initialize maxTokens must be a positive safe integer";
        refused(&format!(r#","params":{{"maxTokens":{found}}}"#), message);
    }
}

#[test]
fn a_token_limit_is_read_as_a_number_whatever_its_form() {
    for (found, sent) in
        [("1", "1"), ("1e3", "1000"), ("4096.0", "4096"), ("9007199254740991", "9007199254740991")]
    {
        let line = format!(
            r#"0 unit {{"id":1,"method":"initialize","params":{{"maxTokens":{found},"cwd":"/","provider":"p","model":"m"}}}}"#
        );
        let check = format!(
            r#"frame request models/check id=1 {{"provider":"p","model":"m","maxTokens":{sent}}}"#
        );
        assert_eq!(outputs(&play(&[&line])), [check]);
    }
}

#[test]
fn c_5_members_that_are_no_strings_are_named() {
    // S-43.
    refused(r#","params":[1,2]"#, "initialize cwd must be a string");
    refused("", "initialize cwd must be a string");
    refused(r#","params":{"cwd":7,"provider":"p","model":"m"}"#, "initialize cwd must be a string");
    refused(r#","params":{"cwd":".","model":"m"}"#, "initialize provider must be a string");
    refused(r#","params":{"cwd":".","provider":"p"}"#, "initialize model must be a string");
    refused(
        r#","params":{"cwd":".","provider":"p","model":null}"#,
        "initialize model must be a string",
    );
}

#[test]
fn s_49_a_reasoning_effort_is_a_non_empty_string() {
    for found in [r#""""#, "null", "3"] {
        refused(
            &format!(
                r#","params":{{"cwd":".","provider":"p","model":"m","reasoningEffort":{found}}}"#
            ),
            "initialize reasoningEffort must be a non-empty string",
        );
    }
}

#[test]
fn s_43_a_directory_is_made_absolute_without_looking() {
    for (base, cwd, absolute) in [
        ("/home/ada", ".", "/home/ada"),
        ("/home/ada", "", "/home/ada"),
        ("/home/ada", "x/./y//z/", "/home/ada/x/y/z"),
        ("/home/ada", "../../../..", "/"),
        ("/home/ada", "/a/../b", "/b"),
        ("/home/ada", "//a", "/a"),
        ("/", "...", "/..."),
        ("/home/ada/", "~", "/home/ada/~"),
    ] {
        assert_eq!(crate::translate::absolute(base, cwd), absolute, "{cwd} in {base}");
    }
}

#[test]
fn c_4_a_refused_provider_changes_nothing() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"i2","method":"initialize","params":{"cwd":"/other","provider":"private","model":"m"}}"#,
        r#"2 frame failure models/check id=3 {"code":"no-adapter","message":"none","details":{"provider":"private"}}"#,
        r#"3 unit {"id":"p","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
    ]), @r#"
    > 1 unit {"id":"i2","method":"initialize","params":{"cwd":"/other","provider":"private","model":"m"}}
    < frame request models/check id=3 {"provider":"private","model":"m"}
    > 2 frame failure models/check id=3 {"code":"no-adapter","message":"none","details":{"provider":"private"}}
    < unit {"jsonrpc":"2.0","id":"i2","error":{"code":-32603,"message":"no adapter registered for provider \"private\""}}
    > 3 unit {"id":"p","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=4 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=5 {"content":[]}
    "#);
}

#[test]
fn s_49_an_effort_that_the_model_lacks_is_named() {
    assert_snapshot!(play(&[
        r#"1 unit {"id":1,"method":"initialize","params":{"cwd":"a","provider":"p","model":"m","reasoningEffort":"ul\"tra"}}"#,
        r#"2 frame failure models/check id=1 {"code":"effort-unsupported","message":"no","details":{}}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"initialize","params":{"cwd":"a","provider":"p","model":"m","reasoningEffort":"ul\"tra"}}
    < frame request models/check id=1 {"provider":"p","model":"m","reasoningEffort":"ul\"tra"}
    > 2 frame failure models/check id=1 {"code":"effort-unsupported","message":"no","details":{}}
    < unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"provider \"p\" model \"m\" does not support reasoning effort \"ul\"tra\""}}
    "#);
}

#[test]
fn any_other_refusal_of_a_route_is_told_in_the_hosts_words() {
    assert_snapshot!(play(&[
        r#"1 unit {"id":1,"method":"initialize","params":{"cwd":"a","provider":"p","model":"m"}}"#,
        r#"2 frame failure models/check id=1 {"code":"model-unavailable","message":"no model \"m\"","details":{}}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"initialize","params":{"cwd":"a","provider":"p","model":"m"}}
    < frame request models/check id=1 {"provider":"p","model":"m"}
    > 2 frame failure models/check id=1 {"code":"model-unavailable","message":"no model \"m\"","details":{}}
    < unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no model \"m\""}}
    "#);
}

#[test]
fn s_47_a_repeated_handshake_counts_for_later_sessions() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"a","contentBlocks":[]}}"#,
        r#"2 unit {"id":"i2","method":"initialize","params":{"cwd":"sub","provider":"scripted","model":"m","maxTokens":1234}}"#,
        r#"3 frame reply session/open session=a id=3 {}"#,
        r#"4 frame reply models/check id=5 {}"#,
        r#"5 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"a","contentBlocks":[]}}"#,
        r#"6 unit {"id":"p3","method":"session/prompt","params":{"sessionId":"b","contentBlocks":[]}}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"a","contentBlocks":[]}}
    < frame request session/open session=a id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=a id=4 {"content":[]}
    > 2 unit {"id":"i2","method":"initialize","params":{"cwd":"sub","provider":"scripted","model":"m","maxTokens":1234}}
    < frame request models/check id=5 {"provider":"scripted","model":"m","maxTokens":1234}
    > 3 frame reply session/open session=a id=3 {}
    > 4 frame reply models/check id=5 {}
    < unit {"jsonrpc":"2.0","id":"i2","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    > 5 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"a","contentBlocks":[]}}
    < frame request session/prompt session=a id=6 {"content":[]}
    > 6 unit {"id":"p3","method":"session/prompt","params":{"sessionId":"b","contentBlocks":[]}}
    < frame request session/open session=b id=7 {"want":"new","owner":"connection","cwd":"/home/ada/sub","route":{"provider":"scripted","model":"m","maxTokens":1234}}
    < frame request session/prompt session=b id=8 {"content":[]}
    "#);
}

#[test]
fn handshakes_in_flight_are_answered_in_the_order_in_which_they_complete() {
    assert_snapshot!(play(&[
        r#"1 unit {"id":"a","method":"initialize","params":{"cwd":"/a","provider":"p","model":"m"}}"#,
        r#"2 unit {"id":"b","method":"initialize","params":{"cwd":"/b","provider":"p","model":"m"}}"#,
        r#"3 frame reply models/check id=2 {}"#,
        r#"4 frame reply models/check id=1 {}"#,
        r#"5 frame reply events/subscribe id=3 {}"#,
        r#"6 unit {"id":"p","method":"session/working-directory/get","params":{"sessionId":"x"}}"#,
    ]), @r#"
    > 1 unit {"id":"a","method":"initialize","params":{"cwd":"/a","provider":"p","model":"m"}}
    < frame request models/check id=1 {"provider":"p","model":"m"}
    > 2 unit {"id":"b","method":"initialize","params":{"cwd":"/b","provider":"p","model":"m"}}
    < frame request models/check id=2 {"provider":"p","model":"m"}
    > 3 frame reply models/check id=2 {}
    < frame request events/subscribe id=3 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 4 frame reply models/check id=1 {}
    > 5 frame reply events/subscribe id=3 {}
    < unit {"jsonrpc":"2.0","id":"b","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    < unit {"jsonrpc":"2.0","id":"a","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    > 6 unit {"id":"p","method":"session/working-directory/get","params":{"sessionId":"x"}}
    < frame request session/open session=x id=4 {"want":"new","owner":"connection","cwd":"/a","route":{"provider":"p","model":"m"}}
    < frame request session/directory session=x id=5 {}
    "#);
}

#[test]
fn a_subscription_that_fails_fails_the_handshake() {
    assert_snapshot!(play(&[
        HANDSHAKE[0],
        HANDSHAKE[1],
        r#"1 frame failure events/subscribe id=2 {"code":"denied","message":"not for this door","details":{}}"#,
        r#"2 unit {"id":"p","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"3 unit {"id":"i2","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}"#,
        r#"4 frame reply models/check id=3 {}"#,
        r#"5 frame reply events/subscribe id=4 {}"#,
    ]), @r#"
    > 0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request models/check id=1 {"provider":"deepseek-official","model":"deepseek-v4-flash"}
    > 0 frame reply models/check id=1 {"route":{"provider":"deepseek-official"},"images":false}
    < frame request events/subscribe id=2 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 1 frame failure events/subscribe id=2 {"code":"denied","message":"not for this door","details":{}}
    < unit {"jsonrpc":"2.0","id":"init-1","error":{"code":-32603,"message":"not for this door"}}
    > 2 unit {"id":"p","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < unit {"jsonrpc":"2.0","id":"p","error":{"code":-32603,"message":"SDK server is not initialized"}}
    > 3 unit {"id":"i2","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}
    < frame request models/check id=3 {"provider":"p","model":"m"}
    > 4 frame reply models/check id=3 {}
    < frame request events/subscribe id=4 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 5 frame reply events/subscribe id=4 {}
    < unit {"jsonrpc":"2.0","id":"i2","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    "#);
}

#[test]
fn c_18_nothing_is_prompted_without_a_handshake() {
    // S-48.
    assert_snapshot!(play(&[
        r#"0 unit {"id":"p0","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"text","text":"hi"}]}}"#,
    ]), @r#"
    > 0 unit {"id":"p0","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"text","text":"hi"}]}}
    < unit {"jsonrpc":"2.0","id":"p0","error":{"code":-32603,"message":"SDK server is not initialized"}}
    "#);
}

#[test]
fn a_prompt_in_the_same_write_waits_for_the_handshake_ahead_of_it() {
    // S-22, S-138: it is begun behind it, and refused only when it fails.
    let prompt = r#"0 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#;
    let unknown = r#"0 unit {"id":"u","method":"nope"}"#;
    assert_snapshot!(play(&[
        HANDSHAKE[0],
        prompt,
        unknown,
        "1 frame reply models/check id=1 {}",
        "2 frame reply events/subscribe id=2 {}",
    ]), @r#"
    > 0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request models/check id=1 {"provider":"deepseek-official","model":"deepseek-v4-flash"}
    > 0 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    > 0 unit {"id":"u","method":"nope"}
    < unit {"jsonrpc":"2.0","id":"u","error":{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: nope"}}
    > 1 frame reply models/check id=1 {}
    < frame request events/subscribe id=2 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 2 frame reply events/subscribe id=2 {}
    < unit {"jsonrpc":"2.0","id":"init-1","result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    "#);
    assert_snapshot!(play(&[
        HANDSHAKE[0],
        prompt,
        r#"1 frame failure models/check id=1 {"code":"no-adapter","message":"?","details":{}}"#,
    ]), @r#"
    > 0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request models/check id=1 {"provider":"deepseek-official","model":"deepseek-v4-flash"}
    > 0 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    > 1 frame failure models/check id=1 {"code":"no-adapter","message":"?","details":{}}
    < unit {"jsonrpc":"2.0","id":"init-1","error":{"code":-32603,"message":"no adapter registered for provider \"deepseek-official\""}}
    < unit {"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"SDK server is not initialized"}}
    "#);
}

#[test]
fn more_than_can_wait_for_a_handshake_is_refused() {
    // Limit HELD_BYTES_MAX.
    let long = "x".repeat(crate::conversation::HELD_BYTES_MAX);
    let prompt = format!(
        r#"0 unit {{"id":"big","method":"session/prompt","params":{{"sessionId":"main","contentBlocks":[{{"type":"text","text":"{long}"}}]}}}}"#
    );
    let transcript = play(&[HANDSHAKE[0], &prompt]);
    assert!(transcript.contains(
        r#""id":"big","error":{"code":-32603,"message":"SDK server is not initialized"}"#
    ));
}

#[test]
fn an_option_that_is_wrong_is_refused_by_name() {
    for (options, complaint) in [
        ("[]", "options are no JSON object: []"),
        ("{", "options are no JSON object: {"),
        (r#"{"scope":"tree"}"#, r#"option scope is "tree"; it must be "all" or "owned""#),
        (
            r#"{"maxTokensAsSuccess":"sometimes"}"#,
            r#"option maxTokensAsSuccess is "sometimes"; it must be true or false"#,
        ),
        (
            r#"{"max-tokens":1}"#,
            "option max-tokens is unknown; known are scope and maxTokensAsSuccess",
        ),
    ] {
        assert_eq!(
            play_with::<Conversation>(with_options(options), &[]),
            format!("! unsupported: {complaint}\n")
        );
    }
    let messages = Setup { framing: Framing::Messages, ..setup() };
    assert_eq!(
        play_with::<Conversation>(messages, &[]),
        "! unsupported: the sdk door speaks over lines, not over Messages\n"
    );
}
