//! What differs between the agents of two manifests. All of it needs a restart: sessions were told of them in their first
//! request.

use super::{Change, Effect, Named, Settings, compare_named, list, path, settings, shown};
use crate::manifest::{Agent, Manifest};

/// Each agent that came, went or is another.
pub(super) fn compare_agents(changes: &mut Vec<Change>, old: &Manifest, new: &Manifest) {
    let all = Named {
        kind: "agent",
        old: &old.agents,
        new: &new.agents,
        settings: of_agent,
        shown: |agent| shown(agent.program.display()),
    };
    compare_named(changes, old, new, &all, |_| Effect::Restart);
    // What variables hold may be secret.
    for (name, one) in &old.agents {
        let Some(other) = new.agents.get(name) else { continue };
        if one.environment != other.environment {
            let names =
                |agent: &Agent| agent.environment.keys().cloned().collect::<Vec<_>>().join(", ");
            let (before, mut after) = (names(one), names(other));
            if before == after {
                after.push_str(" with other values");
            }
            let said = |names: String| Some(names).filter(|names| !names.is_empty());
            changes.push(Change {
                path: format!("agent.{name}.env"),
                effect: Effect::Restart,
                old: said(before),
                new: said(after),
            });
        }
    }
}

fn of_agent(agent: &Agent) -> Settings {
    let Agent {
        component,
        program,
        arguments,
        cwd,
        permission,
        environment: _,
        keep_environment,
        without_environment,
        start_ms,
        eof_grace_ms,
        grace_ms,
    } = agent;
    let program = program.display().to_string();
    settings([
        ("component", Some(component.clone())),
        ("command", list([&program].into_iter().chain(arguments))),
        ("cwd", cwd.as_deref().and_then(path)),
        ("permission", Some(permission.as_str().to_owned())),
        ("keep-environment", list(keep_environment)),
        ("without-environment", list(without_environment)),
        ("start-ms", Some(start_ms.to_string())),
        ("dispose-eof-grace-ms", Some(eof_grace_ms.to_string())),
        ("dispose-grace-ms", Some(grace_ms.to_string())),
    ])
}
