//! The environment as a value: read once, handed down.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Variables of the process and its working directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) variables: Vec<(String, String)>,
    /// Absolute.
    pub(crate) directory: PathBuf,
}

impl Environment {
    /// The process's own. Variables that are not UTF-8 are left out.
    pub(crate) fn of_process() -> std::io::Result<Environment> {
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(Environment { variables: variables.collect(), directory: env::current_dir()? })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A variable that counts as absent when it is blank.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }

    /// `path` against the working directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    fn under(&self, variable: &str, below_home: &str) -> PathBuf {
        let base = self.given(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| self.given("HOME").map(|home| Path::new(home).join(below_home)));
        base.unwrap_or_else(|| self.directory.join(".transom")).join("transom")
    }

    /// What outlives a run: the store.
    pub(crate) fn state_directory(&self) -> PathBuf {
        self.under("XDG_STATE_HOME", ".local/state")
    }

    /// What can be made again: compiled components.
    pub(crate) fn cache_directory(&self) -> PathBuf {
        self.under("XDG_CACHE_HOME", ".cache")
    }

    /// What lasts as long as the user is there: sockets.
    pub(crate) fn runtime_directory(&self) -> PathBuf {
        match self.given("XDG_RUNTIME_DIR") {
            Some(_) => self.under("XDG_RUNTIME_DIR", ""),
            None => self.state_directory().join("run"),
        }
    }
}
