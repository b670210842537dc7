//! Which paths a session may write, and which nobody but the host may read (`permissions-and-jobs.md` §10).
//! The same list serves shells and file tools; who enforces it is `confine` and `transom-tools`.

mod removal;
#[cfg(test)]
mod tests;

use std::{
    fmt::Write as _,
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Component, Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::unistd::geteuid;

/// Personal secrets below a user's home (P-45).
const SECRETS: [&str; 9] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
];

/// Temporary directories that all processes share (P-44).
const SHARED: &str = "/tmp";

/// Writable in every session that may write, whatever is said of temporary directories (P-44).
const SHARED_MEMORY: &str = "/dev/shm";

/// How the names of directories begin that are only to be removed.
const ASIDE: &str = ".removed-";

/// How many such names are tried.
const ASIDE_MAX: u32 = 1_000;

/// What file systems allow for one name.
const NAME_BYTES_MAX: usize = 255;

/// Whether something is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// It is not.
    #[default]
    Deny,
    /// It is.
    Allow,
}

/// What an operator says about confinement (table `[confine]`; P-44 to P-46, P-53, P-56, P-60). Relative paths in
/// `write` and `guard` stand in the workspace, those in `hide` and `show` in the user's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// No shell is confined (P-60).
    pub off: bool,
    /// A shell that cannot be confined does not run, whoever would allow it (P-60).
    pub required: bool,
    /// Networks, for confined shells (P-56).
    pub network: Network,
    /// Sockets in the file system, for confined shells (P-56).
    pub unix_sockets: Network,
    /// The temporary directories of the system are writable roots.
    pub shared_temp: bool,
    /// More writable roots.
    pub write: Vec<PathBuf>,
    /// More personal secrets.
    pub hide: Vec<PathBuf>,
    /// Personal secrets that are none here.
    pub show: Vec<PathBuf>,
    /// What is not changed under `workspace-write`.
    pub guard: Vec<PathBuf>,
    /// Nor are version control's own files.
    pub guard_git: bool,
    /// What belongs to the host alone: Transom's home, store, control socket, token and key files; absolute (P-45 a).
    pub private: Vec<PathBuf>,
    /// Where personal secrets are looked for (P-45 b).
    pub user_home: Option<PathBuf>,
    /// The platform's temporary directory, besides `/tmp`.
    pub temp: Option<PathBuf>,
    /// `run` in Transom's home, which holds the sessions' own directories. Those are excepted from `private`.
    pub run: Option<PathBuf>,
}

/// The places of one session: canonical, without duplicates, sorted.
///
/// What does not exist, or leads out of another root that it lies in, is left out of `roots` and named in `absent`. It stays in `private` and `guarded`, behind its
/// deepest directory that exists, so that it is covered once it does; secrets are listed where they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The workspace root (P-5).
    pub workspace: PathBuf,
    /// Directories that are writable under `workspace-write`, the workspace first (P-44).
    pub roots: Vec<PathBuf>,
    /// The session's own directory, if it has one.
    pub own: Option<PathBuf>,
    /// Host-private: hidden from file tools in every mode (P-45 a).
    pub private: Vec<PathBuf>,
    /// Personal secrets: hidden in the confined modes (P-45 b).
    pub secrets: Vec<PathBuf>,
    /// Readable, and not changed under `workspace-write` (P-46).
    pub guarded: Vec<PathBuf>,
    /// Every path with a component `.git` is guarded too.
    pub guard_git: bool,
    /// Roots that were asked for and are no directories here, or not where they would have to be.
    pub absent: Vec<PathBuf>,
}

impl Default for Confinement {
    fn default() -> Confinement {
        Confinement {
            off: false,
            required: false,
            network: Network::Deny,
            unix_sockets: Network::Deny,
            shared_temp: true,
            write: Vec::new(),
            hide: Vec::new(),
            show: Vec::new(),
            guard: Vec::new(),
            guard_git: true,
            private: Vec::new(),
            user_home: None,
            temp: None,
            run: None,
        }
    }
}

