//! Which process has which session: a lock for each live session, on one byte of a file of the store's.
//! What a claim is good for is the router's to know.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
};
use sha2::{Digest as _, Sha256};
use transom_frame::SessionId;
use transom_harness::ports::StoreError;

/// The locks of one open store.
///
/// A lock is on an open file, not on a process, so that two stores of one process keep apart as well; the
/// kernel takes all of them back when the process dies.
#[derive(Debug)]
pub(crate) struct Claims(File);

impl Claims {
    /// Opens the file of a store's locks, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Claims, StoreError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| {
                StoreError::Io(format!("cannot open the store's locks {path:?}: {error}"))
            })?;
        Ok(Claims(file))
    }

    /// Takes a session. `false`: somebody else has it.
    pub(crate) fn claim(&self, id: &SessionId) -> Result<bool, StoreError> {
        match self.set(place(id), 1, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => Err(StoreError::Io(format!("cannot lock session \"{id}\": {error}"))),
        }
    }

    /// Gives a session back.
    pub(crate) fn release(&self, id: &SessionId) {
        if let Err(error) = self.set(place(id), 1, libc::F_UNLCK) {
            tracing::warn!(session = %id, %error, "a session's lock stays until the process ends");
        }
    }

    /// Gives all sessions back.
    pub(crate) fn release_all(&self) {
        // Length 0 is everything that follows.
        if let Err(error) = self.set(0, 0, libc::F_UNLCK) {
            tracing::warn!(%error, "the sessions' locks stay until the process ends");
        }
    }

    fn set(&self, start: i64, length: i64, kind: libc::c_int) -> Result<(), Errno> {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: length,
            l_pid: 0,
        };
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&lock)).map(drop)
    }
}

/// The byte that stands for a session. With 62 bits of a digest, two of a million sessions share one with a
/// chance of one in millions, and then the second is only refused.
fn place(id: &SessionId) -> i64 {
    let digest = Sha256::digest(id.as_str());
    let front = digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    i64::try_from(front >> 2).unwrap_or_default()
}
