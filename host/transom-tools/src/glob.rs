//! `glob`: files by name (L-100).

use std::{
    collections::BinaryHeap,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    files::Files,
    output::Output,
    search::{Place, Skip},
    tool::{Call, Running, Tool, ToolError, blocking, given},
};

/// Paths of one result (L-100).
const SHOWN_MAX: usize = 100;

/// The tool.
pub(crate) struct Glob {
    files: Files,
    timeout: Duration,
}

impl Glob {
    pub(crate) fn new(files: Files, timeout: Duration) -> Glob {
        Glob { files, timeout }
    }
}

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description:
                "Finds files by name, for example \"*.rs\" at any depth or \"src/**/*.ts\" \
                from the directory on. Hidden and ignored files are found too, those of version \
                control are not. At most 100 paths, the one changed longest ago first."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "A glob with *, **, ?, [..] and {..}."
                    },
                    "path": {
                        "type": "string",
                        "description": "The directory to search; the working directory if absent."
                    }
                },
                "required": ["pattern"]
            }),
        }
    }

    fn output(&self) -> Output {
        let schema = json!({
            "type": "object",
            "properties": {
                "files": { "type": "array", "items": { "type": "string" } },
                "found": { "type": "integer" }
            },
            "required": ["files", "found"],
            "additionalProperties": false
        });
        Output::as_text(schema, text)
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || glob(&call, &files)))
    }
}

fn glob(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let pattern = call.filled_text("pattern")?;
    let place = Place::of(call, files)?;
    let globs = place.glob("pattern", pattern)?;

    let mut found = 0_u64;
    // The newest of those kept is on top and gives way to an older one.
    let mut oldest: BinaryHeap<(SystemTime, PathBuf)> = BinaryHeap::new();
    for file in place.files(&call.abort, Some(globs), Skip::Nothing)? {
        // It may have been removed since it was listed.
        let Some(changed) = place.metadata(&file).and_then(|metadata| metadata.modified().ok())
        else {
            continue;
        };
        found += 1;
        oldest.push((changed.into_std(), file.path));
        if oldest.len() > SHOWN_MAX {
            oldest.pop();
        }
    }
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let paths = oldest.into_sorted_vec();
    let files: Vec<_> =
        paths.iter().map(|(_, path)| place.show(path).display().to_string()).collect();
    Ok(given(json!({ "files": files, "found": found })))
}

fn text(value: &Value) -> String {
    let files = value.get("files").and_then(Value::as_array).into_iter().flatten();
    let mut lines: Vec<_> = files.filter_map(Value::as_str).map(str::to_owned).collect();
    let found = value.get("found").and_then(Value::as_u64).unwrap_or_default();
    if found == 0 {
        return "No files found".to_owned();
    }
    let shown = lines.len();
    if found > shown as u64 {
        lines.push(String::new());
        lines.push(format!("(Showing {shown} of {found} files. Use a narrower pattern or path.)"));
    }
    lines.join("\n")
}
