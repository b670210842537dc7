//! What rules may say of built-in tools: their arguments, and which of these are texts.
//! The schemas that models see are `transom-tools`'.

/// A built-in tool's arguments.
pub(super) struct Arguments {
    tool: &'static str,
    /// Those that a pattern can match (P-27).
    pub(super) texts: &'static [&'static str],
    pub(super) others: &'static [&'static str],
}

const fn tool(
    tool: &'static str,
    texts: &'static [&'static str],
    others: &'static [&'static str],
) -> Arguments {
    Arguments { tool, texts, others }
}

/// `sandbox_permissions` and `justification` are there where something confines (P-18).
const ARGUMENTS: &[Arguments] = &[
    tool("ask_user_question", &[], &["questions"]),
    tool(
        "bash",
        &["command", "description", "workdir", "sandbox_permissions", "justification"],
        &["timeoutMs", "run_in_background"],
    ),
    tool(
        "edit",
        &["file_path", "old_string", "new_string", "sandbox_permissions", "justification"],
        &["replace_all"],
    ),
    tool("glob", &["pattern", "path"], &[]),
    tool("grep", &["pattern", "path", "include"], &[]),
    tool("interrupt_agent", &["agent_id"], &[]),
    tool("job_kill", &["job_id", "reason"], &[]),
    tool("job_list", &[], &[]),
    tool("job_output", &["job_id"], &["wait", "timeout_ms"]),
    tool("list_agents", &[], &[]),
    tool("read", &["file_path"], &["offset", "limit"]),
    tool("read_image", &["file_path"], &[]),
    // Not in the manifest's list: children that take further messages have it, and nobody else.
    tool("report", &["output"], &[]),
    tool("send_message", &["subagent_id", "message"], &[]),
    tool("skill", &["name"], &[]),
    tool(
        "str_replace_editor",
        &["command", "path", "file_text", "old_str", "new_str"],
        &["insert_line", "view_range"],
    ),
    tool("subagent", &["description", "prompt", "kind"], &["run_in_background"]),
    tool("todo_write", &[], &["todos"]),
    tool("write", &["file_path", "content", "sandbox_permissions", "justification"], &[]),
];

/// The arguments of a tool. `None`: it is none of the built-in ones.
pub(super) fn arguments(tool: &str) -> Option<&'static Arguments> {
    ARGUMENTS.iter().find(|arguments| arguments.tool == tool)
}
