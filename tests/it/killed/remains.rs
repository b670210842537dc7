//! Processes that a host has started, told by a variable that all of them inherit.

use std::{fs, thread, time::Instant};

use crate::support::wire::PATIENCE;

/// The variable. Its name is none that hosts withhold from children.
pub(super) const MARK: &str = "KILLED_LIFE";

/// The processes with this mark: number and command line.
pub(super) fn alive(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").expect("the processes").flatten();
    let marked = entries.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    });
    let shown = marked.map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        format!("{} {command}", entry.file_name().to_string_lossy())
    });
    shown.collect()
}

/// Waits until none is left.
pub(super) fn are_gone(mark: &str) {
    let begun = Instant::now();
    loop {
        let alive = alive(mark);
        if alive.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "still alive:\n{}", alive.join("\n"));
        thread::yield_now();
    }
}
