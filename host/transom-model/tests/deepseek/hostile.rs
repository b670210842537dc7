//! Servers that break HTTP, the event stream or the API, by mistake or on purpose: a code each, bounded
//! memory, and a key that stays where it belongs (L-86 to L-94).

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{
    wire::{Act, Told, Wire},
    *,
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const HI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn hi() -> [Value; 4] {
    [start(0, "text"), text(0, "hi"), end_text(0, "hi"), finished("stop")]
}

fn payload(payload: &str) -> String {
    format!("{HEAD}{HI}data: {payload}\n\n{DONE}")
}

/// L-93: no response, or none that HTTP knows, is a failure of the transport.
#[test]
fn what_is_no_response_is_a_transport_failure() {
    let wire = Wire::start(Settings::default());
    let many = "x-y: z\r\n".repeat(200);
    let long = "z".repeat(1 << 20);
    let table = [
        ("nothing", String::new()),
        ("noise", "\u{0}\u{1}\u{2}\r\n\r\n".to_owned()),
        ("another protocol", "220 mail ready\r\n\r\n".to_owned()),
        ("another version", "HTTP/2 200\r\n\r\n".to_owned()),
        ("no status", "HTTP/1.1 OK\r\n\r\n".to_owned()),
        ("a broken header", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_owned()),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        ),
        ("a length below zero", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nab".to_owned()),
        ("too many headers", format!("HTTP/1.1 200 OK\r\n{many}\r\n{HI}{DONE}")),
        ("a header too long", format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n{HI}{DONE}")),
        ("a head without end", format!("HTTP/1.1 200 {long}")),
    ];
    for (what, bytes) in table {
        let message = format!("DeepSeek API request to {} failed", wire.base);
        let expected = json!({"code": "TRANSPORT", "message": message});
        assert_eq!(wire.failure_of(bytes), expected, "{what}");
    }
}

/// L-93: a plain port does not speak TLS, nor the other way round.
#[test]
fn tls_and_plain_do_not_meet() {
    let secure = Wire::speaking("https", Settings::default());
    for reply in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
        let chunks = secure.ask(vec![Act::Glance, Act::Write(reply.into())]);
        let message = format!("DeepSeek API request to {} failed", secure.base);
        assert_eq!(
            chunks[0]["reason"]["failure"],
            json!({"code": "TRANSPORT", "message": message})
        );
    }
    // An alert of TLS, in place of a response.
    let plain = Wire::start(Settings::default());
    assert_eq!(plain.failure_of([0x15, 3, 3, 0, 2, 2, 70])["code"], "TRANSPORT");
}

/// L-91, L-93: whatever HTTP lets a body look like.
#[test]
fn bodies_of_any_form_are_read_or_refused() {
    let chunk = |text: &str| format!("{:X}\r\n{text}\r\n", text.len());
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let with = |head: &str| format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{HI}{DONE}");
    let wire = Wire::start(Settings::default());
    let readable = [
        ("HTTP/1.0", format!("HTTP/1.0 200 OK\r\n\r\n{HI}{DONE}")),
        ("no content type", with("x: y")),
        ("another content type", with("content-type: text/html")),
        ("the encoding that is none", with("content-encoding: Identity")),
        (
            "interim responses",
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\n{HEAD}{HI}{DONE}"
            ),
        ),
        ("a status of its own", format!("HTTP/1.1 299 Fine\r\n\r\n{HI}{DONE}")),
        (
            "garbage behind the last chunk",
            format!("{chunked}{}0\r\n\r\nHTTP/1.1 500 No\r\n\r\n", chunk(&format!("{HI}{DONE}"))),
        ),
    ];
    for (what, bytes) in readable {
        assert_eq!(wire.ask(vec![Act::Hear, Act::Write(bytes.into())]), hi(), "{what}");
    }
    let broken = format!("DeepSeek API stream from {} failed", wire.base);
    let closed = "SSE stream ended without [DONE]".to_owned();
    let unread = |encoding: &str| {
        format!("the response has the content encoding \"{encoding}\", which was not asked for")
    };
    let table = [
        (
            "no body",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "EMPTY_RESPONSE",
            "DeepSeek API response has no body".to_owned(),
        ),
        ("an empty body", HEAD.to_owned(), "STREAM_CLOSED", closed.clone()),
        ("an empty chunked body", format!("{chunked}0\r\n\r\n"), "STREAM_CLOSED", closed.clone()),
        (
            "a page",
            format!("{HEAD}<!doctype html>\n<p>Welcome</p>\n\n"),
            "STREAM_CLOSED",
            closed.clone(),
        ),
        ("a length too short", with("content-length: 60"), "STREAM_CLOSED", closed),
        (
            "a length too long",
            format!("HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{HI}"),
            "TRANSPORT",
            broken.clone(),
        ),
        ("a chunk of no size", format!("{chunked}xyz\r\n{HI}\r\n"), "TRANSPORT", broken.clone()),
        (
            "a chunk of any size",
            format!("{chunked}fffffffffffffffff\r\n{HI}"),
            "TRANSPORT",
            broken.clone(),
        ),
        ("a chunk without its end", format!("{chunked}5\r\n{HI}{DONE}"), "TRANSPORT", broken),
        ("gzip", with("content-encoding: gzip"), "MALFORMED_RESPONSE", unread("gzip")),
        (
            "two encodings",
            with("content-encoding: gzip, br"),
            "MALFORMED_RESPONSE",
            unread("gzip, br"),
        ),
    ];
    for (what, bytes, code, message) in table {
        assert_eq!(wire.failure_of(bytes), json!({"code": code, "message": message}), "{what}");
    }
}

