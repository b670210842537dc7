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

    /// What outlives a run: the store, the sockets of the built-in manifest.
    pub(crate) fn state_directory(&self) -> PathBuf {
        let variables = self.variables.iter().cloned().collect();
        transom_config::manifest::state_directory(&variables)
            .unwrap_or_else(|| self.directory.join(".transom"))
    }

    /// What can be made again: compiled components.
    pub(crate) fn cache_directory(&self) -> PathBuf {
        let absolute = |name| self.given(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base =
            absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        base.map_or_else(|| self.directory.join(".transom/cache"), |base| base.join("transom"))
    }
}
