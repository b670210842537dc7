//! Answers, however oddly they arrive (L-91, L-92).

use crate::*;

/// Rows 2, 15, 18 and 19 of the checklist; the chunks are those of the recordings.
#[test]
fn answers_become_the_recorded_chunks() {
    let bash = r#"{"command": "echo tool-proof", "description": "Echo a proof line"}"#;
    let child = r#"{"description": "Child task", "prompt": "PROMPT: child PLAIN"}"#;
    let table = [
        (
            "PLAIN",
            vec![
                start(0, "text"),
                text(0, "plain "),
                text(0, "answer"),
                end_text(0, "plain answer"),
                used(),
                finished("stop"),
            ],
        ),
        (
            "THINK",
            vec![
                start(0, "reasoning"),
                json!({"type": "reasoning-delta", "index": 0, "text": "let me "}),
                json!({"type": "reasoning-delta", "index": 0, "text": "think"}),
                start(1, "text"),
                text(1, "answer"),
                end(0, json!({"type": "reasoning", "text": "let me think"})),
                end_text(1, "answer"),
                used(),
                finished("stop"),
            ],
        ),
        (
            "UTF8 你好 🦀",
            vec![
                start(0, "text"),
                text(0, "你好 "),
                text(0, "🦀\u{2028}end"),
                end_text(0, "你好 🦀\u{2028}end"),
                used(),
                finished("stop"),
            ],
        ),
        (
            "TOOL",
            vec![
                start(0, "tool-call"),
                call(0, "call_mock_1", "bash", ""),
                call(0, "call_mock_1", "bash", r#"{"command": "echo tool-proof", "d"#),
                call(0, "call_mock_1", "bash", r#"escription": "Echo a proof line"}"#),
                end_call(0, "call_mock_1", "bash", bash),
                used(),
                finished("tool-calls"),
            ],
        ),
        (
            "SUBAGENT",
            vec![
                start(0, "tool-call"),
                call(0, "call_mock_sub", "subagent", child),
                end_call(0, "call_mock_sub", "subagent", child),
                used(),
                finished("tool-calls"),
            ],
        ),
        (
            "NOSUCH",
            vec![
                start(0, "tool-call"),
                call(0, "call_mock_x", "no_such_tool", r#"{"a":1}"#),
                end_call(0, "call_mock_x", "no_such_tool", r#"{"a":1}"#),
                used(),
                finished("tool-calls"),
            ],
        ),
        (
            "MAXTOK",
            vec![
                start(0, "text"),
                text(0, "cut of"),
                end_text(0, "cut of"),
                used(),
                finished("max-tokens"),
            ],
        ),
    ];
    let bench = Bench::new();
    for (word, expected) in table {
        assert_eq!(bench.ask(&format!("PROMPT: {word}")), expected, "{word}");
    }
}

/// After a tool result the mock answers as in the recording, whatever context follows the prompt.
#[test]
fn the_second_step_follows_the_tool_result() {
    let bench = Bench::new();
    let mut request = bench.request("PROMPT: TOOL");
    let context = Source::Plugin { plugin: "p".into(), form: None, sections: None, summary: None };
    let result = Block::ToolResult {
        tool_call_id: "call_mock_1".into(),
        content: vec![Block::text("tool-proof\n")],
        is_error: false,
    };
    request.messages.extend([
        message(Role::User, context, vec![Block::text("context")]),
        message(
            Role::Assistant,
            Source::Model {
                provider: ID.into(),
                model: "deepseek-v4-flash".into(),
                partial: false,
            },
            vec![Block::ToolCall {
                id: "call_mock_1".into(),
                name: "bash".into(),
                arguments: "{}".into(),
            }],
        ),
        message(Role::User, Source::Tool { call_id: "call_mock_1".into() }, vec![result]),
    ]);
    let chunks = bench.begin(request).all();
    assert_eq!(chunks[3], end_text(0, "tool said: tool-proof"));
}

/// L-91: what the event-stream format allows, however it is cut.
#[test]
fn unusual_streams_are_read_all_the_same() {
    let hi = delta(json!({"content": "hi"}));
    let stop = finish("stop");
    let whole = [start(0, "text"), text(0, "hi"), end_text(0, "hi"), finished("stop")];
    let table = [
        ("CRLF", format!("data: {hi}\r\n\r\ndata: {stop}\r\n\r\ndata: [DONE]\r\n\r\n")),
        ("CR", format!("data: {hi}\r\rdata: {stop}\r\rdata: [DONE]\r\r")),
        ("a byte-order mark", format!("\u{feff}data: {hi}\n\ndata: {stop}\n\ndata: [DONE]\n\n")),
        (
            "two byte-order marks",
            format!("\u{feff}\u{feff}data: {hi}\n\ndata: {stop}\n\ndata: [DONE]\n\n"),
        ),
        ("no blank after the colon", format!("data:{hi}\n\ndata:{stop}\n\ndata:[DONE]\n\n")),
        (
            "comments and other fields",
            format!(
                ": keep-alive\n\nid: 1\nevent: x\nretry: 5\ndata: {hi}\n\n:\n\ndata: {stop}\n\ndata: [DONE]\n\n"
            ),
        ),
        (
            "one payload over several data lines",
            format!(
                "data: {{\ndata: \"choices\":\ndata: [{{\"delta\":{{\"content\":\"hi\"}}}}]}}\n\ndata: {stop}\n\ndata: [DONE]\n\n"
            ),
        ),
        (
            "bytes behind the end",
            format!("data: {hi}\n\ndata: {stop}\n\ndata: [DONE]\n\ndata: {{oops\n\n"),
        ),
        ("no finish reason", format!("data: {hi}\n\ndata: [DONE]\n\n")),
        (
            "an empty finish reason",
            format!(
                "data: {hi}\n\ndata: {{\"choices\":[{{\"finish_reason\":\"\"}}]}}\n\ndata: [DONE]\n\n"
            ),
        ),
        (
            "unknown members",
            format!(
                "data: {{\"x\":1,\"error\":null,\"usage\":null}}\n\ndata: {hi}\n\ndata: [DONE]\n\n"
            ),
        ),
    ];
    let bench = Bench::new();
    for (what, body) in table {
        bench.server.on("OWN", Reply::raw(&body));
        assert_eq!(bench.ask("PROMPT: OWN"), whole, "{what}, in one write");
        let bytes = body.bytes().map(|byte| Piece::Write(vec![byte])).collect();
        bench.server.on("OWN", Reply::pieces(bytes));
        assert_eq!(bench.ask("PROMPT: OWN"), whole, "{what}, byte by byte");
    }
}

/// Attempts share one client, and many may run at once.
#[test]
fn attempts_run_side_by_side() {
    let bench = Bench::new();
    let slow = bench.begin(bench.request("PROMPT: SLOW"));
    slow.next();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| order.lock().unwrap().push(bench.ask("PROMPT: PLAIN").len()));
        }
    });
    assert_eq!(*order.lock().unwrap(), [6; 8]);
    slow.stop.stop();
    assert_eq!(slow.all().pop().unwrap()["reason"]["kind"], "aborted");
}
