//! Every key of a manifest: its type, its bounds, its default and what it means. The checks, the schema for editors and the
//! list of what a reload reaches are made from these tables.

use transom_policy::{
    DOOR_LIMITS,
    keys::{Key, Kind, Literal, Table},
};

use super::{
    AGENT_EOF_GRACE_MS, AGENT_GRACE_MS, AGENT_START_MS, ANSWERS, CARRIERS, HOOK_TIMEOUT_MS,
    HookEvent, JOBS_HOST_MAX, JOBS_PER_SESSION_MAX, MODES, PRESETS, PROVIDERS, SHELL_TIMEOUT_MS,
    SHELL_TIMEOUT_MS_MAX, SUBAGENT_DEPTH_MAX, SUBAGENT_DEPTH_MOST, SUBAGENTS_LIVE_MAX,
    SUBAGENTS_LIVE_MOST, SWAPS, TOOLS, TOOLS_OTHERWISE,
    agents::{AGENT_GRACE_MS_MOST, AGENT_PERMISSIONS, AGENT_START_MS_MOST},
    hooks::HOOK_TIMEOUT_MS_MOST,
    permissions::JOBS_MOST,
    subagents::SUBAGENT_MODES,
    upkeep::{
        BACKOFF_MS_LEAST, BACKOFF_MS_MAX, BACKOFF_MS_MOST, CRASH_SECONDS, CRASHES, CRASHES_MOST,
        PROBATION_CALLS, PROBATION_CALLS_MOST, PROBATION_FAULTS, PROBATION_FAULTS_MOST,
        PROBATION_SECONDS, SECONDS_MOST,
    },
};

/// A manifest.
pub const MANIFEST: Table = Table {
    doc: "Which doors a host opens, which components speak there, and how they are run.",
    keys: &[
        Key::new("agent", Kind::Named(&AGENT), AGENT.doc),
        Key::new("component", Kind::Named(&COMPONENT), COMPONENT.doc),
        Key::new("confine", Kind::Table(&CONFINE), CONFINE.doc),
        Key::new("control", Kind::Table(&CONTROL), CONTROL.doc),
        Key::new("door", Kind::Named(&DOOR), DOOR.doc).required(),
        Key::new("hook", Kind::Tables(&HOOK), HOOK.doc),
        Key::new("jobs", Kind::Table(&JOBS), JOBS.doc),
        Key::new("metrics", Kind::Table(&METRICS), METRICS.doc),
        Key::new("model", Kind::Table(&MODEL), MODEL.doc),
        Key::new("permissions", Kind::Table(&PERMISSIONS), PERMISSIONS.doc),
        Key::new("probation", Kind::Table(&PROBATION), PROBATION.doc),
        Key::new("recovery", Kind::Table(&RECOVERY), RECOVERY.doc),
        Key::new("store", Kind::Table(&STORE), STORE.doc),
        Key::new("subagents", Kind::Named(&SUBAGENT), SUBAGENT.doc),
        Key::new("tools", Kind::Table(&TOOL_SETTINGS), TOOL_SETTINGS.doc),
    ],
};

const fn number(
    name: &'static str,
    (least, most): (u64, u64),
    default: u64,
    doc: &'static str,
) -> Key {
    Key::new(name, Kind::Number { least, most }, doc).or(Literal::Number(default))
}

const fn flag(name: &'static str, default: bool, doc: &'static str) -> Key {
    Key::new(name, Kind::Boolean, doc).or(Literal::Boolean(default))
}

