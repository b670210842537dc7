//! The package names of the reference's configurations (S-206), and what each comes to here.
//! A name that is not in this table fails the start: nothing is ignored that somebody could rely on.

use Package::*;

/// What stands before every name.
pub(super) const PREFIX: &str = "@deepseek-ai/";

/// What a package comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    /// The SDK server on stdin and stdout.
    SdkServer,
    /// The ACP server on stdin and stdout.
    AcpServer,
    /// The whole agent in one entry: loop, prompt, `bash`, jobs, skills.
    AgentSpine,
    /// The loop alone.
    AgentLoop,
    /// The model where a request names none.
    DefaultModel,
    /// The system prompt.
    SystemPrompt,
    /// Workspace instructions in the prompt.
    AgentInstructions,
    /// The DeepSeek adapter.
    DeepSeek,
    /// Sessions as JSON lines.
    SessionsJsonLines,
    /// Sessions in a database.
    SessionsSqlite,
    /// What runs shell commands, and where.
    Shell,
    /// What reaches files, and where.
    Files,
    /// What tools may do.
    SandboxPolicy,
    /// The tool `bash`.
    ToolBash,
    /// The tool `bash` that keeps its state between calls.
    ToolBashPersistent,
    /// The tools `read`, `write`, `edit`, and `read_image` with attachments.
    ToolFiles,
    /// The tools `glob` and `grep`.
    ToolSearch,
    /// The tools `job_kill`, `job_list` and `job_output`.
    ToolJobs,
    /// A tool that delegates; its name is a setting.
    ToolSubagent,
    /// What finds skills in files.
    Skills,
    /// The tool `skill`.
    ToolSkill,
    /// The tool `str_replace_editor`.
    ToolEditor,
    /// The tools that address children which take further messages.
    ToolSubagentControl(&'static [&'static str]),
    /// The tool `todo_write`.
    ToolTodo,
    /// The tool `ask_user_question`.
    ToolAskUser,
    /// What keeps background jobs.
    Jobs,
    /// What runs subagents, each in a session of its own.
    Subagents,
    /// Images and other attachments.
    Attachments,
    /// A list of entries within an entry.
    Group,
    /// Part of every host: there is nothing to switch on or off.
    Inherent,
    /// Not here: tools that the model would be offered.
    MissingTools(&'static [&'static str]),
    /// Not here: something else.
    Missing(&'static str),
}

