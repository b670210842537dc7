//! Where a path leads, as far as the file system can tell.

use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// How many links one path may lead through, as the kernel counts.
const LINKS_MAX: usize = 40;

/// The real path of an absolute one. What does not exist follows its deepest directory that does; a link to nothing
/// counts where it leads (P-47).
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => follow(path),
            _ => Err(error),
        },
    }
}

fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::from("/");
    // The next part is the last one.
    let mut pending = Vec::new();
    push(&mut pending, path);
    let mut links = 0;
    // Below what does not exist, there is nothing to follow.
    let mut exists = true;
    let mut is_directory = true;
    while let Some(part) = pending.pop() {
        if part == ".." {
            if !exists {
                return Err(io::ErrorKind::NotFound.into());
            }
            if !is_directory {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let found = if exists { fs::symlink_metadata(&next).map(Some) } else { Ok(None) };
        match found {
            Ok(Some(metadata)) if metadata.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                push(&mut pending, &target);
                is_directory = true;
            }
            Ok(Some(metadata)) => {
                is_directory = metadata.is_dir();
                real = next;
            }
            Ok(None) => real = next,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    exists = false;
                    real = next;
                }
                _ => return Err(error),
            },
        }
    }
    Ok(real)
}

fn push(pending: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<OsString> = parts.collect();
    parts.reverse();
    pending.append(&mut parts);
}
