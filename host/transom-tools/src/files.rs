//! Files as the tools meet them: what is said of those that cannot be used, what a session has seen of them, and
//! replacing a file so that it is either the old one or the new one. Which files these may be is the fence's business.

use std::{
    ffi::OsString,
    fs::{File, Metadata},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt};
use sha2::{Digest, Sha256};

use crate::{
    abort::Abort,
    fence::{Bounds, Fence, Spot},
    sessions::Version,
    tool::{Call, ToolError},
};

/// The longest file that is changed or compared in memory.
pub(crate) const CONTENT_BYTES_MAX: u64 = 32 << 20;

/// How many files can be changed at the same time; one that is slow to sync must not hold up all others.
const LOCKS: usize = 64;

/// What a tool was about to do, for its error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    Edit,
    Search,
}

impl Verb {
    /// Whether the file would not be the same afterwards.
    pub(crate) fn changes(self) -> bool {
        match self {
            Verb::Write | Verb::Edit => true,
            Verb::Read | Verb::Search => false,
        }
    }
}

/// What the tools on files share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    fence: Fence,
    changing: Arc<[Mutex<()>]>,
}

impl Files {
    pub(crate) fn new(fence: Fence) -> Files {
        Files { fence, changing: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn bounds(&self, call: &Call) -> Result<Bounds, ToolError> {
        self.fence.bounds(call)
    }

    /// Held from the check of a file's version to its replacement, so that two sessions of this host cannot both
    /// replace what only one of them has seen.
    pub(crate) fn lock(&self, real: &Path) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        real.hash(&mut hasher);
        let index = hasher.finish() % (LOCKS as u64);
        let lock = usize::try_from(index).ok().and_then(|index| self.changing.get(index))?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
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
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            // What `glob` cannot spell, the model cannot ask for.
            let is_misspelt = path.to_string_lossy().contains(char::REPLACEMENT_CHARACTER);
            let why = if is_misspelt {
                "not found (a name that is not UTF-8 can only be used from a shell)"
            } else {
                "not found"
            };
            cannot(verb, path, why)
        }
        io::ErrorKind::PermissionDenied => {
            let ToolError { message, .. } = cannot(verb, path, "permission denied");
            ToolError::coded(message, "FsError", "FS_PERMISSION_DENIED")
        }
        io::ErrorKind::IsADirectory => cannot(verb, path, "not a regular file"),
        _ if error.raw_os_error() == Some(libc::ELOOP) => {
            cannot(verb, path, "its links lead in a circle")
        }
        _ => cannot(verb, path, &error.to_string()),
    }
}

/// The whole content of a file that is about to be changed.
pub(crate) fn content(
    bounds: &Bounds,
    verb: Verb,
    shown: &Path,
    spot: &Spot,
    abort: &Abort,
) -> Result<(Vec<u8>, Metadata), ToolError> {
    let opened = bounds.open(&spot.directory, &spot.standing, &spot.name);
    let (file, metadata) = opened.map_err(|refusal| bounds.tell(verb, shown, refusal))?;
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
    match call.ticket.observed(real) {
        None => Err(unseen(verb, shown)),
        Some(seen) if seen != version(content) => Err(stale(verb, shown)),
        Some(_) => Ok(()),
    }
}

fn unseen(verb: Verb, shown: &Path) -> ToolError {
    let why = "file has not been read in this session — read the file, then retry";
    ToolError::coded(cannot(verb, shown, why).message, "FsError", "FS_NOT_OBSERVED")
}

fn stale(verb: Verb, shown: &Path) -> ToolError {
    let why = "file changed since it was read — re-read the file, then retry";
    ToolError::coded(cannot(verb, shown, why).message, "FsError", "FS_STALE_VERSION")
}

