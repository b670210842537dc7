//! Where skills are: `<name>/SKILL.md` below directories of the workspace, and below those of the user's home. The
//! workspace's are read like any file there, within the fence; the user's own are the operator's files.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use transom_harness::{permissions::Mode, ports::Asker};

use super::front::{self, Front};
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
        Shelf { fence, homes: homes.into(), directory }
    }

    /// Names and descriptions, sorted by name.
    pub(super) fn list(&self, asker: &Asker) -> Vec<(String, String)> {
        let directory = asker.cwd.as_deref().map_or(self.directory.as_path(), Path::new);
        let root = asker.root.as_deref().map(Path::new);
        // The narrowest mode: what may be shown whatever the session may do later.
        let mode = Mode::ReadOnly;
        let bounds = self.fence.bounds_of(asker.session.as_str(), directory, root, mode, None);
        let mut found = BTreeMap::new();
        for place in self.places(bounds.as_ref().ok(), directory) {
            for entry in place.entries() {
                let Some(text) = place.read(&entry) else { continue };
                match front::read(&text) {
                    Ok(front) if !front.hidden_from_models => {
                        let Some(name) = named(&front, &entry) else { continue };
                        found.entry(name).or_insert(front.description);
                    }
                    Ok(_) => {}
                    Err(why) => tracing::debug!(skill = entry, why, "a file is no skill"),
                }
            }
        }
        found.into_iter().collect()
    }

    /// The skill of that name.
    pub(super) fn load(&self, call: &Call, name: &str) -> Result<Loaded, ToolError> {
        let bounds = self.fence.bounds(call)?;
        for place in self.places(Some(&bounds), &call.directory) {
            for entry in place.entries() {
                let Some(text) = place.read(&entry) else { continue };
                let Ok(front) = front::read(&text) else { continue };
                if named(&front, &entry).as_deref() != Some(name) {
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
fn named(front: &Front<'_>, entry: &str) -> Option<String> {
    let name = front.name.as_deref().unwrap_or(entry);
    front::is_name(name).then(|| name.to_owned())
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

    /// The text of a skill's file, if it is one and no longer than is read.
    fn read(&self, entry: &str) -> Option<String> {
        let path = self.path().join(entry).join(FILE);
        let file = match self {
            Place::Home(_) => fs::metadata(&path)
                .is_ok_and(|found| found.is_file())
                .then(|| File::open(&path))?
                .ok()?,
            Place::Workspace(bounds, _) => {
                let (_, spot) = files::find(bounds, Verb::Read, &path).ok()?;
                files::open(bounds, Verb::Read, &path, &spot).ok()?
            }
        };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > BYTES_MAX {
            tracing::debug!(path = %path.display(), "a skill is longer than is read");
            return None;
        }
        String::from_utf8(bytes).ok()
    }
}

/// What is listed, without what cannot be a skill or looked at.
fn names(entries: impl Iterator<Item = io::Result<std::ffi::OsString>>) -> Vec<String> {
    let names = entries.filter_map(|entry| entry.ok()?.into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
