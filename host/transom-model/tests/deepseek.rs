//! `deepseek-official` against a server on the loopback: what is sent, what comes of every reply
//! (L-86 to L-94), and what a peer cannot do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../tests/support/model_server.rs"]
mod model_server;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    chunk::Chunk,
    message::{Message, Role, Source},
    ports::{ModelRequest, Models, Route, Stop, ToolSpec},
};
use transom_model::{
    DeepSeek, Providers,
    deepseek::{Credentials, Endpoint, ID, Key, Settings},
};

use crate::model_server::{ModelServer, Piece, Reply, delta, event, finish};

const KEY: &str = "sk-0123456789abcdef";

/// Nothing here takes this long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    server: ModelServer,
    providers: Providers,
    /// Last, so that attempts end before their runtime does.
    _runtime: Runtime,
}

struct Attempt {
    stop: Box<dyn Stop>,
    chunks: mpsc::Receiver<Chunk>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Settings::default())
    }

    fn with(settings: Settings) -> Bench {
        let server = ModelServer::start();
        let base = server.base_url();
        Bench::over(server, settings, move || endpoint(&base, KEY))
    }

    fn over(server: ModelServer, settings: Settings, credentials: impl Credentials + 'static) -> Bench {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let provider = DeepSeek::new(credentials, settings);
        let providers = Providers::new(runtime.handle().clone()).with(ID, provider);
        Bench { server, providers, _runtime: runtime }
    }

    fn request(&self, prompt: &str) -> ModelRequest {
        let route =
            Route { provider: Some(ID.into()), model: Some("deepseek-v4-flash".into()), ..Route::default() };
        ModelRequest {
            session: SessionId::from("main"),
            served: self.providers.serve(&route).unwrap(),
            system: None,
            messages: vec![user(vec![Block::text(prompt)])],
            tools: Arc::from([]),
        }
    }

    fn begin(&self, request: ModelRequest) -> Attempt {
        let (sender, chunks) = mpsc::channel();
        let stop = self.providers.call(request, Box::new(move |chunk| drop(sender.send(chunk))));
        Attempt { stop, chunks }
    }

    /// The chunks of a whole attempt, as JSON.
    fn ask(&self, prompt: &str) -> Vec<Value> {
        self.begin(self.request(prompt)).all()
    }

    /// The failure of an attempt that fails.
    fn failure(&self, prompt: &str) -> Value {
        let last = self.ask(prompt).pop().unwrap();
        assert_eq!(last["reason"]["kind"], "error", "{last}");
        last["reason"]["failure"].clone()
    }

    /// The failure that a reply leads to.
    fn failure_of(&self, reply: Reply) -> Value {
        self.server.on("OWN", reply);
        self.failure("PROMPT: OWN")
    }
}

