//! Recorded runs of the ACP child backend as they lie in `vectors/acp-child`: the lines of a file, with what stands there
//! instead where this backend departs, and by which rule. Playing them is left to whoever has a codec or a host.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

/// Where the files lie.
pub fn folder() -> PathBuf {
    let tests =
        if Path::new(env!("CARGO_MANIFEST_DIR")).ends_with("tests") { "." } else { "../../tests" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(tests).join("vectors/acp-child")
}

/// The names of all files, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a readable name"))
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    names.sort();
    names
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Departure {
    rule: String,
    because: String,
    file: String,
    line: usize,
    instead: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    departure: Vec<Departure>,
}

/// The lines of a file, as this backend has them.
///
/// # Panics
///
/// When a departure says what was recorded: then it is not needed.
pub fn lines(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join("departures.toml")).expect("the departures");
    let File { departure } = toml::from_str(&text).expect("departures.toml is read");
    let parsed = |text: &str| -> Value { serde_json::from_str(text).expect("a line is JSON") };
    let recorded = fs::read_to_string(folder().join(file)).expect("a recording");
    let mut lines = Vec::new();
    for (index, line) in recorded.lines().enumerate() {
        let line = parsed(line);
        match departure.iter().find(|one| one.file == file && one.line == index + 1) {
            None => lines.push(line),
            Some(Departure { rule, because, instead, .. }) => {
                let instead: Vec<_> = instead.iter().map(|text| parsed(text)).collect();
                assert_ne!(instead, [line], "{file}: {rule} ({because}) is no departure");
                lines.extend(instead);
            }
        }
    }
    lines
}

/// Whether the caller ends the run of a file while it goes on, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervention {
    None,
    /// Its signal is set.
    Abort,
    /// It gives the run back.
    Dispose,
}

/// What the recordings' caller did (`vectors/acp-child/README.md`).
pub fn intervention(file: &str) -> Intervention {
    match file {
        "child-hang.jsonl" | "child-ignore-cancel.jsonl" | "child-never-initialize.jsonl" => {
            Intervention::Abort
        }
        "child-hang-dispose.jsonl" | "child-ignore-eof.jsonl" | "child-trap-term.jsonl" => {
            Intervention::Dispose
        }
        _ => Intervention::None,
    }
}

/// What the backend said of a run, by member.
pub fn backend<'a>(lines: &'a [Value], member: &str) -> Option<&'a Value> {
    lines.iter().filter(|line| line["from"] == "backend").find_map(|line| line.get(member))
}
