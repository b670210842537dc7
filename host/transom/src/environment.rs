//! The environment as a value: read once, handed down.

use std::{
    env, fmt,
    fs::OpenOptions,
    io::{self, IsTerminal as _, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// Bytes of a manifest, policy, script or launch configuration: thousands of times what people write.
pub(crate) const CONFIGURATION_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a component; the sandbox refuses smaller ones by its own limit.
pub(crate) const COMPONENT_BYTES_MAX: u64 = 256 << 20;

/// Variables of the process and its working directory.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) variables: Vec<(String, String)>,
    /// Absolute.
    pub(crate) directory: PathBuf,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: values may be secrets.
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("directory", &self.directory)
            .finish()
    }
}

impl Environment {
    /// The process's own. Variables that are not UTF-8 are left out.
    pub(crate) fn of_process() -> anyhow::Result<Environment> {
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(Environment {
            variables: variables.collect(),
            directory: env::current_dir().context("cannot find the working directory")?,
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A variable that counts as absent when it is blank.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }

    /// Whether standard error takes colours.
    pub(crate) fn wants_colour(&self) -> bool {
        io::stderr().is_terminal() && self.get("NO_COLOR").is_none_or(str::is_empty)
    }

    /// `path` against the working directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// What outlives a run: the store, the sockets of the built-in manifest.
    pub(crate) fn state_directory(&self) -> anyhow::Result<PathBuf> {
        if let Some(set) = self.given("TRANSOM_STATE_DIR")
            && !Path::new(set).is_absolute()
        {
            bail!("TRANSOM_STATE_DIR={set:?} is relative; right would be an absolute path");
        }
        let variables = self.variables.iter().cloned().collect();
        transom_config::manifest::state_directory(&variables).context(
            "there is no place for the store and the sockets: set TRANSOM_STATE_DIR, or HOME, to an absolute path",
        )
    }

    /// What can be made again: compiled components. `None`: nowhere.
    pub(crate) fn cache_directory(&self) -> Option<PathBuf> {
        let absolute = |name| self.given(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        Some(base?.join("transom"))
    }
}

/// Reads a file of the operator's, of at most `bytes_max`. A pipe that nobody writes to must not hold up the reader, nor
/// a device that never ends fill the memory.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!(
            "it has more than {bytes_max} bytes, which is all that is read"
        )));
    }
    Ok(bytes)
}

/// The same for text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bounded(path, CONFIGURATION_BYTES_MAX)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{Environment, read_bounded};

    #[test]
    fn only_plain_files_are_read() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), place.path(), "/dev/zero".as_ref()] {
            assert_eq!(read_bounded(path, 10).unwrap_err().to_string(), "it is no plain file");
        }
        let file = place.path().join("file");
        std::fs::write(&file, "0123456789").unwrap();
        assert_eq!(read_bounded(&file, 10).unwrap(), b"0123456789");
        let why = "it has more than 9 bytes, which is all that is read";
        assert_eq!(read_bounded(&file, 9).unwrap_err().to_string(), why);
    }

    #[test]
    fn an_environment_shows_names_and_no_values() {
        let environment = Environment {
            variables: vec![("DEEPSEEK_API_KEY".to_owned(), "hunter2".to_owned())],
            directory: "/here".into(),
        };
        let shown = format!("{environment:?}");
        assert!(shown.contains("DEEPSEEK_API_KEY") && !shown.contains("hunter2"), "{shown}");
    }
}
