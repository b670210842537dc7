//! `write`: a whole file at once (L-99).

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    files::{self, Files, Verb, check_observed, envelope, refused, replace, version},
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
            envelope(member(value, "path").as_ref(), done)
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
    bounds.may_change(Verb::Write, &path)?;
    let real = bounds.resolve(Verb::Write, &path)?;
    let _changing = files.lock(&real);
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let spot = bounds.reach(Verb::Write, &path, &real, true)?;
    let found = spot.metadata().map_err(|error| refused(Verb::Write, &path, &error))?;
    let created = found.is_none();
    if found.is_some() {
        let (old, metadata) = files::content(&bounds, Verb::Write, &path, &spot, &call.abort)?;
        check_observed(call, Verb::Write, &path, &real, &old)?;
        replace(Verb::Write, &path, &spot, new, Some(&metadata))?;
    } else {
        replace(Verb::Write, &path, &spot, new, None)?;
    }
    call.ticket.observe(real, version(new));
    Ok(given(json!({ "path": path.display().to_string(), "created": created })))
}
