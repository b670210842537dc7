//! What a project's ignore files name: `.ignore` everywhere, and in a repository `.gitignore` and `.git/info/exclude`.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    rc::Rc,
};

use cap_std::fs::Dir;
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::fence::{Bounds, Standing};

/// No person writes a longer one; what is beyond is not heeded.
const BYTES_MAX: u64 = 1 << 20;

/// The ignore files of one directory, and those of the directories above.
pub(super) struct Ignored {
    above: Option<Rc<Ignored>>,
    plain: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
}

impl Ignored {
    /// Those of all directories above a real path.
    pub(super) fn above(bounds: &Bounds, real: &Path) -> Option<Rc<Ignored>> {
        let mut above: Vec<&Path> = real.ancestors().skip(1).collect();
        above.reverse();
        let mut ignored = None;
        for path in above {
            if let Ok((directory, standing)) = bounds.descend(path, false) {
                ignored = Some(Ignored::below(ignored, bounds, &directory, &standing, path));
            }
        }
        ignored
    }

    /// Those of a directory too.
    pub(super) fn below(
        above: Option<Rc<Ignored>>,
        bounds: &Bounds,
        directory: &Dir,
        standing: &Standing,
        path: &Path,
    ) -> Rc<Ignored> {
        let read = |directory: &Dir, standing: &Standing, name: &str| {
            let opened = bounds.open(directory, standing, OsStr::new(name));
            opened.map_or_else(|_| Gitignore::empty(), |(file, _)| parse(file, path))
        };
        let exclude = || {
            let (git, standing) = bounds.enter(directory, standing, OsStr::new(".git")).ok()?;
            let (info, standing) = bounds.enter(&git, &standing, OsStr::new("info")).ok()?;
            Some(read(&info, &standing, "exclude"))
        };
        let is_repository = directory.symlink_metadata(".git").is_ok();
        Rc::new(Ignored {
            above,
            plain: read(directory, standing, ".ignore"),
            git: read(directory, standing, ".gitignore"),
            exclude: is_repository.then(exclude).flatten().unwrap_or_else(Gitignore::empty),
            is_repository,
        })
    }

    /// Whether a path below is to be passed over. The nearest file that says anything decides; plain ignore files
    /// come before those of the repository, and those end at its root.
    pub(super) fn names(&self, path: &Path, is_directory: bool) -> bool {
        let is_repository = self.chain().any(|ignored| ignored.is_repository);
        let mut kinds = [Match::None, Match::None, Match::None];
        let [plain, git, exclude] = &mut kinds;
        let mut is_outside = !is_repository;
        for ignored in self.chain() {
            if plain.is_none() {
                *plain = ignored.plain.matched(path, is_directory);
            }
            if !is_outside && git.is_none() {
                *git = ignored.git.matched(path, is_directory);
            }
            if !is_outside && exclude.is_none() {
                *exclude = ignored.exclude.matched(path, is_directory);
            }
            is_outside |= ignored.is_repository;
        }
        kinds.iter().find(|found| !found.is_none()).is_some_and(Match::is_ignore)
    }

    fn chain(&self) -> impl Iterator<Item = &Ignored> {
        std::iter::successors(Some(self), |ignored| ignored.above.as_deref())
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        // A chain as deep as the tree must not be dropped by recursion.
        let mut above = self.above.take();
        while let Some(next) = above {
            above = Rc::into_inner(next).and_then(|mut next| next.above.take());
        }
    }
}

fn parse(file: File, root: &Path) -> Gitignore {
    let mut bytes = Vec::new();
    if file.take(BYTES_MAX).read_to_end(&mut bytes).is_err() {
        return Gitignore::empty();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(root);
    for line in text.strip_prefix('\u{FEFF}').unwrap_or(&text).lines() {
        // A line that is no pattern excludes nothing.
        let _ = builder.add_line(None::<PathBuf>, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
