//! Payloads and the chunks they become (L-91, L-92, L-94).

use proptest::prelude::*;
use serde_json::json;
use transom_harness::chunk::{Assembler, BlockType};

use super::*;
use crate::deepseek::Endpoint;

fn upstream() -> Upstream {
    Upstream::new(&Endpoint::default(), 0)
}

/// The chunks of these payloads and then `[DONE]`, one JSON text each.
fn play(payloads: &[&str]) -> Result<Vec<String>, LlmFailure> {
    let mut chunks = Vec::new();
    let mut put = |chunk: Chunk| chunks.push(serde_json::to_string(&chunk).unwrap());
    let upstream = upstream();
    let mut assembly = Assembly::new(&upstream, 1 << 20);
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
    for usage in [
        r#"{"prompt_tokens":-1,"completion_tokens":5}"#,
        r#"{"prompt_tokens":"1"}"#,
        // No number to a client of the log.
        r#"{"prompt_tokens":9007199254740992,"completion_tokens":5}"#,
        "{}",
    ] {
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
        assert_eq!(play(&[payload]), Err(upstream().malformed(payload)), "{payload}");
    }
}

/// A value that fits often enough for deep payloads to be accepted now and then.
fn value(text: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        12 => proptest::sample::select(text).prop_map(Value::from),
        2 => Just(Value::Null),
        1 => prop_oneof![Just(json!(7)), Just(json!(-1)), Just(json!([])), Just(json!({})), Just(json!(true))],
    ]
}

fn payload() -> impl Strategy<Value = Value> {
    let index = prop_oneof![20 => (0_u64..4).prop_map(Value::from), 1 => value(&["0"])];
    let entry = (
        index,
        value(&["", "a", "b", "call-1", "call-2"]),
        value(&["", "f", "g"]),
        value(&["", "{", "}"]),
    )
        .prop_map(|(index, id, name, arguments)| {
            json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
        });
    let choice = (
        value(&["", "x", "é"]),
        value(&["", "r"]),
        proptest::collection::vec(entry, 0..3),
        prop_oneof![3 => Just(Value::Null), 1 => value(&["stop", "length", "tool_calls", "odd"])],
    )
        .prop_map(|(content, reasoning, calls, finish)| {
            json!({
                "delta": {"content": content, "reasoning_content": reasoning, "tool_calls": calls},
                "finish_reason": finish,
            })
        });
    let usage = prop_oneof![
        4 => Just(Value::Null),
        1 => Just(json!({"prompt_tokens": 3, "completion_tokens": 4})),
        1 => value(&["many"]),
    ];
    let error = prop_oneof![20 => Just(Value::Null), 1 => value(&["broken"])];
    (proptest::collection::vec(choice, 0..3), usage, error).prop_map(
        |(choices, usage, error)| json!({"choices": choices, "usage": usage, "error": error}),
    )
}

proptest! {
    /// Whatever a server sends, there is an answer or a failure with a code; none of it panics.
    #[test]
    fn no_text_is_too_odd(payload in r#"[\[\]{}:,"0-9a-z]{0,30}"#, tail in ".{0,10}") {
        if let Err(failure) = play(&[HI, &payload, &tail]) {
            prop_assert!(!failure.code.is_empty());
        }
    }

    /// Blocks begin in order, grow between their start and their end, end once and in order; and the
    /// deltas alone add up to what the ends say (L-16, L-92).
    #[test]
    fn what_is_put_out_fits_together(payloads in proptest::collection::vec(payload(), 0..5)) {
        let upstream = upstream();
        let mut assembly = Assembly::new(&upstream, 1 << 20);
        let mut chunks = Vec::new();
        for payload in payloads {
            let outcome = assembly.payload(&mut |chunk| chunks.push(chunk), &payload.to_string());
            if let Err(failure) = outcome {
                prop_assert!(!failure.code.is_empty() && !failure.message.is_empty());
                let has_end = chunks.iter().any(|chunk| matches!(chunk, Chunk::BlockEnd { .. }));
                prop_assert!(!has_end);
                return Ok(());
            }
        }
        let finish = assembly.done(&mut |chunk| chunks.push(chunk));
        let mut kinds = Vec::new();
        let mut ends = 0;
        let (mut whole, mut deltas) = (Assembler::default(), Assembler::default());
        for chunk in &chunks {
            whole.push(chunk);
            match chunk {
                Chunk::BlockStart { index, block_type } => {
                    prop_assert_eq!(usize::try_from(*index).unwrap(), kinds.len());
                    kinds.push(*block_type);
                }
                Chunk::TextDelta { index, .. } => {
                    prop_assert_eq!(kinds.get(*index as usize), Some(&BlockType::Text));
                }
                Chunk::ReasoningDelta { index, .. } => {
                    prop_assert_eq!(kinds.get(*index as usize), Some(&BlockType::Reasoning));
                }
                Chunk::ToolCallDelta { index, .. } => {
                    prop_assert_eq!(kinds.get(*index as usize), Some(&BlockType::ToolCall));
                }
                Chunk::BlockEnd { index, .. } => {
                    prop_assert_eq!(*index, ends);
                    ends += 1;
                    continue;
                }
                Chunk::Usage { .. } => {}
                Chunk::Finish { .. } => prop_assert!(false, "the end is not the assembly's to say"),
            }
            let is_usage = matches!(chunk, Chunk::Usage { .. });
            prop_assert!(ends == 0 || is_usage);
            deltas.push(chunk);
        }
        if ends > 0 {
            prop_assert_eq!(usize::try_from(ends).unwrap(), kinds.len());
        }
        prop_assert_eq!(whole.finish(&finish), deltas.finish(&finish));
    }
}
