//! A client of the `frames` door for tests that tell stories: it translates nothing, hides nothing and keeps every
//! frame as it was written. What is asked is left to the stories.

use std::thread;

use serde_json::{Value, json};

use super::{process::Process, wire::Wire};

/// What a story watches unless it says otherwise.
const TOPICS: [&str; 10] = [
    "events",
    "status",
    "inbox",
    "queue",
    "jobs",
    "asks",
    "projections",
    "sessions",
    "errors",
    "subagents",
];

/// A client and everything that it was told.
pub struct Frames<W = Process> {
    pub wire: W,
    /// Every frame so far, in order.
    pub seen: Vec<Value>,
    /// The same as it was written.
    pub lines: Vec<String>,
    asked: u64,
}

/// Lines that a failed test shows.
const LAST_LINES: usize = 12;
/// Characters of each of them.
const LINE_CHARS: usize = 400;

/// A test that fails shows what was said last.
impl<W> Drop for Frames<W> {
    fn drop(&mut self) {
        if thread::panicking() {
            let last = self.lines.iter().skip(self.lines.len().saturating_sub(LAST_LINES));
            for line in last {
                let shown: String = line.chars().take(LINE_CHARS).collect();
                eprintln!("{shown}");
            }
        }
    }
}

impl<W: Wire> Frames<W> {
    /// Speaks over this wire.
    pub fn new(wire: W) -> Frames<W> {
        Frames { wire, seen: Vec::new(), lines: Vec::new(), asked: 0 }
    }

    /// Writes a line.
    pub fn say(&mut self, line: &str) {
        self.wire.write(format!("{line}\n").as_bytes());
    }

    /// The line of a request, not yet written, and its id.
    pub fn request(&mut self, name: &str, session: Option<&str>, body: &Value) -> (String, String) {
        self.asked += 1;
        let id = format!("q{}", self.asked);
        let mut frame = json!({"kind": "request", "id": id, "name": name, "body": body});
        if let Some(session) = session {
            frame["session"] = session.into();
        }
        (id, frame.to_string())
    }

    /// Writes a request about a session. Gives its id.
    pub fn ask(&mut self, name: &str, session: &str, body: Value) -> String {
        let (id, line) = self.request(name, Some(session), &body);
        self.say(&line);
        id
    }

    /// The next frame; `None` at the end of output.
    pub fn frame(&mut self) -> Option<Value> {
        let line = self.wire.line()?;
        let frame: Value =
            serde_json::from_str(&line).unwrap_or_else(|wrong| panic!("{wrong} in {line}"));
        self.seen.push(frame.clone());
        self.lines.push(line);
        Some(frame)
    }

    /// The next frame, which must come.
    pub fn next(&mut self) -> Value {
        let Some(frame) = self.frame() else {
            panic!("output ended; standard error says:\n{}", self.wire.diagnostics());
        };
        frame
    }

    /// The `n`-th such frame of the whole conversation, counted from 1: one that was seen, or else one that must come.
    pub fn nth(&mut self, n: usize, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut left = n;
        let mut at = 0;
        loop {
            let frame = match self.seen.get(at) {
                Some(frame) => frame.clone(),
                None => self.next(),
            };
            at += 1;
            if is_it(&frame) {
                left -= 1;
                if left == 0 {
                    return frame;
                }
            }
        }
    }

    /// The first such frame.
    pub fn first(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        self.nth(1, is_it)
    }

    /// The answer to this request, be it a reply or a failure.
    pub fn answer(&mut self, id: &str) -> Value {
        self.first(|frame| frame["id"] == id)
    }

    /// The body of the reply to this request.
    ///
    /// # Panics
    ///
    /// When it failed.
    pub fn reply(&mut self, id: &str) -> Value {
        let answer = self.answer(id);
        assert_eq!(answer["kind"], "reply", "{answer}");
        answer["body"].clone()
    }

    /// Asks about a session, and gives the body of the reply.
    pub fn call(&mut self, name: &str, session: &str, body: Value) -> Value {
        let id = self.ask(name, session, body);
        self.reply(&id)
    }

