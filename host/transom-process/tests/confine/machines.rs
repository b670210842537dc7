//! The same host on machines that lack something: another user, no namespaces, an old kernel. The lack is real, made by
//! a filter on system calls around the whole host (`tests/programs`).

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use nix::unistd::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::REHEARSAL;

/// A workspace that anybody may use.
fn workspace() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["workspace/secret", "outside", "private"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    for name in [
        "workspace/file",
        "workspace/guarded",
        "workspace/secret/file",
        "outside/file",
        "private/file",
    ] {
        fs::write(directory.path().join(name), "before\n").unwrap();
    }
    let everything = [
        "",
        "workspace",
        "workspace/secret",
        "outside",
        "private",
        "workspace/file",
        "workspace/guarded",
        "outside/file",
    ];
    for name in everything {
        fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(0o777))
            .unwrap();
    }
    directory
}

/// What a host finds and does there, as the JSON that it prints.
fn host(user: &str, refused: &str, directory: &TempDir, width: &str, scripts: &[&str]) -> Value {
    let directory = directory.path().to_str().unwrap();
    let output = Command::new(REHEARSAL)
        .args(["host", user, refused, directory, width])
        .args(scripts)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Reads, and then writes where that must fail or not.
const SCRIPTS: [&str; 8] = [
    "cat file",
    "echo x > new",
    "echo x > ../outside/new",
    "cat ../private/file",
    "cat secret/file",
    "echo x > guarded",
    "chmod 700 ../outside",
    "echo x > /dev/null; cat /proc/self/status > /dev/null",
];

/// For each script whether it succeeded.
fn succeeded(found: &Value) -> Vec<bool> {
    let results = found["results"].as_array().unwrap();
    results.iter().map(|result| result["exit"] == json!("Code(0)")).collect()
}

fn users() -> Vec<&'static str> {
    // Only root can become another.
    if geteuid().is_root() { vec!["self", "nobody"] } else { vec!["self"] }
}

#[test]
fn without_namespaces_the_gaps_are_reported_and_the_rest_holds() {
    for user in users() {
        let found = host(user, "namespaces", &workspace(), "workspace-write", &SCRIPTS);
        let report = &found["report"];
        assert_eq!(report["mounts"], json!(false), "{found}");
        assert_eq!(report["network"], json!("none"), "{found}");
        for gap in ["metadata", "guarded", "secrets"] {
            assert!(report["gaps"].as_array().unwrap().contains(&json!(gap)), "{found}");
        }
        if report["landlock"].is_null() {
            assert_eq!(report["enforcement"], json!("none"), "{found}");
            continue;
        }
        assert_eq!(report["enforcement"], json!("partial"), "{found}");
        // Secrets and guarded files below the root, and metadata of what one owns, are the gaps.
        let owned = user == "self";
        assert_eq!(
            succeeded(&found),
            [true, true, false, false, true, true, owned, true],
            "{found}"
        );

        let found = host(user, "namespaces", &workspace(), "read-only", &SCRIPTS);
        assert_eq!(
            succeeded(&found),
            [true, false, false, false, false, false, false, true],
            "{found}"
        );
    }
}

#[test]
fn without_landlock_the_mounts_hold_alone() {
    for user in users() {
        for (width, written) in [("workspace-write", true), ("read-only", false)] {
            let scripts = [SCRIPTS.as_slice(), &["ls /dev"]].concat();
            let found = host(user, "landlock", &workspace(), width, &scripts);
            let report = &found["report"];
            assert!(report["landlock"].is_null(), "{found}");
            assert!(report["gaps"].as_array().unwrap().contains(&json!("landlock")), "{found}");
            if report["mounts"] == json!(false) {
                assert_eq!(report["enforcement"], json!("none"), "{found}");
                continue;
            }
            assert_eq!(report["enforcement"], json!("partial"), "{found}");
            assert_eq!(
                succeeded(&found),
                [true, written, false, false, false, false, false, true, true],
                "{found}"
            );
            let listed = found["results"][8]["stdout"].as_str().unwrap();
            let devices = listed.lines().filter(|name| *name != "shm").collect::<Vec<_>>();
            assert_eq!(
                devices,
                ["fd", "full", "null", "random", "stderr", "stdin", "stdout", "urandom", "zero"]
            );
        }
    }
}

#[test]
fn without_filters_or_without_any_wall_nothing_is_called_confined() {
    for user in users() {
        for refused in ["seccomp", "everything"] {
            let found = host(user, refused, &workspace(), "read-only", &["true"]);
            assert_eq!(found["report"]["enforcement"], json!("none"), "{found}");
            assert_eq!(found["report"]["network"], json!("open"), "{found}");
            let error = "these commands cannot be confined on this host";
            assert_eq!(found["results"][0]["error"], json!(error), "{found}");
        }
    }
}

#[test]
fn an_ordinary_user_gets_what_the_report_promises() {
    for user in users() {
        let found = host(user, "nothing", &workspace(), "workspace-write", &SCRIPTS);
        let report = &found["report"];
        assert_eq!(report["root"], json!(user == "self" && geteuid().is_root()), "{found}");
        let mounts = report["mounts"] == json!(true);
        let owned = user == "self";
        if report["enforcement"] != json!("none") {
            let expected = [true, true, false, false, !mounts, !mounts, !mounts && owned, true];
            assert_eq!(succeeded(&found), expected, "{found}");
        }
        assert_eq!(report["enforcement"] == json!("full"), report["gaps"] == json!([]), "{found}");
    }
}

#[test]
fn without_networks_of_their_own_commands_have_none_and_the_rest_holds() {
    for user in users() {
        let rehearsal = format!("{REHEARSAL} serve");
        let scripts = [SCRIPTS.as_slice(), &[rehearsal.as_str()]].concat();
        let found = host(user, "networks", &workspace(), "workspace-write", &scripts);
        let report = &found["report"];
        if report["enforcement"] == json!("none") {
            continue;
        }
        assert_eq!(report["network"], json!("none"), "{found}");
        let mounts = report["mounts"] == json!(true);
        let owned = user == "self";
        let expected = [true, true, false, false, !mounts, !mounts, !mounts && owned, true, false];
        assert_eq!(succeeded(&found), expected, "{found}");
        assert_eq!(found["results"][8]["stderr"], json!("rehearsal: ENETUNREACH\n"), "{found}");
    }
}
