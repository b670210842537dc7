//! Recorded ACP conversations as they lie in `vectors/acp`: the lines of a file, where we depart from them and by which
//! rule, and whether a frame that came is the one that was to come. Playing them is left to whoever has a codec or a host.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Where the files lie.
pub fn folder() -> PathBuf {
    let tests =
        if Path::new(env!("CARGO_MANIFEST_DIR")).ends_with("tests") { "." } else { "../../tests" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(tests).join("vectors/acp")
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

/// What happens next in a conversation.
#[derive(Debug, Clone)]
pub enum Step {
    /// The client writes this, whole lines or a piece of one, with placeholders.
    Write(String),
    /// This frame comes.
    Expect(Expected),
    /// The client closes the agent's input.
    EndInput,
    /// The agent is sent this signal. It ends in order.
    Terminate,
    /// The same.
    Interrupt,
    /// The agent ends with this status.
    Exit(i64),
}

/// A frame that is to come.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The line that it stands for.
    pub line: usize,
    pub frame: Value,
    /// What was recorded in its place, if anything was.
    pub recorded: Option<Value>,
    /// Departures that have changed it, by their place in the file.
    pub departures: Vec<usize>,
}

/// A place where we say something else than what was recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    /// For example `A-11`.
    pub rule: String,
    pub because: String,
    file: String,
    path: Option<String>,
    with: Option<String>,
    /// Only in frames that have this place as well.
    beside: Option<String>,
    line: Option<usize>,
    behind: Option<usize>,
    instead: Option<Vec<String>>,
    /// Only where a host runs.
    #[serde(default)]
    pub host: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    departure: Vec<Departure>,
}

/// All departures.
pub fn departures() -> Vec<Departure> {
    let text = fs::read_to_string(folder().join("departures.toml")).expect("the departures");
    let File { departure } = toml::from_str(&text).expect("departures.toml is read");
    for one in &departure {
        let kinds = [one.path.is_some(), one.line.is_some(), one.behind.is_some()];
        let single = kinds.iter().filter(|given| **given).count() == 1;
        let fits =
            one.path.is_some() == one.with.is_some() && one.path.is_none() == one.instead.is_some();
        assert!(single && fits, "a departure has one place and one thing to put there: {one:?}");
    }
    departure
}

impl Departure {
    /// Whether it is about recordings whose names begin so.
    pub fn is_of(&self, beginning: &str) -> bool {
        self.file.starts_with(beginning)
    }

    fn means(&self, file: &str) -> bool {
        match self.file.strip_suffix('*') {
            Some(beginning) => file.starts_with(beginning),
            None => self.file == file,
        }
    }

    fn instead(&self) -> Vec<Value> {
        let texts = self.instead.iter().flatten();
        texts.map(|text| serde_json::from_str(text).expect("a departure's JSON")).collect()
    }
}

/// The steps of one file, with the departures that hold there.
pub fn steps(file: &str, departures: &[Departure], host: bool) -> Vec<Step> {
    let text = fs::read_to_string(folder().join(file)).expect("a recording");
    let here = |one: &Departure| one.means(file) && (host || !one.host);
    let mut steps = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line: Value = serde_json::from_str(line).expect("a line of a recording is JSON");
        let replaced = departures.iter().position(|one| one.line == Some(number) && here(one));
        match replaced {
            Some(index) => {
                for frame in departures[index].instead() {
                    let recorded = line.get("frame").cloned();
                    steps.push(Step::Expect(Expected {
                        line: number,
                        frame,
                        recorded,
                        departures: vec![index],
                    }));
                }
            }
            None => steps.extend(step(number, &line, departures, &here)),
        }
        for (index, one) in departures.iter().enumerate() {
            if one.behind == Some(number) && here(one) {
                for frame in one.instead() {
                    steps.push(Step::Expect(Expected {
                        line: number,
                        frame,
                        recorded: None,
                        departures: vec![index],
                    }));
                }
            }
        }
        // Nobody wrote down when these were sent their signal.
        match (file, number) {
            ("pub-sigterm.jsonl", 5) => steps.push(Step::Terminate),
            ("pub-sigint.jsonl", 4) => steps.push(Step::Interrupt),
            _ => {}
        }
        // The process is asked to end, says its last words, and ends.
        match line["signal"].as_str() {
            Some("SIGTERM") => steps.push(Step::Exit(0)),
            Some("SIGINT") => steps.push(Step::Exit(130)),
            _ => {}
        }
    }
    // Where a client library closed the connection, nobody wrote it down.
    let ends = |step: &Step| matches!(step, Step::EndInput | Step::Terminate | Step::Interrupt);
    if !steps.iter().any(ends) {
        steps.retain(|step| !matches!(step, Step::Exit(_)));
        steps.extend([Step::EndInput, Step::Exit(0)]);
    }
    steps
}