    /// Asks about a session, and gives the body of the failure that must come.
    pub fn refusal(&mut self, name: &str, session: &str, body: Value) -> Value {
        let id = self.ask(name, session, body);
        let answer = self.answer(&id);
        assert_eq!(answer["kind"], "failure", "{answer}");
        answer["body"].clone()
    }

    /// Watches everything of every session, but for these topics.
    pub fn watch_without(&mut self, topics: &[&str]) -> Value {
        let topics: Vec<_> = TOPICS.into_iter().filter(|topic| !topics.contains(topic)).collect();
        let body = json!({"scope": "all", "topics": topics});
        let (id, line) = self.request("events/subscribe", None, &body);
        self.say(&line);
        self.reply(&id)
    }

    /// Watches everything of every session.
    pub fn watch(&mut self) -> Value {
        self.watch_without(&[])
    }

    /// Writes a prompt of one text block. Gives the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        self.ask("session/prompt", session, prompt(text))
    }

    /// Steers with one text block. Gives the id of the request.
    pub fn steer(&mut self, session: &str, text: &str) -> String {
        let mut body = prompt(text);
        body["mode"] = "steer".into();
        self.ask("session/prompt", session, body)
    }

    /// Waits until the session has come to rest so many times.
    pub fn idle(&mut self, session: &str, times: usize) {
        self.nth(times, |frame| is_status(frame, session, "idle"));
    }

    /// The first event of this type in the session; it must be there or come.
    pub fn event(&mut self, session: &str, kind: &str) -> Value {
        self.event_nth(session, kind, 1)
    }

    /// The `n`-th event of this type.
    pub fn event_nth(&mut self, session: &str, kind: &str, n: usize) -> Value {
        self.nth(n, |frame| is_event(frame, session, kind))["body"].clone()
    }

    /// The events of a session so far.
    pub fn events(&self, session: &str) -> Vec<Value> {
        let of_session = self
            .seen
            .iter()
            .filter(|frame| frame["name"] == "session/event" && frame["session"] == session);
        of_session.map(|frame| frame["body"].clone()).collect()
    }

    /// What was told of a session so far, in short: `4 turn/start`, `running`, `claimed`, `receipt` for the answer to a
    /// prompt, other names as they are.
    pub fn told(&self, session: &str) -> Vec<String> {
        let of_session = self.seen.iter().filter(|frame| frame["session"] == session);
        of_session.map(told).collect()
    }
}

/// The body of a prompt.
pub fn prompt(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Whether this is an event of that type in that session.
pub fn is_event(frame: &Value, session: &str, kind: &str) -> bool {
    frame["name"] == "session/event" && frame["session"] == session && frame["body"]["type"] == kind
}

/// Whether this says that the session has this status.
pub fn is_status(frame: &Value, session: &str, status: &str) -> bool {
    frame["name"] == "session/status"
        && frame["session"] == session
        && frame["body"]["status"] == status
}

/// Session and event in a line of the wire, the event byte for byte.
pub fn event_text(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_prefix("{\"kind\":\"notice\",\"session\":")?;
    let (session, event) = rest.split_once(",\"name\":\"session/event\",\"body\":")?;
    let session = serde_json::from_str(session).ok()?;
    Some((session, event.strip_suffix('}')?))
}

fn told(frame: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    match (frame["kind"].as_str(), frame["name"].as_str()) {
        (Some("notice"), Some("session/event")) => {
            format!("{} {}", frame["body"]["seq"], text(&frame["body"]["type"]))
        }
        (Some("notice"), Some("session/status")) => text(&frame["body"]["status"]),
        (Some("notice"), Some("inbox/claimed")) => "claimed".to_owned(),
        (Some("reply"), Some("session/prompt")) => "receipt".to_owned(),
        (Some("failure"), name) => format!("{} failed", name.unwrap_or("?")),
        (_, name) => name.unwrap_or("?").to_owned(),
    }
}
