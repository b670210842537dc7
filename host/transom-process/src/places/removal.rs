//! Removing a directory whose content others have made, and may still be making: however deep it is, it costs two open
//! descriptors and no stack, and no link in it is followed. Which directory that is, is left to `places.rs`.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat, renameat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};

/// Directories that are taken apart at most; whoever still makes new ones is not raced for ever.
const DIRECTORIES_MAX: u32 = 1_000_000;

/// Removes a directory with all that is in it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let top = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let mut moved = 0;
    // What a directory holds is handed up before it goes, so that there are never more than two levels.
    loop {
        let names = entries(&top)?;
        if names.is_empty() {
            return fs::remove_dir(path);
        }
        for name in names {
            if taken(&top, &name)? {
                continue;
            }
            let flags = OFlag::O_RDONLY | flags | OFlag::O_CLOEXEC;
            let inner: OwnedFd = match openat(&top, name.as_os_str(), flags, Mode::empty()) {
                Ok(inner) => inner,
                // Something else stands there now; the next look will tell what.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            for name in entries(&inner)? {
                if !taken(&inner, &name)? {
                    hand_up(&inner, &name, &top, &mut moved)?;
                }
            }
        }
    }
}

/// Gives a directory a new name in the top one.
fn hand_up(from: &impl AsFd, name: &OsString, top: &impl AsFd, moved: &mut u32) -> io::Result<()> {
    while *moved < DIRECTORIES_MAX {
        *moved += 1;
        match renameat(from, name.as_os_str(), top, format!(".removed-{moved}").as_str()) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            // The name is taken by something that is not an empty directory.
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(format!("more than {DIRECTORIES_MAX} directories")))
}

/// Removes what is a file, a link or an empty directory; tells whether it is gone.
fn taken(directory: &impl AsFd, name: &OsString) -> io::Result<bool> {
    let unlink = |flags| unlinkat(directory, name.as_os_str(), flags);
    match unlink(UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(true),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlink(UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn entries(directory: &impl AsRawFd) -> io::Result<Vec<OsString>> {
    // The open directory itself, whatever its name is by now.
    let listed = fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    listed.map(|entry| entry.map(|entry| entry.file_name())).collect()
}
