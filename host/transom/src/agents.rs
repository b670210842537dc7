//! The manifest's agents, in the words of the crates that start them: programs found, directories looked at,
//! environments scrubbed. Nothing is started here.

use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use transom_config::manifest::{Agent, AgentPermission, Manifest};
use transom_io::{
    Host, OpenDoor,
    child::{AgentSettings, ChildAgents, Marks, Permission, can_enter},
};
use transom_process::{Environment as Scrubbed, Spawner, is_mark, scrub};
use transom_tools::{Providers, Registry};

use crate::{doors, environment::Environment};

/// Where this host works, and worked before. An agent works elsewhere, and some programs believe these more than the
/// system.
const PLACES: [&str; 2] = ["PWD", "OLDPWD"];

/// How one agent is started. Its program has to be there and executable, and a directory has to be
/// one that can be entered. Looks at the file system.
pub(crate) fn settings(
    name: &str,
    agent: &Agent,
    environment: &Environment,
) -> anyhow::Result<(AgentSettings, Vec<String>)> {
    let directory = agent.cwd.as_ref().map(|cwd| environment.absolute(cwd));
    if let Some(directory) = directory.as_deref().filter(|directory| !can_enter(directory)) {
        bail!("subagent-acp: config cwd is not an accessible directory: {}", directory.display());
    }
    let given = agent.environment.keys().chain(&agent.keep_environment);
    if let Some(mark) = given.into_iter().find(|variable| is_mark(variable)) {
        bail!(
            "agent `{name}` cannot be given `{mark}`, by which this host finds what it has started; leave it out"
        );
    }
    let scrubbed = scrubbed(agent, environment);
    let program = match file(agent) {
        None => {
            let Some(path) = look_up(&agent.program, &scrubbed.variables) else {
                bail!(
                    "the program of agent `{name}` is in no directory of its PATH: {}; entries that are relative do not count",
                    agent.program.display()
                );
            };
            path
        }
        Some(path) => {
            let path = environment.absolute(path);
            if !path.is_file() {
                bail!("the program of agent `{name}` is not a file: {}", path.display());
            }
            if !can_run(&path) {
                bail!("the program of agent `{name}` is not executable: {}", path.display());
            }
            path
        }
    };
    let program = program.into_os_string().into_string().ok();
    let settings = AgentSettings {
        name: name.to_owned(),
        program: program.with_context(|| format!("the program of agent `{name}` is no text"))?,
        arguments: agent.arguments.clone(),
        directory,
        permission: match agent.permission {
            AgentPermission::Reject => Permission::Reject,
            AgentPermission::Allow => Permission::Allow,
        },
        environment: scrubbed.variables,
        start: Duration::from_millis(agent.start_ms),
        eof_grace: Duration::from_millis(agent.eof_grace_ms),
        grace: Duration::from_millis(agent.grace_ms),
    };
    Ok((settings, scrubbed.withheld))
}

/// What an agent gets of the environment, and what it does not get of it.
fn scrubbed(agent: &Agent, environment: &Environment) -> Scrubbed {
    let set = agent.environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    let left_out = agent.without_environment.iter().map(|name| (name.clone(), None));
    let explicit: Vec<_> = set.chain(left_out).collect();
    let keep = &agent.keep_environment;
    let own_place = |name: &String| PLACES.contains(&name.as_str()) && !keep.contains(name);
    let variables = environment.variables.iter().filter(|(name, _)| !own_place(name));
    scrub(&variables.cloned().collect::<Vec<_>>(), keep, &explicit)
}

/// The program of a name, by the agent's own `PATH`. What is relative there would be below the agent's directory, where a
/// session could put its own. Looks at the file system.
fn look_up(name: &Path, variables: &[(String, String)]) -> Option<PathBuf> {
    let (_, paths) = variables.iter().find(|(name, _)| name == "PATH")?;
    let directories = env::split_paths(paths).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(|path| path.is_file() && can_run(path))
}

/// Every agent of a manifest.
pub(crate) fn all_settings(
    manifest: &Manifest,
    environment: &Environment,
) -> anyhow::Result<Vec<(AgentSettings, Vec<String>)>> {
    manifest.agents.iter().map(|(name, agent)| settings(name, agent, environment)).collect()
}

/// Whether anybody may run a file; whether this host may is told when it does. Looks at the file system.
fn can_run(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
}

