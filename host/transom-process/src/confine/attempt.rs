//! What a throw-away process tries behind its walls, so that the report rests on what happened and not on what a
//! kernel of this version ought to do (P-58).

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
};

use crate::confine::{plan::Attempt, system};

/// An address reserved for examples, which is nowhere.
const NOWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// How it went: 0, or the error number, or -1 for an error without one.
pub(crate) fn errno(attempt: &Attempt) -> i32 {
    match attempted(attempt) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}

fn attempted(attempt: &Attempt) -> io::Result<()> {
    match attempt {
        Attempt::Write(path) => {
            OpenOptions::new().append(true).create(true).open(path)?.write_all(b"x")
        }
        Attempt::Read(path) => fs::read(path).map(drop),
        Attempt::Chmod(path) => fs::set_permissions(path, Permissions::from_mode(0o600)),
        Attempt::Internet => system::try_socket(libc::AF_INET, libc::SOCK_STREAM, false),
        Attempt::Pair => system::try_socket(libc::AF_UNIX, libc::SOCK_STREAM, true),
        Attempt::Loopback => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let _caller = TcpStream::connect(listener.local_addr()?)?;
            listener.accept().map(drop)
        }
        Attempt::Outside => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.send_to(b"x", NOWHERE).map(drop)
        }
    }
}
