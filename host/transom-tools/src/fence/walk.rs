//! From the root of the file system down to a directory, one component at a time, through open directories and no
//! link (P-48). What was walked to stays what it is, whatever becomes of its path.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Component, Path},
};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt},
};
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC,
    FsType, NSFS_MAGIC, PROC_SUPER_MAGIC, SECURITYFS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC,
    SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs,
};

use super::{Bounds, Id, Standing};
use crate::files::Verb;

/// Where the file systems of processes, kernel and devices are. `/proc/self` would be the host with its environment,
/// and devices act when they are opened (P-45).
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Of these only shared memory holds files of users.
const SHARED_MEMORY: &str = "/dev/shm";

/// The same file systems, wherever they are mounted.
const KERNEL_KINDS: [FsType; 12] = [
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    DEVPTS_SUPER_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    SELINUX_MAGIC,
    SMACK_MAGIC,
    BPF_FS_MAGIC,
    NSFS_MAGIC,
];

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Nobody but the host has any business there (P-45).
    Hidden,
    /// The mode does not allow it; a wider one might (P-21).
    Denied,
    /// A link is where none was when the path was resolved.
    Moved,
    /// Something else is where a directory should be.
    InTheWay,
    /// A directory, pipe, socket or device.
    NotRegular,
    /// What the system says.
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Io(error)
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) directory: Dir,
    pub(crate) standing: Standing,
    pub(crate) name: OsString,
}

impl Spot {
    /// What has the name now; `None` if nothing has.
    pub(crate) fn metadata(&self) -> io::Result<Option<cap_std::fs::Metadata>> {
        match self.directory.symlink_metadata(&self.name) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn id(&self) -> io::Result<Option<Id>> {
        Ok(self.metadata()?.map(|metadata| Id { device: metadata.dev(), inode: metadata.ino() }))
    }
}

impl Bounds {
    /// Opens the directory at a real path. With `create`, directories that are missing are made.
    pub(crate) fn descend(&self, real: &Path, create: bool) -> Result<(Dir, Standing), Refusal> {
        let mut directory = Dir::open_ambient_dir("/", ambient_authority())?;
        let mut standing = self.marks.root(id(&directory)?);
        for part in real.components() {
            let Component::Normal(name) = part else { continue };
            (directory, standing) = match self.enter(&directory, &standing, name) {
                Err(Refusal::Io(error)) if create && error.kind() == io::ErrorKind::NotFound => {
                    self.allow_standing(Verb::Write, &self.marks.step(&standing, name, None))?;
                    match directory.create_dir(name) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(error.into());
                        }
                        _ => self.enter(&directory, &standing, name)?,
                    }
                }
                entered => entered?,
            };
        }
        Ok((directory, standing))
    }

    /// One step down. The way to something that is not hidden may lead through what is, so the caller asks at the
    /// end.
    pub(crate) fn enter(
        &self,
        directory: &Dir,
        standing: &Standing,
        name: &OsStr,
    ) -> Result<(Dir, Standing), Refusal> {
        let child = match directory.open_dir_nofollow(name) {
            Ok(child) => child,
            Err(error) => {
                return Err(match directory.symlink_metadata(name) {
                    Ok(metadata) if metadata.is_symlink() => Refusal::Moved,
                    Ok(metadata) if !metadata.is_dir() => Refusal::InTheWay,
                    _ => Refusal::Io(error),
                });
            }
        };
        let child_id = id(&child)?;
        if standing.device() != Some(child_id.device) && is_kernels_own(&child) {
            return Err(Refusal::Hidden);
        }
        let standing = self.marks.step(standing, name, Some(child_id));
        Ok((child, standing))
    }

    /// Opens a regular file for reading, unless it is hidden.
    pub(crate) fn open(
        &self,
        directory: &Dir,
        standing: &Standing,
        name: &OsStr,
    ) -> Result<(File, Metadata), Refusal> {
        let (file, metadata) = open_regular(directory, name)?;
        let id = Id { device: metadata.dev(), inode: metadata.ino() };
        if self.is_hidden(standing, name, Some(id)) {
            return Err(Refusal::Hidden);
        }
        Ok((file, metadata))
    }

    /// Whether what has this name in a directory is hidden.
    pub(crate) fn is_hidden(&self, standing: &Standing, name: &OsStr, id: Option<Id>) -> bool {
        self.marks.step(standing, name, id).is_hidden()
    }
}

/// Device and inode of an open directory.
pub(crate) fn id(directory: &Dir) -> io::Result<Id> {
    let metadata = directory.dir_metadata()?;
    Ok(Id { device: metadata.dev(), inode: metadata.ino() })
}

/// Opens a regular file for reading. Never blocks on a pipe, and opens no device.
pub(crate) fn open_regular(directory: &Dir, name: &OsStr) -> Result<(File, Metadata), Refusal> {
    let metadata = directory.symlink_metadata(name)?;
    if metadata.is_symlink() {
        return Err(Refusal::Moved);
    }
    if !metadata.is_file() {
        return Err(Refusal::NotRegular);
    }
    // Something else may have the name by now, so opening must not wait for a writer either.
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = match directory.open_with(name, &options) {
        Ok(file) => file.into_std(),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(Refusal::Moved),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Refusal::NotRegular);
    }
    if is_kernels_own(&file) {
        return Err(Refusal::Hidden);
    }
    Ok((file, metadata))
}

/// Whether a real path leads to a file system of the kernel.
pub(crate) fn is_kernels(real: &Path) -> bool {
    KERNEL.iter().any(|root| real.starts_with(root)) && !real.starts_with(SHARED_MEMORY)
}

/// The same of what is open.
fn is_kernels_own(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|info| KERNEL_KINDS.contains(&info.filesystem_type()))
}
