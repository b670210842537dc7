//! Background jobs: numbered by kind, started by a call, ended once (P-66, P-78).

use super::{Auditor, Checked, Expected, bad, ensure, envelope::Envelope};
use crate::jobs::{JobKind, JobStatus};

/// The session's jobs and their numbers.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) all: Vec<Job>,
    bash: Number,
    subagent: Number,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: JobKind,
    pub(super) status: JobStatus,
}

#[derive(Debug, Default)]
struct Number {
    last: u64,
    /// A session begins here, which may count anew.
    may_restart: bool,
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
            JobKind::Bash => self.bash.last,
            JobKind::Subagent => self.subagent.last,
        }
    }

    fn registered(&mut self, event: &Envelope<'_>) -> Checked {
        let (id, word) = (event.text("jobId"), event.text("kind"));
        let (kind, number) = match &*word {
            "bash" => (JobKind::Bash, &mut self.bash),
            _ => (JobKind::Subagent, &mut self.subagent),
        };
        let found =
            id.strip_prefix(kind.as_str()).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        let due = number.last + 1;
        let holds = found == Some(due) || (number.may_restart && found == Some(1));
        ensure(holds && id == format!("{word}-{}", found.unwrap_or_default()), "P-66", || {
            format!("jobId must be \"{word}-{due}\", got \"{id}\"")
        })?;
        *number = Number { last: found.unwrap_or_default(), may_restart: false };
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
        self.jobs.registered(event)?;
        self.expected = Some(Expected::Result(call.into()));
        Ok(())
    }
}
