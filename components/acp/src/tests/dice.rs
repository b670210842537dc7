//! Conversations by dice: whatever a client and a host say, in whatever order, each request is answered once, nothing is a
//! fault, and a swap is never noticed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use transom_guest::{Ending, Form, Frame, FrameKind, Input, Machine, Output, Outputs, Unit};

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

/// A client and a host without manners, with two codecs that must say the same: one goes on, one is moved all the time.
struct Table {
    straight: Conversation,
    moved: Conversation,
    /// Frames that the host has not answered.
    owed: Vec<Frame>,
    /// By request, how often it was answered.
    answers: BTreeMap<u64, usize>,
    sessions: u64,
    permissions: Vec<u64>,
}

impl Table {
    fn new(options: &str) -> Table {
        let open =
            || Conversation::open(&mut Outputs::default(), with_options(options)).expect("options");
        Table {
            straight: open(),
            moved: open(),
            owed: Vec::new(),
            answers: BTreeMap::new(),
            sessions: 0,
            permissions: Vec::new(),
        }
    }

    fn input(&mut self, options: &str, input: Input) {
        let state = self.moved.suspend();
        self.moved = Conversation::resume(with_options(options), 2, &state).expect("its own state");
        let [mut one, mut other] = [Outputs::default(), Outputs::default()];
        self.straight.handle(&mut one, 0, input.clone()).expect("no fault");
        self.moved.handle(&mut other, 0, input).expect("no fault");
        let said = one.into_vec();
        assert_eq!(said, other.into_vec(), "a swap must not be noticed");
        for output in said {
            match output {
                Output::Frame(frame) => self.owed.push(frame),
                Output::Unit(unit) => {
                    let unit: Value = serde_json::from_slice(&unit.bytes).expect("JSON");
                    match (unit["method"].as_str(), unit["id"].as_u64()) {
                        (Some("session/request_permission"), Some(id)) => self.permissions.push(id),
                        (None, Some(id)) => *self.answers.entry(id).or_default() += 1,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// What a client writes.
    fn line(&mut self, dice: &mut Dice, id: u64) -> String {
        let session = some_session(dice);
        let at =
            |method: &str, params: Value| json!({"id": id, "method": method, "params": params});
        let request = match dice.roll(12) {
            0 => json!({"id": id, "method": "initialize", "params": {"protocolVersion": 1}}),
            1 => json!({"id": id, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}),
            2..=4 => json!({"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}}),
            5 => return json!({"method": "session/cancel", "params": {"sessionId": session}}).to_string(),
            6 => return json!({"method": "$/cancel_request", "params": {"requestId": dice.roll(id + 1)}}).to_string(),
            // Unknown methods where the surface has none of them.
            8 => at("session/list", json!({})),
            9 => at("session/resume", json!({"sessionId": format!("r{}", dice.roll(2)), "cwd": "/w"})),
            10 => at("session/close", json!({"sessionId": session})),
            11 => {
                let choice = json!({"sessionId": session, "configId": "model", "value": "[\"p\",\"m\"]"});
                at("session/set_config_option", choice)
            }
            _ => {
                let asked = self.permissions.len() as u64;
                let id = if asked == 0 { 0 } else { self.permissions[dice.roll(asked) as usize] };
                let option = if dice.roll(2) == 0 { "allow-once" } else { "x" };
                return json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}}).to_string();
            }
        };
        self.answers.insert(id, 0);
        request.to_string()
    }

    /// What a host says: an answer that is owed, to whichever frame, or a notice out of nowhere.
    fn frame(&mut self, dice: &mut Dice) -> Option<Frame> {
        if dice.roll(2) == 0 {
            let at = dice.roll(self.owed.len() as u64 + 1) as usize;
            if at == self.owed.len() {
                return None;
            }
            let frame = self.owed.remove(at);
            if dice.roll(5) == 0 {
                let body =
                    json!({"code": "overloaded", "message": "no", "details": {}}).to_string();
                return Some(Frame { kind: FrameKind::Failure, body, ..frame });
            }
            let mut reply = Frame { kind: FrameKind::Reply, ..frame };
            reply.body = match reply.name.as_str() {
                "session/open" => {
                    if reply.session.is_none() {
                        reply.session = Some(format!("s{}", self.sessions));
                        self.sessions += 1;
                    }
                    json!({"cwd": "/w", "route": {"provider": "p", "model": "m"}}).to_string()
                }
                "attachment/read" => {
                    json!({"attachment": {"mediaType": "image/png"}, "data": "AA=="}).to_string()
                }
                "session/prompt" => json!({"messageId": format!("m{}", dice.roll(6))}).to_string(),
                "session/describe" => json!({"running": dice.roll(2) == 0}).to_string(),
                "models/check" => json!({"images": dice.roll(2) == 0}).to_string(),
                _ => "{}".to_owned(),
            };
            return Some(reply);
        }
        let (turn, message) = (dice.roll(4), format!("m{}", dice.roll(6)));
        let reason = [
            json!({"kind": "completed"}),
            json!({"kind": "error", "error": {"message": "e"}}),
            json!({"kind": "interrupted"}),
        ];
        let image = json!({"type": "image", "attachment": {"attachmentId": "a"}});
        let (name, body) = match dice.roll(10) {
            0 => ("session/status", json!({"status": "idle"})),
            1 => ("session/status", json!({"status": "running"})),
            2 => ("inbox/claimed", json!({"turn": turn, "messageIds": [message]})),
            3 => ("agent/error", json!({"turn": turn, "message": "e", "messageIds": [message]})),
            4 => (
                "session/event",
                json!({"type": "turn/end", "data": {"turn": turn, "reason": reason[dice.roll(3) as usize]}}),
            ),
            5 => {
                let mut ask = json!({"askId": message, "kind": "approval", "approvalId": "a", "callId": "c", "toolName": "t"});
                if dice.roll(2) == 0 {
                    ask["rootSessionId"] = json!(format!("s{}", dice.roll(3)));
                }
                ("ask/opened", ask)
            }
            6 => {
                let message = json!({"id": message, "content": [image]});
                let data = json!({"turn": turn, "message": message});
                ("session/event", json!({"type": "assistant/message", "data": data}))
            }
            7 => ("session/event", json!({"type": "turn/start", "data": {"turn": turn}})),
            8 if dice.roll(8) == 0 => ("models/changed", json!({})),
            _ if dice.roll(8) == 0 => ("session/removed", json!({"why": "closed"})),
            _ => (
                "ask/closed",
                json!({"askId": message, "kind": "approval", "outcome": "cancelled"}),
            ),
        };
        Some(Frame::notice(name, Some(&some_session(dice)), body.to_string()))
    }
}

/// One that a host has minted, or one that is gone on with.
fn some_session(dice: &mut Dice) -> String {
    ["s0", "s1", "s2", "r0", "r1"][dice.roll(5) as usize].to_owned()
}

#[test]
fn each_request_is_answered_once_whatever_happens() {
    let mut settled = [0; 2];
    for seed in 0..600 {
        let options = ["{}", r#"{"images":true}"#, r#"{"surface":"standard"}"#];
        let options = options[seed as usize % options.len()];
        let mut dice = Dice(seed);
        let mut table = Table::new(options);
        for id in 0..120 {
            let input = if dice.roll(3) == 0 {
                let bytes = table.line(&mut dice, id).into_bytes();
                Input::Unit(Unit { lane: 0, form: Form::Text, bytes })
            } else {
                let Some(frame) = table.frame(&mut dice) else { continue };
                Input::Frame(frame)
            };
            table.input(options, input);
            for (id, times) in &table.answers {
                assert!(*times <= 1, "request {id} was answered {times} times, seed {seed}");
            }
        }
        settled[0] += table.answers.values().filter(|times| **times == 1).count();
        table.input(options, Input::End(Ending { lane: 0, broken: None }));
        for (id, times) in &table.answers {
            assert_eq!(*times, 1, "request {id}, seed {seed}");
        }
        settled[1] += table.answers.len();
    }
    // The dice reach both: answers on the way, and answers at the end.
    assert!(settled[0] > 1_000 && settled[1] > settled[0], "{settled:?}");
}
