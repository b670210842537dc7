//! `str_replace_editor`: views, makes and changes text files by one tool with commands (L-101), for models that were
//! taught it. It obeys the fence and the observation policy like `read`, `write` and `edit` (L-99, P-40).

mod view;

use std::path::Path;

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    change::{Change, Seen},
    edit::{as_in, has_crlf_only, places, to_crlf},
    files::{Files, Verb, cannot},
    tool::{Call, Running, Tool, ToolError, blocking, filled},
};

/// The words for what is to be done. There is no way back from a change, as in the published schema.
const COMMANDS: [&str; 4] = ["view", "create", "str_replace", "insert"];

/// The tool.
pub(crate) struct Editor {
    files: Files,
}

impl Editor {
    pub(crate) fn new(files: Files) -> Editor {
        Editor { files }
    }
}

impl Tool for Editor {
    fn spec(&self) -> ToolSpec {
        let property = |kind: &str, text: &str| json!({ "type": kind, "description": text });
        ToolSpec {
            name: "str_replace_editor".to_owned(),
            description: "Looks at files and directories, and makes and changes text files. \
                view: a file with numbered lines, or what is in a directory, two levels deep and \
                without hidden entries. create: a new file; never one that exists. str_replace: \
                one text for another; old_str must be in the file exactly once, spaces included. \
                insert: lines behind a line. View a file before you change it. Long views are cut, \
                which is said at their end."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "enum": COMMANDS, "description": "What to do." },
                    "path": property("string", "The file or directory; absolute."),
                    "file_text": property("string", "create: everything the file is to hold."),
                    "old_str": property("string", "str_replace: the text to replace."),
                    "new_str": property(
                        "string",
                        "str_replace: the text to put there; nothing if absent. insert: the lines."
                    ),
                    "insert_line": property(
                        "integer",
                        "insert: the number of the line to insert behind; 0 is the top."
                    ),
                    "view_range": {
                        "type": "array",
                        "items": { "type": "integer" },
                        "description": "view: first and last line of a part of a file, from 1; -1 is the end."
                    }
                },
                "required": ["command", "path"]
            }),
        }
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        let path = filled(arguments, "path")?;
        if !Path::new(path).is_absolute() {
            return Err(ToolError::new(format!(
                "invalid path: \"{path}\" is relative; expected an absolute path, such as \"/{path}\""
            )));
        }
        Command::read(arguments).map(drop)
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || perform(&call, &files)))
    }
}

/// A command with what it needs.
enum Command<'a> {
    View { range: Option<(i64, i64)> },
    Create { text: &'a str },
    Replace { old: &'a str, new: &'a str },
    Insert { behind: u64, text: &'a str },
}

impl<'a> Command<'a> {
    fn read(arguments: &'a Map<String, Value>) -> Result<Command<'a>, ToolError> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let command = text("command").unwrap_or_default();
        let needs = |name: &str| ToolError::new(format!("invalid {name}: {command} needs {name}"));
        Ok(match command {
            "create" => {
                Command::Create { text: text("file_text").ok_or_else(|| needs("file_text"))? }
            }
            "str_replace" => {
                let old = text("old_str").ok_or_else(|| needs("old_str"))?;
                let new = text("new_str").unwrap_or_default();
                if old.is_empty() {
                    return Err(ToolError::new("old_str must be a non-empty string"));
                }
                if old == new {
                    return Err(ToolError::new("old_str and new_str must differ"));
                }
                Command::Replace { old, new }
            }
            "insert" => {
                let line = arguments.get("insert_line").and_then(whole);
                let line = line.ok_or_else(|| needs("insert_line"))?;
                let text = text("new_str").ok_or_else(|| needs("new_str"))?;
                let behind = u64::try_from(line).map_err(|_| {
                    ToolError::new("insert_line must be greater than or equal to 0")
                })?;
                Command::Insert { behind, text }
            }
            _ => Command::View { range: range(arguments.get("view_range"))? },
        })
    }
}

/// A whole number, which may be written as `3.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))
}

