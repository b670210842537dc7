//! Numbers and nesting of turns and steps, and how turns end (L-1, L-40, L-42, L-44, S-112).

use super::*;

fn numbered(kind: &str, turn: u64, step: u64) -> String {
    format!(
        r#"{{"type":"{kind}","data":{{"turn":{turn},"step":{step},"reason":{{"kind":"completed"}}}}}}"#
    )
}

#[test]
fn turns_and_steps_are_numbered_and_nested() {
    let check = |script: String, expected: &str| bad(&script, &format!("{expected} (S-112)"));
    check(numbered("turn/start", 2, 0), "seq 0: turn/start 2, where turn 1 is due");
    check(
        format!("@turn; {}", numbered("turn/start", 1, 0)),
        "seq 15: turn/start 1, where turn 2 is due",
    );
    check("turn; turn".to_owned(), "seq 1: turn/start 2 inside turn 1");
    check(numbered("turn/end", 1, 0), "seq 0: turn/end outside a turn");
    check(
        format!("turn; {}", numbered("turn/end", 2, 0)),
        "seq 1: turn/end of turn 2 inside turn 1",
    );
    check("@asked; turn-end aborted".to_owned(), "seq 7: turn/end 1 inside step 1");
    check(numbered("step/start", 1, 1), "seq 0: step/start outside a turn");
    check(
        format!("turn; {}", numbered("step/start", 1, 2)),
        "seq 1: step/start 2, where step 1 is due",
    );
    check(
        format!("turn; {}", numbered("step/start", 2, 1)),
        "seq 1: step/start of turn 2 inside turn 1",
    );
    check("turn; step; step".to_owned(), "seq 2: step/start 2 inside step 1");
    check(format!("turn; {}", numbered("step/end", 1, 1)), "seq 1: step/end outside a step");
    check(
        format!("turn; step; {}", numbered("step/end", 1, 2)),
        "seq 2: step/end of step 2 inside step 1",
    );
}

#[test]
fn what_belongs_to_a_step_stands_inside_it() {
    let chunk = r#""chunk":{"type":"finish","reason":{"kind":"stop"}}"#;
    let message = r#""message":{"id":"a","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}}"#;
    let call = r#""callId":"c","name":"t","arguments":"{}""#;
    let started = r#""retryId":"r","retry":1"#;
    for (kind, rest, envelope) in [
        ("assistant/chunk", chunk, ""),
        ("assistant/message", message, r#","surfaceOp":"append","sourceEventSeqs":[]"#),
        ("tool/call", call, ""),
        ("llm/retry-started", started, ""),
    ] {
        let event = |turn: u64, step: u64| {
            format!(
                r#"{{"type":"{kind}","data":{{"turn":{turn},"step":{step},{rest}}}{envelope}}}"#
            )
        };
        bad(&event(1, 1), &format!("seq 0: {kind} outside a turn (S-112)"));
        bad(&format!("turn; {}", event(1, 1)), &format!("seq 1: {kind} outside a step (S-112)"));
        bad(
            &format!("@asked; {}", event(1, 2)),
            &format!("seq 7: {kind} of step 2 inside step 1 (S-112)"),
        );
        bad(
            &format!("@asked; {}", event(2, 1)),
            &format!("seq 7: {kind} of turn 2 inside turn 1 (S-112)"),
        );
    }
    let result = stories::result_of("c", 9, "\"append\"", "[0]", "x", false);
    bad(&format!("in m1; {result}"), "seq 1: tool/result outside a turn (S-112)");
}

#[test]
fn the_output_limit_is_sticky_and_nothing_else_is() {
    let over = "turn/end completed, although a step of the turn hit the output limit (L-44)";
    bad(
        "@asked; finish max-tokens; answer; step-end; turn-end completed",
        &format!("seq 10: {over}"),
    );
    bad(
        "@asked; finish max-tokens; answer; step-in s; step-end; claim step; step; user s; says; answer; step-end; \
         turn-end completed",
        &format!("seq 21: {over}"),
    );
    bad(
        "@said; step-end; turn-end max-tokens",
        "seq 14: turn/end max-tokens, although no step of the turn hit the output limit (L-44)",
    );
    bad(
        "@asked; finish max-tokens; answer; step-end; turn-end max-tokens; in b; turn; claim turn; step; user b; says; \
         answer; step-end; turn-end max-tokens",
        "seq 23: turn/end max-tokens, although no step of the turn hit the output limit (L-44)",
    );
}

#[test]
fn a_step_without_an_answer_ends_its_turn() {
    let failed = "@asked; failed AUTH; step-end";
    let cut = "@asked; start 0 text; step-end";
    let dropped = "@asked; finish stop; step-end";
    let resting = "@asked; failed SERVER; retry r 1 500; step-end";
    let no_answer =
        |kind: &str| format!("seq 9: turn/end {kind}, although step 1 had no answer (L-40)");
    for script in [failed, cut, dropped] {
        bad(&format!("{script}; turn-end completed"), &no_answer("completed"));
        bad(&format!("{script}; turn-end blocked"), &no_answer("blocked"));
        bad(
            &format!("{script}; step"),
            "seq 9: step/start 2 behind a step without an answer (L-40)",
        );
        good(&format!("{script}; turn-end aborted"));
    }
    bad(
        &format!("{failed}; turn-end error SERVER"),
        "seq 9: turn/end error must tell of the failure of step 1: AUTH, no (L-40)",
    );
    good(&format!("{dropped}; turn-end error MALFORMED_RESPONSE"));
    good(&format!("{cut}; turn-end error UNKNOWN"));
    bad(
        &format!("{resting}; turn-end error SERVER"),
        "seq 10: turn/end error, although step 1 ended while it waited for a retry (L-42)",
    );
    bad(
        &format!("{resting}; turn-end completed"),
        "seq 10: turn/end completed, although step 1 ended while it waited for a retry (L-42)",
    );
}

#[test]
fn only_recovery_interrupts_and_a_marker_follows() {
    bad(
        "turn; turn-end interrupted; turn",
        "seq 2: turn/start right behind an interrupted turn, where session/end-seed must stand (L-79)",
    );
    bad(
        "turn; turn-end interrupted; step-in a",
        "seq 2: agent/inbox/spliced right behind an interrupted turn, where session/end-seed must stand (L-79)",
    );
    bad(
        r#"turn; {"type":"turn/end","data":{"turn":1,"reason":{"kind":"interrupted"}},"time":9}"#,
        "seq 1: turn/end interrupted must carry the time of the event before it (L-79)",
    );
    good("turn; turn-end interrupted; end-seed; turn");
}
