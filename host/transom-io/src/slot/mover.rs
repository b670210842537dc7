//! What a move does besides the call that moves: instances are made before it and given back behind it, on a thread that steps
//! back for those who serve peers. The move itself is the connection's driver's.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, TryRecvError},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;
use tracing::{debug, warn};
use transom_connection::codec::{Codec, CodecError, CodecSource, Vacant};
use transom_process::step_back;

/// How long the thread waits for the next move before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// How far it steps back. What it does not come to in time connections do themselves.
const NICENESS: i32 = 10;

/// Jobs that may wait. Connections are told one after the other, so there are never that many.
const JOBS_MAX: usize = 64;

/// What a source has prepared, if anything.
pub(crate) type Prepared = Result<Option<Box<dyn Vacant>>, CodecError>;

enum Job {
    Prepare(Arc<dyn CodecSource>, oneshot::Sender<Prepared>),
    Discard(Box<dyn Codec>),
}

/// A thread that is there while connections move.
#[derive(Default)]
pub(super) struct Mover {
    jobs: Arc<Mutex<Option<mpsc::SyncSender<Job>>>>,
}

impl Mover {
    /// Has an instance made. The receiver gets nothing where that is impossible; `resume` then says why.
    pub(super) fn prepare(&self, source: Arc<dyn CodecSource>) -> oneshot::Receiver<Prepared> {
        let (answer, answered) = oneshot::channel();
        self.give(Job::Prepare(source, answer));
        answered
    }

    /// Has an instance given back.
    pub(super) fn discard(&self, codec: Box<dyn Codec>) {
        self.give(Job::Discard(codec));
    }

    fn give(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        let job = match jobs.as_ref() {
            Some(running) => match running.try_send(job) {
                // Where it is full, whoever waits goes on without.
                Ok(()) | Err(mpsc::TrySendError::Full(_)) => return,
                // A panic takes its thread along; the next job has another.
                Err(mpsc::TrySendError::Disconnected(job)) => job,
            },
            None => job,
        };
        self.start(&mut jobs, job);
    }

    fn start(&self, jobs: &mut Option<mpsc::SyncSender<Job>>, job: Job) {
        let (sender, receiver) = mpsc::sync_channel(JOBS_MAX);
        let _ = sender.try_send(job);
        let shared = Arc::clone(&self.jobs);
        let named = thread::Builder::new().name("transom-move".to_owned());
        match named.spawn(move || work(&receiver, &shared)) {
            Ok(_) => *jobs = Some(sender),
            // The job is gone with its receiver, and whoever waits goes on without.
            Err(error) => warn!(%error, "no thread to move connections with"),
        }
    }
}

fn work(receiver: &mpsc::Receiver<Job>, shared: &Mutex<Option<mpsc::SyncSender<Job>>>) {
    step_back(NICENESS);
    loop {
        let job = match receiver.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // Whoever gives a job holds the lock: either it is seen here, or it starts another thread.
                let mut jobs = lock(shared);
                match receiver.try_recv() {
                    Ok(job) => job,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                        *jobs = None;
                        return;
                    }
                }
            }
        };
        match job {
            // Whoever is gone by now needs none.
            Job::Prepare(source, answer) if !answer.is_closed() => {
                let prepared = source.prepare();
                if let Err(error) = &prepared {
                    debug!(component = %source.identity(), %error, "no instance ahead of the move");
                }
                let _ = answer.send(prepared);
            }
            Job::Prepare(..) => {}
            Job::Discard(codec) => drop(codec),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use transom_connection::codec::{Framing, Input, Manifest, Millis, Output, Setup};

    use super::*;

    /// Says where it was prepared and given back.
    struct Source(Manifest, mpsc::SyncSender<ThreadId>);

    struct Held(mpsc::SyncSender<ThreadId>);

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.0.try_send(thread::current().id());
        }
    }

    impl Vacant for Held {
        fn resume(
            self: Box<Self>,
            _: &Setup,
            _: u32,
            _: &[u8],
        ) -> Result<Box<dyn Codec>, CodecError> {
            Ok(self)
        }
    }

    impl Codec for Held {
        fn handle(&mut self, _: Millis, _: Input) -> Result<Vec<Output>, CodecError> {
            Err(CodecError::Gone)
        }

        fn suspend(&mut self) -> Result<Vec<u8>, CodecError> {
            Err(CodecError::Gone)
        }
    }

    impl CodecSource for Source {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn identity(&self) -> Arc<str> {
            "source".into()
        }

        fn open(&self, _: &Setup) -> Result<(Box<dyn Codec>, Vec<Output>), CodecError> {
            Err(CodecError::Gone)
        }

        fn resume(&self, _: &Setup, _: u32, _: &[u8]) -> Result<Box<dyn Codec>, CodecError> {
            Err(CodecError::Gone)
        }

        fn prepare(&self) -> Result<Option<Box<dyn Vacant>>, CodecError> {
            assert!(self.0.protocol != "panics");
            let _ = self.1.try_send(thread::current().id());
            Ok(Some(Box::new(Held(self.1.clone()))))
        }
    }

    fn source(protocol: &str) -> (Arc<dyn CodecSource>, mpsc::Receiver<ThreadId>) {
        let (said, hears) = mpsc::sync_channel(8);
        let manifest = Manifest {
            protocol: protocol.to_owned(),
            revisions: Vec::new(),
            framings: vec![Framing::Lines],
            sends: Vec::new(),
            headers: Vec::new(),
            state_format: 1,
            resumes: vec![1],
        };
        (Arc::new(Source(manifest, said)), hears)
    }

    #[test]
    fn instances_are_made_and_given_back_elsewhere() {
        let (mover, (source, hears)) = (Mover::default(), source("lines"));
        let vacant = mover.prepare(source).blocking_recv().unwrap().unwrap().unwrap();
        let made = hears.recv().unwrap();
        assert_ne!(made, thread::current().id());
        let setup = Setup {
            framing: Framing::Lines,
            seed: (0, 0),
            options: String::new(),
            facts: Vec::new(),
        };
        mover.discard(vacant.resume(&setup, 1, &[]).unwrap());
        assert_eq!(hears.recv().unwrap(), made);
    }

    #[test]
    fn a_panic_costs_one_instance_and_no_more() {
        let mover = Mover::default();
        assert!(mover.prepare(source("panics").0).blocking_recv().is_err());
        // The thread may be on its way out still, and takes what it was given along.
        let tries = (0..1000).map(|_| mover.prepare(source("lines").0).blocking_recv());
        assert!(tries.into_iter().any(|prepared| prepared.is_ok()));
    }
}
