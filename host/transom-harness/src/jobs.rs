//! Background jobs as the log and the doors know them (`permissions-and-jobs.md` §14 to §18). Processes
//! and their output are `transom-tools`'; when the owner is told is `agent/jobs.rs`.

use serde::{Deserialize, Serialize};

use crate::message::{Form, Source};

/// What a job runs (P-63).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// `bash`: a command.
    Bash,
    /// `subagent`: a delegation that ends by itself.
    Subagent,
}

impl JobKind {
    /// The word in ids, logs and model texts.
    pub fn as_str(self) -> &'static str {
        match self {
            JobKind::Bash => "bash",
            JobKind::Subagent => "subagent",
        }
    }
}

/// Where a job stands (P-64). The last three are ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It was asked to end, and has not yet.
    Stopping,
    /// It came to its end, whatever its exit code (P-65).
    Completed,
    /// It was ended from outside.
    Killed,
    /// It could not be run to its end.
    Failed,
}

impl JobStatus {
    /// The word in logs and model texts.
    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Running => "running",
            JobStatus::Stopping => "stopping",
            JobStatus::Completed => "completed",
            JobStatus::Killed => "killed",
            JobStatus::Failed => "failed",
        }
    }

    /// Whether the job is over.
    pub fn is_end(self) -> bool {
        matches!(self, JobStatus::Completed | JobStatus::Killed | JobStatus::Failed)
    }
}

/// Why a job ended (P-78).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobCause {
    /// By itself.
    Producer,
    /// `job_kill`, or the operator.
    Kill,
    /// The session or the host went away.
    Teardown,
    /// The host stopped before it saw the end.
    Lost,
}

/// A job, in the words of `session/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// `<kind>-<n>`, n from 1 for each kind and session (P-66).
    pub id: String,
    /// What it runs.
    pub kind: JobKind,
    /// The command, or the description of a delegation; whole.
    pub label: String,
    /// Where it stands.
    pub status: JobStatus,
    /// For an end: for example `exit code: 3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Epoch milliseconds.
    pub started_at: u64,
    /// Epoch milliseconds; absent until its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
}

/// What the owner of a job is told by whoever runs it. Ends come once per job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// It was asked to end.
    Stopping {
        /// The job.
        id: String,
    },
    /// Everything it had is released (P-64).
    Ended {
        /// The job.
        id: String,
        /// `Completed`, `Killed` or `Failed`.
        status: JobStatus,
        /// For example `exit code: 3`.
        detail: Option<String>,
        /// Epoch milliseconds.
        finished_at: u64,
        /// Why.
        cause: JobCause,
        /// The model has learnt of the end by a read, a kill or a wait: no notice follows (P-77).
        reported: bool,
    },
}

/// What a line of a list shows of a label (P-68).
const LABEL_CHARS_MAX: usize = 200;

/// What people are shown of a notice in short (P-77).
pub(crate) const SUMMARY_CHARS_MAX: usize = 120;

/// `text`, cut to so many characters, the last of which is `…` where something was cut.
pub fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{kept}…")
}

impl JobRecord {
    /// The label as it is shown everywhere but in the log (P-68).
    pub fn short_label(&self) -> String {
        shortened(&self.label, LABEL_CHARS_MAX)
    }

    /// `[status: completed, exit code: 0]` (P-73).
    pub fn status_text(&self) -> String {
        match &self.detail {
            None => format!("[status: {}]", self.status.as_str()),
            Some(detail) => format!("[status: {}, {detail}]", self.status.as_str()),
        }
    }
}

/// What a model is told when a job has ended, and who tells it (P-77).
pub fn notice(job: &JobRecord) -> (String, Source) {
    let (kind, label, status) = (job.kind.as_str(), job.short_label(), job.status_text());
    let text = format!(
        "background job {} ({kind}: {label}) finished {status}. Read its output with job_output.",
        job.id
    );
    let summary = shortened(&format!("{kind} {label} {status}"), SUMMARY_CHARS_MAX);
    let source = Source::Plugin {
        plugin: "tool-jobs".to_owned(),
        form: Some(Form::Notice),
        sections: None,
        summary: Some(summary),
    };
    (text, source)
}
