//! Reads what a scenario showed, and collects everything that is wrong with it, for all clients at
//! once.

use std::{fs, path::Path, thread};

use serde_json::Value;

use crate::clients::{Drive, Shown, play};

/// Plays a scenario with several clients and lets `check` say what is wrong.
pub(crate) fn every(drives: &[Drive], scenario: &str, check: impl Fn(&Shown, &mut Claims) + Sync) {
    let complaints: Vec<String> = thread::scope(|scope| {
        let playing: Vec<_> = drives
            .iter()
            .map(|drive| {
                let check = &check;
                scope.spawn(move || {
                    let mut claims = Claims { complaints: Vec::new() };
                    match play(*drive, scenario) {
                        Ok(shown) => check(&shown, &mut claims),
                        Err(complaint) => claims.complaints.push(complaint),
                    }
                    let name = drive.name();
                    claims
                        .complaints
                        .into_iter()
                        .map(move |one| format!("{name}: {scenario}: {one}"))
                })
            })
            .collect();
        playing.into_iter().flat_map(|one| one.join().expect("a scenario was played")).collect()
    });
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// What is wrong so far.
pub(crate) struct Claims {
    complaints: Vec<String>,
}

impl Claims {
    pub(crate) fn equal<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(
        &mut self,
        what: &str,
        found: T,
        expected: U,
    ) {
        if found != expected {
            self.complaints.push(format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }

    pub(crate) fn holds(&mut self, what: &str, claim: bool, evidence: &dyn std::fmt::Debug) {
        if !claim {
            self.complaints.push(format!("{what}; found {evidence:?}"));
        }
    }
}

/// A member by its path; null where there is none.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Notifications by kind, in order: the status, or the type of the event. What form B tells the model of its settings
/// (L-96) is left out: the recorded configurations have none.
pub(crate) fn kinds(notifications: &Value) -> Vec<String> {
    let is_context = |one: &&Value| at(one, "/params/event/data/source/form") == "snapshot";
    items(notifications)
        .iter()
        .filter(|one| !is_context(one))
        .map(|one| kind(at(one, "/method"), at(one, "/params")))
        .collect()
}

fn kind(method: &Value, params: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    match method.as_str() {
        Some("session.event") => text(at(params, "/event/type")),
        Some("session.status") => format!("status {}", text(at(params, "/status"))),
        _ => text(method),
    }
}

/// The events of a run that have this type.
pub(crate) fn events<'a>(run: &'a Value, kind: &str) -> Vec<&'a Value> {
    items(at(run, "/events")).iter().filter(|event| at(event, "/type") == kind).collect()
}

/// What the recorded conversation of the baseline shows a client: one list of notifications for each
/// time that a session came to rest.
pub(crate) struct Recording {
    pub(crate) runs: Vec<Vec<String>>,
    /// The data of each `turn/end`.
    pub(crate) ends: Vec<Value>,
}

impl Recording {
    pub(crate) fn read(name: &str) -> Recording {
        let file = format!("vectors/sdk/v0.1.0rc6.{name}.jsonl");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut recording = Recording { runs: Vec::new(), ends: Vec::new() };
        let mut run = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let frame = at(&line, "/frame");
            if at(&line, "/dir") != "recv" || !at(frame, "/id").is_null() {
                continue;
            }
            let params = at(frame, "/params");
            let kind = kind(at(frame, "/method"), params);
            if kind == "turn/end" {
                recording.ends.push(at(params, "/event/data").clone());
            }
            let rests = kind == "status idle";
            run.push(kind);
            if rests {
                recording.runs.push(std::mem::take(&mut run));
            }
        }
        recording
    }
}
