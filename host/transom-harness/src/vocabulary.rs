//! Placeholder for the vocabulary: names only, until the checks of each event's data are here.

/// An event type that this version knows.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub kind: &'static str,
}

const KNOWN: &[Known] = &[
    Known { kind: "turn/start" },
    Known { kind: "turn/end" },
    Known { kind: "step/start" },
    Known { kind: "step/end" },
    Known { kind: "user/message" },
    Known { kind: "assistant/chunk" },
    Known { kind: "assistant/message" },
    Known { kind: "tool/call" },
    Known { kind: "tool/result" },
    Known { kind: "agent/inbox/spliced" },
    Known { kind: "request/header" },
    Known { kind: "request/context" },
    Known { kind: "llm/retry" },
    Known { kind: "llm/retry-started" },
    Known { kind: "approval/asked" },
    Known { kind: "approval/decided" },
    Known { kind: "approval/policy" },
    Known { kind: "permission/preset" },
    Known { kind: "sandbox/mode" },
    Known { kind: "plan/mode" },
    Known { kind: "agent-preset/selected" },
    Known { kind: "subagent/descriptor" },
    Known { kind: "session/end-seed" },
    Known { kind: "session/title" },
    Known { kind: "session/title-llm-request" },
    Known { kind: "command/run" },
    Known { kind: "command/done" },
    Known { kind: "compaction/start" },
    Known { kind: "compaction/summary" },
    Known { kind: "compaction/prune" },
    Known { kind: "compaction/end" },
    Known { kind: "todo/write" },
    Known { kind: "goal/change" },
    Known { kind: "schedule/change" },
    Known { kind: "hook/invoked" },
    Known { kind: "hook/result" },
    Known { kind: "feedback/record" },
    Known { kind: "tool/code-dispatch-start" },
    Known { kind: "tool/code-dispatch" },
    Known { kind: "tool-workflow/run-start" },
    Known { kind: "tool-workflow/run-end" },
    Known { kind: "tool-workflow/agent-start" },
    Known { kind: "tool-workflow/agent-end" },
    Known { kind: "web/deepseek-search-llm-request" },
    Known { kind: "working-directory/change" },
    Known { kind: "job/registered" },
    Known { kind: "job/settled" },
];

/// The type of that name.
pub fn find(kind: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind)
}
