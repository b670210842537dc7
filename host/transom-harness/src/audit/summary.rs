//! What a log folds to (L-2), in a form that two folds of the same log can be compared by.

use super::{Auditor, surface::Node};
use crate::{
    jobs::{JobKind, JobStatus},
    permissions::{ApprovalPolicy, Mode},
};

/// The state of a session behind the last event of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How many there are; the `seq` of the next one.
    pub events: u64,
    /// Time of the last one.
    pub last_time: Option<u64>,
    /// Number of the last turn; 0 before the first.
    pub last_turn: u64,
    /// The turn that has no end.
    pub open_turn: Option<u64>,
    /// The step that has no end.
    pub open_step: Option<u64>,
    /// Kind of the last `turn/end`.
    pub last_end: Option<String>,
    /// In surface order, also answers without content (L-8).
    pub surface: Vec<SurfaceNode>,
    /// Ids of messages that wait for a turn, the next one first.
    pub next_turn: Vec<String>,
    /// Ids of messages that wait for a step, the next one first.
    pub next_step: Vec<String>,
    /// The last one.
    pub title: Option<String>,
    /// The directory that was set last; the header's without one (decision 3).
    pub cwd: Option<String>,
    /// As the last `sandbox/mode` has it.
    pub mode: Option<Mode>,
    /// As the last `approval/policy` has it.
    pub policy: Option<ApprovalPolicy>,
    /// As the last `permission/preset` has it.
    pub preset: Option<String>,
    /// JSON text of the last `request/header`.
    pub request_header: Option<String>,
    /// Provider, model and window of the last `request/context`.
    pub request_context: Option<(String, String, Option<u64>)>,
    /// Ids of asks without a decision.
    pub open_approvals: Vec<String>,
    /// The session's own jobs, oldest first.
    pub jobs: Vec<AuditedJob>,
    /// Number of the last job of kind `bash`, also one that came with the seed.
    pub bash_jobs: u64,
    /// Number of the last job of kind `subagent`, also one that came with the seed.
    pub subagent_jobs: u64,
}

/// A message on the surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceNode {
    /// The event that put it there.
    pub seq: u64,
    /// The message's id.
    pub message: String,
    /// The next request shows it (L-9).
    pub shown: bool,
}

/// A job as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedJob {
    /// `<kind>-<n>`.
    pub id: String,
    /// What it runs.
    pub kind: JobKind,
    /// `Running`, or how it ended.
    pub status: JobStatus,
}

impl Summary {
    /// Ids of the messages that the next request shows, oldest first (L-9).
    pub fn history(&self) -> Vec<&str> {
        let shown = self.surface.iter().filter(|node| node.shown);
        shown.map(|node| node.message.as_str()).collect()
    }

    /// Ids of jobs without an end.
    pub fn running_jobs(&self) -> Vec<&str> {
        let running = self.jobs.iter().filter(|job| !job.status.is_end());
        running.map(|job| job.id.as_str()).collect()
    }

    pub(super) fn of(auditor: &Auditor) -> Summary {
        let Auditor { turn, surface, request, settings, jobs, .. } = auditor;
        // What was copied says nothing of this session's inbox and jobs (L-27, P-78).
        let own = auditor.next_seq > auditor.seed.length || auditor.seed.length == 0;
        let inbox = if own { auditor.inboxes.own() } else { Default::default() };
        let all = if own { jobs.all.as_slice() } else { &[] };
        Summary {
            events: auditor.next_seq,
            last_time: auditor.last_time,
            last_turn: auditor.last_turn,
            open_turn: turn.as_ref().map(|turn| turn.number),
            open_step: turn.as_ref().and_then(|turn| turn.open.as_ref().map(|_| turn.step)),
            last_end: auditor.last_end.clone(),
            surface: surface.nodes.iter().map(SurfaceNode::of).collect(),
            next_turn: inbox.next_turn,
            next_step: inbox.next_step,
            title: auditor.title.clone(),
            cwd: auditor.cwd.clone(),
            mode: settings.mode,
            policy: settings.policy,
            preset: settings.preset.clone(),
            request_header: request.header.clone(),
            request_context: request.context.clone(),
            open_approvals: auditor.approvals.open.iter().map(|open| open.id.clone()).collect(),
            jobs: all
                .iter()
                .map(|job| AuditedJob { id: job.id.clone(), kind: job.kind, status: job.status })
                .collect(),
            bash_jobs: jobs.count(JobKind::Bash),
            subagent_jobs: jobs.count(JobKind::Subagent),
        }
    }
}

impl SurfaceNode {
    fn of(node: &Node) -> SurfaceNode {
        SurfaceNode { seq: node.seq, message: node.message.clone(), shown: node.shown }
    }
}
