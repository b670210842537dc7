//! Output is kept within its bounds, whatever a child writes (L-85, L-97).

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use tokio::runtime::Handle;

use super::{LONG, spawn};
use crate::{Capture, Captured, Exit, SpillDirectory, SpillLimits, Spilled};

const LIMITS: SpillLimits = SpillLimits { stream_bytes_max: 100_000, total_bytes_max: 150_000 };

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

async fn capture(script: &str, tail_bytes_max: usize, spills: &SpillDirectory) -> Captured {
    let mut process = spawn(script).await;
    let stdout = process.stdout.take().unwrap();
    let capture =
        Capture::start(&Handle::current(), stdout, tail_bytes_max, spills.spill("test.stdout"));
    process.wait().await.unwrap();
    capture.finish(LONG).await
}

#[tokio::test]
async fn short_output_stays_in_memory() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path().join("spills"), LIMITS).unwrap();
    let captured = capture("printf 12345678", 8, &spills).await;
    assert_eq!(captured, Captured { tail: b"12345678".to_vec(), bytes: 8, spill: None });
    assert!(!captured.is_cut());
    assert_eq!(fs::read_dir(home.path().join("spills")).unwrap().count(), 0);
}

#[tokio::test]
async fn long_output_keeps_its_tail_and_is_whole_in_a_private_file() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("a/spills");
    let spills = SpillDirectory::create(&directory, LIMITS).unwrap();
    let captured = capture("printf 123456789", 8, &spills).await;
    assert!(captured.is_cut());
    assert_eq!(captured.text(), "23456789");
    let path = captured.spill.unwrap().path;
    assert_eq!(fs::read_to_string(&path).unwrap(), "123456789");
    assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
}

#[tokio::test]
async fn a_flood_is_bounded_in_memory_and_on_disk() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path(), LIMITS).unwrap();
    let script = "head -c 299997 /dev/zero | tr '\\0' x; printf end";

    let first = capture(script, 1_000, &spills).await;
    assert_eq!((first.bytes, first.tail.len()), (300_000, 1_000));
    assert!(first.text().ends_with("xxxend"));
    let Spilled { path, missing } = first.spill.unwrap();
    assert_eq!(missing, 200_000);
    let kept = fs::read_to_string(&path).unwrap();
    let marker = "\n[output cut here: 200000 more bytes were not kept]\n";
    assert_eq!(kept.len(), 100_000 + marker.len());
    assert!(kept.ends_with(marker));

    // The directory as a whole has a budget, too…
    let second = capture(script, 1_000, &spills).await.spill.unwrap();
    assert_eq!(second.missing, 250_000);
    let third = capture(script, 1_000, &spills).await;
    assert_eq!((third.spill, third.tail.len()), (None, 1_000));

    // … to which removed files return.
    spills.remove(&path);
    assert!(!path.exists());
    assert_eq!(capture(script, 1_000, &spills).await.spill.unwrap().missing, 200_000);
}

#[tokio::test]
async fn an_inherited_pipe_does_not_keep_the_reader() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path(), LIMITS).unwrap();
    let mut process = spawn("sleep 1000 & printf before").await;
    let stdout = process.stdout.take().unwrap();
    let capture = Capture::start(&Handle::current(), stdout, 100, spills.spill("x"));
    assert_eq!(process.wait().await.unwrap(), Exit::Code(0));
    // The pipe stays open for as long as the grandchild lives, and it lives.
    assert_eq!(capture.finish(Duration::ZERO).await.text(), "before");
    assert!(!process.tree().is_gone());
}

#[tokio::test]
async fn a_tail_never_begins_inside_a_character() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path(), LIMITS).unwrap();
    let cases = [
        ("printf 'a\\xf0\\x9f\\xa6\\x80z'", 3, "z"),
        ("printf 'aé'", 1, ""),
        ("printf 'a\\xffb'", 9, "a\u{FFFD}b"),
        // Not cut, so an odd beginning is what the child wrote.
        ("printf '\\x80b'", 9, "\u{FFFD}b"),
    ];
    for (script, tail_bytes_max, expected) in cases {
        assert_eq!(capture(script, tail_bytes_max, &spills).await.text(), expected, "{script}");
    }
}

