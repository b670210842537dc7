//! Compiled code that is kept: used while it is whole and ours, compiled again otherwise, never trusted on sight.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{Limits, LoadError, Sandbox, SandboxConfig, tests::*};

fn sandbox_with(folder: &Path) -> Result<Sandbox, LoadError> {
    Sandbox::new(SandboxConfig { cache_dir: Some(folder.to_owned()), ..SandboxConfig::default() })
}

/// Loads a guest by a new sandbox on this folder, and sees that it works.
fn load_with(folder: &Path, name: &str) {
    let component =
        sandbox_with(folder).unwrap().load(name, &guest(name), Limits::default()).unwrap();
    assert_eq!(say(&mut *open(&component), "hello").unwrap(), ["hello"]);
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// An entry is replaced, never written over, so another inode means that it was compiled again.
fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn what_was_compiled_once_is_loaded_from_then_on() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("deep/compiled");
    load_with(&folder, "mirrors");
    let [entry] = &entries(&folder)[..] else { panic!("{:?}", entries(&folder)) };
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(entry).unwrap().mode() & 0o777, 0o600);
    // Held open, so that its inode cannot be given to a new file.
    let (_held, first) = (fs::File::open(entry).unwrap(), inode(entry));

    load_with(&folder, "mirrors");
    assert_eq!(inode(entry), first, "found, not compiled");
    load_with(&folder, "spins");
    assert_eq!(entries(&folder).len(), 2, "another component has an entry of its own");
    assert_eq!(inode(entry), first);
}

#[test]
fn a_damaged_entry_is_compiled_again() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    load_with(&folder, "mirrors");
    let entry = entries(&folder).remove(0);
    let whole = fs::read(&entry).unwrap();

    let flip = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let last = whole.len() - 1;
    for (what, bytes) in [
        ("the layout", flip(0)),
        ("the digest", flip(20)),
        ("the header of the code", flip(60)),
        ("the middle", flip(whole.len() / 2)),
        ("the last byte", flip(last)),
        ("cut short", whole[..last].to_vec()),
        ("half of it", whole[..whole.len() / 2].to_vec()),
        ("cut in the header", whole[..20].to_vec()),
        ("empty", Vec::new()),
        ("longer", [&whole[..], b"x"].concat()),
    ] {
        fs::write(&entry, bytes).unwrap();
        let (_held, damaged) = (fs::File::open(&entry).unwrap(), inode(&entry));
        load_with(&folder, "mirrors");
        assert_ne!(inode(&entry), damaged, "{what}");
        assert_eq!(fs::read(&entry).unwrap().len(), whole.len(), "{what}");
    }
}

#[test]
fn an_entry_cannot_pass_for_another() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    load_with(&folder, "mirrors");
    let mirrors = entries(&folder).remove(0);
    load_with(&folder, "spins");
    let spins = entries(&folder).into_iter().find(|entry| *entry != mirrors).unwrap();

    fs::copy(&mirrors, &spins).unwrap();
    let (_held, copied) = (fs::File::open(&spins).unwrap(), inode(&spins));
    load_with(&folder, "spins");
    assert_ne!(inode(&spins), copied);
}

#[test]
fn an_entry_that_others_could_write_is_compiled_again() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    load_with(&folder, "mirrors");
    let entry = entries(&folder).remove(0);
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&entry, Permissions::from_mode(mode)).unwrap();
        let (_held, loose) = (fs::File::open(&entry).unwrap(), inode(&entry));
        load_with(&folder, "mirrors");
        assert_ne!(inode(&entry), loose, "{mode:o}");
    }
}

#[test]
fn a_folder_that_others_could_enter_is_refused() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    fs::create_dir(&folder).unwrap();
    for mode in [0o755, 0o770, 0o701, 0o777] {
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let Err(error) = sandbox_with(&folder) else { panic!("{mode:o}") };
        let said = error.to_string();
        assert!(
            said.contains(&format!("its mode is {mode:04o}")) && said.contains("0700 is right"),
            "{said}"
        );
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    assert!(sandbox_with(&folder).is_ok());
}

#[test]
fn a_link_in_the_place_of_the_folder_is_refused() {
    let home = TempDir::new().unwrap();
    let (folder, link) = (home.path().join("real"), home.path().join("link"));
    load_with(&folder, "mirrors");
    symlink(&folder, &link).unwrap();
    let Err(LoadError::Cache { problem, .. }) = sandbox_with(&link) else { panic!() };
    assert!(problem.contains("not a link"), "{problem}");
}

#[test]
fn a_folder_of_another_user_is_refused() {
    // Only root can make one.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    load_with(&folder, "mirrors");
    std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
    let Err(LoadError::Cache { problem, .. }) = sandbox_with(&folder) else { panic!() };
    assert_eq!(problem, "it belongs to user 12345, not to user 0");
}

#[test]
fn a_folder_that_cannot_be_made_is_done_without() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    load_with(&file.join("compiled"), "mirrors");
}

#[test]
fn what_is_refused_is_not_kept() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    let sandbox = sandbox_with(&folder).unwrap();
    for name in ["imports_clock", "wrong_types"] {
        assert!(sandbox.load(name, &guest(name), Limits::default()).is_err());
    }
    assert_eq!(entries(&folder), Vec::<PathBuf>::new());
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load_with(&folder, "mirrors"));
        }
    });
    assert_eq!(entries(&folder).len(), 1, "no unfinished file is left: {:?}", entries(&folder));
}
