//! `write` and `edit`, and the observation policy between them and `read` (L-99).

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use serde_json::json;

use super::{Bench, coded, plain};

fn written(path: &str, what: &str) -> String {
    format!("<path>{path}</path>\n<type>file</type>\n<content>\n{what}\n</content>")
}

async fn see(bench: &Bench, name: &str) {
    bench.ok("read", json!({ "file_path": name })).await;
}

fn leftovers(bench: &Bench, name: &str) -> usize {
    let entries = fs::read_dir(bench.path(name)).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp")).count()
}

#[tokio::test]
async fn write_creates_and_then_updates() {
    let bench = Bench::new();
    let arguments = |content: &str| json!({ "file_path": "new/deep/a.txt", "content": content });
    let path = bench.shown("new/deep/a.txt");
    assert_eq!(bench.ok("write", arguments("one\n")).await, written(&path, "Created file"));
    // What a session wrote it has seen.
    assert_eq!(bench.ok("write", arguments("two")).await, written(&path, "Updated file"));
    assert_eq!(bench.content("new/deep/a.txt"), "two");
    assert_eq!(bench.ok("write", arguments("")).await, written(&path, "Updated file"));
    assert_eq!(bench.content("new/deep/a.txt"), "");
    assert_eq!(leftovers(&bench, "new/deep"), 0);
}

#[tokio::test]
async fn a_file_that_was_not_seen_is_not_changed() {
    let mut bench = Bench::new();
    bench.put("a.txt", "one");
    let path = bench.shown("a.txt");
    let write = json!({ "file_path": "a.txt", "content": "two" });
    let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
    let why = "file has not been read in this session — read the file, then retry";
    let unseen =
        |verb: &str| coded(format!("cannot {verb} \"{path}\": {why}"), "FsError/FS_NOT_OBSERVED");
    assert_eq!(bench.error("write", write.clone()).await, unseen("write"));
    assert_eq!(bench.error("edit", edit.clone()).await, unseen("edit"));

    // Each session sees for itself.
    see(&bench, "a.txt").await;
    bench.session = "second";
    assert_eq!(bench.error("write", write.clone()).await, unseen("write"));
    assert_eq!(bench.content("a.txt"), "one");
    bench.session = "main";
    bench.ok("edit", edit).await;
    assert_eq!(bench.content("a.txt"), "two");
}

#[tokio::test]
async fn a_file_that_changed_since_is_not_changed() {
    let bench = Bench::new();
    bench.put("a.txt", "one");
    let path = bench.shown("a.txt");
    see(&bench, "a.txt").await;
    // Same length, and time enough for nobody's clock to tick.
    bench.put("a.txt", "eno");
    let why = "file changed since it was read — re-read the file, then retry";
    let stale =
        |verb: &str| coded(format!("cannot {verb} \"{path}\": {why}"), "FsError/FS_STALE_VERSION");
    let write = json!({ "file_path": "a.txt", "content": "two" });
    let edit = json!({ "file_path": "a.txt", "old_string": "eno", "new_string": "two" });
    assert_eq!(bench.error("write", write.clone()).await, stale("write"));
    assert_eq!(bench.error("edit", edit.clone()).await, stale("edit"));
    assert_eq!(bench.content("a.txt"), "eno");
    // Reading a part of it is enough.
    bench.ok("read", json!({ "file_path": "a.txt", "limit": 1 })).await;
    bench.ok("edit", edit).await;
    // Changed and changed back is unchanged.
    bench.put("a.txt", "other");
    bench.put("a.txt", "two");
    bench.ok("write", write).await;
}

