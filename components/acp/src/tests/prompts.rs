//! `session/prompt`: admission and its checks, the text that is made of the blocks, and what is shown of a session.

use super::*;

fn prompt_of(blocks: &str) -> Vec<String> {
    said_opened(&[format!(
        r#"1 unit {{"id":7,"method":"session/prompt","params":{{"sessionId":"s","prompt":{blocks}}}}}"#
    )])
}

/// The text that the host is given.
fn text_of(blocks: &str) -> String {
    let said = prompt_of(blocks);
    let [only] = said.as_slice() else { panic!("one frame, not {said:?}") };
    let body = only.strip_prefix("frame request session/prompt session=s id=3 ").expect("a prompt");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let content = body["content"].as_array().expect("blocks");
    assert_eq!(content.len(), 1, "one message of one text (A-44)");
    assert_eq!(
        body.as_object().map(serde_json::Map::len),
        Some(1),
        "nothing of the protocol (A-45)"
    );
    content[0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn row_19_row_20_row_21_blocks_become_one_text() {
    // A-46 to A-48.
    for (blocks, text) in [
        (
            r#"[{"type":"text","text":"a "},{"text":" b","type":"text"},{"type":"text","text":"\nc  ","annotations":{"x":1},"_meta":7}]"#,
            "a  b\nc  ",
        ),
        (
            r#"[{"type":"text","text":"summarize"},{"type":"resource_link","name":"notes.txt","uri":"file:///w/notes.txt"}]"#,
            "summarize\n[resource_link name=\"notes.txt\" uri=\"file:///w/notes.txt\"]\n",
        ),
        (
            r#"[{"type":"resource_link","name":"a \"q\" \\ é\n\u0001\u001f/","uri":"x:y","title":"T","description":"D","mimeType":"m","size":1}]"#,
            "\n[resource_link name=\"a \\\"q\\\" \\\\ é\\n\\u0001\\u001f/\" uri=\"x:y\"]\n",
        ),
        (r#"[{"type":"text","text":"世界🎉\u0085"}]"#, "世界🎉\u{85}"),
    ] {
        assert_eq!(text_of(blocks), text, "{blocks}");
    }
}

#[test]
fn row_22_what_is_blank_is_ecmascripts_to_say() {
    // A-42.
    for blank in ["", "  \\n\\t", "\u{feff}", "\u{a0} \u{2003}\u{2028}\u{2029}\u{3000}"] {
        let said = prompt_of(&format!(r#"[{{"type":"text","text":"{blank}"}}]"#));
        assert_eq!(said, [refused("7", -32602, "Invalid params: empty prompt")], "{blank:?}");
    }
    assert_eq!(prompt_of("[]"), [refused("7", -32602, "Invalid params: empty prompt")]);
    for seen in ["\u{85}", "\u{200b}"] {
        assert_eq!(text_of(&format!(r#"[{{"type":"text","text":"{seen}"}}]"#)), seen);
    }
}

#[test]
fn row_23_richer_content_refuses_the_whole_prompt() {
    // A-49.
    let message = "Invalid params: only text and resource_link prompt content is supported";
    for block in [
        r#"{"type":"image","data":"","mimeType":"image/png"}"#,
        r#"{"type":"audio","data":"AAAA","mimeType":"audio/wav"}"#,
        r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}}"#,
        r#"{"type":"resource","resource":{"uri":"file:///a","blob":"AAAA"}}"#,
    ] {
        for blocks in [format!("[{block}]"), format!(r#"[{{"type":"text","text":"ok"}},{block}]"#)]
        {
            assert_eq!(prompt_of(&blocks), [refused("7", -32602, message)], "{blocks}");
        }
    }
}

#[test]
fn row_24_wrong_shapes_are_refused() {
    for params in [
        r#"{"sessionId":"s","prompt":"x"}"#,
        r#"{"sessionId":"s"}"#,
        r#"{"prompt":[]}"#,
        r#"{"sessionId":5,"prompt":[]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"bogus"}]}"#,
        r#"{"sessionId":"s","prompt":[{"text":"x"}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"text"}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"text","text":5}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"resource_link","name":"n"}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"resource","resource":{"uri":"x"}}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"resource"}]}"#,
        r#"{"sessionId":"s","prompt":[{"type":"image","data":"x"}]}"#,
        r#"{"sessionId":"s","prompt":["x"]}"#,
        "[]",
    ] {
        let said = said_opened(&[format!(
            r#"1 unit {{"id":7,"method":"session/prompt","params":{params}}}"#
        )]);
        assert_eq!(refusal(&said), (-32602, "Invalid params".to_owned()), "{params}");
        assert!(data(&said)["_errors"].is_array(), "{params}");
    }
}

#[test]
fn row_25_an_unknown_session_is_named() {
    let line = r#"1 unit {"id":7,"method":"session/prompt","params":{"sessionId":"missing","prompt":[{"type":"audio","data":"","mimeType":"x"}]}}"#;
    assert_eq!(
        said_opened(&[line]),
        [refused("7", -32602, "Invalid params: unknown session: missing")]
    );
}

#[test]
fn row_26_row_27_one_prompt_is_in_flight() {
    // A-41.4: ahead of any check of the content, whether the host has taken the first or not.
    let busy = "Invalid params: a prompt is already in flight for this session";
    let second = [
        prompt(8, "x"),
        prompt(9, ""),
        r#"1 unit {"id":10,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"audio","data":"","mimeType":"x"}]}}"#.to_owned(),
    ];
    let expected = ["8", "9", "10"].map(|id| refused(id, -32602, busy));
    assert_eq!(said_after(&claimed(), &second), expected);
    let asked: Vec<String> =
        OPENED.map(str::to_owned).into_iter().chain([prompt(7, "hi")]).collect();
    assert_eq!(said_after(&asked, &second), expected);
}

#[test]
fn a_43_a_prompt_that_the_host_refuses_leaves_its_place_free() {
    let refused_by = |code: &str| {
        said_opened(&[
            prompt(7, "a"),
            format!(
                r#"2 frame failure session/prompt session=s id=3 {{"code":"{code}","message":"full","details":{{}}}}"#
            ),
            prompt(8, "b"),
        ])
    };
    let next =
        r#"frame request session/prompt session=s id=4 {"content":[{"type":"text","text":"b"}]}"#;
    assert_eq!(
        refused_by("overloaded")[1..],
        [refused("7", -32603, "Internal error: prompt was not queued: full"), next.to_owned()]
    );
    let gone = "Internal error: prompt was not queued: the agent was disposed outside the bridge";
    assert_eq!(refused_by("session-disposed")[1], refused("7", -32603, gone));
}

#[test]
fn a_41_a_session_that_was_disposed_elsewhere_takes_no_more() {
    let gone = "Internal error: prompt was not queued: the agent was disposed outside the bridge";
    let said = said_after(
        &claimed(),
        &[
            r#"3 frame notice session/removed session=s {"why":"disposed"}"#.to_owned(),
            prompt(8, "x"),
        ],
    );
    assert_eq!(said, [stopped("7", "cancelled"), refused("8", -32603, gone)]);
}

fn chunk(message: &str, text: &str, turn: u64, origin: &str) -> String {
    format!(
        r#"unit {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","messageId":"{message}","content":{{"type":"text","text":"{text}"}},"_meta":{{"dsh/turn":{turn},"dsh/origin":"{origin}"}}}}}}}}"#
    )
}

#[test]
fn row_14_row_17_committed_texts_are_shown_one_for_each_block() {
    // A-50, A-51, A-54, A-55: reasoning, calls and empty texts show nothing, an image its name.
    let said = said_after(
        &claimed(),
        &[
            message(
                1,
                "a1",
                r#"[{"type":"reasoning","text":"hm"},{"type":"text","text":"let me \"check\"\n世"},{"type":"tool-call","id":"c","name":"bash","arguments":"{}"}]"#,
            ),
            message(
                1,
                "a2",
                r#"[{"type":"text","text":""},{"type":"text","text":"b1"},{"type":"text","text":"b2"},{"type":"image","attachment":{"attachmentId":"sha256:ab","mediaType":"image/png"}}]"#,
            ),
            message(1, "a3", r#"[{"type":"reasoning","text":"only"}]"#),
            turn_ends(1, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    assert_eq!(
        said,
        [
            chunk("a1", r#"let me \"check\"\n世"#, 1, "prompt"),
            chunk("a2", "b1", 1, "prompt"),
            chunk("a2", "b2", 1, "prompt"),
            chunk("a2", "[image attachment sha256:ab]", 1, "prompt"),
            stopped("7", "end_turn"),
        ]
    );
}

#[test]
fn row_16_nothing_else_of_a_session_is_shown() {
    // A-52.
    let event = |kind: &str| {
        format!(
            r#"2 frame notice session/event session=s {{"type":"{kind}","seq":1,"time":1,"data":{{"turn":1,"text":"x"}}}}"#
        )
    };
    let kinds = [
        "assistant/chunk",
        "tool/call",
        "tool/result",
        "turn/start",
        "user/message",
        "session/title",
        "llm/retry",
        "later",
    ];
    let events: Vec<String> = kinds.iter().map(|kind| event(kind)).collect();
    assert_eq!(said_after(&claimed(), &events), Vec::<String>::new());
}

#[test]
fn row_41_what_nobody_prompted_is_shown_as_such() {
    // A-57: with and without a prompt in flight.
    let said = said_after(
        &claimed(),
        &[
            turn_ends(1, r#"{"kind":"completed"}"#),
            turn_claims(2, "job"),
            message(2, "a2", r#"[{"type":"text","text":"meanwhile"}]"#),
            turn_ends(2, r#"{"kind":"completed"}"#),
            status("idle"),
            status("running"),
            turn_claims(3, "job2"),
            message(3, "a3", r#"[{"type":"text","text":"late"}]"#),
            turn_ends(3, r#"{"kind":"completed"}"#),
            status("idle"),
        ],
    );
    assert_eq!(
        said,
        [
            chunk("a2", "meanwhile", 2, "autonomous"),
            stopped("7", "end_turn"),
            chunk("a3", "late", 3, "autonomous")
        ]
    );
}

#[test]
fn a_56_sessions_of_others_are_not_shown() {
    let foreign =
        message(1, "a1", r#"[{"type":"text","text":"x"}]"#).replace("session=s", "session=child");
    assert_eq!(said_after(&claimed(), &[foreign]), Vec::<String>::new());
}
