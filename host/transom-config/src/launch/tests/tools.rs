//! Which tools a composition offers, and how they work.

use super::form_a;

/// What a composition without some row offers, and what it says of the rest.
#[test]
fn tools_need_what_carries_them_out() {
    let all = [
        "{id: core, name: '@deepseek-ai/dsh-agent-loop'}",
        "{id: search, name: '@deepseek-ai/dsh-tool-fs-search'}",
        "{id: files, name: '@deepseek-ai/dsh-fs-local'}",
        "{id: tool-bash, name: '@deepseek-ai/dsh-tool-bash'}",
        "{id: bash, name: '@deepseek-ai/dsh-bash-local'}",
        "{id: tool-jobs, name: '@deepseek-ai/dsh-tool-jobs'}",
        "{id: jobs, name: '@deepseek-ai/dsh-jobs-local'}",
        "{id: tool-subagent, name: '@deepseek-ai/dsh-tool-subagent', config: {provider: spawn}}",
        "{id: spawn, name: '@deepseek-ai/dsh-subagent-spawn-in-process'}",
        "{id: todo, name: '@deepseek-ai/dsh-tool-todo'}",
        "{id: ask, name: '@deepseek-ai/dsh-tool-ask-user'}",
    ];
    let check = |without: &[&str], tools: &str, jobs: bool, notices: &[&str]| {
        let left = |row: &&&str| without.iter().all(|id| !row.starts_with(&format!("{{id: {id},")));
        let rows: Vec<_> = all.iter().filter(left).map(|row| format!("- {row}")).collect();
        assert_eq!(rows.len() + without.len(), all.len(), "{without:?}");
        let found = form_a(&rows.join("\n"), &[]).unwrap();
        assert_eq!((found.tools.join(" "), found.jobs), (tools.to_owned(), jobs), "{without:?}");
        assert_eq!(found.notices, notices, "{without:?}");
    };
    check(
        &[],
        "ask_user_question bash glob grep job_kill job_list job_output subagent todo_write",
        true,
        &[],
    );
    check(
        &["files", "todo", "ask"],
        "bash job_kill job_list job_output subagent",
        true,
        &["tools left out, because no entry is a provider of files: glob, grep"],
    );
    check(
        &["search", "todo", "ask", "bash"],
        "job_kill job_list job_output subagent",
        true,
        &["tools left out, because no entry is an executor of commands: bash"],
    );
    check(
        &["search", "todo", "ask", "spawn", "tool-bash"],
        "",
        false,
        &[
            "tools left out, because no entry is the provider of subagents it names: subagent",
            "tools left out, because no tool works in the background: job_kill, job_list, job_output",
        ],
    );
    check(
        &["search", "todo", "ask", "jobs"],
        "bash subagent",
        false,
        &[
            "no background work of bash, subagent, because no entry keeps background jobs",
            "tools left out, because no entry keeps background jobs: job_kill, job_list, job_output",
        ],
    );
    // Work may go on in the background although no tool looks at it: its end is told (P-77).
    check(&["search", "todo", "ask", "tool-jobs"], "bash subagent", true, &[]);
}

/// P-69, P-70, P-83: jobs are for all tools or none, and nothing goes on where somebody said that it must not.
#[test]
fn background_work_that_is_switched_off_anywhere_is_off() {
    let check = |core: &str, subagent: &str, tools: &str, jobs: bool, notices: &[&str]| {
        let configuration = format!(
            "
- {{id: core, name: '@deepseek-ai/dsh-agent-spine-demo', config: {{skills: {{enabled: false}}{core}}}}}
- {{id: bash, name: '@deepseek-ai/dsh-bash-local'}}
- {{id: spawn, name: '@deepseek-ai/dsh-subagent-spawn-in-process', config: {{providerName: s}}}}
- {{id: sub, name: '@deepseek-ai/dsh-tool-subagent', config: {{provider: s{subagent}}}}}
"
        );
        let found = form_a(&configuration, &[]).unwrap();
        assert_eq!(
            (found.tools.join(" "), found.jobs),
            (tools.to_owned(), jobs),
            "{configuration}"
        );
        assert_eq!(found.notices, notices, "{configuration}");
    };
    let (on, off) = ("bash job_kill job_list job_output subagent", "bash subagent");
    let unlooked =
        "tools left out, because no tool works in the background: job_kill, job_list, job_output";
    check("", "", on, true, &[]);
    check("", ", backgroundMode: one-shot", on, true, &[]);
    check(
        "",
        ", backgroundMode: continuable",
        on,
        true,
        &["subagents are for one task each, because sessions are not kept"],
    );
    check(", toolJobs: false", "", off, true, &[]);
    check(
        ", toolBash: {enableRunInBackground: false}",
        ", enableRunInBackground: false",
        off,
        false,
        &[unlooked],
    );
    check(
        "",
        ", enableRunInBackground: false",
        off,
        false,
        &["no background work of bash, because it is switched off for subagent", unlooked],
    );
    check(
        ", jobs: false, toolJobs: false",
        "",
        off,
        false,
        &["no background work of bash, subagent, because no entry keeps background jobs"],
    );
    check(
        "",
        ", toolName: delegate",
        "bash job_kill job_list job_output",
        true,
        &["tools not part of this host: delegate"],
    );
    check(", toolBash: false", "", "job_kill job_list job_output subagent", true, &[]);
}

