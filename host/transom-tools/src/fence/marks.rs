//! Hidden and guarded files, known by what they are and not only by what they are called: a directory that was
//! mounted a second time or moved is still the same device and inode (P-48).

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use transom_harness::permissions::Mode;
use transom_process::Places;

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// A file that something is to be said of.
#[derive(Debug)]
struct Mark {
    path: PathBuf,
    id: Option<Id>,
    /// Its name in its directory, so that it is known as soon as it exists, and after it was replaced.
    entry: Option<(Id, OsString)>,
}

/// The marks of one call.
#[derive(Debug)]
pub(crate) struct Marks {
    private: Vec<Mark>,
    secrets: Vec<Mark>,
    guarded: Vec<Mark>,
    own: Option<Mark>,
    guard_git: bool,
}

/// What is known of an open directory, or of a file in it, from the way there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    id: Option<Id>,
    is_private: bool,
    is_secret: bool,
    is_guarded: bool,
}

impl Standing {
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_private || self.is_secret
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    pub(crate) fn device(&self) -> Option<u64> {
        self.id.map(|id| id.device)
    }
}

impl Marks {
    /// Personal secrets are hidden in the confined modes only (P-45).
    pub(crate) fn new(places: &Places, mode: Mode) -> Marks {
        let all = |paths: &[PathBuf]| paths.iter().map(|path| Mark::new(path)).collect();
        let is_confined = mode != Mode::DangerFullAccess;
        Marks {
            private: all(&places.private),
            secrets: if is_confined { all(&places.secrets) } else { Vec::new() },
            guarded: if is_confined { all(&places.guarded) } else { Vec::new() },
            own: places.own.as_deref().map(Mark::new),
            guard_git: is_confined && places.guard_git,
        }
    }

    /// Whether a real path is hidden by its name.
    pub(crate) fn hide(&self, real: &Path) -> bool {
        let is_own = self.own.as_ref().is_some_and(|own| real.starts_with(&own.path));
        below(&self.secrets, real) || !is_own && below(&self.private, real)
    }

    /// Whether a real path is guarded by its name.
    pub(crate) fn guard(&self, real: &Path) -> bool {
        self.guard_git && real.iter().any(is_git) || below(&self.guarded, real)
    }

    /// The directory everything begins in.
    pub(crate) fn root(&self, id: Id) -> Standing {
        let from = Standing { id: None, is_private: false, is_secret: false, is_guarded: false };
        self.step(&from, OsStr::new("/"), Some(id))
    }

    /// One step from a directory to what has this name in it.
    pub(crate) fn step(&self, from: &Standing, name: &OsStr, id: Option<Id>) -> Standing {
        let hit = |mark: &Mark| mark.is(from.id, name, id);
        let is_own = self.own.as_ref().is_some_and(|own| own.id.is_some() && own.id == id);
        Standing {
            id,
            is_private: !is_own && (from.is_private || self.private.iter().any(hit)),
            is_secret: from.is_secret || self.secrets.iter().any(hit),
            is_guarded: from.is_guarded
                || self.guard_git && is_git(name)
                || self.guarded.iter().any(hit),
        }
    }
}

impl Mark {
    fn new(path: &Path) -> Mark {
        let id = |path: &Path| {
            let metadata = fs::symlink_metadata(path).ok()?;
            Some(Id { device: metadata.dev(), inode: metadata.ino() })
        };
        let entry = || Some((id(path.parent()?)?, path.file_name()?.to_owned()));
        Mark { path: path.to_owned(), id: id(path), entry: entry() }
    }

    fn is(&self, from: Option<Id>, name: &OsStr, id: Option<Id>) -> bool {
        let by_entry = self.entry.as_ref().is_some_and(|(directory, own_name)| {
            from.is_some_and(|from| from == *directory) && own_name == name
        });
        by_entry || self.id.is_some() && self.id == id
    }
}

fn below(marks: &[Mark], real: &Path) -> bool {
    marks.iter().any(|mark| real.starts_with(&mark.path))
}

/// Some file systems do not tell capitals from small letters.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}
