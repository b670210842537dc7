//! The background jobs of a host: limits, ids, ends, and who is told (P-63 to P-68, P-77, P-78). What a job does is
//! its producer's business; when the model hears of an end, the loop's.

mod numbers;
mod output;
mod work;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{runtime::Handle, sync::watch, task::spawn_blocking};
use tracing::error;
use transom_frame::SessionId;
use transom_harness::{
    jobs::{JobCause, JobChange, JobKind, JobRecord, JobStatus},
    ports::StartedJob,
};
use transom_process::{SpillDirectory, Tree};

use self::numbers::{Numbers, number};
pub(crate) use self::{
    output::{Output, TAIL_BYTES_MAX, Which},
    work::{End, Order, Work},
};
use crate::{
    abort::Abort,
    fence::Fence,
    options::{JobLimits, JobSink},
    report::{dropped, push_line},
    sessions::job_files,
    tool::{Call, ToolError},
};

/// Between `SIGTERM` and `SIGKILL`, of jobs and of commands that are waited for (L-85, P-85).
pub(crate) const KILL_GRACE: Duration = Duration::from_millis(3_000);

/// What the operator's kill is called (P-82).
const BY_OPERATOR: &str = "killed by the operator";

/// The jobs of all sessions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Jobs {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Handle,
    limits: Mutex<JobLimits>,
    sink: Option<JobSink>,
    /// Where the sessions' own directories are, in which an earlier host has left files.
    fence: Fence,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionId, Owned>,
    /// Jobs of all sessions that are not over.
    live: usize,
}

/// The jobs of one session, in order of start.
struct Owned {
    /// The highest numbers that were in the log before the first start here: those jobs are an earlier host's.
    inherited: Numbers,
    given: Numbers,
    jobs: Vec<Job>,
    /// What is left is only waited for.
    forgotten: bool,
}

struct Job {
    record: JobRecord,
    /// The model has learnt of the end.
    reported: bool,
    waiters: usize,
    order: watch::Sender<Option<Order>>,
    over: watch::Sender<bool>,
    output: Output,
    tree: Option<Tree>,
    /// Where the files of the output are.
    spills: Option<SpillDirectory>,
    /// Changes that wait for the result of the call that began the job.
    held: Option<Vec<JobChange>>,
}

/// Why the operator's kill does nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// The session has no such job.
    #[error("unknown job {0}")]
    Unknown(String),
    /// It is over.
    #[error("job {id} had already finished {status}")]
    Over {
        /// The job.
        id: String,
        /// How it ended: `[status: …]`.
        status: String,
    },
}