impl Confinement {
    /// The places of a session, as the file system is now.
    pub fn places(&self, session: &str, asked: &Path) -> io::Result<Places> {
        let workspace = fs::canonicalize(asked)?;
        if !workspace.is_dir() {
            let message = format!("workspace \"{}\" is not a directory", workspace.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
        }

        let mut wanted: Vec<PathBuf> = Vec::new();
        if self.shared_temp {
            wanted.push(SHARED.into());
            wanted.extend(self.temp.clone());
        }
        wanted.push(SHARED_MEMORY.into());
        wanted.extend(self.write.iter().map(|path| workspace.join(path)));
        let mut firm = vec![workspace.clone()];
        firm.extend(wanted.iter().filter_map(|path| directory(path)));
        if !stays(asked, &firm) {
            let (asked, real) = (asked.display(), workspace.display());
            return Err(io::Error::other(format!(
                "workspace \"{asked}\" lies where commands may write and leads out of there, to \"{real}\""
            )));
        }
        let (mut roots, mut absent) = (Vec::new(), Vec::new());
        for path in wanted {
            match directory(&path).filter(|_| stays(&path, &firm)) {
                Some(real) => roots.push(real),
                None => absent.push(path),
            }
        }
        // It is made when the session first needs it, so its absence is nothing to report.
        let own = self.own_directory(session).and_then(|path| directory(&path));
        roots.extend(own.clone());
        let mut roots = sorted(roots);
        roots.retain(|root| *root != workspace);
        roots.insert(0, workspace.clone());

        let guarded = self.guard.iter().map(|path| settle(&workspace.join(path))).collect();
        let private = self.private.iter().map(|path| settle(path)).collect();
        Ok(Places {
            roots,
            own,
            private: sorted(private),
            secrets: self.secrets(),
            guarded: sorted(guarded),
            guard_git: self.guard_git,
            absent: sorted(absent),
            workspace,
        })
    }

    fn secrets(&self) -> Vec<PathBuf> {
        let at_home = |path: &PathBuf| match &self.user_home {
            Some(home) => home.join(path),
            None => path.clone(),
        };
        let usual = self.user_home.iter().flat_map(|home| SECRETS.map(|name| home.join(name)));
        let wanted = usual.chain(self.hide.iter().map(at_home));
        let shown: Vec<PathBuf> = self.show.iter().map(|path| settle(&at_home(path))).collect();
        let real = wanted.filter_map(|path| fs::canonicalize(path).ok());
        sorted(real.filter(|path| !shown.contains(path)).collect())
    }

    /// Where a session's own directory is or would be; none without `run`, and none for an identifier that is empty
    /// or too long for a name.
    pub fn own_directory(&self, session: &str) -> Option<PathBuf> {
        let name = escape(session);
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        self.run.as_ref().filter(|_| fits).map(|run| run.join(name))
    }

    /// Makes a session's own directory, for nobody but the host's user. One that exists is kept if it is that.
    pub fn make_own(&self, session: &str) -> io::Result<Option<PathBuf>> {
        let Some(run) = &self.run else { return Ok(None) };
        let Some(path) = self.own_directory(session) else {
            let message = format!(
                "session identifier of {} bytes cannot name a directory; expected 1 to {NAME_BYTES_MAX} once escaped",
                session.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        DirBuilder::new().recursive(true).mode(0o700).create(run)?;
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let metadata = fs::symlink_metadata(&path)?;
        if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
            let message =
                format!("\"{}\" is not a directory of this host's user; remove it", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        fs::canonicalize(&path).map(Some)
    }

    /// Takes a session's own directory out of the way, so that the session can be given a new one at once. Gives where
    /// it is now, for [`Confinement::remove`].
    pub fn set_aside(&self, session: &str) -> Option<PathBuf> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let (run, path) = (self.run.as_ref()?, self.own_directory(session)?);
        for _ in 0..ASIDE_MAX {
            // No session's directory has a name like this.
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let aside = run.join(format!("{ASIDE}{}-{number}", process::id()));
            match fs::rename(&path, &aside) {
                Ok(()) => return Some(aside),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                // Left behind by another host whose number was the same.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                    ) => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a session's directory is left behind");
                    return None;
                }
            }
        }
        None
    }

    /// Removes a directory that was set aside, with all that is in it. Links in it are removed, not followed.
    pub fn remove(aside: &Path) {
        match removal::remove(aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %aside.display(), %error, "a session's directory is left behind");
            }
            _ => {}
        }
    }

    /// Removes what earlier hosts had set aside and not removed.
    pub fn remove_set_aside(&self) {
        let entries = self.run.iter().filter_map(|run| fs::read_dir(run).ok()).flatten().flatten();
        for entry in entries {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(ASIDE)) {
                Confinement::remove(&entry.path());
            }
        }
    }
}

/// A name that is a session's alone: everything but letters, digits, `-` and `_` by its hexadecimal number, so that
/// no name is special to the file system and no two sessions share one.
fn escape(session: &str) -> String {
    let mut name = String::new();
    for byte in session.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    name
}

fn directory(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|real| real.is_dir())
}

/// Whether no name below a root leads out of it on the way. A command that may write there could have put a link in
/// that place, so that the next one finds a root where it likes.
fn stays(path: &Path, roots: &[PathBuf]) -> bool {
    let (mut walked, mut above) = (PathBuf::new(), PathBuf::new());
    path.components().all(|part| {
        walked.push(part);
        // What is not there leads nowhere.
        let Ok(real) = fs::canonicalize(&walked) else { return true };
        let is_name = matches!(part, Component::Normal(_));
        let passed = |root: &&PathBuf| root.parent().is_some() && above.starts_with(root);
        let leaves = is_name && roots.iter().filter(passed).any(|root| !real.starts_with(root));
        above = real;
        !leaves
    })
}

/// The real path, also of what does not exist yet.
fn settle(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match found {
        Some((above, real)) => {
            // `components` leaves no slash behind where nothing is missing.
            real.join(path.strip_prefix(above).unwrap_or(Path::new(""))).components().collect()
        }
        None => path.to_owned(),
    }
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}
