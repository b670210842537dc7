//! Texts beside what is said of them, below `tests/messages`: for the tests of manifests, layers and locks.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder of `tests/messages`.
pub(crate) fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/messages").join(kind)
}

/// Everything in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Every TOML file of a folder, with its text.
pub(crate) fn messages(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let files = entries(&folder(kind)).into_iter().filter(is_toml);
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What is wrong where the file with another ending does not say what was found. `ACCEPT_MESSAGES=1` writes it there;
/// read the diff.
pub(crate) fn expected(path: &Path, ending: &str, found: &str) -> Option<String> {
    let beside = path.with_extension(ending);
    if std::env::var_os("ACCEPT_MESSAGES").is_some() {
        fs::write(&beside, found).unwrap();
    }
    let expected = fs::read_to_string(&beside)
        .unwrap_or_else(|error| panic!("{beside:?}: {error}; found:\n{found}"));
    (expected != found).then(|| format!("{beside:?}\nexpected:\n{expected}\nfound:\n{found}"))
}