impl Shared {
    fn limits(&self) -> JobLimits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs {
    pub(crate) fn new(
        runtime: Handle,
        limits: JobLimits,
        sink: Option<JobSink>,
        fence: Fence,
    ) -> Jobs {
        let (limits, table) = (Mutex::new(limits), Mutex::default());
        Jobs { shared: Arc::new(Shared { runtime, limits, sink, fence, table }) }
    }

    /// Sets other bounds for jobs that begin, and for those kept, from now on.
    pub(crate) fn set_limits(&self, limits: JobLimits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Begins a job on behalf of a call. From here on the call's own signal does not reach it (P-69).
    pub(crate) fn start<F, R>(
        &self,
        call: &Call,
        kind: JobKind,
        label: &str,
        run: R,
    ) -> Result<StartedJob, ToolError>
    where
        F: Future<Output = End> + Send + 'static,
        R: FnOnce(Work) -> F + Send + 'static,
    {
        let (started, work) = self.enter(call, kind, label)?;
        let (jobs, session, id) = (self.clone(), call.session.clone(), started.id.clone());
        let runtime = self.shared.runtime.clone();
        self.shared.runtime.spawn(async move {
            // A task of its own, so that a panic ends there.
            let end = runtime.spawn(async move { run(work).await }).await;
            let end = end.unwrap_or_else(|failure| {
                error!(job = id, %failure, "a job has a bug");
                End::failed("an error in this host")
            });
            jobs.end(&session, &id, end);
        });
        Ok(started)
    }

    fn enter(
        &self,
        call: &Call,
        kind: JobKind,
        label: &str,
    ) -> Result<(StartedJob, Work), ToolError> {
        let limits = self.shared.limits();
        let mut table = self.lock();
        // Under the lock, and whoever tears down or forgets says so there before it looks here: a job either sees that
        // or is seen. First of all, because nothing of a session that is gone may be made anew.
        if call.abort.is_set() || call.ticket.life().is_over() {
            return Err(ToolError::aborted());
        }
        let live = table.live;
        let owned = table.sessions.entry(call.session.clone());
        let owned = owned.or_insert_with(|| Owned::new(&call.jobs));
        owned.forgotten = false;
        if owned.live().count() >= limits.session_max {
            let max = limits.session_max;
            return Err(ToolError::new(format!(
                "background job limit reached for this owner (limit: {max}); use job_kill to stop an unneeded job, \
                 wait for it to finish, then retry"
            )));
        }
        if live >= limits.host_max {
            let max = limits.host_max;
            return Err(ToolError::new(format!(
                "this host runs its maximum of background jobs ({max}); retry later"
            )));
        }
        let number = owned.given.next(kind, &call.jobs);
        let id = format!("{}-{number}", kind.as_str());
        let (order, ordered) = watch::channel(None);
        let output = Output::default();
        let started_at = epoch_ms();
        let record = JobRecord {
            id: id.clone(),
            kind,
            label: label.to_owned(),
            status: JobStatus::Running,
            detail: None,
            started_at,
            finished_at: None,
        };
        owned.jobs.push(Job {
            record,
            reported: false,
            waiters: 0,
            order,
            over: watch::Sender::new(false),
            output: output.clone(),
            tree: None,
            spills: None,
            held: Some(Vec::new()),
        });
        table.live += 1;
        let work = Work {
            jobs: self.clone(),
            session: call.session.clone(),
            id: id.clone(),
            order: ordered,
            output,
        };
        Ok((StartedJob { id, kind, label: label.to_owned(), started_at }, work))
    }

    /// The result of the call that began the job is out: now its changes may be told.
    pub(crate) fn release(&self, session: &SessionId, id: &str) {
        let mut table = self.lock();
        let Some(owned) = table.sessions.get_mut(session) else { return };
        let held = owned.find(id).and_then(|job| job.held.take());
        for change in held.into_iter().flatten() {
            self.tell(session, change);
        }
        let dropped = owned.trim(self.shared.limits().ended_max);
        table.drop_idle(session);
        self.remove(dropped);
    }

    /// What has come of a job since the last look (P-73). With `patience`, waits for its end.
    pub(crate) async fn look(
        &self,
        call: &Call,
        id: &str,
        patience: Option<Duration>,
    ) -> Result<String, ToolError> {
        let waiting = match patience {
            Some(patience) => Some(self.wait(&call.session, id, patience, &call.abort).await?),
            None => None,
        };
        match self.look_at_own(call, id, waiting) {
            Ok(text) => Ok(text),
            Err(None) => Err(unknown(id)),
            Err(Some(record)) => Ok(self.look_at_earlier(&call.session, record).await),
        }
    }

    /// The job of this host, or the record of an earlier host's.
    fn look_at_own(
        &self,
        call: &Call,
        id: &str,
        waiting: Option<Waiting>,
    ) -> Result<String, Option<JobRecord>> {
        let mut table = self.lock();
        if let Some(mut waiting) = waiting {
            // Under the same lock as the look: either the end counts this waiter, or the look sees no end.
            waiting.leave(&mut table);
        }
        let mut nothing = Owned::new(&call.jobs);
        let owned = table.sessions.get_mut(&call.session).unwrap_or(&mut nothing);
        if let Some(job) = owned.find(id) {
            let is_over = job.record.status.is_end();
            job.reported |= is_over;
            let text = job.output.read(is_over);
            return Ok(with_status(text, &job.record));
        }
        let earlier = owned.earlier(&call.jobs, self.shared.limits().ended_max);
        Err(earlier.into_iter().find(|record| record.id == id).cloned())
    }

    /// What an earlier host has left of a job: its record, and files if it was killed (P-78).
    async fn look_at_earlier(&self, session: &SessionId, record: JobRecord) -> String {
        let (fence, session, id) = (self.shared.fence.clone(), session.clone(), record.id.clone());
        let files = spawn_blocking(move || job_files(&fence.confinement(), &session, &id)).await;
        // It fails only while the runtime shuts down.
        let files: Vec<_> = files.iter().flatten().map(|path| path.display().to_string()).collect();
        let mut text = "(no new output)".to_owned();
        if !files.is_empty() {
            push_line(&mut text, &dropped(&files));
        }
        with_status(text, &record)
    }

    async fn wait(
        &self,
        session: &SessionId,
        id: &str,
        patience: Duration,
        abort: &Abort,
    ) -> Result<Waiting, ToolError> {
        let mut waiting = Waiting { jobs: self.clone(), place: None };
        let mut over = {
            let mut table = self.lock();
            let job = table.sessions.get_mut(session).and_then(|owned| owned.find(id));
            // Jobs of an earlier host are over, and of strangers is spoken afterwards.
            let Some(job) = job.filter(|job| !job.record.status.is_end()) else {
                return Ok(waiting);
            };
            job.waiters += 1;
            waiting.place = Some((session.clone(), id.to_owned()));
            job.over.subscribe()
        };
        tokio::select! {
            biased;
            // An error means that the record is gone, which is an end.
            _ = over.wait_for(|over| *over) => {}
            () = abort.set() => return Err(ToolError::new("wait aborted")),
            () = tokio::time::sleep(patience) => {}
        }
        Ok(waiting)
    }

    /// The session's jobs, in order of start, those of earlier hosts first.
    pub(crate) fn list(&self, call: &Call) -> Vec<JobRecord> {
        let mut table = self.lock();
        let mut nothing = Owned::new(&call.jobs);
        let owned = table.sessions.get_mut(&call.session).unwrap_or(&mut nothing);
        let earlier = owned.earlier(&call.jobs, self.shared.limits().ended_max);
        let earlier = earlier.into_iter().cloned();
        earlier.chain(owned.jobs.iter().map(|job| job.record.clone())).collect()
    }

    /// Asks a job to end on the model's behalf; says so (P-75).
    pub(crate) fn kill(&self, call: &Call, id: &str) -> Result<String, ToolError> {
        let mut table = self.lock();
        let mut nothing = Owned::new(&call.jobs);
        let owned = table.sessions.get_mut(&call.session).unwrap_or(&mut nothing);
        if let Some(job) = owned.find(id) {
            job.reported = true;
            if job.record.status.is_end() {
                return Ok(had_finished(&job.record));
            }
            let order = Order { cause: JobCause::Kill, by_operator: false, grace: KILL_GRACE };
            if job.stop(order) {
                self.change(&call.session, job, JobChange::Stopping { id: id.to_owned() });
            }
            return Ok(format!("requested cancellation of job {id}"));
        }
        let earlier = owned.earlier(&call.jobs, self.shared.limits().ended_max);
        match earlier.into_iter().find(|record| record.id == id) {
            Some(record) => Ok(had_finished(record)),
            None => Err(unknown(id)),
        }
    }

    /// Asks a job to end on the operator's behalf; the model will be told (P-82).
    pub(crate) fn kill_for_operator(&self, session: &SessionId, id: &str) -> Result<(), KillError> {
        let mut table = self.lock();
        let job = table.sessions.get_mut(session).and_then(|owned| owned.find(id));
        let Some(job) = job else { return Err(KillError::Unknown(id.to_owned())) };
        if job.record.status.is_end() {
            let status = job.record.status_text();
            return Err(KillError::Over { id: id.to_owned(), status });
        }
        let order = Order { cause: JobCause::Kill, by_operator: true, grace: KILL_GRACE };
        if job.stop(order) {
            self.change(session, job, JobChange::Stopping { id: id.to_owned() });
        }
        Ok(())
    }

    /// Tells all jobs of a session to end (P-78), `SIGKILL` after `grace`; gives their trees, to be ended at once.
    pub(crate) fn terminate(&self, session: &SessionId, grace: Duration) -> Vec<Tree> {
        let mut table = self.lock();
        table.sessions.get_mut(session).map_or_else(Vec::new, |owned| owned.terminate(grace))
    }

    /// Drops the records. What still runs is told to end; gives its trees, to be ended at once.
    pub(crate) fn forget(&self, session: &SessionId) -> Vec<Tree> {
        let mut table = self.lock();
        let Some(owned) = table.sessions.get_mut(session) else { return Vec::new() };
        let trees = owned.terminate(KILL_GRACE);
        owned.forgotten = true;
        let dropped = owned.trim(self.shared.limits().ended_max);
        table.drop_idle(session);
        self.remove(dropped);
        trees
    }

    fn end(&self, session: &SessionId, id: &str, end: End) {
        let mut table = self.lock();
        table.live = table.live.saturating_sub(1);
        // Entries stay until their last job is over.
        let Some(owned) = table.sessions.get_mut(session) else { return };
        let Some(job) = owned.find(id) else { return };
        let order = *job.order.borrow();
        let by_operator = order.is_some_and(|order| order.by_operator);
        let finished_at = epoch_ms();
        let record = &mut job.record;
        record.status = end.status;
        record.detail = end.detail;
        if by_operator {
            // Whatever its last exit code was, that is not why it ended.
            record.status = JobStatus::Killed;
            record.detail = Some(BY_OPERATOR.to_owned());
        }
        record.finished_at = Some(finished_at);
        job.tree = None;
        let cause = order.map_or(JobCause::Producer, |order| order.cause);
        // Nobody is left to be told of an end that comes with that of its session (P-78).
        job.reported |= job.waiters > 0 || cause == JobCause::Teardown;
        job.over.send_replace(true);
        let change = JobChange::Ended {
            id: id.to_owned(),
            status: job.record.status,
            detail: job.record.detail.clone(),
            finished_at,
            cause,
            reported: job.reported,
        };
        self.change(session, job, change);
        let dropped = owned.trim(self.shared.limits().ended_max);
        table.drop_idle(session);
        self.remove(dropped);
    }

    /// Removes the files of jobs that are no longer known, away from whoever holds the table.
    fn remove(&self, jobs: Vec<Job>) {
        let files = jobs.into_iter().filter_map(|job| Some((job.spills?, job.output.files())));
        let files: Vec<_> = files.filter(|(_, files)| !files.is_empty()).collect();
        if !files.is_empty() {
            self.shared.runtime.spawn_blocking(move || {
                for (spills, files) in files {
                    files.iter().for_each(|file| spills.remove(file));
                }
            });
        }
    }

    fn change(&self, session: &SessionId, job: &mut Job, change: JobChange) {
        match &mut job.held {
            Some(held) => held.push(change),
            None => self.tell(session, change),
        }
    }

    /// Under the lock, so that changes are told in their order.
    fn tell(&self, session: &SessionId, change: JobChange) {
        if let Some(sink) = &self.shared.sink {
            sink(session.clone(), change);
        }
    }

    /// How many sessions are known.
    #[cfg(test)]
    pub(crate) fn sessions(&self) -> usize {
        self.lock().sessions.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock can leave the table half changed.
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn drop_idle(&mut self, session: &SessionId) {
        if self.sessions.get(session).is_some_and(|owned| owned.forgotten && owned.jobs.is_empty())
        {
            self.sessions.remove(session);
        }
    }
}

impl Owned {
    fn new(logged: &[JobRecord]) -> Owned {
        let numbers = Numbers::highest(logged);
        Owned { inherited: numbers, given: numbers, jobs: Vec::new(), forgotten: false }
    }

    fn find(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.record.id == id)
    }

    fn live(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| !job.record.status.is_end())
    }

    /// The newest of the jobs that an earlier host has run, as far as there is room beside this host's own.
    fn earlier<'l>(&self, logged: &'l [JobRecord], ended_max: usize) -> Vec<&'l JobRecord> {
        let room = ended_max.saturating_sub(self.jobs.len() - self.live().count());
        let earlier = logged.iter().filter(|record| {
            number(record).is_some_and(|number| number <= self.inherited.of(record.kind))
        });
        let earlier: Vec<_> = earlier.collect();
        let skip = earlier.len().saturating_sub(room);
        earlier.into_iter().skip(skip).collect()
    }

    fn terminate(&mut self, grace: Duration) -> Vec<Tree> {
        let order = Order { cause: JobCause::Teardown, by_operator: false, grace };
        let mut trees = Vec::new();
        for job in self.jobs.iter_mut().filter(|job| !job.record.status.is_end()) {
            job.stop(order);
            trees.extend(job.tree.clone());
        }
        trees
    }

    /// Takes out ended jobs that are too many, those whose end is known first (P-68).
    fn trim(&mut self, ended_max: usize) -> Vec<Job> {
        // A job whose end is still held back is wanted once more.
        let is_over = |job: &Job| job.record.status.is_end() && job.held.is_none();
        let max = if self.forgotten { 0 } else { ended_max };
        let mut dropped = Vec::new();
        while self.jobs.iter().filter(|job| is_over(job)).count() > max {
            let at = self.jobs.iter().position(|job| is_over(job) && job.reported);
            let at = at.or_else(|| self.jobs.iter().position(is_over));
            let Some(at) = at else { break };
            dropped.push(self.jobs.remove(at));
        }
        dropped
    }
}

