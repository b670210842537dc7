//! Where one test lives: a working directory and a home of its own, gone with the test.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// The directories of one test.
#[derive(Debug)]
pub struct Place {
    root: TempDir,
    pub cwd: PathBuf,
    pub home: PathBuf,
}

impl Place {
    /// Makes them.
    pub fn new() -> Place {
        let root = TempDir::with_prefix("transom-").expect("a temporary directory");
        let cwd = root.path().join("cwd");
        let home = root.path().join("home");
        for directory in [&cwd, &home] {
            fs::create_dir(directory).expect("a directory of its own");
        }
        Place { root, cwd, home }
    }

    /// What `DSH_SESSION_ROOT` names.
    pub fn sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// Everything of this test.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A file with this text, by its path.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of readable characters")
}