fn step(
    number: usize,
    line: &Value,
    departures: &[Departure],
    here: &dyn Fn(&Departure) -> bool,
) -> Option<Step> {
    Some(match (line["from"].as_str(), line.get("frame"), line["raw"].as_str()) {
        (Some("client"), Some(frame), _) => Step::Write(format!("{frame}\n")),
        (Some("client"), None, Some(raw)) => Step::Write(raw.to_owned()),
        (Some("client"), None, None) => {
            assert_eq!(line["event"], "stdin-eof", "line {number}");
            Step::EndInput
        }
        (Some("agent"), Some(recorded), _) => {
            let mut frame = recorded.clone();
            let mut changed = Vec::new();
            for (index, one) in departures.iter().enumerate() {
                let beside = one.beside.as_deref();
                let fits = here(one) && beside.is_none_or(|path| recorded.pointer(path).is_some());
                let place = one.path.as_deref().filter(|_| fits);
                if let Some(place) = place.and_then(|path| frame.pointer_mut(path)) {
                    let with = one.with.as_deref().unwrap_or_default();
                    merge(place, serde_json::from_str(with).expect("a departure's JSON"));
                    changed.push(index);
                }
            }
            let recorded = Some(recorded.clone());
            Step::Expect(Expected { line: number, frame, recorded, departures: changed })
        }
        (Some("process"), ..) => match (line["signal"].as_str(), line["exit"].as_i64()) {
            (Some("SIGTERM"), _) => Step::Terminate,
            (Some("SIGINT"), _) => Step::Interrupt,
            (_, Some(code)) => Step::Exit(code),
            // The recorder had to kill it, which is a defect of the reference.
            (Some("SIGKILL"), None) => Step::Exit(0),
            (None, None) if line.get("note").is_some() => return None,
            _ => panic!("line {number}: {line}"),
        },
        _ => panic!("line {number}: {line}"),
    })
}

fn merge(place: &mut Value, with: Value) {
    match (place, with) {
        (Value::Object(place), Value::Object(with)) => {
            place.extend(with);
            place.retain(|_, value| *value != "{{absent}}");
        }
        (place, with) => *place = with,
    }
}

/// What placeholders stand for in one conversation.
#[derive(Debug, Clone)]
pub struct Bindings {
    cwd: String,
    /// By name, with what stood there first.
    bound: BTreeMap<String, String>,
}

impl Bindings {
    /// With the workspace.
    pub fn new(cwd: &str) -> Bindings {
        Bindings { cwd: cwd.to_owned(), bound: BTreeMap::new() }
    }

    /// A text with what its placeholders stand for.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.replace("{{cwd}}", &self.cwd);
        for (name, value) in &self.bound {
            filled = filled.replace(name, value);
        }
        filled
    }

    /// Whether a frame that came is the one that was to come; else where they differ. A place of its own that is told
    /// for the first time is bound.
    pub fn compare(&mut self, expected: &Value, found: &Value) -> Result<(), String> {
        self.place("", expected, found)
    }

    fn place(&mut self, path: &str, expected: &Value, found: &Value) -> Result<(), String> {
        let differs = || Err(format!("at {path}\n  expected {expected}\n  found    {found}"));
        match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => {
                // The tree of a schema failure is told as well as one can.
                if path == "/error/data" && expected.contains_key("_errors") {
                    return if found.get("_errors").is_some_and(Value::is_array) {
                        Ok(())
                    } else {
                        differs()
                    };
                }
                self.members(path, expected, found)
            }
            (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
                let pairs = expected.iter().zip(found).enumerate();
                pairs.into_iter().try_for_each(|(index, (expected, found))| {
                    self.place(&format!("{path}/{index}"), expected, found)
                })
            }
            (Value::String(text), Value::String(found)) if text.contains("{{jobId}}") => {
                let (before, behind) = text.split_once("{{jobId}}").unwrap_or_default();
                let named = found.strip_prefix(before).and_then(|id| id.strip_suffix(behind));
                if named.is_some_and(|id| !id.is_empty()) { Ok(()) } else { differs() }
            }
            (Value::String(text), found) if text.starts_with("{{") && text != "{{cwd}}" => {
                match (text.as_str(), found) {
                    ("{{any}}", _) | ("{{number}}" | "{{usedTokens}}", Value::Number(_)) => Ok(()),
                    ("{{configOptions}}", Value::Array(_)) => Ok(()),
                    ("{{text}}", Value::String(_)) => Ok(()),
                    (name, Value::String(value))
                        if ["{{sessionId:", "{{uuid:", "{{cursor:"]
                            .iter()
                            .any(|kind| name.starts_with(kind)) =>
                    {
                        let bound =
                            self.bound.entry(name.to_owned()).or_insert_with(|| value.clone());
                        if bound == value { Ok(()) } else { differs() }
                    }
                    _ => differs(),
                }
            }
            (Value::String(text), Value::String(found)) if *found == self.fill(text) => Ok(()),
            (expected, found) if expected == found => Ok(()),
            _ => differs(),
        }
    }

    fn members(
        &mut self,
        path: &str,
        expected: &Map<String, Value>,
        found: &Map<String, Value>,
    ) -> Result<(), String> {
        if let Some(more) = found.keys().find(|name| !expected.contains_key(*name)) {
            return Err(format!(
                "at {path}\n  nothing is called {more} there\n  found    {found:?}"
            ));
        }
        expected.iter().try_for_each(|(name, expected)| match found.get(name) {
            Some(found) => self.place(&format!("{path}/{name}"), expected, found),
            None => Err(format!("at {path}\n  expected {name}\n  found    {found:?}")),
        })
    }
}

/// Which departures were met, and whether any of them was needed.
#[derive(Debug, Default)]
pub struct Met(BTreeMap<usize, bool>);

impl Met {
    /// Compares a frame that came, and remembers whether the recorded one would have been right as well.
    pub fn compare(
        &mut self,
        bindings: &mut Bindings,
        expected: &Expected,
        found: &Value,
    ) -> Result<(), String> {
        let mut before = bindings.clone();
        bindings.compare(&expected.frame, found)?;
        let recorded = expected.recorded.as_ref();
        let same = recorded.is_some_and(|recorded| before.compare(recorded, found).is_ok());
        for index in &expected.departures {
            *self.0.entry(*index).or_default() |= !same;
        }
        Ok(())
    }

    /// The departures that were met and not needed.
    pub fn unneeded(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter(|(_, needed)| !**needed).map(|(index, _)| *index)
    }

    /// Every departure that was met.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.0.keys().copied()
    }
}
