//! Where logs are below a session root (L-75), and which roots are refused (L-77).
//! What stands in a log is `line.rs`, `pack.rs` and `frames.rs`.

use std::{
    fmt::Write as _,
    fs::{self, DirEntry},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use transom_frame::SessionId;
use transom_harness::ports::StoreError;

/// Bytes of a file's name on every file system that matters.
const NAME_BYTES_MAX: usize = 255;

/// What the two dashes on both sides of a slug leave of a name.
const SLUG_BYTES_MAX: usize = NAME_BYTES_MAX - 4;

/// The project of sessions without a working directory.
const NO_CWD: &str = "_no-cwd";

/// How lines become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Zstandard frames, each of whole lines.
    Zstd,
    /// As they are.
    Plain,
}

impl Encoding {
    pub(crate) fn of(compressed: bool) -> Encoding {
        if compressed { Encoding::Zstd } else { Encoding::Plain }
    }

    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Encoding::Zstd => "session.jsonl.zstd",
            Encoding::Plain => "session.jsonl",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Encoding::Zstd => "compressed",
            Encoding::Plain => "plain",
        }
    }
}

/// Where the log of a new session belongs.
pub(crate) fn place(
    root: &Path,
    encoding: Encoding,
    cwd: Option<&str>,
    id: &SessionId,
) -> Result<PathBuf, StoreError> {
    Ok(root.join(project(cwd)).join(segment(id)?).join(encoding.file_name()))
}

/// The log of a session, wherever its project is. `None`: there is none.
pub(crate) fn find(
    root: &Path,
    encoding: Encoding,
    id: &SessionId,
) -> Result<Option<PathBuf>, StoreError> {
    // What has no place cannot be there.
    let Ok(segment) = segment(id) else { return Ok(None) };
    let mut found: Option<PathBuf> = None;
    for project in projects(root)? {
        let path = project.join(&segment).join(encoding.file_name());
        match fs::symlink_metadata(&path) {
            Ok(_) => match &found {
                None => found = Some(path),
                Some(first) => {
                    return Err(StoreError::Io(format!(
                        "session \"{id}\" has two logs, {first:?} and {path:?}: move one of them away"
                    )));
                }
            },
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(found)
}

/// All logs below a root, which must be of one encoding and in the layout of L-75.
#[derive(Debug)]
pub(crate) struct Logs {
    /// `None` where there are no logs.
    pub(crate) encoding: Option<Encoding>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Logs {
    /// Refuses mixed encodings and the flat layout.
    pub(crate) fn of(root: &Path) -> Result<Logs, StoreError> {
        refuse_flat(root, root)?;
        let mut logs = Logs { encoding: None, paths: Vec::new() };
        for project in projects(root)? {
            refuse_flat(root, &project)?;
            for entry in entries(&project)? {
                if is_directory(&entry) {
                    logs.take(root, &entry.path())?;
                }
            }
        }
        Ok(logs)
    }

    /// Like [`of`](Logs::of), for a store that writes in `encoding`.
    pub(crate) fn written_as(root: &Path, encoding: Encoding) -> Result<Logs, StoreError> {
        let logs = Logs::of(root)?;
        match (logs.encoding, logs.paths.first()) {
            (Some(found), Some(path)) if found != encoding => Err(StoreError::Foreign(format!(
                "the session root {root:?} holds {} logs, for example {path:?}, and this store writes {} ones: \
                 name another root, or set the compression to what is there",
                found.word(),
                encoding.word()
            ))),
            _ => Ok(logs),
        }
    }

    fn take(&mut self, root: &Path, directory: &Path) -> Result<(), StoreError> {
        for encoding in [Encoding::Zstd, Encoding::Plain] {
            let path = directory.join(encoding.file_name());
            match fs::symlink_metadata(&path) {
                Ok(_) => {}
                Err(error) if is_absence(&error) => continue,
                Err(error) => return Err(unreadable(&path, &error)),
            }
            if self.encoding.is_some_and(|found| found != encoding) {
                return Err(StoreError::Foreign(format!(
                    "the session root {root:?} mixes encodings: {:?} is not written like {path:?}; keep each kind \
                     in a root of its own",
                    self.paths.first().map(PathBuf::as_path).unwrap_or(root),
                )));
            }
            self.encoding = Some(encoding);
            self.paths.push(path);
        }
        Ok(())
    }
}

/// L-77: logs that stand where directories should be are another layout's.
fn refuse_flat(root: &Path, directory: &Path) -> Result<(), StoreError> {
    for entry in entries(directory)? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if (name.ends_with(".jsonl") || name.ends_with(".jsonl.zstd")) && !is_directory(&entry) {
            return Err(StoreError::Foreign(format!(
                "the session root {root:?} has the flat layout, which is not read: {:?} should be \
                 <root>/<project>/<session>/session.jsonl or .jsonl.zstd",
                entry.path()
            )));
        }
    }
    Ok(())
}

fn projects(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut projects: Vec<PathBuf> = entries(root)?
        .iter()
        .filter(|entry| {
            let name = entry.file_name();
            (name == NO_CWD || name.to_string_lossy().starts_with("--")) && is_directory(entry)
        })
        .map(DirEntry::path)
        .collect();
    projects.sort_unstable();
    Ok(projects)
}

/// None for a directory that is not there.
fn entries(directory: &Path) -> Result<Vec<DirEntry>, StoreError> {
    match fs::read_dir(directory).and_then(Iterator::collect) {
        Ok(entries) => Ok(entries),
        Err(error) if is_absence(&error) => Ok(Vec::new()),
        Err(error) => Err(unreadable(directory, &error)),
    }
}

fn is_directory(entry: &DirEntry) -> bool {
    entry
        .file_type()
        .is_ok_and(|kind| kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io(format!("cannot look into {path:?}: {error}"))
}

/// The directory of all sessions of one working directory.
fn project(cwd: Option<&str>) -> String {
    let Some(cwd) = cwd else { return NO_CWD.to_owned() };
    let mut slug = String::new();
    let mut in_separators = false;
    for unit in cwd.encode_utf16() {
        let is_separator = [b'/', b'\\', b':'].into_iter().any(|byte| unit == u16::from(byte));
        if !is_separator {
            push_unit(&mut slug, unit);
        } else if !in_separators {
            slug.push('-');
        }
        in_separators = is_separator;
    }
    let slug = slug.trim_start_matches('-');
    // All of it is ASCII.
    let slug = slug.get(..SLUG_BYTES_MAX).unwrap_or(slug);
    format!("--{}--", if slug.is_empty() { "root" } else { slug })
}

/// The directory of one session.
fn segment(id: &SessionId) -> Result<String, StoreError> {
    let mut segment = String::new();
    for unit in id.as_str().encode_utf16() {
        push_unit(&mut segment, unit);
    }
    match segment.as_str() {
        "" => Err(StoreError::Io(
            "a session with an empty id has no place in a session root: give it an id".to_owned(),
        )),
        "." | ".." => Ok(segment.replace('.', "~002E")),
        _ if segment.len() > NAME_BYTES_MAX => Err(StoreError::Io(format!(
            "the id of session \"{id}\" is too long for a directory's name: {} bytes where {NAME_BYTES_MAX} are possible",
            segment.len()
        ))),
        _ => Ok(segment),
    }
}

fn push_unit(out: &mut String, unit: u16) {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') => {
            out.push(char::from(byte));
        }
        _ => {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "~{unit:04X}");
        }
    }
}

#[cfg(test)]
mod tests;
