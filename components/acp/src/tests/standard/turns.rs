//! What is shown of a session on the standard surface, in which order, and when a prompt is over (A-120 to A-131).

use super::*;

#[test]
fn everything_that_is_committed_is_shown_in_its_order() {
    // A-121, A-122.
    let said = after(
        &prompted(),
        &[
            event("request/context", r#"{"provider":"p","model":"one","contextWindow":500}"#),
            event(
                "assistant/message",
                r#"{"turn":1,"step":1,"message":{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":""},{"type":"text","text":"see"},{"type":"tool-call","id":"c","name":"read","arguments":"{}"}],"id":"a1"},"usage":{"inputTokens":1,"cacheReadTokens":2,"outputTokens":4,"reasoningTokens":3}}"#,
            ),
            event(
                "tool/call",
                r#"{"turn":1,"step":1,"callId":"c","name":"read","arguments":"{\"file_path\":\"a/b\",\"offset\":7}"}"#,
            ),
            event(
                "tool/result",
                r#"{"turn":1,"step":1,"message":{"role":"user","content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"out"}],"isError":true}],"id":"r"}}"#,
            ),
            event(
                "tool/call",
                r#"{"turn":1,"step":1,"callId":"d","name":"bash","arguments":"no json"}"#,
            ),
        ],
    );
    let text = |text: &str| format!(r#""content":{{"type":"text","text":"{text}"}}"#);
    assert_eq!(
        said,
        [
            update(&format!(
                r#"{{"sessionUpdate":"agent_thought_chunk","messageId":"a1",{},{ORIGIN}}}"#,
                text("hm")
            )),
            update(&format!(
                r#"{{"sessionUpdate":"agent_message_chunk","messageId":"a1",{},{ORIGIN}}}"#,
                text("see")
            )),
            update(&format!(r#"{{"sessionUpdate":"usage_update","used":7,"size":500,{ORIGIN}}}"#)),
            update(&format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"c","title":"read","name":"read","kind":"read","status":"in_progress","locations":[{{"path":"/w/a/b","line":7}}],"rawInput":{{"file_path":"a/b","offset":7}},{ORIGIN}}}"#
            )),
            update(&format!(
                r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed","content":[{{"type":"content",{}}}],{ORIGIN}}}"#,
                text("out")
            )),
            update(&format!(
                r#"{{"sessionUpdate":"tool_call","toolCallId":"d","title":"bash","name":"bash","kind":"execute","status":"in_progress","rawInput":"no json",{ORIGIN}}}"#
            )),
        ]
    );
}

const PICTURE: &str = r#"{"turn":1,"step":1,"message":{"role":"assistant","content":[{"type":"image","attachment":{"attachmentId":"sha256:0","mediaType":"image/png"}},{"type":"text","text":"there"}],"id":"a1"}}"#;

#[test]
fn an_image_is_read_back_and_what_comes_behind_it_waits() {
    // A-120, A-121.
    let ask = r#"2 frame notice ask/opened session=s {"askId":"q","kind":"approval","approvalId":"a","toolName":"bash","callId":"c"}"#;
    let inputs = [
        event("assistant/message", PICTURE),
        event("assistant/chunk", "{}"),
        event("tool/call", r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{}"}"#),
        ask.to_owned(),
        turn_ends(1, r#"{"kind":"completed"}"#),
        status("idle"),
    ];
    let read = r#"frame request attachment/read session=s id=6 {"attachmentId":"sha256:0"}"#;
    assert_eq!(after(&prompted(), &inputs), [read]);
    let mut before = prompted();
    before.extend(inputs);
    let reply = r#"3 frame reply attachment/read session=s id=6 {"attachment":{"attachmentId":"sha256:0","mediaType":"image/png"},"data":"AAAA"}"#;
    let said = after(&before, &[reply, &rests(7)]);
    let image = r#""content":{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
    assert_eq!(
        said[0],
        update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"a1",{image},{ORIGIN}}}"#
        ))
    );
    assert!(
        said[1].contains("there")
            && said[2].contains("tool_call")
            && said[3].contains("request_permission"),
        "{said:?}"
    );
    assert_eq!(said[4..], [wait(7), stopped("7", "end_turn")]);
}

