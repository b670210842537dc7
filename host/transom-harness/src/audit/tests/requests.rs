//! Headers, contexts and retries (L-37, L-41, L-42).

use super::*;

#[test]
fn headers_and_contexts_are_written_when_they_say_something_new() {
    let open = "in m1; turn; claim turn; step; user m1";
    let next = "@turn; in b; turn; claim turn; step; user b";
    let check = |script: String, expected: &str| bad(&script, &format!("{expected} (L-37)"));
    good(&format!("{next}; says; answer"));
    good(&format!("{next}; header change x; context; says; answer"));
    check(
        format!("{open}; says"),
        "seq 5: assistant/chunk before the request/header of its driver",
    );
    check(
        format!("{open}; header initial; says"),
        "seq 6: assistant/chunk before the request/context of its route",
    );
    check(
        format!("{next}; header change x; says"),
        "seq 21: assistant/chunk before the request/context of its route",
    );
    check(
        format!("{open}; header change"),
        "seq 5: the reason of this request/header must be initial, got change",
    );
    check(
        format!("{next}; header initial x"),
        "seq 20: the reason of this request/header must be change, got initial",
    );
    check(
        format!("{next}; header change"),
        "seq 20: request/header, although it is the same as the last one",
    );
    check(
        format!("{next}; context"),
        "seq 20: request/context, although it is the same as the last one",
    );
    let other = r#"{"type":"request/context","data":{"provider":"p","model":"x"}}"#;
    check(
        format!("{open}; header initial; {other}"),
        "seq 6: request/context must be of the route of the request/header before it, got p x",
    );
    check("header initial".to_owned(), "seq 0: request/header outside a step");
    check("turn; context".to_owned(), "seq 1: request/context outside a step");
    check(
        "@asked; start 0 text; header change x".to_owned(),
        "seq 8: request/header inside an attempt",
    );
    // Another window is something new, and another route after a failure as well.
    let window =
        r#"{"type":"request/context","data":{"provider":"p","model":"m","contextWindow":9}}"#;
    good(&format!("{next}; {window}; says; answer"));
    good(
        "@asked; failed SERVER; retry r 1 500; retried r 1; header change x; context; says; answer",
    );
}

#[test]
fn every_driver_tells_its_header() {
    let next = "@turn; end-seed; in b; turn; claim turn; step; user b";
    good(&format!("{next}; header resume; says; answer"));
    good(&format!("{next}; header resume x; context; says; answer"));
    bad(
        &format!("{next}; says"),
        "seq 21: assistant/chunk before the request/header of its driver (L-37)",
    );
    bad(
        &format!("{next}; header change x"),
        "seq 21: the reason of this request/header must be resume, got change (L-37)",
    );
    good("in b; end-seed; turn; claim turn; step; user b; header initial; context; says; answer");
}

/// A retry of turn 1, step 1, changed by replacing one text by another.
fn retry(from: &str, to: &str) -> String {
    let failure = r#"{"message":"no","code":"SERVER"}"#;
    let key = r#"[\"normal\",2,[\"RATE_LIMIT\",\"SERVER\"],500,10000,0.1]"#;
    let event = format!(
        r#"{{"type":"llm/retry","data":{{"retryId":"r","turn":1,"step":1,"provider":"p","mode":"normal","policyKey":"{key}","retry":1,"maxRetries":2,"delayMs":500,"failure":{failure}}}}}"#
    );
    assert!(from.is_empty() || event.contains(from), "{from}");
    event.replace(from, to)
}

