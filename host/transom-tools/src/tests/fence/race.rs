//! Writes while somebody exchanges directories and files for links (row 17).

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use transom_harness::permissions::Mode;

use super::{Yard, failure};

const WRITES: u32 = 10_000;

/// Everything below a directory, with its content.
fn picture(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut seen = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            seen.extend(picture(&path));
        } else {
            seen.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    seen.sort();
    seen
}

/// Exchanges until told to stop.
fn exchange(
    yard: &Yard,
    outside: &Path,
    stop: Arc<AtomicBool>,
) -> (thread::JoinHandle<()>, Arc<AtomicU64>) {
    let rounds = Arc::new(AtomicU64::new(0));
    let count = rounds.clone();
    let work = yard.path("work");
    let outside = outside.to_owned();
    let thread = thread::spawn(move || {
        let (dir, aside) = (work.join("dir"), work.join("aside"));
        while !stop.load(Ordering::Relaxed) {
            // Writes may make the directory anew while it is away, so each of these may fail.
            let _ = fs::rename(&dir, &aside);
            let _ = symlink(&outside, &dir);
            let _ = fs::remove_file(&dir);
            let _ = fs::rename(&aside, &dir);
            let _ = fs::remove_file(dir.join("f"));
            let _ = symlink(outside.join("f"), dir.join("f"));
            let _ = fs::remove_file(dir.join("f"));
            let _ = fs::remove_dir_all(&aside);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (thread, rounds)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_17_nothing_outside_ever_changes() {
    // In memory, where a sync costs nothing, and the outside elsewhere, because that memory is a root.
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let mut yard = Yard::inside(&directory, |_| {});
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("deep")).unwrap();
    fs::write(outside.path().join("f"), "outside").unwrap();
    fs::write(outside.path().join("deep/g"), "outside").unwrap();
    let before = picture(outside.path());
    for (mode, writes) in [(Mode::WorkspaceWrite, WRITES), (Mode::ReadOnly, 100)] {
        yard.mode = mode;
        let stop = Arc::new(AtomicBool::new(false));
        let (thread, rounds) = exchange(&yard, outside.path(), stop.clone());
        let mut done = 0;
        for number in 0..writes {
            // What exists outside is protected by not having been read, too; what is new only by the fence.
            let path = match number % 4 {
                0 => "dir/f".to_owned(),
                1 => format!("dir/deep/{number}"),
                _ => format!("dir/{number}"),
            };
            let outcome = yard.write(&path, "new").await;
            if outcome.is_error {
                let (told, _) = failure(&outcome);
                assert!(
                    told.starts_with("[sandbox: ") || told.starts_with("cannot write"),
                    "{told}"
                );
            } else {
                done += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(rounds.load(Ordering::Relaxed) > 0);
        assert_eq!(done > 0, mode == Mode::WorkspaceWrite);
        assert_eq!(picture(outside.path()), before);
    }
}
