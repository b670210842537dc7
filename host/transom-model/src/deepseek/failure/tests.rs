//! Dates and in-stream errors; refusals over the wire are in `tests/deepseek`.

use serde_json::json;

use super::*;

#[test]
fn a_date_ahead_becomes_a_wait() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let table = [
        ("Sun, 06 Nov 1994 08:49:39 GMT", Some(2000)),
        ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:36 GMT", None),
        ("12", Some(12_000)),
        (" 7 ", Some(7000)),
        ("", None),
        ("99999999999999999999", None),
    ];
    for (value, expected) in table {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
        assert_eq!(retry_after_ms(&headers, now), expected, "{value}");
    }
    assert_eq!(retry_after_ms(&HeaderMap::new(), now), None);
}

/// L-94.
#[test]
fn an_error_in_the_stream_has_a_code_too() {
    let table = [
        (json!("plain words"), "SERVER", "plain words"),
        (json!({"message": "m"}), "SERVER", "m"),
        (json!({"message": "m", "code": 429}), "RATE_LIMIT", "m"),
        (json!({"message": "m", "code": "rate-limit-exceeded"}), "RATE_LIMIT", "m"),
        (json!({"message": "Quota exceeded", "code": 429}), "QUOTA", "Quota exceeded"),
        (
            json!({"message": "m", "code": "context_length_exceeded"}),
            "CONTEXT_WINDOW_EXCEEDED",
            "m",
        ),
        (json!({"message": "m", "type": "authentication_error"}), "AUTH", "m"),
        (json!({"message": "m", "type": "invalid_request_error"}), "INVALID_REQUEST", "m"),
        (json!([]), "SERVER", "DeepSeek API error in the stream"),
    ];
    for (error, code, message) in table {
        let failure = in_stream(&error);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), (code, message), "{error}");
    }
}

#[test]
fn an_endless_message_is_clipped() {
    let failure = in_stream(&json!("é".repeat(5000)));
    assert_eq!(failure.message.chars().count(), MESSAGE_CHARS_MAX + 1);
}

/// A short key might be a word of the message.
#[test]
fn only_real_keys_are_taken_out() {
    for (key, expected) in [("mock", "mock bad key"), ("mock bad", "<key> key")] {
        let endpoint = Endpoint { base_url: None, key: Some(Key::new(key)) };
        let failure = Upstream::new(&endpoint, 0).redact(LlmFailure::new("AUTH", "mock bad key"));
        assert_eq!(failure.message, expected);
    }
}
