//! Shutdown, end of input, draining, lagging: who is still answered, and when the connection closes.

use insta::assert_snapshot;

use super::*;

const SHUTDOWN_A: &str = r#"1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}"#;
const SHUTDOWN_B: &str = r#"1 unit {"jsonrpc":"2.0","id":"sd-2","method":"shutdown","params":{}}"#;
const PROMPT: &str = r#"1 unit {"id":"late","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}"#;

#[test]
fn c_37_shutdowns_are_all_answered_and_a_late_prompt_is_refused() {
    assert_snapshot!(ready(&[
        SHUTDOWN_A,
        SHUTDOWN_B,
        PROMPT,
        "2 end",
        "3 frame reply host/shutdown id=3 {}",
        "4 frame reply host/shutdown id=4 {}",
        "5 end",
        "6 frame reply host/shutdown id=4 {}",
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=3 {}
    > 1 unit {"jsonrpc":"2.0","id":"sd-2","method":"shutdown","params":{}}
    < frame request host/shutdown id=4 {}
    > 1 unit {"id":"late","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}
    < unit {"jsonrpc":"2.0","id":"late","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 end
    > 3 frame reply host/shutdown id=3 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    > 4 frame reply host/shutdown id=4 {}
    < unit {"jsonrpc":"2.0","id":"sd-2","result":{}}
    < close shutdown
    > 5 end
    > 6 frame reply host/shutdown id=4 {}
    "#);
}

#[test]
fn c_36_a_shutdown_needs_no_handshake_and_ends_the_connection_that_owns_the_process() {
    // S-60, S-131: without waiting for the end of input.
    assert_snapshot!(play(&[SHUTDOWN_A, SHUTDOWN_B, "2 frame reply host/shutdown id=1 {}", "3 frame reply host/shutdown id=2 {}", "4 end"]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=1 {}
    > 1 unit {"jsonrpc":"2.0","id":"sd-2","method":"shutdown","params":{}}
    < frame request host/shutdown id=2 {}
    > 2 frame reply host/shutdown id=1 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    > 3 frame reply host/shutdown id=2 {}
    < unit {"jsonrpc":"2.0","id":"sd-2","result":{}}
    < close shutdown
    > 4 end
    "#);
}

#[test]
fn a_shared_carrier_stays_open_until_the_client_has_gone() {
    // S-130, decision 14.
    assert_snapshot!(ready_in(shared(), &[
        SHUTDOWN_A,
        "2 frame reply host/shutdown id=3 {}",
        SHUTDOWN_B,
        "3 frame reply host/shutdown id=4 {}",
        PROMPT,
        "4 end",
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=3 {}
    > 2 frame reply host/shutdown id=3 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    > 1 unit {"jsonrpc":"2.0","id":"sd-2","method":"shutdown","params":{}}
    < frame request host/shutdown id=4 {}
    > 3 frame reply host/shutdown id=4 {}
    < unit {"jsonrpc":"2.0","id":"sd-2","result":{}}
    > 1 unit {"id":"late","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}
    < unit {"jsonrpc":"2.0","id":"late","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 4 end
    < close end of input
    "#);
}

#[test]
fn s_218_what_a_closing_server_answers() {
    // C-53. Unknown methods are still told so.
    assert_snapshot!(ready(&[
        SHUTDOWN_A,
        r#"2 unit {"id":"i","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}"#,
        r#"2 unit {"id":"i-bad","method":"initialize"}"#,
        r#"2 unit {"id":"p-bad","method":"session/prompt"}"#,
        r#"2 unit {"id":"r","method":"session/resume","params":{"sessionId":"s"}}"#,
        r#"2 unit {"id":"w","method":"session/wait","params":{"sessionId":"s"}}"#,
        r#"2 unit {"id":"d","method":"session/working-directory/get","params":{"sessionId":"s"}}"#,
        r#"2 unit {"id":"u","method":"probe"}"#,
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=3 {}
    > 2 unit {"id":"i","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}
    < unit {"jsonrpc":"2.0","id":"i","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"i-bad","method":"initialize"}
    < unit {"jsonrpc":"2.0","id":"i-bad","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"p-bad","method":"session/prompt"}
    < unit {"jsonrpc":"2.0","id":"p-bad","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"r","method":"session/resume","params":{"sessionId":"s"}}
    < unit {"jsonrpc":"2.0","id":"r","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"w","method":"session/wait","params":{"sessionId":"s"}}
    < unit {"jsonrpc":"2.0","id":"w","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"d","method":"session/working-directory/get","params":{"sessionId":"s"}}
    < unit {"jsonrpc":"2.0","id":"d","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 2 unit {"id":"u","method":"probe"}
    < unit {"jsonrpc":"2.0","id":"u","error":{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: probe"}}
    "#);
}

#[test]
fn s_116_nothing_is_announced_once_a_shutdown_was_accepted() {
    // What was asked before is still answered: a prompt may even get its receipt (S-128).
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"1 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        SHUTDOWN_A,
        r#"2 frame reply session/open session=main id=3 {}"#,
        r#"3 frame notice session/event session=main {"type":"turn/end"}"#,
        r#"3 frame notice session/status session=main {"status":"idle"}"#,
        r#"3 frame notice session/removed session=main {"why":"disposed"}"#,
        r#"3 frame notice stream/ended {"subscription":"s1"}"#,
        r#"4 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"5 frame failure session/prompt session=main id=5 {"code":"shutting-down","message":"?","details":{}}"#,
        r#"6 frame reply host/shutdown id=6 {}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 1 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/prompt session=main id=5 {"content":[]}
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=6 {}
    > 2 frame reply session/open session=main id=3 {}
    > 3 frame notice session/event session=main {"type":"turn/end"}
    > 3 frame notice session/status session=main {"status":"idle"}
    > 3 frame notice session/removed session=main {"why":"disposed"}
    > 3 frame notice stream/ended {"subscription":"s1"}
    > 4 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    > 5 frame failure session/prompt session=main id=5 {"code":"shutting-down","message":"?","details":{}}
    < unit {"jsonrpc":"2.0","id":"p2","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 6 frame reply host/shutdown id=6 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    < close shutdown
    "#);
}

#[test]
fn a_handshake_that_a_shutdown_overtakes_is_refused() {
    assert_snapshot!(play(&[
        HANDSHAKE[0],
        r#"1 unit {"id":"i2","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}"#,
        HANDSHAKE[1],
        SHUTDOWN_A,
        r#"2 frame reply models/check id=2 {}"#,
        r#"3 frame reply events/subscribe id=3 {}"#,
    ]), @r#"
    > 0 unit {"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"cwd":"/src","provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request models/check id=1 {"provider":"deepseek-official","model":"deepseek-v4-flash"}
    > 1 unit {"id":"i2","method":"initialize","params":{"cwd":"/","provider":"p","model":"m"}}
    < frame request models/check id=2 {"provider":"p","model":"m"}
    > 0 frame reply models/check id=1 {"route":{"provider":"deepseek-official"},"images":false}
    < frame request events/subscribe id=3 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=4 {}
    > 2 frame reply models/check id=2 {}
    < unit {"jsonrpc":"2.0","id":"i2","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 3 frame reply events/subscribe id=3 {}
    < unit {"jsonrpc":"2.0","id":"init-1","error":{"code":-32603,"message":"SDK server is shutting down"}}
    "#);
}

#[test]
fn c_42_a_failed_teardown_is_told_and_closes_with_that_reason() {
    // S-126, S-133: the reason makes the host exit with status 1.
    assert_snapshot!(play(&[
        SHUTDOWN_A,
        r#"2 frame failure host/shutdown id=1 {"code":"teardown-failed","message":"shell 7 would not end","details":{"failures":["shell 7 would not end"]}}"#,
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=1 {}
    > 2 frame failure host/shutdown id=1 {"code":"teardown-failed","message":"shell 7 would not end","details":{"failures":["shell 7 would not end"]}}
    < unit {"jsonrpc":"2.0","id":"sd-1","error":{"code":-32603,"message":"shell 7 would not end"}}
    < close teardown-failed
    "#);
    assert_snapshot!(play_in(shared(), &[
        SHUTDOWN_A,
        SHUTDOWN_B,
        r#"2 frame failure host/shutdown id=1 {"code":"teardown-failed","message":"a; b","details":{"failures":["a","b"]}}"#,
        r#"2 frame failure host/shutdown id=2 {"code":"teardown-failed","message":"a; b","details":{"failures":["a","b"]}}"#,
        "3 end",
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=1 {}
    > 1 unit {"jsonrpc":"2.0","id":"sd-2","method":"shutdown","params":{}}
    < frame request host/shutdown id=2 {}
    > 2 frame failure host/shutdown id=1 {"code":"teardown-failed","message":"a; b","details":{"failures":["a","b"]}}
    < unit {"jsonrpc":"2.0","id":"sd-1","error":{"code":-32603,"message":"SDK server teardown failed"}}
    > 2 frame failure host/shutdown id=2 {"code":"teardown-failed","message":"a; b","details":{"failures":["a","b"]}}
    < unit {"jsonrpc":"2.0","id":"sd-2","error":{"code":-32603,"message":"SDK server teardown failed"}}
    > 3 end
    < close teardown-failed
    "#);
}

#[test]
fn c_39_at_the_end_of_input_what_was_read_is_answered_and_nothing_else_is_said() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        "2 end",
        r#"3 frame reply session/open session=main id=3 {}"#,
        r#"4 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"5 unit {"id":1,"method":"probe"}"#,
        "6 drain shutdown",
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 2 end
    > 3 frame reply session/open session=main id=3 {}
    > 4 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    < close end of input
    > 5 unit {"id":1,"method":"probe"}
    > 6 drain shutdown
    "#);
    assert_snapshot!(play(&["1 end"]), @r#"
    > 1 end
    < close end of input
    "#);
}

#[test]
fn behind_the_end_of_input_everything_that_is_owed_is_answered() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        SHUTDOWN_A,
        "2 end",
        r#"3 frame failure session/open session=main id=3 {"code":"shutting-down","message":"?","details":{}}"#,
        r#"4 frame failure session/prompt session=main id=4 {"code":"shutting-down","message":"?","details":{}}"#,
        r#"5 frame reply host/shutdown id=5 {}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=5 {}
    > 2 end
    > 3 frame failure session/open session=main id=3 {"code":"shutting-down","message":"?","details":{}}
    < unit {"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"SDK server is shutting down"}}
    > 4 frame failure session/prompt session=main id=4 {"code":"shutting-down","message":"?","details":{}}
    > 5 frame reply host/shutdown id=5 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    < close shutdown
    "#);
}

#[test]
fn a_draining_host_is_like_the_end_of_input() {
    assert_snapshot!(ready(&["1 drain shutdown", r#"2 unit {"id":1,"method":"probe"}"#]), @r#"
    > 1 drain shutdown
    < close end of input
    > 2 unit {"id":1,"method":"probe"}
    "#);
    assert_snapshot!(ready_in(shared(), &[
        SHUTDOWN_A,
        "2 drain shutdown",
        r#"3 unit {"id":1,"method":"probe"}"#,
        "4 frame reply host/shutdown id=3 {}",
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=3 {}
    > 2 drain shutdown
    > 3 unit {"id":1,"method":"probe"}
    > 4 frame reply host/shutdown id=3 {}
    < unit {"jsonrpc":"2.0","id":"sd-1","result":{}}
    < close shutdown
    "#);
}

#[test]
fn s_36_a_broken_wire_is_closed_whatever_is_owed() {
    assert_snapshot!(ready(&[SHUTDOWN_A, "2 end broken pipe", "3 frame reply host/shutdown id=3 {}"]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"sd-1","method":"shutdown"}
    < frame request host/shutdown id=3 {}
    > 2 end broken pipe
    < close end of input
    > 3 frame reply host/shutdown id=3 {}
    "#);
}

#[test]
fn a_client_that_lags_is_let_go_as_if_it_had_gone() {
    // Decision 21.
    for (notice, reason) in [
        (r#"2 frame notice stream/lagged {"subscription":"s1"}"#, "close lagged"),
        (r#"2 frame notice stream/ended {"subscription":"s1","error":"?"}"#, "close stream ended"),
    ] {
        let said = outputs(&ready(&[
            r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
            notice,
            r#"3 frame notice session/status session=s {"status":"idle"}"#,
            r#"4 frame reply session/prompt session=s id=4 {"messageId":"m"}"#,
            r#"5 unit {"id":1,"method":"probe"}"#,
        ]));
        assert_eq!(said.last().map(String::as_str), Some(reason));
        assert_eq!(said.len(), 3, "two frames, then the close and nothing behind it: {said:?}");
    }
}

#[test]
fn a_handshake_that_was_read_is_answered_behind_the_end_of_input() {
    assert_snapshot!(play(&[
        r#"1 unit {"id":1,"method":"initialize","params":{"cwd":"/src","provider":"p","model":"m"}}"#,
        "2 end",
        "3 frame reply models/check id=1 {}",
        "4 frame notice session/status session=x {\"status\":\"idle\"}",
        "5 frame reply events/subscribe id=2 {}",
    ]), @r#"
    > 1 unit {"id":1,"method":"initialize","params":{"cwd":"/src","provider":"p","model":"m"}}
    < frame request models/check id=1 {"provider":"p","model":"m"}
    > 2 end
    > 3 frame reply models/check id=1 {}
    < frame request events/subscribe id=2 {"scope":"all","topics":["events","status","subagents","sessions"]}
    > 4 frame notice session/status session=x {"status":"idle"}
    > 5 frame reply events/subscribe id=2 {}
    < unit {"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"deepseek-harness-sdk-runtime","version":"0.0.1"}}}
    < close end of input
    "#);
}
