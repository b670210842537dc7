//! What a session may do, and who is asked: modes, approval policies, presets, and how they are folded
//! from the log (`permissions-and-jobs.md` P-1 to P-13). The operator's rules are in `permissions/rules.rs`.

use serde::{Deserialize, Serialize};

/// How far tools may change files (P-1). Says nothing of network or processes. The order is that of width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// `read-only`: nothing can be changed.
    ReadOnly,
    /// `workspace-write`: the workspace and temporary directories can.
    WorkspaceWrite,
    /// `danger-full-access`: no limit.
    DangerFullAccess,
}

impl Mode {
    /// The word in logs, manifests and model texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::ReadOnly => "read-only",
            Mode::WorkspaceWrite => "workspace-write",
            Mode::DangerFullAccess => "danger-full-access",
        }
    }

    /// The mode of that word.
    pub fn parse(word: &str) -> Option<Mode> {
        match word {
            "read-only" => Some(Mode::ReadOnly),
            "workspace-write" => Some(Mode::WorkspaceWrite),
            "danger-full-access" => Some(Mode::DangerFullAccess),
            _ => None,
        }
    }
}

/// What becomes of an ask before anybody is consulted (P-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalPolicy {
    /// `ask`: whoever answers decides.
    Ask,
    /// `never`: it is rejected.
    Never,
}

impl ApprovalPolicy {
    /// The word in logs, manifests and model texts.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalPolicy::Ask => "ask",
            ApprovalPolicy::Never => "never",
        }
    }

    /// The policy of that word.
    pub fn parse(word: &str) -> Option<ApprovalPolicy> {
        match word {
            "ask" => Some(ApprovalPolicy::Ask),
            "never" => Some(ApprovalPolicy::Never),
            _ => None,
        }
    }
}

/// How an ask came out (P-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// `allowed-once`: this call, with its arguments, and nothing else.
    AllowedOnce,
    /// `rejected`: a person or the policy has said no.
    Rejected,
    /// `cancelled`: nobody waits for an answer any more.
    Cancelled,
    /// `unavailable`: nobody could answer.
    Unavailable,
}

/// What one call may do, fixed when it is judged (P-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The effective mode; after a grant, the granted one.
    pub mode: Mode,
    /// The effective approval policy.
    pub policy: ApprovalPolicy,
    /// The last mode in the session's log, which a delegation hands on (P-23).
    pub logged_mode: Option<Mode>,
    /// A person has allowed this command to run although nothing confines it here (P-60).
    pub unconfined: bool,
}

impl Access {
    /// No limit and nobody to ask: what a host without permissions gives.
    pub const FULL: Access = Access {
        mode: Mode::DangerFullAccess,
        policy: ApprovalPolicy::Never,
        logged_mode: None,
        unconfined: false,
    };
}

pub mod presets;
pub mod rules;
