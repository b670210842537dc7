//! Agents of a manifest, as the program gets them. What is refused stands in `tests/messages`.

use std::path::Path;

use super::{AGENT_EOF_GRACE_MS, AGENT_GRACE_MS, AGENT_START_MS, AgentPermission};
use crate::manifest::{Manifest, SubagentMode};

fn parsed(text: &str) -> Manifest {
    let text = format!("{text}\n[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n");
    Manifest::parse(Path::new("/etc/transom.toml"), text.as_bytes()).unwrap()
}

#[test]
fn a141_an_agent_is_a_command_and_everything_else_has_a_default() {
    let manifest = parsed("[agent.claude]\ncommand = ['claude-acp', '--verbose']");
    let agent = &manifest.agents["claude"];
    assert_eq!(
        (agent.component.as_str(), agent.program.to_str()),
        ("acp-child", Some("claude-acp"))
    );
    assert_eq!(agent.arguments, ["--verbose"]);
    assert_eq!((agent.cwd.as_deref(), agent.permission), (None, AgentPermission::Reject));
    let graces = (agent.start_ms, agent.eof_grace_ms, agent.grace_ms);
    assert_eq!(graces, (AGENT_START_MS, AGENT_EOF_GRACE_MS, AGENT_GRACE_MS));
    assert_eq!(graces, (60_000, 6_000, 3_000));
    assert!(agent.environment.is_empty() && agent.keep_environment.is_empty());
}

#[test]
fn paths_are_below_the_directory_of_the_file_that_names_them() {
    let manifest = parsed("[agent.a]\ncommand = ['bin/agent', 'bin/agent']\ncwd = 'work'");
    let agent = &manifest.agents["a"];
    assert_eq!(agent.program, Path::new("/etc/bin/agent"));
    assert_eq!(agent.cwd.as_deref(), Some(Path::new("/etc/work")));
    // Arguments are handed over as they are.
    assert_eq!(agent.arguments, ["bin/agent"]);
}

#[test]
fn a140_a_kind_that_an_agent_runs_takes_no_further_messages() {
    let manifest = parsed(
        "[tools]\nsubagent-mode = 'continuable'\n[agent.a]\ncommand = ['a']\n\
         [subagents.coder]\ndescription = 'd'\nagent = 'a'\n[subagents.own]\ndescription = 'd'",
    );
    let mode = manifest.tools.subagent_mode;
    assert_eq!(mode, SubagentMode::Continuable);
    assert!(!manifest.subagents["coder"].is_continuable(mode));
    assert!(manifest.subagents["own"].is_continuable(mode));
}

#[test]
fn changes_never_show_what_a_variable_holds() {
    let agent = |value: &str| {
        parsed(&format!("[agent.a]\ncommand = ['a']\nenv = {{ A_KEY = '{value}', PLAIN = 'x' }}"))
    };
    let changes = agent("sk-one").changes(&agent("sk-two"));
    let told: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["agent.a.env: A_KEY, PLAIN → A_KEY, PLAIN with other values, after a restart"]
    );
    assert_eq!(agent("sk-one").changes(&agent("sk-one")), []);
}
