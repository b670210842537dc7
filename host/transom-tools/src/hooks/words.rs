//! What a hook's program reads and what it may answer, as JSON (`docs/hooks.md`). Whatever is not exactly an answer is
//! none: nobody must believe that a hook has allowed what it has not.

use serde_json::{Map, Value, json};
use transom_harness::{
    block::Block,
    hooks::{HookAbout, HookAsk, HookedCall, ResultVerdict},
    ports::ToolOutcome,
};

use super::HookEvent;
use crate::schema::decode;

/// Messages of one answer.
const MESSAGES_MAX: usize = 16;

/// An answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Proceed { contexts: Vec<String> },
    Reject { reason: String },
    Allow,
    Deny { reason: String },
    Ask { reason: Option<String> },
    Result { verdict: ResultVerdict, contexts: Vec<String> },
    Stop,
    Continue { messages: Vec<String> },
}

impl Said {
    /// The word of the answer.
    pub(crate) fn decision(&self) -> &'static str {
        match self {
            Said::Proceed { .. } => "proceed",
            Said::Reject { .. } => "reject",
            Said::Allow => "allow",
            Said::Deny { .. } => "deny",
            Said::Ask { .. } => "ask",
            Said::Result { verdict: ResultVerdict::Accept, .. } => "accept",
            Said::Result { verdict: ResultVerdict::Content(_), .. } => "replace-content",
            Said::Result { verdict: ResultVerdict::Value(_), .. } => "replace-value",
            Said::Result { verdict: ResultVerdict::Block(_), .. } => "block",
            Said::Stop => "stop",
            Said::Continue { .. } => "continue",
        }
    }

    /// Why, where it says so.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Said::Reject { reason } | Said::Deny { reason } => Some(reason),
            Said::Ask { reason } => reason.as_deref(),
            Said::Proceed { .. }
            | Said::Allow
            | Said::Result { .. }
            | Said::Stop
            | Said::Continue { .. } => None,
        }
    }
}

/// What a program reads: one JSON object, and a line end behind it.
pub(crate) fn document(hook: &str, ask: &HookAsk) -> String {
    let HookAsk { session, cwd, root: _, mode, turn, step, about } = ask;
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| {
        members.insert(name.to_owned(), value);
    };
    put("event", about.point().into());
    put("hook", hook.into());
    put("session", session.as_str().into());
    if let Some(cwd) = cwd {
        put("cwd", cwd.as_str().into());
    }
    put("mode", mode.as_str().into());
    put("turn", (*turn).into());
    put("step", (*step).into());
    match about {
        HookAbout::PreStep { messages } => {
            let messages = messages.iter().map(|message| json!(message.as_ref()));
            put("messages", messages.collect());
        }
        HookAbout::PreExecute { call, asks } => {
            put("call", call_of(call));
            put("asks", (*asks).into());
        }
        HookAbout::PostExecute { call, outcome } | HookAbout::Result { call, outcome } => {
            put("call", call_of(call));
            put("result", result_of(outcome));
        }
        HookAbout::TurnStopping { limit_hit, prolonged } => {
            put("limitHit", (*limit_hit).into());
            put("prolonged", (*prolonged).into());
        }
    }
    format!("{}\n", Value::Object(members))
}

fn call_of(call: &HookedCall) -> Value {
    json!({ "id": call.id, "name": call.name, "arguments": decode(&call.arguments) })
}

fn result_of(outcome: &ToolOutcome) -> Value {
    let mut result = json!({ "isError": outcome.is_error, "content": outcome.content });
    if let Some(members) = result.as_object_mut() {
        if let Some(error) = &outcome.error {
            members.insert("error".to_owned(), json!(error));
        }
        if let Some(value) = &outcome.value {
            members.insert("value".to_owned(), Value::clone(value));
        }
    }
    result
}

/// Reads an answer to this event; otherwise says what is wrong with it.
pub(crate) fn read(event: HookEvent, stdout: &[u8]) -> Result<Said, String> {
    let answer: Value = serde_json::from_slice(stdout)
        .map_err(|error| format!("its answer is not one JSON document: {error}"))?;
    let Value::Object(members) = answer else {
        return Err("its answer is not a JSON object".to_owned());
    };
    let mut answer = Answer { members };
    let known = decisions(event);
    let decision = match answer.members.remove("decision") {
        Some(Value::String(word)) => word,
        Some(_) => return Err("`decision` of its answer is not a string".to_owned()),
        None => {
            return Err(format!("its answer has no `decision`; it is one of {}", known.join(", ")));
        }
    };
    if !known.contains(&decision.as_str()) {
        return Err(format!("its decision is `{decision}`; it is one of {}", known.join(", ")));
    }
    let said = match decision.as_str() {
        "proceed" => Said::Proceed { contexts: answer.texts("contexts")?.unwrap_or_default() },
        "reject" => Said::Reject { reason: answer.needed("reason")? },
        "allow" => Said::Allow,
        "deny" => Said::Deny { reason: answer.needed("reason")? },
        "ask" => Said::Ask { reason: answer.text("reason")? },
        "accept" => answer.result(ResultVerdict::Accept)?,
        "replace-content" => {
            let content = answer.needed("content")?;
            answer.result(ResultVerdict::Content(vec![Block::text(content)]))?
        }
        "replace-value" => {
            let value = answer.members.remove("value");
            let value = value.ok_or_else(|| "its answer has no `value`".to_owned())?;
            answer.result(ResultVerdict::Value(value))?
        }
        "block" => {
            let feedback = answer.needed("feedback")?;
            answer.result(ResultVerdict::Block(vec![Block::text(feedback)]))?
        }
        "continue" => match answer.texts("messages")? {
            Some(messages) if !messages.is_empty() => Said::Continue { messages },
            Some(_) | None => {
                return Err("`continue` needs `messages` that the model is told".to_owned());
            }
        },
        _ => Said::Stop,
    };
    match answer.members.keys().next() {
        None => Ok(said),
        Some(name) => Err(format!("`{name}` does not belong to `{decision}`")),
    }
}

/// What may be decided.
fn decisions(event: HookEvent) -> &'static [&'static str] {
    match event {
        HookEvent::PreStep => &["proceed", "reject"],
        HookEvent::PreExecute => &["allow", "deny", "ask"],
        HookEvent::PostExecute => &["accept", "replace-content", "replace-value", "block"],
        HookEvent::TurnStopping | HookEvent::Result => &["stop", "continue"],
    }
}

/// What is left of an answer that is being read.
struct Answer {
    members: Map<String, Value>,
}

impl Answer {
    /// A text that is not blank.
    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` of its answer is not a text that says something")),
        }
    }

    fn needed(&mut self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("its answer has no `{name}`"))
    }

    fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("`{name}` of its answer is not a list of texts that say something");
        let Some(value) = self.members.remove(name) else { return Ok(None) };
        let Value::Array(entries) = value else { return Err(wrong()) };
        if entries.len() > MESSAGES_MAX {
            return Err(format!("`{name}` of its answer has more than {MESSAGES_MAX} entries"));
        }
        let text = |entry| match entry {
            Value::String(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(wrong()),
        };
        entries.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    fn result(&mut self, verdict: ResultVerdict) -> Result<Said, String> {
        Ok(Said::Result { verdict, contexts: self.texts("contexts")?.unwrap_or_default() })
    }
}