impl Attempt {
    fn next(&self) -> Value {
        serde_json::to_value(self.chunks.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Everything up to the end; and after the end there is nothing.
    fn all(self) -> Vec<Value> {
        let mut chunks = Vec::new();
        loop {
            let chunk = self.next();
            let is_last = chunk["type"] == "finish";
            chunks.push(chunk);
            if is_last {
                assert_eq!(self.chunks.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
                return chunks;
            }
        }
    }
}

fn endpoint(base: &str, key: &str) -> Endpoint {
    Endpoint { base_url: Some(base.to_owned()), key: Some(Key::new(key)) }
}

fn message(role: Role, source: Source, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message { id: "m".into(), role, content, source })
}

fn user(content: Vec<Block>) -> Arc<Message> {
    message(Role::User, Source::user(), content)
}

fn start(index: u32, block_type: &str) -> Value {
    json!({"type": "block-start", "index": index, "blockType": block_type})
}

fn text(index: u32, text: &str) -> Value {
    json!({"type": "text-delta", "index": index, "text": text})
}

fn call(index: u32, id: &str, name: &str, fragment: &str) -> Value {
    json!({"type": "tool-call-delta", "index": index, "id": id, "name": name, "argumentsDelta": fragment})
}

fn end(index: u32, block: Value) -> Value {
    json!({"type": "block-end", "index": index, "block": block})
}

fn end_text(index: u32, text: &str) -> Value {
    end(index, json!({"type": "text", "text": text}))
}

fn end_call(index: u32, id: &str, name: &str, arguments: &str) -> Value {
    end(index, json!({"type": "tool-call", "id": id, "name": name, "arguments": arguments}))
}

fn used() -> Value {
    json!({"type": "usage", "usage": {"inputTokens": 11, "outputTokens": 5}})
}

fn finished(kind: &str) -> Value {
    json!({"type": "finish", "reason": {"kind": kind}})
}

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
            Source::Model { provider: ID.into(), model: "deepseek-v4-flash".into() },
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

/// L-86 to L-88.
#[test]
fn a_request_has_the_fixed_shape() {
    let bench = Bench::new();
    let mut request = bench.request("PROMPT: PLAIN");
    request.system = Some("S".into());
    request.tools = Arc::from([ToolSpec {
        name: "bash".into(),
        description: "runs".into(),
        parameters: json!({"type": "object"}),
    }]);
    bench.begin(request).all();
    let requests = bench.server.requests();
    let [request] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/chat/completions"));
    assert_eq!(
        request.text,
        r#"{"model":"deepseek-v4-flash","messages":[{"role":"system","content":"S"},{"role":"user","content":"PROMPT: PLAIN"}],"stream":true,"stream_options":{"include_usage":true},"thinking":{"type":"enabled"},"reasoning_effort":"high","tools":[{"type":"function","function":{"name":"bash","description":"runs","parameters":{"type":"object"}}}],"max_tokens":256000}"#
    );
    let product = concat!("transom/", env!("CARGO_PKG_VERSION"));
    let bearer = format!("Bearer {KEY}");
    let table = [
        ("authorization", Some(bearer.as_str())),
        ("content-type", Some("application/json")),
        ("accept", Some("text/event-stream")),
        ("user-agent", Some(product)),
        ("x-deepseek-harness-session-id", Some("main")),
        ("x-deepseek-harness-user-id", None),
    ];
    for (name, value) in table {
        assert_eq!(request.header(name), value, "{name}");
    }
}

/// S-57 allows ids that no header can carry.
#[test]
fn an_id_that_no_header_can_carry_is_left_out() {
    let bench = Bench::new();
    let mut request = bench.request("PROMPT: PLAIN");
    request.session = SessionId::from("a\r\nx-evil: 1");
    bench.begin(request).all();
    let requests = bench.server.requests();
    assert_eq!(requests[0].header("x-deepseek-harness-session-id"), None);
    assert_eq!(requests[0].header("x-evil"), None);
}

/// S-46: 1234 in, 1234 out; a base URL may end in `/v1` or in a slash (S-207).
#[test]
fn a_cap_and_a_longer_base_url_are_used() {
    let server = ModelServer::start();
    let base = format!("{}/v1/", server.base_url());
    let bench = Bench::over(server, Settings::default(), move || endpoint(&base, KEY));
    let mut request = bench.request("PROMPT: PLAIN");
    request.served.max_tokens = Some(1234);
    bench.begin(request).all();
    let requests = bench.server.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].body["max_tokens"], 1234);
}

/// L-86, S-207: without a usable key nothing is sent.
#[test]
fn a_missing_or_impossible_key_costs_no_request() {
    let table = [
        (None, "MISSING_CREDENTIAL"),
        (Some(""), "MISSING_CREDENTIAL"),
        (Some(" \n"), "MISSING_CREDENTIAL"),
        (Some("sk 1234567890"), "INVALID_CREDENTIAL"),
        (Some("sk-1234567890\nx: y"), "INVALID_CREDENTIAL"),
        (Some("sk-schlüssel0"), "INVALID_CREDENTIAL"),
        (Some("sk-123\u{7f}4567"), "INVALID_CREDENTIAL"),
    ];
    for (key, code) in table {
        let server = ModelServer::start();
        let base = server.base_url();
        let bench = Bench::over(server, Settings::default(), move || Endpoint {
            base_url: Some(base.clone()),
            key: key.map(Key::new),
        });
        let failure = bench.failure("PROMPT: PLAIN");
        assert_eq!(failure["code"], code, "{key:?}");
        if let Some(key) = key.filter(|key| key.len() > 2) {
            assert!(!failure.to_string().contains(key), "{failure}");
        }
        assert!(bench.server.requests().is_empty(), "{key:?}");
    }
}

