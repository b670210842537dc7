//! The methods of later releases (§2.4): resume, wait, working directory.

use insta::assert_snapshot;

use super::*;

#[test]
fn s_226_members_are_checked_ahead_of_the_handshake_here() {
    for (method, params, message) in [
        ("session/resume", "{}", "session/resume requires a non-empty sessionId string"),
        ("session/resume", r#"{"sessionId":""}"#, "session/resume requires a non-empty sessionId string"),
        ("session/resume", r#"{"sessionId":7}"#, "session/resume requires a non-empty sessionId string"),
        ("session/resume", r#"{"sessionId":"s"}"#, "SDK server is not initialized"),
        ("session/wait", "{}", "session/wait requires a sessionId string"),
        ("session/wait", r#"{"sessionId":""}"#, "SDK server is not initialized"),
        ("session/working-directory/get", "{}", "working-directory requests require a non-empty sessionId"),
        ("session/working-directory/get", r#"{"sessionId":"s"}"#, "SDK server is not initialized"),
        ("session/working-directory/set", r#"{"path":"x"}"#, "working-directory requests require a non-empty sessionId"),
        ("session/working-directory/set", r#"{"sessionId":"s"}"#, "working-directory set requires a path string"),
        ("session/working-directory/set", r#"{"sessionId":"s","path":7}"#, "working-directory set requires a path string"),
        ("session/working-directory/set", r#"{"sessionId":"s","path":""}"#, "SDK server is not initialized"),
    ] {
        let line = format!(r#"1 unit {{"id":1,"method":"{method}","params":{params}}}"#);
        let answer =
            format!(r#"unit {{"jsonrpc":"2.0","id":1,"error":{{"code":-32603,"message":"{message}"}}}}"#);
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
    ]), @"");
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
    ]), @"");
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
    ]), @"");
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
    ]), @"");
}
