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
        Place::within(TempDir::with_prefix("transom-").expect("a temporary directory"))
    }

    fn within(root: TempDir) -> Place {
        let cwd = root.path().join("cwd");
        let home = root.path().join("home");
        for directory in [&cwd, &home] {
            fs::create_dir(directory).expect("a directory of its own");
        }
        Place { root, cwd, home }
    }

    /// The same where no tool may write unless it is told to.
    pub fn apart() -> Place {
        let root = TempDir::with_prefix_in("transom-", yard()).expect("a directory");
        Place::within(root)
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

/// A directory that is no temporary one, wherever the checkout lies: shells may write those anyhow (P-44).
pub fn yard() -> &'static Path {
    let candidates = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"].map(Path::new);
    let is_shared =
        |path: &Path| ["/tmp", "/dev/shm"].iter().any(|shared| path.starts_with(shared));
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let fit = candidates.into_iter().find(|path| path.is_dir() && !is_shared(&real(path)));
    fit.expect("the checkout, or /var/tmp, lies outside /tmp")
}
