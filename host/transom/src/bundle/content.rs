//! What a manifest says once the files of bundles in it are called by what is in them: each unpacking lies elsewhere, and a
//! deployment that was only unpacked again is the same. Comparing is left to the operator's reload.

use std::{path::PathBuf, sync::Arc};

use transom_config::manifest::Manifest;

use super::Unpacked;

/// A manifest in which files of these bundles are called by what is in them. To compare, not to run.
pub(crate) fn by_content(manifest: &Manifest, unpacked: &[Arc<Unpacked>]) -> Manifest {
    let mut manifest = manifest.clone();
    for path in paths(&mut manifest) {
        if let Some(name) = unpacked.iter().find_map(|bundle| bundle.by_content(path)) {
            *path = name;
        }
    }
    manifest
}

impl Unpacked {
    /// Whether a manifest names files of this unpacking.
    pub(crate) fn has_files_of(&self, manifest: &Manifest) -> bool {
        paths(&mut manifest.clone()).any(|path| self.by_content(path).is_some())
    }
}

/// The files of a manifest that a bundle can hold.
fn paths(manifest: &mut Manifest) -> impl Iterator<Item = &mut PathBuf> {
    let components = manifest.components.values_mut();
    let components = components
        .flat_map(|component| [&mut component.source].into_iter().chain(&mut component.policy));
    let doors = manifest.doors.values_mut().filter_map(|door| door.policy.as_mut());
    let kinds = manifest.subagents.values_mut().filter_map(|kind| kind.persona_file.as_mut());
    components.chain(doors).chain(kinds).chain(&mut manifest.model.script)
}