/// The path of an agent's program, where it is not a name that is looked up.
fn file(agent: &Agent) -> Option<&Path> {
    let is_name = agent.program.components().count() == 1 && !agent.program.is_absolute();
    (!is_name).then_some(agent.program.as_path())
}

/// The files of agents: what works outside of what holds back tools is not theirs to change (P-46). Besides programs these
/// are the files that arguments name.
pub(crate) fn files(
    manifest: &Manifest,
    environment: &Environment,
) -> impl Iterator<Item = PathBuf> {
    manifest.agents.values().flat_map(|agent| {
        let directory = agent.cwd.as_ref().map(|cwd| environment.absolute(cwd));
        let directory = directory.unwrap_or_else(|| environment.directory.clone());
        let named = agent.arguments.iter().map(move |argument| directory.join(argument));
        let named = named.filter(|path| path.is_file());
        let program = match file(agent) {
            Some(path) => Some(environment.absolute(path)),
            None => look_up(&agent.program, &scrubbed(agent, environment).variables),
        };
        program.into_iter().chain(named)
    })
}

/// What the operator should know of an agent that starts all the same.
fn doubts(name: &str, agent: &Agent, environment: &Environment) -> Vec<String> {
    if agent.cwd.is_some() {
        return Vec::new();
    }
    let is_file = |argument: &&String| {
        let path = Path::new(argument);
        path.is_relative() && environment.directory.join(path).is_file()
    };
    let doubted = agent.arguments.iter().filter(is_file);
    doubted
        .map(|argument| {
            format!(
                "agent `{name}` has no cwd, so `{argument}` in its command is a file of each session's directory, which \
                 sessions can write; name the file in full"
            )
        })
        .collect()
}

/// What runs delegations for a host: its own sessions, and its agents.
pub(crate) struct Delegates {
    agents: Vec<ChildAgents>,
    /// By which sessions are known; set once there are tools.
    registry: Arc<OnceLock<Registry>>,
}

impl Delegates {
    /// Adds a provider for each agent of a manifest. `doors` are those at which their processes are spoken with.
    pub(crate) fn new(
        providers: &mut Providers,
        manifest: &Manifest,
        environment: &Environment,
        doors: &[OpenDoor],
        host: &Host,
        spawner: &Spawner,
    ) -> anyhow::Result<Delegates> {
        let registry: Arc<OnceLock<Registry>> = Arc::default();
        let known = Arc::clone(&registry);
        let marks: Marks = Arc::new(move |session| known.get()?.mark(session));
        let mut agents = Vec::new();
        for (settings, withheld) in all_settings(manifest, environment)? {
            let name = settings.name.clone();
            let title = doors::agents_door(&name);
            let door = doors.iter().find(|door| *door.name == *title);
            let door = door.with_context(|| format!("agent `{name}` has no door"))?.clone();
            if let Some(agent) = manifest.agents.get(&name) {
                for doubt in doubts(&name, agent, environment) {
                    tracing::warn!("{doubt}");
                }
            }
            // Names only: what they hold is nobody's to read (L-84).
            tracing::info!(agent = name, ?withheld, "variables that an agent does not get");
            let (host, spawner, marks) = (host.clone(), spawner.clone(), Arc::clone(&marks));
            let agent = ChildAgents::new(settings, door, host, spawner, marks, Handle::current());
            providers.register(&name, Arc::new(agent.clone()))?;
            agents.push(agent);
        }
        Ok(Delegates { agents, registry })
    }

    /// From now on what agents have started ends with the sessions that have delegated to them.
    pub(crate) fn know(&self, registry: &Registry) {
        let _ = self.registry.set(registry.clone());
    }

    /// Ends every agent, and waits until all are gone.
    pub(crate) async fn shut_down(&self) {
        let all: Vec<_> = self
            .agents
            .iter()
            .cloned()
            .map(|agent| tokio::spawn(async move { agent.shut_down().await }))
            .collect();
        for one in all {
            if let Err(error) = one.await {
                tracing::error!(%error, "the end of an agent failed");
            }
        }
    }
}

/// What `transom check` says of one agent.
pub(crate) struct Report {
    name: String,
    component: String,
    command: Vec<String>,
    directory: Option<PathBuf>,
    permission: &'static str,
    set: Vec<String>,
    withheld: Vec<String>,
    kinds: Vec<String>,
}

