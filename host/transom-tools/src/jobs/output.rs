//! The output of a job and the one cursor that reads it (P-71). What is kept is bounded; where the whole is, the
//! process crate knows.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use transom_process::Observer;

use crate::report::{begin_line, dropped, push_line};

/// What is kept of each stream (P-71).
pub(crate) const TAIL_BYTES_MAX: usize = 64_000;

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Written by whoever runs the job, read by `job_output`.
#[derive(Clone, Default)]
pub(crate) struct Output {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    stdout: Stream,
    stderr: Stream,
    /// Shown by every read from the end on.
    last_words: Option<String>,
    /// Lines about the end, added to every read from then on.
    remarks: Vec<String>,
}

#[derive(Default)]
struct Stream {
    tail: Vec<u8>,
    /// Bytes that the stream has had.
    total: u64,
    /// Bytes that were read or can no longer be.
    cursor: u64,
    whole: Option<PathBuf>,
}

impl Output {
    /// What fills one of the streams.
    pub(crate) fn observer(&self, which: Which) -> Observer {
        let output = self.clone();
        Box::new(move |bytes, whole| output.lock().stream(which).push(bytes, whole))
    }

    /// A file that lost something is none.
    pub(crate) fn drop_file(&self, which: Which) {
        self.lock().stream(which).whole = None;
    }

    /// The text of a job without streams.
    pub(crate) fn say_last(&self, text: String) {
        self.lock().last_words = Some(text);
    }

    /// A line about the end.
    pub(crate) fn remark(&self, line: String) {
        self.lock().remarks.push(line);
    }

    /// The files that hold streams, while they do.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let state = self.lock();
        [&state.stdout, &state.stderr]
            .into_iter()
            .filter_map(|stream| stream.whole.clone())
            .collect()
    }

    /// What has come since the last read, or `(no new output)`, and the remarks.
    pub(crate) fn read(&self, is_over: bool) -> String {
        let mut state = self.lock();
        let (mut text, out_lost) = state.stdout.take(is_over);
        let (errors, err_lost) = state.stderr.take(is_over);
        if !errors.is_empty() {
            push_line(&mut text, "[stderr]\n");
            text.push_str(&errors);
        }
        if let Some(words) = state.last_words.as_ref().filter(|words| is_over && !words.is_empty())
        {
            begin_line(&mut text);
            text.push_str(words);
        }
        if text.is_empty() {
            text.push_str("(no new output)");
        }
        if out_lost || err_lost {
            let lost = [(out_lost, &state.stdout), (err_lost, &state.stderr)];
            let paths = lost.into_iter().filter(|(lost, _)| *lost).map(|(_, stream)| {
                let path = stream.whole.as_ref();
                path.map_or_else(|| "(unavailable)".to_owned(), |path| path.display().to_string())
            });
            push_line(&mut text, &dropped(&paths.collect::<Vec<_>>()));
        }
        for line in state.remarks.iter().filter(|_| is_over) {
            push_line(&mut text, line);
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can leave a stream half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stream(&mut self, which: Which) -> &mut Stream {
        match which {
            Which::Stdout => &mut self.stdout,
            Which::Stderr => &mut self.stderr,
        }
    }
}

impl Stream {
    fn push(&mut self, bytes: &[u8], whole: Option<&Path>) {
        self.total += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..excess);
        self.whole = whole.map(Path::to_owned);
    }

    /// The text since the cursor, and whether some before it is lost. A character that is still incomplete stays for
    /// the next read, unless none can come.
    fn take(&mut self, is_over: bool) -> (String, bool) {
        let kept_from = self.total - self.tail.len() as u64;
        let is_lost = self.cursor < kept_from;
        let from = usize::try_from(self.cursor.max(kept_from) - kept_from).unwrap_or(usize::MAX);
        let mut fresh = self.tail.get(from..).unwrap_or_default();
        let held_back = if is_over { 0 } else { incomplete(fresh) };
        fresh = fresh.get(..fresh.len() - held_back).unwrap_or_default();
        if is_lost {
            // The rest of a character whose beginning is gone; it has at most three continuation bytes.
            let cut = fresh.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
            fresh = fresh.get(cut..).unwrap_or_default();
        }
        self.cursor = self.total - held_back as u64;
        (String::from_utf8_lossy(fresh).into_owned(), is_lost)
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let length = match byte {
            0x80..0xC0 => continue,
            0xC0..0xE0 => 2,
            0xE0..0xF0 => 3,
            0xF0..0xF8 => 4,
            _ => 1,
        };
        return if length > back + 1 { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::{Output, TAIL_BYTES_MAX, Which};

    #[test]
    fn one_cursor_reads_both_streams_once() {
        let output = Output::default();
        let (mut out, mut err) = (output.observer(Which::Stdout), output.observer(Which::Stderr));
        assert_eq!(output.read(false), "(no new output)");
        out(b"a", None);
        assert_eq!(output.read(false), "a");
        err(b"b\n", None);
        assert_eq!(output.read(false), "[stderr]\nb\n");
        out(b"c", None);
        err(b"d", None);
        assert_eq!(output.read(false), "c\n[stderr]\nd");
        output.remark("[a remark]".to_owned());
        assert_eq!(output.read(false), "(no new output)");
        assert_eq!(output.read(true), "(no new output)\n[a remark]");
        out(b"e\n", None);
        assert_eq!(output.read(true), "e\n[a remark]");
    }

    #[test]
    fn characters_stay_whole_between_reads() {
        let output = Output::default();
        let mut out = output.observer(Which::Stdout);
        for (bytes, expected) in [
            (&b"a\xe2\x82"[..], "a"),
            (b"\xac", "\u{20ac}"),
            (b"\xf0\x9f\x98", "(no new output)"),
            (b"\x80\xc3", "\u{1f600}"),
            (b"x", "\u{fffd}x"),
            (b"\xff", "\u{fffd}"),
        ] {
            out(bytes, None);
            assert_eq!(output.read(false), expected);
        }
        out(b"\xe2\x82", None);
        assert_eq!(output.read(true), "\u{fffd}");
    }

    #[test]
    fn what_was_lost_before_it_was_read_is_told_once() {
        let output = Output::default();
        let (mut out, mut err) = (output.observer(Which::Stdout), output.observer(Which::Stderr));
        out(&vec![b'x'; TAIL_BYTES_MAX], None);
        out(b"y\n", Some("/spill/1".as_ref()));
        err(&vec![b'z'; TAIL_BYTES_MAX + 1], None);
        let text = output.read(false);
        assert!(text.starts_with("xxx") && text.contains("xy\n[stderr]\nzzz"));
        let marker =
            "z\n[some output was dropped from memory; full output: /spill/1, (unavailable)]";
        assert!(text.ends_with(marker), "{:?}", text.get(text.len() - 120..));
        out(b"more", Some("/spill/1".as_ref()));
        assert_eq!(output.read(false), "more");
        assert_eq!(output.files(), [std::path::Path::new("/spill/1")]);
    }
}
