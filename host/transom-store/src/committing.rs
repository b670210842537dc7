//! What every store does with what waits: one thread takes all of it, stores it, reports in order.
//! How a batch is stored is the store's own; what waits is `queue.rs`.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit, Sink, StoreError};

use crate::queue::{Batch, Keep, Queue, Queued};

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stored,
    Failed(String),
}

/// How far a batch came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was stored, or not, and whoever listens knows.
    Reported,
    /// A bug; what of the batch is stored, nobody knows.
    Panicked,
}

/// The half of a store that writes.
pub(crate) trait Storing {
    /// Stores a batch; one verdict for each of its events.
    fn store(&mut self, batch: &mut Batch) -> Vec<Verdict>;

    /// Comes behind the reports of a batch.
    fn settle(&mut self, batch: &Batch, outcome: Outcome);
}

/// The thread that writes, and the way to it.
pub(crate) struct Committer {
    queue: Arc<Queue>,
    sink: Arc<Sink<Commit>>,
    /// `None` once closed.
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl Committer {
    pub(crate) fn start(
        sink: Sink<Commit>,
        run: impl FnOnce(&Queue, &Sink<Commit>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Committer, StoreError> {
        let (queue, sink) = (Arc::new(Queue::default()), Arc::new(sink));
        let (taken_from, told) = (Arc::clone(&queue), Arc::clone(&sink));
        let thread = thread::Builder::new()
            .name("transom-store".to_owned())
            .spawn(move || run(&taken_from, &told))
            .map_err(|error| StoreError::Io(format!("cannot start the store's thread: {error}")))?;
        Ok(Committer { queue, sink, thread: Mutex::new(Some(thread)) })
    }

    /// Queues events. Gives them back if the writer has gone, and has reported them as failed then.
    pub(crate) fn append(
        &self,
        events: Vec<Append>,
        closed: impl FnOnce() -> String,
    ) -> Result<(), Vec<Append>> {
        let Err(refused) = self.queue.append(events) else { return Ok(()) };
        // The writer reports nothing more, so this keeps the order.
        if let (Some(first), Some(last)) = (refused.first(), refused.last()) {
            let message = closed();
            (self.sink)(Commit::Failed { from: first.number, through: last.number, message });
        }
        Err(refused)
    }

    /// Queues an attachment. Gives it back if no more may come.
    pub(crate) fn keep(&self, keep: Keep) -> Result<(), Keep> {
        self.queue.keep(keep)
    }

    /// Lets nothing more in, does `meanwhile` and waits until all that was queued is stored.
    pub(crate) fn close(&self, meanwhile: impl FnOnce()) -> Result<(), StoreError> {
        // There is one handle under this lock, which is there or not.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id()) {
            return Err(StoreError::Io("the store cannot be closed from its own sink".to_owned()));
        }
        self.queue.close();
        meanwhile();
        let Some(thread) = thread.take() else { return Ok(()) };
        thread
            .join()
            .unwrap_or_else(|_| Err(StoreError::Io("the store's thread has panicked".to_owned())))
    }
}

/// Stores until the queue is closed and empty.
pub(crate) fn drive(queue: &Queue, sink: &Sink<Commit>, store: &mut dyn Storing) {
    while let Some(mut batch) = queue.take() {
        // Whoever waits for this batch must hear of it, whatever goes wrong in here.
        let stored = panic::catch_unwind(AssertUnwindSafe(|| {
            let verdicts = store.store(&mut batch);
            for commit in reports(&batch.events, verdicts) {
                sink(commit);
            }
        }));
        let outcome = if stored.is_ok() { Outcome::Reported } else { Outcome::Panicked };
        store.settle(&batch, outcome);
        if outcome == Outcome::Panicked
            && let (Some(first), Some(last)) = (batch.events.first(), batch.events.last())
        {
            let (from, through) = (first.append.number, last.append.number);
            let message = "the store failed inside; its log says how".to_owned();
            sink(Commit::Failed { from, through, message });
        }
    }
}

/// What is wrong with an event that does not continue exactly at its session's stored end (L-73).
pub(crate) fn misplaced(queued: &Queued, is_stored: bool, next: u64) -> Option<String> {
    let Queued { append, index, .. } = queued;
    if append.seq == 0 && is_stored {
        return Some(format!(
            "session \"{}\" already exists: another process began it meanwhile",
            append.session
        ));
    }
    (append.seq != next).then(|| {
        format!(
            "append seq mismatch for \"{}\": expected {next} at index {index}, got {}",
            append.session, append.seq
        )
    })
}

/// One report for each run of equal verdicts, in the order of the events.
///
/// Failures of one session in a row are one report with the first message: the later ones only
/// follow from it.
fn reports(events: &[Queued], verdicts: Vec<Verdict>) -> Vec<Commit> {
    let mut reports: Vec<Commit> = Vec::new();
    let mut failing: Option<&SessionId> = None;
    for (Queued { append, .. }, verdict) in events.iter().zip(verdicts) {
        match (reports.last_mut(), verdict) {
            (Some(Commit::Through(through)), Verdict::Stored) => *through = append.number,
            (_, Verdict::Stored) => reports.push(Commit::Through(append.number)),
            (Some(Commit::Failed { through, message: first, .. }), Verdict::Failed(message))
                if *first == message || failing == Some(&append.session) =>
            {
                *through = append.number;
            }
            (_, Verdict::Failed(message)) => {
                let number = append.number;
                reports.push(Commit::Failed { from: number, through: number, message });
            }
        }
        failing = Some(&append.session);
    }
    reports
}
