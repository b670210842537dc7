//! Payloads and the chunks they become (L-91, L-92, L-94).

use proptest::prelude::*;

use super::*;

/// The chunks of these payloads and then `[DONE]`, one JSON text each.
fn play(payloads: &[&str]) -> Result<Vec<String>, LlmFailure> {
    let mut chunks = Vec::new();
    let mut put = |chunk: Chunk| chunks.push(serde_json::to_string(&chunk).unwrap());
    let mut assembly = Assembly::new(1 << 20);
    for payload in payloads {
        assembly.payload(&mut put, payload)?;
    }
    let reason = assembly.done(&mut put);
    put(Chunk::Finish { reason });
    Ok(chunks)
}

fn check(payloads: &[&str], expected: &[&str]) {
    assert_eq!(play(payloads).unwrap(), expected, "{payloads:?}");
}

const HI: &str = r#"{"choices":[{"delta":{"content":"hi"}}]}"#;
const HI_CHUNKS: [&str; 3] = [
    r#"{"type":"block-start","index":0,"blockType":"text"}"#,
    r#"{"type":"text-delta","index":0,"text":"hi"}"#,
    r#"{"type":"block-end","index":0,"block":{"type":"text","text":"hi"}}"#,
];
const STOP: &str = r#"{"type":"finish","reason":{"kind":"stop"}}"#;

#[test]
fn the_worked_example_is_as_specified() {
    check(
        &[
            r#"{"choices":[{"delta":{"role":"assistant","content":"","reasoning_content":""}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":3}}"#,
        ],
        &[
            r#"{"type":"block-start","index":0,"blockType":"reasoning"}"#,
            r#"{"type":"reasoning-delta","index":0,"text":"a"}"#,
            r#"{"type":"block-start","index":1,"blockType":"text"}"#,
            r#"{"type":"text-delta","index":1,"text":"b"}"#,
            r#"{"type":"block-start","index":2,"blockType":"tool-call"}"#,
            r#"{"type":"tool-call-delta","index":2,"id":"x","name":"f","argumentsDelta":""}"#,
            r#"{"type":"tool-call-delta","index":2,"id":"x","name":"f","argumentsDelta":"{}"}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"reasoning","text":"a"}}"#,
            r#"{"type":"block-end","index":1,"block":{"type":"text","text":"b"}}"#,
            r#"{"type":"block-end","index":2,"block":{"type":"tool-call","id":"x","name":"f","arguments":"{}"}}"#,
            r#"{"type":"usage","usage":{"inputTokens":6,"outputTokens":4,"cacheReadTokens":3}}"#,
            r#"{"type":"finish","reason":{"kind":"tool-calls"}}"#,
        ],
    );
}

/// Row 19 of the checklist; ids and names may come late, be null, or never come (L-94).
#[test]
fn interleaved_calls_are_kept_apart() {
    check(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"id":null,"function":{"name":null,"arguments":"{"}},{"index":3,"id":"b","function":{"name":"g"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":7,"id":"","function":{"name":"f","arguments":"}"}},{"index":7}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":3,"id":null,"function":{"name":"","arguments":"1"}}]}}]}"#,
        ],
        &[
            r#"{"type":"block-start","index":0,"blockType":"tool-call"}"#,
            r#"{"type":"tool-call-delta","index":0,"id":"","argumentsDelta":"{"}"#,
            r#"{"type":"block-start","index":1,"blockType":"tool-call"}"#,
            r#"{"type":"tool-call-delta","index":1,"id":"b","name":"g","argumentsDelta":""}"#,
            r#"{"type":"tool-call-delta","index":0,"id":"","name":"f","argumentsDelta":"}"}"#,
            r#"{"type":"tool-call-delta","index":0,"id":"","name":"f","argumentsDelta":""}"#,
            r#"{"type":"tool-call-delta","index":1,"id":"b","name":"g","argumentsDelta":"1"}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"tool-call","id":"call-0","name":"f","arguments":"{}"}}"#,
            r#"{"type":"block-end","index":1,"block":{"type":"tool-call","id":"b","name":"g","arguments":"1"}}"#,
            STOP,
        ],
    );
}

