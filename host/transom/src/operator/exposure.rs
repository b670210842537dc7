//! Whether sessions could write what says what they may do (P-34): then nothing is read again by itself, neither at a signal
//! nor because a file has changed. Whoever asks for a reload decides otherwise.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use anyhow::Context as _;
use serde_json::Value;
use transom_config::manifest::Manifest;
use transom_process::Confinement;

use super::HostOperator;

/// A file of the operator's that lies where a session may write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exposed {
    file: PathBuf,
    root: PathBuf,
    session: String,
}

impl HostOperator {
    /// SIGHUP: a reload, unless somebody else than the operator could have written what would be read. `None`: it was not
    /// done.
    pub(crate) async fn hangup(&self) -> anyhow::Result<Option<Value>> {
        let manifest = self.state.lock().await.manifest.clone();
        if self.is_exposed(&manifest).await? {
            return Ok(None);
        }
        self.reload().await.map(Some)
    }

    /// The same for whoever watches files. Where it cannot be found out, they could.
    pub(super) async fn may_be_exposed(&self) -> bool {
        let manifest = self.state.lock().await.manifest.clone();
        self.is_exposed(&manifest).await.unwrap_or_else(|error| {
            tracing::warn!(error = super::whole(&error), "nothing is swapped in by itself");
            true
        })
    }

    /// Whether a live session could have written a file of the operator's. It is said once.
    pub(super) async fn is_exposed(&self, manifest: &Manifest) -> anyhow::Result<bool> {
        let live = self.sessions().await?.sessions;
        let (files, confinement) = (self.origin.files(manifest), self.tooling.confinement());
        let directory = self.directory.clone();
        let found = tokio::task::spawn_blocking(move || {
            live.into_iter().find_map(|(session, works_in)| {
                let works_in = works_in.unwrap_or_else(|| directory.clone());
                exposed(&files, &confinement, &session, &works_in)
            })
        });
        let Some(Exposed { file, root, session }) =
            found.await.context("looking at files failed")?
        else {
            return Ok(false);
        };
        if !self.exposure_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                file = %file.display(),
                root = %root.display(),
                session,
                "a session may write where this file is, so nothing is read again by itself; `transom reload` reads it"
            );
        }
        Ok(true)
    }
}

/// The first of the files that lies below a writable root of a session.
fn exposed(
    files: &[PathBuf],
    confinement: &Confinement,
    session: &str,
    directory: &Path,
) -> Option<Exposed> {
    // A session whose directory is gone writes in the roots that all have.
    let places = confinement
        .places(session, directory)
        .or_else(|_| confinement.places(session, Path::new("/")).map(without_workspace));
    let roots = places.map(|places| places.roots).unwrap_or_default();
    files.iter().find_map(|file| {
        let real = real(file);
        let root = roots.iter().find(|root| real.starts_with(root))?;
        Some(Exposed { file: file.clone(), root: root.clone(), session: session.to_owned() })
    })
}

fn without_workspace(mut places: transom_process::Places) -> transom_process::Places {
    let workspace = places.workspace.clone();
    places.roots.retain(|root| *root != workspace);
    places
}

/// Where a file really is, or would be.
fn real(file: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(file) {
        return real;
    }
    match (file.parent().map(fs::canonicalize), file.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_exposed_where_a_session_may_write() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["work/deep", "own", "more"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        std::os::unix::fs::symlink(at("work"), at("link")).unwrap();
        // Not the shared ones: this place itself lies there.
        let confinement =
            Confinement { shared_temp: false, write: vec![at("more")], ..Confinement::default() };
        let check = |file: &str, found: Option<&str>| {
            let found = found.map(|root| fs::canonicalize(at(root)).unwrap());
            let exposed = exposed(&[at("own/x"), at(file)], &confinement, "s", &at("work"));
            assert_eq!(exposed.map(|exposed| exposed.root), found, "{file}");
        };
        check("own/transom.toml", None);
        check("workshop.toml", None);
        check("work/transom.toml", Some("work"));
        check("work/deep/policy.toml", Some("work"));
        check("link/transom.lock", Some("work"));
        check("more/policy.toml", Some("more"));
    }
}
