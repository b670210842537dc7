//! Logs in a notation of their own, good ones and, for every invariant, a bad one with its exact finding.

mod answers;
mod asks;
mod envelopes;
mod inboxes;
mod recordings;
mod requests;
mod seeds;
mod stories;
mod turns;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Auditor, Finding, Summary, audit};
use crate::header::{Header, Origin};

pub(super) fn header() -> Header {
    Header::main()
}

pub(super) fn fork(seed_length: u64) -> Header {
    Header { parent_session: Some("p".into()), seed_length: Some(seed_length), ..header() }
}

pub(super) fn child() -> Header {
    Header {
        parent_session: Some("p".into()),
        origin: Some(Origin::Subagent),
        delegation_depth: 1,
        ..header()
    }
}

/// Says that a log is as it should be, and what it folds to.
pub(super) fn good(script: &str) -> Summary {
    good_for(&header(), script)
}

pub(super) fn good_for(header: &Header, script: &str) -> Summary {
    let log = log(script);
    match audit(header, log.iter().map(String::as_str)) {
        Ok(summary) => summary,
        Err(finding) => panic!("{script}\n{finding}\n{}", log.join("\n")),
    }
}

/// Says what is wrong with a log. What stands before the finding is as it should be.
pub(super) fn bad(script: &str, expected: &str) {
    bad_for(&header(), script, expected);
}

pub(super) fn bad_for(header: &Header, script: &str, expected: &str) {
    let log = log(script);
    let found = audit(header, log.iter().map(String::as_str));
    let found = found.expect_err(script).to_string();
    assert_eq!(found, expected, "{script}\n{}", log.join("\n"));
}

/// Tables of bad logs.
pub(super) fn all_bad(table: &[(&str, &str)]) {
    for (script, expected) in table {
        bad(script, expected);
    }
}

/// The events that a script tells of, one a step, separated by `; `:
///
/// `in m`, `step-in m` (a message is queued; `+` for one of a plugin's), `claim turn`, `claim step`, `turn`,
/// `step`, `user m`, `snapshot m`, `title seq`, `header reason`, `context`, `start i kind`, `text i words`,
/// `end i words`, `block i id name` (a whole tool call), `usage`, `finish kind`, `failed code`, `answer`,
/// `call id`, `result id`, `step-end`, `turn-end kind`, and so on as `line` has them, or an envelope without seq
/// and time. `@asked`, `@said`, `@called ids`, `@turn` stand for what usually comes before.
pub(super) fn log(script: &str) -> Vec<String> {
    let mut scribe = Scribe { model: "m".to_owned(), ..Scribe::default() };
    for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        scribe.line(line);
    }
    scribe.events
}

#[derive(Default)]
struct Scribe {
    events: Vec<String>,
    turn: u64,
    step: u64,
    waiting: BTreeMap<String, Vec<Value>>,
    chunks: Vec<usize>,
    blocks: Vec<Value>,
    usage: Option<Value>,
    calls: BTreeMap<String, usize>,
    model: String,
}

fn message(id: &str, source: &Value) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": format!("text of {id}")}], "source": source, "id": id})
}