/// Later text joins the first text block, and within a payload reasoning comes before content.
#[test]
fn there_is_one_text_block_and_one_of_reasoning() {
    check(
        &[
            r#"{"choices":[{"delta":{"content":"a","reasoning_content":"r"}},{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"s"}}]}"#,
        ],
        &[
            r#"{"type":"block-start","index":0,"blockType":"reasoning"}"#,
            r#"{"type":"reasoning-delta","index":0,"text":"r"}"#,
            r#"{"type":"block-start","index":1,"blockType":"text"}"#,
            r#"{"type":"text-delta","index":1,"text":"a"}"#,
            r#"{"type":"text-delta","index":1,"text":"b"}"#,
            r#"{"type":"reasoning-delta","index":0,"text":"s"}"#,
            r#"{"type":"block-end","index":0,"block":{"type":"reasoning","text":"rs"}}"#,
            r#"{"type":"block-end","index":1,"block":{"type":"text","text":"ab"}}"#,
            STOP,
        ],
    );
}

#[test]
fn usage_counts_are_disjoint() {
    let table = [
        (r#"{"prompt_tokens":11,"completion_tokens":5}"#, r#"{"inputTokens":11,"outputTokens":5}"#),
        (
            r#"{"prompt_tokens":11,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"prompt_cache_hit_tokens":9}"#,
            r#"{"inputTokens":7,"outputTokens":5,"cacheReadTokens":4}"#,
        ),
        (
            r#"{"prompt_tokens":3,"completion_tokens":5,"prompt_cache_hit_tokens":9}"#,
            r#"{"inputTokens":0,"outputTokens":5,"cacheReadTokens":9}"#,
        ),
        (
            r#"{"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":2}}"#,
            r#"{"inputTokens":3,"outputTokens":5,"reasoningTokens":2}"#,
        ),
    ];
    for (usage, expected) in table {
        let earlier = r#"{"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
        let last = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        let expected = format!(r#"{{"type":"usage","usage":{expected}}}"#);
        let [start, delta, end] = HI_CHUNKS;
        check(&[earlier, HI, &last, r#"{"usage":null}"#], &[start, delta, end, &expected, STOP]);
    }
}

#[test]
fn an_odd_usage_is_none() {
    let [start, delta, end] = HI_CHUNKS;
    for usage in [r#"{"prompt_tokens":-1,"completion_tokens":5}"#, r#"{"prompt_tokens":"1"}"#, "{}"]
    {
        check(&[HI, &format!(r#"{{"usage":{usage}}}"#)], &[start, delta, end, STOP]);
    }
}

/// L-92. What was said before comes through in any case.
#[test]
fn finish_reasons_are_translated() {
    let table = [
        ("stop", r#"{"kind":"stop"}"#),
        ("length", r#"{"kind":"max-tokens"}"#),
        (
            "insufficient_system_resource",
            r#"{"kind":"error","failure":{"message":"model stopped: insufficient_system_resource","code":"INSUFFICIENT_SYSTEM_RESOURCE"}}"#,
        ),
        (
            "tool_calls",
            r#"{"kind":"error","failure":{"message":"model returned a tool-calls finish with no tool call","code":"EMPTY_RESPONSE"}}"#,
        ),
    ];
    let [start, delta, end] = HI_CHUNKS;
    for (reason, expected) in table {
        let last = format!(r#"{{"choices":[{{"finish_reason":"{reason}"}}]}}"#);
        let expected = format!(r#"{{"type":"finish","reason":{expected}}}"#);
        check(&[HI, &last], &[start, delta, end, &expected]);
    }
}

/// Only a finish that promises content is judged by it.
#[test]
fn a_cut_answer_may_be_empty() {
    check(
        &[r#"{"choices":[{"finish_reason":"length"}]}"#],
        &[r#"{"type":"finish","reason":{"kind":"max-tokens"}}"#],
    );
}

#[test]
fn misshapen_payloads_are_malformed() {
    let table = [
        r#"{"choices":[1]}"#,
        r#"{"choices":[{"delta":"x"}]}"#,
        r#"{"choices":[{"delta":{"content":1}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":[]}}]}"#,
        r#"{"choices":[{"finish_reason":1}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":{}}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[5]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":5}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":"f"}]}}]}"#,
        r#"{"usage":5}"#,
    ];
    for payload in table {
        assert_eq!(play(&[payload]), Err(malformed(payload)), "{payload}");
    }
}

proptest! {
    /// Whatever a server sends, there is an answer or a failure with a code; none of it panics.
    #[test]
    fn no_payload_is_too_odd(payload in r#"[\[\]{}:,"0-9a-z]{0,30}"#, tail in ".{0,10}") {
        if let Err(failure) = play(&[HI, &payload, &tail]) {
            prop_assert!(!failure.code.is_empty());
        }
    }
}
