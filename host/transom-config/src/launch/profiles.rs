//! Form B: the profiles `acp`, `sdk` and `sdk-minimal`, and patches on them (S-204, S-208).
//! Rows and package names are the reference's, so that patches written for it find their rows.

use std::path::{Path, PathBuf};

use super::{
    Launch, LaunchError, Layout, PermissionMode, ReadError, Surroundings, arguments::UsageError,
    compose, entries, permission_mode, read, unheeded,
};
use crate::error::ConfigErrors;

/// Names of the profiles.
pub(super) const PROFILES: &[&str] = &["acp", "sdk", "sdk-minimal"];

const ACP: &str = include_str!("profiles/acp.yml");
const SDK: &str = include_str!("profiles/sdk.yml");
const SDK_MINIMAL: &str = include_str!("profiles/sdk-minimal.yml");

/// What a profile's directory and the home call their patches.
const PATCH_FILE: &str = "cordis.patch.yml";

pub(super) fn launch(
    name: &'static str,
    patches: &[String],
    surroundings: Surroundings<'_>,
) -> Result<Launch, LaunchError> {
    let home = home(surroundings)?;
    let wanted = permission_mode(surroundings.environment)?;
    let mode = wanted.unwrap_or(PermissionMode::WorkspaceWrite);
    let text = match name {
        "acp" => ACP,
        "sdk" => SDK,
        _ => SDK_MINIMAL,
    };
    let mut entries = entries::entries(Path::new(name), text)?;

    // The user's own layers, the profile's before that of all profiles; then those of this command line.
    for path in [home.join("profiles").join(name).join(PATCH_FILE), home.join(PATCH_FILE)] {
        match read(&path, surroundings) {
            Ok(text) => entries::patch(&mut entries, &path, &text)?,
            Err(ReadError::Missing) => {}
            Err(ReadError::Config(errors)) => return Err(errors.into()),
        }
    }
    for patch in patches {
        let path = surroundings.directory.join(patch);
        match read(&path, surroundings) {
            Ok(text) => entries::patch(&mut entries, &path, &text)?,
            Err(ReadError::Missing) => {
                return Err(
                    ConfigErrors::whole(&path, "the patch does not exist".to_owned()).into()
                );
            }
            Err(ReadError::Config(errors)) => return Err(errors.into()),
        }
    }

    telemetry(surroundings)?;
    let composition = format!("profile {name}");
    let layout = Layout::FormB { home: &home, mode };
    let mut launch = compose::compose(&composition, &entries, surroundings, layout)?;
    unheeded(&mut launch, wanted);
    Ok(launch)
}

/// `DSH_HOME`, else `~/.dsh`; below the process directory if it is relative.
fn home(surroundings: Surroundings<'_>) -> Result<PathBuf, LaunchError> {
    let variable =
        |name: &str| surroundings.environment.get(name).filter(|value| !value.trim().is_empty());
    match (variable("DSH_HOME"), variable("HOME")) {
        (Some(home), _) => Ok(surroundings.directory.join(home)),
        (None, Some(home)) => Ok(surroundings.directory.join(home).join(".dsh")),
        (None, None) => Err(UsageError::new(
            "neither DSH_HOME nor HOME is set; set DSH_HOME to a directory".to_owned(),
        )
        .into()),
    }
}

/// Nothing is ever sent, but a wrong wish is still a wrong wish.
fn telemetry(surroundings: Surroundings<'_>) -> Result<(), LaunchError> {
    match surroundings.environment.get("DSH_TELEMETRY_MODE").map(String::as_str) {
        None | Some("" | "FEEDBACK_ONLY" | "DISABLED") => Ok(()),
        Some(mode) => Err(UsageError::new(format!(
            "DSH_TELEMETRY_MODE is {mode:?}; it must be FEEDBACK_ONLY or DISABLED"
        ))
        .into()),
    }
}
