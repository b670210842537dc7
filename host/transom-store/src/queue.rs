//! What waits for the writer: events and attachments, bounded, and whether more may come.
//! Storing them is `writer.rs`.

use std::{
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc},
};

use transom_harness::ports::{Append, StoreError};

/// Bytes of event text that may wait. The loop never waits for the store, so a disk that has stopped
/// must not fill the memory: at a hundred bytes an event this is about two million of them.
pub(crate) const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One event in the queue.
pub(crate) struct Queued {
    pub(crate) append: Append,
    /// Position within the call that appended it.
    pub(crate) index: usize,
    /// It arrived when nothing more could be taken: it holds its place, so that reports stay in order,
    /// but not its text.
    pub(crate) refused: Option<&'static str>,
}

/// Bytes on their way into the store, and who waits for them.
pub(crate) struct Keep {
    pub(crate) name: String,
    pub(crate) media_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) done: mpsc::SyncSender<Result<(), StoreError>>,
}

/// Everything that waited when the writer became idle.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Queued>,
    pub(crate) attachments: Vec<Keep>,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    batch: Batch,
    bytes: usize,
    phase: Phase,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// What waits is still stored; what comes now is refused.
    Closing,
    /// The writer has gone.
    Closed,
}

impl Queue {
    /// Queues events. Gives them back if the writer has gone.
    pub(crate) fn append(&self, events: Vec<Append>) -> Result<(), Vec<Append>> {
        let mut state = self.state();
        if state.phase == Phase::Closed {
            return Err(events);
        }
        for (index, mut append) in events.into_iter().enumerate() {
            let bytes = append.text.len();
            let refused = match state.phase {
                Phase::Closing | Phase::Closed => Some("the store is closing"),
                // Whatever its size, an event is taken while less than the limit waits: a prompt of the
                // longest unit must not fail on an idle store.
                Phase::Open if state.bytes >= WAITING_BYTES_MAX => {
                    Some("the store is too far behind: the limit of waiting events is reached")
                }
                Phase::Open => None,
            };
            match refused {
                Some(_) => append.text = "".into(),
                None => state.bytes += bytes,
            }
            state.batch.events.push(Queued { append, index, refused });
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Queues an attachment. Gives it back if no more may come.
    pub(crate) fn keep(&self, keep: Keep) -> Result<(), Keep> {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return Err(keep);
        }
        state.batch.attachments.push(keep);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits until there is something to store and takes all of it. `None`: the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut state = self.state();
        loop {
            if !state.batch.events.is_empty() || !state.batch.attachments.is_empty() {
                state.bytes = 0;
                return Some(mem::take(&mut state.batch));
            }
            if state.phase != Phase::Open {
                state.phase = Phase::Closed;
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets nothing more in; what waits is still stored.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything in here could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
