//! The lock beside a manifest, and whether a component may be loaded: first its digest, then its signature, both before
//! anything of it is compiled (decision 59). Writing the lock is `pin.rs`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use transom_config::{
    ConfigErrors,
    lock::{Lock, PinError},
};
use transom_policy::Trust;

use crate::{
    candidate::Candidate,
    environment::{CONFIGURATION_BYTES_MAX, read_bounded},
    signature::{self, Signed},
};

/// The lock's name.
pub(crate) const LOCK: &str = "transom.lock";

/// What a deployment's components are held to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pins {
    lock: Option<Arc<(PathBuf, Lock)>>,
    /// Every component must be in the lock.
    complete: bool,
    /// The manifests beside which it lies, where it can have changed since it was read.
    manifests: Vec<PathBuf>,
}

/// What the lock makes of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pinned {
    /// There is no lock.
    NoLock,
    /// The lock does not name it.
    Unpinned,
    /// It is what the lock wants.
    Matches,
}

/// Where the lock of these manifests lies: beside the last one.
pub(crate) fn beside(manifests: &[PathBuf]) -> Option<PathBuf> {
    Some(manifests.last()?.parent().unwrap_or(Path::new("")).join(LOCK))
}

/// Reads a lock. `None`: there is none.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Lock>> {
    match read_bounded(path, CONFIGURATION_BYTES_MAX) {
        Ok(bytes) => Ok(Some(Lock::parse(path, &bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigErrors::unreadable(path, &error).into()),
    }
}

impl Pins {
    /// The pins of a deployment; `locked` demands that there are some.
    pub(crate) fn of(manifests: &[PathBuf], locked: bool) -> anyhow::Result<Pins> {
        let Some(path) = beside(manifests) else {
            if locked {
                bail!(
                    "`--locked` needs a manifest with a lock beside it; name one with `--manifest`"
                );
            }
            return Ok(Pins::default());
        };
        let lock = read(&path)?;
        if locked && lock.is_none() {
            bail!(
                "there is no {}, and `--locked` demands one; write it with `transom pin{}`",
                path.display(),
                arguments(manifests)
            );
        }
        Ok(Pins {
            lock: lock.map(|lock| Arc::new((path, lock))),
            complete: locked,
            manifests: manifests.to_owned(),
        })
    }

    /// Those of a lock that must name every component.
    pub(crate) fn complete(path: PathBuf, lock: Lock) -> Pins {
        Pins { lock: Some(Arc::new((path, lock))), complete: true, manifests: Vec::new() }
    }

    /// The pins as they are now, for a version that comes to a running host. A lock that was there stays needed.
    pub(crate) fn current(&self) -> anyhow::Result<Pins> {
        if self.manifests.is_empty() {
            return Ok(self.clone());
        }
        let current = Pins::of(&self.manifests, self.complete)?;
        if let (Some((path, _)), None) = (self.lock(), current.lock()) {
            bail!(
                "there is no {} any more, with which this host was started; write it with `transom pin{}`",
                path.display(),
                arguments(&self.manifests)
            );
        }
        Ok(current)
    }

    /// Those that hold once the deployment was read again as one with the pins `read`: a bundle has brought its own. A lock
    /// beside manifests is read again for each version anyway.
    pub(crate) fn after(&self, read: &Pins) -> Pins {
        if read.manifests.is_empty() { read.clone() } else { self.clone() }
    }

    /// The lock and its file.
    pub(crate) fn lock(&self) -> Option<(&Path, &Lock)> {
        self.lock.as_deref().map(|(path, lock)| (path.as_path(), lock))
    }

    /// Refuses a component that is not what the lock wants.
    pub(crate) fn check(&self, candidate: &Candidate) -> anyhow::Result<Pinned> {
        let Some((path, lock)) = self.lock() else { return Ok(Pinned::NoLock) };
        match lock.check(&candidate.name, &candidate.digest, candidate.version()) {
            Ok(()) => Ok(Pinned::Matches),
            Err(PinError::Unknown { .. }) if !self.complete => Ok(Pinned::Unpinned),
            Err(PinError::Unknown { name }) => bail!(
                "{}: component `{name}` ({}) is not in the lock; if it belongs to this deployment, run `transom pin`",
                path.display(),
                candidate.digest
            ),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Refuses a component that is not what the lock wants, or that its policy does not trust.
    pub(crate) fn admit(&self, candidate: &Candidate, trust: &Trust) -> anyhow::Result<Signed> {
        if self.check(candidate)? == Pinned::Unpinned {
            let digest = candidate.digest.to_string();
            tracing::warn!(component = candidate.name, digest, "component is not in the lock");
        }
        signature::verify(candidate, trust)
    }
}

/// The arguments that name these manifests again, for commands that complaints propose.
pub(crate) fn arguments(manifests: &[PathBuf]) -> String {
    manifests.iter().map(|file| format!(" --manifest {}", file.display())).collect()
}
