//! `session/prompt` and what it causes: opening, sharing, receipts, notifications.

use insta::assert_snapshot;

use super::*;

#[test]
fn a_prompt_opens_its_session_and_the_receipt_goes_ahead_of_the_answer() {
    // The walk-through of the codec contract; S-54 comes from the host's release order.
    assert_snapshot!(ready(&[
        r#"1 unit {"jsonrpc":"2.0","id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"text","text":"hi \u4f60"}]}}"#,
        r#"2 frame reply session/open session=main id=3 {"created":1,"lastSeq":-1,"cwd":"/src","route":{}}"#,
        r#"3 frame notice session/added session=main {"lastSeq":-1,"blank":true}"#,
        r#"4 frame notice session/event session=main {"type":"agent/inbox/spliced","seq":0,"time":1,"data":{}}"#,
        r#"5 frame notice session/status session=main {"status":"running"}"#,
        r#"6 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"7 frame notice session/status session=main {"status":"idle"}"#,
        r#"8 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
    ]), @r#"
    > 1 unit {"jsonrpc":"2.0","id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"text","text":"hi \u4f60"}]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[{"type":"text","text":"hi \u4f60"}]}
    > 2 frame reply session/open session=main id=3 {"created":1,"lastSeq":-1,"cwd":"/src","route":{}}
    > 3 frame notice session/added session=main {"lastSeq":-1,"blank":true}
    > 4 frame notice session/event session=main {"type":"agent/inbox/spliced","seq":0,"time":1,"data":{}}
    < unit {"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"main","event":{"type":"agent/inbox/spliced","seq":0,"time":1,"data":{}}}}
    > 5 frame notice session/status session=main {"status":"running"}
    < unit {"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"main","status":"running"}}
    > 6 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    > 7 frame notice session/status session=main {"status":"idle"}
    < unit {"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"main","status":"idle"}}
    > 8 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/prompt session=main id=5 {"content":[]}
    "#);
}

#[test]
fn c_22_prompts_share_an_opening_that_is_under_way() {
    // S-121: one opening for each id.
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"a1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"1 unit {"id":"a2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"1 unit {"id":"b1","method":"session/prompt","params":{"sessionId":"other","contentBlocks":[]}}"#,
        r#"2 frame reply session/open session=main id=3 {}"#,
        r#"3 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"4 frame reply session/open session=other id=6 {}"#,
        r#"5 frame reply session/prompt session=other id=7 {"messageId":"m3"}"#,
        r#"6 frame reply session/prompt session=main id=5 {"messageId":"m2"}"#,
    ]), @r#"
    > 1 unit {"id":"a1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 1 unit {"id":"a2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/prompt session=main id=5 {"content":[]}
    > 1 unit {"id":"b1","method":"session/prompt","params":{"sessionId":"other","contentBlocks":[]}}
    < frame request session/open session=other id=6 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=other id=7 {"content":[]}
    > 2 frame reply session/open session=main id=3 {}
    > 3 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"a1","result":{"messageId":"m1"}}
    > 4 frame reply session/open session=other id=6 {}
    > 5 frame reply session/prompt session=other id=7 {"messageId":"m3"}
    < unit {"jsonrpc":"2.0","id":"b1","result":{"messageId":"m3"}}
    > 6 frame reply session/prompt session=main id=5 {"messageId":"m2"}
    < unit {"jsonrpc":"2.0","id":"a2","result":{"messageId":"m2"}}
    "#);
}

#[test]
fn s_122_everybody_who_shared_a_failed_opening_gets_its_error_once() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"a","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}"#,
        r#"1 unit {"id":"b","method":"session/working-directory/get","params":{"sessionId":"x"}}"#,
        r#"1 unit {"id":"c","method":"session/prompt","params":{"sessionId":"y","contentBlocks":[]}}"#,
        r#"2 frame failure session/open session=x id=3 {"code":"store-failed","message":"disk is full","details":{}}"#,
        r#"3 frame failure session/prompt session=x id=4 {"code":"session-not-found","message":"no","details":{}}"#,
        r#"4 frame failure session/directory session=x id=5 {"code":"session-not-found","message":"no","details":{}}"#,
        r#"5 unit {"id":"d","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}"#,
        r#"6 frame reply session/open session=x id=8 {}"#,
        r#"7 frame reply session/prompt session=x id=9 {"messageId":"m"}"#,
    ]), @r#"
    > 1 unit {"id":"a","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}
    < frame request session/open session=x id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=x id=4 {"content":[]}
    > 1 unit {"id":"b","method":"session/working-directory/get","params":{"sessionId":"x"}}
    < frame request session/directory session=x id=5 {}
    > 1 unit {"id":"c","method":"session/prompt","params":{"sessionId":"y","contentBlocks":[]}}
    < frame request session/open session=y id=6 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=y id=7 {"content":[]}
    > 2 frame failure session/open session=x id=3 {"code":"store-failed","message":"disk is full","details":{}}
    < unit {"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"disk is full"}}
    < unit {"jsonrpc":"2.0","id":"b","error":{"code":-32603,"message":"disk is full"}}
    > 3 frame failure session/prompt session=x id=4 {"code":"session-not-found","message":"no","details":{}}
    > 4 frame failure session/directory session=x id=5 {"code":"session-not-found","message":"no","details":{}}
    > 5 unit {"id":"d","method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]}}
    < frame request session/open session=x id=8 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=x id=9 {"content":[]}
    > 6 frame reply session/open session=x id=8 {}
    > 7 frame reply session/prompt session=x id=9 {"messageId":"m"}
    < unit {"jsonrpc":"2.0","id":"d","result":{"messageId":"m"}}
    "#);
}

#[test]
fn c_33_a_prompt_with_wrong_members_creates_nothing() {
    // S-56. The handshake comes first (S-226).
    let session = "session/prompt requires a non-empty sessionId string";
    let blocks =
        "session/prompt requires contentBlocks to be an array of objects with a string type";
    for (params, message) in [
        (r#"{"contentBlocks":[]}"#, session),
        (r#"{"sessionId":7,"contentBlocks":[]}"#, session),
        (r#"{"sessionId":"","contentBlocks":[]}"#, session),
        (r#"{"sessionId":null,"contentBlocks":"x"}"#, session),
        ("[]", session),
        (r#"{"sessionId":"s"}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":"PROMPT: plain string"}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":{"type":"text"}}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":null}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":["text"]}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":[{}]}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":[{"type":"text"},{"type":7}]}"#, blocks),
        (r#"{"sessionId":"s","contentBlocks":[{"type":"text"},null]}"#, blocks),
    ] {
        let line = format!(r#"1 unit {{"id":1,"method":"session/prompt","params":{params}}}"#);
        let answer = |message| {
            format!(
                r#"unit {{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{message}"}}}}"#
            )
        };
        assert_eq!(outputs(&ready(&[&line])), [answer(message)], "{params}");
        assert_eq!(outputs(&play(&[&line])), [answer("SDK server is not initialized")], "{params}");
    }
}

#[test]
fn c_34_any_other_characters_may_stand_in_a_session_id() {
    // S-57; it is carried verbatim in both directions.
    assert_snapshot!(ready(&[
        r#"1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"a/b..c","contentBlocks":[{"type":"nope","x":1}]}}"#,
        r#"2 frame notice session/status session=a/b..c {"status":"running"}"#,
        r#"3 frame notice session/event session=a"\b {"type":"turn/start"}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"a/b..c","contentBlocks":[{"type":"nope","x":1}]}}
    < frame request session/open session=a/b..c id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=a/b..c id=4 {"content":[{"type":"nope","x":1}]}
    > 2 frame notice session/status session=a/b..c {"status":"running"}
    < unit {"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"a/b..c","status":"running"}}
    > 3 frame notice session/event session=a"\b {"type":"turn/start"}
    < unit {"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"a\"\\b","event":{"type":"turn/start"}}}
    "#);
}

#[test]
fn s_52_blocks_are_passed_on_to_the_letter() {
    let blocks = r#"[{"type":"image","data":"iVBO","mimeType":"image/png"},{"type":"x","n":12345678901234567890,"e":1e999,"s":"\u4f60\/"}]"#;
    let line = format!(
        r#"1 unit {{"id":1,"method":"session/prompt","params":{{"sessionId":"s","contentBlocks":{blocks}}}}}"#
    );
    let asked = outputs(&ready(&[&line])).pop().expect("a frame");
    assert_eq!(
        asked,
        format!(r#"frame request session/prompt session=s id=4 {{"content":{blocks}}}"#)
    );
}

#[test]
fn c_35_an_id_that_is_stored_is_refused_in_the_words_of_the_wire() {
    // S-123, S-159, S-55.
    for (code, message) in [
        ("session-exists", "session \\\"main\\\" already exists"),
        ("session-disposed", "session agent was disposed outside the server: main"),
        ("shutting-down", "SDK server is shutting down"),
        ("overloaded", "the host's own words"),
    ] {
        let failure = format!(
            r#"2 frame failure session/open session=main id=3 {{"code":"{code}","message":"the host's own words","details":{{}}}}"#
        );
        let said = outputs(&ready(&[
            r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
            &failure,
        ]));
        let answer = format!(
            r#"unit {{"jsonrpc":"2.0","id":"p1","error":{{"code":-32603,"message":"{message}"}}}}"#
        );
        assert_eq!(said.last(), Some(&answer));
    }
}

#[test]
fn s_159_a_session_that_was_disposed_elsewhere_is_told_once_and_forgotten() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"2 frame reply session/open session=main id=3 {}"#,
        r#"3 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"4 frame notice session/removed session=main {"why":"disposed"}"#,
        r#"5 frame notice session/removed session=stranger {"why":"closed"}"#,
        r#"6 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"7 unit {"id":"r","method":"session/resume","params":{"sessionId":"main"}}"#,
        r#"8 frame reply session/open session=main id=5 {}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 2 frame reply session/open session=main id=3 {}
    > 3 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    > 4 frame notice session/removed session=main {"why":"disposed"}
    > 5 frame notice session/removed session=stranger {"why":"closed"}
    > 6 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < unit {"jsonrpc":"2.0","id":"p2","error":{"code":-32603,"message":"session agent was disposed outside the server: main"}}
    > 7 unit {"id":"r","method":"session/resume","params":{"sessionId":"main"}}
    < frame request session/open session=main id=5 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 8 frame reply session/open session=main id=5 {}
    < unit {"jsonrpc":"2.0","id":"r","result":{}}
    "#);
}

#[test]
fn s_159_a_late_failure_does_not_touch_a_session_that_was_opened_anew() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
        r#"2 frame reply session/open session=s id=3 {}"#,
        r#"3 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
        r#"4 frame failure session/prompt session=s id=4 {"code":"session-disposed","message":"gone","details":{}}"#,
        r#"5 unit {"id":"r","method":"session/resume","params":{"sessionId":"s"}}"#,
        r#"6 frame failure session/prompt session=s id=5 {"code":"session-disposed","message":"gone","details":{}}"#,
        r#"7 frame reply session/open session=s id=6 {}"#,
        r#"8 unit {"id":"p3","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}
    < frame request session/open session=s id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=s id=4 {"content":[]}
    > 2 frame reply session/open session=s id=3 {}
    > 3 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}
    < frame request session/prompt session=s id=5 {"content":[]}
    > 4 frame failure session/prompt session=s id=4 {"code":"session-disposed","message":"gone","details":{}}
    < unit {"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"session agent was disposed outside the server: s"}}
    > 5 unit {"id":"r","method":"session/resume","params":{"sessionId":"s"}}
    < frame request session/open session=s id=6 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 6 frame failure session/prompt session=s id=5 {"code":"session-disposed","message":"gone","details":{}}
    < unit {"jsonrpc":"2.0","id":"p2","error":{"code":-32603,"message":"session agent was disposed outside the server: s"}}
    > 7 frame reply session/open session=s id=6 {}
    < unit {"jsonrpc":"2.0","id":"r","result":{}}
    > 8 unit {"id":"p3","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}
    < frame request session/prompt session=s id=7 {"content":[]}
    "#);
}

#[test]
fn a_removal_of_an_earlier_life_does_not_touch_an_opening() {
    let said = outputs(&ready(&[
        r#"1 unit {"id":"r","method":"session/resume","params":{"sessionId":"s"}}"#,
        r#"2 frame notice session/removed session=s {"why":"closed"}"#,
        r#"3 frame reply session/open session=s id=3 {}"#,
        r#"4 unit {"id":"p","method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
    ]));
    assert_eq!(
        said.last().map(String::as_str),
        Some(r#"frame request session/prompt session=s id=4 {"content":[]}"#)
    );
}

#[test]
fn s_71_only_sessions_with_a_parent_are_announced() {
    assert_snapshot!(ready(&[
        r#"1 frame notice session/added session=child {"lastSeq":3,"blank":false,"parentSessionId":"ma\"in","origin":"fork","cwd":"/"}"#,
        r#"2 frame notice session/added session=root {"lastSeq":-1,"blank":true}"#,
        r#"3 frame notice session/added session=root {"parentSessionId":null}"#,
    ]), @r#"
    > 1 frame notice session/added session=child {"lastSeq":3,"blank":false,"parentSessionId":"ma\"in","origin":"fork","cwd":"/"}
    < unit {"jsonrpc":"2.0","method":"subagent.started","params":{"parentSessionId":"ma\"in","childSessionId":"child"}}
    > 2 frame notice session/added session=root {"lastSeq":-1,"blank":true}
    > 3 frame notice session/added session=root {"parentSessionId":null}
    "#);
}

#[test]
fn c_30_c_31_c_32_a_finished_child_is_reported_if_it_is_local() {
    // S-73 to S-77.
    let run = |body: &str| format!("1 frame notice subagent/finished session=main {body}");
    let inputs = [
        run(
            r#"{"runId":"r1","provider":"spawn","agentId":"c","childSessionId":"c","local":true,"stopReason":"completed","lastAssistantMessage":[{"type":"text","text":"done"}]}"#,
        ),
        run(
            r#"{"runId":"r2","provider":"spawn","agentId":"c","childSessionId":"c","local":true,"stopReason":"error"}"#,
        ),
        run(
            r#"{"runId":"r3","provider":"spawn","agentId":"c","childSessionId":"c","local":true,"stopReason":"max-tokens","lastAssistantMessage":[]}"#,
        ),
        run(
            r#"{"runId":"r4","provider":"spawn","agentId":"c","childSessionId":"c","local":true,"stopReason":"of a later release"}"#,
        ),
        run(
            r#"{"runId":"r5","provider":"remote","agentId":"c","childSessionId":"c","local":false,"stopReason":"completed"}"#,
        ),
        run(r#"{"runId":"r6"}"#),
    ];
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    assert_snapshot!(outputs(&ready(&inputs)).join("\n"), @r#"
    unit {"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"c","parentSessionId":"main","childSessionId":"c","status":"ok","stopReason":"completed","lastAssistantMessage":[{"type":"text","text":"done"}]}}
    unit {"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"c","parentSessionId":"main","childSessionId":"c","status":"error","stopReason":"error"}}
    unit {"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"c","parentSessionId":"main","childSessionId":"c","status":"error","stopReason":"max-tokens"}}
    unit {"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"c","parentSessionId":"main","childSessionId":"c","status":"error","stopReason":"of a later release"}}
    "#);
    let success = ready_in(with_options(r#"{"maxTokensAsSuccess":true}"#), &inputs);
    assert_snapshot!(outputs(&success)[2], @r#"
    unit {"jsonrpc":"2.0","method":"subagent.finished","params":{"provider":"spawn","agentId":"c","parentSessionId":"main","childSessionId":"c","status":"ok","stopReason":"max-tokens"}}
    "#);
}

#[test]
fn notices_of_other_kinds_and_requests_of_the_host_are_survived() {
    assert_snapshot!(ready(&[
        r#"1 frame notice session/queue session=main {"items":[]}"#,
        r#"2 frame notice models/changed {}"#,
        r#"3 frame notice session/event {"no":"session"}"#,
        r#"4 frame reply session/prompt id=99 {"messageId":"nobody waits"}"#,
        r#"5 frame reply session/prompt {"messageId":"no id"}"#,
        r#"6 frame request tools/call session=main id=7 {"callId":"c"}"#,
        r#"7 deadline"#,
        r#"8 other something {}"#,
        r#"9 drain replaced"#,
        r#"9 head :status=200"#,
        r#"9 unit {"id":1,"method":"probe"}"#,
    ]), @r#"
    > 1 frame notice session/queue session=main {"items":[]}
    > 2 frame notice models/changed {}
    > 3 frame notice session/event {"no":"session"}
    > 4 frame reply session/prompt id=99 {"messageId":"nobody waits"}
    > 5 frame reply session/prompt {"messageId":"no id"}
    > 6 frame request tools/call session=main id=7 {"callId":"c"}
    < frame failure tools/call session=main id=7 {"code":"unknown-frame","message":"the sdk door serves no requests","details":{"frame":"tools/call"}}
    > 7 deadline
    > 8 other something {}
    > 9 drain replaced
    > 9 head :status=200
    > 9 unit {"id":1,"method":"probe"}
    < unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: probe"}}
    "#);
}

#[test]
fn a_reply_without_its_member_is_an_error() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}"#,
        r#"2 frame reply session/open session=s id=3 {}"#,
        r#"3 frame reply session/prompt session=s id=4 {}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":[]}}
    < frame request session/open session=s id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=s id=4 {"content":[]}
    > 2 frame reply session/open session=s id=3 {}
    > 3 frame reply session/prompt session=s id=4 {}
    < unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the host's reply lacks messageId"}}
    "#);
}

#[test]
fn s_58_an_image_that_cannot_be_kept_is_refused_in_the_words_of_the_wire() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"image","data":"AA==","mimeType":"image/png"}]}}"#,
        r#"2 frame reply session/open session=main id=3 {}"#,
        r#"3 frame failure session/prompt session=main id=4 {"code":"attachment-error","message":"image prompt requires an attachment store","details":{"reason":"NO_ATTACHMENT_STORE"}}"#,
        r#"4 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"5 frame failure session/prompt session=main id=5 {"code":"attachment-error","message":"image 1 of the prompt is odd","details":{"reason":"INVALID_IMAGE"}}"#,
    ]), @r#"
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[{"type":"image","data":"AA==","mimeType":"image/png"}]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}
    > 2 frame reply session/open session=main id=3 {}
    > 3 frame failure session/prompt session=main id=4 {"code":"attachment-error","message":"image prompt requires an attachment store","details":{"reason":"NO_ATTACHMENT_STORE"}}
    < unit {"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"SDK image prompt requires an attachment store"}}
    > 4 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/prompt session=main id=5 {"content":[]}
    > 5 frame failure session/prompt session=main id=5 {"code":"attachment-error","message":"image 1 of the prompt is odd","details":{"reason":"INVALID_IMAGE"}}
    < unit {"jsonrpc":"2.0","id":"p2","error":{"code":-32603,"message":"image 1 of the prompt is odd"}}
    "#);
}