#[test]
fn a_spill_directory_is_made_private_or_refused() {
    let home = tempfile::tempdir().unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    SpillDirectory::create(&open, LIMITS).unwrap();
    assert_eq!(mode(&open), 0o700);

    let link = home.path().join("link");
    std::os::unix::fs::symlink(&open, &link).unwrap();
    let error = SpillDirectory::create(&link, LIMITS).unwrap_err();
    assert_eq!(error.to_string(), format!("\"{}\" is not a directory of its own", link.display()));
}

#[tokio::test]
async fn only_files_of_the_directory_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path().join("spills"), LIMITS).unwrap();
    let other = home.path().join("other");
    fs::write(&other, "x").unwrap();
    spills.remove(&other);
    assert!(other.exists());
}

#[tokio::test]
async fn a_link_in_the_place_of_the_directory_is_not_followed() {
    // What a confined command can do to a directory below a temporary one (P-44, P-47).
    let home = tempfile::tempdir().unwrap();
    let (path, moved) = (home.path().join("spills"), home.path().join("moved"));
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    let spills = SpillDirectory::create(&path, LIMITS).unwrap();
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();

    let captured = capture("printf 0123456789", 4, &spills).await;
    let spilled = captured.spill.unwrap();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(mode(&elsewhere), 0o755);
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
    let same_name = elsewhere.join(spilled.path.file_name().unwrap());
    fs::write(&same_name, "somebody else's").unwrap();
    spills.remove(&spilled.path);
    assert!(same_name.exists());
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 0);

    // One that was cleared away is made anew.
    fs::remove_file(&path).unwrap();
    fs::remove_dir(&moved).unwrap();
    let captured = capture("printf 0123456789", 4, &spills).await;
    assert_eq!(fs::read_to_string(captured.spill.unwrap().path).unwrap(), "0123456789");
}

#[tokio::test]
async fn a_directory_beside_shares_the_budget_and_names_its_files() {
    // P-44, P-78: a session's own directory.
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path().join("spills"), LIMITS).unwrap();
    let own = home.path().join("own");
    assert!(spills.beside(&own).is_err(), "it is not made");
    fs::create_dir(&own).unwrap();
    let beside = spills.beside(&own).unwrap();
    assert_eq!(mode(&own), 0o700);

    let named = |directory: &SpillDirectory, label: &str| directory.spill_named(label);
    let spill = |spill: crate::Spill| async move {
        let mut process = spawn("head -c 100000 /dev/zero").await;
        let stdout = process.stdout.take().unwrap();
        let captured = Capture::start(&Handle::current(), stdout, 10, spill).finish(LONG).await;
        captured.spill.unwrap()
    };
    let first = spill(named(&beside, "bash-1.stdout")).await;
    assert_eq!(first, Spilled { path: own.join("bash-1.stdout.txt"), missing: 0 });
    // A command of the session may have taken the name.
    let second = spill(named(&beside, "bash-1.stdout")).await;
    assert_eq!((second.path, second.missing), (own.join("1.bash-1.stdout.txt"), 50_000));

    // What was spilled there counts as long as the directory is used.
    drop(beside);
    assert_eq!(spill(spills.spill("x")).await.missing, 0);
}

#[tokio::test]
async fn a_directory_beside_is_never_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let spills = SpillDirectory::create(home.path().join("spills"), LIMITS).unwrap();
    let own = home.path().join("own");
    fs::create_dir(&own).unwrap();
    let beside = spills.beside(&own).unwrap();
    fs::remove_dir(&own).unwrap();
    assert_eq!(capture("printf 0123456789", 4, &beside).await.spill, None);
    assert!(!own.exists());
}
