//! Reads of a response body as the lines that matter: UTF-8 that was split across reads is put
//! together, line ends become one line feed, a silent or boundless peer is noticed. What the lines
//! mean is left to the event-stream parser.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::time::timeout;

/// Why there are no more lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken<E> {
    /// Nothing arrived in time.
    Silent,
    /// One event has more bytes than this.
    Event(usize),
    /// Reading failed.
    Read(E),
}

/// The `data` lines of a body, one at a time, and an empty line behind those of each event. Other
/// fields and comments say nothing here; the parser behind this would keep some of them for ever. What
/// follows the last line when the body ends is dropped, as the event-stream format wants it.
pub(super) fn whole<S, B, E>(
    reads: S,
    idle: Duration,
    event_bytes_max: usize,
) -> impl Stream<Item = Result<String, Broken<E>>>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
{
    let start = (reads, None::<(B, usize)>, Cutter::new(event_bytes_max));
    stream::try_unfold(start, move |(mut reads, mut read, mut cutter)| async move {
        loop {
            if let Some((bytes, at)) = &mut read {
                let mut rest = bytes.as_ref().get(*at..).unwrap_or_default();
                let line =
                    cutter.next(&mut rest).map_err(|TooLong| Broken::Event(event_bytes_max))?;
                *at = bytes.as_ref().len() - rest.len();
                if let Some(line) = line {
                    return Ok(Some((line, (reads, read, cutter))));
                }
            }
            let next = timeout(idle, reads.next()).await.map_err(|_| Broken::Silent)?;
            let Some(bytes) = next.transpose().map_err(Broken::Read)? else { return Ok(None) };
            read = Some((bytes, 0));
        }
    })
}

#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// Cuts bytes at line ends. The parser behind it looks at all the text it has with every line, so it
/// is given one at a time: a line costs its length once.
struct Cutter {
    /// The unfinished line.
    line: Vec<u8>,
    /// Length of the `data` lines of the unfinished event.
    event_bytes: usize,
    event_bytes_max: usize,
    after_return: bool,
    at_start: bool,
}

impl Cutter {
    fn new(event_bytes_max: usize) -> Cutter {
        Cutter {
            line: Vec::new(),
            event_bytes: 0,
            event_bytes_max,
            after_return: false,
            at_start: true,
        }
    }

    /// Takes bytes up to the end of a line that matters, or all.
    fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<String>, TooLong> {
        while let [first, rest @ ..] = *bytes {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            *bytes = rest;
            if self.event_bytes + self.line.len() + part.len() > self.event_bytes_max {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            if let [end, rest @ ..] = rest {
                *bytes = rest;
                self.after_return = *end == b'\r';
                if let Some(line) = self.end_line() {
                    return Ok(Some(line));
                }
            }
        }
        Ok(None)
    }

    fn end_line(&mut self) -> Option<String> {
        let mut line = std::mem::take(&mut self.line);
        // A byte-order mark may open the body and nothing else.
        if std::mem::take(&mut self.at_start) {
            while line.starts_with("\u{feff}".as_bytes()) {
                line.drain(..3);
            }
        }
        if line.is_empty() {
            return (std::mem::take(&mut self.event_bytes) > 0).then(|| "\n".to_owned());
        }
        if line != b"data" && !line.starts_with(b"data:") {
            return None;
        }
        self.event_bytes += line.len();
        line.push(b'\n');
        Some(match String::from_utf8(line) {
            Ok(line) => line,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
