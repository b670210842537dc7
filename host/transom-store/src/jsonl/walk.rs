//! Reading a log from front to back: pieces of whole lines, rows, the first line that is none, and what
//! that line means (L-78). Nothing here changes a file; that is `log.rs`.

use std::{fs::File, io, ops::ControlFlow, path::Path, sync::Arc};

use transom_harness::ports::{Page, StoreError};

use super::{
    frames::{self, FRAME_BYTES_MAX, View},
    layout::Encoding,
    line::{self, HeaderLine, Row},
};

/// How much of a plain log is read at once.
const PLAIN_BYTES: usize = 256 * 1024;

/// Bytes of file between two places from which reading can begin: pages of a long log must not each
/// read all of it.
pub(crate) const POINT_BYTES: u64 = 64 * 1024;

/// An open log, as far as it counts.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) encoding: Encoding,
    /// Bytes behind this are not looked at.
    pub(crate) end: u64,
}

/// A place between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Point {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// Lines before it, the header counted.
    pub(crate) lines: u64,
    /// Events before it.
    pub(crate) events: u64,
}

/// What a log holds.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) header: HeaderLine,
    /// Behind the last line that counts.
    pub(crate) reached: Point,
    /// Time of the last event; that of the session without one.
    pub(crate) updated_at: u64,
    /// Where reading can begin, in order.
    pub(crate) points: Vec<Point>,
    pub(crate) ends: Ends,
}

/// How a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With its last line.
    Whole,
    /// With something that was never committed, from `offset` on.
    Torn {
        offset: u64,
        /// Lines behind the offset that count, where a frame holds both.
        keep: Vec<u8>,
    },
    /// With damage to something that was. The text is one of L-78.
    Corrupt(String),
}

