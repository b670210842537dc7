//! What comes of refusals and damaged streams (L-93, L-94).

use crate::*;

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
    assert_eq!(
        bench.failure_of(refusal().with_header("x-deepseek-request-id", "d"))["requestId"],
        "d"
    );
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
        (
            "dropped in the middle",
            Reply::pieces(vec![hi(), Piece::Drop]),
            "TRANSPORT",
            broken.clone(),
        ),
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
            Reply::pieces(vec![
                hi(),
                event(&json!({"error": {"message": "mid failure"}}).to_string()),
            ]),
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
            Reply::events(&[
                delta(json!({"content": "", "reasoning_content": ""})),
                finish("stop"),
            ]),
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

/// The status alone makes a failure.
#[test]
fn a_refusal_that_breaks_off_is_still_a_refusal() {
    let bench = Bench::new();
    let pieces = vec![Piece::Write(br#"{"error":{"mess"#.to_vec()), Piece::Drop];
    let failure = bench.failure_of(Reply { status: 500, headers: vec![], pieces });
    let message = "DeepSeek API error (HTTP 500)";
    assert_eq!(failure, json!({"message": message, "code": "SERVER", "status": 500}));
}

#[test]
fn a_server_that_is_not_there_is_a_transport_failure() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for base in [format!("http://{gone}"), format!("http://{gone}/v1/")] {
        let shown = base.trim_end_matches('/').to_owned();
        let bench =
            Bench::over(ModelServer::start(), Settings::default(), move || endpoint(&base, KEY));
        let failure = bench.failure("PROMPT: PLAIN");
        let message = format!("DeepSeek API request to {shown} failed");
        assert_eq!(failure, json!({"message": message, "code": "TRANSPORT"}));
    }
}
