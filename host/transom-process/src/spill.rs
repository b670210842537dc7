//! Where output goes that is too long to keep in memory: private files, within a budget.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nix::{
    fcntl::{OFlag, openat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};
use tokio::{fs::File, io::AsyncWriteExt};

/// How many names are tried before a spill is given up; taken ones are those of other hosts that use
/// the same directory.
const NAMES_MAX: u32 = 1_000;

/// How many bytes may be spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillLimits {
    /// By one stream. 64 MiB (P-85) holds every build log and no endless loop's output.
    pub stream_bytes_max: u64,
    /// By all files that are there at the same time.
    pub total_bytes_max: u64,
}

impl Default for SpillLimits {
    fn default() -> SpillLimits {
        SpillLimits { stream_bytes_max: 64 << 20, total_bytes_max: 1 << 30 }
    }
}

/// A directory of mode 0700 with files of mode 0600.
#[derive(Debug, Clone)]
pub struct SpillDirectory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// The directory itself, whatever stands at its path by now: a confined command that may write beside it could put
    /// a link there, and whoever followed that would write where the command may not.
    open: Mutex<fs::File>,
    /// Whether it may be made anew here where it is missing.
    is_ours: bool,
    limits: SpillLimits,
    /// Bytes in all directories of this budget.
    budget: Arc<AtomicU64>,
    /// Those in this one.
    bytes: AtomicU64,
    next: AtomicU64,
}

/// A stream's place in the directory; the file is made when the first byte comes.
#[derive(Debug)]
pub struct Spill {
    directory: SpillDirectory,
    label: String,
    /// The file is to be called as the label says, if nothing else is.
    is_named: bool,
    file: Option<(PathBuf, File)>,
    written: u64,
    missing: u64,
}

/// What was spilled of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spilled {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the stream that are not in it, because a limit was reached or the disk was full. The
    /// file says so in its last line.
    pub missing: u64,
}

impl SpillDirectory {
    /// Makes the directory where it is missing, and private where it is not.
    pub fn create(path: impl Into<PathBuf>, limits: SpillLimits) -> io::Result<SpillDirectory> {
        let path = path.into();
        let open = Mutex::new(open_private(&path)?);
        let (budget, bytes, next) = (Arc::default(), AtomicU64::new(0), AtomicU64::new(1));
        let is_ours = true;
        let shared = Shared { path, open, is_ours, limits, budget, bytes, next };
        Ok(SpillDirectory { shared: Arc::new(shared) })
    }

    /// Another directory on the same budget, which must be there. What is in it when the last handle on it goes counts
    /// no longer: whoever has made it removes it.
    pub fn beside(&self, path: impl Into<PathBuf>) -> io::Result<SpillDirectory> {
        let path = path.into();
        let open = Mutex::new(open_existing(&path)?);
        let (limits, budget) = (self.shared.limits, self.shared.budget.clone());
        let (bytes, next) = (AtomicU64::new(0), AtomicU64::new(1));
        let shared = Shared { path, open, is_ours: false, limits, budget, bytes, next };
        Ok(SpillDirectory { shared: Arc::new(shared) })
    }

    /// A place for one stream. The label becomes part of the file's name.
    pub fn spill(&self, label: &str) -> Spill {
        self.spill_as(label, false)
    }

