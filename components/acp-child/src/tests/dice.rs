//! Runs by dice: whatever an agent and a host say, in whatever order, each request is answered once, nothing is a fault,
//! and a swap is never noticed.

use std::collections::BTreeMap;

use transom_guest::{
    Ending, Excess, Farewell, Form, Frame, FrameKind, Input, Machine, Output, Outputs, Skipped,
    Unit,
};

use super::*;

/// A sequence of numbers that looks like chance and is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn unit(text: &str) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes: text.as_bytes().to_vec() })
}

fn input(dice: &mut Dice, requests: &mut u64) -> Input {
    let lines = [
        r#"{"id":0,"result":{"protocolVersion":1}}"#,
        r#"{"id":0,"result":{"protocolVersion":1}}"#,
        r#"{"id":0,"error":{"code":1,"message":"m"}}"#,
        r#"{"id":1,"result":{"sessionId":"c"}}"#,
        r#"{"id":1,"result":{"sessionId":"c"}}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"id":2,"result":{"stopReason":"end_turn"}}"#,
        r#"{"id":2,"result":{"stopReason":"x"}}"#,
        r#"{"method":"session/update","params":{"sessionId":"c","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"w"}}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"c","update":{"sessionUpdate":"tool_call"}}}"#,
        r#"{"id":7,"method":"session/request_permission","params":{"sessionId":"c","options":[{"optionId":"o","kind":"reject_once"}]}}"#,
        r#"{"id":8,"method":"fs/read_text_file","params":{}}"#,
        "noise",
    ];
    match dice.roll(24) {
        line @ 0..13 => unit(lines[line as usize]),
        13..16 => {
            *requests += 1;
            Input::Frame(Frame::request("agent/start", None, *requests, r#"{"cwd":"/w"}"#))
        }
        16..19 => {
            *requests += 1;
            let body = r#"{"content":[{"type":"text","text":"t"}],"permission":"allow"}"#;
            Input::Frame(Frame::request("agent/prompt", None, *requests, body))
        }
        19 => {
            let id = dice.roll(*requests + 1);
            Input::Frame(Frame::notice("agent/cancel", None, format!(r#"{{"id":"{id}"}}"#)))
        }
        20 => Input::Deadline,
        21 => Input::Skipped(Skipped { lane: 0, why: Excess::TooLong, bytes: 9 }),
        22 if dice.roll(6) == 0 => Input::End(Ending { lane: 0, broken: None }),
        23 if dice.roll(6) == 0 => Input::Drain(Farewell::Shutdown),
        _ => Input::Other("x".to_owned(), "{}".to_owned()),
    }
}

#[test]
fn whatever_is_said_every_request_is_answered_at_most_once_and_all_are_by_the_close() {
    let mut finished = 0;
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let open = || Conversation::open(&mut Outputs::default(), setup()).unwrap();
        let (mut straight, mut moved) = (open(), open());
        let (mut requests, mut asked, mut closed) = (0, BTreeMap::new(), false);
        for _ in 0..40 {
            let input = input(&mut dice, &mut requests);
            if let Input::Frame(frame) = &input
                && frame.kind == FrameKind::Request
                && !closed
            {
                asked.insert(frame.id.clone().unwrap(), 0);
            }
            moved = Conversation::resume(setup(), 1, &moved.suspend()).expect("its own state");
            let [mut one, mut other] = [Outputs::default(), Outputs::default()];
            straight.handle(&mut one, 5, input.clone()).expect("no fault");
            moved.handle(&mut other, 5, input).expect("no fault");
            let said = one.into_vec();
            assert_eq!(said, other.into_vec(), "a swap must not be noticed");
            for output in said {
                assert!(!closed, "{output:?} behind the close");
                match output {
                    Output::Frame(frame) if frame.kind != FrameKind::Notice => {
                        *asked.get_mut(&frame.id.unwrap()).expect("it was asked") += 1;
                    }
                    Output::Unit(unit) => {
                        serde_json::from_slice::<serde_json::Value>(&unit.bytes).expect("JSON");
                    }
                    Output::Close(_) => closed = true,
                    _ => {}
                }
            }
        }
        assert!(asked.values().all(|answers| *answers <= 1), "{asked:?}");
        if closed {
            assert!(asked.values().all(|answers| *answers == 1), "seed {seed}: {asked:?}");
            finished += 1;
        }
    }
    assert!(finished > 100, "{finished} came to an end");
}