const fn word(name: &'static str, words: &'static [&'static str], doc: &'static str) -> Key {
    Key::new(name, Kind::Word(words), doc)
}

/// `[component.<name>]`.
pub const COMPONENT: Table = Table {
    doc: "A component to load.",
    keys: &[
        Key::new("source", Kind::Path, "path of the component's .wasm file").required(),
        Key::new("policy", Kind::Path, "path of its policy; without one, the built-in policy of that name"),
        word(
            "swap",
            &SWAPS,
            "`migrate`: a new version takes over the connections of the old one. `drain`: they are asked to end",
        )
        .or(Literal::Text("migrate")),
        flag("watch", false, "`true`: a changed file of the component is swapped in by itself"),
    ],
};

/// `[door.<name>]`.
pub const DOOR: Table = Table {
    doc: "A protocol offered at one address.",
    keys: &[
        Key::new("component", Kind::Text, "the name of a component").required(),
        word("carrier", &CARRIERS, "how units travel").required(),
        Key::new("listen", Kind::Path, "for `unix`: path of the socket"),
        Key::new("options", Kind::Any, "what the codec gets as JSON"),
        Key::new(
            "route-map",
            Kind::Entries(&word("provider", PROVIDERS, "the provider that answers")),
            "requested provider = provider that answers",
        ),
        word("answers", &ANSWERS, "which approvals and questions this door's peers are asked"),
        Key::new(
            "policy",
            Kind::Path,
            "path of a policy for this door alone; otherwise its component's, or the built-in one",
        ),
        Key::new("limits", Kind::Table(&DOOR_LIMITS), DOOR_LIMITS.doc),
    ],
};

/// `[model]`.
pub const MODEL: Table = Table {
    doc: "Which model answers where a request names none, and where models are reached.",
    keys: &[
        word("provider", PROVIDERS, "who answers where a request names nobody"),
        Key::new("model", Kind::Text, "the model's name, where a request names none"),
        Key::new(
            "context-window",
            Kind::Number { least: 1, most: u32::MAX as u64 },
            "tokens that fit into one request and its answer",
        ),
        Key::new("script", Kind::Path, "the file that the scripted model plays"),
        Key::new(
            "base-url",
            Kind::Shaped("^https?://."),
            "base of the endpoint of `deepseek-official`; otherwise `DEEPSEEK_BASE_URL`",
        ),
    ],
};

/// `[store]`.
pub const STORE: Table = Table {
    doc: "The durable log.",
    keys: &[
        Key::new(
            "path",
            Kind::Path,
            "the database of sessions and attachments; otherwise `store.db` in the state directory",
        ),
        word(
            "durability",
            &["process", "power"],
            "what a commit survives: the end of the process, or a power loss too",
        )
        .or(Literal::Text("process")),
    ],
};

/// `[tools]`.
pub const TOOL_SETTINGS: Table = Table {
    doc: "Built-in tools.",
    keys: &[
        Key::new(
            "enabled",
            Kind::List(&word("tool", TOOLS, "a built-in tool")),
            "those that there are; otherwise those of the default, and where children can take further messages \
             `interrupt_agent`, `list_agents` and `send_message` besides",
        )
        .or(Literal::Texts(TOOLS_OTHERWISE)),
        Key::new(
            "keep-environment",
            Kind::List(&Key::new("variable", Kind::Shaped(r"^[^=*\s]+$"), "a variable's name")),
            "variables that shells get although their names look like secrets",
        )
        .or(Literal::Texts(&[])),
        number(
            "shell-timeout-ms",
            (1, SHELL_TIMEOUT_MS_MAX),
            SHELL_TIMEOUT_MS,
            "after how many milliseconds a command ends that names no deadline of its own",
        ),
        number(
            "subagent-depth-max",
            (0, SUBAGENT_DEPTH_MOST),
            SUBAGENT_DEPTH_MAX,
            "how deep sessions may delegate to further sessions; 0 forbids it",
        ),
        word(
            "subagent-mode",
            &SUBAGENT_MODES,
            "what a child of no kind is: `one-shot`, for one task; `continuable`, for further messages too",
        )
        .or(Literal::Text("one-shot")),
        number(
            "subagents-live-max",
            (1, SUBAGENTS_LIVE_MOST),
            SUBAGENTS_LIVE_MAX,
            "live children of one session; one that rests makes room for a new one and comes back when it is written to",
        ),
    ],
};

const VARIABLE_NAMES: Kind =
    Kind::List(&Key::new("variable", Kind::Shaped(r"^[^=*\s]+$"), "a variable's name"));

/// `[agent.<name>]`.
pub const AGENT: Table = Table {
    doc: "An agent in a process of its own, started for each task that is delegated to it.",
    keys: &[
        Key::new("component", Kind::Text, "who speaks with it: the name of a component")
            .or(Literal::Text("acp-child")),
        Key::new("command", Kind::Command, "the program and its arguments").required(),
        Key::new(
            "cwd",
            Kind::Path,
            "the directory it works in; otherwise that of the session that delegates to it",
        ),
        word("permission", &AGENT_PERMISSIONS, "what every question of it is answered")
            .or(Literal::Text("reject")),
        Key::new(
            "env",
            Kind::Entries(&Key::new("value", Kind::Text, "what it holds")),
            "variables that it gets besides, whatever their names",
        ),
        Key::new(
            "keep-environment",
            VARIABLE_NAMES,
            "variables of the host that it gets although their names look like secrets",
        )
        .or(Literal::Texts(&[])),
        Key::new(
            "without-environment",
            VARIABLE_NAMES,
            "variables of the host that it does not get",
        )
        .or(Literal::Texts(&[])),
        number(
            "start-ms",
            (1, AGENT_START_MS_MOST),
            AGENT_START_MS,
            "after how many milliseconds without a session its start has failed",
        ),
        number(
            "dispose-eof-grace-ms",
            (1, AGENT_GRACE_MS_MOST),
            AGENT_EOF_GRACE_MS,
            "how many milliseconds it may take to end by itself once its input has ended",
        ),
        number(
            "dispose-grace-ms",
            (1, AGENT_GRACE_MS_MOST),
            AGENT_GRACE_MS,
            "milliseconds between `SIGTERM` and `SIGKILL`",
        ),
    ],
};

/// `[subagents.<name>]`.
pub const SUBAGENT: Table = Table {
    doc: "A kind of child sessions that the tool `subagent` can be asked for.",
    keys: &[
        Key::new("description", Kind::Text, "for the model: when to use it").required(),
        Key::new(
            "agent",
            Kind::Text,
            "the agent that runs it, in a process of its own; otherwise this host does",
        ),
        Key::new(
            "persona",
            Kind::Text,
            "the persona section of its system prompt; otherwise the host's",
        ),
        Key::new("persona-file", Kind::Path, "a file with the persona, instead of `persona`"),
        Key::new(
            "tools",
            Kind::List(&Key::new("tool", Kind::Text, "a tool, or a pattern of tools")),
            "the tools that it has; otherwise those of its parent. It never has one that its parent lacks",
        ),
        Key::new(
            "without-tools",
            Kind::List(&Key::new("tool", Kind::Text, "a tool, or a pattern of tools")),
            "tools that it does not have",
        )
        .or(Literal::Texts(&[])),
        Key::new(
            "continuable",
            Kind::Boolean,
            "`true`: it outlives its task and takes further messages; otherwise as `[tools] subagent-mode` says",
        ),
        word("provider", PROVIDERS, "who answers it; otherwise whoever answers its parent"),
        Key::new(
            "model",
            Kind::Text,
            "the model's name; otherwise its parent's, or the provider's default",
        ),
        Key::new(
            "depth-max",
            Kind::Number { least: 1, most: SUBAGENT_DEPTH_MOST },
            "how deep it may lie; otherwise, and at most, `[tools] subagent-depth-max`",
        ),
        Key::new(
            "output-schema",
            Kind::Any,
            "JSON Schema of its last words, which are then JSON; not for one that takes further messages",
        ),
    ],
};

const APPROVALS: [&str; 2] = ["ask", "never"];
const DECISIONS: [&str; 3] = ["allow", "ask", "deny"];
const ACCESS: [&str; 2] = ["deny", "allow"];

/// `[permissions]`.
pub const PERMISSIONS: Table = Table {
    doc: "What tools may do, and who is asked.",
    keys: &[
        word("preset", &PRESETS, "what new sessions may do").or(Literal::Text("workspace-write")),
        word(
            "policy",
            &APPROVALS,
            "what becomes of a call that somebody would have to allow; otherwise the preset's",
        ),
        word(
            "ceiling",
            &MODES,
            "the widest mode that a door may switch a session to; otherwise the preset's",
        ),
        word("children", &APPROVALS, "the policy of sessions that work for another")
            .or(Literal::Text("never")),
        word("default", &DECISIONS, "what becomes of a call that no rule matches"),
        Key::new(
            "workspaces",
            Kind::List(&Key::new(
                "pattern",
                Kind::Shaped("^/"),
                "an absolute pattern of directories",
            )),
            "directories that sessions may use; otherwise all",
        ),
        Key::new("rule", Kind::Tables(&RULE), RULE.doc),
    ],
};

/// `[[permissions.rule]]`.
pub const RULE: Table = Table {
    doc: "What becomes of some calls. The first rule that matches decides; those of a later file stand first.",
    keys: &[
        Key::new("tool", Kind::Text, "a pattern of the tool's whole public name").required(),
        Key::new(
            "when",
            Kind::Entries(&Key::new("pattern", Kind::Text, "a pattern of the argument")),
            "patterns of the call's arguments; all of them must match",
        ),
        word("mode", &MODES, "the rule holds only under this mode"),
        word("decision", &DECISIONS, "what becomes of the call").required(),
        Key::new("reason", Kind::Text, "a sentence for whoever is asked or refused"),
    ],
};

/// `[[hook]]`.
pub const HOOK: Table = Table {
    doc: "A program that has a say at a point of a turn. Those of one point are asked in order; those of a later file stand first.",
    keys: &[
        Key::new("name", Kind::Shaped("^[a-z][a-z0-9-]{0,63}$"), "its name in logs, unique")
            .required(),
        word("event", &HookEvent::WORDS, "where it has its say").required(),
        Key::new(
            "tool",
            Kind::Text,
            "a pattern of the whole public names of tools that it is asked about; otherwise all",
        ),
        Key::new("command", Kind::Command, "the program and its arguments").required(),
        number(
            "timeout-ms",
            (1, HOOK_TIMEOUT_MS_MOST),
            HOOK_TIMEOUT_MS,
            "after how many milliseconds a program without an answer has failed",
        ),
    ],
};

const PATHS: Kind = Kind::List(&Key::new("path", Kind::Path, "a path"));

/// `[confine]`.
pub const CONFINE: Table = Table {
    doc: "What holds shells and file tools back.",
    keys: &[
        flag("off", false, "`true`: shells are not confined; each command is asked about instead"),
        flag(
            "required",
            false,
            "`true`: a command that cannot be confined does not run, whoever would allow it",
        ),
        word("network", &ACCESS, "networks, for confined shells").or(Literal::Text("deny")),
        word("unix-sockets", &ACCESS, "sockets in the file system, for confined shells")
            .or(Literal::Text("deny")),
        word(
            "temp",
            &["shared", "private"],
            "whether the temporary directories of the system can be written",
        )
        .or(Literal::Text("shared")),
        Key::new("write", PATHS, "more directories that can be written").or(Literal::Texts(&[])),
        Key::new("hide", PATHS, "more files and directories that no tool reads")
            .or(Literal::Texts(&[])),
        Key::new("show", PATHS, "what is not hidden after all").or(Literal::Texts(&[])),
        Key::new("guard", PATHS, "more files that are read and not changed")
            .or(Literal::Texts(&[])),
        flag("guard-git", true, "`false`: files of .git are not guarded"),
    ],
};

/// `[jobs]`.
pub const JOBS: Table = Table {
    doc: "Work that outlives the call that began it.",
    keys: &[
        word("delivery", &["notify", "quiet"], "whether the end of a job wakes an idle session")
            .or(Literal::Text("notify")),
        number(
            "per-session-max",
            (1, JOBS_MOST),
            JOBS_PER_SESSION_MAX,
            "jobs that a session runs at a time",
        ),
        number("host-max", (1, JOBS_MOST), JOBS_HOST_MAX, "jobs that the host runs at a time"),
    ],
};

/// `[control]`.
pub const CONTROL: Table = Table {
    doc: "The socket at which a running host is asked and told.",
    keys: &[
        Key::new(
            "listen",
            Kind::Path,
            "path of the socket; otherwise `control.sock` in the state directory",
        ),
        flag("off", false, "`true`: there is none"),
    ],
};

/// `[metrics]`.
pub const METRICS: Table = Table {
    doc: "Figures for those who watch the host.",
    keys: &[Key::new(
        "listen",
        Kind::Shaped(r"^(127\.[0-9.]+|\[::1\]):[0-9]+$"),
        "loopback address and port; without it there are none",
    )],
};

/// `[probation]`.
pub const PROBATION: Table = Table {
    doc: "How long a new version of a component is watched after a swap, and when the old one comes back.",
    keys: &[
        number(
            "calls",
            (1, PROBATION_CALLS_MOST),
            PROBATION_CALLS,
            "codec calls for which the new version is watched",
        ),
        number(
            "faults",
            (1, PROBATION_FAULTS_MOST),
            PROBATION_FAULTS,
            "connections that end by the new version's fault and bring the old one back",
        ),
        number(
            "seconds",
            (1, SECONDS_MOST),
            PROBATION_SECONDS,
            "seconds for which the new version is watched",
        ),
    ],
};

/// `[recovery]`.
pub const RECOVERY: Table = Table {
    doc: "What becomes of a component that crashes again and again.",
    keys: &[
        number("crashes", (1, CRASHES_MOST), CRASHES, "crashes within `seconds` that make a loop"),
        number(
            "seconds",
            (1, SECONDS_MOST),
            CRASH_SECONDS,
            "the time in which crashes are counted",
        ),
        number(
            "backoff-ms-max",
            (BACKOFF_MS_LEAST, BACKOFF_MS_MOST),
            BACKOFF_MS_MAX,
            "the longest wait before the next attempt",
        ),
    ],
};

#[cfg(test)]
mod tests;
