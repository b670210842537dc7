//! Background jobs: numbered by kind, started by a call, ended once (P-66, P-78).

use super::{Auditor, Checked, Expected, bad, ensure, envelope::Envelope};
use crate::jobs::{JobKind, JobStatus};

/// The session's jobs and their numbers.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) all: Vec<Job>,
    bash: Numbers,
    subagent: Numbers,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: JobKind,
    pub(super) status: JobStatus,
}

#[derive(Debug, Default)]
struct Numbers {
    used: Vec<u64>,
    /// A session begins here, which may count anew.
    may_restart: bool,
}

impl Numbers {
    fn last(&self) -> u64 {
        self.used.iter().copied().max().unwrap_or_default()
    }

    /// Takes a number. Calls that overlap take theirs as they start, and are logged in the model's order: of
    /// `starting` calls each may have any of the next numbers.
    fn take(&mut self, number: u64, starting: u64) -> bool {
        if self.may_restart && (1..=starting).contains(&number) {
            self.used.clear();
        }
        let next = number >= 1 && number <= self.last() + starting && !self.used.contains(&number);
        self.used.push(number);
        self.may_restart = false;
        next
    }
}

impl Jobs {
    /// A fork inherits the events and no jobs.
    pub(super) fn forget(&mut self) {
        self.all.clear();
        self.may_restart();
    }

    pub(super) fn may_restart(&mut self) {
        self.bash.may_restart = true;
        self.subagent.may_restart = true;
    }

    /// How many jobs of a kind there have been, by their numbers.
    pub(super) fn count(&self, kind: JobKind) -> u64 {
        match kind {
            JobKind::Bash => self.bash.last(),
            JobKind::Subagent => self.subagent.last(),
        }
    }

    fn registered(&mut self, event: &Envelope<'_>, starting: u64) -> Checked {
        let (id, word) = (event.text("jobId"), event.text("kind"));
        let (kind, numbers) = match &*word {
            "bash" => (JobKind::Bash, &mut self.bash),
            _ => (JobKind::Subagent, &mut self.subagent),
        };
        let number = id.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let number = number.and_then(|digits| digits.parse().ok()).unwrap_or_default();
        let due = numbers.last() + 1;
        let holds = numbers.take(number, starting) && id == format!("{word}-{number}");
        ensure(holds, "P-66", || {
            let most = match starting {
                0 | 1 => String::new(),
                _ => format!(", at most \"{word}-{}\"", due + starting - 1),
            };
            format!("jobId must be a new one, \"{word}-{due}\"{most}, got \"{id}\"")
        })?;
        self.all.push(Job { id: id.into(), kind, status: JobStatus::Running });
        Ok(())
    }

    pub(super) fn settled(&mut self, event: &Envelope<'_>, idle: bool) -> Checked {
        let id = event.text("jobId");
        let Some(job) = self.all.iter_mut().rev().find(|job| job.id == id) else {
            return bad(
                "P-78",
                format!("job/settled of \"{id}\", which this session has not started"),
            );
        };
        ensure(!job.status.is_end(), "P-78", || format!("a second job/settled of \"{id}\""))?;
        ensure(idle || !event.settles_lost_job(), "P-78", || {
            format!("job \"{id}\" is lost inside a turn, and only a resume finds that out")
        })?;
        job.status = match &*event.text("status") {
            "completed" => JobStatus::Completed,
            "killed" => JobStatus::Killed,
            _ => JobStatus::Failed,
        };
        Ok(())
    }
}

impl Auditor {
    pub(super) fn job_registered(&mut self, event: &Envelope<'_>) -> Checked {
        let call =
            event.data.object("toolCall").and_then(|call| call.text("callId")).unwrap_or_default();
        let answer = self.turn.as_ref().and_then(|turn| turn.open.as_ref()?.answer.as_ref());
        let due = answer.and_then(|calls| calls.0.iter().find(|call| !call.answered));
        let starts = due.is_some_and(|due| due.id == call && due.called.is_some());
        ensure(starts, "P-78", || {
            format!("job/registered by call \"{call}\", whose tool/result is not due")
        })?;
        let starting = answer.into_iter().flat_map(|calls| &calls.0);
        let starting = starting.filter(|call| call.called.is_some() && !call.answered).count();
        self.jobs.registered(event, u64::try_from(starting).unwrap_or(u64::MAX))?;
        self.expected = Some(Expected::Result(call.into()));
        Ok(())
    }
}
