//! Who started whom: tells a host's own tools from everybody else (P-43).

use nix::unistd::getpid;

use crate::stat::Stat;

/// Generations that are looked at. Nobody nests processes this deep by accident, and who does it on purpose is
/// taken for a descendant.
const GENERATIONS_MAX: usize = 4_096;

/// Whether a process was started by this one, at whatever remove. This process adopts what its commands leave behind,
/// so a daemon stays a descendant. The process itself is none. Reads `/proc`, and so blocks for a moment.
pub fn descends_from_here(process: u32) -> bool {
    let here = u32::try_from(getpid().as_raw()).unwrap_or_default();
    if process == here {
        return false;
    }
    let mut at = process;
    for _ in 0..GENERATIONS_MAX {
        // Gone meanwhile, or before the first: whoever it was, its line ends here.
        let Some(stat) = Stat::of(at) else { return false };
        if stat.parent == here {
            return true;
        }
        if stat.parent == 0 {
            return false;
        }
        at = stat.parent;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Command, Stdio},
    };

    use super::descends_from_here;

    #[test]
    fn children_and_their_children_descend_and_nobody_else_does() {
        let mut child = Command::new("bash")
            .args(["-c", "exec 3<&0; bash -c 'echo $$; read -r _ <&3' & echo $$; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.take(2) {
            let process = line.unwrap().parse().unwrap();
            assert!(descends_from_here(process), "{process}");
        }
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        assert!(!descends_from_here(std::process::id()));
        assert!(!descends_from_here(1));
    }
}
