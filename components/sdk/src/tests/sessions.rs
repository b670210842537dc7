//! The methods of later releases (§2.4): resume, wait, working directory.

use insta::assert_snapshot;

use super::*;

#[test]
fn s_226_members_are_checked_ahead_of_the_handshake_here() {
    for (method, params, message) in [
        ("session/resume", "{}", "session/resume requires a non-empty sessionId string"),
        (
            "session/resume",
            r#"{"sessionId":""}"#,
            "session/resume requires a non-empty sessionId string",
        ),
        (
            "session/resume",
            r#"{"sessionId":7}"#,
            "session/resume requires a non-empty sessionId string",
        ),
        ("session/resume", r#"{"sessionId":"s"}"#, "SDK server is not initialized"),
        ("session/wait", "{}", "session/wait requires a sessionId string"),
        ("session/wait", r#"{"sessionId":""}"#, "SDK server is not initialized"),
        (
            "session/working-directory/get",
            "{}",
            "working-directory requests require a non-empty sessionId",
        ),
        ("session/working-directory/get", r#"{"sessionId":"s"}"#, "SDK server is not initialized"),
        (
            "session/working-directory/set",
            r#"{"path":"x"}"#,
            "working-directory requests require a non-empty sessionId",
        ),
        (
            "session/working-directory/set",
            r#"{"sessionId":"s"}"#,
            "working-directory set requires a path string",
        ),
        (
            "session/working-directory/set",
            r#"{"sessionId":"s","path":7}"#,
            "working-directory set requires a path string",
        ),
        (
            "session/working-directory/set",
            r#"{"sessionId":"s","path":""}"#,
            "SDK server is not initialized",
        ),
    ] {
        let line = format!(r#"1 unit {{"id":1,"method":"{method}","params":{params}}}"#);
        let answer = format!(
            r#"unit {{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{message}"}}}}"#
        );
        assert_eq!(outputs(&play(&[&line])), [answer], "{method} {params}");
    }
}

#[test]
fn s_61_a_stored_session_is_resumed_with_the_route_and_its_own_directory() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"r1","method":"session/resume","params":{"sessionId":"main"}}"#,
        r#"2 unit {"id":"r2","method":"session/resume","params":{"sessionId":"main"}}"#,
        r#"3 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"4 frame reply session/open session=main id=3 {"created":1,"lastSeq":17,"cwd":"/","route":{}}"#,
        r#"5 unit {"id":"r3","method":"session/resume","params":{"sessionId":"main"}}"#,
        r#"6 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
    ]), @r#"
    > 1 unit {"id":"r1","method":"session/resume","params":{"sessionId":"main"}}
    < frame request session/open session=main id=3 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 2 unit {"id":"r2","method":"session/resume","params":{"sessionId":"main"}}
    < unit {"jsonrpc":"2.0","id":"r2","error":{"code":-32603,"message":"SDK session is already open or opening: main"}}
    > 3 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 4 frame reply session/open session=main id=3 {"created":1,"lastSeq":17,"cwd":"/","route":{}}
    < unit {"jsonrpc":"2.0","id":"r1","result":{}}
    > 5 unit {"id":"r3","method":"session/resume","params":{"sessionId":"main"}}
    < unit {"jsonrpc":"2.0","id":"r3","error":{"code":-32603,"message":"SDK session is already open or opening: main"}}
    > 6 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    "#);
}

#[test]
fn s_61_what_is_not_stored_is_not_resumed() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"r1","method":"session/resume","params":{"sessionId":"nowhere"}}"#,
        r#"1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"nowhere","contentBlocks":[]}}"#,
        r#"2 frame failure session/open session=nowhere id=3 {"code":"session-not-found","message":"?","details":{}}"#,
        r#"3 unit {"id":"r2","method":"session/resume","params":{"sessionId":"damaged"}}"#,
        r#"4 frame failure session/open session=damaged id=5 {"code":"not-resumable","message":"the log ends inside a turn","details":{}}"#,
        r#"5 unit {"id":"r3","method":"session/resume","params":{"sessionId":"theirs"}}"#,
        r#"6 frame failure session/open session=theirs id=6 {"code":"session-live","message":"?","details":{}}"#,
        r#"7 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"nowhere","contentBlocks":[]}}"#,
    ]), @r#"
    > 1 unit {"id":"r1","method":"session/resume","params":{"sessionId":"nowhere"}}
    < frame request session/open session=nowhere id=3 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 1 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"nowhere","contentBlocks":[]}}
    < frame request session/prompt session=nowhere id=4 {"content":[]}
    > 2 frame failure session/open session=nowhere id=3 {"code":"session-not-found","message":"?","details":{}}
    < unit {"jsonrpc":"2.0","id":"r1","error":{"code":-32603,"message":"session \"nowhere\" not found"}}
    < unit {"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"session \"nowhere\" not found"}}
    > 3 unit {"id":"r2","method":"session/resume","params":{"sessionId":"damaged"}}
    < frame request session/open session=damaged id=5 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 4 frame failure session/open session=damaged id=5 {"code":"not-resumable","message":"the log ends inside a turn","details":{}}
    < unit {"jsonrpc":"2.0","id":"r2","error":{"code":-32603,"message":"the log ends inside a turn"}}
    > 5 unit {"id":"r3","method":"session/resume","params":{"sessionId":"theirs"}}
    < frame request session/open session=theirs id=6 {"want":"stored","owner":"connection","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    > 6 frame failure session/open session=theirs id=6 {"code":"session-live","message":"?","details":{}}
    < unit {"jsonrpc":"2.0","id":"r3","error":{"code":-32603,"message":"SDK session is already open or opening: theirs"}}
    > 7 unit {"id":"p2","method":"session/prompt","params":{"sessionId":"nowhere","contentBlocks":[]}}
    < frame request session/open session=nowhere id=7 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=nowhere id=8 {"content":[]}
    "#);
}

