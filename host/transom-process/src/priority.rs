//! The priority of the calling thread. Which work may wait for others is decided elsewhere.

/// Lowers the priority of this thread for good, by so many steps of `nice(2)`: against one other that wants the same processor
/// it has a quarter of it after 5 steps, and a tenth after 10. Where the system refuses, it goes on as it was.
pub fn step_back(niceness: i32) {
    // On Linux this counts thread by thread.
    if let Err(error) = rustix::process::nice(niceness) {
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
            step_back(10);
            niceness()
        });
        assert_eq!(stepped_back.join().unwrap(), (before + 10).min(19));
        assert_eq!(niceness(), before);
    }
}