/// L-93: a refusal needs no body that can be read.
#[test]
fn refusals_of_any_form_have_a_code() {
    let said = |body: &str| format!("content-length: {}\r\n\r\n{body}", body.len());
    let error = r#"{"error":{"message":"m"}}"#;
    let page = "<html>\n<h1>502 Bad Gateway</h1>";
    let wire = Wire::start(Settings::default());
    let table = [
        ("502", said(page), "SERVER", "DeepSeek API error (HTTP 502)", 502),
        ("429", said(page), "RATE_LIMIT", "DeepSeek API error (HTTP 429)", 429),
        ("400", said("[1]"), "INVALID_REQUEST", "DeepSeek API error (HTTP 400)", 400),
        ("500", said(r#""error""#), "SERVER", "DeepSeek API error (HTTP 500)", 500),
        ("500", said(r#"{"error":[1]}"#), "SERVER", "DeepSeek API error (HTTP 500)", 500),
        ("500", said(&"[".repeat(5000)), "SERVER", "DeepSeek API error (HTTP 500)", 500),
        ("500", said(""), "SERVER", "DeepSeek API error (HTTP 500)", 500),
        (
            "401",
            format!("content-encoding: gzip\r\n{}", said("\u{1f}\u{8b}")),
            "AUTH",
            "DeepSeek API error (HTTP 401)",
            401,
        ),
        ("401", format!("www-authenticate: Basic\r\n{}", said(error)), "AUTH", "m", 401),
        ("500", format!("content-length: 999\r\n\r\n{error}"), "SERVER", "m", 500),
        ("407", said(error), "HTTP_407", "m", 407),
        ("304", "\r\n".to_owned(), "HTTP_304", "DeepSeek API error (HTTP 304)", 304),
        (
            "101",
            "connection: upgrade\r\nupgrade: x\r\n\r\n".to_owned(),
            "HTTP_101",
            "DeepSeek API error (HTTP 101)",
            101,
        ),
        ("999", said(error), "SERVER", "m", 999),
    ];
    for (status, rest, code, message, number) in table {
        let failure = wire.failure_of(format!("HTTP/1.1 {status} X\r\n{rest}"));
        let expected = json!({"code": code, "message": message, "status": number});
        assert_eq!(failure, expected, "{status} {rest}");
    }
}

/// L-93: a wait of any length, as the clients of the log can read it.
#[test]
fn any_wait_that_is_asked_for_is_passed_on() {
    let wire = Wire::start(Settings::default());
    for (value, expected) in [
        ("7", json!(7000)),
        ("99999999999999999999999", json!(9_007_199_254_740_991_u64)),
        ("-5", Value::Null),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Value::Null),
        ("\u{fc}", Value::Null),
        ("", Value::Null),
    ] {
        let head = format!("HTTP/1.1 429 X\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(wire.failure_of(head)["providerRetryAfterMs"], expected, "{value}");
    }
    let head =
        "HTTP/1.1 429 X\r\nretry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\ncontent-length: 0\r\n\r\n";
    // Thousands of years from whenever this runs.
    assert!(wire.failure_of(head)["providerRetryAfterMs"].as_u64().unwrap() > 1 << 47);
}

/// L-94: other types than the API's, and errors in place of choices, wherever in the stream.
#[test]
fn payloads_of_any_form_have_a_code() {
    let wire = Wire::start(Settings::default());
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let malformed = [
        "",
        "true",
        "\"text\"",
        "{} {}",
        "{\"choices\":",
        r#"{"choices":"none"}"#,
        r#"{"choices":[[]]}"#,
        r#"{"choices":[{"delta":[]}]}"#,
        r#"{"choices":[{"delta":{"content":["hi"]}}]}"#,
        r#"{"choices":[{"delta":{"content":{"text":"hi"}}}]}"#,
        r#"{"choices":[{"delta":{"content":7}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":"0"}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0.5}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":{}}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":{"a":1}}}]}}]}"#,
        r#"{"usage":1e999}"#,
        &deep,
    ];
    for data in malformed {
        let failure = wire.failure_of(payload(data));
        let start: String = data.chars().take(120).collect();
        let message = format!("malformed SSE payload: {start}");
        assert_eq!(failure, json!({"code": "MALFORMED_RESPONSE", "message": message}), "{data}");
    }
    let told = [
        (r#"{"error":"no"}"#, "SERVER", "no"),
        (r#"{"error":{}}"#, "SERVER", "DeepSeek API error in the stream"),
        (r#"{"error":7}"#, "SERVER", "DeepSeek API error in the stream"),
        (r#"{"choices":[],"error":{"message":"m","code":"insufficient_quota"}}"#, "QUOTA", "m"),
    ];
    for (data, code, message) in told {
        let failure = wire.failure_of(payload(data));
        assert_eq!(failure, json!({"code": code, "message": message}), "{data}");
    }
}

/// L-91, L-92: an order nobody expects is an answer all the same.
#[test]
fn odd_orders_are_read() {
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":5}}"#;
    let more = r#"{"choices":[{"delta":{"content":"!"}}]}"#;
    let data = |payloads: &[&str]| -> String {
        payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
    };
    let [begun, said, ended, stopped] = hi();
    let louder = [begun.clone(), said.clone(), text(0, "!"), end_text(0, "hi!"), stopped.clone()];
    let counted = [begun, said, ended, used(), stopped];
    let table: [(&str, String, &[Value]); 6] = [
        ("usage first", format!("{}{HI}{}", data(&[usage]), data(&[stop])), &counted),
        ("usage last", format!("{HI}{}", data(&[stop, usage])), &counted),
        ("usage twice", format!("{}{HI}{}", data(&[usage]), data(&[stop, usage])), &counted),
        ("no usage", format!("{HI}{}", data(&[stop])), &hi()),
        ("content behind the finish", format!("{HI}{}", data(&[stop, more])), &louder),
        ("two finishes", format!("{HI}{}", data(&[stop, stop])), &hi()),
    ];
    let wire = Wire::start(Settings::default());
    for (what, body, expected) in table {
        let bytes = format!("{HEAD}{body}{DONE}{DONE}data: {{oops\n\n").into();
        assert_eq!(wire.ask(vec![Act::Hear, Act::Write(bytes)]), expected, "{what}");
    }
}

/// Calls with one id would have results with one id, in the log and in every later request.
#[test]
fn calls_that_share_an_id_are_refused() {
    let calls = |first: &str, second: &str, reason: &str| {
        let entry = |index: u8, id: &str| {
            format!(r#"{{"index":{index},"id":{id},"function":{{"name":"f"}}}}"#)
        };
        let entries = [entry(0, first), entry(1, second)].join(",");
        payload(&format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{entries}]}},"finish_reason":"{reason}"}}]}}"#
        ))
    };
    let wire = Wire::start(Settings::default());
    for (first, second, id) in [("\"x\"", "\"x\"", "x"), ("\"call-2\"", "null", "call-2")] {
        for reason in ["tool_calls", "stop", "odd"] {
            let message = format!("two tool calls of the response have the id \"{id}\"");
            let expected = json!({"code": "MALFORMED_RESPONSE", "message": message});
            assert_eq!(wire.failure_of(calls(first, second, reason)), expected);
        }
        // The output cap drops all calls anyway (L-16).
        let bytes = calls(first, second, "length").into();
        let last = wire.ask(vec![Act::Hear, Act::Write(bytes)]).pop().unwrap();
        assert_eq!(last, finished("max-tokens"));
    }
    let bytes = calls("\"\"", "null", "tool_calls").into();
    let chunks = wire.ask(vec![Act::Hear, Act::Write(bytes)]);
    assert_eq!(chunks[7..9], [end_call(1, "call-1", "f", ""), end_call(2, "call-2", "f", "")]);
}

