//! Texts about commands and jobs, put together line by line (L-97, P-71, P-73). Which lines there are is decided
//! where the command ran.

use transom_harness::jobs::JobStatus;
use transom_process::{Captured, Exit};

/// What became of a command.
pub(crate) struct Report {
    /// Standard output.
    pub(crate) stdout: Captured,
    /// Standard error.
    pub(crate) stderr: Captured,
    /// `None` if the kernel could not end it.
    pub(crate) exit: Option<Exit>,
    /// The deadline that ended it.
    pub(crate) timed_out_ms: Option<u64>,
    /// What the confiner has denied, in one or two lines (P-21, P-22).
    pub(crate) denial: Option<String>,
}

impl Report {
    pub(crate) fn text(&self) -> String {
        let mut text = stream_text(&self.stdout);
        let stderr = stream_text(&self.stderr);
        if !stderr.is_empty() {
            push_line(&mut text, "[stderr]\n");
            text.push_str(&stderr);
        }
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if let Some(line) = &self.denial {
            push_line(&mut text, line);
        }
        if let Some(ms) = self.timed_out_ms {
            push_line(&mut text, &format!("[timed out after {ms}ms]"));
        }
        match self.exit {
            Some(Exit::Code(0)) => {}
            Some(Exit::Code(code)) => push_line(&mut text, &format!("[exit code: {code}]")),
            Some(exit @ Exit::Signal(_)) => {
                let signal = exit.signal_name().unwrap_or_default();
                push_line(&mut text, &format!("[killed by signal: {signal}]"));
            }
            None => {
                push_line(&mut text, "[still running: the system could not end the command]");
            }
        }
        text
    }
}

fn stream_text(captured: &Captured) -> String {
    let mut text = captured.text();
    if captured.is_cut() {
        let path = captured.spill.as_ref().map(|spill| spill.path.display().to_string());
        let path = path.as_deref().unwrap_or("(unavailable)");
        push_line(&mut text, &format!("[output truncated; full output: {path}]"));
    }
    text
}

/// `[status: <s>]` or `[status: <s>, <detail>]` (P-73).
pub(crate) fn status_line(status: JobStatus, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => format!("[status: {}, {detail}]", status.as_str()),
        None => format!("[status: {}]", status.as_str()),
    }
}

/// Adds a text on a line of its own.
pub(crate) fn push_line(text: &mut String, line: &str) {
    begin_line(text);
    text.push_str(line);
}

/// Ends the line that is there.
pub(crate) fn begin_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// At most so many characters, the last one `…` if any are left out.
pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}
