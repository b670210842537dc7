//! Rows 12 to 20, 40 and 41: what a provider does and what the loop makes of it, with a server that speaks the real
//! wire.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::stage::{Setting, Stage, calls, kinds, of_kind, reason, results};
use crate::support::model_server::{Piece, Reply, delta, event, finish, usage};

/// The policy of L-41 as it is recorded.
const POLICY_KEY: &str =
    r#"["normal",2,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,10000,0.1]"#;

fn data(payload: &Value) -> Piece {
    event(&payload.to_string())
}

fn said(words: &str) -> Value {
    delta(json!({"content": words}))
}

fn entry(value: Value) -> Value {
    delta(json!({"tool_calls": [value]}))
}

/// The kinds of the events from the first chunk on.
fn from_first_chunk(events: &[Value]) -> Vec<&str> {
    kinds(events).into_iter().skip_while(|kind| *kind != "assistant/chunk").collect()
}

/// The content of the last `assistant/message`.
fn content(events: &[Value]) -> Value {
    let last = of_kind(events, "assistant/message").pop().expect("an answer");
    last["data"]["message"]["content"].clone()
}

/// Code and status of the failure that ended the turn.
fn failure(events: &[Value]) -> (Value, Value) {
    let reason = reason(events);
    assert_eq!(reason["kind"], "error", "{reason}");
    (reason["error"]["code"].clone(), reason["error"]["status"].clone())
}

/// A turn whose answer ends only once the story has steered.
fn steered(stage: &mut Stage, last_words: &[Value], steer: &str) -> Vec<Value> {
    let gate = Arc::new(Notify::new());
    let pieces = [data(&said("all said")), Piece::Gate(Arc::clone(&gate))];
    let pieces = pieces.into_iter().chain(last_words.iter().map(data)).chain([event("[DONE]")]);
    stage.model.on("FINAL", Reply::pieces(pieces.collect()));
    stage.peer.prompt("main", "PROMPT: FINAL");
    stage.peer.first(|frame| {
        frame.pointer("/body/data/chunk/text").is_some_and(|text| text == "all said")
    });
    let id = stage.peer.steer("main", steer);
    stage.peer.reply(&id);
    gate.notify_one();
    stage.peer.idle("main", 1);
    stage.peer.events("main")
}

/// Row 10. L-32: "even after the model has stopped (the turn then takes another step)".
#[test]
fn row_10_steering_after_the_last_word_takes_another_step() {
    let mut stage = Setting::served().ready();
    let events = steered(&mut stage, &[finish("stop"), usage()], "PROMPT: PLAIN and one more");
    assert_eq!(of_kind(&events, "turn/start").len(), 1);
    assert_eq!(of_kind(&events, "step/start").len(), 2);
    assert_eq!(of_kind(&events, "assistant/message").len(), 2);
    assert_eq!(reason(&events), json!({"kind": "completed"}));
}

/// Row 12. L-42: "HTTP 500 three times: chunk(finish error), retry 1, started 1, chunk, retry 2, started 2, chunk,
/// `step/end`, `turn/end error {message, code:"SERVER", status:500}`". L-41: "the whole series shares one `retryId`".
#[test]
fn row_12_a_server_that_always_fails_is_asked_three_times() {
    let mut stage = Setting::served().ready();
    let turn = stage.turn("PROMPT: ERR500");
    let expected = [
        "assistant/chunk",
        "llm/retry",
        "llm/retry-started",
        "assistant/chunk",
        "llm/retry",
        "llm/retry-started",
        "assistant/chunk",
        "step/end",
        "turn/end",
    ];
    assert_eq!(from_first_chunk(&turn), expected);
    let retries = of_kind(&turn, "llm/retry");
    let (first, second) = (&retries[0]["data"], &retries[1]["data"]);
    for (retry, number) in [(first, 1), (second, 2)] {
        assert_eq!(retry["retry"], number);
        assert_eq!(retry["retryId"], first["retryId"]);
        assert_eq!((&retry["mode"], &retry["maxRetries"]), (&json!("normal"), &json!(2)));
        assert_eq!(retry["policyKey"], POLICY_KEY);
        assert_eq!(retry["failure"]["code"], "SERVER");
        let delay = retry["delayMs"].as_u64().expect("a delay");
        let middle = 500 * number;
        assert!((middle * 9 / 10..=middle * 11 / 10).contains(&delay), "{delay} ms");
    }
    for started in of_kind(&turn, "llm/retry-started") {
        assert_eq!(started["data"]["retryId"], first["retryId"]);
    }
    assert_eq!(failure(&turn), (json!("SERVER"), json!(500)));
    assert_eq!(stage.model.requests().len(), 3);
}