fn range(value: Option<&Value>) -> Result<Option<(i64, i64)>, ToolError> {
    let Some(value) = value else { return Ok(None) };
    let numbers: Vec<_> = value.as_array().into_iter().flatten().filter_map(whole).collect();
    let &[first, last] = numbers.as_slice() else {
        return Err(ToolError::new("invalid view_range: expected the first and the last line"));
    };
    if first < 1 || last != -1 && last < first {
        return Err(ToolError::new(format!(
            "invalid view_range: [{first}, {last}] is no part of a file; lines count from 1, and the last is not \
             before the first, or is -1"
        )));
    }
    Ok(Some((first, last)))
}

fn perform(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("path")?);
    // The schema has no words to ask for more with (P-18, P-21).
    let bounds = files.bounds(call)?.without_escalation();
    let begin = |verb| Change::begin(call, files, &bounds, verb, path.clone());
    let told = match Command::read(&call.arguments)? {
        Command::View { range } => view::view(call, &bounds, &path, range)?,
        Command::Create { text } => create(begin(Verb::Write)?, text)?,
        Command::Replace { old, new } => replace(begin(Verb::Edit)?, old, new)?,
        Command::Insert { behind, text } => insert(begin(Verb::Edit)?, behind, text)?,
    };
    Ok(ToolOutcome::text(told))
}

fn create(change: Change<'_>, text: &str) -> Result<String, ToolError> {
    if change.exists()? {
        let why = "it exists; create makes new files only, str_replace and insert change them";
        return Err(cannot(Verb::Write, change.path(), why));
    }
    let path = change.put(None, text.as_bytes())?;
    Ok(format!("The file {} has been created.", path.display()))
}

fn replace(change: Change<'_>, old: &str, new: &str) -> Result<String, ToolError> {
    let seen = change.seen()?;
    let (old, new) = as_in(&seen.content, old, new);
    let found = places(&seen.content, old.as_bytes());
    let shown = change.path().display();
    match found.as_slice() {
        [] => return Err(ToolError::new(format!("old_str was not found in \"{shown}\""))),
        [_] => {}
        several => {
            let lines: Vec<_> =
                several.iter().map(|at| line_at(&seen.content, *at).to_string()).collect();
            return Err(ToolError::new(format!(
                "old_str matched {} times in \"{shown}\", at lines {}; provide a more specific old_str",
                several.len(),
                lines.join(", ")
            )));
        }
    }
    changed(change, &seen, &found, old.len(), &new)
}

fn insert(change: Change<'_>, behind: u64, text: &str) -> Result<String, ToolError> {
    let seen = change.seen()?;
    let content = &seen.content;
    let ends = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    let is_open = content.last().is_some_and(|byte| *byte != b'\n');
    let lines = ends.len() as u64 + u64::from(is_open);
    if behind > lines {
        return Err(ToolError::new(format!(
            "insert_line {behind} is out of range for \"{}\" ({lines} lines)",
            change.path().display()
        )));
    }
    let is_crlf = has_crlf_only(content);
    let end = if is_crlf { "\r\n" } else { "\n" };
    let mut new = if is_crlf { to_crlf(text) } else { text.to_owned() };
    let mut at = 0;
    if behind > 0 {
        let index = usize::try_from(behind - 1).unwrap_or(usize::MAX);
        at = ends.get(index).copied().unwrap_or(content.len());
    }
    if behind == lines && is_open {
        // Behind a last line that has no end.
        new.insert_str(0, end);
    } else if !new.ends_with('\n') {
        new.push_str(end);
    }
    changed(change, &seen, &[at], 0, &new)
}

fn changed(
    change: Change<'_>,
    seen: &Seen,
    places: &[usize],
    old_bytes: usize,
    new: &str,
) -> Result<String, ToolError> {
    let path = change.exchange(seen, places, old_bytes, new.as_bytes())?;
    Ok(format!("The file {} has been changed.", path.display()))
}

/// The number of the line at a place.
fn line_at(content: &[u8], at: usize) -> usize {
    let before = content.get(..at).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
