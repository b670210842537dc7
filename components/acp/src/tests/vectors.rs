//! The recorded conversations of the reference agent, played against the codec with the recording as host: what the
//! agent said of its own accord is given to the codec as frames, and what the codec then writes must be what was
//! recorded, apart from `departures.toml`.

#[path = "../../../../tests/support/recording.rs"]
#[allow(
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "it is a module of the tests' own support as well, and reads its recordings"
)]
mod recording;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use transom_guest::{
    Ending, Farewell, Form, Frame, FrameKind, Input, Machine, Output, Outputs, Unit,
};

use self::recording::{Bindings, Departure, Met, Step, departures, names, steps};
use super::setup;
use crate::Conversation;

/// The codec, and a host that does what the recording says.
struct Play {
    codec: Conversation,
    /// Whether to suspend and resume between every two inputs.
    swaps: bool,
    written: VecDeque<String>,
    closed: bool,
    unread: Vec<u8>,
    sessions: u64,
    /// By session: its turns so far, and whether one is open.
    turns: BTreeMap<String, (u64, bool)>,
    /// By request, as JSON: the session that it prompts.
    prompts: BTreeMap<String, String>,
    request: Value,
    asks: u64,
    /// What the agent was told of its asks.
    decided: Vec<String>,
}

impl Play {
    fn new(swaps: bool) -> Play {
        let codec = Conversation::open(&mut Outputs::default(), setup()).expect("a setup");
        Play {
            codec,
            swaps,
            written: VecDeque::new(),
            closed: false,
            unread: Vec::new(),
            sessions: 0,
            turns: BTreeMap::new(),
            prompts: BTreeMap::new(),
            request: Value::Null,
            asks: 0,
            decided: Vec::new(),
        }
    }

