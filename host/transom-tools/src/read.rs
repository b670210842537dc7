//! `read`: a page of a text file, which counts as having seen the file (L-98).

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    files::{self, Files, Verb, cannot, envelope, refused},
    output::{Output, member},
    page::{self, LINES_MAX, PageError},
    tool::{Call, Running, Tool, ToolError, blocking, given},
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

    fn output(&self) -> Output {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "first": { "type": "integer" },
                "lines": { "type": "array", "items": { "type": "string" } },
                "total": { "type": "integer" },
                "capped": { "type": "boolean" }
            },
            "required": ["path", "first", "lines", "total", "capped"],
            "additionalProperties": false
        });
        Output::as_text(schema, text)
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

    Ok(given(json!({
        "path": path.display().to_string(),
        "first": first,
        "lines": page.lines,
        "total": page.total,
        "capped": page.is_capped,
    })))
}

fn text(value: &Value) -> String {
    let lines: Vec<_> =
        value.get("lines").and_then(Value::as_array).into_iter().flatten().collect();
    let shown: Vec<_> = lines.iter().filter_map(|line| line.as_str()).collect();
    let mut content = shown.join("\n");
    if !shown.is_empty() {
        content.push_str("\n\n");
    }
    content.push_str(&footer(value, lines.len() as u64));
    envelope(member(value, "path").as_ref(), "file", &content)
}

fn footer(value: &Value, count: u64) -> String {
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (first, total) = (number("first"), number("total"));
    let next = first.saturating_add(count);
    let last = next.saturating_sub(1);
    if value.get("capped") == Some(&Value::Bool(true)) {
        format!("(Output capped. Showing lines {first}-{last}. Use offset={next} to continue.)")
    } else if last < total {
        format!("(Showing lines {first}-{last} of {total}. Use offset={next} to continue.)")
    } else {
        format!("(End of file - total {total} lines)")
    }
}
