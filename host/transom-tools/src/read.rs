//! `read`: a page of a text file, which counts as having seen the file (L-98).

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    files::{self, Files, Verb, cannot, envelope, refused},
    page::{self, LINES_MAX, Page, PageError},
    tool::{Call, Running, Tool, ToolError, blocking},
};

/// The tool.
pub(crate) struct Read {
    files: Files,
}

impl Read {
    pub(crate) fn new(files: Files) -> Read {
        Read { files }
    }
}

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".to_owned(),
            description: "Shows a text file with line numbers. By default the first 2000 lines; \
                use offset and limit for other parts. Very long lines are shortened. The numbers are \
                not part of the file. A file must be read before it is edited or overwritten."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file; a relative path stands in the working directory."
                    },
                    "offset": {
                        "type": "integer",
                        "description": "Number of the first line to show; the first line is 1."
                    },
                    "limit": {
                        "type": "integer",
                        "description": "How many lines to show at most; up to 2000."
                    }
                },
                "required": ["file_path"]
            }),
        }
    }

    fn is_parallel(&self, _arguments: &Map<String, Value>) -> bool {
        true
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || read(&call, &files)))
    }
}

fn read(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("file_path")?);
    let first = call.integer("offset", 1, u64::MAX)?;
    let limit = call.integer("limit", LINES_MAX, LINES_MAX)?;

    let bounds = files.bounds(call)?;
    let (real, spot) = files::find(&bounds, Verb::Read, &path)?;
    let file = files::open(&bounds, Verb::Read, &path, &spot)?;
    let page = page::read(file, first, limit, &call.abort).map_err(|error| match error {
        PageError::Binary => cannot(Verb::Read, &path, "binary file"),
        PageError::Aborted => ToolError::aborted(),
        PageError::Io(error) => refused(Verb::Read, &path, &error),
    })?;
    // An empty file has no first line, but can be read.
    if first > page.total.max(1) {
        let (path, total) = (path.display(), page.total);
        return Err(ToolError::new(format!(
            "offset {first} is out of range for \"{path}\" ({total} lines)"
        )));
    }
    call.ticket.observe(real, page.version);

    let mut content = page.lines.join("\n");
    if !page.lines.is_empty() {
        content.push_str("\n\n");
    }
    content.push_str(&footer(&page, first));
    Ok(ToolOutcome::text(envelope(&path, &content)))
}

fn footer(page: &Page, first: u64) -> String {
    let total = page.total;
    let next = first + page.lines.len() as u64;
    let last = next - 1;
    if page.is_capped {
        format!("(Output capped. Showing lines {first}-{last}. Use offset={next} to continue.)")
    } else if last < total {
        format!("(Showing lines {first}-{last} of {total}. Use offset={next} to continue.)")
    } else {
        format!("(End of file - total {total} lines)")
    }
}
