//! A codec for tests that does what its peer tells it, and a player that prints what a connection makes of it.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use transom_frame::{Failure, Fault, FaultKind, Frame, FrameId, FrameKind};
use transom_framing::Excess;
use transom_policy::Policy;

use crate::{
    Connection, Effect, Event, Level, ReplaceError, Serving,
    codec::{
        Closing, Codec, CodecError, CodecSource, Farewell, Form, Framing, Head, Input, Manifest,
        Millis, Output, Setup, Unit,
    },
};

/// The policy of most stories: small numbers that are easily crossed.
pub(crate) const POLICY: &str = r#"
[frames]
allow = ["session/*", "tools/progress", "host/describe"]
[limits]
pending-requests-max = 2
unwritten-bytes-rest = 100
unwritten-bytes-stop = 200
"#;

/// A component version, as a story needs it.
pub(crate) struct Script {
    pub(crate) version: &'static str,
    pub(crate) manifest: Manifest,
    /// Commands that `open` performs.
    pub(crate) greeting: &'static str,
    /// How many further calls of each instance go well before one traps.
    pub(crate) calls_max: u64,
    pub(crate) suspends: bool,
    pub(crate) resumes: bool,
    /// Instances that were opened or resumed and still live.
    pub(crate) alive: Arc<AtomicU64>,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            version: "1",
            manifest: Manifest {
                protocol: "script".to_owned(),
                revisions: Vec::new(),
                framings: vec![Framing::Lines, Framing::Chunks, Framing::Messages],
                sends: ["session/*", "tools/*", "host/shutdown"].map(str::to_owned).to_vec(),
                headers: Vec::new(),
                state_format: 1,
                resumes: vec![1],
            },
            greeting: "",
            calls_max: u64::MAX,
            suspends: true,
            resumes: true,
            alive: Arc::new(AtomicU64::new(0)),
        }
    }
}

impl Script {
    fn instance(&self, heard: u64, on_failure: String) -> Box<dyn Codec> {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Box::new(Instance {
            heard,
            on_failure,
            calls_left: self.calls_max,
            suspends: self.suspends,
            memory: 4096,
            alive: self.alive.clone(),
        })
    }
}

impl CodecSource for Script {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn identity(&self) -> Arc<str> {
        format!("script {}", self.version).into()
    }

    fn open(&self, _: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
        let outputs = perform(self.greeting)?;
        Ok((self.instance(0, String::new()), outputs))
    }

    fn resume(&self, setup: &Setup, _: u32, state: &[u8]) -> Result<Box<dyn Codec>, CodecError> {
        if !self.resumes || setup.options.contains("refuse") {
            return Err(CodecError::Fault(Fault::new(FaultKind::Unsupported, "not this state")));
        }
        let text = String::from_utf8(state.to_vec()).expect("state is text");
        let (heard, on_failure) = text.split_once(' ').expect("two parts");
        Ok(self.instance(heard.parse().expect("a number"), on_failure.to_owned()))
    }
}

struct Instance {
    heard: u64,
    on_failure: String,
    calls_left: u64,
    suspends: bool,
    memory: u64,
    alive: Arc<AtomicU64>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Codec for Instance {
    fn handle(&mut self, now: Millis, input: Input) -> Result<Vec<Output>, CodecError> {
        let Some(calls_left) = self.calls_left.checked_sub(1) else {
            return Err(CodecError::Trap("unreachable".to_owned()));
        };
        self.calls_left = calls_left;
        self.heard += 1;
        let heard = self.heard;
        match input {
            Input::Unit(unit) if unit.form == Form::Text => {
                let text = String::from_utf8(unit.bytes).expect("scripts are text");
                if let Some(commands) = text.strip_prefix("on-failure ") {
                    self.on_failure = commands.to_owned();
                    return Ok(Vec::new());
                }
                if let Some(bytes) = text.strip_prefix("grow ") {
                    self.memory += bytes.parse::<u64>().expect("a number");
                    return perform(&format!("say {heard} has {}", self.memory));
                }
                perform(&text.replace("$n", &heard.to_string()))
            }
            Input::Frame(frame)
                if frame.kind == FrameKind::Failure && !self.on_failure.is_empty() =>
            {
                perform(&self.on_failure)
            }
            Input::Frame(frame) => perform(&format!("say {heard} heard {}", show(&frame))),
            Input::Deadline => perform(&format!("say {heard} deadline at {now}")),
            other => perform(&format!("say {heard} {other:?}")),
        }
    }

    fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
        if !self.suspends {
            return Err(CodecError::Trap("suspend".to_owned()));
        }
        Ok(format!("{} {}", self.heard, self.on_failure).into_bytes())
    }

