//! The logs of the recorded conversations, as far as the wire showed them.

use std::{fs, path::Path};

use super::*;
use crate::header::Header;

/// Sessions of one recording, with the ids that their events carry.
type Logs = BTreeMap<String, Vec<Value>>;

fn recordings() -> Vec<(String, Logs)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/sdk");
    let mut recordings = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_of_this_format = name.starts_with("v0.1.0rc6.") || name.contains("0.1.0rc6");
        if !is_of_this_format || !name.ends_with(".jsonl") {
            continue;
        }
        let mut logs = Logs::new();
        // Other lines may hold text that is no JSON on purpose.
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.contains("\"session.event\"")) {
            let line: Value = serde_json::from_str(line).unwrap();
            let frame = &line["frame"];
            if frame["method"] == "session.event" {
                let session = frame["params"]["sessionId"].as_str().unwrap().to_owned();
                logs.entry(session).or_default().push(filled(&frame["params"]["event"]));
            }
        }
        recordings.push((name, logs));
    }
    recordings.sort_by(|a, b| a.0.cmp(&b.0));
    recordings
}

/// The event with values in place of the placeholders that stand for them.
fn filled(event: &Value) -> Value {
    let mut event = event.clone();
    let doublings = event["data"]["retry"].as_u64().unwrap_or(1) - 1;
    fill(&mut event, 500 << doublings);
    event
}

fn fill(value: &mut Value, delay_ms: u64) {
    match value {
        Value::String(text) if text == "<ts>" => *value = json!(1_700_000_000_000_u64),
        Value::String(text) if text == "<ms>" => *value = json!(delay_ms),
        Value::String(text) if text == "<parameters>" => *value = json!({"type": "object"}),
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, delay_ms)),
        Value::Object(members) => members.values_mut().for_each(|value| fill(value, delay_ms)),
        _ => {}
    }
}

#[test]
fn recorded_logs_are_as_they_should_be() {
    let (mut whole, mut cut) = (0, 0);
    for (name, logs) in recordings() {
        for (session, log) in logs {
            assert_eq!(log[0]["seq"], 0, "{name}: the log of {session} is told from its beginning");
            let delegated = log.iter().any(|event| event["type"] == "subagent/descriptor");
            let header = if delegated { child() } else { header() };
            let lines: Vec<_> = log.iter().map(Value::to_string).collect();
            let found = audit(&header, lines.iter().map(String::as_str));
            if (name.as_str(), session.as_str()) == ("v0.1.0rc6.bad-prompt-params.jsonl", "s-str") {
                // A prompt that this host refuses (S-56).
                assert_eq!(
                    found.unwrap_err().to_string(),
                    "seq 0: agent/inbox/spliced: \"inserted[0].content\" must be an array, got \"PROMPT: plain string\" \
                     (L-17)"
                );
                continue;
            }
            let summary = found.unwrap_or_else(|finding| panic!("{name}: {session}: {finding}"));
            assert!(summary.next_step.is_empty() && summary.jobs.is_empty());
            match summary.open_turn {
                None => whole += 1,
                Some(_) => cut += 1,
            }
            told(&header, &summary, &log);
        }
    }
    // Two recordings end in the middle of a turn, and the wire with them (S-116).
    assert_eq!((whole, cut), (20, 2));
}

/// The summary says what the events say.
fn told(header: &Header, summary: &Summary, log: &[Value]) {
    assert_eq!(summary.cwd, header.cwd);
    let of = |kind: &str| log.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!(summary.last_turn, u64::try_from(of("turn/start").len()).unwrap());
    assert_eq!(
        summary.title.as_deref(),
        of("session/title").last().map(|event| event["data"]["title"].as_str().unwrap())
    );
    let surface: Vec<_> = log.iter().filter(|event| event.get("surfaceOp").is_some()).collect();
    assert_eq!(summary.surface.len(), surface.len());
    for (node, event) in summary.surface.iter().zip(surface) {
        let data = &event["data"];
        let message = data.get("message").unwrap_or(data);
        assert_eq!((&json!(node.seq), &json!(node.message)), (&event["seq"], &message["id"]));
    }
}

/// Every event of a turn depends on those before it.
#[test]
fn a_recorded_log_without_one_event_does_not_pass() {
    let mut checked = 0;
    for (name, logs) in recordings() {
        for (session, log) in logs.into_iter().filter(|(session, _)| session != "s-str") {
            let delegated = log.iter().any(|event| event["type"] == "subagent/descriptor");
            let header = if delegated { child() } else { header() };
            for out in 0..log.len() {
                let kind = log[out]["type"].as_str().unwrap();
                let end = log.len() - 1;
                // None of these is bound to come, and a log may end anywhere.
                let is_snapshot = log[out]["data"]["source"]["form"] == "snapshot";
                if out == end
                    || is_snapshot
                    || matches!(kind, "session/title" | "subagent/descriptor")
                {
                    continue;
                }
                let mut rest = log.clone();
                rest.remove(out);
                renumber(&mut rest, out);
                let lines: Vec<_> = rest.iter().map(Value::to_string).collect();
                let found = audit(&header, lines.iter().map(String::as_str));
                let harmless = kind == "assistant/chunk" && is_harmless(&log, out);
                assert_eq!(
                    found.is_ok(),
                    harmless,
                    "{name}: {session} without seq {out}, {kind}: {found:?}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// A delta or an end of a block: each says what the other says. What an attempt that failed has counted. And the
/// failure of the last attempt: a request may fail before a model is asked (L-74).
fn is_harmless(log: &[Value], out: usize) -> bool {
    let used = log.iter().any(|event| {
        event["type"] == "assistant/message"
            && event["sourceEventSeqs"].as_array().unwrap().contains(&json!(out))
    });
    match log[out]["data"]["chunk"]["type"].as_str().unwrap() {
        "block-start" => false,
        "usage" => !used,
        "finish" => log[out + 1]["type"] == "step/end",
        _ => true,
    }
}

/// Sequence numbers behind the gap go down by one, also where they are named.
fn renumber(log: &mut [Value], out: usize) {
    let lower = |seq: &mut Value| {
        if let Some(number) = seq.as_u64().filter(|number| *number > out as u64) {
            *seq = json!(number - 1);
        }
    };
    for event in log {
        lower(&mut event["seq"]);
        if let Some(Value::Array(sources)) = event.get_mut("sourceEventSeqs") {
            sources.retain(|source| source.as_u64() != Some(out as u64));
            sources.iter_mut().for_each(lower);
        }
        if let Some(Value::Array(sources)) = event["data"].get_mut("messageSeqs") {
            sources.iter_mut().for_each(lower);
        }
    }
}
