//! What was delivered, as lines that a story can be read from.

use serde_json::Value;
use transom_frame::{Frame, FrameKind};

pub(super) fn line(frame: &Frame) -> String {
    let body: Value = serde_json::from_str(&frame.body).unwrap();
    let session = frame.session.as_ref().map_or("", |session| session.as_str());
    match frame.kind {
        FrameKind::Notice if &*frame.name == "session/event" => {
            format!("event {session} {} {}", body["seq"], body["type"].as_str().unwrap())
        }
        FrameKind::Notice if &*frame.name == "session/status" => {
            format!("{} {session}", body["status"].as_str().unwrap())
        }
        FrameKind::Notice => {
            let said = match &*frame.name {
                "ask/opened" => body["kind"].as_str().unwrap().to_owned(),
                "ask/closed" => body["outcome"].as_str().unwrap().to_owned(),
                "subagent/finished" => body["stopReason"].as_str().unwrap().to_owned(),
                "session/queue" => words(&body["items"], "placement"),
                "session/jobs" => words(&body["jobs"], "status"),
                _ => String::new(),
            };
            format!("{} {session} {said}", frame.name).trim_end().to_owned()
        }
        FrameKind::Reply => {
            let receipt = body["receipt"].as_str().unwrap_or_default();
            format!("reply {} {receipt}", frame.name).trim_end().to_owned()
        }
        FrameKind::Failure => {
            format!(
                "failure {} {}: {}",
                frame.name,
                body["code"].as_str().unwrap(),
                body["message"].as_str().unwrap()
            )
        }
        FrameKind::Request => format!("request {}", frame.name),
    }
}

/// One member of each item of a list.
pub(super) fn words(list: &Value, member: &str) -> String {
    let items = list.as_array().unwrap().iter();
    let words: Vec<_> = items.map(|item| item[member].as_str().unwrap()).collect();
    format!("[{}]", words.join(" "))
}

/// The lines stand in this order, whatever stands between them.
#[track_caller]
pub(super) fn in_order(told: &str, lines: &[&str]) {
    let mut rest = told.lines();
    for line in lines {
        assert!(rest.any(|told| told.ends_with(line)), "{line}: in its place of\n{told}");
    }
}
