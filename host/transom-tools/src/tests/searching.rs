//! `glob` and `grep` (L-100).

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use serde_json::json;

use super::{Bench, coded, plain};

/// Files changed one second after the other, in the order given.
fn aged(bench: &Bench, names: &[&str]) {
    for (age, name) in names.iter().enumerate() {
        bench.put(name, "");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + age as u64);
        File::options().write(true).open(bench.path(name)).unwrap().set_modified(time).unwrap();
    }
}

fn lines(bench: &Bench, names: &[&str]) -> String {
    names.iter().map(|name| bench.shown(name)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn glob_finds_files_the_oldest_change_first() {
    let bench = Bench::new();
    let names = [
        "src/z.rs",
        "a.rs",
        ".hidden.rs",
        "src/deep/b.rs",
        "ignored/c.rs",
        "notes.md",
        ".git/x.rs",
        "sub/.hg/y.rs",
        "n.ts",
        "n.tsx",
    ];
    aged(&bench, &names);
    bench.put(".gitignore", "ignored\n");
    bench.put(".ignore", "ignored\n");
    fs::create_dir(bench.path("dir.rs")).unwrap();
    symlink("a.rs", bench.path("link.rs")).unwrap();
    bench.fifo("pipe.rs");

    let all = ["src/z.rs", "a.rs", ".hidden.rs", "src/deep/b.rs", "ignored/c.rs"];
    let table: [(&str, &[&str]); 8] = [
        ("*.rs", &all),
        ("**/*.rs", &all),
        ("/*.rs", &["a.rs", ".hidden.rs"]),
        ("src/*.rs", &["src/z.rs"]),
        ("src/**/*.rs", &["src/z.rs", "src/deep/b.rs"]),
        ("*.{md,ts}", &["notes.md", "n.ts"]),
        ("n.ts?", &["n.tsx"]),
        ("[z].rs", &["src/z.rs"]),
    ];
    for (pattern, expected) in table {
        let told = bench.ok("glob", json!({ "pattern": pattern })).await;
        assert_eq!(told, lines(&bench, expected), "{pattern}");
    }
    let below = json!({ "pattern": "*.rs", "path": "src" });
    assert_eq!(bench.ok("glob", below).await, lines(&bench, &["src/z.rs", "src/deep/b.rs"]));
    let absolute = json!({ "pattern": bench.shown("src/*.rs") });
    assert_eq!(bench.ok("glob", absolute).await, lines(&bench, &["src/z.rs"]));
    assert_eq!(bench.ok("glob", json!({ "pattern": "*.py" })).await, "No files found");
}

#[tokio::test]
async fn glob_shows_a_hundred() {
    let bench = Bench::new();
    let names: Vec<String> = (0..101).map(|n| format!("f{n:03}")).collect();
    aged(&bench, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let told = bench.ok("glob", json!({ "pattern": "*" })).await;
    assert!(told.starts_with(&bench.shown("f000")));
    assert!(told.contains("f099\n\n(Showing 100 of 101 files.") && !told.contains("f100"));
}

#[tokio::test]
async fn grep_groups_lines_by_file() {
    let bench = Bench::new();
    bench.put("b.txt", "needle one\nhay\nneedle two\r\n");
    bench.put("a/x.rs", "// needle\n");
    bench.put(".hidden", "needle\n");
    bench.put(".git/config", "needle\n");
    bench.put("ignored.txt", "needle\n");
    bench.put(".ignore", "ignored.txt\n");
    bench.put("binary", b"needle\n\0");
    bench.put("latin", b"caf\xe9 needle\n");
    symlink("b.txt", bench.path("link")).unwrap();
    bench.fifo("pipe");

    let told = bench.ok("grep", json!({ "pattern": "needle" })).await;
    let file = |name: &str| bench.shown(name);
    let expected = format!(
        "Found 5 matches\n\n{}\n  1: needle\n\n{}\n  1: // needle\n\n{}\n  1: needle one\n  3: needle two\n\n{}\n  \
         1: caf\u{FFFD} needle",
        file(".hidden"),
        file("a/x.rs"),
        file("b.txt"),
        file("latin")
    );
    assert_eq!(told, expected);

    let one = |name: &str, line: &str| format!("Found 1 match\n\n{}\n  {line}", file(name));
    let table = [
        (json!({ "pattern": "needle", "include": "*.rs" }), one("a/x.rs", "1: // needle")),
        (json!({ "pattern": "needle", "include": "*.{rs,md}" }), one("a/x.rs", "1: // needle")),
        (json!({ "pattern": "needle", "path": "a" }), one("a/x.rs", "1: // needle")),
        (json!({ "pattern": "two$", "path": "b.txt" }), "No matches found".to_owned()),
        (json!({ "pattern": "^needle t\\w+", "path": "b.txt" }), one("b.txt", "3: needle two")),
        (json!({ "pattern": "(?i)NEEDLE ONE" }), one("b.txt", "1: needle one")),
        (json!({ "pattern": "needle", "path": "ignored.txt" }), one("ignored.txt", "1: needle")),
        (json!({ "pattern": "needle", "path": "pipe" }), "No matches found".to_owned()),
        (json!({ "pattern": "absent" }), "No matches found".to_owned()),
    ];
    for (arguments, expected) in table {
        assert_eq!(bench.ok("grep", arguments.clone()).await, expected, "{arguments}");
    }
}

#[tokio::test]
async fn grep_shows_a_bounded_part_and_says_so() {
    let bench = Bench::new();
    bench.put("a.txt", "hit\n".repeat(200));
    bench.put("b.txt", "hit\n".repeat(100));
    let told = bench.ok("grep", json!({ "pattern": "hit" })).await;
    assert!(told.starts_with("Found 250 of 300 matches\n("));
    assert_eq!(told.matches(": hit").count(), 250);

    bench.put("wide.txt", format!("{}\n", "w".repeat(3_000)).repeat(200));
    let told = bench.ok("grep", json!({ "pattern": "w", "path": "wide.txt" })).await;
    assert!(told.starts_with("Found 94 of 200 matches\n("), "{}", &told[..40]);
    assert!(told.len() < 52_000);
    assert!(told.ends_with("... (line truncated to 500 chars)"));
}

#[tokio::test]
async fn what_cannot_be_searched_is_told() {
    let bench = Bench::new();
    let missing = plain(format!("cannot search \"{}\": not found", bench.shown("none")));
    let hidden =
        coded("cannot search \"/proc/self\": hidden by this host", "FsError/FS_PERMISSION_DENIED");
    let table = [
        ("glob", json!({ "pattern": "" }), plain("invalid pattern: expected a non-empty string")),
        (
            "glob",
            json!({ "pattern": "!*.rs" }),
            plain("invalid pattern: a glob must not begin with \"!\""),
        ),
        ("glob", json!({ "pattern": "*", "path": "none" }), missing.clone()),
        ("glob", json!({ "pattern": "*", "path": "/proc/self" }), hidden.clone()),
        ("grep", json!({ "pattern": "" }), plain("invalid pattern: expected a non-empty string")),
        ("grep", json!({ "pattern": "x", "path": "none" }), missing),
        ("grep", json!({ "pattern": "x", "path": "/proc/self" }), hidden),
        (
            "grep",
            json!({ "pattern": "x", "path": "" }),
            plain("invalid path: expected a non-empty string"),
        ),
        (
            "grep",
            json!({ "pattern": "x", "include": "!*.rs" }),
            plain("invalid include: a glob must not begin with \"!\""),
        ),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(bench.error(name, arguments.clone()).await, expected, "{arguments}");
    }
    for (name, arguments, beginning) in [
        ("glob", json!({ "pattern": "a[" }), "invalid pattern: "),
        ("grep", json!({ "pattern": "a(" }), "invalid pattern: "),
        ("grep", json!({ "pattern": "x", "include": "{a" }), "invalid include: "),
    ] {
        let (told, code) = bench.error(name, arguments).await;
        assert!(told.starts_with(beginning) && code.is_empty(), "{told}");
    }
}

#[tokio::test]
async fn a_search_has_a_deadline_of_its_own() {
    let bench = Bench::with(|options| options.search_timeout_ms = 0);
    bench.put("a", "x");
    let expected = coded("tool call timed out after 0ms", "ToolTimeoutError/TOOL_TIMEOUT");
    // Whole file systems do not end within no time.
    for name in ["glob", "grep"] {
        assert_eq!(bench.error(name, json!({ "pattern": "x", "path": "/" })).await, expected);
    }
}
