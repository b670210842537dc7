//! Where things lie in this checkout: its root, its build directory, what was built. Building is left to the tasks.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The optimisation a host binary is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Profile::Dev => "debug",
            Profile::Release => "release",
        }
    }
}

/// One checkout.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub root: PathBuf,
    pub target: PathBuf,
}

impl Workspace {
    /// The checkout this program was built from, as Cargo names it when it runs the program.
    pub fn here() -> Result<Workspace> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask lies in no workspace")?.to_owned();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => env::current_dir()?.join(folder),
            None => root.join("target"),
        };
        Ok(Workspace { root, target })
    }

    /// Cargo, at the root of the checkout, as the toolchain file wants it.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        // Cargo says these about xtask; a build started from here must not take them for its own.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_")
                || text.starts_with("CARGO_MANIFEST_")
                || text == "CARGO_BIN_NAME"
            {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The host program of one profile, whether or not it was built.
    pub fn host(&self, profile: Profile) -> PathBuf {
        self.target.join(profile.folder()).join("transom")
    }

    /// Where built components lie, each under the name of its door. They are the same for every build directory of the host.
    pub fn components(&self) -> PathBuf {
        self.root.join("target/components")
    }

    /// A path as one would type it at the root of the checkout.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Runs a command to its end with its output in sight, and says which one failed.
pub fn perform(command: &mut Command) -> Result<()> {
    let line = spelled(command);
    let status = command.status().with_context(|| format!("`{line}` cannot be started"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// A command as a person would type it.
pub fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
