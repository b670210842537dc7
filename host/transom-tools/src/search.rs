//! Walking a directory for `glob` and `grep`: what is passed over, and how paths are shown.
//!
//! The walk goes through open directories and follows no link, so that it stays below the place it was asked to
//! search, whatever happens to the tree meanwhile, and it opens nothing that could block it.

mod ignored;

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    rc::Rc,
    vec,
};

use cap_std::fs::{Dir, MetadataExt as _};
use ignore::overrides::{Override, OverrideBuilder};

use self::ignored::Ignored;
use crate::{
    abort::Abort,
    fence::{Bounds, Id, Refusal, Standing, is_kernels},
    files::{Files, Verb, refused},
    tool::{Call, ToolError},
};

/// Directories in which version control keeps its own files.
const VCS: [&str; 6] = [".git", ".hg", ".svn", ".jj", ".bzr", "CVS"];

/// How many directories are open at once. Those above are opened again when the walk comes back to them.
const OPEN_MAX: usize = 32;

/// Where to search.
pub(crate) struct Place {
    shown: PathBuf,
    real: PathBuf,
    bounds: Bounds,
}

/// Which files a walk passes over besides hidden places and those of version control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skip {
    Nothing,
    /// What ignore files of the project name.
    Ignored,
}

impl Place {
    /// The `path` argument, or the working directory.
    pub(crate) fn of(call: &Call, files: &Files) -> Result<Place, ToolError> {
        let shown = match call.optional_text("path") {
            Some(_) => call.path(call.filled_text("path")?),
            None => call.directory.clone(),
        };
        let bounds = files.bounds(call)?;
        let real = bounds.resolve(Verb::Search, &shown)?;
        Ok(Place { shown, real, bounds })
    }

    /// One positive glob below this place. Without a slash it is about names at any depth.
    pub(crate) fn glob(&self, argument: &str, glob: &str) -> Result<Override, ToolError> {
        if glob.starts_with('!') {
            return Err(ToolError::new(format!(
                "invalid {argument}: a glob must not begin with \"!\""
            )));
        }
        // Models like to repeat the directory; a glob is about what is below it.
        let below = |root: &Path| {
            let rest = glob.strip_prefix(root.to_str()?)?;
            rest.starts_with('/').then_some(rest)
        };
        let glob = below(&self.shown).or_else(|| below(&self.real)).unwrap_or(glob);
        let mut builder = OverrideBuilder::new(&self.real);
        let built = builder.add(glob).and_then(|builder| builder.build());
        built.map_err(|error| ToolError::new(format!("invalid {argument}: {error}")))
    }

    /// The regular files below this place, each directory in the order of its names; the place itself, if it is a
    /// file. After an abort the walk ends early, as if there were nothing more.
    pub(crate) fn files(
        &self,
        abort: &Abort,
        globs: Option<Override>,
        skip: Skip,
    ) -> Result<Walk<'_>, ToolError> {
        let told = |refusal| self.bounds.tell(Verb::Search, &self.shown, refusal);
        let mut walk = Walk {
            bounds: &self.bounds,
            abort: abort.clone(),
            globs: globs.unwrap_or_else(Override::empty),
            skip,
            single: None,
            levels: Vec::new(),
        };
        if let Some(name) = self.real.file_name() {
            let spot = self.bounds.reach(Verb::Search, &self.shown, &self.real, false)?;
            let found = spot
                .metadata()
                .and_then(|found| found.ok_or_else(|| std::io::ErrorKind::NotFound.into()))
                .map_err(|error| refused(Verb::Search, &self.shown, &error))?;
            if found.is_symlink() {
                return Err(told(Refusal::Moved));
            }
            if !found.is_dir() {
                walk.single = found.is_file().then(|| Found {
                    directory: Rc::new(spot.directory),
                    standing: spot.standing,
                    name: name.to_owned(),
                    path: self.real.clone(),
                });
                return Ok(walk);
            }
        }
        let (directory, standing) = self.bounds.descend(&self.real, false).map_err(told)?;
        let ignored = (skip == Skip::Ignored).then(|| Ignored::above(&self.bounds, &self.real));
        walk.push(Rc::new(directory), standing, self.real.clone(), ignored.flatten())
            .map_err(|error| told(Refusal::Io(error)))?;
        Ok(walk)
    }

    /// Opens a file that was found, unless it is hidden.
    pub(crate) fn open(&self, found: &Found) -> Result<File, Refusal> {
        let opened = self.bounds.open(&found.directory, &found.standing, &found.name);
        opened.map(|(file, _)| file)
    }

    /// What is known of a file that was found; `None` if it is hidden, or there no more.
    pub(crate) fn metadata(&self, found: &Found) -> Option<cap_std::fs::Metadata> {
        let metadata = found.directory.symlink_metadata(&found.name).ok()?;
        let id = Id { device: metadata.dev(), inode: metadata.ino() };
        let is_hidden = self.bounds.is_hidden(&found.standing, &found.name, Some(id));
        (metadata.is_file() && !is_hidden).then_some(metadata)
    }

    /// A found path in the words of the caller.
    pub(crate) fn show(&self, real: &Path) -> PathBuf {
        match real.strip_prefix(&self.real) {
            Ok(rest) if rest.as_os_str().is_empty() => self.shown.clone(),
            Ok(rest) => self.shown.join(rest),
            Err(_) => real.to_owned(),
        }
    }
}

