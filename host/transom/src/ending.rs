//! How a run ends: by a signal, by its peer, and at the latest by the hard stop (S-139, design §4).

use std::{
    process, thread,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    time::timeout,
};

use crate::deployment::Running;

/// Exit status after SIGINT (S-139).
pub(crate) const INTERRUPTED: u8 = 130;

/// How long sessions and the store may take to end.
const ORDERLY: Duration = Duration::from_secs(5);

/// The same where even the runtime hangs. Half a second more than the orderly teardown allows
/// itself, so that this is only heard of when that one hangs.
const HARD_STOP: Duration = Duration::from_millis(5_500);

/// What SIGHUP asks for.
pub(crate) enum Hangup {
    /// The terminal is gone, and with it the peer.
    End,
    /// The configuration is to be read again. One that waits already is enough.
    Reload(mpsc::Sender<()>),
}
/// How long the system may take to end what is left at the hard stop.
const LAST_PATIENCE: Duration = Duration::from_millis(100);

/// Turns `stop` true at the first signal that asks for an end. Gives whether it was SIGINT.
pub(crate) fn signalled(
    stop: watch::Sender<bool>,
    on_hangup: Hangup,
) -> anyhow::Result<impl Future<Output = bool> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // A file that may not grow further is an error of the write, not the end of the process.
    let mut too_large = signal(SignalKind::from_raw(libc::SIGXFSZ))?;
    Ok(async move {
        let interrupted = loop {
            tokio::select! {
                _ = terminate.recv() => break false,
                _ = hangup.recv() => match &on_hangup {
                    Hangup::End => break false,
                    Hangup::Reload(wanted) => drop(wanted.try_send(())),
                },
                _ = interrupt.recv() => break true,
                _ = too_large.recv() => {}
            }
        };
        arm();
        stop.send_replace(true);
        interrupted
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
