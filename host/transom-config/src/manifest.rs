//! `transom.toml`: which components and doors there are, and with what model, store and tools they run.
//! The keys are `manifest/keys.rs`, the checks `manifest/check.rs`; policies are `transom-policy`'s.

mod agents;
mod changes;
mod check;
mod hooks;
pub mod keys;
mod layers;
mod overrides;
mod permissions;
mod subagents;
mod upkeep;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use transom_doors::Answers;
use transom_policy::{Limits, limits::LIMIT_KEYS};

use self::layers::Layer;
use crate::{error::ConfigErrors, launch::PermissionMode};

pub use agents::{
    AGENT_COMPONENTS, AGENT_EOF_GRACE_MS, AGENT_GRACE_MS, AGENT_START_MS, Agent, AgentPermission,
};
pub use changes::{Change, Effect};
pub use hooks::{HOOK_TIMEOUT_MS, Hook, HookEvent};
pub use overrides::Overrides;
pub use permissions::{
    Access, Approvals, Confine, Delivery, JOBS_HOST_MAX, JOBS_PER_SESSION_MAX, Jobs,
    PERSONAL_SECRETS, PRESETS, PermissionRule, Permissions, RuleDecision, Temp,
};
pub use subagents::{Subagent, SubagentMode};
pub use upkeep::{
    BACKOFF_MS_MAX, CRASH_SECONDS, CRASHES, Control, Metrics, PROBATION_CALLS, PROBATION_FAULTS,
    PROBATION_SECONDS, Probation, Recovery,
};

/// The manifest of `transom run` where none is named: the doors `sdk` and `frames` on unix sockets, and the
/// scripted model behind the name that published clients ask for (decision 57). Its directory is the
/// state directory.
pub const BUILT_IN: &str = r#"[door.sdk]
component = "sdk"
carrier = "unix"
listen = "sdk.sock"
route-map = { deepseek-official = "scripted" }

[door.frames]
component = "frames"
carrier = "unix"
listen = "frames.sock"

[model]
provider = "scripted"

[store]
path = "store.db"
"#;

/// Components that need no table of their own: `acp` and `sdk` are part of the program, `frames` is the host's own
/// language and has no component at all.
pub const BUILT_IN_COMPONENTS: &[&str] = &["acp", "frames", "sdk"];

/// Model providers there are.
pub const PROVIDERS: &[&str] = &["deepseek-official", "scripted"];

/// Built-in tools there are, in the order of their names.
pub const TOOLS: &[&str] = &[
    "ask_user_question",
    "bash",
    "edit",
    "glob",
    "grep",
    "interrupt_agent",
    "job_kill",
    "job_list",
    "job_output",
    "list_agents",
    "read",
    "read_image",
    "send_message",
    "skill",
    "str_replace_editor",
    "subagent",
    "todo_write",
    "write",
];

/// Of these, those by which a session addresses children that take further messages (L-72). They are there where such
/// children can be.
pub const CHILD_TOOLS: &[&str] = &["interrupt_agent", "list_agents", "send_message"];

/// The tools that there are where a manifest names none and children are for one task: all but [`CHILD_TOOLS`].
pub(crate) const TOOLS_OTHERWISE: &[&str] = &[
    "ask_user_question",
    "bash",
    "edit",
    "glob",
    "grep",
    "job_kill",
    "job_list",
    "job_output",
    "read",
    "read_image",
    "skill",
    "str_replace_editor",
    "subagent",
    "todo_write",
    "write",
];

/// Deadline of a shell command that names none, where nothing else is said (P-85).
pub const SHELL_TIMEOUT_MS: u64 = 120_000;

/// The longest deadline of a shell command (P-85).
pub const SHELL_TIMEOUT_MS_MAX: u64 = 600_000;

/// How deep sessions may delegate where the manifest says nothing (L-67).
pub const SUBAGENT_DEPTH_MAX: u64 = 3;

/// Each level is a session with a model of its own: past this, depth is a slip.
pub(crate) const SUBAGENT_DEPTH_MOST: u64 = 32;

