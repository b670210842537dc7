//! An attempt can be stopped wherever it stands: it finishes as aborted, and the server sees the
//! connection close (L-93, row 26 of the checklist).

use crate::{
    wire::{Act, Told, Wire},
    *,
};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn aborted() -> Value {
    json!({"type": "finish", "reason": {"kind": "aborted", "failure": {
        "message": "the model call was stopped", "code": "ABORTED",
    }}})
}

fn after_head(bytes: &[u8]) -> Act {
    Act::Write([HEAD, bytes].concat())
}

#[test]
fn an_attempt_is_stopped_at_any_stage() {
    let hi = event(&delta(json!({"content": "hi"})).to_string());
    let Piece::Write(hi) = hi else { panic!("an event is a write") };
    let refusal = b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\n{\"error\":".to_vec();
    let stages: Vec<(&str, Vec<Act>)> = vec![
        ("before the request is read", vec![]),
        ("before the response", vec![Act::Hear]),
        ("within the head", vec![Act::Hear, Act::Write(HEAD[..30].to_vec())]),
        ("behind the head", vec![Act::Hear, after_head(b"")]),
        ("within an event", vec![Act::Hear, after_head(&hi[..hi.len() - 9])]),
        ("behind an event", vec![Act::Hear, after_head(&hi)]),
        ("within the body of a refusal", vec![Act::Hear, Act::Write(refusal)]),
    ];
    let wire = Wire::start(Settings::default());
    for (stage, mut script) in stages {
        script.extend([Act::Reached, Act::Gone]);
        let attempt = wire.begin(script);
        wire.wait(&Told::Reached);
        attempt.stop.stop();
        assert_eq!(attempt.all().pop().unwrap(), aborted(), "{stage}");
        wire.wait(&Told::Gone);
    }
}

#[test]
fn an_attempt_is_stopped_within_the_handshake() {
    let wire = Wire::speaking("https", Settings::default());
    let attempt = wire.begin(vec![Act::Glance, Act::Reached, Act::Gone]);
    wire.wait(&Told::Reached);
    attempt.stop.stop();
    assert_eq!(attempt.all(), [aborted()]);
    wire.wait(&Told::Gone);
}

/// A server that never pauses does not keep a stop from being heard.
#[test]
fn an_attempt_is_stopped_under_a_flood() {
    let nothing = event(&delta(json!({})).to_string());
    let Piece::Write(nothing) = nothing else { panic!("an event is a write") };
    let wire = Wire::start(Settings::default());
    for bytes in [&b"\n"[..], b"\r", b":\n", b"id: 1\n\n", b"event: x\n", &nothing] {
        let flood = Act::Flood(bytes.repeat(1000));
        let attempt = wire.begin(vec![Act::Hear, after_head(b""), Act::Reached, flood]);
        wire.wait(&Told::Reached);
        attempt.stop.stop();
        assert_eq!(attempt.all(), [aborted()], "{:?}", String::from_utf8_lossy(bytes));
        wire.wait(&Told::Gone);
    }
}

/// Nothing is begun for an attempt that is stopped before it had a chance.
#[test]
fn an_attempt_is_stopped_before_it_begins() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = ModelServer::start();
    let base = server.base_url();
    let provider = DeepSeek::new(move || endpoint(&base, KEY), Settings::default());
    let providers = Providers::new(runtime.handle().clone()).with(ID, provider);
    let attempt = begin(&providers, request(&providers, "hi"));
    attempt.stop.stop();
    // Nothing has run so far: this runtime runs only here.
    let first = runtime.block_on(async {
        loop {
            tokio::task::yield_now().await;
            if let Ok(chunk) = attempt.chunks.try_recv() {
                return chunk;
            }
        }
    });
    assert_eq!(serde_json::to_value(first).unwrap(), aborted());
    assert!(server.requests().is_empty());
}

/// The end is the end: what the server does behind it is not waited for, and a stop changes nothing.
#[test]
fn a_finished_attempt_leaves_the_server() {
    let wire = Wire::start(Settings::default());
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n";
    for behind in ["", "data: [DONE]\n\n", "data: {oops\n\n", ": more\n"] {
        let body = format!("{events}{behind}");
        let attempt = wire.begin(vec![Act::Hear, after_head(body.as_bytes()), Act::Gone]);
        let Attempt { stop, chunks } = attempt;
        let told: Vec<Value> =
            chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap()).collect();
        stop.stop();
        let expected = [start(0, "text"), text(0, "hi"), end_text(0, "hi"), finished("stop")];
        assert_eq!(told, expected, "{behind}");
        wire.wait(&Told::Gone);
    }
}
