//! Work that gets a processor only where those who serve peers leave one: loading the next version of a component, while the one
//! before serves. What is loaded is left to the caller.

use anyhow::Context as _;
use tokio::sync::oneshot;

/// How far it steps back. An operator waits for it, on a host that is overloaded too.
const NICENESS: i32 = 5;

/// Does work on threads of low priority, those that it spreads over with rayon too, and gives what came of it.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .thread_name(|at| format!("load-{at}"))
        .start_handler(|_| transom_process::step_back(NICENESS))
        // Whoever waits sees that there is no answer.
        .panic_handler(|_| {})
        .build()
        .context("threads to load with")?;
    let (answer, answered) = oneshot::channel();
    pool.spawn(move || {
        let _ = answer.send(work());
    });
    answered.await.context("it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_spread_over_threads_that_are_there_for_it() {
        let names = run(|| rayon::broadcast(|_| std::thread::current().name().map(str::to_owned)));
        let names = names.await.unwrap();
        assert!(!names.is_empty());
        assert!(names.iter().flatten().all(|name| name.starts_with("load-")), "{names:?}");
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let error = run(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(error.to_string(), "it panicked");
    }
}