    /// A place for one stream whose file can be found by the label: it is called `<label>.txt`, unless something is.
    pub fn spill_named(&self, label: &str) -> Spill {
        self.spill_as(label, true)
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn spill_as(&self, label: &str, is_named: bool) -> Spill {
        let label =
            label.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let label = label.take(80).collect();
        Spill { directory: self.clone(), label, is_named, file: None, written: 0, missing: 0 }
    }

    /// Removes a file made here and gives its bytes back to the budget.
    pub fn remove(&self, path: &Path) {
        let Some(name) = path.file_name().filter(|_| path.parent() == Some(&self.shared.path))
        else {
            return;
        };
        let Ok(directory) = self.directory() else { return };
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = openat(&*directory, name, flags, Mode::empty()).map(fs::File::from);
        let Ok(Ok(metadata)) = found.map(|file| file.metadata()) else { return };
        if unlinkat(&*directory, name, UnlinkatFlags::NoRemoveDir).is_ok() {
            self.give_back(metadata.len());
        }
    }

    /// The directory, made anew if it has been cleared away since: temporary directories are.
    fn directory(&self) -> io::Result<MutexGuard<'_, fs::File>> {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.metadata()?.nlink() == 0 {
            let reopen = if self.shared.is_ours { open_private } else { open_existing };
            *open = reopen(&self.shared.path)?;
        }
        Ok(open)
    }

    fn make(&self, name: &str) -> io::Result<OwnedFd> {
        let directory = self.directory()?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        Ok(openat(&*directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?)
    }

    async fn open(&self, label: &str, is_named: bool) -> io::Result<(PathBuf, File)> {
        for attempt in 0..NAMES_MAX {
            let name = if is_named && attempt == 0 {
                file_name(label)
            } else {
                let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
                format!("{number}.{}", file_name(label))
            };
            let (directory, made) = (self.clone(), name.clone());
            // Joining fails only while the runtime shuts down.
            let made = tokio::task::spawn_blocking(move || directory.make(&made)).await;
            match made.map_err(io::Error::other).flatten() {
                Ok(file) => {
                    let file = File::from_std(file.into());
                    return Ok((self.shared.path.join(name), file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Takes up to `wanted` bytes from the budget.
    fn take(&self, wanted: u64) -> u64 {
        let mut taken = 0;
        // The closure always answers, so the update cannot fail.
        let _ = self.shared.budget.fetch_update(Ordering::AcqRel, Ordering::Acquire, |bytes| {
            taken = self.shared.limits.total_bytes_max.saturating_sub(bytes).min(wanted);
            Some(bytes + taken)
        });
        self.shared.bytes.fetch_add(taken, Ordering::AcqRel);
        taken
    }

    fn give_back(&self, count: u64) {
        // A command may have made a file here longer than it was written.
        let count = count.min(lower(&self.shared.bytes, count));
        lower(&self.shared.budget, count);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        lower(&self.budget, self.bytes.load(Ordering::Acquire));
    }
}

/// Lowers a count, at most to nothing; gives what it was.
fn lower(count: &AtomicU64, by: u64) -> u64 {
    let update = |bytes: u64| Some(bytes.saturating_sub(by));
    // The closure always answers.
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).unwrap_or_default()
}

/// What the file of a named spill is called; others have a number before it.
fn file_name(label: &str) -> String {
    format!("{label}.txt")
}

/// Makes a directory where it is missing, and private where it is not.
fn open_private(path: &Path) -> io::Result<fs::File> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    open_existing(path)
}

/// Makes a directory private.
fn open_existing(path: &Path) -> io::Result<fs::File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let directory = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTDIR | libc::ELOOP) => {
            let message = format!("\"{}\" is not a directory of its own", path.display());
            io::Error::new(io::ErrorKind::NotADirectory, message)
        }
        _ => error,
    })?;
    directory.set_permissions(Permissions::from_mode(0o700))?;
    Ok(directory)
}

impl Spill {
    /// Appends what fits; the rest is counted as missing. A gap is never followed by more text.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let wanted = bytes.len() as u64;
        let room = self.directory.shared.limits.stream_bytes_max - self.written;
        let allowed = if self.missing == 0 { self.directory.take(wanted.min(room)) } else { 0 };
        let fits =
            usize::try_from(allowed).ok().and_then(|count| bytes.get(..count)).unwrap_or_default();
        match self.append(fits).await {
            Ok(()) => {
                self.written += allowed;
                self.missing += wanted - allowed;
            }
            Err(error) => {
                tracing::warn!(%error, "output could not be spilled");
                self.directory.give_back(allowed);
                self.missing += wanted;
            }
        }
    }

    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (path, mut file) = match self.file.take() {
            Some(open) => open,
            None => self.directory.open(&self.label, self.is_named).await?,
        };
        let result = async {
            file.write_all(bytes).await?;
            file.flush().await
        };
        let result = result.await;
        self.file = Some((path, file));
        result
    }

    /// The file, as long as nothing is missing in it.
    pub(crate) fn whole(&self) -> Option<&Path> {
        self.file.as_ref().filter(|_| self.missing == 0).map(|(path, _)| path.as_path())
    }

    /// Closes the file; `None` if there is none.
    pub(crate) async fn close(mut self) -> Option<Spilled> {
        let (path, mut file) = self.file.take()?;
        if self.missing > 0 {
            let marker =
                format!("\n[output cut here: {} more bytes were not kept]\n", self.missing);
            // Best effort: the same number is in the answer.
            let _ = file.write_all(marker.as_bytes()).await;
            let _ = file.flush().await;
        }
        Some(Spilled { path, missing: self.missing })
    }
}
