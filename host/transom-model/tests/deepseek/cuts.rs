//! An answer that is cut: into segments it is the same answer, and cut off it ends with a code (L-91 to
//! L-93). What else a server can do is in `hostile`.

use proptest::{prelude::*, test_runner::TestRunner};

use crate::{
    wire::{Act, Wire},
    *,
};

/// How a body says where it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Framing {
    Chunked,
    Length,
    /// HTTP/1.0: with the connection.
    Close,
}

use Framing::{Chunked, Close, Length};

/// Reasoning, text of several bytes a character, two calls, usage; every kind of line end, a comment.
fn events() -> Vec<String> {
    let call = |entry: Value| json!({"choices": [{"delta": {"tool_calls": [entry]}}]});
    let payloads = [
        json!({"choices": [{"delta": {"role": "assistant", "content": "", "reasoning_content": "r\u{e9}"}}]}),
        json!({"choices": [{"delta": {"content": "你"}}]}),
        json!({"choices": [{"delta": {"content": "🦀\n"}}]}),
        call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
        call(json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "not"}})),
        call(json!({"index": 0, "function": {"arguments": "{\"x\":1}"}})),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 5}}),
    ];
    let ends = ["\n", "\r\n", "\r"];
    let mut events: Vec<String> = payloads
        .iter()
        .zip(ends.iter().cycle())
        .map(|(payload, end)| format!("data: {payload}{end}{end}"))
        .collect();
    events.insert(2, ": still here\n\n".to_owned());
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn whole() -> Vec<Value> {
    vec![
        start(0, "reasoning"),
        json!({"type": "reasoning-delta", "index": 0, "text": "ré"}),
        start(1, "text"),
        text(1, "你"),
        text(1, "🦀\n"),
        start(2, "tool-call"),
        call(2, "a", "f", ""),
        start(3, "tool-call"),
        call(3, "b", "g", "not"),
        call(2, "a", "f", "{\"x\":1}"),
        end(0, json!({"type": "reasoning", "text": "ré"})),
        end_text(1, "你🦀\n"),
        end_call(2, "a", "f", "{\"x\":1}"),
        end_call(3, "b", "g", "not"),
        used(),
        finished("tool-calls"),
    ]
}

/// A whole response.
fn response(framing: Framing) -> Vec<u8> {
    let events = events();
    let head = "content-type: text/event-stream\r\nconnection: close\r\n";
    let body = events.concat();
    let text = match framing {
        Chunked => {
            let chunks: String = events
                .iter()
                .map(|event| format!("{:x};why=not\r\n{event}\r\n", event.len()))
                .collect();
            format!(
                "HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\nt: x\r\n\r\n"
            )
        }
        Length => format!("HTTP/1.1 200 OK\r\n{head}content-length: {}\r\n\r\n{body}", body.len()),
        Close => format!("HTTP/1.0 200 OK\r\n{head}\r\n{body}"),
    };
    text.into_bytes()
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

/// For each event, how many bytes of the response complete it.
fn completions(response: &[u8]) -> Vec<usize> {
    let mut from = 0;
    let complete = |event: String| {
        from += position(&response[from..], event.as_bytes());
        // The line feed behind the last return tells nothing new.
        from + event.len() - usize::from(event.ends_with("\r\n"))
    };
    events().into_iter().map(complete).collect()
}

/// How many chunks each event adds before the last, which adds the rest.
const CHUNKS: [usize; 8] = [2, 2, 0, 1, 2, 2, 1, 0];

/// L-93: wherever the connection ends there is an end with a code; what came before stands.
#[test]
fn an_answer_cut_off_at_any_byte_ends_with_a_code() {
    let wire = Wire::start(Settings::default());
    let failure = |code: &str, message: &str| json!({"code": code, "message": message});
    let request = failure("TRANSPORT", &format!("DeepSeek API request to {} failed", wire.base));
    let stream = failure("TRANSPORT", &format!("DeepSeek API stream from {} failed", wire.base));
    let closed = failure("STREAM_CLOSED", "SSE stream ended without [DONE]");
    let whole = whole();
    for framing in [Chunked, Length, Close] {
        let response = response(framing);
        let head = position(&response, b"\r\n\r\n") + 4;
        let completions = completions(&response);
        for cut in 0..=response.len() {
            let sent = response[..cut].to_vec();
            let mut chunks = wire.ask(vec![Act::Hear, Act::Write(sent)]);
            let complete = completions.iter().filter(|end| **end <= cut).count();
            if complete == completions.len() {
                assert_eq!(chunks, whole, "{framing:?} cut at {cut}");
                continue;
            }
            let expected = match framing {
                _ if cut < head => &request,
                Close => &closed,
                Chunked | Length => &stream,
            };
            let last = chunks.pop().unwrap();
            assert_eq!(&last["reason"]["failure"], expected, "{framing:?} cut at {cut}");
            let count = CHUNKS[..complete].iter().sum();
            assert_eq!(chunks, whole[..count], "{framing:?} cut at {cut}");
        }
    }
}

#[test]
fn an_answer_in_single_bytes_is_the_same_answer() {
    let wire = Wire::start(Settings::default());
    for framing in [Chunked, Length, Close] {
        let chunks = wire.ask(vec![Act::Hear, Act::Bytes(response(framing))]);
        assert_eq!(chunks, whole(), "{framing:?}");
    }
}

/// However the bytes of a response are divided among writes, the chunks are the same.
#[test]
fn an_answer_in_any_segments_is_the_same_answer() {
    let wire = Wire::start(Settings::default());
    let whole = whole();
    let split = (
        prop_oneof![Just(Chunked), Just(Length), Just(Close)],
        proptest::collection::vec(0_usize..2000, 0..40),
    );
    let config =
        ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    runner
        .run(&split, |(framing, mut cuts)| {
            let mut rest = response(framing);
            cuts.sort_unstable();
            cuts.dedup();
            let mut script = Vec::new();
            for cut in cuts.into_iter().rev().filter(|cut| *cut < response(framing).len()) {
                script.push(Act::Write(rest.split_off(cut)));
            }
            script.extend([Act::Write(rest), Act::Hear]);
            script.reverse();
            prop_assert_eq!(wire.ask(script), whole.clone());
            Ok(())
        })
        .unwrap();
}
