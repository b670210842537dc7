//! The jobs of a session as its agent sees them: logged when they start and end, and told to the model
//! in a notice that may wake it (P-77, P-78). Who runs them is `transom-tools`.

use super::{Agent, Delivery, Effect, Happened, Live};
use crate::{
    block::Block,
    event::{CallRef, Data},
    jobs::{JobCause, JobChange, JobKind, JobRecord, JobStatus, notice},
    ports::StartedJob,
};

/// How often in a row ends of jobs may wake an agent before a person says something (P-77).
pub(super) const WAKES: u32 = 3;

impl Agent {
    /// A call has started a job; its result follows (P-78).
    pub(super) fn register_job(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        call_id: &str,
        job: StartedJob,
    ) {
        let StartedJob { id, kind, label, started_at } = job;
        let data = Data::JobRegistered {
            job_id: &id,
            kind,
            label: &label,
            started_at,
            tool_call: CallRef { call_id },
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        let record = JobRecord {
            id,
            kind,
            label,
            status: JobStatus::Running,
            detail: None,
            started_at,
            finished_at: None,
        };
        self.log.jobs.push(record);
        self.show_jobs(out);
        if self.disposing {
            let drain_ms = self.config.drain_ms;
            self.drain_jobs(out, drain_ms);
        }
    }

    /// Jobs that were over before their start was logged.
    pub(super) fn settle_early_jobs(&mut self, out: &mut Vec<Effect>, now: u64) {
        for change in std::mem::take(&mut self.early_jobs) {
            self.job_changed(out, now, change);
        }
    }

    /// Something has become of a job.
    pub(super) fn job_changed(&mut self, out: &mut Vec<Effect>, now: u64, change: JobChange) {
        if self.failure.is_some() {
            // Nothing is written behind what was lost (decision 1g); whoever goes on finds the job lost.
            return;
        }
        let id = match &change {
            JobChange::Stopping { id } | JobChange::Ended { id, .. } => id,
        };
        let Some(at) = self.log.jobs.iter().position(|job| job.id == *id) else {
            // Its result is not committed yet.
            if self.is_running() {
                self.early_jobs.push(change);
            }
            return;
        };
        let Some(job) = self.log.jobs.get_mut(at).filter(|job| !job.status.is_end()) else {
            return;
        };
        match change {
            JobChange::Stopping { .. } => {
                job.status = JobStatus::Stopping;
                self.show_jobs(out);
            }
            JobChange::Ended { status, detail, finished_at, cause, reported, .. } => {
                job.status = status;
                job.detail = detail;
                job.finished_at = Some(finished_at);
                let job = job.clone();
                self.log_end(out, now, &job, cause);
                self.log.forget_old_jobs();
                self.show_jobs(out);
                if !reported && cause != JobCause::Teardown && !self.disposing {
                    self.tell_of_end(out, now, &job);
                }
            }
        }
    }

    fn log_end(&mut self, out: &mut Vec<Effect>, now: u64, job: &JobRecord, cause: JobCause) {
        let data = Data::JobSettled {
            job_id: &job.id,
            status: job.status,
            detail: job.detail.as_deref(),
            finished_at: job.finished_at.unwrap_or(now),
            cause,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
    }

    /// One message to the model: into the running turn, or as a turn of its own (P-77).
    fn tell_of_end(&mut self, out: &mut Vec<Effect>, now: u64, job: &JobRecord) {
        let (text, source) = notice(job);
        let message = self.told(vec![Block::text(text)], source);
        let wakes = !self.is_running() && self.jobs_may_wake();
        let delivery = if wakes { Delivery::Followup } else { Delivery::Inject };
        if wakes {
            // First: a turn that claims a person's message refills them.
            self.wakes -= 1;
        }
        // An inbox that is full has said so already; the end stands in the log.
        let _ = self.send(out, now, message, delivery);
    }

    pub(super) fn refill_wakes(&mut self) {
        self.wakes = WAKES;
    }

    fn jobs_may_wake(&self) -> bool {
        self.wakes > 0 && !self.config.quiet_jobs
    }

    /// Whether a job runs whose end will wake the session.
    pub(super) fn a_job_will_wake(&self) -> bool {
        self.jobs_may_wake() && self.has_running_jobs()
    }

    /// Whether a job still has to end before the session can leave.
    pub fn has_running_jobs(&self) -> bool {
        self.log.jobs.iter().any(|job| !job.status.is_end())
    }

    /// Whether it has handed work on that it will hear the end of: the run may be over, and its end still on its way
    /// here. A broken agent hears of nothing.
    pub fn awaits_a_background_run(&self) -> bool {
        let runs = |job: &JobRecord| job.kind == JobKind::Subagent && !job.status.is_end();
        self.failure.is_none() && self.log.jobs.iter().any(runs)
    }

    /// The time to wait for jobs is over: those that still run are recorded as killed.
    pub(super) fn give_up_jobs(&mut self, out: &mut Vec<Effect>, now: u64) {
        let running: Vec<_> = self
            .log
            .jobs
            .iter()
            .filter(|job| !job.status.is_end())
            .map(|job| job.id.clone())
            .collect();
        for id in running {
            let change = JobChange::Ended {
                id,
                status: JobStatus::Killed,
                detail: Some("killed before exit".to_owned()),
                finished_at: now,
                cause: JobCause::Teardown,
                reported: true,
            };
            self.job_changed(out, now, change);
        }
    }

    /// Starts the wait for jobs of a session that goes away.
    pub(super) fn drain_jobs(&mut self, out: &mut Vec<Effect>, drain_ms: u64) {
        if self.has_running_jobs() && self.job_drain.is_none() {
            let token = self.token();
            self.job_drain = Some(token);
            out.push(Effect::Timer { token, after_ms: drain_ms });
        }
    }

    /// What concerns jobs and no turn. Gives back what does not.
    pub(super) fn hear_of_jobs(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        happened: Happened,
    ) -> Option<Happened> {
        match happened {
            Happened::Job(change) => {
                self.job_changed(out, now, change);
                None
            }
            Happened::Timer(token) if self.job_drain == Some(token) => {
                self.give_up_jobs(out, now);
                None
            }
            other => Some(other),
        }
    }

    fn show_jobs(&self, out: &mut Vec<Effect>) {
        out.push(Effect::Live(Live::Jobs));
    }
}
