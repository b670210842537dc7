//! Lists of places (P-44 to P-46), made of real directories.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use super::Confinement;

/// A directory of canonical name, with some in it.
fn ground(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(home.path()).unwrap();
    for name in names {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    (home, root)
}

fn real(path: &str) -> PathBuf {
    fs::canonicalize(path).unwrap()
}

#[test]
fn p_44_roots_are_canonical_the_workspace_first() {
    let (_home, root) = ground(&["work/sub", "data", "tmp"]);
    symlink("work", root.join("link")).unwrap();
    symlink("data", root.join("z")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let mut confinement = Confinement {
        temp: Some(root.join("tmp")),
        write: vec![
            root.join("z"),
            root.join("data"),
            "sub".into(),
            root.join("none"),
            root.join("file"),
        ],
        ..Confinement::default()
    };
    let places = confinement.places("s", &root.join("link")).unwrap();
    assert_eq!(places.workspace, root.join("work"));
    let mut expected = vec![
        real("/tmp"),
        real("/dev/shm"),
        root.join("data"),
        root.join("tmp"),
        root.join("work/sub"),
    ];
    expected.sort();
    expected.insert(0, root.join("work"));
    assert_eq!(places.roots, expected);
    assert_eq!(places.absent, [root.join("file"), root.join("none")]);

    // The same by another way is the same.
    assert_eq!(confinement.places("s", &root.join("z/../work/sub/..")).unwrap(), places);

    confinement.shared_temp = false;
    confinement.write.clear();
    let places = confinement.places("s", &root.join("work")).unwrap();
    assert_eq!(places.roots, [root.join("work"), real("/dev/shm")]);
    for name in ["none", "file"] {
        assert!(confinement.places("s", &root.join(name)).is_err(), "{name}");
    }
}

#[test]
fn p_45_secrets_are_listed_where_they_exist_and_are_not_shown() {
    let (_home, root) =
        ground(&["user/.ssh", "user/.kube", "user/.config/gcloud", "user/letters", "real"]);
    symlink("../real", root.join("user/.aws")).unwrap();
    fs::write(root.join("user/.netrc"), "").unwrap();
    let user = root.join("user");
    let confinement = Confinement {
        user_home: Some(user.clone()),
        hide: vec!["letters".into(), root.join("real"), "none".into()],
        show: vec![user.join(".kube"), "none".into()],
        ..Confinement::default()
    };
    let places = confinement.places("s", &root).unwrap();
    let expected = [".config/gcloud", ".netrc", ".ssh", "letters"].map(|name| user.join(name));
    assert_eq!(places.secrets, [&[root.join("real")], expected.as_slice()].concat());
    let nobody = Confinement { hide: vec![root.join("real")], ..Confinement::default() };
    assert_eq!(nobody.places("s", &root).unwrap().secrets, [root.join("real")]);
}

#[test]
fn what_is_private_or_guarded_is_covered_before_it_exists() {
    let (_home, root) = ground(&["work", "host"]);
    symlink("host", root.join("home")).unwrap();
    let confinement = Confinement {
        private: vec![root.join("home/store/db"), root.join("home"), root.join("host")],
        guard: vec!["transom.toml".into(), root.join("home/rules")],
        ..Confinement::default()
    };
    let places = confinement.places("s", &root.join("work")).unwrap();
    assert_eq!(places.private, [root.join("host"), root.join("host/store/db")]);
    assert_eq!(places.guarded, [root.join("host/rules"), root.join("work/transom.toml")]);
    assert!(places.guard_git);
}

#[test]
fn a_session_has_a_directory_of_its_own() {
    let (_home, root) = ground(&["work"]);
    let confinement = Confinement { run: Some(root.join("host/run")), ..Confinement::default() };
    assert_eq!(confinement.places("s", &root.join("work")).unwrap().own, None);
    let own = confinement.make_own("s").unwrap().unwrap();
    assert_eq!(own, root.join("host/run/s"));
    for path in [own.clone(), root.join("host/run")] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    }
    // Made once, kept, and private again.
    fs::write(own.join("kept"), "").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(confinement.make_own("s").unwrap(), Some(own.clone()));
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(own.join("kept").exists());

    let places = confinement.places("s", &root.join("work")).unwrap();
    assert_eq!(places.own, Some(own.clone()));
    assert!(places.roots.contains(&own));
    assert!(!confinement.places("t", &root.join("work")).unwrap().roots.contains(&own));

    symlink(root.join("work"), own.join("link")).unwrap();
    // P-44: a session that comes back at once has a new one, whatever becomes of the old.
    let aside = confinement.set_aside("s").unwrap();
    assert!(!own.exists());
    fs::write(confinement.make_own("s").unwrap().unwrap().join("new"), "new").unwrap();
    Confinement::remove(&aside);
    assert!(!aside.exists() && root.join("work").exists() && own.join("new").exists());
    // What was not removed is by the next host, and nothing else is.
    let left = confinement.set_aside("s").unwrap();
    let kept = confinement.make_own("s").unwrap().unwrap();
    confinement.remove_set_aside();
    assert!(!left.exists() && kept.exists());
    Confinement::remove(&confinement.set_aside("s").unwrap());
    assert_eq!(confinement.set_aside("s"), None);
    assert_eq!(Confinement::default().make_own("s").unwrap(), None);
}

#[test]
fn no_session_can_name_the_directory_of_another() {
    let confinement = Confinement { run: Some("/run/t".into()), ..Confinement::default() };
    let table = [
        ("01J-a_Z", Some("/run/t/01J-a_Z")),
        (".", Some("/run/t/%2e")),
        ("..", Some("/run/t/%2e%2e")),
        ("a/../b", Some("/run/t/a%2f%2e%2e%2fb")),
        ("%2e", Some("/run/t/%252e")),
        ("é", Some("/run/t/%c3%a9")),
        ("", None),
    ];
    for (session, expected) in table {
        let found = confinement.own_directory(session);
        assert_eq!(found.as_deref(), expected.map(Path::new), "{session}");
    }
    assert!(confinement.own_directory(&"a".repeat(255)).is_some());
    assert_eq!(confinement.own_directory(&".".repeat(86)), None);
    assert!(confinement.make_own("").is_err());
}

#[test]
fn a_link_in_the_place_of_a_sessions_directory_is_refused() {
    let (_home, root) = ground(&["work", "run"]);
    let confinement = Confinement { run: Some(root.join("run")), ..Confinement::default() };
    symlink(root.join("work"), root.join("run/s")).unwrap();
    let error = confinement.make_own("s").unwrap_err();
    assert!(error.to_string().contains("is not a directory of this host's user"), "{error}");
}

#[test]
fn a_root_that_a_command_could_replace_by_a_link_stays_where_it_is() {
    // P-44, P-47: what is writable is decided by the operator, not by what an earlier command left behind.
    let (_home, root) =
        ground(&["work/sub", "work/deep/sub", "outside/sub", "data", "more", "outside/more"]);
    let confinement = Confinement {
        shared_temp: false,
        write: vec!["sub".into(), "deep/sub".into(), "../data".into(), "sub/../../more".into()],
        temp: None,
        ..Confinement::default()
    };
    let roots = |confinement: &Confinement| confinement.places("s", &root.join("work")).unwrap();
    let before = roots(&confinement);
    for kept in ["work/sub", "work/deep/sub", "data", "more"] {
        assert!(before.roots.contains(&root.join(kept)), "{kept}: {before:?}");
    }

    fs::remove_dir(root.join("work/sub")).unwrap();
    symlink(root.join("outside"), root.join("work/sub")).unwrap();
    fs::rename(root.join("work/deep"), root.join("work/other")).unwrap();
    symlink(root.join("outside"), root.join("work/deep")).unwrap();
    let places = roots(&confinement);
    assert_eq!(places.roots, [root.join("work"), real("/dev/shm"), root.join("data")]);
    let absent = ["work/deep/sub", "work/sub", "work/sub/../../more"].map(|path| root.join(path));
    assert_eq!(places.absent, absent);

    // The platform's temporary directory is no better if it lies in a root.
    let confinement = Confinement { temp: Some(root.join("work/sub")), ..confinement };
    let confinement = Confinement { shared_temp: true, ..confinement };
    assert!(!roots(&confinement).roots.contains(&root.join("outside")));
}

#[test]
fn a_workspace_that_a_command_has_replaced_by_a_link_is_none() {
    // P-5, P-47: a session that is continued works where it stood, or not at all.
    let (_home, root) = ground(&["yard/work", "outside"]);
    let confinement = Confinement {
        shared_temp: false,
        write: vec![root.join("yard")],
        ..Confinement::default()
    };
    let asked = root.join("yard/work");
    assert_eq!(confinement.places("s", &asked).unwrap().workspace, asked);
    fs::rename(&asked, root.join("yard/other")).unwrap();
    symlink(root.join("outside"), &asked).unwrap();
    let error = confinement.places("s", &asked).unwrap_err().to_string();
    assert!(error.contains("leads out of there"), "{error}");

    // A link that no command could have left is nobody's trick.
    symlink(root.join("outside"), root.join("link")).unwrap();
    let places = confinement.places("s", &root.join("link")).unwrap();
    assert_eq!(places.workspace, root.join("outside"));
}

#[test]
fn a_sessions_directory_goes_however_deep_it_is() {
    // P-44: a command can nest directories until whoever removes them recursively has no stack left.
    const DEPTH: usize = 30_000;
    let (_home, root) = ground(&["outside"]);
    fs::write(root.join("outside/file"), "kept").unwrap();
    let confinement = Confinement { run: Some(root.join("run")), ..Confinement::default() };
    let own = confinement.make_own("s").unwrap().unwrap();
    symlink(root.join("outside"), own.join("link")).unwrap();
    fs::write(own.join(".removed-1"), "in the way").unwrap();
    fs::create_dir_all(own.join("wide/a/b")).unwrap();
    fs::write(own.join("wide/a/file"), "").unwrap();
    let script = format!(
        "import os\nfor i in range({DEPTH}):\n    os.mkdir('d'); here = os.open('d', os.O_RDONLY); os.fchdir(here); os.close(here)"
    );
    let made =
        std::process::Command::new("python3").args(["-c", &script]).current_dir(&own).status();
    assert!(made.unwrap().success());

    Confinement::remove(&confinement.set_aside("s").unwrap());
    assert!(!own.exists());
    assert_eq!(fs::read_to_string(root.join("outside/file")).unwrap(), "kept");
}
