//! A client of a door on a unix socket. What is said is left to those who speak.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
};

use super::wire::{PATIENCE, Signal, Wire, checked_line};

/// One connection to a door.
pub struct Socket {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Socket {
    /// Connects.
    pub fn connect(path: &Path) -> Socket {
        let stream =
            UnixStream::connect(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound on reading");
        stream.set_write_timeout(Some(PATIENCE)).expect("a bound on writing");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Socket { stream, reader }
    }
}

impl Socket {
    /// A second handle, for whoever writes while this one reads.
    pub fn writer(&self) -> UnixStream {
        self.stream.try_clone().expect("a second handle")
    }
}

impl Wire for Socket {
    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            let gone = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "{error}");
        }
    }

    fn close_input(&mut self) {
        // The other end may have closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn signal(&mut self, signal: Signal) {
        panic!("a connection takes no {signal:?}: send it to the process");
    }

    fn line(&mut self) -> Option<String> {
        let mut bytes = Vec::new();
        match self.reader.read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => Some(checked_line(bytes)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no line: {error}"),
        }
    }

    fn exit(&mut self) -> i32 {
        panic!("a connection has no exit status: ask the process");
    }

    fn diagnostics(&self) -> String {
        String::new()
    }
}
