//! Codecs import nothing: read from what was built, so that no build script can be wrong about it. Building is left to `components.rs`.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use wit_parser::{Resolve, WorldId, WorldKey};

use super::Complaint;

/// Checks every built component; nothing when none was built yet.
pub fn check(folder: &Path, complaints: &mut Vec<Complaint>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let mut paths = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("{} cannot be listed", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let bytes =
            fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        if let Some(says) = objection(&bytes) {
            complaints.push(Complaint::file(&path.display().to_string(), says));
        }
    }
    Ok(())
}

fn objection(bytes: &[u8]) -> Option<String> {
    match wit_component::decode(bytes) {
        Ok(wit_component::DecodedWasm::Component(resolve, world)) => {
            let imports = imports(&resolve, world);
            (!imports.is_empty())
                .then(|| format!("imports {}: a codec imports nothing, so that the same inputs give the same bytes", imports.join(", ")))
        }
        Ok(wit_component::DecodedWasm::WitPackage(..)) => {
            Some("is an encoded WIT package, not a component".to_owned())
        }
        Err(error) => Some(format!("is no component: {error:#}")),
    }
}

fn imports(resolve: &Resolve, world: WorldId) -> Vec<String> {
    let Some(world) = resolve.worlds.get(world) else { return Vec::new() };
    world
        .imports
        .keys()
        .map(|key| match key {
            WorldKey::Name(name) => name.clone(),
            WorldKey::Interface(id) => {
                resolve.id_of(*id).unwrap_or_else(|| "an unnamed interface".to_owned())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest component.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    /// A component that imports an interface of this name, one without functions.
    fn importing(name: &str) -> Vec<u8> {
        let length = u8::try_from(name.len()).expect("the name is short");
        let mut bytes = EMPTY.to_vec();
        // A section of types with one instance type, then a section of imports with one instance of it.
        bytes.extend([7, 3, 1, 0x42, 0]);
        bytes.extend([10, length + 5, 1, 0, length]);
        bytes.extend(name.as_bytes());
        bytes.extend([5, 0]);
        bytes
    }

    #[test]
    fn a_component_that_imports_nothing_is_a_codec() {
        assert_eq!(objection(EMPTY), None);
    }

    #[test]
    fn an_import_is_named() {
        assert_eq!(
            objection(&importing("test:test/clock")).as_deref(),
            Some(
                "imports test:test/clock: a codec imports nothing, so that the same inputs give the same bytes"
            )
        );
    }

    #[test]
    fn what_is_no_component_is_said_to_be_none() {
        assert!(
            objection(b"\0asm").expect("that is no component").starts_with("is no component: ")
        );
    }

    #[test]
    fn nothing_built_is_nothing_wrong_and_a_broken_file_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut complaints = Vec::new();
        check(&folder.path().join("components"), &mut complaints).expect("no folder is fine");
        fs::write(folder.path().join("sdk.wasm"), "text").expect("a file");
        fs::write(folder.path().join("sdk.txt"), "text").expect("a file");
        check(folder.path(), &mut complaints).expect("it can be listed");
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }
}