/// L-86: a changed key is used from the next request on, and always with its own endpoint.
#[test]
fn endpoint_and_key_are_taken_anew_and_together() {
    let (first, second) = (ModelServer::start(), ModelServer::start());
    let bases = [first.base_url(), second.base_url()];
    let asked = AtomicUsize::new(0);
    let bench = Bench::over(first, Settings::default(), move || {
        let at = asked.fetch_add(1, Ordering::Relaxed) % 2;
        endpoint(&bases[at], ["  key-number-one ", "key-number-two"][at])
    });
    for _ in 0..4 {
        bench.ask("PROMPT: PLAIN");
    }
    for (server, bearer) in [(&bench.server, "Bearer key-number-one"), (&second, "Bearer key-number-two")] {
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.header("authorization") == Some(bearer)));
    }
}

/// L-93 and rows 12 to 14 of the checklist.
#[test]
fn refusals_have_a_code_each() {
    let error = |message: &str| json!({"error": {"message": message}});
    let kind = |kind: &str| json!({"error": {"message": "m", "type": kind, "code": null}});
    let table = [
        (401, error("mock bad key"), "AUTH", "mock bad key"),
        (403, error("quota exceeded"), "AUTH", "quota exceeded"),
        (402, error("Insufficient Balance"), "QUOTA", "Insufficient Balance"),
        (429, kind("insufficient_quota"), "QUOTA", "m"),
        (500, error("Quota exceeded for today"), "QUOTA", "Quota exceeded for today"),
        (429, error("slow down"), "RATE_LIMIT", "slow down"),
        (400, error("mock bad request"), "INVALID_REQUEST", "mock bad request"),
        (400, kind("context_length_exceeded"), "CONTEXT_WINDOW_EXCEEDED", "m"),
        (
            400,
            error("This model's maximum context length is 10 tokens"),
            "CONTEXT_WINDOW_EXCEEDED",
            "This model's maximum context length is 10 tokens",
        ),
        (422, error("max context length"), "HTTP_422", "max context length"),
        (500, error("mock upstream failure"), "SERVER", "mock upstream failure"),
        (503, json!({"error": "busy"}), "SERVER", "busy"),
        (502, json!("<html>"), "SERVER", "DeepSeek API error (HTTP 502)"),
        (404, json!({"error": {"message": ""}}), "HTTP_404", "DeepSeek API error (HTTP 404)"),
        (418, json!({"error": {"message": 5}}), "HTTP_418", "DeepSeek API error (HTTP 418)"),
        (302, json!({}), "HTTP_302", "DeepSeek API error (HTTP 302)"),
    ];
    let bench = Bench::new();
    for (status, body, code, message) in table {
        let failure = bench.failure_of(Reply::refusal(status, &body));
        let expected = json!({"message": message, "code": code, "status": status});
        assert_eq!(failure, expected, "{status} {body}");
    }
}

#[test]
fn the_recorded_refusals_come_as_recorded() {
    let table = [
        ("ERR500", "mock upstream failure", "SERVER", 500),
        ("ERR400", "mock bad request", "INVALID_REQUEST", 400),
        ("ERR401", "mock bad key", "AUTH", 401),
    ];
    let bench = Bench::new();
    for (word, message, code, status) in table {
        let chunks = bench.ask(&format!("PROMPT: {word}"));
        let failure = json!({"message": message, "code": code, "status": status});
        let finish = json!({"type": "finish", "reason": {"kind": "error", "failure": failure}});
        assert_eq!(chunks, [finish], "{word}");
    }
}

