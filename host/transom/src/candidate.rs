//! A component before it is loaded: its bytes, read once, and what they are. Everything that is decided about it is
//! decided about these bytes, so that no file can change between being checked and being compiled.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};
use transom_config::lock::Digest;
use transom_sandbox::Inspection;

use crate::{
    embedded,
    environment::{COMPONENT_BYTES_MAX, read_bounded},
};

/// What a lock names as the source of a component that is part of the program.
pub(crate) const BUILT_IN: &str = "built-in";

/// What a lock names as the version of a component that says none.
const UNVERSIONED: &str = "unversioned";

/// A component that may be loaded, or may not.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Its name in the manifest.
    pub(crate) name: String,
    /// `None`: it is part of the program.
    pub(crate) file: Option<PathBuf>,
    pub(crate) bytes: Cow<'static, [u8]>,
    pub(crate) digest: Digest,
    /// What the file is. `Err`: no component at all.
    pub(crate) inspection: Result<Inspection, String>,
}

impl Candidate {
    /// Reads a component from its file, or from the program where the manifest names none.
    pub(crate) fn read(name: &str, file: Option<&Path>) -> anyhow::Result<Candidate> {
        let bytes = match file {
            Some(file) => {
                Cow::Owned(read_bounded(file, COMPONENT_BYTES_MAX).with_context(|| {
                    format!("cannot read component `{name}` from {}", file.display())
                })?)
            }
            None => match embedded::component(name) {
                Some(bytes) => Cow::Borrowed(bytes),
                None => bail!(
                    "component `{name}` is not part of this program; describe it in [component.{name}]"
                ),
            },
        };
        let digest = Digest(Sha256::digest(&bytes).into());
        let inspection = transom_sandbox::inspect(&bytes).map_err(|error| error.to_string());
        Ok(Candidate {
            name: name.to_owned(),
            file: file.map(Path::to_owned),
            bytes,
            digest,
            inspection,
        })
    }

    /// The version that it says it is.
    pub(crate) fn version(&self) -> Option<&str> {
        self.inspection.as_ref().ok().and_then(|found| found.version.as_deref())
    }

    /// The same as a lock writes it.
    pub(crate) fn version_text(&self) -> &str {
        self.version().unwrap_or(UNVERSIONED)
    }

    /// Name and version, for logs.
    pub(crate) fn title(&self) -> String {
        match self.version() {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.clone(),
        }
    }

    /// The component as complaints call it.
    pub(crate) fn shown(&self) -> String {
        match &self.file {
            Some(file) => format!("component `{}` from {}", self.name, file.display()),
            None => format!("built-in component `{}`", self.name),
        }
    }
}
