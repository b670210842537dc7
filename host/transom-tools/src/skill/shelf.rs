//! Where skills are: `<name>/SKILL.md` below directories of the workspace, and below those of the user's home. The
//! workspace's are read like any file there, within the fence; the user's own are the operator's files.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use transom_harness::ports::Asker;

use super::{
    cards::{Card, Cards},
    front,
};
use crate::{
    fence::{Bounds, Fence},
    files::{self, Verb},
    tool::{Call, ToolError},
};

/// Where a workspace keeps its skills. Of two with one name the first counts, and all before the user's.
const IN_WORKSPACE: [&str; 2] = [".dsh/skills", ".agents/skills"];

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

/// Bytes of such a file. The whole of it becomes part of a conversation.
const BYTES_MAX: u64 = 256 << 10;

/// Names of one directory that are looked through, as the file system gives them.
const ENTRIES_MAX: usize = 10_000;

/// Skills of one directory that are looked at, in the order of their names. Each is told to the model at every step.
const SKILLS_MAX: usize = 100;

/// The skills that there are. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    fence: Fence,
    /// Directories of skills that are the user's own; absolute.
    homes: Arc<[PathBuf]>,
    /// Where sessions without a directory of their own work.
    directory: PathBuf,
    cards: Arc<Cards>,
}

/// A skill that was asked for.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Where its files are.
    pub(super) directory: PathBuf,
    pub(super) instructions: String,
}

/// A directory of skills.
enum Place<'a> {
    Workspace(&'a Bounds, PathBuf),
    Home(&'a Path),
}

impl Shelf {
    pub(crate) fn new(fence: Fence, homes: Vec<PathBuf>, directory: PathBuf) -> Shelf {
        Shelf { fence, homes: homes.into(), directory, cards: Arc::default() }
    }

    /// Names and descriptions, sorted by name.
    pub(super) fn list(&self, asker: &Asker) -> Vec<(String, String)> {
        let directory = asker.cwd.as_deref().map_or(self.directory.as_path(), Path::new);
        let root = asker.root.as_deref().map(Path::new);
        // What may be shown whatever the session may do later.
        let bounds = self.fence.bounds_of_glance(asker.session.as_str(), directory, root);
        let mut found = BTreeMap::new();
        for place in self.places(bounds.as_ref().ok(), directory) {
            for entry in place.entries() {
                let Some(file) = place.open(&entry) else { continue };
                let card = self.cards.of(file, SystemTime::now(), |file| card(&entry, file));
                let Some(card) = card.filter(|card| !card.hidden_from_models) else { continue };
                let Some(name) = named(card.name.as_deref(), &entry) else { continue };
                found.entry(name).or_insert(card.description);
            }
        }
        found.into_iter().collect()
    }

    /// The skill of that name.
    pub(super) fn load(&self, call: &Call, name: &str) -> Result<Loaded, ToolError> {
        let bounds = self.fence.bounds(call)?;
        for place in self.places(Some(&bounds), &call.directory) {
            for entry in place.entries() {
                let Some(text) = place.open(&entry).and_then(|file| text(&entry, file)) else {
                    continue;
                };
                let Ok(front) = front::read(&text) else { continue };
                if named(front.name.as_deref(), &entry).as_deref() != Some(name) {
                    continue;
                }
                if front.hidden_from_models {
                    return Err(ToolError::new(format!(
                        "skill \"{name}\" is not available for model invocation"
                    )));
                }
                let directory = place.path().join(&entry);
                return Ok(Loaded { directory, instructions: front.instructions.to_owned() });
            }
        }
        Err(ToolError::new(format!("skill \"{name}\" is unknown or no longer available")))
    }

    fn places<'a>(&'a self, bounds: Option<&'a Bounds>, directory: &Path) -> Vec<Place<'a>> {
        let workspace = bounds.into_iter().flat_map(|bounds| {
            IN_WORKSPACE.iter().map(move |below| Place::Workspace(bounds, directory.join(below)))
        });
        workspace.chain(self.homes.iter().map(|home| Place::Home(home))).collect()
    }
}

/// The name of a skill: what its file says, else what its directory is called.
fn named(said: Option<&str>, entry: &str) -> Option<String> {
    let name = said.unwrap_or(entry);
    front::is_name(name).then(|| name.to_owned())
}

/// The text of a skill's file, if it is one and no longer than is read.
fn text(skill: &str, file: File) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > BYTES_MAX {
        tracing::debug!(skill, "a skill is longer than is read");
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn card(skill: &str, file: File) -> Option<Card> {
    match front::read(&text(skill, file)?) {
        Ok(front) => Some(Card::of(front)),
        Err(why) => {
            tracing::debug!(skill, why, "a file is no skill");
            None
        }
    }
}

impl Place<'_> {
    fn path(&self) -> &Path {
        match self {
            Place::Workspace(_, path) => path,
            Place::Home(path) => path,
        }
    }

    /// Names that could be skills, sorted.
    fn entries(&self) -> Vec<String> {
        let mut names = match self {
            Place::Home(path) => names(
                fs::read_dir(path)
                    .ok()
                    .into_iter()
                    .flatten()
                    .map(|entry| entry.map(|entry| entry.file_name())),
            ),
            Place::Workspace(bounds, path) => {
                let opened = bounds.resolve(Verb::Read, path).ok().and_then(|real| {
                    let (open, standing) = bounds.descend(&real, false).ok()?;
                    (!standing.is_hidden()).then_some(open)
                });
                let entries = opened.and_then(|open| open.entries().ok()).into_iter().flatten();
                names(entries.map(|entry| entry.map(|entry| entry.file_name())))
            }
        };
        names.sort_unstable();
        names.truncate(SKILLS_MAX);
        names
    }

    /// The file of a skill, if it is one that may be read.
    fn open(&self, entry: &str) -> Option<File> {
        let path = self.path().join(entry).join(FILE);
        match self {
            Place::Home(_) => fs::metadata(&path)
                .is_ok_and(|found| found.is_file())
                .then(|| File::open(&path).ok())?,
            Place::Workspace(bounds, _) => {
                let (_, spot) = files::find(bounds, Verb::Read, &path).ok()?;
                files::open(bounds, Verb::Read, &path, &spot).ok()
            }
        }
    }
}

/// What is listed, without what cannot be a skill or looked at.
fn names(entries: impl Iterator<Item = io::Result<std::ffi::OsString>>) -> Vec<String> {
    // Whoever fills a directory must not fill the memory with its names.
    let names = entries.take(ENTRIES_MAX).filter_map(|entry| entry.ok()?.into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES_MAX, names};

    #[test]
    fn no_more_of_a_directory_is_read_than_is_looked_through() {
        let mut read = 0;
        let entries = std::iter::from_fn(|| {
            read += 1;
            assert!(read <= ENTRIES_MAX, "it is read on");
            Some(Ok(format!("skill-{read}").into()))
        });
        assert_eq!(names(entries).len(), ENTRIES_MAX);
    }
}