/// L-93: seconds or a date; the request's name at the provider.
#[test]
fn a_refusal_says_when_to_come_back_and_who_was_asked() {
    let refusal = || Reply::refusal(429, &json!({"error": {"message": "m"}}));
    let bench = Bench::new();
    for (value, expected) in [
        ("2", json!(2000)),
        ("60", json!(60_000)),
        ("0", Value::Null),
        ("-1", Value::Null),
        ("1.5", Value::Null),
        ("soon", Value::Null),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Value::Null),
    ] {
        let failure = bench.failure_of(refusal().with_header("retry-after", value));
        assert_eq!(failure["providerRetryAfterMs"], expected, "{value}");
    }
    let both = refusal().with_header("x-deepseek-request-id", "d").with_header("x-request-id", "r");
    assert_eq!(bench.failure_of(both)["requestId"], "r");
    assert_eq!(bench.failure_of(refusal().with_header("x-deepseek-request-id", "d"))["requestId"], "d");
    let torn = Reply::raw("data: {\n\n").with_header("x-request-id", "r");
    assert_eq!(bench.failure_of(torn)["requestId"], "r");
}

/// L-91 to L-94, row 17 of the checklist.
#[test]
fn damaged_streams_fail_with_a_code_each() {
    let long = "x".repeat(200);
    let malformed = |start: &str| format!("malformed SSE payload: {start}");
    let closed = || "SSE stream ended without [DONE]".to_owned();
    let empty = || "model returned a completed response with no content".to_owned();
    let bench = Bench::new();
    let broken = format!("DeepSeek API stream from {} failed", bench.server.base_url());
    let hi = || Piece::Write(format!("data: {}\n\n", delta(json!({"content": "hi"}))).into_bytes());
    let table: Vec<(&str, Reply, &str, String)> = vec![
        ("no end", Reply::pieces(vec![hi()]), "STREAM_CLOSED", closed()),
        ("nothing at all", Reply::pieces(vec![]), "STREAM_CLOSED", closed()),
        ("an unfinished [DONE]", Reply::raw("data: [DONE]\n"), "STREAM_CLOSED", closed()),
        ("dropped in the middle", Reply::pieces(vec![hi(), Piece::Drop]), "TRANSPORT", broken.clone()),
        ("dropped after the head", Reply::pieces(vec![Piece::Drop]), "TRANSPORT", broken),
        ("bad JSON", Reply::raw("data: {oops\n\n"), "MALFORMED_RESPONSE", malformed("{oops")),
        (
            "long bad JSON",
            Reply::raw(&format!("data: {long}\n\n")),
            "MALFORMED_RESPONSE",
            malformed(&long[..120]),
        ),
        ("a list", Reply::raw("data: [1]\n\n"), "MALFORMED_RESPONSE", malformed("[1]")),
        ("a number", Reply::raw("data: 5\n\n"), "MALFORMED_RESPONSE", malformed("5")),
        ("null", Reply::raw("data: null\n\n"), "MALFORMED_RESPONSE", malformed("null")),
        (
            "choices of another type",
            Reply::raw("data: {\"choices\":{}}\n\n"),
            "MALFORMED_RESPONSE",
            malformed("{\"choices\":{}}"),
        ),
        (
            "a call without an index",
            Reply::raw("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}\n\n"),
            "MALFORMED_RESPONSE",
            malformed("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}"),
        ),
        (
            "an error object",
            Reply::pieces(vec![hi(), event(&json!({"error": {"message": "mid failure"}}).to_string())]),
            "SERVER",
            "mid failure".to_owned(),
        ),
        (
            "a rate limit in the stream",
            Reply::pieces(vec![event(
                &json!({"error": {"message": "m", "type": "rate_limit_error"}}).to_string(),
            )]),
            "RATE_LIMIT",
            "m".to_owned(),
        ),
        ("only [DONE]", Reply::events(&[]), "EMPTY_RESPONSE", empty()),
        (
            "empty strings",
            Reply::events(&[delta(json!({"content": "", "reasoning_content": ""})), finish("stop")]),
            "EMPTY_RESPONSE",
            empty(),
        ),
        (
            "calls announced and none made",
            Reply::events(&[delta(json!({"content": "hi"})), finish("tool_calls")]),
            "EMPTY_RESPONSE",
            "model returned a tool-calls finish with no tool call".to_owned(),
        ),
        (
            "a filter",
            Reply::events(&[delta(json!({"content": "hi"})), finish("content_filter")]),
            "CONTENT_FILTER",
            "model stopped: content_filter".to_owned(),
        ),
        (
            "no body",
            Reply { status: 204, headers: vec![], pieces: vec![] },
            "EMPTY_RESPONSE",
            "DeepSeek API response has no body".to_owned(),
        ),
    ];
    for (what, reply, code, message) in table {
        assert_eq!(bench.failure_of(reply), json!({"message": message, "code": code}), "{what}");
    }
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
        ("two byte-order marks", format!("\u{feff}\u{feff}data: {hi}\n\ndata: {stop}\n\ndata: [DONE]\n\n")),
        ("no blank after the colon", format!("data:{hi}\n\ndata:{stop}\n\ndata:[DONE]\n\n")),
        (
            "comments and other fields",
            format!(": keep-alive\n\nid: 1\nevent: x\nretry: 5\ndata: {hi}\n\n:\n\ndata: {stop}\n\ndata: [DONE]\n\n"),
        ),
        (
            "one payload over several data lines",
            format!("data: {{\ndata: \"choices\":\ndata: [{{\"delta\":{{\"content\":\"hi\"}}}}]}}\n\ndata: {stop}\n\ndata: [DONE]\n\n"),
        ),
        ("bytes behind the end", format!("data: {hi}\n\ndata: {stop}\n\ndata: [DONE]\n\ndata: {{oops\n\n")),
        ("no finish reason", format!("data: {hi}\n\ndata: [DONE]\n\n")),
        ("an empty finish reason", format!("data: {hi}\n\ndata: {{\"choices\":[{{\"finish_reason\":\"\"}}]}}\n\ndata: [DONE]\n\n")),
        ("unknown members", format!("data: {{\"x\":1,\"error\":null,\"usage\":null}}\n\ndata: {hi}\n\ndata: [DONE]\n\n")),
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

/// L-93: the idle time covers the wait for the head and the silence within the body.
#[test]
fn a_silent_server_is_given_up() {
    let bench = Bench::with(Settings { idle_ms_max: 40, ..Settings::default() });
    let hi = event(&delta(json!({"content": "hi"})).to_string());
    for pieces in [vec![Piece::Silence], vec![hi, Piece::Silence]] {
        let failure = bench.failure_of(Reply::pieces(pieces));
        assert_eq!(failure, json!({"message": "DeepSeek stream idle timeout after 40ms", "code": "TIMEOUT"}));
    }
    bench.server.wait_abandoned(2);
    let silent = Reply { status: 500, headers: vec![], pieces: vec![Piece::Write(vec![b'{']), Piece::Silence] };
    let failure = bench.failure_of(silent);
    assert_eq!(failure["message"], "DeepSeek API error (HTTP 500)");
}

#[test]
fn a_server_that_is_not_there_is_a_transport_failure() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let table = [
        (format!("http://{gone}"), format!("http://{gone}")),
        // A password in the URL is nobody's business.
        (format!("http://me:secret-word@{gone}/v1"), format!("http://{gone}/v1")),
    ];
    for (base, shown) in table {
        let bench = Bench::over(ModelServer::start(), Settings::default(), move || endpoint(&base, KEY));
        let failure = bench.failure("PROMPT: PLAIN");
        let message = format!("DeepSeek API request to {shown} failed");
        assert_eq!(failure, json!({"message": message, "code": "TRANSPORT"}));
    }
}

