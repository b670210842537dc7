//! `read` (L-98).

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use super::{Bench, coded, plain};

fn envelope(path: &str, content: &str) -> String {
    format!("<path>{path}</path>\n<type>file</type>\n<content>\n{content}\n</content>")
}

#[tokio::test]
async fn files_are_shown_with_numbers_and_a_footer() {
    let bench = Bench::new();
    let table: [(&[u8], &str); 9] = [
        (b"one\ntwo\n", "1: one\n2: two\n\n(End of file - total 2 lines)"),
        (b"one\ntwo", "1: one\n2: two\n\n(End of file - total 2 lines)"),
        (b"", "(End of file - total 0 lines)"),
        (b"\n", "1: \n\n(End of file - total 1 lines)"),
        (b"\n\nx", "1: \n2: \n3: x\n\n(End of file - total 3 lines)"),
        (b"dos\r\nlines\r\n", "1: dos\n2: lines\n\n(End of file - total 2 lines)"),
        (b"a\rb\r\r\n", "1: a\rb\r\n\n(End of file - total 1 lines)"),
        (b"caf\xe9\n", "1: caf\u{FFFD}\n\n(End of file - total 1 lines)"),
        ("é\u{2028}ü".as_bytes(), "1: é\u{2028}ü\n\n(End of file - total 1 lines)"),
    ];
    for (content, expected) in table {
        bench.put("a.txt", content);
        let told = bench.ok("read", json!({ "file_path": "a.txt" })).await;
        assert_eq!(told, envelope(&bench.shown("a.txt"), expected));
    }
}

#[tokio::test]
async fn pages_say_how_to_go_on() {
    let bench = Bench::new();
    let lines: String = (1..=2500).map(|n| format!("line {n}\n")).collect();
    bench.put("long.txt", lines);
    let last = |told: &str| told.lines().rev().nth(1).unwrap().to_owned();
    let table = [
        (json!({}), "(Showing lines 1-2000 of 2500. Use offset=2001 to continue.)"),
        (json!({ "offset": 2001 }), "(End of file - total 2500 lines)"),
        (
            json!({ "offset": 10, "limit": 1 }),
            "(Showing lines 10-10 of 2500. Use offset=11 to continue.)",
        ),
        (json!({ "offset": 2500, "limit": 1 }), "(End of file - total 2500 lines)"),
        (
            json!({ "offset": 2.0, "limit": 2000 }),
            "(Showing lines 2-2001 of 2500. Use offset=2002 to continue.)",
        ),
    ];
    for (mut arguments, expected) in table {
        arguments["file_path"] = json!("long.txt");
        let told = bench.ok("read", arguments.clone()).await;
        assert_eq!(last(&told), expected, "{arguments}");
    }
    let told = bench.ok("read", json!({ "file_path": "long.txt", "offset": 7, "limit": 2 })).await;
    let content = "7: line 7\n8: line 8\n\n(Showing lines 7-8 of 2500. Use offset=9 to continue.)";
    assert_eq!(told, envelope(&bench.shown("long.txt"), content));
}

#[tokio::test]
async fn long_lines_and_big_pages_are_cut() {
    let bench = Bench::new();
    let exact = "é".repeat(2000);
    bench.put("lines.txt", format!("{exact}\n{exact}é\nshort\n"));
    let told = bench.ok("read", json!({ "file_path": "lines.txt" })).await;
    let content = format!(
        "1: {exact}\n2: {exact}... (line truncated to 2000 chars)\n3: short\n\n(End of file - total 3 lines)"
    );
    assert_eq!(told, envelope(&bench.shown("lines.txt"), &content));

    // 100 lines of 1000 bytes with their numbers: 51 of them fit into 51200 bytes.
    bench.put("wide.txt", format!("{}\n", "w".repeat(996)).repeat(100));
    let told = bench.ok("read", json!({ "file_path": "wide.txt" })).await;
    assert!(told.contains("\n51: w") && !told.contains("\n52: w"));
    assert!(told.contains("\n\n(Output capped. Showing lines 1-51. Use offset=52 to continue.)\n"));
    let told = bench.ok("read", json!({ "file_path": "wide.txt", "offset": 52 })).await;
    assert!(told.contains("(End of file - total 100 lines)"));
}

