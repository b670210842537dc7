//! A page of a text file: some of its lines, how many there are, and a digest of the whole, in one
//! pass and in constant memory, however long the file or a line of it is.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use crate::{abort::Abort, sessions::Version};

/// Lines of one page (L-102).
pub(crate) const LINES_MAX: u64 = 2_000;
/// Characters of one line (L-102).
pub(crate) const LINE_CHARS_MAX: usize = 2_000;
/// Bytes of all lines of one page (L-102).
pub(crate) const PAGE_BYTES_MAX: usize = 51_200;

/// No character needs more than four bytes, and one character more tells that there is more.
const LINE_BYTES_MAX: usize = (LINE_CHARS_MAX + 1) * 4;

/// Bytes at the front in which a zero marks a file as binary.
pub(crate) const SAMPLE_BYTES: usize = 8_192;

const CHUNK_BYTES: usize = 64 << 10;

/// Some lines of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// As shown, with their numbers.
    pub(crate) lines: Vec<String>,
    /// Lines of the file.
    pub(crate) total: u64,
    /// The page is full by bytes, not by lines.
    pub(crate) is_capped: bool,
    pub(crate) version: Version,
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum PageError {
    Binary,
    Aborted,
    Io(io::Error),
}

struct Reading {
    page: Page,
    first: u64,
    limit: u64,
    /// The beginning of the line that is being read, if it is on the page.
    line: Vec<u8>,
    is_overlong: bool,
    /// The line has at least one byte.
    is_begun: bool,
    bytes: usize,
}

/// Reads the lines from `first` on, at most `limit`.
pub(crate) fn read(
    mut source: impl Read,
    first: u64,
    limit: u64,
    abort: &Abort,
) -> Result<Page, PageError> {
    let page = Page { lines: Vec::new(), total: 0, is_capped: false, version: Version::default() };
    let mut reading = Reading {
        page,
        first,
        limit,
        line: Vec::new(),
        is_overlong: false,
        is_begun: false,
        bytes: 0,
    };
    let mut digest = Sha256::new();
    let mut sampled = 0;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        if abort.is_set() {
            return Err(PageError::Aborted);
        }
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PageError::Io(error)),
        };
        let chunk = buffer.get(..count).unwrap_or_default();
        if chunk.is_empty() {
            break;
        }
        if chunk.iter().take(SAMPLE_BYTES - sampled).any(|byte| *byte == 0) {
            return Err(PageError::Binary);
        }
        sampled = SAMPLE_BYTES.min(sampled + count);
        digest.update(chunk);
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', text)) => {
                    reading.extend(text);
                    reading.end_line();
                }
                _ => reading.extend(piece),
            }
        }
    }
    if reading.is_begun {
        reading.end_line();
    }
    reading.page.version = digest.finalize().into();
    Ok(reading.page)
}

impl Reading {
    fn is_wanted(&self) -> bool {
        let number = self.page.total + 1;
        let shown = self.page.lines.len() as u64;
        number >= self.first && shown < self.limit && !self.page.is_capped
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.is_begun |= !bytes.is_empty();
        if self.is_wanted() {
            let room = LINE_BYTES_MAX - self.line.len();
            self.is_overlong |= bytes.len() > room;
            self.line.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            let shown = format!("{}: {}", self.page.total + 1, self.text());
            if self.bytes + shown.len() + 1 > PAGE_BYTES_MAX {
                self.page.is_capped = true;
            } else {
                self.bytes += shown.len() + 1;
                self.page.lines.push(shown);
            }
        }
        self.page.total += 1;
        self.line.clear();
        self.is_overlong = false;
        self.is_begun = false;
    }

    fn text(&self) -> String {
        let bytes = match self.line.split_last() {
            Some((b'\r', text)) if !self.is_overlong => text,
            _ => self.line.as_slice(),
        };
        cut_line(&String::from_utf8_lossy(bytes), LINE_CHARS_MAX)
    }
}

/// A line as shown: not longer than a person would read.
pub(crate) fn cut_line(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => {
            let kept = line.get(..end).unwrap_or_default();
            format!("{kept}... (line truncated to {chars_max} chars)")
        }
        None => line.to_owned(),
    }
}
