//! C-36 to C-42: every way to end.

use serde_json::{Value, json};

use crate::support::{
    bench::Bench,
    client::{error, prompt},
    wire::{Signal, Wire},
};

const SHUTDOWN: &str = r#"{"jsonrpc":"2.0","id":"sd","method":"shutdown"}"#;

fn answer(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {}})
}

/// S-139: the log of a running turn is closed, whatever ended the process.
fn is_closed(bench: &Bench, session: &str) {
    let events = bench.stored(session);
    let types: Vec<_> = events.iter().rev().take(2).map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["turn/end", "step/end"], "{session}");
    let reason = &events.last().expect("events")["data"]["reason"];
    assert_eq!(*reason, json!({"kind": "aborted", "reason": {"kind": "disposed"}}), "{session}");
    let seqs: Vec<_> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>(), "{session}");
}

#[test]
fn c_36_shutdown_with_and_without_params() {
    for line in [SHUTDOWN, r#"{"jsonrpc":"2.0","id":"sd","method":"shutdown","params":{}}"#] {
        let mut bench = Bench::ready();
        bench.client.say(line);
        assert_eq!(bench.client.rest(), [answer("sd")]);
        assert_eq!(bench.client.wire.exit(), 0);
    }
}

#[test]
fn c_37_every_shutdown_is_answered_and_the_process_ends_once() {
    let mut bench = Bench::ready();
    let late = json!({"jsonrpc": "2.0", "id": "late", "method": "session/prompt", "params": prompt("x", "PROMPT: PLAIN")});
    bench.client.say(&format!("{SHUTDOWN}\n{}\n{late}", SHUTDOWN.replace("sd", "sd-2")));
    let frames = bench.client.rest();
    let of = |id: &str| {
        frames.iter().find(|frame| frame["id"] == id).unwrap_or_else(|| panic!("{id}: {frames:?}"))
    };
    assert_eq!(*of("sd"), answer("sd"));
    assert_eq!(*of("sd-2"), answer("sd-2"));
    assert_eq!(error(of("late")), "-32603 SDK server is shutting down");
    assert_eq!(frames.len(), 3);
    assert_eq!(bench.client.wire.exit(), 0);
}

#[test]
fn c_38_shutdown_closes_a_running_turn_in_silence() {
    let mut bench = Bench::ready();
    bench.begin_slow_turn("main");
    bench.client.say(SHUTDOWN);
    assert_eq!(
        bench.client.rest(),
        [answer("sd")],
        "no notification comes after the request (S-116)"
    );
    assert_eq!(bench.client.wire.exit(), 0);
    bench.model.wait_abandoned(1);
    is_closed(&bench, "main");
}

#[test]
fn c_39_end_of_input_and_signals() {
    type End = fn(&mut Bench);
    let ends: [(End, i32); 3] = [
        (|bench| bench.client.wire.close_input(), 0),
        (|bench| bench.client.wire.signal(Signal::Terminate), 0),
        (|bench| bench.client.wire.signal(Signal::Interrupt), 130),
    ];
    for (end, code) in ends {
        let mut bench = Bench::ready();
        end(&mut bench);
        assert_eq!(bench.client.rest(), Vec::<Value>::new());
        assert_eq!(bench.client.wire.exit(), code, "idle");

        let mut bench = Bench::ready();
        bench.begin_slow_turn("main");
        end(&mut bench);
        assert_eq!(bench.client.rest(), Vec::<Value>::new(), "nothing more is said (S-116)");
        assert_eq!(bench.client.wire.exit(), code, "in a turn");
        is_closed(&bench, "main");
    }
}

#[test]
fn c_40_a_signal_does_not_cut_an_orderly_end_short() {
    let mut bench = Bench::ready();
    bench.begin_slow_turn("main");
    bench.begin_slow_turn("other");
    bench.client.wire.close_input();
    bench.client.wire.signal(Signal::Terminate);
    bench.client.wire.signal(Signal::Terminate);
    assert_eq!(bench.client.rest(), Vec::<Value>::new());
    assert_eq!(bench.client.wire.exit(), 0);
    is_closed(&bench, "main");
    is_closed(&bench, "other");
}

#[test]
fn c_41_a_closed_output_is_an_orderly_end() {
    let mut bench = Bench::ready();
    bench.client.turn("main", "PROMPT: PLAIN");
    bench.client.wire.close_output();
    // Whoever reads for the client leaves with the first line, so there must be more than one to write.
    bench.client.prompt("p", "main", "PROMPT: SLOW");
    bench.client.prompt("q", "other", "PROMPT: SLOW");
    assert_eq!(bench.client.wire.exit(), 0);
    let said = bench.client.wire.diagnostics();
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
    let last = bench.stored("main").pop().expect("events");
    assert_eq!(last["type"], "turn/end");
}

#[test]
fn c_42_a_failed_teardown_is_told_and_fails_the_process() {
    let mut bench = Bench::ready();
    bench.begin_slow_turn("main");
    // The log of the turn cannot be closed any more.
    bench.client.wire.fill_disk();
    bench.client.say(SHUTDOWN);
    let frames = bench.client.rest();
    let message = error(frames.last().expect("an answer"));
    assert!(
        message.starts_with("-32603 ") && message != "-32603 SDK server teardown failed",
        "{message}"
    );
    assert_eq!(bench.client.wire.exit(), 1);
}

#[test]
fn c_42_two_failures_are_one_answer() {
    let mut bench = Bench::ready();
    bench.begin_slow_turn("main");
    bench.begin_slow_turn("other");
    bench.client.wire.fill_disk();
    bench.client.say(SHUTDOWN);
    let frames = bench.client.rest();
    assert_eq!(error(frames.last().expect("an answer")), "-32603 SDK server teardown failed");
    assert_eq!(bench.client.wire.exit(), 1);
}

/// S-215 makes standard error free text; that it cannot be written must not cost anybody a turn.
#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    let mut bench = Bench::launched(|launch| launch.mute().env("TRANSOM_LOG", "trace"));
    bench.shake_hands();
    let turn = bench.client.turn("main", "PROMPT: TOOL");
    assert!(turn.iter().any(|frame| frame["params"]["event"]["type"] == "tool/result"));
    assert_eq!(bench.client.shut_down(), 0);
    assert_eq!(bench.stored("main"), bench.client.events("main"));
}
