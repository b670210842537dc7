//! Files that are made whole or not at all (L-77).

use std::{fs, io::ErrorKind, os::unix::fs::PermissionsExt as _};

use tempfile::TempDir;

use super::{UNFINISHED, create};

#[test]
fn a_log_is_made_whole_and_once() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("--a--/x/session.jsonl");
    // What a process that was killed meanwhile has left.
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let unfinished = path.with_file_name(UNFINISHED);
    fs::write(&unfinished, "half").unwrap();

    create(root.path(), &path, b"first").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!unfinished.exists());

    let again = create(root.path(), &path, b"second").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert!(!unfinished.exists(), "what could not be linked does not stay");
}