/// Live children of one session where the manifest says nothing.
pub const SUBAGENTS_LIVE_MAX: u64 = 32;

/// Each of them holds its conversation in memory.
pub(crate) const SUBAGENTS_LIVE_MOST: u64 = 1_000;

const CARRIERS: [&str; 2] = ["stdio", "unix"];
const ANSWERS: [&str; 3] = ["never", "owned", "always"];
const SWAPS: [&str; 2] = ["migrate", "drain"];
const MODES: [&str; 3] = {
    let [read_only, workspace_write, full] = PermissionMode::ALL;
    [read_only.as_str(), workspace_write.as_str(), full.as_str()]
};

/// A checked manifest. Paths are as written, below the directory of the file that names them where they
/// were relative.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// `[component.<name>]`.
    pub components: BTreeMap<String, Component>,
    /// `[door.<name>]`. Never empty.
    pub doors: BTreeMap<String, Door>,
    /// `[model]`.
    pub model: Model,
    /// `[store]`.
    pub store: StoreSettings,
    /// `[tools]`.
    pub tools: Tools,
    /// `[agent.<name>]`.
    pub agents: BTreeMap<String, Agent>,
    /// `[subagents.<name>]`.
    pub subagents: BTreeMap<String, Subagent>,
    /// `[[hook]]`, in the order in which they are asked.
    pub hooks: Vec<Hook>,
    /// `[permissions]`.
    pub permissions: Permissions,
    /// `[confine]`.
    pub confine: Confine,
    /// `[jobs]`.
    pub jobs: Jobs,
    /// `[control]`.
    pub control: Control,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `[probation]`.
    pub probation: Probation,
    /// `[recovery]`.
    pub recovery: Recovery,
}

/// A component to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The file of the component.
    pub source: PathBuf,
    /// The file of its policy. `None`: the one that is built in for the door's component of that name.
    pub policy: Option<PathBuf>,
    /// What becomes of connections that a new version cannot take over.
    pub swap: Swap,
    /// Whether a changed file is swapped in without being asked for.
    pub watch: bool,
}

/// What becomes of connections that the new version of a component cannot take over (design §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Swap {
    /// They stay with the old version until they end.
    #[default]
    Migrate,
    /// They are asked to end.
    Drain,
}

impl Swap {
    /// The word in manifests and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Swap::Migrate => "migrate",
            Swap::Drain => "drain",
        }
    }
}

/// A protocol offered at one address.
#[derive(Debug, Clone, PartialEq)]
pub struct Door {
    /// A key of [`Manifest::components`], or else one of [`BUILT_IN_COMPONENTS`].
    pub component: String,
    /// How units travel.
    pub carrier: Carrier,
    /// Handed to the codec as it is.
    pub options: Map<String, Value>,
    /// Requested provider → provider that answers (decision 57).
    pub route_map: BTreeMap<String, String>,
    /// Which approvals the door's peers answer (decision 8). `None`: what the built-in door of the component says,
    /// else none.
    pub answers: Option<Answers>,
    /// The file of the door's own policy. `None`: that of its component, else the one that is built in.
    pub policy: Option<PathBuf>,
    /// Numbers that replace those of the policy.
    pub limits: DoorLimits,
}

/// How units travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// Standard input and output of this process; at most one door.
    Stdio,
    /// A unix socket.
    Unix {
        /// Where the socket is made.
        listen: PathBuf,
    },
}

/// Limits that a door sets for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoorLimits(BTreeMap<&'static str, u64>);

impl DoorLimits {
    /// Puts these numbers into a policy's limits.
    pub fn apply(&self, limits: &mut Limits) {
        for limit in LIMIT_KEYS {
            if let Some(number) = self.0.get(limit.key.name) {
                *limit.field(limits) = *number;
            }
        }
    }

