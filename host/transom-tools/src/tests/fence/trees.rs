//! Trees that are hard to walk: deep, unreadable, misspelt, and made to block whoever looks.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::Dir};
use ignore::WalkBuilder;
use nix::{
    sys::stat::Mode as Bits,
    unistd::{Uid, geteuid, mkfifo, setfsuid},
};
use serde_json::json;

use super::{Yard, assert_ok, failure, plain};
use crate::{
    fence::Refusal,
    files::{self, Verb},
    search::{Place, Skip},
};

#[tokio::test]
async fn trees_deeper_than_a_path_are_searched_to_the_bottom() {
    let yard = Yard::new();
    // 200 names of 30 bytes are longer than any path the system takes.
    let name = "d".repeat(30);
    let mut directory = Dir::open_ambient_dir(yard.path("work"), ambient_authority()).unwrap();
    for level in 0..200 {
        directory.create_dir(&name).unwrap();
        directory = directory.open_dir(&name).unwrap();
        directory.write("after", format!("needle {level}\n")).unwrap();
    }
    let bottom: PathBuf = std::iter::repeat_n(name.as_str(), 200).collect();
    let told = yard.glob(".", "after").await;
    assert_eq!(told.lines().next().map(|line| line.starts_with(&yard.shown("work"))), Some(true));
    assert!(told.ends_with("(Showing 100 of 200 files. Use a narrower pattern or path.)"));
    let told = yard.grep(".", "needle 199").await;
    let path = yard.path("work").join(&bottom).join("after");
    assert_eq!(told, format!("Found 1 match\n\n{}\n  1: needle 199", path.display()));

    // Where the system gives up, so do we, and say so.
    let (told, _) = failure(&yard.read(&bottom.join("after").display().to_string()).await);
    assert!(told.contains("File name too long"), "{told}");
}

#[tokio::test]
async fn deep_directories_are_made_and_read() {
    let yard = Yard::new();
    let path: PathBuf = std::iter::repeat_n("d", 500).collect();
    let path = path.join("f").display().to_string();
    assert_ok(&yard.write(&path, "deep").await);
    assert_ok(&yard.read(&path).await);
    assert_ok(&yard.edit(&path, "deep", "deeper").await);
    assert_eq!(yard.content(&format!("work/{path}")), "deeper");
}

#[tokio::test]
async fn names_that_are_not_text_are_found_and_said_to_be_out_of_reach() {
    let yard = Yard::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(yard.path("work").join(name)).unwrap();
    fs::write(yard.path("work").join(name).join("f"), "needle").unwrap();
    symlink(name, yard.path("work/link")).unwrap();
    let shown = yard.shown("work/caf\u{FFFD}/f");
    assert_eq!(yard.glob(".", "f").await, shown);
    assert_eq!(yard.grep(".", "needle").await, format!("Found 1 match\n\n{shown}\n  1: needle"));
    let expected = format!(
        "cannot read \"{shown}\": not found (a name that is not UTF-8 can only be used from a shell)"
    );
    assert_eq!(failure(&yard.read(&shown).await), plain(expected));
    // By a link it can be reached.
    assert_ok(&yard.read("link/f").await);
    assert_ok(&yard.edit("link/f", "needle", "thread").await);
    assert_eq!(fs::read(yard.path("work").join(name).join("f")).unwrap(), b"thread");
}

#[tokio::test]
async fn ignore_files_that_would_block_or_never_end_do_not() {
    let yard = Yard::new();
    fs::create_dir_all(yard.path("work/.git/info")).unwrap();
    yard.put("work/a", "needle");
    yard.put("work/sub/b", "needle");
    for name in ["work/.gitignore", "work/.git/info/exclude", "work/sub/.ignore"] {
        mkfifo(&yard.path(name), Bits::S_IRWXU).unwrap();
    }
    symlink("/dev/zero", yard.path("work/.ignore")).unwrap();
    symlink("/proc/self/environ", yard.path("work/sub/.gitignore")).unwrap();
    let told = yard.grep(".", "needle").await;
    assert!(told.starts_with("Found 2 matches\n"), "{told}");
}

/// The walk of the `ignore` crate, which knows all about ignore files, and ours.
fn compare(yard: &Yard, place: &Path) {
    let mut builder = WalkBuilder::new(place);
    builder.standard_filters(false).parents(true).ignore(true).git_ignore(true).git_exclude(true);
    builder.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    let expected: BTreeSet<PathBuf> = builder
        .build()
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| entry.into_path())
        .collect();
    let call = yard.request(json!({ "path": place.display().to_string() }));
    let searched = Place::of(&call, &yard.files).unwrap();
    let found: Vec<PathBuf> =
        searched.files(&call.abort, None, Skip::Ignored).unwrap().map(|found| found.path).collect();
    let sorted: BTreeSet<PathBuf> = found.iter().cloned().collect();
    assert_eq!(sorted, expected, "below {}", place.display());
    assert_eq!(sorted.len(), found.len());
}