/// A file, by its name in an open directory.
pub(crate) struct Found {
    directory: Rc<Dir>,
    standing: Standing,
    name: OsString,
    /// Where it was found.
    pub(crate) path: PathBuf,
}

/// Files below a place.
pub(crate) struct Walk<'a> {
    bounds: &'a Bounds,
    abort: Abort,
    globs: Override,
    skip: Skip,
    /// The place, if it is a file.
    single: Option<Found>,
    /// From the place down to where the walk is.
    levels: Vec<Level>,
}

/// A directory on the way.
struct Level {
    /// Not there while too many are open.
    directory: Option<Rc<Dir>>,
    standing: Standing,
    path: PathBuf,
    entries: vec::IntoIter<Entry>,
    ignored: Option<Rc<Ignored>>,
}

struct Entry {
    name: OsString,
    is_directory: bool,
}

impl Walk<'_> {
    /// Goes into a directory.
    fn push(
        &mut self,
        directory: Rc<Dir>,
        standing: Standing,
        path: PathBuf,
        above: Option<Rc<Ignored>>,
    ) -> std::io::Result<()> {
        let entries = self.list(&directory)?;
        let ignored = match self.skip {
            Skip::Nothing => None,
            Skip::Ignored => Some(Ignored::below(above, self.bounds, &directory, &standing, &path)),
        };
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX)
            && let Some(level) = self.levels.get_mut(far)
        {
            level.directory = None;
        }
        let directory = Some(directory);
        self.levels.push(Level { directory, standing, path, entries, ignored });
        Ok(())
    }

    /// What is in a directory, sorted, without what no walk is about.
    fn list(&self, directory: &Dir) -> std::io::Result<vec::IntoIter<Entry>> {
        let mut entries = Vec::new();
        for entry in directory.entries()? {
            if self.abort.is_set() {
                break;
            }
            // What cannot be looked at is passed over, as any search does.
            let Ok(entry) = entry else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let is_vcs = name.to_str().is_some_and(|name| VCS.contains(&name));
            if kind.is_file() || kind.is_dir() && !is_vcs {
                entries.push(Entry { name, is_directory: kind.is_dir() });
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries.into_iter())
    }

    fn is_wanted(&self, path: &Path, is_directory: bool, ignored: Option<&Ignored>) -> bool {
        // Who names files wants them, ignored or not.
        let named = self.globs.matched(path, is_directory);
        if !named.is_none() {
            return named.is_whitelist();
        }
        ignored.is_none_or(|ignored| !ignored.names(path, is_directory))
    }

    /// The next file of the directory the walk is in, or a step down or up.
    fn step(&mut self) -> Option<Step> {
        let level = self.levels.last_mut()?;
        let Some(Entry { name, is_directory }) = level.entries.next() else {
            self.levels.pop();
            return Some(Step::Moved);
        };
        let path = level.path.join(&name);
        let (standing, ignored) = (level.standing, level.ignored.clone());
        let is_passed_over = is_kernels(&path)
            || self.bounds.is_hidden(&standing, &name, None)
            || !self.is_wanted(&path, is_directory, ignored.as_deref());
        if is_passed_over {
            return Some(Step::Moved);
        }
        let Some(directory) = self.directory() else { return Some(Step::Moved) };
        if !is_directory {
            return Some(Step::Found(Found { directory, standing, name, path }));
        }
        match self.bounds.enter(&directory, &standing, &name) {
            Ok((child, standing)) if !standing.is_hidden() => {
                if let Err(error) = self.push(Rc::new(child), standing, path, ignored) {
                    tracing::debug!(%error, "a directory was not searched");
                }
            }
            Ok(_) => {}
            Err(refusal) => tracing::debug!(?refusal, "a directory was not searched"),
        }
        Some(Step::Moved)
    }

    /// The directory the walk is in.
    fn directory(&mut self) -> Option<Rc<Dir>> {
        let level = self.levels.last_mut()?;
        if level.directory.is_none() {
            let (directory, standing) = self.bounds.descend(&level.path, false).ok()?;
            if standing.is_hidden() {
                return None;
            }
            level.standing = standing;
            level.directory = Some(Rc::new(directory));
        }
        level.directory.clone()
    }
}

enum Step {
    Found(Found),
    Moved,
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        while !self.abort.is_set() {
            if let Step::Found(found) = self.step()? {
                return Some(found);
            }
        }
        None
    }
}
