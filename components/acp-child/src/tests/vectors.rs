//! The recorded runs, played against the codec with the recording as agent and as host: what the codec writes must be
//! what was recorded, apart from `departures.toml`.

#[path = "../../../../tests/support/child_recording.rs"]
#[allow(
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "it is a module of the tests' own support as well, and reads its recordings"
)]
mod child_recording;

use std::collections::VecDeque;

use serde_json::{Value, json};
use transom_guest::{
    Ending, Farewell, Form, Frame, FrameKind, Input, Machine, Output, Outputs, Unit,
};

use self::child_recording::{Intervention, backend, intervention, lines, names};
use super::setup;
use crate::Conversation;

/// The codec, and a host that does what the recording's caller did.
struct Play {
    codec: Conversation,
    swaps: bool,
    written: VecDeque<Value>,
    published: bool,
    rejected: Option<Value>,
    result: Option<Value>,
    closed: bool,
}

impl Play {
    fn new(swaps: bool) -> Play {
        let mut out = Outputs::default();
        let codec = Conversation::open(&mut out, setup()).expect("a setup");
        let mut play = Play {
            codec,
            swaps,
            written: VecDeque::new(),
            published: false,
            rejected: None,
            result: None,
            closed: false,
        };
        play.perform(out);
        play.input(Input::Frame(Frame::request("agent/start", None, "s", r#"{"cwd":"{{cwd}}"}"#)));
        play
    }

    fn input(&mut self, input: Input) {
        if self.swaps {
            let state = self.codec.suspend();
            self.codec = Conversation::resume(setup(), 1, &state).expect("its own state");
        }
        let mut out = Outputs::default();
        self.codec.handle(&mut out, 0, input).expect("nothing recorded is a fault");
        self.perform(out);
    }

    fn perform(&mut self, out: Outputs) {
        for output in out.into_vec() {
            match output {
                Output::Unit(unit) => {
                    self.written.push_back(serde_json::from_slice(&unit.bytes).expect("JSON"));
                }
                Output::Frame(frame) => {
                    let body: Value = serde_json::from_str(&frame.body).expect("JSON");
                    match (frame.kind, frame.name.as_str()) {
                        (FrameKind::Reply, "agent/start") => self.published = true,
                        (FrameKind::Failure, "agent/start") => self.rejected = Some(body),
                        (FrameKind::Reply, "agent/prompt") => self.result = Some(body),
                        (FrameKind::Notice, "agent/output") => {}
                        other => panic!("{other:?}"),
                    }
                }
                Output::Close(_) => self.closed = true,
                Output::Deadline(_) | Output::Note(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// What a failure comes to in the words of the host; which exit it was is the host's to add.
fn begins(expected: &Value, message: &Value, stage: &Value, category: &Value) -> bool {
    let expected = expected.as_str().unwrap_or_default();
    let [message, stage, category] =
        [message, stage, category].map(|value| value.as_str().unwrap_or_default());
    let category = if expected.contains("process-exit") { "process-exit" } else { category };
    expected.starts_with(&format!("{message} (stage: {stage}, category: {category}"))
}

fn converse(file: &str, swaps: bool) -> Vec<Value> {
    let lines = lines(file);
    let mut play = Play::new(swaps);
    let mut said = Vec::new();
    let interventions = intervention(file);
    for (index, line) in lines.iter().enumerate() {
        if play.published && play.result.is_none() && said.len() == 2 && play.written.is_empty() {
            // The task of the recordings.
            let body = json!({
                "content": [{"type": "text", "text": "do it"}, {"type": "text", "text": "and more"}],
                "permission": if file.contains("allow") { "allow" } else { "reject" },
            });
            play.input(Input::Frame(Frame::request("agent/prompt", None, "a", body.to_string())));
        }
        match (line["from"].as_str(), line.get("frame"), line["event"].as_str()) {
            (Some("parent"), Some(frame), _) => {
                let next = frame["method"] == "session/cancel";
                if play.written.is_empty() && next {
                    match interventions {
                        Intervention::Abort => play.input(Input::Frame(Frame::notice(
                            "agent/cancel",
                            None,
                            r#"{"id":"a","reason":"aborted"}"#,
                        ))),
                        Intervention::Dispose => play.input(Input::Drain(Farewell::Shutdown)),
                        Intervention::None => {}
                    }
                }
                let written = play.written.pop_front();
                assert_eq!(written.as_ref(), Some(frame), "{file}: line {index}");
                said.extend(written);
            }
            (Some("child"), Some(frame), _) => {
                let bytes = frame.to_string().into_bytes();
                play.input(Input::Unit(Unit { lane: 0, form: Form::Text, bytes }));
            }
            (Some("parent"), None, Some("stdin-eof")) if !play.closed => {
                play.input(Input::Drain(Farewell::Shutdown));
                assert!(play.closed, "{file}: the input ends with the close");
            }
            (Some("backend"), ..) if !play.closed => {
                play.input(Input::End(Ending { lane: 0, broken: None }));
            }
            (Some("parent" | "backend" | "process"), ..) => {}
            _ => panic!("{file}: line {index}: {line}"),
        }
    }
    // An agent that ended at once has read nothing, so nothing was recorded.
    let read = lines.iter().any(|line| line["from"] == "parent");
    assert!(!read || play.written.is_empty(), "{file}: more than was recorded: {:?}", play.written);
    assert_eq!(play.published, backend(&lines, "published").is_some(), "{file}");
    match (backend(&lines, "rejected"), &play.rejected) {
        (Some(expected), Some(found)) => {
            let details = &found["details"];
            // One that was aborted is told without a place.
            let whole = found["message"] == *expected;
            let placed =
                begins(expected, &found["message"], &details["stage"], &details["category"]);
            assert!(whole || placed, "{file}: {expected} is not what {found} says");
        }
        (None, None) => {}
        (expected, found) => panic!("{file}: {expected:?} is not {found:?}"),
    }
    match (backend(&lines, "result"), &play.result) {
        (Some(expected), Some(found)) => {
            for member in ["output", "stopReason"] {
                assert_eq!(expected[member], found[member], "{file}: {member}");
            }
            let (expected, told) = (&expected["diagnostic"], &found["diagnostic"]);
            let placed = begins(expected, told, &found["stage"], &found["category"]);
            assert!(expected == told || placed, "{file}: {expected} is not what {found} says");
        }
        (None, None) => {}
        (expected, found) => panic!("{file}: {expected:?} is not {found:?}"),
    }
    said
}

#[test]
fn the_client_side_is_spoken_as_recorded() {
    let files = names();
    assert_eq!(files.len(), 23);
    for file in &files {
        // Neither of them reaches a codec.
        if ["child-happy-missing-binary.jsonl", "child-happy-no-text.jsonl"].contains(&&**file) {
            continue;
        }
        assert_eq!(
            converse(file, false),
            converse(file, true),
            "{file}: a swap must not be noticed"
        );
    }
}
