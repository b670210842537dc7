//! The thread rests when nobody calls, and a call wakes it. That it stops calls is seen in `crate::tests`.

use super::*;

#[test]
fn a_call_wakes_a_resting_thread() {
    let ticker = Ticker::new(Engine::default());
    let shared = Arc::clone(&ticker.shared);
    let mut thread = ticker.thread.lock().unwrap();
    *thread = Some(thread::spawn(move || shared.rest()));
    drop(thread);
    while !ticker.rests() {
        thread::yield_now();
    }

    let running = ticker.run();
    // Comes back only if it was woken.
    ticker.thread.lock().unwrap().take().unwrap().join().unwrap();
    assert!(!ticker.rests());
    drop(running);
}

#[test]
fn a_thread_does_not_rest_beside_a_call() {
    let ticker = Ticker::new(Engine::default());
    let _running = ticker.run();
    ticker.shared.rest();
    assert!(!ticker.rests());
}

#[test]
fn a_ticker_that_was_never_started_ends_too() {
    drop(Ticker::new(Engine::default()));
    let started = Ticker::new(Engine::default());
    started.start().unwrap();
    started.start().unwrap();
    drop(started);
}

#[test]
fn a_budget_is_never_cut_short_by_the_grain_of_the_clock() {
    for (ms, expected) in
        [(0, 1), (1, 2), (10, 2), (11, 3), (1000, 101), (u64::MAX, u64::MAX / 10 + 2)]
    {
        assert_eq!(ticks(ms), expected, "{ms} ms");
    }
}
