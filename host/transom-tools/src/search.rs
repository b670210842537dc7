//! Walking a directory for `glob` and `grep`: what is passed over, and how paths are shown.

use std::path::{Path, PathBuf};

use ignore::{
    DirEntry, WalkBuilder,
    overrides::{Override, OverrideBuilder},
};

use crate::{
    abort::Abort,
    files::{Verb, is_hidden, resolve},
    tool::{Call, ToolError},
};

/// Directories in which version control keeps its own files.
const VCS: [&str; 6] = [".git", ".hg", ".svn", ".jj", ".bzr", "CVS"];

/// Where to search.
pub(crate) struct Place {
    shown: PathBuf,
    real: PathBuf,
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
    pub(crate) fn of(call: &Call) -> Result<Place, ToolError> {
        let shown = match call.optional_text("path") {
            Some(_) => call.path(call.filled_text("path")?),
            None => call.directory.clone(),
        };
        let real = resolve(Verb::Search, &shown)?;
        Ok(Place { shown, real })
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

    /// The regular files below this place, in no particular order unless `sorted`. After an abort the
    /// walk ends early, as if there were nothing more.
    pub(crate) fn files(
        &self,
        abort: &Abort,
        globs: Option<Override>,
        skip: Skip,
        sorted: bool,
    ) -> impl Iterator<Item = DirEntry> {
        let mut builder = WalkBuilder::new(&self.real);
        builder.standard_filters(false);
        if skip == Skip::Ignored {
            // A person's own ignore file is not the project's.
            builder.parents(true).ignore(true).git_ignore(true).git_exclude(true);
        }
        if let Some(globs) = globs {
            builder.overrides(globs);
        }
        if sorted {
            builder.sort_by_file_path(Path::cmp);
        }
        let abort = abort.clone();
        builder.filter_entry(move |entry| {
            let is_vcs = entry.file_name().to_str().is_some_and(|name| VCS.contains(&name));
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_closed = is_vcs && is_directory || is_hidden(entry.path());
            entry.depth() == 0 || !(is_closed || abort.is_set())
        });
        // What cannot be read is passed over, as any search does.
        builder
            .build()
            .flatten()
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
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
