//! A client of the SDK wire for tests that tell stories: it numbers nothing, hides nothing and keeps every frame.

use serde_json::{Value, json};

use super::{play::checked, process::Process, wire::Wire};

/// A client and everything that it was told.
pub struct Client<W = Process> {
    pub wire: W,
    /// Every frame so far, in order.
    pub seen: Vec<Value>,
    /// The same as it was written.
    pub lines: Vec<String>,
}

impl<W: Wire> Client<W> {
    /// Speaks over this wire.
    pub fn new(wire: W) -> Client<W> {
        Client { wire, seen: Vec::new(), lines: Vec::new() }
    }

    /// Writes a line.
    pub fn say(&mut self, line: &str) {
        self.wire.write(format!("{line}\n").as_bytes());
    }

    /// Writes a request.
    pub fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let frame = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        self.say(&frame.to_string());
    }

    /// Writes a prompt of one text block.
    pub fn prompt(&mut self, id: &str, session: &str, text: &str) {
        self.ask(id, "session/prompt", prompt(session, text));
    }

    /// The next frame; `None` at the end of output.
    pub fn frame(&mut self) -> Option<Value> {
        let line = self.wire.line()?;
        let frame = checked(&line).unwrap_or_else(|wrong| panic!("{wrong} in {line}"));
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

    /// Reads on until such a frame comes, and gives all up to it.
    pub fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next();
            let last = is_last(&frame);
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }

    /// Reads on until the response to this id comes.
    pub fn response(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let frames = self.until(|frame| frame.get("method").is_none() && frame["id"] == id);
        frames.last().cloned().unwrap_or_default()
    }

    /// Asks and reads on until the answer comes.
    pub fn call(&mut self, id: &str, method: &str, params: Value) -> Value {
        self.ask(id, method, params);
        self.response(id)
    }

    /// Shakes hands for this directory.
    pub fn initialize(&mut self, cwd: &str) -> Value {
        self.call("init", "initialize", route(cwd))
    }

    /// Prompts, waits until the session is idle again, and gives all frames up to that.
    pub fn turn(&mut self, session: &str, text: &str) -> Vec<Value> {
        self.prompt("turn", session, text);
        self.until(|frame| is_idle(frame, session))
    }

    /// Everything up to the end of output.
    pub fn rest(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame() {
            frames.push(frame);
        }
        frames
    }

    /// Asks for the end, and reads to the end of output: the answer must be the last frame.
    pub fn shut_down(&mut self) -> i32 {
        self.say(r#"{"jsonrpc":"2.0","id":"bye","method":"shutdown"}"#);
        let frames = self.rest();
        let answer = json!({"jsonrpc": "2.0", "id": "bye", "result": {}});
        assert_eq!(frames.last(), Some(&answer), "{}", self.wire.diagnostics());
        self.wire.exit()
    }

    /// The events of a session so far.
    pub fn events(&self, session: &str) -> Vec<Value> {
        events(&self.seen, session)
    }
}

/// The parameters of a handshake.
pub fn route(cwd: &str) -> Value {
    json!({"cwd": cwd, "provider": "deepseek-official", "model": "deepseek-v4-flash"})
}

/// The parameters of a prompt of one text block.
pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "contentBlocks": [{"type": "text", "text": text}]})
}

/// Whether this says that the session rests.
pub fn is_idle(frame: &Value, session: &str) -> bool {
    frame["method"] == "session.status"
        && frame["params"]["sessionId"] == session
        && frame["params"]["status"] == "idle"
}

/// The events of one session among these frames.
pub fn events(frames: &[Value], session: &str) -> Vec<Value> {
    let of_session = |frame: &&Value| {
        frame["method"] == "session.event" && frame["params"]["sessionId"] == session
    };
    frames.iter().filter(of_session).map(|frame| frame["params"]["event"].clone()).collect()
}

/// Those of one type.
pub fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// The event in a line of the wire, byte for byte.
pub fn event_text<'a>(line: &'a str, session: &str) -> Option<&'a str> {
    let start = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session.event\",\"params\":{{\"sessionId\":\"{session}\",\"event\":"
    );
    line.strip_prefix(start.as_str())?.strip_suffix("}}")
}

/// What kind of frame this is, in the notation of S-96: `E:turn/start`, `ST:idle`, `R`.
pub fn kind(frame: &Value) -> String {
    match frame["method"].as_str() {
        Some("session.event") => {
            format!("E:{}", frame["params"]["event"]["type"].as_str().unwrap_or("?"))
        }
        Some("session.status") => {
            format!("ST:{}", frame["params"]["status"].as_str().unwrap_or("?"))
        }
        Some(other) => other.to_owned(),
        None if frame.get("error").is_some() => "R:error".to_owned(),
        None => "R".to_owned(),
    }
}

/// The error of a response as `code message`.
pub fn error(response: &Value) -> String {
    let error = &response["error"];
    assert!(error.is_object(), "expected an error: {response}");
    assert!(error.get("data").is_none(), "an error carries no data (S-20): {response}");
    format!("{} {}", error["code"], error["message"].as_str().unwrap_or("?"))
}
