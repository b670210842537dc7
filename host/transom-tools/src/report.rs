//! Texts about commands and jobs, put together line by line (L-97, P-71). Which lines there are is decided
//! where the command ran.

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

/// That there is more than what was shown, and where (P-71).
pub(crate) fn dropped(files: &[String]) -> String {
    format!("[some output was dropped from memory; full output: {}]", files.join(", "))
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
