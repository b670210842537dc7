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
    // Who is gone meanwhile, or the first, has no parent.
    descends(process, here, GENERATIONS_MAX, |at| Some(Stat::of(at)?.parent)).unwrap_or(true)
}

/// Whether a process descends from another one, by what `parent` knows; `None` if so many generations do not tell.
pub(crate) fn descends(
    process: u32,
    from: u32,
    generations: usize,
    parent: impl Fn(u32) -> Option<u32>,
) -> Option<bool> {
    let mut at = process;
    for _ in 0..generations {
        let Some(above) = parent(at) else { return Some(false) };
        if above == from {
            return Some(true);
        }
        at = above;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Command, Stdio},
    };

    use super::{descends, descends_from_here};

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

    #[test]
    fn a_line_that_is_too_long_to_follow_or_goes_in_circles_tells_nothing() {
        // Each number's parent is the one below it, except that 20 and 21 are each other's.
        let parent = |process: u32| match process {
            1 => None,
            20 => Some(21),
            other => Some(other - 1),
        };
        for (process, from, generations, expected) in [
            (9, 5, 4, Some(true)),
            (9, 5, 3, None),
            (9, 10, 100, Some(false)),
            (5, 5, 100, Some(false)),
            (1, 0, 100, Some(false)),
            (21, 5, 100, None),
        ] {
            let found = descends(process, from, generations, parent);
            assert_eq!(found, expected, "{process} from {from}");
        }
    }
}