#[tokio::test]
async fn edit_replaces_one_or_all() {
    let bench = Bench::new();
    bench.put("a.txt", "one two one\n");
    see(&bench, "a.txt").await;
    let path = bench.shown("a.txt");
    let edit = |old: &str, new: &str, all: bool| json!({ "file_path": "a.txt", "old_string": old, "new_string": new, "replace_all": all });
    let once = format!("The file {path} has been updated successfully.");
    let all =
        format!("The file {path} has been updated. All occurrences were successfully replaced.");
    assert_eq!(bench.ok("edit", edit("two", "", false)).await, once);
    assert_eq!(bench.content("a.txt"), "one  one\n");
    assert_eq!(bench.ok("edit", edit("one", "oneone", true)).await, all);
    assert_eq!(bench.content("a.txt"), "oneone  oneone\n");
    assert_eq!(bench.ok("edit", edit("one  one", "x", true)).await, all);
    assert_eq!(bench.content("a.txt"), "onexone\n");

    let table = [
        (edit("", "x", false), plain("old_string must be a non-empty string")),
        (edit("same", "same", true), plain("old_string and new_string must differ")),
        (edit("absent", "x", false), plain(format!("old_string was not found in \"{path}\""))),
        (edit("absent", "x", true), plain(format!("old_string was not found in \"{path}\""))),
        (
            edit("one", "x", false),
            plain(format!(
                "old_string matched 2 times in \"{path}\"; provide a more specific old_string or set \
                 replace_all to true"
            )),
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(bench.error("edit", arguments.clone()).await, expected, "{arguments}");
    }
    assert_eq!(bench.content("a.txt"), "onexone\n");
}

#[tokio::test]
async fn the_lines_of_windows_and_foreign_bytes_survive_an_edit() {
    let bench = Bench::new();
    let table: [(&[u8], &str, &str, &[u8]); 5] = [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\nc\n", "b\n", "x\n", b"a\r\nx\nc\n"),
        (b"caf\xe9 one \xff", "one", "two", b"caf\xe9 two \xff"),
        (b"\xe9aaaa", "aa", "b", b"\xe9bb"),
    ];
    for (before, old, new, after) in table {
        bench.put("a.txt", before);
        see(&bench, "a.txt").await;
        let arguments = json!({ "file_path": "a.txt", "old_string": old, "new_string": new, "replace_all": true });
        bench.ok("edit", arguments).await;
        assert_eq!(fs::read(bench.path("a.txt")).unwrap(), after);
    }
}

#[tokio::test]
async fn a_changed_file_keeps_its_permissions_and_gets_a_new_inode() {
    let bench = Bench::new();
    bench.put("run.sh", "one");
    let path = bench.path("run.sh");
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    let before = fs::metadata(&path).unwrap();
    see(&bench, "run.sh").await;
    bench
        .ok("edit", json!({ "file_path": "run.sh", "old_string": "one", "new_string": "two" }))
        .await;
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.permissions().mode() & 0o7777, 0o751);
    // The old content is intact for whoever has it open.
    assert_ne!(after.ino(), before.ino());
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
}

#[tokio::test]
async fn a_write_through_a_link_counts_where_it_leads() {
    let bench = Bench::new();
    bench.put("real.txt", "one");
    fs::create_dir(bench.path("dir")).unwrap();
    symlink("real.txt", bench.path("link")).unwrap();
    symlink("dir/new.txt", bench.path("dangling")).unwrap();

    see(&bench, "link").await;
    bench.ok("write", json!({ "file_path": "link", "content": "two" })).await;
    assert_eq!(bench.content("real.txt"), "two");
    assert!(fs::symlink_metadata(bench.path("link")).unwrap().is_symlink());
    // Seen by one name is seen by the other.
    bench.ok("write", json!({ "file_path": "real.txt", "content": "three" })).await;

    bench.ok("write", json!({ "file_path": "dangling", "content": "born" })).await;
    assert_eq!(bench.content("dir/new.txt"), "born");
    assert!(fs::symlink_metadata(bench.path("dangling")).unwrap().is_symlink());
}

#[tokio::test]
async fn what_cannot_be_changed_is_told() {
    let bench = Bench::new();
    bench.put("file", "x");
    fs::create_dir(bench.path("dir")).unwrap();
    bench.fifo("pipe");
    symlink("loop", bench.path("loop")).unwrap();
    let write = |name: &str| json!({ "file_path": name, "content": "x" });
    let edit = |name: &str| json!({ "file_path": name, "old_string": "x", "new_string": "y" });
    let cannot = |verb: &str, name: &str, why: &str| {
        plain(format!("cannot {verb} \"{}\": {why}", bench.shown(name)))
    };
    let table = [
        ("write", write("dir"), cannot("write", "dir", "not a regular file")),
        ("write", write("pipe"), cannot("write", "pipe", "not a regular file")),
        (
            "write",
            write("file/below"),
            cannot("write", "file/below", "a file is where its directory should be"),
        ),
        ("write", write(" "), plain("invalid file_path: expected a non-empty string")),
        ("edit", edit("none"), cannot("edit", "none", "not found")),
        ("edit", edit("dir"), cannot("edit", "dir", "not a regular file")),
        ("edit", edit("pipe"), cannot("edit", "pipe", "not a regular file")),
        (
            "write",
            write("/proc/self/comm"),
            coded(
                "cannot write \"/proc/self/comm\": hidden by this host",
                "FsError/FS_PERMISSION_DENIED",
            ),
        ),
        (
            "write",
            write("/dev/new/file"),
            coded(
                "cannot write \"/dev/new/file\": hidden by this host",
                "FsError/FS_PERMISSION_DENIED",
            ),
        ),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(bench.error(name, arguments.clone()).await, expected, "{arguments}");
    }
    let circle = cannot("write", "loop", "its links lead in a circle");
    assert_eq!(bench.error("write", write("loop")).await, circle);

    let long = fs::File::create(bench.path("long")).unwrap();
    long.set_len((32 << 20) + 1).unwrap();
    let expected = cannot("edit", "long", "file is larger than 33554432 bytes");
    assert_eq!(bench.error("edit", edit("long")).await, expected);
}
