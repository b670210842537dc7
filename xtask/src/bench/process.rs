//! Memory of a running process, as Linux counts it. Whose process it is, is left to the measurements.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

/// Memory in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident, with pages that others map too.
    pub resident: u64,
    /// Proportional: a page that n processes map counts for an nth.
    pub proportional: u64,
}

/// The memory of a process now.
pub fn memory(id: u32) -> Result<Memory> {
    let file = |name: &str| {
        let path = PathBuf::from(format!("/proc/{id}/{name}"));
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    Ok(Memory {
        resident: kib(&file("status")?, "VmRSS").context("/proc/<pid>/status says no VmRSS")?,
        proportional: kib(&file("smaps_rollup")?, "Pss")
            .context("/proc/<pid>/smaps_rollup says no Pss")?,
    })
}

/// The field of this name in a text of lines such as `VmRSS:\t  5312 kB`.
fn kib(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "00400000-7ff [rollup]\nRss:  5312 kB\nPss_Dirty:   12 kB\nPss:    4096 kB\nSwap: many\n";
        for (field, expected) in [
            ("Rss", Some(5312)),
            ("Pss", Some(4096)),
            ("Pss_Dirty", Some(12)),
            ("Swap", None),
            ("Ss", None),
        ] {
            assert_eq!(kib(text, field), expected, "{field}");
        }
    }

    #[test]
    fn this_process_has_memory() {
        let found = memory(std::process::id()).expect("Linux says it");
        assert!(found.resident >= found.proportional && found.proportional > 0, "{found:?}");
    }
}