impl Report {
    /// Of every agent; what is wrong with one is among the errors.
    pub(crate) fn all(
        manifest: &Manifest,
        environment: &Environment,
        warnings: &mut Vec<String>,
        errors: &mut Vec<String>,
    ) -> Vec<Report> {
        let mut reports = Vec::new();
        for (name, agent) in &manifest.agents {
            let withheld = match settings(name, agent, environment) {
                Ok((_, withheld)) => withheld,
                Err(error) => {
                    errors.push(format!("{error:#}"));
                    Vec::new()
                }
            };
            warnings.extend(doubts(name, agent, environment));
            let runs = |kind: &&String| {
                let agent = manifest.subagents.get(*kind).and_then(|kind| kind.agent.as_ref());
                agent == Some(name)
            };
            let kinds: Vec<_> = manifest.subagents.keys().filter(runs).cloned().collect();
            if kinds.is_empty() {
                warnings.push(format!(
                    "nobody can delegate to agent `{name}`; name it as `agent` in a [subagents.<name>]"
                ));
            }
            let program = agent.program.display().to_string();
            reports.push(Report {
                name: name.clone(),
                component: agent.component.clone(),
                command: [program].into_iter().chain(agent.arguments.iter().cloned()).collect(),
                directory: agent.cwd.as_ref().map(|cwd| environment.absolute(cwd)),
                permission: agent.permission.as_str(),
                set: agent.environment.keys().cloned().collect(),
                withheld,
                kinds,
            });
        }
        reports
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "component": self.component,
            "command": self.command,
            "cwd": self.directory,
            "permission": self.permission,
            "env": self.set,
            "withheld": self.withheld,
            "kinds": self.kinds,
        })
    }

    pub(crate) fn lines(&self, lines: &mut Vec<String>) {
        let list = |names: &[String], none: &str| match names.is_empty() {
            true => none.to_owned(),
            false => names.join(", "),
        };
        lines.push(format!("agent {} ({})", self.name, self.component));
        let directory = self.directory.as_ref().map(|directory| directory.display().to_string());
        for (name, text) in [
            ("command", self.command.join(" ")),
            ("directory", directory.unwrap_or_else(|| "that of the session".to_owned())),
            ("permission", self.permission.to_owned()),
            ("env", list(&self.set, "nothing besides")),
            ("withheld", list(&self.withheld, "nothing")),
            ("kinds", list(&self.kinds, "none")),
            ("held by", "nothing: the mode of a session does not reach it".to_owned()),
        ] {
            lines.push(format!("  {name:<13}{text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use transom_config::manifest::Manifest;

    use super::{Report, all_settings};
    use crate::environment::Environment;

    fn manifest(agent: &str) -> Manifest {
        let text = format!("[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[agent.a]\n{agent}");
        Manifest::parse(Path::new("/transom.toml"), text.as_bytes()).unwrap()
    }

    fn environment() -> Environment {
        let pair = |name: &str| (name.to_owned(), format!("value of {name}"));
        Environment {
            variables: [
                "PATH",
                "X_PLAIN",
                "X_API_KEY",
                "x_token",
                "DSH_X",
                "dsh_x",
                "A_PASSPHRASE",
                "PWD",
                "OLDPWD",
            ]
            .map(pair)
            .to_vec(),
            directory: "/".into(),
        }
    }

    /// Row 49, as far as the environment is made; the process is looked at where one runs.
    #[test]
    fn a146_an_agent_gets_what_is_no_secret_and_what_is_given_to_it() {
        let manifest = manifest(
            "command = ['/bin/sh']\nenv = { Y_KEY = 'y', DSH_PERMISSION_MODE = 'm' }\n\
             keep-environment = ['x_token']\nwithout-environment = ['X_PLAIN']",
        );
        let (settings, withheld) = all_settings(&manifest, &environment()).unwrap().remove(0);
        let names: Vec<_> = settings.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["DSH_PERMISSION_MODE", "PATH", "Y_KEY", "x_token"]);
        assert_eq!(withheld, ["A_PASSPHRASE", "DSH_X", "X_API_KEY", "dsh_x"]);
    }

    /// where an agent works is not where this host does, whatever the environment says.
    #[test]
    fn an_agent_is_not_told_where_this_host_works_unless_somebody_wants_it() {
        for (table, expected) in [
            ("", None),
            ("keep-environment = ['PWD']", Some("value of PWD")),
            ("env = { PWD = '/there' }", Some("/there")),
        ] {
            let manifest = manifest(&format!("command = ['/bin/sh']\n{table}"));
            let (settings, withheld) = all_settings(&manifest, &environment()).unwrap().remove(0);
            let told = |wanted: &str| {
                let found = settings.environment.iter().find(|(name, _)| name == wanted);
                found.map(|(_, value)| value.as_str())
            };
            assert_eq!((told("PWD"), told("OLDPWD")), (expected, None), "{table}");
            assert!(!withheld.iter().any(|name| name.ends_with("PWD")), "it is no secret");
        }
    }

    #[test]
    fn a_file_of_whatever_directory_is_doubted() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("agent.py"), "").unwrap();
        let environment = Environment { directory: place.path().to_owned(), ..environment() };
        let command = "command = ['/bin/sh', 'agent.py', 'other', '/etc/passwd']";
        for (cwd, expected) in
            [(String::new(), 1), (format!("cwd = '{}'", place.path().display()), 0)]
        {
            let (mut warnings, mut errors) = (Vec::new(), Vec::new());
            let manifest = manifest(&format!("{command}\n{cwd}"));
            Report::all(&manifest, &environment, &mut warnings, &mut errors);
            let doubts = warnings.iter().filter(|warning| warning.contains("`agent.py`")).count();
            assert_eq!((doubts, errors.len()), (expected, 0), "{warnings:?}");
        }
    }

    #[test]
    fn a_program_is_looked_up_where_no_session_can_write() {
        let environment = Environment {
            variables: vec![("PATH".to_owned(), ":bin:/nowhere:/bin".to_owned())],
            directory: "/".into(),
        };
        let (settings, _) =
            all_settings(&manifest("command = ['sh']"), &environment).unwrap().remove(0);
        assert_eq!(settings.program, "/bin/sh");
        assert!(all_settings(&manifest("command = ['nowhere']"), &environment).is_err());
    }

    #[test]
    fn a142_what_is_not_there_is_refused_before_anything_starts() {
        for (agent, why) in [
            (
                "command = ['agent-that-is-nowhere']",
                "the program of agent `a` is in no directory of its PATH: agent-that-is-nowhere; entries that are relative do not count",
            ),
            (
                "command = ['/nowhere/agent']",
                "the program of agent `a` is not a file: /nowhere/agent",
            ),
            (
                "command = ['/etc/passwd']",
                "the program of agent `a` is not executable: /etc/passwd",
            ),
            (
                "command = ['/bin/sh']\nenv = { TRANSOM_RUN = 'x' }",
                "agent `a` cannot be given `TRANSOM_RUN`, by which this host finds what it has started; leave it out",
            ),
            (
                "command = ['/bin/sh']\nkeep-environment = ['TRANSOM_SESSION']",
                "agent `a` cannot be given `TRANSOM_SESSION`, by which this host finds what it has started; leave it out",
            ),
            (
                "command = ['/bin/sh']\ncwd = '/nowhere'",
                "subagent-acp: config cwd is not an accessible directory: /nowhere",
            ),
            (
                "command = ['/bin/sh']\ncwd = '/etc/passwd'",
                "subagent-acp: config cwd is not an accessible directory: /etc/passwd",
            ),
        ] {
            let refused = all_settings(&manifest(agent), &environment()).unwrap_err();
            assert_eq!(refused.to_string(), why);
        }
    }

    #[test]
    fn a_check_tells_of_agents_by_name_and_of_those_that_nobody_uses() {
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let manifest = manifest("command = ['/bin/sh', 'b']\nenv = { A_KEY = 'sk-1' }");
        let reports = Report::all(&manifest, &environment(), &mut warnings, &mut errors);
        let mut lines = Vec::new();
        reports[0].lines(&mut lines);
        let text = lines.join("\n");
        assert!(
            text.contains("/bin/sh b") && text.contains("A_KEY") && !text.contains("sk-1"),
            "{text}"
        );
        assert!(text.contains("X_API_KEY") && !text.contains("value of"), "{text}");
        assert!(!reports[0].json().to_string().contains("sk-1"));
        assert!(warnings[0].contains("nobody can delegate to agent `a`"), "{warnings:?}");
        assert!(errors.is_empty());
    }
}