    fn memory_bytes(&self) -> u64 {
        self.memory
    }
}

/// Commands, separated by `; `, to outputs.
fn perform(commands: &str) -> Result<Vec<Output>, CodecError> {
    let mut out = Vec::new();
    for command in commands.split("; ").filter(|command| !command.is_empty()) {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let unit = |lane, form| {
            Output::Unit(Unit { lane, form, bytes: rest.replace("\\n", "\n").into_bytes() })
        };
        out.push(match verb {
            "say" => unit(0, Form::Text),
            "say-binary" => unit(0, Form::Binary),
            "say-unfinished" => unit(0, Form::Unfinished),
            "say-on-lane-1" => unit(1, Form::Text),
            "head" => Output::Head(Head { lane: 0, fields: Vec::new() }),
            "end" => Output::End(rest.parse().unwrap_or(0)),
            "abort" => Output::Abort(rest.parse().unwrap_or(0)),
            "request" => Output::Frame(Frame::request(second, None, first.into(), "{}")),
            "request-without-id" => {
                Output::Frame(Frame { id: None, ..Frame::request(first, None, "".into(), "{}") })
            }
            "notice" => Output::Frame(Frame::notice(first, None, "{}")),
            "notice-with-id" => {
                Output::Frame(Frame { id: Some("x".into()), ..Frame::notice(first, None, "{}") })
            }
            "reply" => Output::Frame(Frame::reply(&asked(first, second), None, "{}")),
            "deadline" => Output::Deadline(rest.parse().ok()),
            "close" => {
                Output::Close(Closing { code: first.parse().ok(), reason: second.to_owned() })
            }
            "note" => Output::Note(first.to_owned(), second.to_owned()),
            "other" => Output::Other(first.to_owned(), second.to_owned()),
            "fault" => {
                return Err(CodecError::Fault(Fault::new(FaultKind::Malformed, rest)));
            }
            "trap" => return Err(CodecError::Trap("wasm trap: unreachable".to_owned())),
            other => panic!("unknown command {other}"),
        });
    }
    Ok(out)
}

/// A request of the host's, as far as its answer needs it.
fn asked(id: &str, name: &str) -> Frame {
    Frame::request(name, None, id.into(), "{}")
}

fn show(frame: &Frame) -> String {
    let id = frame.id.as_ref().map_or_else(String::new, |id| format!(" {id}"));
    let session =
        frame.session.as_ref().map_or_else(String::new, |session| format!(" in {session}"));
    format!("{} {}{id}{session} {}", frame.kind.as_str(), frame.name, frame.body)
}

pub(crate) fn setup(framing: Framing) -> Setup {
    Setup { framing, seed: (1, 2), options: "{}".to_owned(), facts: Vec::new() }
}

pub(crate) fn serving(source: Arc<dyn CodecSource>, policy: Arc<Policy>) -> Serving {
    Serving { number: 1, source, options: "{}".into(), policy }
}

/// One connection under test and everything it said.
pub(crate) struct Player {
    pub(crate) connection: Connection,
    pub(crate) transcript: String,
    /// What the next version gets.
    pub(crate) options: &'static str,
    pub(crate) policy: Arc<Policy>,
}

impl Player {
    pub(crate) fn open(source: Arc<dyn CodecSource>, framing: Framing, policy: &str) -> Player {
        let policy = Arc::new(Policy::parse("test.toml", policy).expect("a policy"));
        let mut out = Vec::new();
        let connection =
            Connection::open(&mut out, serving(source, Arc::clone(&policy)), setup(framing))
                .expect("the connection opens");
        let mut player = Player { connection, transcript: String::new(), options: "{}", policy };
        player.print(out);
        player
    }

    /// Plays one line: time, what happened, details.
    pub(crate) fn play(&mut self, line: &str) {
        let (now, event) = line.split_once(' ').expect("time and event");
        let mut out = Vec::new();
        self.connection.handle(&mut out, now.parse().expect("a time"), read(event));
        writeln!(self.transcript, "> {line}").expect("written");
        self.print(out);
    }

