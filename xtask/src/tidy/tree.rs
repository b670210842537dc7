//! The texts of a checkout, as tidy sees them. What they must say is left to the checks.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use walkdir::WalkDir;

/// The files under version control, or about to be, by their path from the root with forward slashes.
#[derive(Debug, Default)]
pub struct Tree {
    /// The text; none when a file is not text.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    pub fn read(root: &Path) -> Result<Tree> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            // A file that git still lists may be gone from the disk.
            let Ok(bytes) = fs::read(root.join(&path)) else { continue };
            files.insert(path, String::from_utf8(bytes).ok());
        }
        Ok(Tree { files })
    }

    /// The texts, by path.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The texts whose names end so.
    pub fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Whether the folder holds any file.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.below(folder).next().is_some()
    }

    /// The paths below a folder, without its own name.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.files.keys().filter_map(move |path| path.strip_prefix(folder)?.strip_prefix('/'))
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())))
                .collect(),
        }
    }
}

/// What git tracks or would track; none outside a git checkout.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    if !listing.status.success() {
        return None;
    }
    let text = String::from_utf8(listing.stdout).ok()?;
    Some(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Everything but what builds and installations leave behind.
fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let kept = |name: &str| {
        !(matches!(name, ".git" | "target" | "node_modules" | "__pycache__")
            || name.starts_with("target-")
            || name.starts_with(".venv"))
    };
    for entry in WalkDir::new(root)
        .into_iter()
        .filter_entry(|entry| kept(&entry.file_name().to_string_lossy()))
    {
        let entry = entry.context("the checkout cannot be listed")?;
        if entry.file_type().is_file() {
            paths.push(entry.path().strip_prefix(root)?.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_folder_is_told_from_what_begins_like_it() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old/b.md", ""), ("docs/doors/c.md", "")]);
        assert_eq!(tree.below("docs").collect::<Vec<_>>(), ["a.md", "doors/c.md"]);
        assert!(tree.has_folder("docs/doors"));
        assert!(!tree.has_folder("docs/do"));
    }

    #[test]
    fn without_git_what_builds_leave_behind_is_not_read() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for path in [
            "src/a.rs",
            "target/b.rs",
            "target-x/c.rs",
            "tests/peers/node_modules/d.js",
            ".git/config",
        ] {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
            fs::write(file, "x").expect("a file");
        }
        assert_eq!(walked(root.path()).expect("it can be listed"), ["src/a.rs"]);
    }
}
