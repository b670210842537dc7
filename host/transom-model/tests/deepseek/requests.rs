//! What is sent, and what is not (L-86 to L-90).

use crate::*;

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
    for (server, bearer) in
        [(&bench.server, "Bearer key-number-one"), (&second, "Bearer key-number-two")]
    {
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.header("authorization") == Some(bearer)));
    }
}

#[test]
fn a_base_url_that_is_none_is_refused_without_a_request() {
    for base in [
        "localhost:80",
        "ftp://example.org",
        "http://",
        "http:///v1",
        "not a url",
        "http://h/v1?key=1",
        "http://me:secret-word@127.0.0.1:9/v1",
    ] {
        let bench =
            Bench::over(ModelServer::start(), Settings::default(), move || endpoint(base, KEY));
        let failure = bench.failure("PROMPT: PLAIN");
        assert_eq!(failure["code"], "INVALID_REQUEST", "{base}");
        assert!(!failure.to_string().contains("secret-word"), "{failure}");
    }
}

/// The key appears nowhere, even where a server repeats it.
#[test]
fn the_key_is_never_shown() {
    let bench = Bench::new();
    let echo = format!("Incorrect API key provided: {KEY}.");
    let refusal =
        Reply::refusal(400, &json!({"error": {"message": echo}})).with_header("x-request-id", KEY);
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