/// L-93: the connection is reset while the answer is under way.
#[test]
fn a_reset_is_a_transport_failure() {
    let wire = Wire::start(Settings::default());
    let attempt =
        wire.begin(vec![Act::Glance, Act::Write(format!("{HEAD}{HI}").into()), Act::Reached]);
    wire.wait(&Told::Reached);
    let last = attempt.all().pop().unwrap();
    assert_eq!(last["reason"]["failure"]["code"], "TRANSPORT", "{last}");
}

/// L-93: the idle time runs until the head is complete, however busy the server is before, and a body
/// that is no answer has that time in all.
#[test]
fn no_server_is_waited_for_without_end() {
    let timeout = json!({"code": "TIMEOUT", "message": "DeepSeek stream idle timeout after 40ms"});
    let slow = json!({"code": "SERVER", "message": "DeepSeek API error (HTTP 500)", "status": 500});
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let refusal = "HTTP/1.1 500 No\r\n\r\n";
    let table = vec![
        ("accepts and says nothing", vec![Act::Gone]),
        ("reads and says nothing", vec![Act::Hear, Act::Gone]),
        ("stops within the head", vec![Act::Hear, Act::Write("HTTP/1.1 2".into()), Act::Gone]),
        (
            "drips the head",
            vec![Act::Hear, Act::Write("HTTP/1.1 200 ".into()), Act::Drip("K".into())],
        ),
        ("promises a response", vec![Act::Hear, Act::Drip(interim.into())]),
        ("says nothing behind the head", vec![Act::Hear, Act::Write(HEAD.into()), Act::Gone]),
        (
            "stops within a chunk",
            vec![Act::Hear, Act::Write(format!("{HEAD}{HI}data: {{").into()), Act::Gone],
        ),
    ];
    let wire = Wire::start(Settings { idle_ms_max: 40, ..Settings::default() });
    for (what, script) in table {
        let last = wire.ask(script).pop().unwrap();
        assert_eq!(last["reason"]["failure"], timeout, "{what}");
        wire.wait(&Told::Gone);
    }
    // Time enough for the head even on a busy machine, or there would be no refusal.
    let refusals = [
        vec![Act::Hear, Act::Write(refusal.into()), Act::Gone],
        vec![Act::Hear, Act::Write(refusal.into()), Act::Drip(" ".into())],
    ];
    let wire = Wire::start(Settings { idle_ms_max: 500, ..Settings::default() });
    for script in refusals {
        let last = wire.ask(script).pop().unwrap();
        assert_eq!(last["reason"]["failure"], slow);
        wire.wait(&Told::Gone);
    }
    let secure = Wire::speaking("https", Settings { idle_ms_max: 40, ..Settings::default() });
    let last = secure.ask(vec![Act::Gone]).pop().unwrap();
    assert_eq!(last["reason"]["failure"], timeout);
    secure.wait(&Told::Gone);
}