const PACKAGES: &[(&str, Package)] = &[
    ("cordis", Inherent),
    ("cordis-plugin-group", Group),
    ("cordis-plugin-hmr", Missing("reloading of packages")),
    ("cordis-plugin-include", Missing("including other configurations")),
    ("cordis-plugin-loader", Inherent),
    ("cordis-plugin-logger-console", Missing("a log on the console")),
    ("cordis-plugin-timer", Inherent),
    ("dsh-acp", AcpServer),
    ("dsh-acp-app", Inherent),
    ("dsh-agent", Inherent),
    ("dsh-agent-default-model", DefaultModel),
    ("dsh-agent-instructions", AgentInstructions),
    ("dsh-agent-loop", AgentLoop),
    ("dsh-agent-preset", Missing("agent presets")),
    ("dsh-agent-preset-registry", Missing("agent presets")),
    ("dsh-agent-presets", Missing("agent presets")),
    ("dsh-agent-spine-demo", AgentSpine),
    ("dsh-agent-tool-presentation", Inherent),
    ("dsh-anonymous-user-id", Inherent),
    ("dsh-app-boot", Inherent),
    ("dsh-attachment", Attachments),
    ("dsh-attachment-local", Attachments),
    ("dsh-authorization", Inherent),
    ("dsh-bash-local", Shell),
    ("dsh-bash-sandbox", Shell),
    ("dsh-code-runtime", Missing("the code runtime")),
    ("dsh-code-runtime-worker-thread", Missing("the code runtime")),
    ("dsh-command-compact", Missing("commands")),
    ("dsh-command-feedback", Missing("commands")),
    ("dsh-command-goal", Missing("commands")),
    ("dsh-commands", Missing("commands")),
    ("dsh-compaction", Missing("compaction")),
    ("dsh-compaction-basic", Missing("compaction")),
    ("dsh-compaction-image-offload", Missing("compaction")),
    ("dsh-compaction-tool-result-pruner", Missing("compaction")),
    ("dsh-config-editor", Inherent),
    ("dsh-cordis-host-runner", Missing("packages in processes of their own")),
    ("dsh-credentials", Inherent),
    ("dsh-credentials-local", Missing("stored credentials")),
    ("dsh-deepseek-account-platform", Missing("sign-in with a DeepSeek account")),
    ("dsh-deepseek-llm-api-extensions", Inherent),
    ("dsh-fs", Inherent),
    ("dsh-fs-local", Files),
    ("dsh-fs-observation-policy", Inherent),
    ("dsh-fs-sandbox", Files),
    ("dsh-goal", Missing("goals")),
    ("dsh-goal-round-driver", Missing("goals")),
    ("dsh-hmr", Missing("reloading of packages")),
    ("dsh-home-paths", Inherent),
    ("dsh-hooks-claude-code", Missing("hooks")),
    ("dsh-hooks-codex", Missing("hooks")),
    ("dsh-invariants", Inherent),
    ("dsh-jobs", Inherent),
    ("dsh-jobs-local", Jobs),
    ("dsh-launch-environment", Inherent),
    ("dsh-llm", Inherent),
    ("dsh-llm-deepseek", DeepSeek),
    ("dsh-llm-deepseek-account", Missing("sign-in with a DeepSeek account")),
    ("dsh-llm-deepseek-api-key", DeepSeek),
    ("dsh-llm-pi-ai", Missing("the pi-ai models")),
    ("dsh-llm-retry", Inherent),
    ("dsh-mcp-client", Missing("MCP servers of a composition")),
    ("dsh-mcp-resources", Missing("MCP resources")),
    ("dsh-otel", Inherent),
    ("dsh-output-retention", Inherent),
    ("dsh-permission-presets", Inherent),
    ("dsh-persona", Missing("personas")),
    ("dsh-plan-mode", MissingTools(&["exit_plan_mode"])),
    ("dsh-plugin-package-inventory-deepseek", Inherent),
    ("dsh-ptc-runtime-node", Missing("the code runtime")),
    ("dsh-pwsh-local", Missing("PowerShell")),
    ("dsh-pwsh-sandbox", Missing("PowerShell")),
    ("dsh-repeat-tool-reminder", Missing("reminders of repeated calls")),
    ("dsh-sandbox", Inherent),
    ("dsh-sandbox-local", Inherent),
    ("dsh-sandbox-policy", SandboxPolicy),
    ("dsh-scope", Inherent),
    ("dsh-sdk-app", Inherent),
    ("dsh-sdk-jsonrpc-server", SdkServer),
    ("dsh-session", Inherent),
    ("dsh-session-checkpoint-policy", Inherent),
    ("dsh-session-log-deepseek", Inherent),
    ("dsh-session-persistence", Inherent),
    ("dsh-session-persistence-jsonl", SessionsJsonLines),
    ("dsh-session-persistence-sqlite", SessionsSqlite),
    ("dsh-session-projection", Inherent),
    ("dsh-session-projection-cache", Inherent),
    ("dsh-session-query", Missing("search in sessions")),
    ("dsh-session-query-sqlite", Missing("search in sessions")),
    ("dsh-session-reference", Missing("references to sessions")),
    // Nothing is ever sent (S-208).
    ("dsh-session-telemetry-otel", Inherent),
    ("dsh-session-title", Inherent),
    ("dsh-session-title-first-prompt-llm", Missing("titles made by a model")),
    ("dsh-settings", Inherent),
    ("dsh-shell", Inherent),
    ("dsh-shell-env", Inherent),
    ("dsh-skill", Inherent),
    ("dsh-skill-filesystem", Skills),
    ("dsh-skill-office", Missing("office skills")),
    ("dsh-spill-local", Inherent),
    ("dsh-spill-policy", Inherent),
    ("dsh-storage", Inherent),
    ("dsh-storage-domain", Inherent),
    ("dsh-storage-json", Inherent),
    ("dsh-subagent", Inherent),
    ("dsh-subagent-acp", Missing("subagents over ACP")),
    ("dsh-subagent-dsh-sdk", Missing("subagents over the SDK")),
    ("dsh-subagent-fork-in-process", MissingTools(&["subagent_fork"])),
    ("dsh-subagent-in-process-driver", Inherent),
    ("dsh-subagent-spawn-in-process", Subagents),
    ("dsh-subprocess", Inherent),
    ("dsh-subprocess-local", Inherent),
    ("dsh-system-prompt", SystemPrompt),
    ("dsh-terminal", Inherent),
    ("dsh-terminal-bash", Shell),
    ("dsh-timeout", Inherent),
    ("dsh-timeout-guard", Inherent),
    ("dsh-token-meter", Inherent),
    ("dsh-tool-ask-user", ToolAskUser),
    ("dsh-tool-bash", ToolBash),
    ("dsh-tool-bash-persistent", ToolBashPersistent),
    ("dsh-tool-call-timeout-policy", Inherent),
    ("dsh-tool-cordis", Missing("tools that change the composition")),
    ("dsh-tool-fs", ToolFiles),
    ("dsh-tool-fs-search", ToolSearch),
    ("dsh-tool-goal", MissingTools(&["create_goal", "get_goal", "update_goal"])),
    ("dsh-tool-jobs", ToolJobs),
    ("dsh-tool-pwsh", Missing("PowerShell")),
    ("dsh-tool-pwsh-persistent", Missing("PowerShell")),
    ("dsh-tool-skill", ToolSkill),
    ("dsh-tool-str-replace-editor", ToolEditor),
    ("dsh-tool-subagent", ToolSubagent),
    ("dsh-tool-subagent-control", ToolSubagentControl(&["interrupt_agent", "send_message"])),
    ("dsh-tool-subagent-control/list-agents", ToolSubagentControl(&["list_agents"])),
    ("dsh-tool-todo", ToolTodo),
    ("dsh-tool-web", MissingTools(&["web_fetch", "web_search"])),
    ("dsh-tool-workflow", MissingTools(&["workflow"])),
    ("dsh-tool-working-directory", MissingTools(&["working_directory"])),
    ("dsh-tool-workspace-dependencies", Missing("workspace dependencies")),
    ("dsh-tools", Inherent),
    ("dsh-typert-loader", Inherent),
    ("dsh-typert-registry", Inherent),
    ("dsh-user-approval", Inherent),
    ("dsh-user-questions", Inherent),
    ("dsh-web", Inherent),
    ("dsh-web-deepseek-api", MissingTools(&["web_fetch", "web_search"])),
    ("dsh-web-fetch-http", MissingTools(&["web_fetch"])),
    ("dsh-web-search-deepseek", MissingTools(&["web_search"])),
    ("dsh-web-search-exa", MissingTools(&["web_search"])),
    ("dsh-web-search-perplexity", MissingTools(&["web_search"])),
    ("dsh-workflow", MissingTools(&["workflow"])),
    ("dsh-workflow-ptc", MissingTools(&["workflow"])),
    ("dsh-workflow-worker-thread", MissingTools(&["workflow"])),
    ("dsh-working-directory", Inherent),
];

/// The package of this name.
pub(super) fn find(name: &str) -> Option<Package> {
    if name == "cordis:group" {
        return Some(Group);
    }
    let name = name.strip_prefix(PREFIX)?;
    PACKAGES.iter().find(|(known, _)| *known == name).map(|(_, package)| *package)
}

/// The known name that was probably meant.
pub(super) fn nearest(name: &str) -> Option<String> {
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let nearest = transom_policy::nearest(bare, PACKAGES.iter().map(|(known, _)| *known))?;
    Some(format!("{PREFIX}{nearest}"))
}