    /// What is set for one of them.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which model answers where a request names none, and where models are reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// One of [`PROVIDERS`].
    pub provider: Option<String>,
    /// The model's name at the provider.
    pub model: Option<String>,
    /// Tokens that fit into one request and its answer.
    pub context_window: Option<u64>,
    /// The file that the scripted provider plays. `None`: its built-in script.
    pub script: Option<PathBuf>,
    /// Base of the endpoint of `deepseek-official`; the environment's `DEEPSEEK_BASE_URL` otherwise.
    pub base_url: Option<String>,
}

/// The durable log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The database file. `None`: `store.db` in the state directory.
    pub path: Option<PathBuf>,
    /// What a commit survives.
    pub durability: Durability,
}

/// Against what a commit is safe (design §2, rule 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process.
    #[default]
    Process,
    /// A power loss too.
    Power,
}

/// Built-in tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Some of [`TOOLS`], sorted.
    pub enabled: Vec<String>,
    /// Variables that children get although the environment is scrubbed (L-84).
    pub keep_environment: Vec<String>,
    /// Deadline of a shell command that names none (P-85).
    pub shell_timeout_ms: u64,
    /// How deep sessions may delegate to further sessions; 0 forbids it (L-67).
    pub subagent_depth_max: u64,
    /// Whether a child of no kind takes further messages (L-72).
    pub subagent_mode: SubagentMode,
    /// Live children of one session, those that rest included.
    pub subagents_live_max: u64,
}

impl Default for Tools {
    /// All of them but those that address children which live on. `ask_user_question` too: where nobody can be asked, it says so itself (L-65).
    fn default() -> Tools {
        Tools {
            enabled: TOOLS_OTHERWISE.iter().map(|&name| name.to_owned()).collect(),
            keep_environment: Vec::new(),
            shell_timeout_ms: SHELL_TIMEOUT_MS,
            subagent_depth_max: SUBAGENT_DEPTH_MAX,
            subagent_mode: SubagentMode::OneShot,
            subagents_live_max: SUBAGENTS_LIVE_MAX,
        }
    }
}

impl Manifest {
    /// Checks a manifest. All complaints come at once, in the order of the text.
    ///
    /// `file` names the text in complaints and gives the directory of its relative paths.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Manifest, ConfigErrors> {
        Manifest::parse_layers(&[(file, bytes)], &Overrides::default())
    }

    /// Checks a manifest of several files, a later one above an earlier one, and of what is said instead of them.
    ///
    /// Above wins, key by key: tables become one, any other value replaces the one below, and `[[permissions.rule]]` and
    /// `[[hook]]` of a file stand before those of the files below it. Each file is checked alone for keys and types, the whole for
    /// what must be there and what must hold between keys. All complaints come at once, file by file.
    pub fn parse_layers(
        files: &[(&Path, &[u8])],
        overrides: &Overrides,
    ) -> Result<Manifest, ConfigErrors> {
        let layers = files.iter().map(|&(file, bytes)| Layer::file(file, bytes)).collect();
        layers::manifest(layers, overrides)
    }

    /// The manifest of a run without one, with its sockets and its store in `state_directory`.
    pub fn built_in(state_directory: &Path) -> Result<Manifest, ConfigErrors> {
        Manifest::built_in_with(state_directory, &Overrides::default())
    }

    /// The same, with what is said instead of it.
    pub fn built_in_with(
        state_directory: &Path,
        overrides: &Overrides,
    ) -> Result<Manifest, ConfigErrors> {
        let name = "built-in manifest".to_owned();
        let layer = Layer { name, directory: state_directory, bytes: BUILT_IN.as_bytes() };
        layers::manifest(vec![layer], overrides)
    }
}

/// The directory of sockets, store and whatever else outlives a run: `TRANSOM_STATE_DIR`, else `transom` in
/// `XDG_STATE_HOME`, else `~/.local/state/transom`. `None`: the environment names no home.
///
/// A relative path counts as unset, as the rules for `XDG_STATE_HOME` say.
pub fn state_directory(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let absolute =
        |name: &str| environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("TRANSOM_STATE_DIR")
        .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("transom")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/transom")))
}

#[cfg(test)]
mod tests;
