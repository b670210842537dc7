//! A producer's side of its job: what it is told, and how it says that it is over. What follows from that is
//! `jobs.rs`.

use std::time::Duration;

use tokio::sync::watch;
use transom_frame::SessionId;
use transom_harness::jobs::{JobCause, JobStatus};
use transom_process::{SpillDirectory, Tree};

use super::{Jobs, output::Output};

/// That a job is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(super) cause: JobCause,
    pub(super) by_operator: bool,
    /// Between the polite way and the other.
    pub(crate) grace: Duration,
}

/// How a job came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) status: JobStatus,
    pub(crate) detail: Option<String>,
}

/// A producer's side of its job.
pub(crate) struct Work {
    pub(super) jobs: Jobs,
    pub(super) session: SessionId,
    pub(super) id: String,
    pub(super) order: watch::Receiver<Option<Order>>,
    /// Where what it writes goes.
    pub(crate) output: Output,
}

impl Work {
    /// Ties a child to the job, so that a teardown reaches it at once, and tells where its files are.
    pub(crate) fn set_tree(&self, tree: Tree, spills: &SpillDirectory) {
        let mut table = self.jobs.lock();
        let owned = table.sessions.get_mut(&self.session);
        if let Some(job) = owned.and_then(|owned| owned.find(&self.id)) {
            job.tree = Some(tree);
            job.spills = Some(spills.clone());
        }
    }

    /// The job.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The order to end, if it was given.
    pub(crate) fn order(&self) -> Option<Order> {
        *self.order.borrow()
    }

    /// Waits for the order to end.
    pub(crate) async fn ordered(&self) -> Order {
        let mut order = self.order.clone();
        let given = order.wait_for(Option::is_some).await.map(|given| *given);
        match given {
            Ok(Some(order)) => order,
            // Nobody is left who could give one.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl End {
    pub(crate) fn failed(detail: impl Into<String>) -> End {
        End { status: JobStatus::Failed, detail: Some(detail.into()) }
    }
}
