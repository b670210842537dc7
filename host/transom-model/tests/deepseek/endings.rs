//! Silence, stops and bounds.

use crate::*;

/// L-93: the idle time covers the wait for the head and the silence within the body.
#[test]
fn a_silent_server_is_given_up() {
    let bench = Bench::with(Settings { idle_ms_max: 40, ..Settings::default() });
    let hi = event(&delta(json!({"content": "hi"})).to_string());
    for pieces in [vec![Piece::Silence], vec![hi, Piece::Silence]] {
        let failure = bench.failure_of(Reply::pieces(pieces));
        assert_eq!(
            failure,
            json!({"message": "DeepSeek stream idle timeout after 40ms", "code": "TIMEOUT"})
        );
    }
    bench.server.wait_abandoned(2);
}

/// L-93, row 26 of the checklist: a stopped attempt ends at once, and the server notices.
#[test]
fn a_stopped_attempt_finishes_as_aborted() {
    let aborted = json!({"type": "finish", "reason": {"kind": "aborted", "failure": {
        "message": "the model call was stopped", "code": "ABORTED",
    }}});
    let bench = Bench::new();
    let attempt = bench.begin(bench.request("PROMPT: SLOW"));
    assert_eq!(attempt.next(), start(0, "text"));
    assert_eq!(attempt.next(), text(0, "tick0 "));
    attempt.stop.stop();
    attempt.stop.stop();
    assert_eq!(attempt.all().pop().unwrap(), aborted);
    bench.server.wait_abandoned(1);

    bench.server.on("OWN", Reply::pieces(vec![Piece::Silence]));
    let attempt = bench.begin(bench.request("PROMPT: OWN"));
    bench.server.wait_requests(2);
    attempt.stop.stop();
    assert_eq!(attempt.all(), [aborted]);
    bench.server.wait_abandoned(2);
}

/// Dropping the handle stops nothing, and the loop's wait ends even where the runtime does not
/// finish the attempt.
#[test]
fn an_attempt_outlives_its_handle_and_not_its_runtime() {
    let bench = Bench::new();
    let Attempt { stop, chunks } = bench.begin(bench.request("PROMPT: SLOW"));
    drop(stop);
    for _ in 0..3 {
        chunks.recv_timeout(PATIENCE).unwrap();
    }
    drop(bench);
    let last = chunks.iter().last().unwrap();
    assert!(matches!(last, Chunk::Finish { .. }), "{last:?}");
}

/// Whatever a server sends without end, it is noticed.
#[test]
fn boundless_replies_are_cut() {
    let settings =
        Settings { event_bytes_max: 4096, answer_bytes_max: 10_000, ..Settings::default() };
    let bench = Bench::with(settings);
    let flood = |bytes: &str| Reply::pieces(vec![Piece::Flood(bytes.as_bytes().to_vec())]);
    let one = event(&delta(json!({"content": "0123456789"})).to_string());
    let Piece::Write(one) = one else { panic!("an event is a write") };
    let calls = (0..200).map(|index| delta(json!({"tool_calls": [{"index": index}]})).to_string());
    let calls: Vec<Piece> = calls.map(|payload| event(&payload)).collect();
    let table = [
        ("a line", flood("xxxxxxxxxxxxxxxx"), "one event of the response has more than 4096 bytes"),
        (
            "a comment",
            flood(": xxxxxxxxxxxxx"),
            "one event of the response has more than 4096 bytes",
        ),
        ("an event", flood("data: xxxx\n"), "one event of the response has more than 4096 bytes"),
        (
            "an event of CRLF",
            flood("data: xxxx\r\n"),
            "one event of the response has more than 4096 bytes",
        ),
        (
            "text",
            Reply::pieces(vec![Piece::Flood(one)]),
            "the answer of the response has more than 10000 bytes",
        ),
        ("calls", Reply::pieces(calls), "the answer of the response has more than 10000 bytes"),
    ];
    for (what, reply, message) in table {
        let failure = bench.failure_of(reply);
        assert_eq!(failure, json!({"message": message, "code": "MALFORMED_RESPONSE"}), "{what}");
    }
    let refusal =
        Reply { status: 500, headers: vec![], pieces: vec![Piece::Flood(vec![b'x'; 1000])] };
    assert_eq!(bench.failure_of(refusal)["message"], "DeepSeek API error (HTTP 500)");
}

/// Comments cost nothing, so a server may keep a connection alive with them for ever.
#[test]
fn comments_do_not_add_up() {
    let bench = Bench::with(Settings { event_bytes_max: 256, ..Settings::default() });
    let mut body = ": a comment of some length\n".repeat(1000);
    body.push_str("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n");
    bench.server.on("OWN", Reply::raw(&body));
    assert_eq!(bench.ask("PROMPT: OWN").pop().unwrap(), finished("stop"));
}