/// Row 13. L-42: "HTTP 401: one chunk, then `step/end`, `turn/end error` code `AUTH`."
#[test]
fn row_13_a_refused_key_is_not_tried_again() {
    let mut stage = Setting::served().ready();
    let turn = stage.turn("PROMPT: ERR401");
    assert_eq!(from_first_chunk(&turn), ["assistant/chunk", "step/end", "turn/end"]);
    assert_eq!(failure(&turn), (json!("AUTH"), json!(401)));
    assert_eq!(stage.model.requests().len(), 1);
}

/// Row 14. L-41: "A positive provider retry-after ≤ `maxDelayMs` is used as is; a larger one makes `normal` give up".
#[test]
fn row_14_the_wait_that_a_provider_asks_for_is_kept_or_refused() {
    let busy = |seconds: &str| {
        Reply::refusal(429, &json!({"error": {"message": "busy"}}))
            .with_header("retry-after", seconds)
    };
    let mut stage = Setting::served().ready();
    stage.model.on("SHORT", busy("2"));
    stage.peer.prompt("main", "PROMPT: SHORT");
    let retry = stage.peer.event("main", "llm/retry");
    stage.model.on("SHORT", Reply::events(&[said("at last"), finish("stop"), usage()]));
    assert_eq!(retry["data"]["delayMs"], 2000);
    assert_eq!(retry["data"]["failure"]["code"], "RATE_LIMIT");
    stage.peer.idle("main", 1);
    assert_eq!(reason(&stage.peer.events("main")), json!({"kind": "completed"}));

    stage.model.on("LONG", busy("60"));
    let turn = stage.turn("PROMPT: LONG");
    assert_eq!(of_kind(&turn, "llm/retry"), [] as [&Value; 0]);
    assert_eq!(failure(&turn), (json!("RATE_LIMIT"), json!(429)));
}

/// Row 15. L-16: "with finish `max-tokens` all tool-call blocks are dropped". L-39: "no tool is run".
#[test]
fn row_15_the_output_limit_drops_half_a_call() {
    let mut stage = Setting::served().ready();
    let half = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\"comm"}});
    let payloads = [said("so far"), entry(half), finish("length"), usage()];
    stage.model.on("HALF", Reply::events(&payloads));
    let turn = stage.turn("PROMPT: HALF");
    assert_eq!(content(&turn), json!([{"type": "text", "text": "so far"}]));
    for absent in ["tool/call", "tool/result"] {
        assert!(of_kind(&turn, absent).is_empty(), "{absent}");
    }
    assert_eq!(reason(&turn), json!({"kind": "max-tokens"}));
    assert_eq!(of_kind(&turn, "step/start").len(), 1);
}

/// Row 16. L-44: "sticky for the rest of the turn, not across turns".
#[test]
fn row_16_a_limit_that_was_hit_sticks_to_its_turn_only() {
    let mut stage = Setting::served().ready();
    let first = steered(&mut stage, &[finish("length"), usage()], "PROMPT: PLAIN and one more");
    assert_eq!(of_kind(&first, "step/start").len(), 2);
    assert_eq!(of_kind(&first, "turn/start").len(), 1);
    assert_eq!(content(&first), json!([{"type": "text", "text": "plain answer"}]));
    assert_eq!(reason(&first), json!({"kind": "max-tokens"}));
    let second = stage.turn("PROMPT: PLAIN");
    assert_eq!(reason(&second), json!({"kind": "completed"}));
}

