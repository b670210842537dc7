//! One program of an operator's: a document in, an answer out, within bounds, and nothing left behind.
//! What the answer means is `words.rs`'s.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
    task::JoinHandle,
    time::{sleep_until, timeout},
};
use transom_process::{Command, Exit, Spawner, Verdict};

use crate::{abort::Abort, shell::launch_failure};

/// Bytes of one answer. It may hold a whole replaced result; a program that writes more has lost its way.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The end of the error output that is kept for the log.
const STDERR_BYTES_MAX: usize = 400;

/// How long output is waited for when everything that could write it is gone.
const DRAIN: Duration = Duration::from_millis(300);

/// A program about to be asked.
pub(crate) struct Program {
    /// With piped input, and a mark.
    pub(crate) command: Command,
    /// What its launcher will say, where it is confined.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) timeout: Duration,
}

/// What a program came to.
pub(crate) struct Ended {
    /// Its output, if it ended well; otherwise what went wrong.
    pub(crate) result: Result<Vec<u8>, String>,
    /// If it ended by itself.
    pub(crate) exit_code: Option<i32>,
    /// The end of its error output, as text.
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

/// Why a program was not waited for any longer.
enum Cut {
    Unwanted,
    TimedOut,
    TooLong,
}

impl Ended {
    pub(crate) fn failed(why: String, elapsed: Duration) -> Ended {
        Ended { result: Err(why), exit_code: None, stderr: String::new(), elapsed }
    }
}

impl Program {
    /// Runs it. `None` once `abort` is set: then nobody wants the answer. Nothing of it runs when this ends.
    pub(crate) async fn run(
        self,
        spawner: &Spawner,
        document: String,
        abort: &Abort,
    ) -> Option<Ended> {
        let begun = Instant::now();
        let failed = |why: String| Ended::failed(why, begun.elapsed());
        if abort.is_set() {
            return None;
        }
        let limit = self.timeout;
        let deadline = tokio::time::Instant::now() + limit;
        let late = || format!("it gave no answer within {}ms", limit.as_millis());
        let Program { command, verdict, .. } = self;
        let mark = command.mark.clone();
        // A start that nobody waits for any more ends as it comes, by the spawner.
        let spawned = tokio::select! {
            biased;
            spawned = spawner.spawn(command) => spawned,
            () = abort.set() => return None,
            () = sleep_until(deadline) => return Some(failed(late())),
        };
        let mut process = match spawned {
            Ok(process) => process,
            Err(error) => return Some(failed(error.to_string())),
        };
        let tree = match mark {
            Some(mark) => process.tree().with_marked(mark),
            None => process.tree(),
        };
        let writing = process.stdin.take().map(|pipe| tokio::spawn(write(pipe, document)));
        let mut reading = process.stdout.take().map(|pipe| tokio::spawn(head(pipe)));
        let tail = Arc::new(Mutex::new(Vec::new()));
        let listening =
            process.stderr.take().map(|pipe| tokio::spawn(keep_tail(pipe, Arc::clone(&tail))));

        let mut answer = None;
        let cut = loop {
            tokio::select! {
                biased;
                () = abort.set() => break Err(Cut::Unwanted),
                exit = process.wait() => break Ok(exit),
                read = joined(&mut reading), if reading.is_some() => {
                    reading = None;
                    match read {
                        Some(bytes) => answer = Some(bytes),
                        None => break Err(Cut::TooLong),
                    }
                }
                () = sleep_until(deadline) => break Err(Cut::TimedOut),
            }
        };
        // At once: it has nothing to tidy up that is worth a person's time, and what it has started is not wanted either.
        tree.end(Duration::ZERO).await;
        if answer.is_none() && cut.is_ok() {
            answer = match timeout(DRAIN, joined(&mut reading)).await {
                Ok(read) => read,
                Err(_) => Some(Vec::new()),
            };
        }
        if let Some(listening) = listening {
            let _ = timeout(DRAIN, listening).await;
        }
        if let Some(writing) = writing {
            writing.abort();
        }
        let unconfined = match verdict {
            Some(verdict) => launch_failure(verdict).await,
            None => None,
        };
        let exit_code = match &cut {
            Ok(Ok(Exit::Code(code))) => Some(*code),
            Ok(_) | Err(_) => None,
        };
        let result = match (cut, answer) {
            (Err(Cut::Unwanted), _) => return None,
            (Err(Cut::TimedOut), _) => Err(late()),
            (Err(Cut::TooLong), _) | (Ok(_), None) => {
                Err(format!("its answer has more than {ANSWER_BYTES_MAX} bytes"))
            }
            // The launcher, not the program (P-61).
            (Ok(_), _) if unconfined.is_some() => Err(unconfined.unwrap_or_default()),
            (Ok(Ok(Exit::Code(0))), Some(answer)) => Ok(answer),
            (Ok(Ok(Exit::Code(code))), _) => Err(format!("it ended with exit code {code}")),
            (Ok(Ok(exit @ Exit::Signal(_))), _) => {
                Err(format!("it was ended by {}", exit.signal_name().unwrap_or_default()))
            }
            (Ok(Err(error)), _) => Err(format!("it could not be waited for: {error}")),
        };
        let kept = tail.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = String::from_utf8_lossy(&kept).trim().to_owned();
        Some(Ended { result, exit_code, stderr, elapsed: begun.elapsed() })
    }
}

/// What was read, once it was; `None` where it was too long.
async fn joined(reading: &mut Option<JoinHandle<Option<Vec<u8>>>>) -> Option<Vec<u8>> {
    match reading {
        Some(reading) => reading.await.unwrap_or_default(),
        None => Some(Vec::new()),
    }
}

/// A program need not read what it is told.
async fn write(mut pipe: ChildStdin, document: String) {
    let _ = pipe.write_all(document.as_bytes()).await;
    let _ = pipe.shutdown().await;
}

async fn head(pipe: impl AsyncRead + Unpin) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = ANSWER_BYTES_MAX as u64 + 1;
    // What could be read before an error is what there is.
    let _ = pipe.take(most).read_to_end(&mut bytes).await;
    (bytes.len() <= ANSWER_BYTES_MAX).then_some(bytes)
}

async fn keep_tail(mut pipe: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = tail.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..surplus);
    }
}