    fn input(&mut self, input: Input) {
        if self.swaps {
            let state = self.codec.suspend();
            self.codec = Conversation::resume(setup(), 2, &state).expect("its own state");
        }
        let mut out = Outputs::default();
        self.codec.handle(&mut out, 0, input).expect("nothing recorded is a fault");
        for output in out.into_vec() {
            match output {
                Output::Unit(unit) => {
                    self.written.push_back(String::from_utf8(unit.bytes).expect("UTF-8"));
                }
                Output::Frame(frame) => self.frame(&frame),
                Output::Close(_) => self.closed = true,
                Output::Note(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn notice(&mut self, name: &str, session: &str, body: &Value) {
        self.input(Input::Frame(Frame::notice(name, Some(session), body.to_string())));
    }

    /// Does what a frame asks for, and answers it.
    fn frame(&mut self, frame: &Frame) {
        assert_eq!(frame.kind, FrameKind::Request);
        let session = frame.session.clone().unwrap_or_default();
        let mut reply = Frame::reply(frame, "{}");
        match frame.name.as_str() {
            "events/subscribe" => {}
            "session/open" => {
                self.sessions += 1;
                // The placeholder itself is the id: then nothing has to be bound.
                reply.session = Some(format!("{{{{sessionId:{}}}}}", self.sessions));
            }
            "session/prompt" => {
                self.prompts.insert(self.request.to_string(), session.clone());
                let turn = self.begin(&session);
                let message = format!("m{}", frame.id.as_deref().unwrap_or_default());
                self.notice(
                    "inbox/claimed",
                    &session,
                    &json!({"turn": turn, "messageIds": [message]}),
                );
                reply.body = json!({"messageId": message}).to_string();
            }
            "session/cancel" => {
                self.end(&session, &json!({"kind": "aborted", "reason": {"kind": "user"}}));
            }
            "ask/answer" | "ask/settle" => self.decided.push(frame.body.clone()),
            other => panic!("no host has {other}"),
        }
        self.input(Input::Frame(reply));
    }

    /// A turn begins where none is open.
    fn begin(&mut self, session: &str) -> u64 {
        let (turn, open) = self.turns.entry(session.to_owned()).or_default();
        assert!(!*open, "one turn at a time");
        (*turn, *open) = (*turn + 1, true);
        *turn
    }

    /// The turn that is open ends, and the agent rests.
    fn end(&mut self, session: &str, reason: &Value) {
        let Some((turn, open)) = self.turns.get_mut(session).filter(|(_, open)| *open) else {
            return;
        };
        *open = false;
        let data = json!({"turn": turn, "reason": reason});
        self.notice("session/event", session, &json!({"type": "turn/end", "seq": 1, "data": data}));
        self.notice("session/status", session, &json!({"status": "idle"}));
    }

    /// Cuts lines as the host does.
    fn write(&mut self, text: &str) {
        self.unread.extend_from_slice(text.as_bytes());
        while let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=at).take(at).collect();
            self.request = serde_json::from_slice::<Value>(&line)
                .ok()
                .and_then(|line| line.get("id").cloned())
                .unwrap_or_default();
            self.input(Input::Unit(Unit { lane: 0, form: Form::Text, bytes: line }));
        }
    }

    fn end_input(&mut self) {
        let rest = std::mem::take(&mut self.unread);
        if !rest.is_empty() {
            self.input(Input::Unit(Unit { lane: 0, form: Form::Unfinished, bytes: rest }));
        }
        self.input(Input::End(Ending { lane: 0, broken: None }));
    }

    /// Makes the host say what makes the codec write this frame, if it has not been written already.
    fn provoke(&mut self, file: &str, frame: &Value) {
        let params = &frame["params"];
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        match frame["method"].as_str() {
            Some("session/update") => {
                // Of a turn that nobody prompted, where none is open.
                if !self.turns.get(&session).is_some_and(|(_, open)| *open) {
                    let turn = self.begin(&session);
                    self.notice(
                        "inbox/claimed",
                        &session,
                        &json!({"turn": turn, "messageIds": ["job"]}),
                    );
                }
                let content =
                    json!([{"type": "reasoning", "text": "x"}, params["update"]["content"]]);
                let message = json!({"role": "assistant", "content": content, "id": "a"});
                let data = json!({"turn": self.turns[&session].0, "step": 1, "message": message});
                self.notice(
                    "session/event",
                    &session,
                    &json!({"type": "assistant/message", "data": data}),
                );
            }
            Some("session/request_permission") => {
                self.asks += 1;
                let body = json!({
                    "askId": format!("q{}", self.asks), "kind": "approval", "approvalId": "a",
                    "toolName": "bash", "callId": params["toolCall"]["toolCallId"],
                    "reason": "wider", "arguments": "{}",
                });
                self.notice("ask/opened", &session, &body);
            }
            Some(other) => panic!("an agent does not say {other}"),
            None => {
                let Some(session) = self.prompts.get(&frame["id"].to_string()).cloned() else {
                    return;
                };
                let failed = frame["error"]["message"]
                    .as_str()
                    .and_then(|message| message.strip_prefix("Internal error: turn failed: "));
                let kind =
                    if file == "base-stop-length.jsonl" { "max-tokens" } else { "completed" };
                match failed {
                    Some(why) => {
                        self.end(&session, &json!({"kind": "error", "error": {"message": why}}));
                    }
                    None => self.end(&session, &json!({"kind": kind})),
                }
            }
        }
    }
}

/// Plays one recording. Gives what the codec wrote, and what was decided.
fn converse(
    file: &str,
    departures: &[Departure],
    met: &mut Met,
    swaps: bool,
) -> (Vec<String>, Vec<String>) {
    let mut play = Play::new(swaps);
    let mut bindings = Bindings::new("/cwd");
    let mut said = Vec::new();
    let steps = steps(file, departures, false);
    for step in &steps {
        match step {
            Step::Write(text) => play.write(&text.replace("{{cwd}}", "/cwd")),
            Step::EndInput => play.end_input(),
            Step::Terminate | Step::Interrupt => play.input(Input::Drain(Farewell::Shutdown)),
            Step::Exit(code) => assert!(play.closed, "{file}: not closed before exit {code}"),
            Step::Expect(expected) => {
                if play.written.is_empty() {
                    play.provoke(file, &expected.frame);
                }
                let written = play.written.pop_front();
                let written =
                    written.unwrap_or_else(|| panic!("{file}:{}: nothing is said", expected.line));
                let frame: Value = serde_json::from_str(&written).expect("JSON");
                if let Err(why) = met.compare(&mut bindings, expected, &frame) {
                    panic!("{file}:{}: {why}", expected.line);
                }
                said.push(written);
            }
        }
    }
    assert!(play.written.is_empty(), "{file}: more than was recorded: {:?}", play.written);
    (said, play.decided)
}

#[test]
fn the_automation_surface_is_spoken_as_recorded() {
    let departures = departures();
    let mut met = Met::default();
    let files: Vec<_> = names().into_iter().filter(|name| name.starts_with("base-")).collect();
    assert_eq!(files.len(), 45);
    for file in &files {
        let straight = converse(file, &departures, &mut met, false);
        let swapped = converse(file, &departures, &mut met, true);
        assert_eq!(straight, swapped, "{file}: a swap must not be noticed");
    }
    if let Some(index) = met.unneeded().next() {
        let Departure { rule, because, .. } = &departures[index];
        panic!("the departure of {rule} ({because}) is not needed any more");
    }
    let met: BTreeSet<_> = met.all().collect();
    let here = |one: &Departure| !one.host && one.is_of("base-");
    for (index, departure) in departures.iter().enumerate().filter(|(_, one)| here(one)) {
        // What puts nothing in the place of a line is met by not being played.
        let silent = format!("{departure:?}").contains("instead: Some([])");
        assert!(silent || met.contains(&index), "{departure:?} is met nowhere");
    }
}

#[test]
fn answers_to_permission_requests_reach_the_host() {
    let decided = |file: &str| {
        let (_, decided) = converse(file, &departures(), &mut Met::default(), true);
        let outcome = |body: &String| {
            let body: Value = serde_json::from_str(body).expect("JSON");
            let value = body.pointer("/value/outcome").or(body.get("outcome")).cloned();
            value.and_then(|value| value.as_str().map(str::to_owned)).expect("an outcome")
        };
        decided.iter().map(outcome).collect::<Vec<_>>()
    };
    assert_eq!(decided("base-permission-allow.jsonl"), ["allowed-once"]);
    assert_eq!(decided("base-permission-reject.jsonl"), ["rejected"]);
    assert_eq!(decided("base-permission-cancelled.jsonl"), ["cancelled"]);
    assert_eq!(decided("base-permission-error.jsonl"), ["unavailable"]);
    assert_eq!(decided("base-permission-method-not-found.jsonl"), ["unavailable"]);
    assert_eq!(decided("base-permission-pending-cancel.jsonl"), ["cancelled"]);
    assert_eq!(decided("base-permission-two-calls.jsonl"), ["allowed-once", "allowed-once"]);
}
