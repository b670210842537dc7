//! The end that needs nobody's help: a process that was told to go and has not gone in time is ended, whatever its
//! runtime is doing (design §4).

use std::{
    process, thread,
    time::{Duration, Instant},
};

/// From the wish to end to the end of the process, at most. Half a second more than the orderly teardown allows
/// itself, so that this is only heard of when that one hangs.
const HARD_STOP: Duration = Duration::from_millis(5_500);

/// Begins the countdown. There may be several; the first one counts.
pub(crate) fn arm() {
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
    // Children die with the process: the guard that watches them hears of it.
    process::exit(1);
}