#[tokio::test]
async fn a_huge_file_is_read_without_holding_it() {
    let bench = Bench::new();
    // One line of 64 MiB, all of it a hole but the first bytes; nothing in the sample is zero.
    let path = bench.path("huge.txt");
    fs::write(&path, "y".repeat(10_000)).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
    let told = bench.ok("read", json!({ "file_path": "huge.txt" })).await;
    assert!(told.contains("... (line truncated to 2000 chars)\n\n(End of file - total 1 lines)"));
    assert!(told.len() < 2_300);
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    let bench = Bench::new();
    bench.put("three.txt", "1\n2\n3\n");
    bench.put("empty.txt", "");
    bench.put("zero.bin", b"ELF\0");
    bench.fifo("pipe");
    fs::create_dir(bench.path("dir")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    symlink("loop", bench.path("loop")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();

    let cannot =
        |name: &str, why: &str| plain(format!("cannot read \"{}\": {why}", bench.shown(name)));
    let range = |name: &str, offset: u64, lines: u64| {
        plain(format!(
            "offset {offset} is out of range for \"{}\" ({lines} lines)",
            bench.shown(name)
        ))
    };
    let at = |name: &str| json!({ "file_path": name });
    let from = |name: &str, offset: i64| json!({ "file_path": name, "offset": offset });
    let table = [
        (at("none.txt"), cannot("none.txt", "not found")),
        (at("three.txt/below"), cannot("three.txt/below", "not found")),
        (at("dangling"), cannot("dangling", "not found")),
        (at("dir"), cannot("dir", "not a regular file")),
        (at("."), cannot("", "not a regular file")),
        (at("pipe"), cannot("pipe", "not a regular file")),
        (at("socket"), cannot("socket", "not a regular file")),
        (at("zero.bin"), cannot("zero.bin", "binary file")),
        (from("three.txt", 4), range("three.txt", 4, 3)),
        (from("empty.txt", 2), range("empty.txt", 2, 0)),
        (from("three.txt", 0), plain("offset must be greater than or equal to 1")),
        (from("three.txt", -1), plain("offset must be greater than or equal to 1")),
        (
            json!({ "file_path": "three.txt", "limit": 0 }),
            plain("limit must be greater than or equal to 1"),
        ),
        (
            json!({ "file_path": "three.txt", "limit": 2001 }),
            plain("limit must be less than or equal to 2000"),
        ),
        (at(""), plain("invalid file_path: expected a non-empty string")),
    ];
    for (arguments, expected) in table {
        assert_eq!(bench.error("read", arguments.clone()).await, expected, "{arguments}");
    }
    let (told, _) = bench.error("read", at("loop")).await;
    assert!(told.starts_with(&format!("cannot read \"{}\": ", bench.shown("loop"))), "{told}");
}

#[tokio::test]
async fn the_hosts_own_process_and_devices_are_hidden() {
    let bench = Bench::new();
    symlink("/proc/self/environ", bench.path("innocent")).unwrap();
    for path in [
        "/proc/self/environ",
        "/proc/1/cmdline",
        "/sys/kernel/mm",
        "/dev/zero",
        &bench.shown("innocent"),
    ] {
        let expected = coded(
            format!("cannot read \"{path}\": hidden by this host"),
            "FsError/FS_PERMISSION_DENIED",
        );
        assert_eq!(bench.error("read", json!({ "file_path": path })).await, expected);
    }
}

#[tokio::test]
async fn links_and_odd_paths_lead_to_files() {
    let bench = Bench::new();
    bench.put("sub/real.txt", "x\n");
    symlink("sub/real.txt", bench.path("link")).unwrap();
    let absolute = bench.shown("sub/real.txt");
    for path in ["link", "./sub//real.txt", "sub/../sub/real.txt", &absolute] {
        let told = bench.ok("read", json!({ "file_path": path })).await;
        assert!(told.contains("\n1: x\n"), "{path}");
    }
}