/// Puts content in a file's place in one move. An existing file keeps its permissions, and its owner where the system
/// allows; one that is no longer what it was, or was not there, is left alone.
pub(crate) fn replace(
    verb: Verb,
    shown: &Path,
    spot: &Spot,
    content: &[u8],
    existing: Option<&Metadata>,
) -> Result<(), ToolError> {
    let failed = |error: io::Error| refused(verb, shown, &error);
    if existing.is_some() {
        ask_for_right(spot).map_err(failed)?;
    }
    let temporary = Temporary::create(&spot.directory).map_err(failed)?;
    let mut file = &temporary.file;
    let mut fill = || -> io::Result<()> {
        file.write_all(content)?;
        if let Some(metadata) = existing {
            // Changing the owner clears some bits of the mode, so the mode comes last.
            let _ = std::os::unix::fs::fchown(file, Some(metadata.uid()), Some(metadata.gid()));
            file.set_permissions(metadata.permissions())?;
        }
        file.sync_all()
    };
    fill().map_err(failed)?;
    match existing {
        Some(metadata) if !is_still(spot, metadata).map_err(failed)? => Err(stale(verb, shown)),
        Some(_) => temporary.rename(spot).map_err(failed),
        None => match temporary.place(spot) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(unseen(verb, shown)),
            placed => placed.map_err(failed),
        },
    }
}

/// Renaming needs no right to the file itself, so ask for it. Nothing is truncated.
fn ask_for_right(spot: &Spot) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).follow(FollowSymlinks::No).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match spot.directory.open_with(&spot.name, &options) {
        // A program that runs keeps what it runs: it is not changed in place.
        Err(error) if error.kind() != io::ErrorKind::ExecutableFileBusy => Err(error),
        _ => Ok(()),
    }
}

/// Whether a name still is the file that was compared, as far as can be told without reading it again.
fn is_still(spot: &Spot, compared: &Metadata) -> io::Result<bool> {
    let Some(now) = spot.metadata()? else { return Ok(false) };
    let now = (now.dev(), now.ino(), now.size(), now.mtime(), now.mtime_nsec());
    let compared =
        (compared.dev(), compared.ino(), compared.size(), compared.mtime(), compared.mtime_nsec());
    Ok(now == compared)
}

/// A file that is being written, in the directory of the one it will be. Whatever goes wrong, it is removed.
struct Temporary<'a> {
    directory: &'a Dir,
    name: Option<OsString>,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a Dir) -> io::Result<Temporary<'a>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".transom-{}-{number}.tmp", std::process::id()));
            match directory.open_with(&name, &options) {
                Ok(file) => {
                    return Ok(Temporary { directory, name: Some(name), file: file.into_std() });
                }
                // Left by an earlier process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// In the place of what has the name.
    fn rename(mut self, spot: &Spot) -> io::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        self.directory.rename(name, &spot.directory, &spot.name)?;
        self.name = None;
        Ok(())
    }

    /// Where nothing has the name. A link fails where a rename would replace.
    fn place(self, spot: &Spot) -> io::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        match self.directory.hard_link(name, &spot.directory, &spot.name) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // A file system without links; there the rename has to do.
            Err(_) => match spot.metadata()? {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => self.rename(spot),
            },
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Best effort; there is nobody to tell.
            let _ = self.directory.remove_file(name);
        }
    }
}

/// A regular file, open for reading.
pub(crate) fn open(
    bounds: &Bounds,
    verb: Verb,
    shown: &Path,
    spot: &Spot,
) -> Result<File, ToolError> {
    let opened = bounds.open(&spot.directory, &spot.standing, &spot.name);
    opened.map(|(file, _)| file).map_err(|refusal| bounds.tell(verb, shown, refusal))
}

/// `<path>`, `<type>` and `<content>`, each line on its own (L-98, L-99).
pub(crate) fn envelope(path: &Path, kind: &str, content: &str) -> String {
    let path = path.display();
    format!("<path>{path}</path>\n<type>{kind}</type>\n<content>\n{content}\n</content>")
}

/// Where the call's file is, and an open directory to act in.
pub(crate) fn find(
    bounds: &Bounds,
    verb: Verb,
    shown: &Path,
) -> Result<(PathBuf, Spot), ToolError> {
    let real = bounds.resolve(verb, shown)?;
    let spot = bounds.reach(verb, shown, &real, false)?;
    Ok((real, spot))
}
