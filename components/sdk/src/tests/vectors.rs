//! The recorded conversations of published runtimes and clients, played against the codec with the recording as host:
//! what the runtime said on its own is given to the codec as frames, and what the codec then writes must be, byte for
//! byte, what was recorded. Where a rule asks for better than the recording, the table of departures says so.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use transom_guest::{
    Ending, Farewell, Form, Frame, FrameKind, Input, Machine, Output, Outputs, Unit,
};

use super::setup;
use crate::Conversation;

/// A response that differs from the recorded one, and why.
struct Departure {
    /// File name without the release and the ending.
    vector: &'static str,
    /// Only this release departs; both do when empty.
    release: &'static str,
    /// The request's id, as JSON.
    request: &'static str,
    rule: &'static str,
    /// Ours: `result` or `error` as JSON text, with the id where that differs too.
    answer: &'static str,
    /// A session that the recorded runtime created and this one does not.
    absent: Option<&'static str>,
}

const NEEDS_SESSION: &str =
    r#""error":{"code":-32603,"message":"session/prompt requires a non-empty sessionId string"}"#;
const NEEDS_BLOCKS: &str = r#""error":{"code":-32603,"message":"session/prompt requires contentBlocks to be an array of objects with a string type"}"#;
const NEEDS_CWD: &str = r#""error":{"code":-32603,"message":"initialize cwd must be a string"}"#;

const fn departs(
    vector: &'static str,
    release: &'static str,
    request: &'static str,
    rule: &'static str,
    answer: &'static str,
    absent: Option<&'static str>,
) -> Departure {
    Departure { vector, release, request, rule, answer, absent }
}