/// Row 17. L-93: "end without `[DONE]` `STREAM_CLOSED` …; bad JSON `MALFORMED_RESPONSE`"; L-92: "Stop with no block at
/// all → error … `EMPTY_RESPONSE`", which L-41 has among the codes that are retried.
#[test]
fn row_17_streams_that_end_badly_have_codes() {
    let mut stage = Setting::served().ready();
    stage.model.on("CUT", Reply::pieces(vec![data(&said("half")), data(&finish("stop"))]));
    let turn = stage.turn("PROMPT: CUT");
    let error = &reason(&turn)["error"];
    assert_eq!(error["code"], "STREAM_CLOSED");
    assert_eq!(error["message"], "SSE stream ended without [DONE]");
    assert!(of_kind(&turn, "assistant/message").is_empty());

    stage.model.on("BAD", Reply::pieces(vec![event("{\"choices\": nonsense}"), event("[DONE]")]));
    let before = stage.model.requests().len();
    let turn = stage.turn("PROMPT: BAD");
    let error = &reason(&turn)["error"];
    assert_eq!(error["code"], "MALFORMED_RESPONSE");
    assert_eq!(error["message"], "malformed SSE payload: {\"choices\": nonsense}");
    assert_eq!(stage.model.requests().len(), before + 1);

    stage.model.on("NOTHING", Reply::events(&[]));
    let before = stage.model.requests().len();
    let turn = stage.turn("PROMPT: NOTHING");
    let error = &reason(&turn)["error"];
    assert_eq!(error["code"], "EMPTY_RESPONSE");
    assert_eq!(error["message"], "model returned a completed response with no content");
    assert_eq!(of_kind(&turn, "llm/retry").len(), 2);
    assert_eq!(stage.model.requests().len(), before + 3);
}

/// Row 18. L-91: "`reasoning_content`, then `content` … Block indexes are global in opening order." L-92: "All
/// `block-end`s (opening order) … come only at `[DONE]`".
#[test]
fn row_18_reasoning_and_text_are_two_blocks_that_end_together() {
    let mut stage = Setting::served().ready();
    let turn = stage.turn("PROMPT: THINK");
    let chunks: Vec<_> = of_kind(&turn, "assistant/chunk")
        .iter()
        .map(|event| {
            let chunk = &event["data"]["chunk"];
            let kind = chunk["type"].as_str().unwrap_or_default();
            chunk["index"].as_u64().map_or(kind.to_owned(), |index| format!("{kind} {index}"))
        })
        .collect();
    let expected = [
        "block-start 0",
        "reasoning-delta 0",
        "reasoning-delta 0",
        "block-start 1",
        "text-delta 1",
        "block-end 0",
        "block-end 1",
        "usage",
        "finish",
    ];
    assert_eq!(chunks, expected);
    let blocks = json!([
        {"type": "reasoning", "text": "let me think"}, {"type": "text", "text": "answer"},
    ]);
    assert_eq!(content(&turn), blocks);
}

/// Row 19. L-91: "A tool-call entry with a new `index` opens a block …; each entry yields one delta".
#[test]
fn row_19_interleaved_calls_are_blocks_in_the_order_of_their_beginnings() {
    let mut stage = Setting::served().ready();
    let begins = |index: u64, id: &str, piece: &str| {
        entry(
            json!({"index": index, "id": id, "type": "function", "function": {"name": "no_such_tool", "arguments": piece}}),
        )
    };
    let goes_on =
        |index: u64, piece: &str| entry(json!({"index": index, "function": {"arguments": piece}}));
    let payloads = [
        begins(1, "b", "{\"n\":"),
        begins(0, "a", ""),
        goes_on(1, "\"one\""),
        goes_on(0, "{\"n\":\"ze"),
        goes_on(1, "}"),
        goes_on(0, "ro\"}"),
        finish("tool_calls"),
        usage(),
    ];
    stage.model.on("WEAVE", Reply::events(&payloads));
    let turn = stage.turn("PROMPT: WEAVE");
    let block = |id: &str, arguments: &str| json!({"type": "tool-call", "id": id, "name": "no_such_tool", "arguments": arguments});
    let blocks = json!([block("b", "{\"n\":\"one\"}"), block("a", "{\"n\":\"zero\"}")]);
    assert_eq!(of_kind(&turn, "assistant/message")[0]["data"]["message"]["content"], blocks);
    let calls: Vec<_> =
        of_kind(&turn, "tool/call").iter().map(|event| event["data"]["callId"].clone()).collect();
    assert_eq!(calls, ["b", "a"]);
}