impl Job {
    /// Gives an order; `true` if it is the first. A later one can only hurry it.
    fn stop(&mut self, order: Order) -> bool {
        let is_first = self.record.status == JobStatus::Running;
        self.record.status = JobStatus::Stopping;
        self.order.send_modify(|given| match given {
            Some(given) => given.grace = given.grace.min(order.grace),
            None => *given = Some(order),
        });
        is_first
    }
}

/// A wait in progress, which an end counts as a report (P-77).
struct Waiting {
    jobs: Jobs,
    place: Option<(SessionId, String)>,
}

impl Waiting {
    fn leave(&mut self, table: &mut Table) {
        if let Some((session, id)) = self.place.take() {
            let job = table.sessions.get_mut(&session).and_then(|owned| owned.find(&id));
            if let Some(job) = job {
                job.waiters = job.waiters.saturating_sub(1);
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.place.is_some() {
            let jobs = self.jobs.clone();
            self.leave(&mut jobs.lock());
        }
    }
}

fn unknown(id: &str) -> ToolError {
    ToolError::new(format!("unknown job {id}"))
}

fn with_status(mut text: String, record: &JobRecord) -> String {
    push_line(&mut text, &record.status_text());
    text
}

fn had_finished(record: &JobRecord) -> String {
    let status = record.status_text();
    format!("job {} had already finished {status}", record.id)
}

/// Epoch milliseconds.
fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
