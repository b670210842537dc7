//! How a run ends: by a signal, by its peer, and at the latest by the hard stop (S-139, design §4).

use std::{
    process, thread,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

use crate::deployment::Running;

/// Exit status after SIGINT (S-139).
pub(crate) const INTERRUPTED: u8 = 130;

/// How long sessions and the store may take to end.
const ORDERLY: Duration = Duration::from_secs(5);

/// The same where even the runtime hangs. Half a second more than the orderly teardown allows
/// itself, so that this is only heard of when that one hangs.
const HARD_STOP: Duration = Duration::from_millis(5_500);

/// How long the system may take to end what is left at the hard stop.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// From a signal until codec calls that still run are cut off: what connections get for their end (design §4).
const TEARDOWN: Duration = Duration::from_millis(900);

/// What SIGHUP asks for.
pub(crate) enum Hangup {
    /// The terminal is gone, and with it the peer.
    End,
    /// The configuration is to be read again. One that waits already is enough.
    Reload(mpsc::Sender<()>),
}

/// Turns `stop` true at the first signal that asks for an end, and some time later calls `cut_off`. The receiver gets
/// whether it was SIGINT.
///
/// All of that is done by a thread of its own: codec calls hold the runtime's threads, and a signal must count even while
/// each of them holds one.
pub(crate) fn hear_signals(
    stop: watch::Sender<bool>,
    on_hangup: Hangup,
    cut_off: impl FnOnce() + Send + 'static,
) -> anyhow::Result<oneshot::Receiver<bool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signalled = {
        let _context = runtime.enter();
        signalled(on_hangup)?
    };
    let (tell, told) = oneshot::channel();
    thread::Builder::new().name("transom-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let interrupted = signalled.await;
            arm();
            // The status counts even where nobody hears of the stop any more, and it must be there first.
            let _ = tell.send(interrupted);
            stop.send_replace(true);
            sleep(TEARDOWN).await;
            cut_off();
        });
    })?;
    Ok(told)
}

/// Waits for a signal that asks for an end. Gives whether it was SIGINT.
fn signalled(on_hangup: Hangup) -> anyhow::Result<impl Future<Output = bool> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // A file that may not grow further is an error of the write, not the end of the process.
    let mut too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => return false,
                _ = hangup.recv() => match &on_hangup {
                    Hangup::End => return false,
                    Hangup::Reload(wanted) => drop(wanted.try_send(())),
                },
                _ = interrupt.recv() => return true,
                _ = too_large.recv() => {}
            }
        }
    })
}

/// Ends every session and closes the store. Gives what went wrong.
pub(crate) async fn bring_to_an_end(running: &Running) -> Vec<String> {
    arm();
    match timeout(ORDERLY, running.shut_down()).await {
        Ok(failures) => failures,
        Err(_) => vec!["the host did not come to an end in time".to_owned()],
    }
}

/// Begins the countdown. There may be several; the first one counts.
fn arm() {
    let counting = thread::Builder::new().name("transom-hard-stop".to_owned()).spawn(count_down);
    if let Err(error) = counting {
        tracing::warn!(%error, "no hard stop: a teardown that hangs has to be killed");
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the hard stop")]
fn count_down() {
    let end = Instant::now() + HARD_STOP;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        thread::park_timeout(left);
    }
    // Children die with the process: the guard that watches them hears of it. What has left them does not.
    transom_process::end_descendants(LAST_PATIENCE);
    process::exit(1);
}
