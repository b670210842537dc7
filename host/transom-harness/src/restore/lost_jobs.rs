//! Jobs that ran when the host stopped, as a continued session finds them: settled as lost, and told of (P-78). The
//! registry that runs jobs is `transom-tools`.

use std::sync::Arc;

use super::Restored;
use crate::{
    block::Block,
    event::{Data, Target},
    jobs::{JobCause, JobStatus, notice},
    message::{Message, Role, Source},
};

/// What became of a job that ran when the host stopped (P-78).
const LOST: &str = "lost: the host stopped before it ended";

impl Restored {
    /// Jobs that ran when the host stopped: their owner is told, and not woken (P-78).
    pub(super) fn lose_jobs(&mut self, now: u64) {
        let time = self.log.last_time();
        let mut lost = Vec::new();
        for job in self.log.jobs.iter_mut().filter(|job| !job.status.is_end()) {
            job.status = JobStatus::Failed;
            job.detail = Some(LOST.to_owned());
            job.finished_at = Some(now);
            lost.push(job.clone());
        }
        for job in lost {
            let data = Data::JobSettled {
                job_id: &job.id,
                status: job.status,
                detail: job.detail.as_deref(),
                finished_at: now,
                cause: JobCause::Lost,
            };
            self.closers.push(self.log.append(time, &data));
            let (text, source) = notice(&job);
            let id = format!("lost-job-{}-{}", job.id, self.log.next_seq());
            self.leave_word(id, vec![Block::text(text)], source);
        }
    }

    /// A message that waits for the next step and wakes nobody.
    pub(super) fn leave_word(&mut self, id: String, content: Vec<Block>, source: Source) {
        let message = Arc::new(Message { id: id.into(), role: Role::User, content, source });
        let inserted = [Arc::clone(&message)];
        let data = Data::InboxSpliced {
            target: Target::NextStep,
            start: self.inbox.list(Target::NextStep).len(),
            removed_count: None,
            inserted: &inserted,
            outcome: None,
        };
        self.closers.push(self.log.append(self.log.last_time(), &data));
        self.inbox.push(Target::NextStep, message);
    }
}
