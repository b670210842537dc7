//! Reads of a response body as whole lines: UTF-8 that was split across reads is put together, line
//! ends become one line feed, a silent or boundless peer is noticed. What lines mean is left to the
//! event-stream parser.

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

/// Text that always ends at the end of a line. What follows the last one when the body ends is
/// dropped, as the event-stream format wants it.
pub(super) fn whole<S, B, E>(
    reads: S,
    idle: Duration,
    event_bytes_max: usize,
) -> impl Stream<Item = Result<String, Broken<E>>>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
{
    let cutter = Cutter::new(event_bytes_max);
    stream::try_unfold((reads, cutter), move |(mut reads, mut cutter)| async move {
        loop {
            let read = timeout(idle, reads.next()).await.map_err(|_| Broken::Silent)?;
            let Some(bytes) = read.transpose().map_err(Broken::Read)? else { return Ok(None) };
            match cutter.push(bytes.as_ref()) {
                Ok(Some(text)) => return Ok(Some((text, (reads, cutter)))),
                Ok(None) => {}
                Err(TooLong) => return Err(Broken::Event(event_bytes_max)),
            }
        }
    })
}

#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// Cuts bytes at line ends. The parser behind it looks at unfinished text again with every read, so
/// it is never given any: a long line costs its length once.
struct Cutter {
    /// Finished lines, then the unfinished one.
    text: Vec<u8>,
    /// Length of the unfinished line.
    line_bytes: usize,
    /// Length of the finished lines of the unfinished event, comments apart: those are not kept.
    event_bytes: usize,
    event_bytes_max: usize,
    is_comment: bool,
    after_return: bool,
    at_start: bool,
}

impl Cutter {
    fn new(event_bytes_max: usize) -> Cutter {
        Cutter {
            text: Vec::new(),
            line_bytes: 0,
            event_bytes: 0,
            event_bytes_max,
            is_comment: false,
            after_return: false,
            at_start: true,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<Option<String>, TooLong> {
        let mut finished = 0;
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.end_line();
                    finished = self.text.len();
                }
                _ => self.extend_line(byte)?,
            }
        }
        if finished == 0 {
            return Ok(None);
        }
        let rest = self.text.split_off(finished);
        let lines = std::mem::replace(&mut self.text, rest);
        let lines = String::from_utf8_lossy(&lines);
        // A byte-order mark may open the body and nothing else.
        let lines = if std::mem::replace(&mut self.at_start, false) {
            lines.trim_start_matches('\u{feff}')
        } else {
            &lines
        };
        Ok(Some(lines.to_owned()))
    }

    fn extend_line(&mut self, byte: u8) -> Result<(), TooLong> {
        if self.line_bytes == 0 {
            self.is_comment = byte == b':';
        }
        self.line_bytes += 1;
        if self.event_bytes + self.line_bytes > self.event_bytes_max {
            return Err(TooLong);
        }
        self.text.push(byte);
        Ok(())
    }

    fn end_line(&mut self) {
        if self.line_bytes == 0 {
            self.event_bytes = 0;
        } else if !self.is_comment {
            self.event_bytes += self.line_bytes;
        }
        self.line_bytes = 0;
        self.text.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
