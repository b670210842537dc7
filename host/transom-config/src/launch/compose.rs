//! From entries to facts: evaluates what an entry says and collects what it asks for.
//! The table of packages is `packages.rs`.

mod settings;
mod toolbox;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use self::{settings::Settings, toolbox::Toolbox};
use super::{
    AcpServer, Launch, LaunchModel, Layout, PermissionMode, Sessions, Surroundings,
    entries::{Body, Entry},
    expression::{self, Outcome, Scope},
    packages::{self, Package},
    permission_mode,
    yaml::{Complaint, Member, Node, Position, Yaml},
};
use crate::{
    error::{ConfigError, ConfigErrors},
    manifest::{SHELL_TIMEOUT_MS, SHELL_TIMEOUT_MS_MAX, SUBAGENT_DEPTH_MAX, SUBAGENT_DEPTH_MOST},
};

/// Where the key is looked for unless an entry says otherwise (S-207).
const KEY_VARIABLE: &str = "DEEPSEEK_API_KEY";

/// What the provider of subagents is called unless an entry says otherwise.
const SPAWN: &str = "spawn";

/// Makes a launch of a composition, or says everything that is wrong with it.
pub(super) fn compose(
    file: &str,
    entries: &[Entry],
    surroundings: Surroundings<'_>,
    layout: Layout<'_>,
) -> Result<Launch, ConfigErrors> {
    let (home, permission_mode) = match layout {
        Layout::FormA => (None, PermissionMode::DangerFullAccess),
        Layout::FormB { home, mode } => (Some(home), mode),
    };
    let mut composer = Composer {
        scope: Scope { surroundings, home },
        launch: Launch {
            composition: file.to_owned(),
            serves_sdk: false,
            acp: None,
            max_tokens_as_success: false,
            attachments: false,
            tools: Vec::new(),
            jobs: false,
            shell_timeout_ms: SHELL_TIMEOUT_MS,
            subagent_depth_max: SUBAGENT_DEPTH_MAX,
            subagents_continuable: false,
            sessions: None,
            workspace: surroundings.directory.to_owned(),
            model: LaunchModel {
                has_adapter: false,
                model: None,
                base_url: None,
                key_variable: KEY_VARIABLE.to_owned(),
                context_window: None,
                max_tokens: None,
                reasoning_effort: None,
            },
            system_prompt: None,
            names_harness: true,
            runtime_context: true,
            workspace_instructions_bytes_max: None,
            permission_mode,
            environment: surroundings.environment.clone(),
            notices: Vec::new(),
        },
        file,
        errors: Vec::new(),
        tools: Toolbox::default(),
        missing: BTreeSet::new(),
        has_agent: false,
        says_mode: false,
        workspace: None,
    };
    composer.entries(entries);
    composer.finish(layout)
}

/// What has been collected so far.
struct Composer<'a> {
    file: &'a str,
    scope: Scope<'a>,
    launch: Launch,
    errors: Vec<ConfigError>,
    tools: Toolbox,
    /// Everything but tools that is not here.
    missing: BTreeSet<&'static str>,
    has_agent: bool,
    /// The composition itself says what tools may do.
    says_mode: bool,
    workspace: Option<PathBuf>,
}

