//! Where a deployment would listen, as the file system is now: that no two share a place, however each writes it, and that
//! nothing but a socket is there. What manifests alone can tell is told by those who read them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use transom_config::manifest::{Carrier, Manifest};
use transom_io::unix;

use crate::environment::Environment;

/// What stands in the way of a start.
pub(super) fn complaints(manifest: &Manifest, environment: &Environment) -> Vec<String> {
    let mut listening: Vec<(String, &Path)> = Vec::new();
    for (name, door) in &manifest.doors {
        match &door.carrier {
            Carrier::Stdio => {}
            Carrier::Unix { listen } => listening.push((format!("[door.{name}]"), listen)),
        }
    }
    let control = manifest.control.listen.as_ref().filter(|_| !manifest.control.off);
    listening.extend(control.map(|listen| ("[control]".to_owned(), listen.as_path())));

    let mut complaints = Vec::new();
    let mut taken: BTreeMap<PathBuf, String> = BTreeMap::new();
    if let Some(path) = &manifest.store.path {
        taken.insert(real(&environment.absolute(path)), format!("the store at {}", path.display()));
    }
    for (who, listen) in listening {
        let path = environment.absolute(listen);
        if let Err(error) = unix::is_free(&path) {
            complaints.push(format!("{who}: {error}"));
        }
        let place = real(&path);
        let listen = listen.display();
        if let Some(other) = taken.get(&place) {
            complaints.push(format!(
                "{who} listens at {listen}, which is the place of {other}; give each its own path"
            ));
        }
        taken.entry(place).or_insert_with(|| format!("{who} at {listen}"));
    }
    complaints
}

/// The one path of a place: links and `..` on the way there are followed, as far as there is anything. The last name is
/// not, for whoever listens takes the name itself.
fn real(path: &Path) -> PathBuf {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let mut real = PathBuf::new();
    for part in parent.components() {
        match part {
            Component::ParentDir => _ = real.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                real.push(part);
                real = fs::canonicalize(&real).unwrap_or(real);
            }
        }
    }
    real.join(name)
}
