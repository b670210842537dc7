//! The priority of the calling thread. Which work may wait for others is decided elsewhere.

/// How much less than others a thread counts that has stepped back, in steps of `nice(2)`. At 10 it has about a tenth of a
/// processor that others want too, and so comes to its end even there.
const NICENESS: i32 = 10;

/// Lowers the priority of this thread for good: from now on it gets a processor where those who serve peers leave one. Where
/// the system refuses, it goes on as it was.
pub fn step_back() {
    // On Linux this counts thread by thread.
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "a thread keeps its ordinary priority");
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_steps_back_and_the_others_go_on_as_they_were() {
        let niceness = || rustix::process::nice(0).unwrap();
        let before = niceness();
        let stepped_back = thread::spawn(move || {
            step_back();
            niceness()
        });
        assert_eq!(stepped_back.join().unwrap(), (before + NICENESS).min(19));
        assert_eq!(niceness(), before);
    }
}
