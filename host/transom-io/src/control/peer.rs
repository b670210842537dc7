//! Whether a process was started by this host, directly or not (P-43).

use std::fs;

/// Generations that are followed. A tree that is deeper was not made by accident.
const GENERATIONS_MAX: usize = 4096;

/// Whether `process` descends from `ancestor`, or is it. The host is the reaper of what it starts, so that a daemon among
/// them has it as a parent too.
pub(super) fn descends(process: u32, ancestor: u32) -> bool {
    let mut at = process;
    for _ in 0..GENERATIONS_MAX {
        match parent(at) {
            Some(parent) if parent == ancestor => return true,
            // Out of sight: in front of the first process, or gone.
            None | Some(0) => return false,
            Some(parent) => at = parent,
        }
    }
    true
}

fn parent(process: u32) -> Option<u32> {
    let line = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything, parentheses included.
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command, Stdio};

    use super::descends;

    #[test]
    fn children_and_theirs_descend_and_others_do_not() {
        let own = process::id();
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        assert!(descends(child.id(), own));
        assert!(descends(grandchild, own));
        assert!(!descends(own, child.id()));
        assert!(!descends(1, own));
        for process in [grandchild, child.id()] {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
        child.wait().unwrap();
    }
}
