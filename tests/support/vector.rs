//! Recorded conversations as they lie in `vectors/sdk`: the lines of a file, the placeholders in them, and whether
//! a frame that came is the one that was recorded. Playing them is left to `play.rs`.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::wire::Signal;

/// Where the files lie.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/sdk")
}

/// The names of all files, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the vectors")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a readable name"))
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    names.sort();
    names
}

/// One line of a file.
#[derive(Debug, Clone)]
pub struct Line {
    /// From 1.
    pub number: usize,
    pub what: What,
}

/// What a line tells.
#[derive(Debug, Clone)]
pub enum What {
    /// How the runtime was started.
    Meta {
        argv: Vec<String>,
        env: BTreeMap<String, String>,
    },
    /// The client wrote these pieces, each in one go.
    Send(Vec<Vec<u8>>),
    /// The runtime said this.
    Receive(Value),
    /// The client closed the runtime's input.
    InputClosed,
    Signal(Signal),
    OutputEnded,
    Exit(i32),
}

/// The lines of one file.
pub fn read(name: &str) -> Vec<Line> {
    lines(name)
        .into_iter()
        .map(|(number, line)| Line { number, what: what(name, number, &line) })
        .collect()
}

/// The lines of one file as JSON, with their numbers.
pub fn lines(name: &str) -> Vec<(usize, Value)> {
    let text =
        fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let number = index + 1;
            (number, parse(line).unwrap_or_else(|error| panic!("{name}:{number}: {error}")))
        })
        .collect()
}

fn what(name: &str, number: usize, line: &Value) -> What {
    let text = |member: &str| line.get(member).and_then(Value::as_str);
    match text("dir") {
        Some("meta" | "spawn") => What::Meta {
            argv: strings(&line["argv"]),
            env: line["env"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
        },
        Some("send") => {
            What::Send(pieces(line).unwrap_or_else(|| panic!("{name}:{number}: nothing is sent")))
        }
        Some("client->runtime") => {
            What::Send(vec![text("raw").expect("a raw line").as_bytes().to_vec()])
        }
        Some("recv") => What::Receive(line["frame"].clone()),
        Some("stdin-close" | "client stdin EOF") => What::InputClosed,
        Some("signal" | "signal to runtime") => {
            What::Signal(match (text("name"), line["sig"].as_i64()) {
                (Some("SIGTERM"), _) | (_, Some(15)) => Signal::Terminate,
                (Some("SIGINT"), _) | (_, Some(2)) => Signal::Interrupt,
                other => panic!("{name}:{number}: unknown signal {other:?}"),
            })
        }
        Some("stdout-eof") => What::OutputEnded,
        Some("exit") => {
            What::Exit(i32::try_from(line["code"].as_i64().expect("a code")).expect("a status"))
        }
        other => panic!("{name}:{number}: unknown kind of line {other:?}"),
    }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|item| item.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn pieces(line: &Value) -> Option<Vec<Vec<u8>>> {
    if let Some(frame) = line.get("frame") {
        return Some(vec![format!("{frame}\n").into_bytes()]);
    }
    if let Some(raw) = line.get("raw") {
        return Some(vec![raw.as_str()?.as_bytes().to_vec()]);
    }
    if let Some(hex) = line.get("raw-bytes-hex") {
        let digits = hex.as_str()?.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        return Some(vec![digits.map(byte).collect::<Option<_>>()?]);
    }
    let bytes = line.get("raw-bytes-split-inside-utf8")?.as_str()?.as_bytes();
    let inside = bytes.iter().position(|byte| (0x80..0xc0).contains(byte))?;
    let (before, after) = bytes.split_at(inside);
    Some(vec![before.to_vec(), after.to_vec()])
}

/// Reads JSON text in which an unpaired surrogate escape stands for U+FFFD (S-17).
pub fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(&without_lone_surrogates(text))
}

fn without_lone_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let high = escaped_unit(escape).filter(|unit| (0xd800..0xdc00).contains(unit));
        let low =
            |text: &str| escaped_unit(text).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
        let (kept, length) = match high {
            Some(_) if escape.get(6..).is_some_and(low) => (&escape[..12], 12),
            Some(_) => ("\\ufffd", 6),
            None if low(escape) => ("\\ufffd", 6),
            // The character behind the backslash is part of the escape, whatever it is.
            None => {
                let length = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
                (&escape[..length], length)
            }
        };
        out.push_str(kept);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

fn escaped_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// What placeholders stand for in one conversation.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// `<cwd>` and the like, with what is known before anything is said.
    known: Vec<(&'static str, String)>,
    /// `<id:N>`, by the first place where each stood.
    ids: BTreeMap<String, String>,
}

/// Where two frames differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A JSON pointer.
    pub path: String,
    pub expected: String,
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "at {path}\n  expected {}\n  found    {}", self.expected, self.found)
    }
}

