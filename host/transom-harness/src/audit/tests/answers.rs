//! Chunks, the answer they make, and the tools it calls (L-14, L-16, L-38 to L-40, L-49, L-57).

use super::*;

/// An answer of turn 1, step 1.
fn answer(content: &str, rest: &str, sources: &str) -> String {
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    format!(
        r#"{{"type":"assistant/message","data":{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":{content},"source":{source}}}{rest}}},"surfaceOp":"append"{sources}}}"#
    )
}

#[test]
fn chunks_come_in_an_order_that_a_model_can_give() {
    let check = |script: &str, expected: &str| {
        bad(&format!("@asked; {script}"), &format!("{expected} (L-14)"))
    };
    check("text 0 hi", "seq 7: a chunk of block 0 before its block-start");
    check("start 0 text; start 0 text", "seq 8: a second block-start of block 0");
    check("start 0 text; end 0 x; text 0 y", "seq 9: a chunk of block 0 behind its block-end");
    check("start 0 text; end 0 x; end 0 x", "seq 9: a chunk of block 0 behind its block-end");
    check(
        "start 0 reasoning; text 0 x",
        "seq 8: a chunk of another type than block 0 was opened with",
    );
    check(
        "start 0 reasoning; end 0 x",
        "seq 8: a chunk of another type than block 0 was opened with",
    );
    check("finish stop; usage", "seq 8: a chunk behind the finish of its attempt");
    check("finish stop; finish stop", "seq 8: a chunk behind the finish of its attempt");
    check(
        "start 4294967296 text",
        "seq 7: the chunk's index or block is not one that a message can hold",
    );
    good("@asked; start 3 text; start 1 reasoning; text 3 a; usage; usage; end 3 a; finish stop");
}

