//! `grep`: lines by content (L-100).

use std::{
    io::{self, Read},
    path::Path,
    time::Duration,
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde_json::{Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    abort::Abort,
    files::Files,
    output::{Output, member},
    page::{PAGE_BYTES_MAX, cut_line},
    search::{Place, Skip},
    tool::{Call, Running, Tool, ToolError, blocking, given},
};

/// Lines of one result (L-100).
const SHOWN_MAX: u64 = 250;

/// A matching line shows where to look; `read` shows the rest of it.
const LINE_CHARS_MAX: usize = 500;

/// A file with a longer line is hardly text; it is passed over.
const HEAP_BYTES_MAX: usize = 16 << 20;

/// Memory of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 10 << 20;

/// The tool.
pub(crate) struct Grep {
    files: Files,
    timeout: Duration,
}

impl Grep {
    pub(crate) fn new(files: Files, timeout: Duration) -> Grep {
        Grep { files, timeout }
    }
}

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description: "Finds lines that match a regular expression, grouped by file, with line \
                numbers. Hidden files are searched; binary files, files of version control and what \
                the project's ignore files name are not. At most 250 lines are shown."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "A regular expression in Rust's syntax, matched line by line."
                    },
                    "path": {
                        "type": "string",
                        "description": "The directory or file to search; the working directory if absent."
                    },
                    "include": {
                        "type": "string",
                        "description": "One glob that file paths must match, for example \"*.{ts,tsx}\"."
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
                "matches": { "type": "integer" },
                "shown": { "type": "integer" },
                "text": { "type": "string" }
            },
            "required": ["matches", "shown", "text"],
            "additionalProperties": false
        });
        Output::as_text(schema, report)
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn run(&self, call: Call) -> Running {
        let files = self.files.clone();
        Box::pin(blocking(move || grep(&call, &files)))
    }
}

struct Found {
    matches: u64,
    shown: u64,
    text: String,
    is_full: bool,
}

fn grep(call: &Call, files: &Files) -> Result<ToolOutcome, ToolError> {
    let pattern = call.text("pattern");
    if pattern.is_empty() {
        return Err(ToolError::new("invalid pattern: expected a non-empty string"));
    }
    let matcher = compile(pattern)?;
    let place = Place::of(call, files)?;
    let include = match call.optional_text("include") {
        Some(_) => Some(place.glob("include", call.filled_text("include")?)?),
        None => None,
    };
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(HEAP_BYTES_MAX))
        .line_number(true)
        .build();

    let mut found = Found { matches: 0, shown: 0, text: String::new(), is_full: false };
    for entry in place.files(&call.abort, include, Skip::Ignored)? {
        // What cannot be read, or turns out not to be text, is passed over.
        let Ok(file) = place.open(&entry) else { continue };
        let source = Watched { file, abort: &call.abort };
        let mut sink =
            FileSink { found: &mut found, path: &place.show(&entry.path), is_named: false };
        if let Err(error) = searcher.search_reader(&matcher, source, &mut sink) {
            tracing::debug!(%error, "a file was not searched to its end");
        }
    }
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let Found { matches, shown, text, .. } = found;
    Ok(given(json!({ "matches": matches, "shown": shown, "text": text })))
}

fn compile(pattern: &str) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    builder.build(pattern).map_err(|error| ToolError::new(format!("invalid pattern: {error}")))
}

fn report(value: &Value) -> String {
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (matches, shown, text) = (number("matches"), number("shown"), member(value, "text"));
    match matches {
        0 => "No matches found".to_owned(),
        1 if shown == 1 => format!("Found 1 match\n{text}"),
        _ if shown == matches => format!("Found {matches} matches\n{text}"),
        _ => format!(
            "Found {shown} of {matches} matches\n(The rest is left out. Use a narrower pattern, path or \
             include to see it.)\n{text}"
        ),
    }
}

/// The matches of one file, added to those before.
struct FileSink<'a> {
    found: &'a mut Found,
    path: &'a Path,
    is_named: bool,
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found.matches += 1;
        if self.found.is_full {
            return Ok(true);
        }
        let line = String::from_utf8_lossy(matched.bytes());
        let line = cut_line(line.trim_end_matches(['\r', '\n']), LINE_CHARS_MAX);
        let number = matched.line_number().unwrap_or_default();
        let mut text = format!("\n  {number}: {line}");
        if !self.is_named {
            text.insert_str(0, &format!("\n{}", self.path.display()));
            if self.found.shown > 0 {
                text.insert(0, '\n');
            }
        }
        if self.found.shown == SHOWN_MAX || self.found.text.len() + text.len() > PAGE_BYTES_MAX {
            self.found.is_full = true;
        } else {
            self.found.text.push_str(&text);
            self.found.shown += 1;
            self.is_named = true;
        }
        Ok(true)
    }
}

/// A file whose reading ends with the call.
struct Watched<'a> {
    file: std::fs::File,
    abort: &'a Abort,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abort.is_set() {
            return Err(io::Error::other("the call was aborted"));
        }
        self.file.read(buffer)
    }
}
