//! Failing models, retries, limits (L-38 to L-44).

use super::*;
use crate::{ports::NormalRetry, retry};

#[test]
fn a_server_error_is_tried_three_times() {
    // Rows 12 and C-25, L-42.
    let mut play = Play::new();
    play.prompt("hi").assemble();
    play.told();
    play.fail("SERVER").ring().fail("SERVER").ring().fail("SERVER");
    let told = play.told();
    let kinds: Vec<_> = told.lines().map(|line| line.split(' ').nth(1).unwrap_or(line)).collect();
    let expected = [
        "assistant/chunk",
        "llm/retry",
        "llm/retry-started",
        "assistant/chunk",
        "llm/retry",
        "llm/retry-started",
        "assistant/chunk",
        "step/end",
        "SERVER",
        "turn/end",
        "idle",
    ];
    assert_eq!(kinds, expected, "{told}");
    let retries: Vec<_> = play.events.iter().filter(|event| event["type"] == "llm/retry").collect();
    assert_eq!(retries[0]["data"]["retryId"], retries[1]["data"]["retryId"]);
    let key = r#"["normal",2,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,10000,0.1]"#;
    assert_eq!(retries[0]["data"]["policyKey"], key);
    assert_eq!(retries[0]["data"]["maxRetries"], 2);
    for (retry, base) in retries.iter().zip([500.0, 1000.0]) {
        let delay = retry["data"]["delayMs"].as_f64().unwrap();
        assert!((base * 0.9..=base * 1.1).contains(&delay), "{delay} is not {base} ± 10 %");
    }
}

#[test]
fn an_answer_names_only_the_chunks_of_its_own_attempt() {
    let mut play = Play::new();
    play.prompt("hi").assemble().text("lost").fail("TRANSPORT").ring().answer("kept");
    let message = play.events.iter().find(|event| event["type"] == "assistant/message").unwrap();
    assert_eq!(message["data"]["message"]["content"][0]["text"], "kept");
    let retried = play.events.iter().find(|event| event["type"] == "llm/retry-started").unwrap();
    let first = message["sourceEventSeqs"][0].as_u64().unwrap();
    assert!(first > retried["seq"].as_u64().unwrap());
}

#[test]
fn a_refused_key_is_not_tried_again() {
    // Rows 13 and C-26.
    let mut play = Play::new();
    play.prompt("hi").assemble().fail("AUTH");
    let told = play.told();
    assert!(!told.contains("llm/retry"), "{told}");
    let end = r#"turn/end 1 {"kind":"error","error":{"message":"no","code":"AUTH"}}"#;
    assert!(told.contains(end), "{told}");
}

#[test]
fn a_wait_that_the_provider_asks_for_is_kept_or_refused() {
    // Row 14.
    let check = |wish: u64, expected: Option<u64>| {
        let failure = LlmFailure {
            provider_retry_after_ms: Some(wish),
            ..LlmFailure::new("RATE_LIMIT", "slow down")
        };
        let again = retry::decide(&mut Chance::new([1; 32]), &RetryPolicy::default(), 0, &failure);
        assert_eq!(again.map(|again| again.delay_ms), expected, "{wish}");
    };
    check(2_000, Some(2_000));
    check(10_000, Some(10_000));
    check(60_000, None);
}

#[test]
fn a_policy_of_always_never_gives_up() {
    let policy = RetryPolicy { normal: None, jitter_ratio: 0.0, ..RetryPolicy::default() };
    assert_eq!(retry::policy_key(&policy), r#"["always",500,10000,0.0]"#);
    let failure = LlmFailure {
        provider_retry_after_ms: Some(60_000),
        ..LlmFailure::new("QUOTA", "none left")
    };
    let again = retry::decide(&mut Chance::new([1; 32]), &policy, 90, &failure).unwrap();
    assert_eq!((again.retry, again.max_retries, again.delay_ms), (91, None, 10_000));
    let once = RetryPolicy {
        normal: Some(NormalRetry { max_retries: 0, codes: vec!["QUOTA".to_owned()] }),
        ..policy
    };
    assert_eq!(retry::decide(&mut Chance::new([1; 32]), &once, 0, &failure), None);
}

#[test]
fn an_answer_cut_at_the_limit_keeps_its_text_and_no_call() {
    // Row 15.
    let mut play = Play::new();
    play.prompt("hi").assemble().text("cut of").call(1, "c", "bash").finish(Finish::MaxTokens);
    let told = play.told();
    assert!(told.contains(r#"assistant/message [{"type":"text","text":"cut of"}]"#), "{told}");
    assert!(!told.contains("tool/call"), "{told}");
    assert!(told.contains(r#"turn/end 1 {"kind":"max-tokens"}"#), "{told}");
}

#[test]
fn a_limit_that_was_hit_sticks_to_its_turn_only() {
    // Row 16.
    let mut play = Play::new();
    play.prompt("hi").assemble().text("cut");
    play.send("go on", Delivery::Steer).unwrap();
    play.finish(Finish::MaxTokens).assemble().answer("rest");
    assert!(play.told().contains(r#"turn/end 1 {"kind":"max-tokens"}"#));
    play.prompt("next").assemble().answer("fine");
    assert!(play.told().contains(r#"turn/end 2 {"kind":"completed"}"#));
}

#[test]
fn a_route_that_nobody_serves_fails_the_turn_before_its_first_step() {
    let mut play = Play::new();
    play.prompt("hi");
    let token = play.assembling.remove(0);
    let failure = transom_frame::Failure::new(
        transom_frame::Code::NoAdapter,
        "no adapter registered for provider \"x\"",
    );
    play.happen(Happened::Assembled(token, Assembly { served: Err(failure), ..assembly() }));
    let told = play.told();
    assert!(!told.contains("step/start"), "{told}");
    assert!(told.contains("NO_ADAPTER"), "{told}");
}

#[test]
fn queued_messages_wait_after_a_failure_until_somebody_sends() {
    // L-33.
    let mut play = Play::new();
    play.prompt("a").prompt("b").assemble().fail("AUTH");
    assert!(play.told().ends_with("idle"));
    play.prompt("c");
    let told = play.told();
    assert!(told.contains("turn/start 2"), "{told}");
    play.assemble().answer("b").assemble().answer("c");
    let texts: Vec<_> = play
        .events
        .iter()
        .filter(|event| event["type"] == "user/message")
        .map(|event| event["data"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["a", "b", "c"]);
}
