//! A client of the ACP wire for tests that tell stories, and a script for the model that plays what the recordings name
//! by marks. What is asked is left to the stories.

use serde_json::{Value, json};

use super::{
    place::{Place, text},
    process::{Launch, Process},
    wire::Wire,
};

/// A client and everything that it was told.
pub struct Acp<W = Process> {
    pub wire: W,
    /// Every frame so far, in order.
    pub seen: Vec<Value>,
}

/// A program that serves the door, with a place of its own.
pub struct Stage {
    pub place: Place,
    pub client: Acp,
}

impl Stage {
    /// Serves `transom stdio acp` with the scripted model of the marks, and these tables of a manifest besides.
    pub fn with(tables: &str) -> Stage {
        let place = Place::new();
        let client = Acp::new(launch(&place, tables).start());
        Stage { place, client }
    }

    /// The same with the defaults.
    pub fn new() -> Stage {
        Stage::with("")
    }

    /// Opens a session in the place's directory.
    pub fn session(&mut self) -> String {
        let cwd = text(&self.place.cwd).to_owned();
        self.client.session(&cwd)
    }
}

/// How a program is started that serves the door.
pub fn launch(place: &Place, tables: &str) -> Launch {
    let door = "[door.acp]\ncomponent = \"acp\"\ncarrier = \"stdio\"\n";
    let model = "[model]\nprovider = \"scripted\"\n";
    let manifest = place.file("transom.toml", format!("{door}\n{model}\n{tables}"));
    let script = place.file("script.json", script().to_string());
    Launch::new(["stdio", "acp", "--manifest", text(&manifest)])
        .arg("--model-script")
        .arg(&script)
        .arg("--store")
        .arg(place.root().join("store.db"))
        .directory(&place.cwd)
        .env("HOME", &place.home)
}

impl<W: Wire> Acp<W> {
    /// Speaks over this wire.
    pub fn new(wire: W) -> Acp<W> {
        Acp { wire, seen: Vec::new() }
    }

    /// Writes a line.
    pub fn say(&mut self, line: &str) {
        self.wire.write(format!("{line}\n").as_bytes());
    }

