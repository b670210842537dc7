//! `edit`: one text for another in a file that was seen (L-99).

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    change::Change,
    files::{Files, Verb},
    output::{Output, member},
    tool::{Call, Running, Tool, ToolError, blocking, filled, given},
};

/// The tool.
pub(crate) struct Edit {
    files: Files,
}

impl Edit {
    pub(crate) fn new(files: Files) -> Edit {
        Edit { files }
    }
}

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".to_owned(),
            description: "Replaces text in a file that has been read before. old_string must be in \
                the file exactly once, spaces included and line numbers left out, unless replace_all \
                is set."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file; a relative path stands in the working directory."
                    },
                    "old_string": {
                        "type": "string",
                        "description": "The text to replace, with enough around it to be unique."
                    },
                    "new_string": {
                        "type": "string",
                        "description": "The text to put there; must differ from old_string."
                    },
                    "replace_all": {
                        "type": "boolean",
                        "description": "Replace every occurrence; false if absent."
                    }
                },
                "required": ["file_path", "old_string", "new_string"]
            }),
        }
    }

    fn output(&self) -> Output {
        let schema = json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "all": { "type": "boolean" } },
            "required": ["path", "all"],
            "additionalProperties": false
        });
        Output::as_text(schema, |value| {
            let path = member(value, "path");
            if value.get("all") == Some(&Value::Bool(true)) {
                format!(
                    "The file {path} has been updated. All occurrences were successfully replaced."
                )
            } else {
                format!("The file {path} has been updated successfully.")
            }
        })
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        filled(arguments, "file_path")?;
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (old, new) = (text("old_string"), text("new_string"));
        if old.is_empty() {
            return Err(ToolError::new("old_string must be a non-empty string"));
        }
        if old == new {
            return Err(ToolError::new("old_string and new_string must differ"));
        }
        Ok(())
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || edit(&call, &files)))
    }
}

fn edit(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("file_path")?);
    let (old, new) = (call.text("old_string"), call.text("new_string"));
    let all = call.flag("replace_all");

    let bounds = files.bounds(call)?;
    let change = Change::begin(call, files, &bounds, Verb::Edit, path)?;
    let seen = change.seen()?;

    let (old, new) = as_in(&seen.content, old, new);
    let shown = change.path().display();
    let places = places(&seen.content, old.as_bytes());
    match places.len() {
        0 => return Err(ToolError::new(format!("old_string was not found in \"{shown}\""))),
        1 => {}
        _ if all => {}
        count => {
            return Err(ToolError::new(format!(
                "old_string matched {count} times in \"{shown}\"; provide a more specific old_string or set \
                 replace_all to true"
            )));
        }
    }
    let path = change.exchange(&seen, &places, old.len(), new.as_bytes())?;
    Ok(given(json!({ "path": path.display().to_string(), "all": all })))
}

/// Whether every line ends as on Windows. The model is shown such lines without their `\r`, so it
/// cannot be expected to write it.
pub(crate) fn has_crlf_only(content: &[u8]) -> bool {
    let mut previous = 0;
    let mut seen = false;
    for byte in content {
        if *byte == b'\n' {
            if previous != b'\r' {
                return false;
            }
            seen = true;
        }
        previous = *byte;
    }
    seen
}

pub(crate) fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Two texts with the line ends that a file has.
pub(crate) fn as_in(content: &[u8], old: &str, new: &str) -> (String, String) {
    if has_crlf_only(content) {
        (to_crlf(old), to_crlf(new))
    } else {
        (old.to_owned(), new.to_owned())
    }
}

/// Where a text stands, without overlaps. The file need not be UTF-8, and stays what it is.
pub(crate) fn places(content: &[u8], old: &[u8]) -> Vec<usize> {
    if let (Ok(content), Ok(old)) = (std::str::from_utf8(content), std::str::from_utf8(old)) {
        return content.match_indices(old).map(|(at, _)| at).collect();
    }
    let mut found: Vec<usize> = Vec::new();
    for (at, window) in content.windows(old.len()).enumerate() {
        let is_free = found.last().is_none_or(|last| at >= last + old.len());
        if is_free && window == old {
            found.push(at);
        }
    }
    found
}
