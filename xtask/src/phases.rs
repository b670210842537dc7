//! A row of named phases: each is announced, timed and reported, and a summary ends the row. What a phase does is its own affair.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

#[derive(Debug)]
struct Done {
    name: String,
    took: Duration,
    failed: bool,
}

/// The phases of one run, in order.
#[derive(Debug, Default)]
pub struct Phases {
    done: Vec<Done>,
}

impl Phases {
    /// Runs a phase whose failure leaves the others worth running. Gives what the phase gave, or nothing when it failed.
    pub fn attempt<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("==> {name}");
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        match &outcome {
            Ok(_) => println!("<== {name}: {}", seconds(took)),
            Err(error) => println!("<== {name}: failed after {}: {error:#}", seconds(took)),
        }
        self.done.push(Done { name: name.to_owned(), took, failed: outcome.is_err() });
        outcome.ok()
    }

    /// Runs a phase without which the next ones make no sense.
    pub fn demand<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.attempt(name, work) {
            Some(value) => Ok(value),
            None => bail!("{}", self.summary()),
        }
    }

    /// Prints the summary; an error when any phase failed.
    pub fn finish(self) -> Result<()> {
        let summary = self.summary();
        if self.done.iter().any(|phase| phase.failed) {
            bail!("{summary}");
        }
        println!("{summary}");
        Ok(())
    }

    fn summary(&self) -> String {
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|phase| phase.failed)
            .map(|phase| phase.name.as_str())
            .collect();
        let took = seconds(self.done.iter().map(|phase| phase.took).sum());
        let count = self.done.len();
        if failed.is_empty() {
            format!("all {count} phases passed in {took}")
        } else {
            format!("{} of {count} phases failed in {took}: {}", failed.len(), failed.join(", "))
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failed_phase_does_not_stop_the_others_but_fails_the_run() {
        let mut phases = Phases::default();
        assert_eq!(phases.attempt("format", || Err::<(), _>(anyhow!("not formatted"))), None);
        assert_eq!(phases.attempt("tests", || Ok(3)), Some(3));
        let error = phases.finish().expect_err("one phase failed").to_string();
        assert!(error.starts_with("1 of 2 phases failed in "), "{error}");
        assert!(error.ends_with(": format"), "{error}");
    }

    #[test]
    fn a_demanded_phase_ends_the_run_with_the_summary() {
        let mut phases = Phases::default();
        let error = phases
            .demand("components", || Err::<(), _>(anyhow!("no target")))
            .expect_err("it failed")
            .to_string();
        assert!(error.starts_with("1 of 1 phases failed"), "{error}");
    }

    #[test]
    fn a_clean_run_counts_its_phases() {
        let mut phases = Phases::default();
        phases.attempt("format", || Ok(()));
        assert!(phases.summary().starts_with("all 1 phases passed in "));
        phases.finish().expect("nothing failed");
    }
}