    /// Writes a request.
    pub fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.say(&request(id, method, params));
    }

    /// Writes a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Writes a prompt of one text.
    pub fn prompt(&mut self, id: impl Into<Value>, session: &str, words: &str) {
        self.ask(id, "session/prompt", prompt(session, words));
    }

    /// Writes a cancel.
    pub fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}));
    }

    /// Answers a permission request.
    pub fn decide(&mut self, id: impl Into<Value>, outcome: Value) {
        let id = id.into();
        let result = json!({"outcome": outcome});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    /// The next frame; `None` at the end of output. Only objects are ever written (row 47).
    pub fn frame(&mut self) -> Option<Value> {
        let line = self.wire.line()?;
        let frame: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("standard output has more than JSON ({error}): {line}"));
        assert!(frame.is_object() && frame["jsonrpc"] == "2.0", "{line}");
        self.seen.push(frame.clone());
        Some(frame)
    }

    /// The next frame, which must come.
    pub fn next(&mut self) -> Value {
        let Some(frame) = self.frame() else {
            panic!("output ended; standard error says:\n{}", self.wire.diagnostics());
        };
        frame
    }

    /// Asks, and expects the answer to be the next frame.
    pub fn call(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.ask(id.clone(), method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Opens a session.
    pub fn session(&mut self, cwd: &str) -> String {
        let opened = self.call("new", "session/new", json!({"cwd": cwd, "mcpServers": []}));
        let id = opened["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("no session: {opened}")).to_owned()
    }

    /// Prompts, and reads on until the answer comes. Gives what was said before it, and the answer.
    pub fn turn(&mut self, session: &str, words: &str) -> (Vec<Value>, Value) {
        self.prompt("turn", session, words);
        self.until("turn")
    }

    /// Reads on until the response to this id comes. Gives what was said before it, and the response.
    pub fn until(&mut self, id: impl Into<Value>) -> (Vec<Value>, Value) {
        let id = id.into();
        let mut before = Vec::new();
        loop {
            let frame = self.next();
            if frame.get("method").is_none() && frame["id"] == id {
                return (before, frame);
            }
            before.push(frame);
        }
    }

    /// Closes the input, reads to the end and gives what was said and the exit status.
    pub fn end(&mut self) -> (Vec<Value>, i32) {
        self.wire.close_input();
        self.rest()
    }

    /// Reads to the end. Gives what was said and the exit status.
    pub fn rest(&mut self) -> (Vec<Value>, i32) {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame() {
            frames.push(frame);
        }
        (frames, self.wire.exit())
    }
}

/// A request as a line.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string()
}

/// The parameters of a prompt of one text.
pub fn prompt(session: &str, words: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": words}]})
}

/// The texts of updates, in order; anything else is refused.
pub fn chunks(frames: &[Value]) -> Vec<String> {
    let chunk = |frame: &Value| {
        let update = &frame["params"]["update"];
        assert_eq!(frame["method"], "session/update", "{frame}");
        assert_eq!(update["sessionUpdate"], "agent_message_chunk", "{frame}");
        assert_eq!(update["content"]["type"], "text", "{frame}");
        update["content"]["text"].as_str().expect("a text").to_owned()
    };
    frames.iter().map(chunk).collect()
}

/// The error of a response as `code message`.
pub fn error(response: &Value) -> String {
    let error = &response["error"];
    assert!(error.is_object(), "expected an error: {response}");
    format!("{} {}", error["code"], error["message"].as_str().unwrap_or("?"))
}

/// The stop reason of a response.
pub fn stop(response: &Value) -> &str {
    let reason = response["result"]["stopReason"].as_str();
    reason.unwrap_or_else(|| panic!("expected a stop reason: {response}"))
}

/// What the model does when a prompt names a mark (`vectors/acp/README.md`).
pub fn script() -> Value {
    let bash = |command: &str| json!({"tool": {"name": "bash", "arguments": {"command": command, "description": "a test"}}});
    let wide = |command: &str| {
        json!({"tool": {"name": "bash", "arguments": {
            "command": command, "description": "a test", "sandbox_permissions": "danger-full-access", "justification": "the test wants it",
        }}})
    };
    let first = |mark: &str, answer: Value| json!({"when": {"contains": format!("[[{mark}]]"), "step": 1}, "answer": answer});
    let then = |mark: &str, answer: Value| json!({"when": {"contains": format!("[[{mark}]]")}, "answer": answer});
    let fails = |code: &str, status: u16, message: &str| json!([{"text": "half"}, {"error": {"code": code, "message": message, "status": status}}]);
    json!({"images": true, "rules": [
        {"when": {"notice": "finished"}, "answer": [{"text": "background noted"}]},
        then("UNICODE", json!([{"text": "héllo 世界 🎉\nline2"}])),
        then("REASON", json!([{"reasoning": "secret thought"}, {"text": "visible answer"}])),
        then("EMPTYTEXT", json!([{"reasoning": "only thought"}])),
        first("TOOL", json!([bash("printf tool-output")])),
        then("TOOL", json!([{"text": "tool says: {{result}}"}])),
        first("TEXTTOOL", json!([{"text": "let me check"}, bash("printf tool-output")])),
        then("TEXTTOOL", json!([{"text": "final text"}])),
        first("PERM", json!([wide("printf escalated")])),
        then("PERM", json!([{"text": "done: {{result}}"}])),
        first("CHILD", json!([{"tool": {"name": "subagent", "arguments": {"description": "a test", "prompt": "[[PERM]]"}}}])),
        then("CHILD", json!([{"text": "child says: {{result}}"}])),
        first("PERM2", json!([wide("printf a"), wide("printf b")])),
        then("PERM2", json!([{"text": "both done"}])),
        then("HANG", json!([{"text": "partial"}, {"delay_ms": 3_600_000}])),
        first("GATE", json!([bash("exec 3> held; echo begun >&3; until [ -e go ]; do sleep 0.02; done; printf through")])),
        then("GATE", json!([{"text": "gate says: {{result}}"}])),
        first("SLOWTOOL", json!([bash("exec 3> held; echo begun >&3; sleep 300; printf late")])),
        then("SLOWTOOL", json!([{"text": "never"}])),
        then("LENGTH", json!([{"text": "cut off"}, {"finish": "max-tokens"}])),
        then("FILTER", fails("CONTENT_FILTER", 200, "model stopped: content_filter")),
        then("AUTH", fails("AUTH", 401, "bad key")),
        then("BAD", fails("INVALID_REQUEST", 400, "malformed request")),
        then("ECHO", json!([{"text": "ECHO:{{prompt}}"}])),
        first("BG", json!([{"tool": {"name": "bash", "arguments": {
            "command": "until [ -e go ]; do sleep 0.02; done", "description": "a test", "run_in_background": true,
        }}}])),
        then("BG", json!([{"text": "started"}])),
        {"answer": [{"text": "hello there"}]},
    ]})
}