impl Composer<'_> {
    fn entries(&mut self, entries: &[Entry]) {
        for entry in entries {
            let (file, disabled) = &entry.disabled;
            match self.evaluate(disabled) {
                Err((at, why)) => {
                    self.refuse(file, at, format!("entry `{}`: `disabled`: {why}", entry.id))
                }
                // What is switched off is not even loaded.
                Ok(disabled) if disabled.is_true() => {}
                Ok(_) => match &entry.body {
                    Body::Group(children) => self.entries(children),
                    Body::Config(file, config) => self.entry(entry, file, config),
                },
            }
        }
    }

    fn entry(&mut self, entry: &Entry, file: &str, config: &Node) {
        let Entry { id, name, place, .. } = entry;
        let Some(package) = packages::find(name) else {
            let remedy = match packages::nearest(name) {
                Some(near) => format!("did you mean {near}?"),
                None => "its features are not part of this host".to_owned(),
            };
            return self.refuse(
                &place.file,
                place.at,
                format!("entry `{id}` names the unknown package {name}; {remedy}"),
            );
        };
        // What has no settings here is not evaluated: what is missing cannot be wrong.
        match package {
            Package::Inherent | Package::Group => return,
            Package::Missing(what) => {
                self.missing.insert(what);
                return;
            }
            Package::Attachments => {
                self.tools.attachments = true;
                self.launch.attachments = true;
                return;
            }
            _ => {}
        }
        let mut settings = match self.settings(config) {
            Ok(settings) => settings,
            Err((at, why)) => return self.refuse(file, at, format!("entry `{id}`: {why}")),
        };
        self.take(package, entry, &mut settings);

        let (complaints, unused) = settings.finish();
        for (at, complaint) in complaints {
            self.refuse(file, at, format!("entry `{id}`: {complaint}"));
        }
        if !unused.is_empty() {
            self.launch
                .notices
                .push(format!("entry `{id}`: without effect here: {}", unused.join(", ")));
        }
    }

    /// The members of an entry's `config`, each evaluated.
    fn settings(&self, config: &Node) -> Result<Settings, Complaint> {
        let members = match &config.value {
            Yaml::Null => return Ok(Settings::default()),
            Yaml::Map(members) => members,
            _ => return Err((config.at, "`config` must be a mapping".to_owned())),
        };
        let mut settings = BTreeMap::new();
        for Member { key, value, .. } in members {
            match self.evaluate(value).map_err(|(at, why)| (at, format!("`{key}`: {why}")))? {
                // As if it were not there.
                Outcome::Undefined => {}
                Outcome::Json(json) => {
                    settings.insert(key.clone(), (value.at, json));
                }
            }
        }
        Ok(Settings::new(settings))
    }

    fn take(&mut self, package: Package, entry: &Entry, settings: &mut Settings) {
        match package {
            Package::SdkServer => {
                self.launch.serves_sdk = true;
                self.launch.max_tokens_as_success =
                    settings.boolean("maxTokensAsSuccess").unwrap_or(false);
            }
            Package::AcpServer => {
                self.launch.acp = Some(AcpServer {
                    provider: settings.text("provider"),
                    model: settings.text("model"),
                });
            }
            Package::AgentSpine => self.spine(settings),
            Package::AgentLoop => {
                self.has_agent = true;
                self.agents(settings);
            }
            Package::DefaultModel => {
                settings.text("provider");
                self.launch.model.model = settings.text("model").or(self.launch.model.model.take());
            }
            Package::SystemPrompt => self.prompt(settings),
            Package::AgentInstructions => {
                self.instructions(settings.count("maxBytes"));
            }
            Package::DeepSeek => {
                settings.accept("thinking", &Json::from("enabled"));
                self.launch.model = LaunchModel {
                    has_adapter: true,
                    model: self.launch.model.model.take(),
                    base_url: settings.text("baseURL"),
                    key_variable: settings
                        .text("apiKeyEnv")
                        .unwrap_or_else(|| KEY_VARIABLE.to_owned()),
                    context_window: settings.count("defaultContextWindow"),
                    max_tokens: settings.count("maxTokens"),
                    reasoning_effort: settings.choice("reasoningEffort", &["off", "high", "max"]),
                };
            }
            Package::SessionsJsonLines => {
                let root = self.path(settings.text("root").as_deref().unwrap_or("./.sessions"));
                let compressed =
                    settings.choice("compression", &["zstd", "none"]).as_deref() != Some("none");
                self.launch.sessions = Some(Sessions::JsonLines { root, compressed });
            }
            Package::SessionsSqlite => match settings.text("path") {
                Some(path) => {
                    self.launch.sessions = Some(Sessions::Sqlite { path: self.path(&path) })
                }
                None => settings
                    .complain(entry.place.at, "`path` is missing; name the database".to_owned()),
            },
            Package::Shell => {
                self.tools.shell = true;
                self.shell_timeout(settings);
                self.workspace(settings, "cwd");
            }
            Package::Files => {
                self.tools.files = true;
                self.workspace(settings, "cwd");
            }
            Package::SandboxPolicy => {
                let names = PermissionMode::ALL.map(PermissionMode::as_str);
                let mode = settings.choice("mode", &names);
                let mode = PermissionMode::ALL
                    .into_iter()
                    .find(|known| Some(known.as_str()) == mode.as_deref());
                self.launch.permission_mode = mode.unwrap_or(PermissionMode::ReadOnly);
                self.says_mode = true;
                self.workspace(settings, "workspaceRoot");
            }
            Package::ToolBash => self.bash(settings),
            Package::ToolBashPersistent => {
                self.tools.want("bash");
                self.missing.insert("a shell that keeps its state between calls of `bash`");
                self.shell_timeout(settings);
            }
            Package::ToolFiles => {
                for tool in ["read", "write", "edit"] {
                    if settings.boolean(tool).unwrap_or(true) {
                        self.tools.want(tool);
                    }
                }
                if let Some(wanted) = settings.boolean("readImage") {
                    self.tools.read_image = Some(wanted);
                }
                self.tools.read_image.get_or_insert(true);
            }
            Package::ToolSearch => {
                self.tools.want("glob");
                self.tools.want("grep");
            }
            Package::ToolJobs => self.tools.want_job_tools(),
            Package::ToolSubagent => self.subagent(settings),
            // What it says of places has no effect, and is named.
            Package::Skills => {}
            Package::ToolSkill => self.tools.want("skill"),
            Package::ToolEditor => {
                self.tools.want("str_replace_editor");
                settings.accept("maxOutputChars", &Json::from(16_000));
                settings.accept("requireAbsolutePath", &Json::Bool(true));
                settings.accept("expandTabsOnMutation", &Json::Bool(false));
            }
            Package::ToolSubagentControl(tools) => {
                tools.iter().for_each(|tool| self.tools.want(tool));
            }
            Package::ToolTodo => {
                self.tools.want("todo_write");
                settings.accept("allowParallelInProgress", &Json::Bool(true));
            }
            Package::ToolAskUser => self.tools.want("ask_user_question"),
            Package::Jobs => self.tools.jobs = true,
            Package::Subagents => {
                let name = settings.text("providerName").unwrap_or_else(|| SPAWN.to_owned());
                self.tools.providers.insert(name);
            }
            Package::MissingTools(tools) => {
                match settings.text("toolName") {
                    Some(name) => self.tools.miss(&name),
                    None => tools.iter().for_each(|tool| self.tools.miss(tool)),
                }
                // Settings of what is missing are said with it.
                settings.rest();
            }
            Package::Missing(_) | Package::Inherent | Package::Group | Package::Attachments => {}
        }
    }

    /// The agent of the baseline's examples: everything but models, sessions, shell and files.
    fn spine(&mut self, settings: &mut Settings) {
        self.has_agent = true;
        self.agents(settings);
        self.prompt(settings);
        let context = settings.member_or_off("workspaceContext");
        let bytes_max = context.and_then(|mut context| {
            let bytes_max = context.count("maxBytes");
            settings.absorb("workspaceContext", context);
            bytes_max
        });
        if bytes_max.is_some() {
            self.instructions(bytes_max);
        }
        if let Some(mut bash) = settings.member_or_off("toolBash") {
            self.bash(&mut bash);
            settings.absorb("toolBash", bash);
        }
        if let Some(jobs) = settings.member_or_off("jobs") {
            self.tools.jobs = true;
            settings.absorb("jobs", jobs);
        }
        if let Some(tools) = settings.member_or_off("toolJobs") {
            self.tools.want_job_tools();
            settings.absorb("toolJobs", tools);
        }
        let mut skills = settings.member_or_off("skills").unwrap_or_default();
        if skills.boolean("enabled").unwrap_or(true) {
            self.tools.want("skill");
        }
        settings.absorb("skills", skills);
        if settings.is_given("goals") && !settings.is_off("goals") {
            for tool in ["create_goal", "get_goal", "update_goal"] {
                self.tools.miss(tool);
            }
        }
        settings.forget(&["sessionTitle", "invariants", "dshHome"]);
    }

    fn bash(&mut self, settings: &mut Settings) {
        self.tools.want("bash");
        self.background("bash", settings);
    }

    fn subagent(&mut self, settings: &mut Settings) {
        let name = settings.text("toolName");
        if let Some(name) = name.filter(|name| name != "subagent") {
            self.tools.miss(&name);
            return settings.rest();
        }
        self.tools.want("subagent");
        self.tools.provider = Some(settings.text("provider").unwrap_or_else(|| SPAWN.to_owned()));
        self.background("subagent", settings);
        let mode = settings.choice("backgroundMode", &["one-shot", "continuable"]);
        self.tools.continuable = mode.map(|mode| mode == "continuable");
        if let Some(depth) = settings.number_or("maxDepth", "provider-managed") {
            self.launch.subagent_depth_max = depth.min(SUBAGENT_DEPTH_MOST);
            if depth > SUBAGENT_DEPTH_MOST {
                self.launch
                    .notices
                    .push(format!("subagents go {SUBAGENT_DEPTH_MOST} deep at most, not {depth}"));
            }
        }
    }

    fn background(&mut self, tool: &'static str, settings: &mut Settings) {
        let wanted = settings.boolean("enableRunInBackground").unwrap_or(true);
        self.tools.background.insert(tool, wanted);
    }

    fn shell_timeout(&mut self, settings: &mut Settings) {
        let Some(wanted) = settings.count("timeoutMs") else { return };
        self.launch.shell_timeout_ms = wanted.min(SHELL_TIMEOUT_MS_MAX);
        if wanted > SHELL_TIMEOUT_MS_MAX {
            self.launch.notices.push(format!(
                "commands run for {SHELL_TIMEOUT_MS_MAX} ms at most, not for {wanted}"
            ));
        }
    }

    fn instructions(&mut self, bytes_max: Option<u64>) {
        self.launch.workspace_instructions_bytes_max = bytes_max;
        self.missing.insert("workspace instructions in the prompt");
    }

    fn prompt(&mut self, settings: &mut Settings) {
        self.launch.names_harness =
            settings.boolean("includeHarnessIdentity").unwrap_or(self.launch.names_harness);
        self.launch.runtime_context =
            settings.boolean("includeRuntimeContext").unwrap_or(self.launch.runtime_context);
        // The baseline's name, and the later one.
        for key in ["persona", "personaPrefix"] {
            if let Some(text) = settings.any_text(key) {
                self.launch.system_prompt = Some(text).filter(|text| !text.is_empty());
            }
        }
    }

    /// Agents that exist from the start; here they only say which model is the default.
    fn agents(&mut self, settings: &mut Settings) {
        for agent in settings.list("agents") {
            if let Some(model) = agent.get("model").and_then(Json::as_str) {
                self.launch.model.model = Some(model.to_owned());
            }
            self.missing.insert("agents that exist from the start");
        }
    }

    fn workspace(&mut self, settings: &mut Settings, key: &str) {
        let Some(text) = settings.any_text(key) else { return };
        let path = self.path(&text);
        match &self.workspace {
            Some(earlier) if *earlier != path => {
                let notice =
                    format!("one workspace is used: {}, not {}", earlier.display(), path.display());
                self.launch.notices.push(notice);
            }
            _ => self.workspace = Some(path),
        }
    }

    /// Below the process directory (S-203), without the dots in between.
    fn path(&self, text: &str) -> PathBuf {
        self.scope.surroundings.directory.join(Path::new(text)).components().collect()
    }

    fn finish(mut self, layout: Layout<'_>) -> Result<Launch, ConfigErrors> {
        if self.launch.serves_sdk && self.launch.acp.take().is_some() {
            self.missing.insert("the ACP server beside the SDK's");
        }
        let serves = match &self.launch.acp {
            Some(_) => Some("ACP"),
            None => self.launch.serves_sdk.then_some("SDK"),
        };
        if let Some(server) = serves
            && !self.has_agent
            && self.errors.is_empty()
        {
            let message = format!(
                "the {server} server has no agent to serve; add an entry with {0}dsh-agent-spine-demo or {0}dsh-agent-loop",
                packages::PREFIX
            );
            self.errors.push(ConfigError { file: self.file.to_owned(), position: None, message });
        }
        if !self.errors.is_empty() {
            return Err(ConfigErrors(self.errors));
        }

        let mut launch = self.launch;
        if launch.acp.is_some() && !self.says_mode {
            // P-8: in form A, too.
            let wanted = permission_mode(self.scope.surroundings.environment);
            launch.permission_mode =
                wanted.ok().flatten().unwrap_or(PermissionMode::WorkspaceWrite);
        }
        let variable =
            |name: &str| launch.environment.get(name).filter(|value| !value.is_empty()).cloned();
        if layout == Layout::FormA {
            // S-208: what the file does not say, these do.
            launch.model.model = launch.model.model.or_else(|| variable("DSH_MODEL"));
            launch.system_prompt = launch.system_prompt.or_else(|| variable("DSH_SYSTEM_PROMPT"));
            self.workspace = self.workspace.or_else(|| {
                variable("DSH_CWD")
                    .map(|cwd| self.scope.surroundings.directory.join(cwd).components().collect())
            });
            if launch.model.context_window.is_none()
                && let Some(window) = variable("DSH_CONTEXT_WINDOW")
            {
                let Some(tokens) = window.parse().ok().filter(|tokens| *tokens > 0) else {
                    let message = format!(
                        "DSH_CONTEXT_WINDOW is {window:?}; it must be a whole number above 0"
                    );
                    return Err(ConfigErrors::whole(Path::new(self.file), message));
                };
                launch.model.context_window = Some(tokens);
            }
        }
        if let Some(workspace) = self.workspace {
            launch.workspace = workspace;
        }

        // L-103: where the later runtime's profiles say nothing, children take further messages.
        let otherwise = matches!(layout, Layout::FormB { .. });
        self.tools.fill(&mut launch, otherwise);
        if !self.missing.is_empty() {
            let names: Vec<_> = self.missing.into_iter().collect();
            launch.notices.push(format!("not part of this host: {}", names.join(", ")));
        }
        Ok(launch)
    }

    fn refuse(&mut self, file: &str, at: Position, message: String) {
        self.errors.push(ConfigError { file: file.to_owned(), position: Some(at), message });
    }

    fn evaluate(&self, node: &Node) -> Result<Outcome, Complaint> {
        Ok(Outcome::Json(match &node.value {
            Yaml::Null => Json::Null,
            Yaml::Bool(boolean) => Json::Bool(*boolean),
            Yaml::Number(number) => Json::Number(number.clone()),
            Yaml::Text(text) => Json::String(text.clone()),
            Yaml::Expression(text) => {
                return expression::evaluate(text, self.scope).map_err(|why| (node.at, why));
            }
            Yaml::List(list) => list
                .iter()
                .map(|node| self.evaluate(node).map(Outcome::into_json))
                .collect::<Result<_, _>>()?,
            Yaml::Map(members) => {
                let mut map = serde_json::Map::new();
                for Member { key, value, .. } in members {
                    map.insert(key.clone(), self.evaluate(value)?.into_json());
                }
                Json::Object(map)
            }
        }))
    }
}