/// P-85, L-67.
#[test]
fn numbers_of_tools_are_taken_and_bounded() {
    let found = |executor: &str, subagent: &str| {
        let configuration = format!(
            "
- {{id: bash, name: '@deepseek-ai/dsh-bash-local', config: {{{executor}}}}}
- {{id: sub, name: '@deepseek-ai/dsh-tool-subagent', config: {{{subagent}}}}}
"
        );
        form_a(&configuration, &[])
    };
    let numbers = |executor: &str, subagent: &str| {
        let found = found(executor, subagent).unwrap();
        (found.shell_timeout_ms, found.subagent_depth_max)
    };
    assert_eq!(numbers("", ""), (120_000, 3));
    assert_eq!(numbers("timeoutMs: 5000", "maxDepth: 0"), (5000, 0));
    assert_eq!(numbers("", "maxDepth: provider-managed"), (120_000, 3));

    let wide = found("timeoutMs: 900000", "maxDepth: 100").unwrap();
    assert_eq!((wide.shell_timeout_ms, wide.subagent_depth_max), (600_000, 32));
    assert_eq!(
        wide.notices[..2],
        [
            "commands run for 600000 ms at most, not for 900000",
            "subagents go 32 deep at most, not 100"
        ]
    );
    let refusal = |executor: &str, subagent: &str| {
        found(executor, subagent).expect_err("refused").to_string()
    };
    assert_eq!(
        refusal("timeoutMs: 0", "maxDepth: deep"),
        "/project/c.yml:2:71: entry `bash`: `timeoutMs` is 0; it must be a whole number above 0\n\
         /project/c.yml:3:72: entry `sub`: `maxDepth` is \"deep\"; it must be a whole number, or \"provider-managed\""
    );
}

/// L-72, L-103: children take further messages where the composition says so, or a profile says nothing.
#[test]
fn children_live_on_where_the_composition_says_so() {
    let check = |sub: &str, kept: bool, tools: &str, notices: &[&str]| {
        let configuration = format!(
            "
- {{id: core, name: '@deepseek-ai/dsh-agent-spine-demo', config: {{skills: {{enabled: false}}, toolBash: false}}}}
- {{id: sessions, name: '@deepseek-ai/dsh-session-persistence-jsonl'}}
- {{id: spawn, name: '@deepseek-ai/dsh-subagent-spawn-in-process'}}
- {{id: control, name: '@deepseek-ai/dsh-tool-subagent-control'}}
- {{id: sub, name: '@deepseek-ai/dsh-tool-subagent', config: {{provider: spawn{sub}}}}}
"
        );
        let found = form_a(&configuration, &[]).unwrap();
        let tools: Vec<_> = tools.split(' ').collect();
        let offered: Vec<_> =
            found.tools.iter().copied().filter(|tool| !tool.starts_with("job_")).collect();
        assert_eq!((found.subagents_continuable, offered), (kept, tools), "{sub}");
        assert_eq!(found.notices, notices, "{sub}");
    };
    let left_out =
        "tools left out, because no subagent takes further messages: interrupt_agent, send_message";
    check("", false, "subagent", &[left_out]);
    check(", backgroundMode: one-shot", false, "subagent", &[left_out]);
    check(", backgroundMode: continuable", true, "interrupt_agent send_message subagent", &[]);
    check(
        ", backgroundMode: continuable, enableRunInBackground: false",
        false,
        "subagent",
        &[
            left_out,
            "tools left out, because no tool works in the background: job_kill, job_list, job_output",
        ],
    );
}
