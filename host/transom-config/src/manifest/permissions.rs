//! The tables `[permissions]`, `[confine]` and `[jobs]`, checked (P-25, P-44 to P-46, P-56, P-60, P-68, P-77).
//! Reading them is `permissions/read.rs`; obeying them is up to the program and whoever it gives them to.

mod builtin;
pub(super) mod read;

use std::path::PathBuf;

use crate::launch::PermissionMode;

/// Presets by name; each is called like its mode (P-7).
pub const PRESETS: [&str; 3] = ["read-only", "workspace-write", "danger-full-access"];

/// Personal secrets below a user's home that are hidden unless `confine.show` names them (P-45).
pub const PERSONAL_SECRETS: [&str; 9] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
];

/// `[permissions]`: what tools may do, and who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// The preset of new sessions, by its mode.
    pub preset: PermissionMode,
    /// The approval policy of new sessions; the preset's where the manifest says nothing.
    pub policy: Approvals,
    /// The widest mode that a door may switch a session to; the preset's where the manifest says nothing.
    pub ceiling: PermissionMode,
    /// The manifest names the ceiling. Then sessions that were wider are narrowed to it when they are continued.
    pub ceiling_named: bool,
    /// The approval policy of children (P-24).
    pub children: Approvals,
    /// What becomes of calls that no rule matches. `None`: the table of P-29.
    pub default: Option<RuleDecision>,
    /// Patterns of directories that sessions may use; absolute. `None`: any.
    pub workspaces: Option<Vec<String>>,
    /// `[[permissions.rule]]`, in the order of the text.
    pub rules: Vec<PermissionRule>,
}

impl Permissions {
    /// A preset and nothing else.
    pub fn of(preset: PermissionMode) -> Permissions {
        Permissions {
            preset,
            policy: Approvals::of(preset),
            ceiling: preset,
            ceiling_named: false,
            children: Approvals::Never,
            default: None,
            workspaces: None,
            rules: Vec::new(),
        }
    }
}

impl Default for Permissions {
    /// P-8: what `transom run` starts with where the manifest says nothing.
    fn default() -> Permissions {
        Permissions::of(PermissionMode::WorkspaceWrite)
    }
}

/// What becomes of an ask before anybody is consulted (P-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approvals {
    /// `ask`: whoever answers decides.
    Ask,
    /// `never`: it is rejected.
    Never,
}

impl Approvals {
    /// The policy of a preset (P-7).
    pub fn of(preset: PermissionMode) -> Approvals {
        match preset {
            PermissionMode::ReadOnly | PermissionMode::WorkspaceWrite => Approvals::Ask,
            PermissionMode::DangerFullAccess => Approvals::Never,
        }
    }

    /// The word in manifests and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Approvals::Ask => "ask",
            Approvals::Never => "never",
        }
    }
}

/// One `[[permissions.rule]]` (P-26 to P-28).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// Pattern of public names; never empty.
    pub tool: String,
    /// Argument and pattern, in the order of the text.
    pub when: Vec<(String, String)>,
    /// Holds only under this mode.
    pub mode: Option<PermissionMode>,
    /// What it says.
    pub decision: RuleDecision,
    /// For whoever is asked or refused.
    pub reason: Option<String>,
    /// The manifest, as it was named.
    pub file: String,
    /// Where the rule begins, from 1.
    pub line: usize,
}

/// What a rule says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleDecision {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl RuleDecision {
    /// The word in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleDecision::Allow => "allow",
            RuleDecision::Ask => "ask",
            RuleDecision::Deny => "deny",
        }
    }
}

/// `[confine]`: what holds shells and file tools back. Relative paths stay as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confine {
    /// No shell is confined (P-60).
    pub off: bool,
    /// A shell that cannot be confined does not run, whoever would allow it (P-60).
    pub required: bool,
    /// Networks, for confined shells (P-56).
    pub network: Access,
    /// Sockets in the file system, for confined shells (P-56).
    pub unix_sockets: Access,
    /// Temporary directories.
    pub temp: Temp,
    /// More writable roots; relative ones stand in the workspace (P-44).
    pub write: Vec<PathBuf>,
    /// More hidden files; relative ones stand in the user's home (P-45).
    pub hide: Vec<PathBuf>,
    /// Personal secrets that are not hidden; relative ones are of [`PERSONAL_SECRETS`] or `hide` (P-45).
    pub show: Vec<PathBuf>,
    /// More guarded files; relative ones stand in the workspace (P-46).
    pub guard: Vec<PathBuf>,
    /// Version control's own files are guarded (P-46).
    pub guard_git: bool,
}

impl Default for Confine {
    fn default() -> Confine {
        Confine {
            off: false,
            required: false,
            network: Access::Deny,
            unix_sockets: Access::Deny,
            temp: Temp::Shared,
            write: Vec::new(),
            hide: Vec::new(),
            show: Vec::new(),
            guard: Vec::new(),
            guard_git: true,
        }
    }
}

/// Whether confined shells reach something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// They do not.
    Deny,
    /// They do.
    Allow,
}

/// Which temporary directories a session may write (P-44).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temp {
    /// Those of the system, and its own.
    Shared,
    /// Its own.
    Private,
}

/// Jobs of one session at a time, where nothing else is said (P-85).
pub const JOBS_PER_SESSION_MAX: u64 = 10;

/// Jobs of the host at a time, where nothing else is said (P-85).
pub const JOBS_HOST_MAX: u64 = 256;

/// More at once than any machine runs well; a slip of the keyboard ends here.
pub(super) const JOBS_MOST: u64 = 10_000;

/// `[jobs]`: work that outlives the call that began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jobs {
    /// How the end of a job is told (P-77).
    pub delivery: Delivery,
    /// Jobs of one session at a time (P-68).
    pub per_session_max: u64,
    /// Jobs of the host at a time (P-68).
    pub host_max: u64,
}

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs {
            delivery: Delivery::Notify,
            per_session_max: JOBS_PER_SESSION_MAX,
            host_max: JOBS_HOST_MAX,
        }
    }
}

/// Whether the end of a job wakes its owner (P-77).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// An idle owner begins a turn.
    Notify,
    /// The notice waits for the next turn.
    Quiet,
}

#[cfg(test)]
mod tests;
