//! `write`: a whole file at once (L-99).

use std::{fs, io};

use serde_json::json;
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    files::{
        self, Files, Verb, cannot, check_observed, envelope, refused, replace, resolve_new, version,
    },
    tool::{Call, Running, Tool, ToolError, blocking},
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

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || write(&call, &files)))
    }
}

fn write(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("file_path")?);
    let new = call.text("content").as_bytes();

    let real = resolve_new(Verb::Write, &path)?;
    let _changing = files.lock();
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let done = if real.exists() {
        let (old, metadata) = files::content(Verb::Write, &path, &real, &call.abort)?;
        check_observed(call, Verb::Write, &path, &real, &old)?;
        replace(Verb::Write, &path, &real, new, Some(&metadata))?;
        "Updated file"
    } else {
        if let Some(directory) = real.parent() {
            fs::create_dir_all(directory).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                    cannot(Verb::Write, &path, "a file is where its directory should be")
                }
                _ => refused(Verb::Write, &path, &error),
            })?;
        }
        replace(Verb::Write, &path, &real, new, None)?;
        "Created file"
    };
    call.ticket.observe(real, version(new));
    Ok(ToolOutcome::text(envelope(&path, done)))
}
