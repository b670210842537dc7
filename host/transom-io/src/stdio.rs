//! Carrier `stdio`: one peer on the process's own input and output. The transport takes both for
//! itself; whatever else prints to standard output reaches standard error instead (S-136).

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
};

use nix::{
    sys::stat::{SFlag, fstat},
    unistd::{dup2_stdin, dup2_stdout},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};

/// Standard input and output, taken away from everybody else in the process.
#[derive(Debug)]
pub struct Taken {
    input: OwnedFd,
    output: OwnedFd,
}

/// What a peer's bytes come from.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
/// Where a peer's bytes go.
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Takes standard input and output. Afterwards descriptor 0 reads nothing and descriptor 1 writes to
/// standard error.
pub fn take() -> io::Result<Taken> {
    // Closed on `exec`: no child may hold the wire open, let alone write to it.
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    Ok(Taken { input, output })
}

impl Taken {
    /// The two directions as streams of the current runtime.
    ///
    /// Pipes and sockets are waited for by the runtime; other files, and an output that shares its
    /// pipe with standard error (which must keep blocking), on threads.
    pub fn open(self) -> io::Result<(Reader, Writer)> {
        let shared = {
            let (output, error) = (fstat(&self.output)?, fstat(io::stderr())?);
            (output.st_dev, output.st_ino) == (error.st_dev, error.st_ino)
        };
        let reader: Reader = match kind(&self.input)? {
            SFlag::S_IFIFO => Box::pin(pipe::Receiver::from_owned_fd(self.input)?),
            SFlag::S_IFSOCK => Box::pin(socket(self.input)?),
            _ => Box::pin(tokio::fs::File::from_std(File::from(self.input))),
        };
        let writer: Writer = match kind(&self.output)? {
            SFlag::S_IFIFO if !shared => Box::pin(pipe::Sender::from_owned_fd(self.output)?),
            SFlag::S_IFSOCK if !shared => Box::pin(socket(self.output)?),
            _ => Box::pin(tokio::fs::File::from_std(File::from(self.output))),
        };
        Ok((reader, writer))
    }
}

fn kind(descriptor: &OwnedFd) -> io::Result<SFlag> {
    Ok(SFlag::from_bits_truncate(fstat(descriptor)?.st_mode) & SFlag::S_IFMT)
}

fn socket(descriptor: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
