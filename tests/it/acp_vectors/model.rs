//! What the model behind the recordings says: the last `[[MARK]]` of the user's text selects it.

use serde_json::{Value, json};

use crate::support::model_server::{Piece, Recorded, Reply, delta, event, finish, usage};

/// The reply to a request.
pub(super) fn reply(request: &Recorded) -> Reply {
    let scene = Scene::read(&request.body);
    if scene.noticed {
        return said(&["background noted"], "stop");
    }
    let wide = |id: &str| {
        call(
            id,
            "printf escalated",
            json!({"sandbox_permissions": "danger-full-access", "justification": "wanted"}),
        )
    };
    let none = json!({});
    match (scene.mark.as_str(), scene.result.as_deref()) {
        ("UNICODE", _) => said(&["héllo 世界 🎉\nline2"], "stop"),
        ("REASON", _) => reasoned("secret thought", Some("visible answer")),
        ("EMPTYTEXT", _) => reasoned("only thought", None),
        ("TWOTEXT", _) => said(&["part one"], "stop"),
        ("TOOL", None) => called(&[], &[call("call_tool_1", "printf tool-output", none)]),
        ("TOOL", Some(result)) => said(&["tool says: ", cut(result)], "stop"),
        ("TEXTTOOL", None) => {
            called(&["let me check"], &[call("call_text_1", "printf tool-output", none)])
        }
        ("TEXTTOOL", Some(_)) => said(&["final text"], "stop"),
        ("PERM", None) => called(&[], &[wide("call_perm_1")]),
        ("PERM", Some(result)) => said(&["done: ", cut(result)], "stop"),
        ("PERM2", None) => called(&[], &[wide("call_perm_a"), wide("call_perm_b")]),
        ("PERM2", Some(_)) => said(&["both done"], "stop"),
        ("HANG", _) => Reply::pieces(vec![
            event(&delta(json!({"role": "assistant", "content": "partial"})).to_string()),
            Piece::Silence,
        ]),
        ("SLOW", _) => said(&["slow ", "answer"], "stop"),
        ("SLOWTOOL", _) => called(&[], &[call("call_slow_1", "sleep 300; printf late", none)]),
        ("LENGTH", _) => said(&["cut off"], "length"),
        ("FILTER", _) => said(&["half"], "content_filter"),
        ("AUTH", _) => Reply::refusal(401, &json!({"error": {"message": "bad key"}})),
        ("BAD", _) => Reply::refusal(400, &json!({"error": {"message": "malformed request"}})),
        ("ECHO", _) => said(&["ECHO:", &Value::from(scene.words).to_string()], "stop"),
        ("BG", None) => {
            let waits = "until [ -e go ]; do sleep 0.02; done";
            called(&[], &[call("call_bg_1", waits, json!({"run_in_background": true}))])
        }
        ("BG", Some(_)) => said(&["started"], "stop"),
        _ => said(&["hello there"], "stop"),
    }
}

/// The reply in the recordings of the published runtime, whose model words its calls in another way.
pub(super) fn published(request: &Recorded) -> Reply {
    let scene = Scene::read(&request.body);
    let bash = |id: &str, command: &str, description: &str, more: Value| {
        let mut more = more;
        more["description"] = description.into();
        call(id, command, more)
    };
    let wide = |id: &str, command: &str, why: &str| {
        let more = json!({"sandbox_permissions": "danger-full-access", "justification": why});
        bash(id, command, "print", more)
    };
    let none = || json!({});
    match (scene.mark.as_str(), scene.result.as_deref()) {
        _ if scene.noticed => reply(request),
        ("TOOL", None) => {
            called(&[], &[bash("call_tool_1", "printf tool-output", "print", none())])
        }
        ("TEXTTOOL", None) => {
            called(&["let me check"], &[bash("call_texttool_1", "printf ok", "print", none())])
        }
        ("PERM", None) => {
            called(&[], &[wide("call_perm_1", "printf escalated", "the user asked for it")])
        }
        ("PERM2", None) => {
            let calls = [
                wide("call_perm_a", "printf one", "first"),
                wide("call_perm_b", "printf two", "second"),
            ];
            called(&[], &calls)
        }
        ("SLOWTOOL", _) => {
            let command = "echo > begun; sleep 30; printf late";
            called(&[], &[bash("call_slow_1", command, "sleep", none())])
        }
        ("MODEL", _) => {
            let body = &request.body;
            let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
            let (model, effort) = (text(&body["model"]), text(&body["reasoning_effort"]));
            let thinking = text(&body["thinking"]["type"]);
            said(&[&format!("model={model} effort={effort} thinking={thinking}")], "stop")
        }
        _ => reply(request),
    }
}

/// The same, where the client takes its first prompt back before the answer begins.
pub(super) fn unheard(request: &Recorded) -> Reply {
    match Scene::read(&request.body).words.as_str() {
        "[[PLAIN]] x" => Reply::pieces(vec![Piece::Silence]),
        _ => published(request),
    }
}

/// What the request asks for.
struct Scene {
    mark: String,
    /// The user's text that names the mark.
    words: String,
    /// What the last tool has said since.
    result: Option<String>,
    /// A job has ended since.
    noticed: bool,
}

impl Scene {
    fn read(body: &Value) -> Scene {
        let mut scene =
            Scene { mark: String::new(), words: String::new(), result: None, noticed: false };
        for message in body["messages"].as_array().into_iter().flatten() {
            let said = content(&message["content"]);
            match message["role"].as_str() {
                Some("user") if said.starts_with("background job") => scene.noticed = true,
                // Other user messages may follow, a context snapshot for one.
                Some("user") if said.contains("[[") => {
                    let mark = said.rsplit_once("[[").and_then(|(_, rest)| rest.split_once("]]"));
                    let mark = mark.map(|(mark, _)| mark.to_owned()).unwrap_or_default();
                    scene = Scene { mark, words: said, result: None, noticed: false };
                }
                Some("tool") => scene.result = Some(said),
                _ => {}
            }
        }
        scene
    }
}

fn content(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// The first 90 characters.
fn cut(text: &str) -> &str {
    text.char_indices().nth(90).map_or(text, |(at, _)| &text[..at])
}

fn call(id: &str, command: &str, more: Value) -> Value {
    let mut arguments = json!({"command": command, "description": "a test"});
    arguments
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    let function = json!({"name": "bash", "arguments": arguments.to_string()});
    json!({"id": id, "type": "function", "function": function})
}

fn said(texts: &[&str], reason: &str) -> Reply {
    let mut payloads: Vec<Value> =
        texts.iter().map(|text| delta(json!({"content": text}))).collect();
    payloads.extend([finish(reason), usage()]);
    Reply::events(&payloads)
}

fn reasoned(thought: &str, text: Option<&str>) -> Reply {
    let mut payloads = vec![delta(json!({"reasoning_content": thought}))];
    payloads.extend(text.map(|text| delta(json!({"content": text}))));
    payloads.extend([finish("stop"), usage()]);
    Reply::events(&payloads)
}

fn called(texts: &[&str], calls: &[Value]) -> Reply {
    let mut payloads: Vec<Value> =
        texts.iter().map(|text| delta(json!({"content": text}))).collect();
    for (index, call) in calls.iter().enumerate() {
        let mut call = call.clone();
        call["index"] = index.into();
        payloads.push(delta(json!({"tool_calls": [call]})));
    }
    payloads.extend([finish("tool_calls"), usage()]);
    Reply::events(&payloads)
}