/// What the assembler takes (L-16) is more than what providers give.
#[test]
fn any_sequence_of_chunks_can_be_taken() {
    let one = r#"[{"type":"text","text":"aa"}]"#;
    let message = answer(one, "", r#","sourceEventSeqs":[7,8,9,10]"#);
    let script = format!("@asked; text 0 a; start 0 text; text 0 a; finish stop; {message}");
    bad(&script, "seq 7: a chunk of block 0 before its block-start (L-14)");
    let mut auditor = Auditor::new(&header()).any_chunks();
    for event in log(&script) {
        auditor.push(&event).unwrap();
    }
    assert_eq!(auditor.finish().unwrap().history(), ["m1", "a"]);
}

#[test]
fn an_answer_is_what_the_winning_attempt_makes() {
    let hi = r#"[{"type":"text","text":"hi"}]"#;
    let usage = r#","usage":{"inputTokens":3,"outputTokens":4}"#;
    let sources = r#","sourceEventSeqs":[7,8,9,10,11]"#;
    let check = |content: &str, usage: &str, sources: &str, expected: &str| {
        bad(
            &format!("@asked; says; {}", answer(content, usage, sources)),
            &format!("seq 12: {expected} (L-16)"),
        );
    };
    good(&format!("@asked; says; {}", answer(hi, usage, sources)));
    good(&format!("@asked; says; {}", answer(r#"[{"text":"hi","type":"text"}]"#, usage, sources)));
    let made = r#"the content must be what the chunks make: [{"type":"text","text":"hi"}]"#;
    check("[]", usage, sources, made);
    check(r#"[{"type":"text","text":"ho"}]"#, usage, sources, made);
    check(r#"[{"type":"reasoning","text":"hi"}]"#, usage, sources, made);
    let counted = r#"usage must be that of the chunks: {"inputTokens":3,"outputTokens":4}"#;
    check(hi, "", sources, counted);
    check(hi, r#","usage":{"inputTokens":3,"outputTokens":5}"#, sources, counted);
    let right = "sourceEventSeqs must be the chunks of the winning attempt, [7, 8, 9, 10, 11], got";
    check(hi, usage, "", &format!("{right} none"));
    check(hi, usage, r#","sourceEventSeqs":[]"#, &format!("{right} []"));
    check(hi, usage, r#","sourceEventSeqs":[7,8,9,10]"#, &format!("{right} [7, 8, 9, 10]"));

    // Chunks of an attempt that failed are no sources (L-40).
    let first = "@asked; start 0 text; failed SERVER; retry r 1 500; retried r 1; says";
    good(&format!("{first}; answer"));
    let all = answer(hi, usage, r#","sourceEventSeqs":[7,8,11,12,13,14,15]"#);
    let right =
        "sourceEventSeqs must be the chunks of the winning attempt, [11, 12, 13, 14, 15], got";
    bad(&format!("{first}; {all}"), &format!("seq 16: {right} [7, 8, 11, 12, 13, 14, 15] (L-16)"));

    // Without a chunk there is nothing to say.
    good(&format!("@asked; {}", answer("[]", "", r#","sourceEventSeqs":[]"#)));
}

#[test]
fn a_step_has_one_answer_and_only_of_an_attempt_that_ended_well() {
    let twice = "@said; answer";
    bad(twice, "seq 13: assistant/message behind the assistant/message of its step (L-39)");
    bad("@said; says", "seq 13: assistant/chunk behind the assistant/message of its step (L-39)");
    bad(
        "@said; header change x",
        "seq 13: request/header behind the assistant/message of its step (L-39)",
    );
    bad(
        "@asked; start 0 text; answer",
        "seq 8: assistant/message of an attempt without a finish (L-14)",
    );
    bad(
        "@asked; failed SERVER; answer",
        "seq 8: assistant/message of an attempt that failed (L-40)",
    );
    let other =
        answer("[]", "", r#","sourceEventSeqs":[7]"#).replace(r#""model":"m""#, r#""model":"x""#);
    bad(
        &format!("@asked; finish stop; {other}"),
        "seq 8: the message's source must be the route that was asked, p m (L-12)",
    );
}

/// L-48.
#[test]
fn a_part_of_an_answer_is_what_was_streamed_before_a_cancel() {
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let marked = r#"{"kind":"model","provider":"p","model":"m","partial":true}"#;
    let part = |text: &str| {
        let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        answer(&content, "", r#","sourceEventSeqs":[7,8,9]"#).replace(source, marked)
    };
    let streamed = "@asked; start 0 text; text 0 ha; start 1 tool-call";
    let script = |text: &str, end: &str| format!("{streamed}; {}; step-end; {end}", part(text));
    good(&script("ha", "turn-end aborted"));
    good(&script("ha", "turn-end interrupted; end-seed"));
    bad(
        &script("ha", "turn-end completed"),
        "seq 12: turn/end completed, although step 1 has a part of an answer (L-48)",
    );
    let made =
        r#"seq 10: the content must be what the chunks make: [{"type":"text","text":"ha"}] (L-16)"#;
    bad(&script("hi", "turn-end aborted"), made);
    let ended = part("ha").replace("[7,8,9]", "[7,8,9,10]");
    bad(
        &format!("{streamed}; finish stop; {ended}"),
        "seq 11: a part of an answer whose attempt has a finish (L-48)",
    );
    let empty = answer("[]", "", r#","sourceEventSeqs":[7]"#).replace(source, marked);
    bad(
        &format!("@asked; start 0 text; {empty}"),
        "seq 8: a part of an answer without text (L-48)",
    );
}

#[test]
fn every_call_has_one_call_and_one_result_in_the_models_order() {
    let check = |script: &str, expected: &str| bad(script, &format!("{expected} (L-49)"));
    good("@called c1 c2; call c1; call c2; result c1; result c2; step-end");
    good("@called c c; call c; result c; call c; result c; step-end");
    check("@called c; result c", "seq 12: tool/result without a tool/call");
    check(
        "@called c1 c2; call c1; result c1; step-end; turn-end completed",
        "seq 18: step/end before the tool/result of call \"c2\"",
    );
    check(
        "@called c; call c; step-end; step",
        "seq 14: step/end before the tool/result of call \"c\"",
    );
    check(
        "@called c; step-end; turn-end aborted",
        "seq 13: step/end before the tool/result of call \"c\"",
    );
    // Whoever schedules calls may fail (L-58), and the host may die with that.
    good("@called c1 c2; call c1; result c1; step-end; turn-end error UNKNOWN");
    good("@called c; step-end; turn-end interrupted; end-seed");
    check(
        "@called c1 c2; call c1; call c2; result c2",
        "seq 17: tool/result of \"c2\", where that of \"c1\" is due in the model's order",
    );
    check(
        "@called c; call c; result d",
        "seq 13: tool/result of \"d\", which the answer does not call",
    );
    check(
        "@called c; call c; result c; result c",
        "seq 14: tool/result of \"c\", although every call has its result",
    );
    check(
        "@called c; call c; call c",
        "seq 13: tool/call \"c\", although every call of the answer has its tool/call",
    );
    check(
        "@said; call c",
        "seq 13: tool/call \"c\", although every call of the answer has its tool/call",
    );
    check("@asked; call c", "seq 7: tool/call before the assistant/message of its step");
    check("@asked; result c", "seq 7: tool/result before the assistant/message of its step");
    check(
        "@asked; block 0 c other; finish stop; answer; call c",
        "seq 12: name and arguments of tool/call \"c\" must be those of the answer's block",
    );
    bad(
        "@called c1 c2; call c2",
        "seq 15: tool/call \"c2\", where \"c1\" is due in the model's order (L-57)",
    );
    let elsewhere = stories::result_of("c", 13, "\"append\"", "[11]", "x", false);
    check(
        &format!("@called c; call c; {elsewhere}"),
        "seq 13: sourceEventSeqs must be [12], the tool/call of \"c\"",
    );
    let error = stories::result_of("c", 13, "\"append\"", "[12]", "x", false)
        .replace(r#""data":{"#, r#""data":{"error":{"name":"E","code":"UNKNOWN_TOOL"},"#);
    bad(
        &format!("@called c; call c; {error}"),
        "seq 13: error UNKNOWN_TOOL on a result that is none (L-55)",
    );
}

#[test]
fn no_tool_runs_after_the_output_limit() {
    let cut = "@asked; block 0 c t; finish max-tokens";
    let without = answer("[]", "", r#","sourceEventSeqs":[7,8,9,10]"#);
    let with = r#"[{"type":"tool-call","id":"c","name":"t","arguments":"{}"}]"#;
    let with = answer(with, "", r#","sourceEventSeqs":[7,8,9,10]"#);
    good(&format!("{cut}; {without}; step-end; turn-end max-tokens"));
    bad(&format!("{cut}; {with}"), "seq 11: the content must be what the chunks make: [] (L-16)");
    bad(
        &format!("{cut}; {without}; call c"),
        "seq 12: tool/call \"c\", although every call of the answer has its tool/call (L-49)",
    );
}

#[test]
fn recovery_makes_up_what_a_crash_has_cut_off() {
    let check = |script: String, expected: &str| bad(&script, &format!("{expected} (L-79)"));
    let begun = "@called c1 c2; call c1";
    check(
        format!("{begun}; lost-result c1 TOOL_NOT_STARTED"),
        "seq 16: TOOL_NOT_STARTED for \"c1\", which has a tool/call",
    );
    bad(
        &format!("{begun}; result c1; lost-result c2 TOOL_OUTCOME_UNKNOWN"),
        "seq 17: tool/result without a tool/call (L-49)",
    );
    let cited = stories::result_of("c", 12, "\"append\"", "[11]", "x", true)
        .replace(r#""data":{"#, r#""data":{"error":{"name":"E","code":"TOOL_NOT_STARTED"},"#);
    bad(
        &format!("@called c; {cited}"),
        "seq 12: sourceEventSeqs of a call that was never logged must be left out (L-49)",
    );
    check(
        format!("{begun}; lost-result c1 TOOL_OUTCOME_UNKNOWN; result c2"),
        "seq 17: tool/result of \"c2\" behind results that recovery has made up",
    );
    check(
        format!("{begun}; lost-result c1 TOOL_OUTCOME_UNKNOWN; call c2"),
        "seq 17: tool/call among the events by which recovery closes a turn",
    );
    check(
        "@called c; call c; lost-result c TOOL_OUTCOME_UNKNOWN; step-end; turn-end aborted"
            .to_owned(),
        "seq 15: turn/end aborted behind results that recovery has made up",
    );
    let unknown = r#""data":{"error":{"name":"E","code":"TOOL_OUTCOME_UNKNOWN"},"#;
    let named = stories::result_of("c", 13, "\"append\"", "[12]", "x", true)
        .replace(r#""data":{"#, unknown);
    check(
        format!("@called c; call c; {named}"),
        "seq 13: the message id of a result that recovery has made up must be \"interrupted-tool-result-c-13\"",
    );
    check(
        format!(
            "@called c; call c; {}",
            named.replace(r#""id":"r13""#, r#""id":"interrupted-tool-result-c-13""#)
        ),
        "seq 13: a result that recovery has made up must carry the time of the event before it",
    );
}