#[test]
fn ignore_files_mean_what_they_mean_elsewhere() {
    let yard = Yard::new();
    let table = [
        ("work/.ignore", "*.tmp\n!keep.tmp\n"),
        ("work/top.tmp", ""),
        ("work/repo/.git/info/exclude", "secret*\n"),
        (
            "work/repo/.gitignore",
            "\u{FEFF}target/\n*.log\n!keep.log\n# comment\n/only-here\n\\#odd\n[bad\n",
        ),
        ("work/repo/.ignore", "!top.log\n"),
        ("work/repo/top.log", ""),
        ("work/repo/a.log", ""),
        ("work/repo/keep.log", ""),
        ("work/repo/keep.tmp", ""),
        ("work/repo/x.tmp", ""),
        ("work/repo/only-here", ""),
        ("work/repo/#odd", ""),
        ("work/repo/secret.txt", ""),
        ("work/repo/target/out", ""),
        ("work/repo/src/target/out", ""),
        ("work/repo/src/only-here", ""),
        ("work/repo/src/.gitignore", "!a.log\r\nsub/**/deep\r\n"),
        ("work/repo/src/a.log", ""),
        ("work/repo/src/b.log", ""),
        ("work/repo/src/sub/x/deep", ""),
        ("work/repo/src/sub/x/shallow", ""),
        ("work/repo/inner/.git/HEAD", ""),
        ("work/repo/inner/a.log", ""),
        ("work/repo/inner/a.tmp", ""),
        ("work/plain/.gitignore", "*.log\n"),
        ("work/plain/a.log", ""),
    ];
    for (name, content) in table {
        yard.put(name, content);
    }
    for place in [
        "work",
        "work/repo",
        "work/repo/src",
        "work/repo/src/sub",
        "work/repo/inner",
        "work/plain",
        "work/repo/target",
    ] {
        compare(&yard, &yard.path(place));
    }
}

/// Runs with the rights of a user who owns nothing here. Rights on files belong to a thread.
fn as_stranger(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            if geteuid().is_root() {
                setfsuid(Uid::from_raw(65_534));
            }
            work();
        });
        worker.join().unwrap();
    });
}

#[test]
fn what_may_not_be_looked_at_is_told_or_passed_over() {
    let yard = Yard::new();
    yard.put("work/open/f", "needle");
    yard.put("work/shut/f", "needle");
    yard.put("work/blind/f", "needle");
    yard.put("work/locked", "needle");
    fs::set_permissions(yard.home.path(), Permissions::from_mode(0o755)).unwrap();
    // Nothing at all; a directory that can be entered and not listed; a file that cannot be read.
    let modes = [("work/shut", 0o000), ("work/blind", 0o111), ("work/locked", 0o000)];
    for (name, mode) in modes {
        fs::set_permissions(yard.path(name), Permissions::from_mode(mode)).unwrap();
    }
    as_stranger(|| {
        let bounds = yard.bounds();
        let open = |name: &str| {
            let shown = yard.path(name);
            let (_, spot) = files::find(&bounds, Verb::Read, &shown)?;
            files::open(&bounds, Verb::Read, &shown, &spot)
        };
        assert!(open("work/open/f").is_ok());
        assert!(open("work/blind/f").is_ok());
        for name in ["work/shut/f", "work/locked"] {
            let refused = open(name).unwrap_err();
            let expected = format!("cannot read \"{}\": permission denied", yard.shown(name));
            assert_eq!(refused.message, expected);
            assert_eq!(refused.code, Some(("FsError", "FS_PERMISSION_DENIED")));
        }
        let search = |name: &str| {
            let call = yard.request(json!({ "path": yard.shown(name) }));
            let place = Place::of(&call, &yard.files)?;
            let found = place.files(&call.abort, None, Skip::Ignored)?;
            Ok::<_, crate::ToolError>(found.map(|found| found.path).collect::<Vec<_>>())
        };
        assert_eq!(search("work").unwrap(), [yard.path("work/locked"), yard.path("work/open/f")]);
        for name in ["work/shut", "work/blind"] {
            let expected = format!("cannot search \"{}\": permission denied", yard.shown(name));
            assert_eq!(search(name).unwrap_err().message, expected);
        }
    });
    // So that the whole can be removed by anybody.
    for (name, _) in modes {
        fs::set_permissions(yard.path(name), Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_kernels_files_are_known_by_what_they_are_too() {
    let yard = Yard::new();
    let bounds = yard.bounds();
    // Past the names, on the way down.
    for path in ["/proc", "/proc/self", "/sys/kernel"] {
        assert!(matches!(bounds.descend(Path::new(path), false), Err(Refusal::Hidden)), "{path}");
    }
    assert!(bounds.descend(Path::new("/etc"), false).is_ok());
}
