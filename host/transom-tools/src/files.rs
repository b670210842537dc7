//! Files as the tools meet them: where a path really leads, opening without ever blocking, and
//! replacing a file so that it is either the old one or the new one.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};
use sha2::{Digest, Sha256};

use crate::{
    abort::Abort,
    sessions::Version,
    tool::{Call, ToolError},
};

/// What one link may lead to, and so on, as the kernel counts.
const LINKS_MAX: usize = 40;

/// The longest file that is changed or compared in memory.
pub(crate) const CONTENT_BYTES_MAX: u64 = 32 << 20;

/// What a tool was about to do, for its error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    Edit,
    Search,
}

/// What the tools that change files share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    /// Held from the check of a file's version to its replacement, so that two sessions of this host
    /// cannot both replace what only one of them has seen.
    changing: Arc<Mutex<()>>,
}

impl Files {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `cannot <verb> "<path>": <why>`.
pub(crate) fn cannot(verb: Verb, path: &Path, why: &str) -> ToolError {
    let verb = match verb {
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::Edit => "edit",
        Verb::Search => "search",
    };
    ToolError::new(format!("cannot {verb} \"{}\": {why}", path.display()))
}

/// The same for what the system refuses.
pub(crate) fn refused(verb: Verb, path: &Path, error: &io::Error) -> ToolError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => cannot(verb, path, "not found"),
        io::ErrorKind::PermissionDenied => denied(verb, path, "permission denied"),
        io::ErrorKind::IsADirectory => cannot(verb, path, "not a regular file"),
        _ => cannot(verb, path, &error.to_string()),
    }
}

fn denied(verb: Verb, path: &Path, why: &str) -> ToolError {
    let ToolError { message, .. } = cannot(verb, path, why);
    ToolError::coded(message, "FsError", "FS_PERMISSION_DENIED")
}

/// Whether no tool may open what lies here: `/proc/self` would be the host with its environment, and
/// devices act when they are opened (P-45). The path has been resolved.
pub(crate) fn is_hidden(real: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|root| real.starts_with(root))
        && !real.starts_with("/dev/shm")
}

/// Where an existing path really leads, unless that is hidden.
pub(crate) fn resolve(verb: Verb, path: &Path) -> Result<PathBuf, ToolError> {
    resolve_part(verb, path, path)
}

/// The same for a part of the path that was asked for.
fn resolve_part(verb: Verb, shown: &Path, part: &Path) -> Result<PathBuf, ToolError> {
    let real = fs::canonicalize(part).map_err(|error| refused(verb, shown, &error))?;
    if is_hidden(&real) {
        return Err(denied(verb, shown, "hidden by this host"));
    }
    Ok(real)
}

/// Where a path that may not exist yet really leads: a link counts where it leads, also if nothing
/// is there (P-47).
pub(crate) fn resolve_new(verb: Verb, shown: &Path) -> Result<PathBuf, ToolError> {
    let mut path = shown.to_owned();
    let mut links = 0;
    // Ends where there is no link, or nothing at all.
    while let Ok(target) = fs::read_link(&path) {
        links += 1;
        if links > LINKS_MAX {
            return Err(cannot(verb, shown, "its links lead in a circle"));
        }
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    if path.exists() {
        return resolve_part(verb, shown, &path);
    }
    // The deepest directory that exists decides; what is missing below it has no links.
    let mut missing = Vec::new();
    let mut existing = path.as_path();
    let real = loop {
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return Err(cannot(verb, shown, "not a path to a file")),
        }
        if existing.exists() {
            break resolve_part(verb, shown, existing)?;
        }
    };
    Ok(missing.into_iter().rev().fold(real, |path, name| path.join(name)))
}

/// Opens a regular file for reading. Never blocks on a pipe, and opens no device.
pub(crate) fn open(verb: Verb, shown: &Path, real: &Path) -> Result<(File, Metadata), ToolError> {
    let not_regular = || cannot(verb, shown, "not a regular file");
    let failed = |error: io::Error| refused(verb, shown, &error);
    if !fs::metadata(real).map_err(failed)?.is_file() {
        return Err(not_regular());
    }
    // Something else may lie there by now, so opening must not wait for a writer either.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(real).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(not_regular());
    }
    // A process file system may be mounted anywhere.
    let kind: Option<FsType> = fstatfs(&file).ok().map(|info| info.filesystem_type());
    if kind.is_some_and(|kind| kind == PROC_SUPER_MAGIC || kind == SYSFS_MAGIC) {
        return Err(denied(verb, shown, "hidden by this host"));
    }
    Ok((file, metadata))
}

/// The whole content of a file that is about to be changed.
pub(crate) fn content(
    verb: Verb,
    shown: &Path,
    real: &Path,
    abort: &Abort,
) -> Result<(Vec<u8>, Metadata), ToolError> {
    let (file, metadata) = open(verb, shown, real)?;
    let too_long =
        || cannot(verb, shown, &format!("file is larger than {CONTENT_BYTES_MAX} bytes"));
    if metadata.len() > CONTENT_BYTES_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let mut file = file.take(CONTENT_BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(|error| refused(verb, shown, &error))?;
    if bytes.len() as u64 > CONTENT_BYTES_MAX {
        return Err(too_long());
    }
    if abort.is_set() {
        return Err(ToolError::aborted());
    }
    Ok((bytes, metadata))
}

pub(crate) fn version(content: &[u8]) -> Version {
    Sha256::digest(content).into()
}

/// The observation policy of L-99: an existing file must have been seen, and be what was seen.
pub(crate) fn check_observed(
    call: &Call,
    verb: Verb,
    shown: &Path,
    real: &Path,
    content: &[u8],
) -> Result<(), ToolError> {
    let (why, code) = match call.ticket.observed(real) {
        None => (
            "file has not been read in this session — read the file, then retry",
            "FS_NOT_OBSERVED",
        ),
        Some(seen) if seen != version(content) => {
            ("file changed since it was read — re-read the file, then retry", "FS_STALE_VERSION")
        }
        Some(_) => return Ok(()),
    };
    Err(ToolError::coded(cannot(verb, shown, why).message, "FsError", code))
}

/// Puts content in a file's place in one move. The directory must exist. An existing file keeps its
/// permissions, and its owner where the system allows.
pub(crate) fn replace(
    verb: Verb,
    shown: &Path,
    real: &Path,
    content: &[u8],
    existing: Option<&Metadata>,
) -> Result<(), ToolError> {
    let failed = |error: io::Error| refused(verb, shown, &error);
    if existing.is_some() {
        // Renaming needs no right to the file itself, so ask for it. Nothing is truncated.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags).open(real).map_err(failed)?;
    }
    let directory = real.parent().unwrap_or(Path::new("/"));
    let (temporary, mut file) = create_temporary(directory).map_err(failed)?;
    let mut fill = || -> io::Result<()> {
        file.write_all(content)?;
        if let Some(metadata) = existing {
            // Changing the owner clears some bits of the mode, so the mode comes last.
            let _ = std::os::unix::fs::fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, real)
    };
    fill().map_err(|error| {
        // Whatever went wrong, the half-written file is of no use.
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

fn create_temporary(directory: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".transom-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            // Left by an earlier process of the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// `<path>`, `<type>` and `<content>`, each line on its own (L-98, L-99).
pub(crate) fn envelope(path: &Path, content: &str) -> String {
    let path = path.display();
    format!("<path>{path}</path>\n<type>file</type>\n<content>\n{content}\n</content>")
}
