//! A server whose every byte the test decides, and how each connection ends. What the bytes mean is the
//! test's matter.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use crate::*;

/// What happens on one connection, in order; then it is closed.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Reads the whole request.
    Hear,
    /// Reads something and leaves the rest: closing resets the connection then.
    Glance,
    /// One write.
    Write(Vec<u8>),
    /// One write for each byte, each in a segment of its own as far as the sender decides.
    Bytes(Vec<u8>),
    /// The same bytes again and again, until the peer has gone.
    Flood(Vec<u8>),
    /// The same, with a short pause behind each write.
    Drip(Vec<u8>),
    /// Tells the test that the script has come this far.
    Reached,
    /// Reads until the peer has gone, and tells the test.
    Gone,
}

/// What the test is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Reached,
    Gone,
}

/// The server, and a provider that knows no other.
pub(crate) struct Wire {
    pub(crate) base: String,
    pub(crate) providers: Providers,
    scripts: mpsc::SyncSender<Vec<Act>>,
    told: mpsc::Receiver<Told>,
    _runtime: Runtime,
}

impl Wire {
    pub(crate) fn start(settings: Settings) -> Wire {
        Wire::speaking("http", settings)
    }

    /// A provider that takes the server for one of this scheme.
    pub(crate) fn speaking(scheme: &str, settings: Settings) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (scripts, due) = mpsc::sync_channel::<Vec<Act>>(16);
        let (tell, told) = mpsc::sync_channel(16);
        // Ends with the test: nobody is left to send scripts.
        thread::spawn(move || {
            for script in due {
                let Ok((stream, _)) = listener.accept() else { return };
                // A peer that goes away ends the script, as it should.
                let _ = play(stream, &script, &tell);
            }
        });
        let stored = base.clone();
        let (providers, _runtime) = provide(settings, move || endpoint(&stored, KEY));
        Wire { base, providers, scripts, told, _runtime }
    }

    /// Plays this script on the next connection.
    pub(crate) fn script(&self, script: Vec<Act>) {
        self.scripts.send(script).unwrap();
    }

    /// Begins an attempt that meets this script.
    pub(crate) fn begin(&self, script: Vec<Act>) -> Attempt {
        self.script(script);
        begin(&self.providers, request(&self.providers, "hi"))
    }

    /// The chunks of a whole attempt that meets this script.
    pub(crate) fn ask(&self, script: Vec<Act>) -> Vec<Value> {
        self.begin(script).all()
    }

    /// The failure of an attempt that meets these bytes and then the end of the connection.
    pub(crate) fn failure_of(&self, bytes: impl Into<Vec<u8>>) -> Value {
        let last = self.ask(vec![Act::Hear, Act::Write(bytes.into())]).pop().unwrap();
        assert_eq!(last["reason"]["kind"], "error", "{last}");
        last["reason"]["failure"].clone()
    }

    pub(crate) fn wait(&self, expected: &Told) {
        assert_eq!(self.told.recv_timeout(PATIENCE).as_ref(), Ok(expected));
    }
}

fn play(mut stream: TcpStream, script: &[Act], tell: &mpsc::SyncSender<Told>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for act in script {
        match act {
            Act::Hear => hear(&mut stream)?,
            Act::Glance => drop(stream.read(&mut [0])?),
            Act::Write(bytes) => stream.write_all(bytes)?,
            Act::Bytes(bytes) => bytes.iter().try_for_each(|byte| stream.write_all(&[*byte]))?,
            Act::Flood(bytes) => {
                while stream.write_all(bytes).is_ok() {}
                let _ = tell.send(Told::Gone);
            }
            Act::Drip(bytes) => {
                stream.set_read_timeout(Some(Duration::from_millis(2)))?;
                while stream.write_all(bytes).is_ok() && !is_gone(&mut stream) {}
                let _ = tell.send(Told::Gone);
            }
            Act::Reached => drop(tell.send(Told::Reached)),
            Act::Gone => {
                while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
                let _ = tell.send(Told::Gone);
            }
        }
    }
    Ok(())
}

/// Whether the peer has gone by the end of the read timeout.
fn is_gone(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

fn hear(stream: &mut TcpStream) -> io::Result<()> {
    let mut heard = Vec::new();
    let mut some = [0; 4096];
    loop {
        let end = heard.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&heard[..end]).to_lowercase();
            let (_, length) = head.split_once("content-length: ").unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if heard.len() >= end + 4 + length {
                return Ok(());
            }
        }
        match stream.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => heard.extend_from_slice(&some[..count]),
        }
    }
}