/// Whatever a server sends without end, reasoning above all, costs so much memory and no more.
#[test]
fn an_answer_without_end_is_cut() {
    let delta = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let id = format!(
        r#"{{"tool_calls":[{{"index":0,"id":"{}"}},{}]}}"#,
        "i".repeat(5000),
        vec![r#"{"index":0}"#; 1000].join(","),
    );
    let table = [
        ("reasoning", delta(r#"{"reasoning_content":"hm "}"#)),
        ("text", delta(r#"{"content":"hm "}"#)),
        ("arguments", delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}"#)),
        // These add no text at all, and every one is a chunk.
        ("empty fragments", delta(r#"{"tool_calls":[{"index":0}]}"#)),
        // Each chunk repeats the id.
        ("a long id", delta(&id)),
    ];
    let settings = Settings { answer_bytes_max: 100_000, ..Settings::default() };
    let wire = Wire::start(settings);
    for (what, event) in table {
        let chunks = wire.ask(vec![Act::Hear, Act::Write(HEAD.into()), Act::Flood(event.into())]);
        let bytes: usize = chunks.iter().map(|chunk| chunk.to_string().len()).sum();
        assert!(bytes < 400_000, "{what}: {bytes} bytes of chunks");
        let message = "the answer of the response has more than 100000 bytes";
        let failure = json!({"code": "MALFORMED_RESPONSE", "message": message});
        assert_eq!(chunks.last().unwrap()["reason"]["failure"], failure, "{what}");
        wire.wait(&Told::Gone);
    }
}

/// Structure costs more memory than its text, so it has bounds of its own.
#[test]
fn an_event_of_countless_parts_is_refused() {
    let wire = Wire::start(Settings::default());
    let values = |values: &str| payload(&format!("{{\"x\":[0{values}]}}"));
    let failure = wire.failure_of(values(&",0".repeat(65_536)));
    let message = "one event of the response has more than 65536 values";
    assert_eq!(failure, json!({"code": "MALFORMED_RESPONSE", "message": message}));
    let bytes = values(&",0".repeat(60_000)).into();
    assert_eq!(wire.ask(vec![Act::Hear, Act::Write(bytes)]), hi());
    // What stands in a string is text.
    let bytes = values(&format!(",\"\\\"{}\"", "[,{".repeat(60_000))).into();
    assert_eq!(wire.ask(vec![Act::Hear, Act::Write(bytes)]), hi());

    let entries: Vec<String> = (0..1025).map(|index| format!("{{\"index\":{index}}}")).collect();
    let calls = |count: usize| {
        payload(&format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#,
            entries[..count].join(",")
        ))
    };
    let message = "the answer of the response has more than 1024 tool calls";
    let failure = wire.failure_of(calls(1025));
    assert_eq!(failure, json!({"code": "MALFORMED_RESPONSE", "message": message}));
    let chunks = wire.ask(vec![Act::Hear, Act::Write(calls(1024).into())]);
    assert_eq!(chunks.last().unwrap(), &finished("stop"));
}

/// Millions of lines that say nothing cost their length once, and so does an id that every event has.
#[test]
fn idle_talk_costs_its_length_once() {
    let wire = Wire::start(Settings::default());
    let id = format!("id: {}\n", "i".repeat(1 << 20));
    let events = "data: {}\n\n".repeat(20_000);
    for talk in ["\n".repeat(4 << 20), ":\r\n".repeat(1 << 20), format!("{id}{events}")] {
        let bytes = format!("{HEAD}{talk}{HI}{DONE}").into();
        assert_eq!(wire.ask(vec![Act::Hear, Act::Write(bytes)]), hi());
    }
}

/// The key is in no failure and in no log, whatever the server does with it.
#[test]
fn a_key_that_is_sent_back_is_shown_nowhere() {
    let half = &KEY[..10];
    let refusal = |body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 400 {KEY}\r\nx-request-id: {KEY}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let filler = "x".repeat(110);
    let replies = [
        KEY.to_owned(),
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {KEY}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{KEY}\r\n"),
        format!("HTTP/1.1 302 No\r\nlocation: http://{KEY}/\r\ncontent-length: 0\r\n\r\n"),
        format!("HTTP/1.1 429 X\r\nretry-after: {KEY}\r\ncontent-length: 0\r\n\r\n"),
        refusal(&json!({"error": {"message": format!("bad key {KEY}")}}).to_string()),
        refusal(&json!({"error": {"message": format!("{}{KEY}", "y".repeat(4090))}}).to_string()),
        refusal(&json!({"error": KEY}).to_string()),
        payload(KEY),
        payload(&format!("{filler}{KEY}")),
        payload(&json!({"error": {"message": KEY, "code": KEY, "type": KEY}}).to_string()),
        payload(&format!(r#"{{"choices":[{{"finish_reason":"{KEY}"}}]}}"#)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wire = Wire::start(Settings::default());
    let base = wire.base.clone();
    let provider = DeepSeek::new(move || endpoint(&base, KEY), Settings::default());
    let providers = Providers::new(runtime.handle().clone()).with(ID, provider);
    let log = Log::default();
    let lines = Arc::clone(&log.0);
    tracing::subscriber::with_default(log, || {
        for reply in replies {
            wire.script(vec![Act::Hear, Act::Write(reply.clone().into())]);
            let (sender, mut chunks) = tokio::sync::mpsc::channel(64);
            let sink = Box::new(move |chunk| sender.try_send(chunk).unwrap());
            let _stop = providers.call(request(&providers, "hi"), sink);
            let mut last = None;
            runtime.block_on(async {
                while let Some(chunk) = chunks.recv().await {
                    last = Some(chunk);
                }
            });
            let last = serde_json::to_string(&last).unwrap();
            assert!(last.contains("\"error\""), "{last}");
            assert!(!last.to_lowercase().contains(half), "{reply}: {last}");
        }
    });
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("model request failed")), "{lines:?}");
    for line in lines.iter() {
        assert!(!line.contains(half), "{line}");
    }
}

/// Every event with its fields, as text.
#[derive(Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}