/// Row 20. L-39: "the *presence of tool-call blocks* decides, not the finish kind".
#[test]
fn row_20_a_call_runs_though_the_model_says_stop() {
    let mut stage = Setting::served().ready();
    let mut payloads = Vec::new();
    let arguments = json!({"command": "echo ran", "description": "Runs"}).to_string();
    let function = json!({"name": "bash", "arguments": arguments});
    payloads.push(entry(json!({"index": 0, "id": "c1", "type": "function", "function": function})));
    payloads.extend([finish("stop"), usage()]);
    stage.model.on("STOPS", Reply::events(&payloads));
    let turn = stage.turn("PROMPT: STOPS");
    assert_eq!(results(&turn), [("c1".to_owned(), "ran\n".to_owned(), false)]);
    assert_eq!(of_kind(&turn, "step/start").len(), 2);
    assert_eq!(reason(&turn), json!({"kind": "completed"}));
}

/// The messages of role `assistant` in the last request.
fn assistants(stage: &Stage) -> Vec<Value> {
    let last = stage.model.requests().pop().expect("a request");
    let messages = last.body["messages"].as_array().cloned().unwrap_or_default();
    messages.into_iter().filter(|message| message["role"] == "assistant").collect()
}

/// Row 40. L-90: "`content` is the text or `""`, never null; … `reasoning_content` is sent back only on assistant
/// messages that have tool calls".
#[test]
fn row_40_reasoning_goes_back_with_tool_calls_only() {
    let mut stage = Setting::served().ready();
    let thought = delta(json!({"reasoning_content": "hm"}));
    stage.model.on("THOUGHT", Reply::events(&[thought.clone(), finish("stop"), usage()]));
    stage.turn("PROMPT: THOUGHT");
    stage.turn("PROMPT: PLAIN");
    assert_eq!(assistants(&stage), [json!({"role": "assistant", "content": ""})]);

    let function = json!({"name": "no_such_tool", "arguments": "{}"});
    let called = entry(json!({"index": 0, "id": "c1", "type": "function", "function": function}));
    stage.model.on("BOTH", Reply::events(&[thought, called, finish("tool_calls"), usage()]));
    stage.turn("PROMPT: BOTH");
    let calls = json!([{"id": "c1", "type": "function", "function": function}]);
    let last = assistants(&stage).pop().expect("the call");
    assert_eq!(last["content"], "");
    assert_eq!(last["reasoning_content"], "hm");
    assert_eq!(last["tool_calls"], calls);
}

/// Row 41. L-90: "one `{"role":"tool","tool_call_id","content"}` per result, empty → `(no output)`". L-88: "`tools` …
/// left out when empty". Tools of this host say so themselves (L-97); a result that really is empty is put before the
/// adapter beside its code.
#[test]
fn row_41_an_empty_output_is_said_in_words_and_no_tools_are_no_member() {
    let mut stage = Setting::served().ready();
    let arguments = json!({"command": "true", "description": "Says nothing"}).to_string();
    stage.model.on("MUTE", calls(&[("c1", "bash", &arguments)]));
    stage.turn("PROMPT: MUTE");
    let last = stage.model.requests().pop().expect("a request");
    let messages = last.body["messages"].as_array().cloned().unwrap_or_default();
    let expected = json!({"role": "tool", "tool_call_id": "c1", "content": "(no output)"});
    assert!(messages.contains(&expected), "{messages:?}");
    assert!(last.body["tools"].as_array().is_some_and(|tools| !tools.is_empty()));

    let tables = "[tools]\nenabled = []\nsubagent-depth-max = 0";
    let mut stage = Setting::served().manifest(tables).ready();
    stage.turn("PROMPT: PLAIN");
    let body = stage.model.requests().pop().expect("a request").body;
    assert!(body.get("tools").is_none(), "{body}");
}