#[test]
fn a_base_url_that_is_none_is_refused_without_a_request() {
    for base in ["localhost:80", "ftp://example.org", "http://", "not a url"] {
        let bench = Bench::over(ModelServer::start(), Settings::default(), move || endpoint(base, KEY));
        assert_eq!(bench.failure("PROMPT: PLAIN")["code"], "INVALID_REQUEST", "{base}");
    }
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
    let settings = Settings { event_bytes_max: 4096, answer_bytes_max: 10_000, ..Settings::default() };
    let bench = Bench::with(settings);
    let flood = |bytes: &str| Reply::pieces(vec![Piece::Flood(bytes.as_bytes().to_vec())]);
    let one = event(&delta(json!({"content": "0123456789"})).to_string());
    let Piece::Write(one) = one else { panic!("an event is a write") };
    let calls = (0..200).map(|index| delta(json!({"tool_calls": [{"index": index}]})).to_string());
    let calls: Vec<Piece> = calls.map(|payload| event(&payload)).collect();
    let table = [
        ("a line", flood("xxxxxxxxxxxxxxxx"), "one event of the response has more than 4096 bytes"),
        ("a comment", flood(": xxxxxxxxxxxxx"), "one event of the response has more than 4096 bytes"),
        ("an event", flood("data: xxxx\n"), "one event of the response has more than 4096 bytes"),
        ("an event of CRLF", flood("data: xxxx\r\n"), "one event of the response has more than 4096 bytes"),
        ("text", Reply::pieces(vec![Piece::Flood(one)]), "the answer of the response has more than 10000 bytes"),
        ("calls", Reply::pieces(calls), "the answer of the response has more than 10000 bytes"),
    ];
    for (what, reply, message) in table {
        let failure = bench.failure_of(reply);
        assert_eq!(failure, json!({"message": message, "code": "MALFORMED_RESPONSE"}), "{what}");
    }
    let refusal = Reply { status: 500, headers: vec![], pieces: vec![Piece::Flood(vec![b'x'; 1000])] };
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

/// The key appears nowhere, even where a server repeats it.
#[test]
fn the_key_is_never_shown() {
    let bench = Bench::new();
    let echo = format!("Incorrect API key provided: {KEY}.");
    let refusal = Reply::refusal(400, &json!({"error": {"message": echo}})).with_header("x-request-id", KEY);
    let failure = bench.failure_of(refusal);
    assert_eq!(failure["message"], "Incorrect API key provided: <key>.");
    let replies = [
        Reply::raw(&format!("data: {KEY}\n\n")),
        Reply::pieces(vec![event(&json!({"error": KEY}).to_string())]),
    ];
    for failure in replies.map(|reply| bench.failure_of(reply)).iter().chain([&failure]) {
        assert!(!failure.to_string().contains(KEY), "{failure}");
    }
    let shown = format!("{:?}", endpoint(&bench.server.base_url(), KEY));
    assert!(!shown.contains(KEY), "{shown}");
}

/// A redirect would carry the key elsewhere.
#[test]
fn redirects_are_not_followed() {
    let elsewhere = ModelServer::start();
    let bench = Bench::new();
    let target = format!("{}/chat/completions", elsewhere.base_url());
    for status in [301, 302, 307, 308] {
        let refusal = Reply::refusal(status, &json!({})).with_header("location", &target);
        assert_eq!(bench.failure_of(refusal)["code"], format!("HTTP_{status}"));
    }
    assert!(elsewhere.requests().is_empty());
}

/// L-90: what cannot be said is refused before anything is sent.
#[test]
fn images_are_refused_without_a_request() {
    let bench = Bench::new();
    let mut request = bench.request("PROMPT: PLAIN image");
    let image = r#"{"type":"image","attachment":{"attachmentId":"sha256:00"}}"#;
    let image: Block = serde_json::from_str(image).unwrap();
    request.messages.push(user(vec![image]));
    let chunks = bench.begin(request).all();
    assert_eq!(
        chunks,
        [json!({"type": "finish", "reason": {"kind": "error", "failure": {
            "message": "The DeepSeek chat-completions adapter does not support image content.",
            "code": "UNSUPPORTED_CONTENT",
        }}})]
    );
    assert!(bench.server.requests().is_empty());
}

/// L-89, as the last line of defence behind `serve`.
#[test]
fn an_unknown_effort_is_refused_without_a_request() {
    let bench = Bench::new();
    let mut request = bench.request("PROMPT: PLAIN");
    request.served.reasoning_effort = Some("extreme".into());
    let chunks = bench.begin(request).all();
    let failure = &chunks[0]["reason"]["failure"];
    assert_eq!(failure["code"], "UNSUPPORTED_REASONING_EFFORT");
    assert!(bench.server.requests().is_empty());
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
