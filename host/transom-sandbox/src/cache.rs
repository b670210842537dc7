//! Compiled code on disk: found again by what it was compiled from and for, proven whole before it is used.
//! A cache is never needed: whatever is wrong with an entry, the component is compiled once more.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    hash::{Hash, Hasher},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};
use tracing::{debug, warn};
use wasmtime::Engine;

use crate::{code::Proven, contract, error::LoadError};

/// Begins every entry; another number means another layout.
const MAGIC: &[u8; 8] = b"transom1";
const DIGEST_BYTES: usize = 32;

/// Entries that are kept. A host runs a dozen components; the rest are versions from before.
const ENTRIES_MAX: usize = 64;

/// What a writer left unfinished is removed after this time.
const UNFINISHED_MAX: Duration = Duration::from_secs(3600);

/// Compiled code is larger than its component, by up to ten times for very small ones.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

/// A folder of compiled code that belongs to this user alone.
pub(crate) struct Cache {
    folder: PathBuf,
    /// What everything in it was compiled by and for.
    engine: [u8; DIGEST_BYTES],
}

/// Names an entry.
pub(crate) struct Key([u8; DIGEST_BYTES]);

impl Cache {
    /// Opens the folder, and makes it where it is missing. One that others can write to is refused; one that cannot be
    /// made is done without, since a host may well have no disk to write to.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Option<Cache>, LoadError> {
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            warn!(folder = %folder.display(), %error, "compiled code is not kept");
            return Ok(None);
        }
        match owned_alone(folder) {
            Ok(()) => Ok(Some(Cache { folder: folder.to_owned(), engine: engine_digest(engine) })),
            Err(problem) => Err(LoadError::Cache { path: folder.to_owned(), problem }),
        }
    }

    /// The key of a component, given its digest.
    pub(crate) fn key(&self, component: &[u8]) -> Key {
        Key(Sha256::new().chain_update(self.engine).chain_update(component).finalize().into())
    }

    /// Code that was kept under this key, if it is whole.
    pub(crate) fn find(&self, key: &Key) -> Option<Proven> {
        let path = self.path(key);
        match read(&path, key) {
            Ok(code) => Some(code),
            Err(Unusable::Absent) => None,
            Err(Unusable::Because(why)) => {
                warn!(entry = %path.display(), why, "compiled code is not used");
                self.forget(key);
                None
            }
        }
    }

    /// Removes an entry that is of no use.
    pub(crate) fn forget(&self, key: &Key) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Keeps code under this key. That it cannot be kept is no reason to stop.
    pub(crate) fn keep(&self, key: &Key, code: &[u8]) {
        match self.write(key, code) {
            Ok(()) => {
                debug!(entry = %self.path(key).display(), bytes = code.len(), "compiled code kept")
            }
            Err(error) => {
                warn!(folder = %self.folder.display(), %error, "compiled code is not kept")
            }
        }
        self.prune();
    }

    fn write(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unfinished =
            self.folder.join(format!(".{}.{}.tmp", process::id(), COUNTER.fetch_add(1, Relaxed)));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| {
                file.write_all(MAGIC)?;
                file.write_all(&seal(key, code))?;
                file.write_all(code)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&unfinished, self.path(key)))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Removes the oldest entries beyond the bound, and what was left unfinished long ago.
    fn prune(&self) {
        let Ok(listed) = fs::read_dir(&self.folder) else { return };
        let now = SystemTime::now();
        let mut kept = Vec::new();
        for entry in listed.flatten() {
            let Some(changed) = entry.metadata().ok().and_then(|metadata| metadata.modified().ok())
            else {
                continue;
            };
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("code") => kept.push((changed, path)),
                Some("tmp")
                    if now.duration_since(changed).is_ok_and(|age| age > UNFINISHED_MAX) =>
                {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        kept.sort();
        for (_, path) in kept.iter().rev().skip(ENTRIES_MAX) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.code", hex::encode(key.0)))
    }
}

/// Why an entry is not used.
enum Unusable {
    Absent,
    Because(&'static str),
}

fn read(path: &Path, key: &Key) -> Result<Proven, Unusable> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Absent),
        Err(_) => return Err(Unusable::Because("it cannot be opened")),
    };
    // Looked up on the open file, which is the one that is read.
    let Ok(metadata) = file.metadata() else {
        return Err(Unusable::Because("it cannot be looked at"));
    };
    if !metadata.is_file() {
        return Err(Unusable::Because("it is no regular file"));
    }
    if metadata.uid() != user() || metadata.mode() & 0o022 != 0 {
        return Err(Unusable::Because("others could have written it"));
    }
    if metadata.len() > ENTRY_BYTES_MAX {
        return Err(Unusable::Because("it is too large"));
    }
    let mut header = [0; MAGIC.len() + DIGEST_BYTES];
    let mut code = Vec::with_capacity(metadata.len() as usize);
    if file.read_exact(&mut header).is_err() || file.read_to_end(&mut code).is_err() {
        return Err(Unusable::Because("it is cut short"));
    }
    match header.strip_prefix(MAGIC) {
        None => Err(Unusable::Because("it has another layout")),
        Some(sealed) if sealed != seal(key, &code) => {
            Err(Unusable::Because("its content was changed"))
        }
        Some(_) => Ok(Proven::new(code)),
    }
}

/// A digest over key and content, so that an entry cannot pass for another.
fn seal(key: &Key, code: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::new().chain_update(key.0).chain_update(code).finalize().into()
}

fn owned_alone(folder: &Path) -> Result<(), String> {
    let metadata = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("it is no folder of its own; name a folder, not a link".to_owned());
    }
    if metadata.uid() != user() {
        return Err(format!("it belongs to user {}, not to user {}", metadata.uid(), user()));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("its mode is {mode:04o}, which lets others in; 0700 is right"));
    }
    Ok(())
}

fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// What code depends on beside the component: the engine's own account (version, target, settings), and the contract
/// against which a component was checked before its code was kept.
fn engine_digest(engine: &Engine) -> [u8; DIGEST_BYTES] {
    let mut digest = DigestHasher(Sha256::new());
    env!("CARGO_PKG_VERSION").hash(&mut digest);
    contract::TEXT.hash(&mut digest);
    engine.precompile_compatibility_hash().hash(&mut digest);
    digest.0.finalize().into()
}

/// SHA-256 where the standard library wants a hasher: its own is not promised to stay the same.
struct DigestHasher(Sha256);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

#[cfg(test)]
mod tests;