/// Placeholders for prose that is no part of the wire contract.
const PROSE: [&str; 8] = [
    "<system-prompt>",
    "<description>",
    "<context-text>",
    "<section-text>",
    "<harness-text>",
    "<summary>",
    "<missing-credential-message>",
    // Ours, for departures whose text is free.
    "<text>",
];

impl Bindings {
    /// With what is known beforehand.
    pub fn new(known: &[(&'static str, &str)]) -> Bindings {
        Bindings {
            known: known.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            ids: BTreeMap::new(),
        }
    }

    /// Text with known placeholders filled in.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.known {
            text = text.replace(name, value);
        }
        for (name, value) in &self.ids {
            text = text.replace(name, value);
        }
        text
    }

    /// The value of `<id:N>`, if it is known by now.
    pub fn id(&self, name: &str) -> Option<&str> {
        self.ids.get(name).map(String::as_str)
    }

    /// Gives `<id:N>` a value.
    pub fn bind(&mut self, name: &str, value: &str) {
        self.ids.insert(name.to_owned(), value.to_owned());
    }

    /// Whether `found` is what was recorded, and if not, where the first difference is. Ids are remembered only
    /// if it is.
    pub fn compare(&mut self, expected: &Value, found: &Value) -> Result<(), Difference> {
        let mut bound = self.clone();
        bound.value("", expected, found)?;
        *self = bound;
        Ok(())
    }

    fn value(&mut self, path: &str, expected: &Value, found: &Value) -> Result<(), Difference> {
        let same = match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => {
                return self.object(path, expected, found);
            }
            (Value::Array(wanted), Value::Array(given)) => {
                for (index, (expected, found)) in wanted.iter().zip(given).enumerate() {
                    self.value(&format!("{path}/{index}"), expected, found)?;
                }
                wanted.len() == given.len()
            }
            (Value::String(text), found) => self.text(text, found),
            (expected, found) => expected == found,
        };
        if same { Ok(()) } else { Err(difference(path, &expected.to_string(), &found.to_string())) }
    }

    fn object(
        &mut self,
        path: &str,
        expected: &Map<String, Value>,
        found: &Map<String, Value>,
    ) -> Result<(), Difference> {
        for (name, value) in expected {
            let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            match found.get(name) {
                Some(found) => self.value(&path, value, found)?,
                None => return Err(difference(&path, &value.to_string(), "nothing")),
            }
        }
        match found.iter().find(|(name, _)| !expected.contains_key(*name)) {
            Some((name, value)) => {
                Err(difference(&format!("{path}/{name}"), "nothing", &value.to_string()))
            }
            None => Ok(()),
        }
    }

    fn text(&mut self, expected: &str, found: &Value) -> bool {
        match (expected, found) {
            // A point in time of this century, in milliseconds.
            ("<ts>", found) => found
                .as_u64()
                .is_some_and(|time| (1_600_000_000_000..4_200_000_000_000).contains(&time)),
            ("<ms>", found) => found.is_u64(),
            ("<parameters>", found) => found.get("type").is_some_and(|kind| kind == "object"),
            (prose, found) if PROSE.contains(&prose) => {
                found.as_str().is_some_and(|text| !text.is_empty())
            }
            (expected, Value::String(found)) => self.filled(&self.fill(expected), found),
            _ => false,
        }
    }

    /// Compares text in which an unknown id may stand.
    fn filled(&mut self, expected: &str, found: &str) -> bool {
        let Some((before, rest)) = expected.split_once("<id:") else { return expected == found };
        let Some((number, after)) = rest.split_once('>') else { return expected == found };
        let Some(id) = found.strip_prefix(before).and_then(|found| found.strip_suffix(after))
        else {
            return false;
        };
        let new = !self.ids.values().any(|known| known == id);
        if new && is_id(before, id) {
            self.bind(&format!("<id:{number}>"), id);
            return true;
        }
        false
    }
}

/// A UUID, or 16 hex digits behind `bash-`.
fn is_id(before: &str, id: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if before.ends_with("bash-") {
        return id.len() == 16 && hex(id);
    }
    let groups: Vec<_> = id.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| hex(group))
}

fn difference(path: &str, expected: &str, found: &str) -> Difference {
    Difference { path: path.to_owned(), expected: expected.to_owned(), found: found.to_owned() }
}
