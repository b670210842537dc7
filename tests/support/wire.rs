//! What a client of a line door holds in its hands, whoever is at the other end: a process or a host in
//! memory. What is said is left to those who speak.

use std::time::Duration;

/// How long a test waits for what must come, on the slowest machine. Nothing waits this long in order to pass.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A signal to whoever serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Kill,
    Terminate,
}

/// One end of a door's lines.
pub trait Wire {
    /// Writes exactly these bytes, in one go.
    fn write(&mut self, bytes: &[u8]);

    /// The client says no more.
    fn close_input(&mut self);

    fn signal(&mut self, signal: Signal);

    /// The next line without its end; `None` at the end of output.
    ///
    /// # Panics
    ///
    /// When nothing comes in time, when the line is not UTF-8, or when output ends inside a line.
    fn line(&mut self) -> Option<String>;

    /// Waits for the end and gives the exit status; -1 and the signal's number below that for a signal.
    fn exit(&mut self) -> i32;

    /// What the other end has told its operator so far.
    fn diagnostics(&self) -> String;
}

impl<W: Wire + ?Sized> Wire for Box<W> {
    fn write(&mut self, bytes: &[u8]) {
        (**self).write(bytes);
    }

    fn close_input(&mut self) {
        (**self).close_input();
    }

    fn signal(&mut self, signal: Signal) {
        (**self).signal(signal);
    }

    fn line(&mut self) -> Option<String> {
        (**self).line()
    }

    fn exit(&mut self) -> i32 {
        (**self).exit()
    }

    fn diagnostics(&self) -> String {
        (**self).diagnostics()
    }
}

/// A line as bytes to one as text; bytes that end without a line feed are somebody's mistake.
pub fn checked_line(bytes: Vec<u8>) -> String {
    let Some(line) = bytes.strip_suffix(b"\n") else {
        panic!("output ended inside a line: {:?}", String::from_utf8_lossy(&bytes));
    };
    match std::str::from_utf8(line) {
        Ok(text) => text.to_owned(),
        Err(error) => panic!("output is not UTF-8 ({error}): {:?}", String::from_utf8_lossy(line)),
    }
}
