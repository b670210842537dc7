//! The clock by which a call that does not come back is stopped: a thread that moves the engine's epoch on.
//! How many ticks a call gets is its caller's decision.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread::{self, JoinHandle, Thread},
    time::Duration,
};

use wasmtime::Engine;

/// One tick. At 10 ms the thread costs a quarter of a percent of a core, at 1 ms two percent, and a limit of a second
/// does not need to be more exact.
const TICK: Duration = Duration::from_millis(10);

/// After this many ticks without any call the thread rests: a host without peers shall not wake a processor.
const QUIET_TICKS_MAX: u32 = 100;

/// Ticks within which this many milliseconds pass. One may begin anywhere within a tick, so there is one more.
pub(crate) fn ticks(ms: u64) -> u64 {
    ms.div_ceil(TICK.as_millis() as u64).saturating_add(1)
}

/// Ticks while calls run. Its thread begins with [`Ticker::start`] and ends with this value.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    engine: Engine,
    /// Calls under way.
    running: AtomicUsize,
    /// A call began since the last tick.
    busy: AtomicBool,
    /// The thread is parked, or about to be, until a call wakes it.
    resting: AtomicBool,
    stop: AtomicBool,
    /// No call gets another tick.
    cut_off: AtomicBool,
}

/// A call under way. While one lives, the epoch moves.
pub(crate) struct Running<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn new(engine: Engine) -> Ticker {
        let shared = Shared {
            engine,
            running: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
        };
        Ticker { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Begins the thread, unless it runs already.
    pub(crate) fn start(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder =
                thread::Builder::new().name("transom-epoch".to_owned()).stack_size(64 << 10);
            *thread = Some(builder.spawn(move || shared.tick())?);
        }
        Ok(())
    }

    /// Announces a call.
    pub(crate) fn run(&self) -> Running<'_> {
        // Either the thread sees this call after it has said that it rests, or this call sees that it rests: both
        // sides write first and read then, in one total order.
        self.shared.running.fetch_add(1, SeqCst);
        self.shared.busy.store(true, Relaxed);
        if self.shared.resting.load(SeqCst) {
            self.wake();
        }
        Running(&self.shared)
    }

    /// From now on no call outlives the next look at it.
    pub(crate) fn cut_off(&self) {
        self.shared.cut_off.store(true, Relaxed);
    }

    /// Whether calls are cut off.
    pub(crate) fn cuts_off(&self) -> bool {
        self.shared.cut_off.load(Relaxed)
    }

    #[cold]
    fn wake(&self) {
        self.shared.resting.store(false, SeqCst);
        self.unpark();
    }

    fn unpark(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().map(JoinHandle::thread).map(Thread::unpark);
    }

    #[cfg(test)]
    fn rests(&self) -> bool {
        self.shared.resting.load(SeqCst)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.unpark();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It cannot panic, and there would be nobody to tell.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Shared {
    fn tick(&self) {
        let mut quiet = 0;
        while !self.stop.load(SeqCst) {
            thread::park_timeout(TICK);
            self.engine.increment_epoch();
            let idle = !self.busy.swap(false, Relaxed) && self.running.load(SeqCst) == 0;
            quiet = if idle { quiet + 1 } else { 0 };
            if quiet >= QUIET_TICKS_MAX {
                self.rest();
                quiet = 0;
            }
        }
    }

    fn rest(&self) {
        self.resting.store(true, SeqCst);
        if self.running.load(SeqCst) > 0 {
            self.resting.store(false, SeqCst);
        }
        while self.resting.load(SeqCst) && !self.stop.load(SeqCst) {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests;
