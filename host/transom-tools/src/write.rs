//! `write`: a whole file at once (L-99).

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    change::Change,
    files::{Files, Verb, envelope},
    output::{Output, member},
    tool::{Call, Running, Tool, ToolError, blocking, filled, given},
};

/// The tool.
pub(crate) struct Write {
    files: Files,
}

impl Write {
    pub(crate) fn new(files: Files) -> Write {
        Write { files }
    }
}

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".to_owned(),
            description:
                "Creates a file, with the directories above it, or replaces one whole. An \
                existing file must have been read before. To change parts of a file, use edit."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file; a relative path stands in the working directory."
                    },
                    "content": {
                        "type": "string",
                        "description": "Everything the file is to hold."
                    }
                },
                "required": ["file_path", "content"]
            }),
        }
    }

    fn output(&self) -> Output {
        let schema = json!({
            "type": "object",
            "properties": { "path": { "type": "string" }, "created": { "type": "boolean" } },
            "required": ["path", "created"],
            "additionalProperties": false
        });
        Output::as_text(schema, |value| {
            let created = value.get("created") == Some(&Value::Bool(true));
            let done = if created { "Created file" } else { "Updated file" };
            envelope(member(value, "path").as_ref(), "file", done)
        })
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        filled(arguments, "file_path").map(drop)
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || write(&call, &files)))
    }
}

fn write(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("file_path")?);
    let new = call.text("content").as_bytes();

    let bounds = files.bounds(call)?;
    let change = Change::begin(call, files, &bounds, Verb::Write, path)?;
    let seen = if change.exists()? { Some(change.seen()?) } else { None };
    let path = change.put(seen.as_ref(), new)?;
    Ok(given(json!({ "path": path.display().to_string(), "created": seen.is_none() })))
}