#[test]
fn retries_follow_their_policy() {
    let check = |from: &str, to: &str, expected: &str| {
        bad(
            &format!("@asked; failed SERVER; {}", retry(from, to)),
            &format!("seq 8: {expected} (L-41)"),
        );
    };
    let allowed = |from: &str, to: &str| {
        good(&format!("@asked; failed SERVER; {}", retry(from, to)));
    };
    allowed("500,\"failure", "450,\"failure");
    allowed("500,\"failure", "550,\"failure");
    check("500,\"failure", "449,\"failure", "delayMs of retry 1 must be 450 to 550, got 449");
    check("500,\"failure", "551,\"failure", "delayMs of retry 1 must be 450 to 550, got 551");
    check(r#""retry":1"#, r#""retry":2"#, "retry must be 1, got 2");
    check(
        r#""code":"SERVER"}"#,
        r#""code":"TIMEOUT"}"#,
        "llm/retry must tell of the failure that its attempt finished with",
    );
    check(r#""provider":"p""#, r#""provider":"q""#, "llm/retry of provider q, where p was asked");
    check(r#""maxRetries":2"#, r#""maxRetries":3"#, "retry 1 of 3, where the policyKey allows 2");
    check(r#"\"SERVER\""#, r#"\"TIMEOUT\""#, "code SERVER is not one that the policyKey retries");
    check(
        r#"[\"RATE_LIMIT\",\"SERVER\"]"#,
        r#"[\"SERVER\",\"RATE_LIMIT\"]"#,
        r#"the codes of the policyKey must be sorted, got ["normal",2,["SERVER","RATE_LIMIT"],500,10000,0.1]"#,
    );
    check(
        r#"[\"normal\","#,
        r#"[\"other\","#,
        r#"policyKey must be the JSON text of a policy, got ["other",2,["RATE_LIMIT","SERVER"],500,10000,0.1]"#,
    );
    let always =
        retry(r#""mode":"normal""#, r#""mode":"always""#).replace(r#","maxRetries":2"#, "");
    bad(
        &format!("@asked; failed SERVER; {always}"),
        "seq 8: mode must be that of its policyKey, normal, got always (L-41)",
    );
}

#[test]
fn a_series_counts_its_retries_and_has_one_id() {
    let once = "@asked; failed SERVER; retry r 1 500; retried r 1; failed SERVER";
    let twice = format!("{once}; retry r 2 1000; retried r 2; failed SERVER");
    good(&format!("{twice}; step-end; turn-end error SERVER"));
    bad(
        &format!("{once}; retry s 2 1000"),
        "seq 11: retryId must be that of the series, \"r\", got \"s\" (L-41)",
    );
    bad(&format!("{once}; retry r 1 500"), "seq 11: retry must be 2, got 1 (L-41)");
    bad(
        &format!("{once}; retry r 2 500"),
        "seq 11: delayMs of retry 2 must be 900 to 1100, got 500 (L-41)",
    );
    bad(
        &format!("{twice}; retry r 3 2000"),
        "seq 14: retry 3 of 2, where the policyKey allows 2 (L-41)",
    );
    bad(
        &format!(
            "{once}; retry r 2 1000; retried r 2; says; answer; step-in b; step-end; claim step; step; user b; \
                  failed SERVER; retry r 1 500"
        ),
        "seq 25: retryId \"r\" is that of another series (L-41)",
    );
}

#[test]
fn a_retry_comes_after_a_failure_and_begins_when_its_wait_is_over() {
    bad("@asked; retry r 1 500", "seq 7: llm/retry, although no attempt has failed (L-41)");
    bad(
        "@asked; finish stop; retry r 1 500",
        "seq 8: llm/retry, although no attempt has failed (L-41)",
    );
    bad(
        "@said; retry r 1 500",
        "seq 13: llm/retry behind the assistant/message of its step (L-39)",
    );
    let wait = "@asked; failed SERVER; retry r 1 500";
    let between = "between llm/retry and llm/retry-started (L-42)";
    bad(&format!("{wait}; says"), &format!("seq 9: assistant/chunk {between}"));
    bad(&format!("{wait}; retry r 2 1000"), &format!("seq 9: llm/retry {between}"));
    bad(&format!("{wait}; header change x"), "seq 9: request/header inside an attempt (L-37)");
    bad(
        &format!("{wait}; retried r 2"),
        "seq 9: llm/retry-started must be of retry 1 of series \"r\" (L-42)",
    );
    bad(
        &format!("{wait}; retried s 1"),
        "seq 9: llm/retry-started must be of retry 1 of series \"r\" (L-42)",
    );
    bad(
        "@asked; failed SERVER; retried r 1",
        "seq 8: llm/retry-started without its llm/retry (L-42)",
    );
    bad(
        &format!("{wait}; retried r 1; retried r 1"),
        "seq 10: llm/retry-started without its llm/retry (L-42)",
    );
}

#[test]
fn a_provider_may_ask_for_its_own_wait() {
    let with = |wish: u64, mode: &str, delay: u64| {
        let failure =
            format!(r#"{{"message":"no","code":"SERVER","providerRetryAfterMs":{wish}}}"#);
        let chunk =
            format!(r#"{{"type":"finish","reason":{{"kind":"error","failure":{failure}}}}}"#);
        let key = match mode {
            "normal" => r#"[\"normal\",2,[\"SERVER\"],500,10000,0.1]"#,
            _ => r#"[\"always\",500,10000,0.1]"#,
        };
        let most = if mode == "normal" { r#","maxRetries":2"# } else { "" };
        format!(
            r#"@asked; {{"type":"assistant/chunk","data":{{"turn":1,"step":1,"chunk":{chunk}}}}}; {{"type":"llm/retry","data":{{"retryId":"r","turn":1,"step":1,"provider":"p","mode":"{mode}","policyKey":"{key}","retry":1{most},"delayMs":{delay},"failure":{failure}}}}}"#
        )
    };
    // Row 14.
    good(&with(2000, "normal", 2000));
    bad(
        &with(2000, "normal", 500),
        "seq 8: delayMs must be what the provider asks for, 2000, got 500 (L-41)",
    );
    bad(
        &with(60_000, "normal", 500),
        "seq 8: a retry, although the provider asks to wait longer than 10000 (L-41)",
    );
    good(&with(60_000, "always", 500));
    bad(
        &with(60_000, "always", 60_000),
        "seq 8: delayMs of retry 1 must be 450 to 550, got 60000 (L-41)",
    );
}