#[test]
fn s_62_a_wait_creates_nothing_and_is_answered_when_the_host_does() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"w1","method":"session/wait","params":{"sessionId":"nope"}}"#,
        r#"2 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}"#,
        r#"3 unit {"id":"w2","method":"session/wait","params":{"sessionId":"main"}}"#,
        r#"4 unit {"id":"w3","method":"session/wait","params":{"sessionId":"main"}}"#,
        r#"5 frame reply session/open session=main id=3 {}"#,
        r#"6 frame reply session/prompt session=main id=4 {"messageId":"m1"}"#,
        r#"7 frame notice session/status session=main {"status":"idle"}"#,
        r#"8 frame reply session/wait session=main id=5 {}"#,
        r#"9 frame failure session/wait session=main id=6 {"code":"turn-failed","message":"the model said no","details":{"code":"SERVER"}}"#,
    ]), @r#"
    > 1 unit {"id":"w1","method":"session/wait","params":{"sessionId":"nope"}}
    < unit {"jsonrpc":"2.0","id":"w1","error":{"code":-32603,"message":"unknown SDK session: nope"}}
    > 2 unit {"id":"p1","method":"session/prompt","params":{"sessionId":"main","contentBlocks":[]}}
    < frame request session/open session=main id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=main id=4 {"content":[]}
    > 3 unit {"id":"w2","method":"session/wait","params":{"sessionId":"main"}}
    < frame request session/wait session=main id=5 {"descendants":true}
    > 4 unit {"id":"w3","method":"session/wait","params":{"sessionId":"main"}}
    < frame request session/wait session=main id=6 {"descendants":true}
    > 5 frame reply session/open session=main id=3 {}
    > 6 frame reply session/prompt session=main id=4 {"messageId":"m1"}
    < unit {"jsonrpc":"2.0","id":"p1","result":{"messageId":"m1"}}
    > 7 frame notice session/status session=main {"status":"idle"}
    < unit {"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"main","status":"idle"}}
    > 8 frame reply session/wait session=main id=5 {}
    < unit {"jsonrpc":"2.0","id":"w2","result":{}}
    > 9 frame failure session/wait session=main id=6 {"code":"turn-failed","message":"the model said no","details":{"code":"SERVER"}}
    < unit {"jsonrpc":"2.0","id":"w3","error":{"code":-32603,"message":"the model said no"}}
    "#);
}

#[test]
fn s_63_a_directory_is_read_and_set_and_an_unknown_id_created_for_it() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":"g","method":"session/working-directory/get","params":{"sessionId":"fresh"}}"#,
        r#"2 frame reply session/open session=fresh id=3 {}"#,
        r#"3 frame reply session/directory session=fresh id=4 {"cwd":"/src"}"#,
        r#"4 unit {"id":"s","method":"session/working-directory/set","params":{"sessionId":"fresh","path":"sub \"x\""}}"#,
        r#"5 frame reply session/directory session=fresh id=5 {"cwd":"/src/sub \"x\""}"#,
        r#"6 unit {"id":"s2","method":"session/working-directory/set","params":{"sessionId":"fresh","path":"/nowhere"}}"#,
        r#"7 frame failure session/directory session=fresh id=6 {"code":"invalid","message":"no such directory","details":{}}"#,
    ]), @r#"
    > 1 unit {"id":"g","method":"session/working-directory/get","params":{"sessionId":"fresh"}}
    < frame request session/open session=fresh id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/directory session=fresh id=4 {}
    > 2 frame reply session/open session=fresh id=3 {}
    > 3 frame reply session/directory session=fresh id=4 {"cwd":"/src"}
    < unit {"jsonrpc":"2.0","id":"g","result":{"cwd":"/src"}}
    > 4 unit {"id":"s","method":"session/working-directory/set","params":{"sessionId":"fresh","path":"sub \"x\""}}
    < frame request session/directory session=fresh id=5 {"set":"sub \"x\""}
    > 5 frame reply session/directory session=fresh id=5 {"cwd":"/src/sub \"x\""}
    < unit {"jsonrpc":"2.0","id":"s","result":{"cwd":"/src/sub \"x\""}}
    > 6 unit {"id":"s2","method":"session/working-directory/set","params":{"sessionId":"fresh","path":"/nowhere"}}
    < frame request session/directory session=fresh id=6 {"set":"/nowhere"}
    > 7 frame failure session/directory session=fresh id=6 {"code":"invalid","message":"no such directory","details":{}}
    < unit {"jsonrpc":"2.0","id":"s2","error":{"code":-32603,"message":"no such directory"}}
    "#);
}

/// Decision 42: clients of the baseline do not know the mark of an answer that a cancel has cut.
#[test]
fn a_part_of_an_answer_comes_without_its_mark() {
    let event = |source: &str| {
        format!(
            r#"{{"type":"assistant/message","seq":9,"time":1,"data":{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"a \",\"partial\":true}} b"}}],"source":{{"kind":"model","provider":"p","model":"m"{source}}},"id":"a"}}}},"sourceEventSeqs":[8],"surfaceOp":"append"}}"#
        )
    };
    let notice =
        format!("0 frame notice session/event session=main {}", event(r#","partial":true"#));
    let out = outputs(&ready(&[&notice]));
    assert!(out.iter().any(|line| line.ends_with(&format!("{}}}}}", event("")))), "{out:?}");
    let other = notice.replace("assistant/message", "another/message");
    let out = outputs(&ready(&[&other]));
    assert!(out.iter().any(|line| line.contains(r#""partial":true},"id""#)), "{out:?}");
}
