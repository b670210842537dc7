//! A directory of this process alone, in a place that others share, and removed when the process is done with it, or,
//! if it was killed, by the next one that makes such a directory there. What it is for is left to whoever makes it.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{fcntl::OFlag, sys::stat::fstat, unistd::mkdtemp};
use tracing::debug;

/// What a directory is called until it is locked. Nothing looks for these: whoever finds one by its name finds it locked.
const UNLOCKED: &str = ".transom-unlocked-XXXXXX";

/// A directory that is gone with this.
#[derive(Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    /// Locked for as long as the directory is in use, by which it is told from one that a killed process has left.
    _in_use: File,
}

impl OwnDirectory {
    /// Makes a directory in `below`, which exists, that nobody but this user may enter. Its name is `prefix` with six
    /// letters or digits. Those of this user with the same prefix that no process holds any more are removed.
    pub fn new(below: &Path, prefix: &str) -> io::Result<OwnDirectory> {
        let fresh = mkdtemp(&below.join(UNLOCKED))?;
        match named(&fresh, below, prefix) {
            Ok(own) => {
                own.remove_left(below, prefix);
                Ok(own)
            }
            Err(error) => {
                // It is empty, and why it is of no use is told.
                let _ = fs::remove_dir(&fresh);
                Err(error)
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What cannot be removed is tried again by the next process.
    fn remove_left(&self, below: &Path, prefix: &str) {
        let Ok(me) = fs::symlink_metadata(&self.path) else { return };
        let Ok(entries) = fs::read_dir(below) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let own = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
            if own && path != self.path {
                // Locked until it is removed: nobody else removes it meanwhile.
                let Some(_left) = left(&path, me.uid()) else { continue };
                if let Err(error) = fs::remove_dir_all(&path) {
                    debug!(%error, directory = %path.display(), "what a killed process has left stays");
                }
            }
        }
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            debug!(%error, directory = %self.path.display(), "a directory is left behind");
        }
    }
}

/// Locks a fresh directory, and only then gives it the name by which it is found.
fn named(fresh: &Path, below: &Path, prefix: &str) -> io::Result<OwnDirectory> {
    let in_use = open(fresh)?;
    in_use.lock()?;
    let name = fresh.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let letters = name.rsplit('-').next().unwrap_or_default();
    let path = below.join(format!("{prefix}{letters}"));
    fs::rename(fresh, &path)?;
    Ok(OwnDirectory { path, _in_use: in_use })
}

/// A directory of this user that nobody holds, now held.
fn left(path: &Path, user: u32) -> Option<File> {
    let directory = open(path).ok()?;
    let owner = fstat(directory.as_fd()).ok()?.st_uid;
    (owner == user && directory.try_lock().is_ok()).then_some(directory)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

#[cfg(test)]
mod tests {
    use std::{fs, mem, os::unix::fs::symlink};

    use super::OwnDirectory;

    #[test]
    fn a_directory_goes_with_its_owner_or_with_the_next_one() {
        let below = tempfile::tempdir().unwrap();
        let path = |name: &str| below.path().join(name);
        for left in ["own-000000/deep", "other-000000", "elsewhere"] {
            fs::create_dir_all(path(left)).unwrap();
        }
        fs::write(path("own-000000/deep/file"), "left").unwrap();
        fs::write(path("own-file"), "none of ours").unwrap();
        symlink(path("elsewhere"), path("own-link")).unwrap();

        let first = OwnDirectory::new(below.path(), "own-").unwrap();
        let second = OwnDirectory::new(below.path(), "own-").unwrap();
        assert!(first.path().is_dir() && second.path().is_dir());
        assert!(!path("own-000000").exists());
        for kept in ["other-000000", "elsewhere", "own-file", "own-link"] {
            assert!(path(kept).exists(), "{kept}");
        }
        let gone = second.path().to_owned();
        drop(second);
        assert!(!gone.exists());

        // Killed: its lock ends, and nothing else is done.
        let killed = first.path().to_owned();
        fs::write(killed.join("file"), "left").unwrap();
        let mut first = mem::ManuallyDrop::new(first);
        let unlocked = mem::replace(&mut first._in_use, fs::File::open(below.path()).unwrap());
        drop(unlocked);
        assert!(killed.is_dir());
        let third = OwnDirectory::new(below.path(), "own-").unwrap();
        assert!(!killed.exists());
        assert_eq!(fs::read_dir(third.path()).unwrap().count(), 0);
    }
}