impl Scribe {
    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            [raw, ..] if raw.starts_with('{') => {
                let event: Value = serde_json::from_str(line).expect(line);
                let mut event = event.as_object().unwrap().clone();
                let seq = self.events.len();
                event.entry("seq").or_insert(json!(seq));
                event.entry("time").or_insert(json!(seq));
                self.events.push(Value::Object(event).to_string());
            }
            ["@asked"] => {
                self.all("in m1; turn; claim turn; step; user m1; header initial; context")
            }
            ["@said"] => self.all("@asked; says; answer"),
            ["@turn"] => self.all("@said; step-end; turn-end completed"),
            ["@called", ids @ ..] => {
                self.all("@asked");
                self.calls(ids);
            }
            ["calls", ids @ ..] => self.calls(ids),
            ["says"] => self.all("start 0 text; text 0 hi; end 0 hi; usage; finish stop"),
            ["in", id] => self.queue("next-turn", id, &json!({"kind": "user"})),
            ["step-in", id] => self.queue("next-step", id, &json!({"kind": "user"})),
            ["in", id, "+"] => {
                self.queue("next-turn", id, &json!({"kind": "plugin", "plugin": "p"}))
            }
            ["step-in", id, "+"] => {
                self.queue("next-step", id, &json!({"kind": "plugin", "plugin": "p"}))
            }
            ["claim", "turn"] => self.claim("next-turn", 1),
            ["claim", "step"] => {
                let all = self.waiting.get("next-step").map_or(0, Vec::len);
                self.claim("next-step", all);
            }
            ["turn"] => {
                (self.turn, self.step) = (self.turn + 1, 0);
                self.event("turn/start", json!({"turn": self.turn}));
            }
            ["step"] => {
                self.step += 1;
                self.chunks.clear();
                self.blocks.clear();
                self.usage = None;
                self.calls.clear();
                self.event("step/start", json!({"turn": self.turn, "step": self.step}));
            }
            ["user", id] => {
                self.surface("user/message", message(id, &json!({"kind": "user"})), None)
            }
            ["user", id, "+"] => {
                self.surface(
                    "user/message",
                    message(id, &json!({"kind": "plugin", "plugin": "p"})),
                    None,
                );
            }
            ["snapshot", id] => {
                let source =
                    json!({"kind": "plugin", "plugin": "p", "form": "snapshot", "sections": []});
                self.surface("user/message", message(id, &source), None);
            }
            ["header", reason] => self.header(reason, "m"),
            ["header", reason, model] => self.header(reason, model),
            ["context"] => {
                self.event("request/context", json!({"provider": "p", "model": self.model}))
            }
            ["title", of] => {
                let data = json!({"title": "T", "messageSeqs": [number(of)], "source": {"kind": "fallback"}});
                self.event("session/title", data);
            }
            ["start", index, kind] => {
                self.chunk(
                    json!({"type": "block-start", "index": number(index), "blockType": kind}),
                );
            }
            ["text", index, text] => {
                self.chunk(json!({"type": "text-delta", "index": number(index), "text": text}));
            }
            ["end", index, text] => {
                let block = json!({"type": "text", "text": text});
                self.blocks.push(block.clone());
                self.chunk(json!({"type": "block-end", "index": number(index), "block": block}));
            }
            ["block", index, id, name] => self.tool_call_block(number(index), id, name),
            ["usage"] => {
                let usage = json!({"inputTokens": 3, "outputTokens": 4});
                self.usage = Some(usage.clone());
                self.chunk(json!({"type": "usage", "usage": usage}));
            }
            ["finish", kind] => self.chunk(json!({"type": "finish", "reason": {"kind": kind}})),
            ["failed", code] => {
                let failure = json!({"message": "no", "code": code});
                self.chunk(
                    json!({"type": "finish", "reason": {"kind": "error", "failure": failure}}),
                );
            }
            ["retry", id, retry, delay] => self.retry(id, number(retry), number(delay)),
            ["retried", id, retry] => {
                self.chunks.clear();
                self.blocks.clear();
                let data = json!({"retryId": id, "turn": self.turn, "step": self.step, "retry": number(retry)});
                self.event("llm/retry-started", data);
            }
            ["answer"] => self.answer(),
            ["call", id] => {
                self.calls.insert((*id).to_owned(), self.events.len());
                let (turn, step) = (self.turn, self.step);
                let data = json!({"turn": turn, "step": step, "callId": id, "name": "t", "arguments": "{}"});
                self.event("tool/call", data);
            }
            ["result", id] => self.result(id, false, None),
            ["failed-result", id] => self.result(id, true, None),
            ["lost-result", id, code] => self.result(id, true, Some(code)),
            ["step-end"] => self.event("step/end", json!({"turn": self.turn, "step": self.step})),
            ["turn-end", "interrupted"] => {
                let mut event = self.envelope(
                    "turn/end",
                    json!({"turn": self.turn, "reason": {"kind": "interrupted"}}),
                );
                event["time"] = self.last_time();
                self.events.push(event.to_string());
            }
            ["turn-end", "aborted"] => {
                let reason = json!({"kind": "aborted", "reason": {"kind": "user"}});
                self.event("turn/end", json!({"turn": self.turn, "reason": reason}));
            }
            ["turn-end", "error", code] => {
                let reason = json!({"kind": "error", "error": {"message": "no", "code": code}});
                self.event("turn/end", json!({"turn": self.turn, "reason": reason}));
            }
            ["turn-end", kind] => {
                self.event("turn/end", json!({"turn": self.turn, "reason": {"kind": kind}}));
            }
            ["forget"] => self.waiting.clear(),
            ["end-seed"] => self.event("session/end-seed", json!({})),
            ["ask", id, call] => {
                self.event("approval/asked", json!({"id": id, "toolName": "t", "callId": call}));
            }
            ["decide", id, outcome] => {
                self.event("approval/decided", json!({"id": id, "outcome": outcome}))
            }
            ["policy", policy] => self.event("approval/policy", json!({"policy": policy})),
            ["job", id, call] => {
                let (kind, _) = id.split_once('-').unwrap();
                let data = json!({"jobId": id, "kind": kind, "label": "l", "startedAt": 1, "toolCall": {"callId": call}});
                self.ignorable("job/registered", data);
            }
            ["settled", id, status, cause] => {
                let data = json!({"jobId": id, "status": status, "detail": "d", "finishedAt": 2, "cause": cause});
                self.ignorable("job/settled", data);
            }
            other => panic!("no such step: {other:?}"),
        }
    }

    fn all(&mut self, script: &str) {
        for line in script.split("; ") {
            self.line(line);
        }
    }

    fn envelope(&self, kind: &str, data: Value) -> Value {
        let seq = self.events.len();
        json!({"type": kind, "seq": seq, "time": seq, "data": data})
    }

    fn event(&mut self, kind: &str, data: Value) {
        self.events.push(self.envelope(kind, data).to_string());
    }

    fn ignorable(&mut self, kind: &str, data: Value) {
        let mut event = self.envelope(kind, data);
        event["ignorable"] = json!(true);
        self.events.push(event.to_string());
    }

    fn surface(&mut self, kind: &str, data: Value, sources: Option<Value>) {
        let mut event = self.envelope(kind, data);
        if let Some(sources) = sources {
            event["sourceEventSeqs"] = sources;
        }
        event["surfaceOp"] = json!("append");
        self.events.push(event.to_string());
    }

    fn last_time(&self) -> Value {
        let event: Value = serde_json::from_str(self.events.last().unwrap()).unwrap();
        event["time"].clone()
    }

    fn queue(&mut self, target: &str, id: &str, source: &Value) {
        let list = self.waiting.entry(target.to_owned()).or_default();
        let start = list.len();
        list.push(json!(id));
        let inserted = [message(id, source)];
        let data = json!({"target": target, "start": start, "inserted": inserted});
        self.event("agent/inbox/spliced", data);
    }

    fn claim(&mut self, target: &str, count: usize) {
        let list = self.waiting.entry(target.to_owned()).or_default();
        list.drain(..count.min(list.len()));
        let data = json!({"target": target, "start": 0, "removedCount": count, "inserted": []});
        self.event("agent/inbox/spliced", data);
    }

    fn header(&mut self, reason: &str, model: &str) {
        model.clone_into(&mut self.model);
        let header = json!({"config": {"provider": "p", "model": model}});
        self.event("request/header", json!({"header": header, "reason": reason}));
    }

    fn chunk(&mut self, chunk: Value) {
        self.chunks.push(self.events.len());
        let data = json!({"turn": self.turn, "step": self.step, "chunk": chunk});
        self.event("assistant/chunk", data);
    }

    fn tool_call_block(&mut self, index: u64, id: &str, name: &str) {
        let block = json!({"type": "tool-call", "id": id, "name": name, "arguments": "{}"});
        self.blocks.push(block.clone());
        self.chunk(json!({"type": "block-start", "index": index, "blockType": "tool-call"}));
        let delta = json!({"type": "tool-call-delta", "index": index, "id": id, "name": name, "argumentsDelta": "{}"});
        self.chunk(delta);
        self.chunk(json!({"type": "block-end", "index": index, "block": block}));
    }

    fn calls(&mut self, ids: &[&str]) {
        for (index, id) in (0..).zip(ids) {
            self.tool_call_block(index, id, "t");
        }
        self.all("finish tool-calls; answer");
    }

    fn answer(&mut self) {
        let source = json!({"kind": "model", "provider": "p", "model": self.model});
        let id = format!("a{}", self.events.len());
        let message =
            json!({"role": "assistant", "content": self.blocks, "source": source, "id": id});
        let mut data = json!({"turn": self.turn, "step": self.step, "message": message});
        if let Some(usage) = &self.usage {
            data["usage"] = usage.clone();
        }
        self.surface("assistant/message", data, Some(json!(self.chunks)));
    }

    fn retry(&mut self, id: &str, retry: u64, delay: u64) {
        let key = r#"["normal",2,["RATE_LIMIT","SERVER"],500,10000,0.1]"#;
        let data = json!({
            "retryId": id, "turn": self.turn, "step": self.step, "provider": "p", "mode": "normal",
            "policyKey": key, "retry": retry, "maxRetries": 2, "delayMs": delay,
            "failure": {"message": "no", "code": "SERVER"},
        });
        self.event("llm/retry", data);
    }

    fn result(&mut self, id: &str, is_error: bool, lost: Option<&str>) {
        let content = [json!({"type": "text", "text": "r"})];
        let block = json!({"type": "tool-result", "toolCallId": id, "content": content, "isError": is_error});
        let name = match lost {
            Some(_) => format!("interrupted-tool-result-{id}-{}", self.events.len()),
            None => format!("r{}", self.events.len()),
        };
        let source = json!({"kind": "tool", "callId": id});
        let message = json!({"role": "user", "content": [block], "source": source, "id": name});
        let mut data = json!({"turn": self.turn, "step": self.step, "message": message});
        let time = self.last_time();
        if let Some(code) = lost {
            data["error"] = json!({"name": "E", "code": code});
        }
        let sources = self.calls.get(id).map(|seq| json!([seq]));
        self.surface("tool/result", data, sources);
        if lost.is_some() {
            let event = self.events.last_mut().unwrap();
            let mut value: Value = serde_json::from_str(event).unwrap();
            value["time"] = time;
            *event = value.to_string();
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap()
}

#[test]
fn a_finding_says_where_what_and_by_which_rule() {
    let finding =
        Finding { seq: Some(17), rule: "L-49", what: "tool/result without a tool/call".to_owned() };
    assert_eq!(finding.to_string(), "seq 17: tool/result without a tool/call (L-49)");
    let finding = Finding { seq: None, rule: "L-4", what: "cwd".to_owned() };
    assert_eq!(finding.to_string(), "header: cwd (L-4)");
}

#[test]
fn after_a_finding_there_is_no_other() {
    let mut auditor = Auditor::new(&header());
    let first = auditor.push("{}").unwrap_err();
    for event in log("@turn") {
        assert_eq!(auditor.push(&event), Err(first.clone()));
    }
    assert_eq!(auditor.finish(), Err(first));
}