const DEPARTURES: [Departure; 15] = [
    departs("bad-prompt-params", "", r#""bp-0""#, "S-56", NEEDS_SESSION, None),
    departs("bad-prompt-params", "", r#""bp-1""#, "S-56", NEEDS_BLOCKS, Some("s-noblocks")),
    departs("bad-prompt-params", "", r#""bp-2""#, "S-56", NEEDS_BLOCKS, Some("s-str")),
    departs("bad-prompt-params", "", r#""bp-4""#, "S-56", NEEDS_SESSION, Some("7")),
    departs("bad-prompt-params", "", r#""bp-5""#, "S-56", NEEDS_SESSION, Some("")),
    departs(
        "framing-extras",
        "",
        r#""surrogate""#,
        "S-17",
        "\"error\":{\"code\":-32603,\"message\":\"unknown DeepSeek Harness SDK runtime method: probe-\u{fffd}\"}",
        None,
    ),
    departs(
        "framing-extras",
        "",
        "12345678901234567000",
        "S-18",
        r#""id":12345678901234567890,"error":{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: probe"}"#,
        None,
    ),
    departs("initialize", "", r#""noparams""#, "S-43", NEEDS_CWD, None),
    departs("initialize", "", r#""arr""#, "S-43", NEEDS_CWD, None),
    departs("initialize", "", r#""cwdnum""#, "S-43", NEEDS_CWD, None),
    departs(
        "initialize",
        "v0.1.0rc6",
        r#""effort-empty""#,
        "S-49",
        r#""error":{"code":-32603,"message":"initialize reasoningEffort must be a non-empty string"}"#,
        None,
    ),
    departs(
        "initialize",
        "v0.1.0rc6",
        r#""effort-bad""#,
        "S-49",
        r#""error":{"code":-32603,"message":"provider \"deepseek-official\" model \"deepseek-v4-flash\" does not support reasoning effort \"ultra\""}"#,
        None,
    ),
    departs(
        "initialize",
        "",
        r#""nomodel""#,
        "S-43",
        r#""error":{"code":-32603,"message":"initialize model must be a string"}"#,
        None,
    ),
    departs(
        "prompt-before-initialize",
        "v0.1.0rc6",
        r#""p0""#,
        "S-48",
        r#""error":{"code":-32603,"message":"SDK server is not initialized"}"#,
        Some("main"),
    ),
    departs(
        "same-session-id-new-process",
        "v0.1.0rc6",
        r#""p1""#,
        "S-123",
        r#""error":{"code":-32603,"message":"session \"main\" already exists"}"#,
        Some("main"),
    ),
];

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Line<'a> {
    dir: Option<String>,
    #[serde(borrow)]
    frame: Option<&'a RawValue>,
    raw: Option<String>,
    raw_bytes_hex: Option<String>,
    raw_bytes_split_inside_utf8: Option<String>,
}

impl Line<'_> {
    /// The bytes of a `send` line.
    fn bytes(&self) -> Vec<u8> {
        if let Some(frame) = self.frame {
            return format!("{}\n", frame.get()).into_bytes();
        }
        if let Some(hex) = &self.raw_bytes_hex {
            let digit = |byte: &u8| char::from(*byte).to_digit(16).expect("hex") as u8;
            return hex
                .as_bytes()
                .chunks(2)
                .map(|pair| digit(&pair[0]) * 16 + digit(&pair[1]))
                .collect();
        }
        let text = self.raw.as_ref().or(self.raw_bytes_split_inside_utf8.as_ref());
        text.expect("a frame, raw text or raw bytes").clone().into_bytes()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Received<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<Notified<'a>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notified<'a> {
    session_id: Option<String>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    status: Option<String>,
    parent_session_id: Option<String>,
    child_session_id: Option<String>,
    provider: Option<String>,
    agent_id: Option<String>,
    stop_reason: Option<String>,
    #[serde(borrow)]
    last_assistant_message: Option<&'a RawValue>,
}

impl Notified<'_> {
    fn session(&self) -> &str {
        let session = self.session_id.as_ref().or(self.parent_session_id.as_ref());
        session.expect("every notification is about a session")
    }

    /// The notice that the host would give.
    fn notice(&self, method: &str) -> Frame {
        match method {
            "session.event" => Frame::notice(
                "session/event",
                Some(self.session()),
                self.event.expect("an event").get(),
            ),
            "session.status" => {
                let body = json!({"status": self.status});
                Frame::notice("session/status", Some(self.session()), body.to_string())
            }
            "subagent.started" => {
                let body = json!({"lastSeq": -1, "blank": true, "parentSessionId": self.parent_session_id});
                Frame::notice("session/added", self.child_session_id.as_deref(), body.to_string())
            }
            "subagent.finished" => {
                let message = self.last_assistant_message.map(RawValue::get);
                let body = format!(
                    r#"{{"runId":"r","provider":{},"agentId":{},"childSessionId":{},"local":true,"stopReason":{}{}}}"#,
                    json!(self.provider),
                    json!(self.agent_id),
                    json!(self.child_session_id),
                    json!(self.stop_reason),
                    message
                        .map(|message| format!(",\"lastAssistantMessage\":{message}"))
                        .unwrap_or_default()
                );
                Frame::notice("subagent/finished", Some(self.session()), body)
            }
            other => panic!("a notification that the wire does not have: {other}"),
        }
    }
}

/// The codec, and a host that answers what needs no recording.
struct Play {
    codec: Conversation,
    /// Whether to suspend and resume between every two inputs.
    swaps: bool,
    stored: BTreeSet<&'static str>,
    written: VecDeque<String>,
    /// Frames of a request that the recording answers, by the request's id.
    asked: BTreeMap<String, Frame>,
    /// The request that is being handled.
    request: String,
    closed: Option<String>,
}

impl Play {
    fn new(swaps: bool, stored: &[&'static str]) -> Play {
        let codec =
            Conversation::open(&mut Outputs::default(), setup()).expect("a setup that is accepted");
        Play {
            codec,
            swaps,
            stored: stored.iter().copied().collect(),
            written: VecDeque::new(),
            asked: BTreeMap::new(),
            request: String::new(),
            closed: None,
        }
    }

    fn input(&mut self, input: Input) {
        if self.swaps {
            let state = self.codec.suspend();
            self.codec = Conversation::resume(setup(), 1, &state).expect("its own state");
        }
        let mut out = Outputs::default();
        self.codec.handle(&mut out, 0, input).expect("nothing recorded is a fault");
        for output in out.into_vec() {
            match output {
                Output::Unit(unit) => {
                    self.written.push_back(String::from_utf8(unit.bytes).expect("UTF-8"))
                }
                Output::Frame(frame) => self.frame(frame),
                Output::Close(closing) => self.closed = Some(closing.reason),
                other => panic!("{other:?}"),
            }
        }
    }

    fn frame(&mut self, frame: Frame) {
        let body: Value = serde_json::from_str(&frame.body).expect("a body is JSON");
        let session = frame.session.clone().unwrap_or_default();
        let refusal = match frame.name.as_str() {
            "models/check" if body["provider"] == "private" => Some("no-adapter"),
            "models/check" if body["reasoningEffort"] == "ultra" => Some("effort-unsupported"),
            "session/open" if body["want"] == "new" && self.stored.contains(&*session) => {
                Some("session-exists")
            }
            "session/open" if body["want"] == "stored" && !self.stored.contains(&*session) => {
                Some("session-not-found")
            }
            "models/check" | "events/subscribe" | "session/open" => None,
            _ => {
                self.asked.insert(self.request.clone(), frame);
                return;
            }
        };
        let answer = match refusal {
            None => Frame { kind: FrameKind::Reply, body: "{}".to_owned(), ..frame },
            Some(code) => {
                let body = json!({"code": code, "message": "the host's own words", "details": {}})
                    .to_string();
                Frame { kind: FrameKind::Failure, body, ..frame }
            }
        };
        self.input(Input::Frame(answer));
    }

    /// Cuts lines as the host does and hands them over.
    fn send(&mut self, bytes: &[u8]) {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let rest = lines.pop().expect("one piece at least");
        let whole = lines.into_iter().map(|line| (Form::Text, line));
        let rest = (!rest.is_empty()).then_some((Form::Unfinished, rest));
        for (form, line) in whole.chain(rest) {
            #[derive(Deserialize)]
            struct Asked<'a> {
                #[serde(borrow)]
                id: &'a RawValue,
            }
            self.request = match serde_json::from_slice::<Asked<'_>>(line) {
                Ok(asked) => asked.id.get().to_owned(),
                Err(_) => String::new(),
            };
            self.input(Input::Unit(Unit { lane: 0, form, bytes: line.to_vec() }));
        }
    }

    /// Answers the frame of a request.
    fn reply(&mut self, request: &str, body: &str) {
        if let Some(frame) = self.asked.remove(request) {
            self.input(Input::Frame(Frame {
                kind: FrameKind::Reply,
                body: body.to_owned(),
                ..frame
            }));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test reads its recordings")]
fn recordings(prefix: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/sdk");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder of recordings")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.to_owned();
            name.starts_with(prefix)
                .then(|| (name, std::fs::read_to_string(path).expect("a recording is text")))
        })
        .collect();
    files.sort();
    files
}

/// Plays one recording of a runtime. Gives everything that the codec wrote, and the departures that were met.
fn converse(
    release: &str,
    vector: &str,
    text: &str,
    swaps: bool,
) -> (Vec<String>, Vec<&'static str>) {
    let stored: &[&str] = match vector {
        "same-session-id-new-process" | "resume-wait-working-directory" => &["main"],
        _ => &[],
    };
    let mut play = Play::new(swaps, stored);
    let departures: Vec<&Departure> = DEPARTURES
        .iter()
        .filter(|departure| {
            departure.vector == vector && ["", release].contains(&departure.release)
        })
        .collect();
    let mut said = Vec::new();
    let mut met = Vec::new();

    for line in text.lines() {
        let line: Line<'_> = serde_json::from_str(line).expect("a line of a recording");
        match line.dir.as_deref() {
            Some("send") => play.send(&line.bytes()),
            Some("stdin-close") => play.input(Input::End(Ending { lane: 0, broken: None })),
            Some("signal") => play.input(Input::Drain(Farewell::Shutdown)),
            Some("stdout-eof") => assert!(play.closed.is_some(), "{vector}: not closed"),
            Some("recv") => {
                let recorded = line.frame.expect("a frame").get();
                let frame: Received<'_> = serde_json::from_str(recorded).expect("a frame");
                let expected = match (&frame.method, frame.id) {
                    (Some(method), _) => {
                        let notified = frame.params.expect("params");
                        if departures
                            .iter()
                            .any(|departure| departure.absent == Some(notified.session()))
                        {
                            continue;
                        }
                        play.input(Input::Frame(notified.notice(method)));
                        recorded.to_owned()
                    }
                    (None, id) => {
                        let id = id.expect("an id").get();
                        play.reply(id, frame.result.map_or("{}", RawValue::get));
                        match departures.iter().find(|departure| departure.request == id) {
                            None => recorded.to_owned(),
                            Some(departure) => {
                                met.push(departure.rule);
                                let id = match departure.answer.starts_with("\"id\"") {
                                    true => String::new(),
                                    false => format!("\"id\":{id},"),
                                };
                                format!("{{\"jsonrpc\":\"2.0\",{id}{}}}", departure.answer)
                            }
                        }
                    }
                };
                let written = play.written.pop_front();
                assert_eq!(written.as_deref(), Some(&*expected), "{release}.{vector}");
                said.push(expected);
            }
            Some("meta" | "exit" | "stderr") => {}
            other => panic!("{vector}: a line of kind {other:?}"),
        }
    }
    assert_eq!(
        play.written,
        VecDeque::<String>::new(),
        "{release}.{vector}: more than was recorded"
    );
    (said, met)
}

#[track_caller]
fn every_recording_of(release: &str, count: usize) {
    let mut played = 0;
    for (name, text) in recordings(release) {
        let vector =
            name.strip_prefix(release).and_then(|name| name.strip_prefix('.')).expect("a release");
        // How a runtime is started is no matter of the codec.
        if vector == "launch" {
            continue;
        }
        let (said, met) = converse(release, vector, &text, false);
        assert_eq!(
            (said, met.clone()),
            converse(release, vector, &text, true),
            "a swap must not be noticed"
        );
        let listed: BTreeSet<&str> = DEPARTURES
            .iter()
            .filter(|departure| {
                departure.vector == vector && ["", release].contains(&departure.release)
            })
            .map(|departure| departure.rule)
            .collect();
        assert_eq!(
            met.into_iter().collect::<BTreeSet<_>>(),
            listed,
            "{name}: departures that are listed are met"
        );
        played += 1;
    }
    assert_eq!(played, count, "recordings of {release}");
}

#[test]
fn the_baseline_is_spoken_as_recorded() {
    every_recording_of("v0.1.0rc6", 23);
}

#[test]
fn the_later_release_is_spoken_as_recorded() {
    every_recording_of("v0.2.1rc2", 29);
}

/// S-214: whatever a published client sends, each request is answered once and nothing else is.
#[test]
fn published_clients_are_answered() {
    let clients = recordings("client");
    assert_eq!(clients.len(), 3);
    for (name, text) in clients {
        let mut play = Play::new(true, &[]);
        let mut requests = 0;
        for line in text.lines() {
            let line: Line<'_> = serde_json::from_str(line).expect("a line of a recording");
            match line.dir.as_deref() {
                Some("client->runtime") => {
                    let raw = line.raw.expect("raw text");
                    play.send(raw.as_bytes());
                    let message: Value = serde_json::from_str(&raw).expect("clients send JSON");
                    let id = message["id"].to_string();
                    let body = match message["method"].as_str() {
                        Some("session/prompt") => r#"{"messageId":"m"}"#,
                        Some("session/working-directory/get" | "session/working-directory/set") => {
                            r#"{"cwd":"/"}"#
                        }
                        _ => "{}",
                    };
                    play.reply(&id, body);
                    if message["id"].is_string() && message["method"].is_string() {
                        requests += 1;
                        let answer: Value =
                            serde_json::from_str(&play.written.pop_front().expect("an answer"))
                                .expect("JSON");
                        assert_eq!(answer["id"], message["id"]);
                        let refused = message["method"] == "nope";
                        assert_eq!(answer["error"]["code"] == -32603, refused, "{name}: {answer}");
                        assert_eq!(answer["result"].is_object(), !refused, "{name}: {answer}");
                    }
                    assert_eq!(play.written.len(), 0, "{name}: an answer to what is no request");
                }
                Some("client stdin EOF") => {
                    play.input(Input::End(Ending { lane: 0, broken: None }))
                }
                _ => {}
            }
        }
        assert!(requests >= 4, "{name}");
        assert_eq!(play.closed.as_deref(), Some("shutdown"), "{name}");
    }
}