#[test]
fn an_answer_that_cannot_be_shown_fails_its_prompt_at_the_end() {
    // A-123.
    let failure = r#"3 frame failure attachment/read session=s id=6 {"code":"attachment-error","message":"it is gone"}"#;
    let said = after(
        &prompted(),
        &[
            event("assistant/message", PICTURE),
            failure.to_owned(),
            turn_ends(1, r#"{"kind":"completed"}"#),
            status("idle"),
            rests(7),
        ],
    );
    assert!(said[1].contains("there"), "{}", said[1]);
    let message = "Internal error: assistant output delivery failed: it is gone";
    assert_eq!(said[2..], [wait(7), refused("7", -32603, message)]);
}

#[test]
fn a_prompt_is_over_when_all_rest_and_the_last_turn_decides() {
    // A-124, A-125.
    let begins = |turn: u64| event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
    let failed = r#"{"kind":"error","error":{"message":"bad key","code":"AUTH"}}"#;
    let cases: [(&[String], String); 5] = [
        (&[turn_ends(1, r#"{"kind":"max-tokens"}"#)], stopped("7", "max_tokens")),
        (&[turn_ends(1, failed)], refused("7", -32603, "Internal error: turn failed: bad key")),
        (
            &[fails(1, "bad key", r#"["m7"]"#), turn_ends(1, r#"{"kind":"completed"}"#)],
            stopped("7", "end_turn"),
        ),
        (
            &[turn_ends(1, failed), begins(2), turn_ends(2, r#"{"kind":"completed"}"#)],
            stopped("7", "end_turn"),
        ),
        (&[turn_ends(1, r#"{"kind":"completed"}"#), begins(2)], stopped("7", "cancelled")),
    ];
    for (told, expected) in cases {
        let mut inputs = told.to_vec();
        inputs.extend([status("idle"), rests(6)]);
        assert_eq!(after(&prompted(), &inputs), [wait(6), expected]);
    }
    // A turn that began while children were waited for is waited for as well.
    let said = after(
        &prompted(),
        &[
            turn_ends(1, r#"{"kind":"completed"}"#),
            status("idle"),
            status("running"),
            begins(2),
            rests(6),
            turn_ends(2, r#"{"kind":"max-tokens"}"#),
            status("idle"),
            rests(7),
        ],
    );
    assert_eq!(said, [wait(6), wait(7), stopped("7", "max_tokens")]);
}

#[test]
fn a_cancel_is_answered_behind_what_was_said_until_then() {
    // A-126, A-85.
    for how in [
        r#"3 unit {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
        r#"3 unit {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#,
    ] {
        let said = after(
            &prompted(),
            &[
                how.to_owned(),
                how.to_owned(),
                prompt(8, "behind"),
                message(1, "a", r#"[{"type":"text","text":"part"}]"#),
                turn_ends(1, r#"{"kind":"aborted","reason":{"kind":"user"}}"#),
                status("idle"),
                rests(7),
                prompt(9, "next"),
            ],
        );
        let in_flight = "Invalid params: a prompt is already in flight for this session";
        assert_eq!(said[1], wait(7));
        assert_eq!(said[3], refused("8", -32602, in_flight));
        assert!(said[4].contains("part"), "{}", said[4]);
        assert_eq!(said[5], stopped("7", "cancelled"));
        assert!(said[6].starts_with("frame request session/prompt session=s"), "{}", said[6]);
    }
}

#[test]
fn a_prompt_that_is_taken_back_before_it_is_queued_is_cancelled() {
    // A-131.
    let mut inputs = opened();
    inputs.push(prompt(7, "hi"));
    let said = after(
        &inputs,
        &[
            r#"3 unit {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"3 frame failure session/prompt session=s id=5 {"code":"cancelled","message":"withdrawn"}"#,
            &rests(7),
        ],
    );
    assert_eq!(said[2..], [stopped("7", "cancelled")]);
}

#[test]
fn images_are_refused_in_words_of_their_own() {
    // A-129.
    let image = r#"1 unit {"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}}"#;
    let unsaid = "Invalid params: inline image prompts were not advertised by this connection";
    assert_eq!(after_opening(&[image]), [refused("7", -32602, unsaid)]);
    let mut inputs = vec![
        r#"0 unit {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#
            .to_owned(),
        r#"0 frame reply models/check id=1 {"route":{},"images":true}"#.to_owned(),
    ];
    let later = |input: &String| {
        (1..=4).rev().fold(input.clone(), |input, id| {
            input.replace(&format!(" id={id} "), &format!(" id={} ", id + 1))
        })
    };
    inputs.extend(opened().iter().map(later));
    let failure = r#"2 frame failure session/prompt session=s id=6 {"code":"attachment-error","message":"m","details":{"reason":"MODEL_DOES_NOT_SUPPORT_IMAGES"}}"#;
    let said = after(&inputs, &[image, failure]);
    let message = r#"Invalid params: model "one" does not declare image input"#;
    assert_eq!(said[1..], [refused("7", -32602, message)]);
}

#[test]
fn a_permission_request_is_about_a_call_that_was_announced() {
    // A-120, A-226.
    let said = after(
        &prompted(),
        &[
            event("tool/call", r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{}"}"#),
            r#"2 frame notice ask/opened session=s {"askId":"q","kind":"approval","approvalId":"a","toolName":"bash","callId":"c","arguments":"{}"}"#.to_owned(),
        ],
    );
    assert!(said[0].contains(r#""sessionUpdate":"tool_call","toolCallId":"c""#), "{}", said[0]);
    let call = r#""toolCall":{"toolCallId":"c","title":"bash","kind":"execute","rawInput":{}}"#;
    assert!(said[1].contains(call), "{}", said[1]);
}
