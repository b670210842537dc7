//! The numbers in the ids of jobs: one sequence for each kind and session, which goes on where the log ends (P-66).

use transom_harness::jobs::{JobKind, JobRecord};

/// The highest number of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    bash: u64,
    subagent: u64,
}

impl Numbers {
    /// Those of some jobs.
    pub(crate) fn highest(records: &[JobRecord]) -> Numbers {
        let mut numbers = Numbers::default();
        for record in records {
            let highest = numbers.at(record.kind);
            *highest = number(record).unwrap_or_default().max(*highest);
        }
        numbers
    }

    /// The next number of a kind; never one that the log has (P-66).
    pub(crate) fn next(&mut self, kind: JobKind, logged: &[JobRecord]) -> u64 {
        let highest = Numbers::highest(logged).of(kind);
        let given = self.at(kind);
        *given = (*given).max(highest) + 1;
        *given
    }

    pub(crate) fn of(self, kind: JobKind) -> u64 {
        match kind {
            JobKind::Bash => self.bash,
            JobKind::Subagent => self.subagent,
        }
    }

    fn at(&mut self, kind: JobKind) -> &mut u64 {
        match kind {
            JobKind::Bash => &mut self.bash,
            JobKind::Subagent => &mut self.subagent,
        }
    }
}

/// The number of one job; none of an id that nobody here has given.
pub(crate) fn number(record: &JobRecord) -> Option<u64> {
    record.id.strip_prefix(record.kind.as_str())?.strip_prefix('-')?.parse().ok()
}
