//! Texts about commands and jobs, put together line by line (L-97, P-71). Which lines there are is decided
//! where the command ran.

use serde_json::{Map, Value, json};
use transom_process::{Captured, Exit};

/// What became of a command.
pub(crate) struct Report {
    /// Standard output.
    pub(crate) stdout: Captured,
    /// Standard error.
    pub(crate) stderr: Captured,
    /// `None` if the kernel could not end it.
    pub(crate) exit: Option<Exit>,
    /// The deadline that ended it.
    pub(crate) timed_out_ms: Option<u64>,
    /// What the confiner has denied, in one or two lines (P-21, P-22).
    pub(crate) denial: Option<String>,
    /// How it was held back, if it was (P-59).
    pub(crate) sandbox: Option<Value>,
}

/// The values of `bash`: what became of a command, or the job that it runs on as.
pub(crate) fn schema() -> Value {
    let stream = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "cut": { "type": "boolean" },
            "file": { "type": "string" }
        },
        "required": ["text"],
        "additionalProperties": false
    });
    let sandbox = json!({
        "type": "object",
        "properties": {
            "mode": { "type": "string" },
            "denied": { "type": "boolean" },
            "enforcement": { "type": "string", "enum": ["full", "partial", "none"] },
            "runnerFailed": { "type": "boolean" }
        },
        "required": ["mode", "denied"],
        "additionalProperties": false
    });
    json!({
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "stdout": stream,
                    "stderr": stream,
                    "exitCode": { "type": "integer" },
                    "signal": { "type": "string" },
                    "timedOutMs": { "type": "integer" },
                    "denial": { "type": "string" },
                    "sandbox": sandbox
                },
                "required": ["stdout", "stderr"],
                "additionalProperties": false
            },
            {
                "type": "object",
                "properties": { "job": { "type": "string" } },
                "required": ["job"],
                "additionalProperties": false
            }
        ]
    })
}

/// The value of a command whose confiner failed: it did not run (P-37, P-59).
pub(crate) fn runner_failed(mode: &str) -> Value {
    let none = json!({ "text": "" });
    let sandbox = json!({ "mode": mode, "denied": false, "runnerFailed": true });
    json!({ "stdout": none, "stderr": none, "sandbox": sandbox })
}

impl Report {
    pub(crate) fn value(self) -> Value {
        let mut value = Map::new();
        let mut put = |name: &str, member: Option<Value>| {
            value.extend(member.map(|member| (name.to_owned(), member)));
        };
        put("stdout", Some(stream(&self.stdout)));
        put("stderr", Some(stream(&self.stderr)));
        match self.exit {
            Some(Exit::Code(code)) => put("exitCode", Some(code.into())),
            Some(exit @ Exit::Signal(_)) => {
                put("signal", Some(exit.signal_name().unwrap_or_default().into()));
            }
            None => {}
        }
        put("timedOutMs", self.timed_out_ms.map(Value::from));
        put("denial", self.denial.map(Value::from));
        put("sandbox", self.sandbox);
        Value::Object(value)
    }
}

/// What the model is shown of a value of [`schema`].
pub(crate) fn text(value: &Value) -> String {
    if let Some(job) = word(value, "job") {
        return format!("started background job {job}");
    }
    let mut text = stream_text(value.get("stdout"));
    let stderr = stream_text(value.get("stderr"));
    if !stderr.is_empty() {
        push_line(&mut text, "[stderr]\n");
        text.push_str(&stderr);
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if let Some(line) = word(value, "denial") {
        push_line(&mut text, line);
    }
    if let Some(ms) = value.get("timedOutMs") {
        push_line(&mut text, &format!("[timed out after {ms}ms]"));
    }
    match (value.get("exitCode"), word(value, "signal")) {
        (Some(code), _) if code.as_f64() == Some(0.0) => {}
        (Some(code), _) => push_line(&mut text, &format!("[exit code: {code}]")),
        (None, Some(signal)) => push_line(&mut text, &format!("[killed by signal: {signal}]")),
        (None, None) => {
            push_line(&mut text, "[still running: the system could not end the command]");
        }
    }
    text
}

fn word<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

/// That there is more than what was shown, and where (P-71).
pub(crate) fn dropped(files: &[String]) -> String {
    format!("[some output was dropped from memory; full output: {}]", files.join(", "))
}

fn stream(captured: &Captured) -> Value {
    let mut stream = Map::new();
    stream.insert("text".to_owned(), captured.text().into());
    if captured.is_cut() {
        stream.insert("cut".to_owned(), true.into());
        let path = captured.spill.as_ref().map(|spill| spill.path.display().to_string());
        stream.extend(path.map(|path| ("file".to_owned(), path.into())));
    }
    Value::Object(stream)
}

fn stream_text(stream: Option<&Value>) -> String {
    let Some(stream) = stream else { return String::new() };
    let mut text = word(stream, "text").unwrap_or_default().to_owned();
    if stream.get("cut") == Some(&Value::Bool(true)) {
        let path = word(stream, "file").unwrap_or("(unavailable)");
        push_line(&mut text, &format!("[output truncated; full output: {path}]"));
    }
    text
}

/// Adds a text on a line of its own.
pub(crate) fn push_line(text: &mut String, line: &str) {
    begin_line(text);
    text.push_str(line);
}

/// Ends the line that is there.
pub(crate) fn begin_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