    pub(crate) fn replace(&mut self, source: Arc<dyn CodecSource>) -> Result<(), ReplaceError> {
        let mut out = Vec::new();
        let options = Arc::from(self.options);
        let successor = Serving { options, ..serving(source, Arc::clone(&self.policy)) };
        let result = self.connection.replace(&mut out, successor, None).map(drop);
        self.transcript.push_str("> replace\n");
        self.print(out);
        result
    }

    fn print(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let line = match effect {
                Effect::Write(bytes) => {
                    format!("write {}", String::from_utf8_lossy(&bytes).replace('\n', "\\n"))
                }
                Effect::EndOutput => "end output".to_owned(),
                Effect::AbortOutput => "abort output".to_owned(),
                Effect::Frame(frame) => show(&frame),
                Effect::Deadline(Some(at)) => format!("deadline {at}"),
                Effect::Deadline(None) => "deadline none".to_owned(),
                Effect::Close { code, reason, failed } => {
                    format!("close {code:?} {reason:?}{}", if failed { " failed" } else { "" })
                }
                Effect::Reading(on) => format!("reading {on}"),
                Effect::Notices(on) => format!("notices {on}"),
                Effect::Log { level, name, json } => {
                    let level = match level {
                        Level::Debug => "debug",
                        Level::Info => "info",
                        Level::Warn => "warn",
                        Level::Error => "error",
                    };
                    format!("{level}: {name} {json}")
                }
                Effect::Faulted { number: _, identity, error } => {
                    format!("faulted {identity}: {error}")
                }
            };
            writeln!(self.transcript, "< {line}").expect("written");
        }
    }
}

fn read(event: &str) -> Event {
    let (kind, rest) = event.split_once(' ').unwrap_or((event, ""));
    match kind {
        "unit" => Event::Unit { form: Form::Text, bytes: rest.into() },
        "unfinished" => Event::Unit { form: Form::Unfinished, bytes: rest.into() },
        "too-long" => Event::Skipped { why: Excess::TooLong, bytes: rest.parse().expect("a size") },
        "too-deep" => Event::Skipped { why: Excess::TooDeep, bytes: rest.parse().expect("a size") },
        "end" => Event::End { broken: None },
        "broken" => Event::End { broken: Some(rest.to_owned()) },
        "frame" => Event::Frame(read_frame(rest)),
        "deadline" => Event::Deadline,
        "shutdown" => Event::Drain(Farewell::Shutdown),
        "replaced" => Event::Drain(Farewell::Replaced),
        "unwritten" => Event::Unwritten(rest.parse().expect("a size")),
        other => panic!("unknown event {other}"),
    }
}

/// `<kind> <id> <name> [body]`; notices have no id.
fn read_frame(text: &str) -> Frame {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default();
    let kind = word();
    if kind == "notice" {
        let (_, rest) = text.split_once(' ').expect("a name");
        let (name, body) = rest.split_once(' ').unwrap_or((rest, "{}"));
        return Frame::notice(name, None, body);
    }
    let (id, name, body) = (word(), word(), word());
    let body = if body.is_empty() { "{}" } else { body };
    match kind {
        "request" => Frame::request(name, None, FrameId::from(id), body),
        "reply" => Frame::reply(&asked(id, name), None, body),
        "failure" => Frame::failure(
            &asked(id, name),
            &Failure::new(transom_frame::Code::Unexpected, body.to_owned()),
        ),
        other => panic!("unknown kind {other}"),
    }
}

/// Plays a story on lines. Then plays it again, moving to a new instance between every two inputs (style §3.9): the
/// transcript has to be the same.
pub(crate) fn play(source: &Arc<dyn CodecSource>, policy: &str, story: &[&str]) -> String {
    let mut straight = Player::open(source.clone(), Framing::Lines, policy);
    let mut moving = Player::open(source.clone(), Framing::Lines, policy);
    for line in story {
        straight.play(line);
        if !moving.connection.is_closed() {
            moving.replace(source.clone()).expect("a version resumes its own state");
        }
        moving.play(line);
    }

    let stayed: Vec<_> = straight.transcript.lines().collect();
    let moved: Vec<_> = moving
        .transcript
        .lines()
        .filter(|line| *line != "> replace" && !line.starts_with("< info: codec moved"))
        .collect();
    assert_eq!(moved, stayed, "moving changes nothing that anybody sees");
    straight.transcript
}
