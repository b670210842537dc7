//! Dates and in-stream errors; refusals over the wire are in `tests/deepseek`.

use serde_json::json;

use super::*;

const KEY: &str = "sk-0123456789abcdef";

fn upstream(key: &str) -> Upstream {
    Upstream::new(&Endpoint { base_url: None, key: Some(Key::new(key)) }, 0)
}

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
        ("-7", None),
        ("+7", None),
        ("7.5", None),
        ("٧", None),
        // Whoever asks for that long is not asked again soon, and clients can read the number.
        ("9007199254740991", Some(9_007_199_254_740_991)),
        ("18446744073709551615", Some(9_007_199_254_740_991)),
        ("99999999999999999999", Some(9_007_199_254_740_991)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(252_618_189_022_000)),
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
        let failure = upstream(KEY).told(&error);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), (code, message), "{error}");
    }
}

#[test]
fn an_endless_message_is_clipped() {
    let failure = upstream(KEY).told(&json!("é".repeat(5000)));
    assert_eq!(failure.message.chars().count(), MESSAGE_CHARS_MAX + 1);
}

/// A short key might be a word of the message.
#[test]
fn only_real_keys_are_taken_out() {
    for (key, expected) in [("mock", "mock bad key"), ("mock bad", "<key> key")] {
        assert_eq!(upstream(key).told(&json!("mock bad key")).message, expected);
    }
}

/// A text is cut after the key was taken out of it: half a key is still a secret. Wherever the key
/// stands, no more of it is left than a word would have in common with it.
#[test]
fn no_cut_leaves_a_half_of_the_key() {
    let upstream = upstream(KEY);
    let secret = &KEY[..8];
    for before in 0..200 {
        let text = format!("{}{KEY} and more", "x".repeat(before));
        let long = format!("{}{text}", "y".repeat(MESSAGE_CHARS_MAX - 150));
        let id = HeaderMap::from_iter([("x-request-id".parse().unwrap(), long.parse().unwrap())]);
        let failures = [
            upstream.malformed(&text),
            upstream.stopped(&text),
            upstream.shared_id(&text),
            upstream.encoded(&text),
            upstream.told(&json!({"message": long})),
            upstream.refused(400, json!({"error": long}).to_string().as_bytes(), None),
            LlmFailure::new("C", upstream.request_id(&id).unwrap()),
        ];
        for failure in failures {
            let shown = format!("{failure:?}").to_lowercase();
            assert!(!shown.contains(secret), "{before}: {shown}");
        }
    }
}

#[test]
fn a_word_of_a_peer_is_clipped() {
    let failure = upstream(KEY).stopped(&"ü".repeat(10_000));
    assert_eq!(failure.code.chars().count(), WORD_CHARS_MAX + 1);
    assert_eq!(failure.message.chars().count(), "model stopped: ".len() + MESSAGE_CHARS_MAX + 1);
}