/// Reads all of a log and gives every row of its valid prefix away.
pub(crate) fn scan(
    log: Log<'_>,
    visit: &mut dyn FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<Scan, StoreError> {
    let header = header(log)?;
    let mut points = vec![Point::default()];
    let mut updated_at = header.created_at;
    let stop = walk(log, Point::default(), &mut |piece, row| {
        if points.last().is_none_or(|last| piece.offset >= last.offset + POINT_BYTES) {
            points.push(piece);
        }
        updated_at = row.last_time();
        visit(row).map(ControlFlow::Continue)
    })?;
    let (reached, ends) = match stop {
        Stop::Asked(reached) | Stop::End(reached) => (reached, Ends::Whole),
        Stop::Bad(bad) => {
            let ends = if bad.is_committed(log)? {
                Ends::Corrupt(bad.text())
            } else {
                Ends::Torn { offset: bad.offset, keep: bad.keep }
            };
            (bad.reached, ends)
        }
    };
    Ok(Scan { header, reached, updated_at, points, ends })
}

/// The first line of a log.
pub(crate) fn header(log: Log<'_>) -> Result<HeaderLine, StoreError> {
    let first = Pieces::new(log, 0).next().map_err(|error| failed(log.path, &error))?;
    // A log comes into being with its whole header, so the rest of one is none.
    let line = first
        .as_ref()
        .filter(|piece| piece.is_whole)
        .and_then(|piece| piece.text.split_inclusive(|byte| *byte == b'\n').next())
        .filter(|line| line.ends_with(b"\n"));
    let parsed = match line.map(str::from_utf8) {
        None => Err("empty or header-less session log".to_owned()),
        Some(Err(_)) => Err("corrupt session log: header line is not valid JSON".to_owned()),
        Some(Ok(line)) => line::header(line.trim_end_matches(['\n', '\r'])),
    };
    parsed.map_err(|text| refused(log.path, &text))
}

/// The last point from which event `from` can be reached.
pub(crate) fn start(points: &[Point], from: u64) -> Point {
    let after = points.partition_point(|point| point.events <= from);
    points.get(after.saturating_sub(1)).copied().unwrap_or_default()
}

/// A run of a log's events, of which it has so many. Reading begins at `start`.
pub(crate) fn page(
    log: Log<'_>,
    start: Point,
    events: u64,
    page: Page,
) -> Result<Vec<Arc<str>>, StoreError> {
    let Page { from, limit, bytes_max } = page;
    let mut texts: Vec<Arc<str>> = Vec::new();
    if from >= events || limit == 0 || bytes_max == 0 {
        return Ok(texts);
    }
    let limit = limit.min(events - from);
    let mut bytes = 0_u64;
    let stop = walk(log, start, &mut |_, row| {
        if row.seq() + row.events() <= from {
            return Ok(ControlFlow::Continue(()));
        }
        let mut take = |text: Arc<str>| {
            bytes = bytes.saturating_add(text.len() as u64);
            texts.push(text);
            bytes < bytes_max && (texts.len() as u64) < limit
        };
        let goes_on = match row {
            Row::Event { text, .. } => take(Arc::from(*text)),
            Row::Packed(packed) => {
                let skip = usize::try_from(from.saturating_sub(packed.seq())).unwrap_or(usize::MAX);
                packed.texts().skip(skip).all(take)
            }
        };
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    match stop {
        Stop::Asked(_) => Ok(texts),
        Stop::End(reached) => Err(refused(
            log.path,
            &format!(
                "session log ends before event {}, though {events} events were stored: something else has cut it",
                reached.events
            ),
        )),
        Stop::Bad(bad) => Err(refused(log.path, &bad.text())),
    }
}

/// A refusal that names the file.
pub(crate) fn refused(path: &Path, text: &str) -> StoreError {
    StoreError::Io(format!("{text} (in {path:?})"))
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("cannot read the session log {path:?}: {error}"))
}

/// Why a walk ended.
enum Stop {
    /// Nothing more is there.
    End(Point),
    /// Whoever takes the rows has enough.
    Asked(Point),
    Bad(Box<Bad>),
}

/// The first line that does not go on with the log.
struct Bad {
    /// Behind the last line that counts. Its offset is that of the piece, where a piece is cut in two.
    reached: Point,
    /// Where to cut.
    offset: u64,
    /// Lines behind the offset that count.
    keep: Vec<u8>,
    /// `Some`: the line is a row, but with another `seq` than the next one.
    got: Option<u64>,
    /// The line itself and what follows in its piece.
    rest: Vec<u8>,
    /// Behind the piece.
    next: u64,
}

impl Bad {
    /// Whether a turn's end stands at or behind it: what lies before the end of a turn was committed.
    fn is_committed(&self, log: Log<'_>) -> Result<bool, StoreError> {
        if has_turn_end(&self.rest) {
            return Ok(true);
        }
        let mut pieces = Pieces::new(log, self.next);
        while let Some(piece) = pieces.next().map_err(|error| failed(log.path, &error))? {
            if has_turn_end(&piece.text) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn text(&self) -> String {
        let line = self.reached.lines + 1;
        match self.got {
            None => format!("corrupt session log: unparsable committed event at line {line}"),
            Some(got) => format!(
                "corrupt session log: seq gap in committed region at line {line} (expected {}, got {got})",
                self.reached.events
            ),
        }
    }
}

/// A line without an end was never written to its end.
fn has_turn_end(text: &[u8]) -> bool {
    text.split_inclusive(|byte| *byte == b'\n')
        .any(|line| line.ends_with(b"\n") && line::is_turn_end(line))
}

/// Takes a row, and the point at which its piece begins.
type Each<'a> = dyn FnMut(Point, &Row<'_>) -> Result<ControlFlow<()>, StoreError> + 'a;

/// Reads rows from a point on. Each is given away with the point at which its piece begins.
fn walk(log: Log<'_>, from: Point, each: &mut Each<'_>) -> Result<Stop, StoreError> {
    let mut pieces = Pieces::new(log, from.offset);
    let mut reached = from;
    while let Some(piece) = pieces.next().map_err(|error| failed(log.path, &error))? {
        let start = Point { offset: piece.offset, ..reached };
        let mut good = 0;
        for line in piece.text.split_inclusive(|byte| *byte == b'\n') {
            let is_header = reached.lines == 0;
            let is_line = piece.is_whole && line.ends_with(b"\n");
            let row = match str::from_utf8(line) {
                Ok(text) if is_line && !is_header => {
                    Row::parse(text.trim_end_matches(['\n', '\r']))
                }
                _ => None,
            };
            match row {
                None if is_header && is_line => {}
                Some(row) if row.seq() == reached.events => {
                    if each(start, &row)?.is_break() {
                        return Ok(Stop::Asked(reached));
                    }
                    reached.events += row.events();
                }
                row => {
                    let got = row.map(|row| row.seq());
                    return Ok(Stop::Bad(Box::new(bad(log, piece, reached, good, got))));
                }
            }
            reached.lines += 1;
            good += line.len();
        }
        if !piece.is_whole {
            return Ok(Stop::Bad(Box::new(bad(log, piece, reached, good, None))));
        }
        reached.offset = piece.next;
    }
    Ok(Stop::End(reached))
}

/// A bad line `good` bytes into its piece.
fn bad(log: Log<'_>, piece: Piece, reached: Point, good: usize, got: Option<u64>) -> Bad {
    let Piece { offset, next, mut text, .. } = piece;
    let rest = text.split_off(good);
    match log.encoding {
        Encoding::Zstd => Bad { reached, offset, keep: text, got, rest, next },
        // Between two lines a plain log can be cut anywhere.
        Encoding::Plain => {
            let offset = offset + good as u64;
            Bad { reached: Point { offset, ..reached }, offset, keep: Vec::new(), got, rest, next }
        }
    }
}

/// Some lines of a log that are decoded together.
struct Piece {
    offset: u64,
    /// Where to go on.
    next: u64,
    text: Vec<u8>,
    /// It could be decoded. Its last line may have no end.
    is_whole: bool,
}

struct Pieces<'a> {
    log: Log<'a>,
    view: View<'a>,
    at: u64,
}

impl<'a> Pieces<'a> {
    fn new(log: Log<'a>, at: u64) -> Pieces<'a> {
        Pieces { log, view: View::new(log.file, log.end), at }
    }

    fn next(&mut self) -> io::Result<Option<Piece>> {
        if self.at >= self.log.end {
            return Ok(None);
        }
        let piece = match self.log.encoding {
            Encoding::Zstd => self.frame()?,
            Encoding::Plain => match self.plain()? {
                Some(piece) => piece,
                None => return Ok(None),
            },
        };
        self.at = piece.next;
        Ok(Some(piece))
    }

    fn frame(&mut self) -> io::Result<Piece> {
        let offset = self.at;
        let length = frames::measure(&mut self.view, offset)?.filter(|len| *len <= FRAME_BYTES_MAX);
        let mut text = Vec::new();
        if let Some(length) = length {
            // No longer than the limit, which fits.
            let mut frame = vec![0; usize::try_from(length).unwrap_or_default()];
            let read = frames::read_fully(self.log.file, &mut frame, offset)?;
            frame.truncate(read);
            match frames::decode(&frame) {
                Ok(text) => {
                    return Ok(Piece { offset, next: offset + length, text, is_whole: true });
                }
                Err(partial) => text = partial,
            }
        }
        // Behind damage, lengths mean nothing any more.
        let next = frames::next_candidate(&mut self.view, offset + 1)?.unwrap_or(self.log.end);
        Ok(Piece { offset, next, text, is_whole: false })
    }

    fn plain(&mut self) -> io::Result<Option<Piece>> {
        let offset = self.at;
        let mut text = Vec::new();
        loop {
            let known = text.len();
            let position = offset + known as u64;
            let room = self.log.end.saturating_sub(position).min(PLAIN_BYTES as u64);
            text.resize(known + usize::try_from(room).unwrap_or_default(), 0);
            let block = text.get_mut(known..).unwrap_or_default();
            let read = frames::read_fully(self.log.file, block, position)?;
            let is_end = position + read as u64 >= self.log.end || (read as u64) < room;
            text.truncate(known + read);
            let fresh = text.get(known..).unwrap_or_default();
            if let Some(last) = fresh.iter().rposition(|byte| *byte == b'\n') {
                text.truncate(known + last + 1);
                let next = offset + text.len() as u64;
                return Ok(Some(Piece { offset, next, text, is_whole: true }));
            }
            if is_end || text.len() as u64 > FRAME_BYTES_MAX {
                let next = offset + text.len() as u64;
                return Ok((next > offset).then_some(Piece { offset, next, text, is_whole: true }));
            }
        }
    }
}
