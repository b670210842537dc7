//! The registry: names to tools, what the model is told of them, and whether a call may begin (L-53, L-57, P-30).
//! The course of a call that has begun is `registry/course.rs`; results go where the caller says.

mod course;
mod scopes;
mod setup;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::runtime::Handle;
use transom_frame::SessionId;
use transom_harness::{
    permissions::{Mode, rules::ToolKind},
    ports::{Asker, Children, Judgement, Sink, Stop, ToolCall, ToolOutcome, ToolSpec, Tools},
    subagents::Toolset,
};
use transom_process::{Command, Confinement, Confiner, Mark, SpillDirectory, Tree};

use self::scopes::{Scopes, subject};
pub use self::setup::RegistryError;
use crate::{
    abort::AbortSource,
    child_tools::{ChildTool, What},
    fence::Fence,
    jobs::{Jobs, KILL_GRACE, KillError},
    judge::{Candidate, ESCALATION_GUIDE, Explanation, Permissions, Subject, escalatable},
    options::JobLimits,
    output::Output,
    read_image::Sight,
    schema::{Root, decode, unsupported, violations},
    sessions::{Forgotten, Sessions, end_soon},
    shell::{Held, Shell},
    tool::{Addition, Tool, ToolError},
};

/// Length of a tool's name; providers refuse longer ones.
const NAME_BYTES_MAX: usize = 64;

/// Kept for a tool that runs tools.
const RESERVED: &str = "run_code";

/// Between `SIGTERM` and `SIGKILL` of what commands have left behind, when their session is gone (decision 33).
const LEFT_GRACE: Duration = Duration::from_millis(300);

/// The tools of a host. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Handle,
    directory: PathBuf,
    fence: Fence,
    sessions: Sessions,
    spills: SpillDirectory,
    withheld: Vec<String>,
    /// How long a body that was told to end may take before it is left alone (L-52).
    drain: Duration,
    shell: Arc<Shell>,
    jobs: Option<Jobs>,
    sight: Sight,
    permissions: RwLock<Arc<Permissions>>,
    tools: RwLock<Table>,
    scopes: Scopes,
    /// How children that live on reach their parents.
    children: Option<Arc<dyn Children>>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<String, Entry>,
    specs: Arc<[ToolSpec]>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    name: String,
    kind: ToolKind,
    /// What the mode confines of it.
    subject: Option<Subject>,
    /// As the model is told of them.
    parameters: Arc<Value>,
    output: Output,
    /// What single sessions are told besides.
    addition: Option<Addition>,
}

impl Registry {
    /// Adds a tool.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.add(tool, false)
    }

    fn add(&self, tool: Arc<dyn Tool>, built_in: bool) -> Result<(), RegistryError> {
        let entry = self.entry(tool, built_in)?;
        let mut table = self.shared.tools.write().unwrap_or_else(PoisonError::into_inner);
        if table.entries.contains_key(&entry.name) {
            return Err(RegistryError::Duplicate(entry.name));
        }
        table.entries.insert(entry.name.clone(), entry);
        table.describe(&self.permissions());
        Ok(())
    }

    /// A tool that may have its name and its schema.
    fn entry(&self, tool: Arc<dyn Tool>, built_in: bool) -> Result<Entry, RegistryError> {
        let spec = tool.spec();
        let name = spec.name;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
            return Err(RegistryError::InvalidName(name));
        }
        if name == RESERVED {
            return Err(RegistryError::ReservedName(name));
        }
        if let Some(found) = unsupported(&spec.parameters) {
            return Err(RegistryError::UnsupportedSchema { name, found });
        }
        let output = tool.output();
        if let Some(found) = unsupported(output.schema()) {
            return Err(RegistryError::UnsupportedOutput { name, found });
        }
        Ok(Entry {
            kind: if built_in { ToolKind::BuiltIn } else { tool.kind() },
            subject: subject(&name, built_in),
            addition: tool.addition(),
            tool,
            name,
            parameters: Arc::default(),
            output,
        })
    }

    /// Replaces what the operator allows; it counts from the next call on (P-32).
    pub fn set_permissions(&self, permissions: Permissions) {
        // The table first, as everywhere both are held.
        let mut table = self.shared.tools.write().unwrap_or_else(PoisonError::into_inner);
        let permissions = Arc::new(permissions);
        table.describe(&permissions);
        *self.shared.permissions.write().unwrap_or_else(PoisonError::into_inner) = permissions;
    }

    /// Replaces what confined calls may touch and who confines shells, from the next call on (P-58).
    pub fn set_confinement(&self, confinement: Confinement, confiner: Option<Confiner>) {
        self.shared.fence.set_confinement(confinement);
        self.shared.shell.set_confiner(confiner);
    }

    /// Replaces how many jobs there may be, from the next one on (P-68). Without jobs there is nothing to bound.
    pub fn set_job_limits(&self, limits: JobLimits) {
        if let Some(jobs) = &self.shared.jobs {
            jobs.set_limits(limits);
        }
    }

    /// What would become of a call, and by which rule, without running anything (P-33). Reads the file system.
    pub fn explain(&self, call: &ToolCall) -> Explanation {
        let permissions = self.permissions();
        match self.valid(&call.session, &call.name, &call.arguments) {
            Ok((entry, arguments)) => self.weigh(&permissions, call, Some(&entry), &arguments),
            Err(error) => {
                let arguments = match decode(&call.arguments) {
                    Value::Object(arguments) => arguments,
                    _ => Map::new(),
                };
                let entry = self.find_for(&call.session, &call.name);
                let judgement = Judgement::Refuse(error.into());
                let explained = self.weigh(&permissions, call, entry.as_ref(), &arguments);
                Explanation { judgement, ..explained }
            }
        }
    }

    /// What a result of a session's tool would be that gives this value; an error says why it gives none such (L-56).
    pub fn render(&self, session: &SessionId, name: &str, value: Value) -> ToolOutcome {
        self.output_of(session, name).of_value(name, value)
    }

    /// Where calls run.
    pub(crate) fn runtime(&self) -> Handle {
        self.shared.runtime.clone()
    }

    /// A command of the operator's, held as a shell of a session would be under a mode. An error says why it must not
    /// run.
    pub(crate) async fn hold(
        &self,
        mode: Mode,
        (session, cwd, root): (SessionId, Option<String>, Option<String>),
        command: Command,
    ) -> Result<Held, String> {
        let shared = Arc::clone(&self.shared);
        let held = tokio::task::spawn_blocking(move || {
            let directory = cwd.as_deref().map_or(shared.directory.as_path(), Path::new);
            let root = root.as_deref().map(Path::new);
            shared.shell.hold(&session, directory, root, mode, command)
        });
        held.await.unwrap_or_else(|error| Err(format!("it cannot be confined: {error}")))
    }

    fn output_of(&self, session: &SessionId, name: &str) -> Output {
        self.find_for(session, name).map_or_else(Output::text, |entry| entry.output)
    }

    /// Asks a background job to end, on the operator's behalf: the model will be told (P-82).
    pub fn kill_job(&self, session: &SessionId, id: &str) -> Result<(), KillError> {
        match &self.shared.jobs {
            Some(jobs) => jobs.kill_for_operator(session, id),
            None => Err(KillError::Unknown(id.to_owned())),
        }
    }

    /// By what everything that a session's commands have started can be told, while the session is remembered.
    pub fn mark(&self, session: &SessionId) -> Option<Mark> {
        self.shared.sessions.mark(session)
    }

    /// Names of the host's variables that shells do not get; never values.
    pub fn withheld(&self) -> &[String] {
        &self.shared.withheld
    }

    /// How many sessions are remembered, and how many of them for their jobs.
    #[cfg(test)]
    pub(crate) fn scopes(&self) -> usize {
        self.shared.scopes.count()
    }

    #[cfg(test)]
    pub(crate) fn remembered(&self) -> (usize, usize) {
        (self.shared.sessions.count(), self.shared.jobs.as_ref().map_or(0, Jobs::sessions))
    }

    fn find(&self, name: &str) -> Option<Entry> {
        let table = self.shared.tools.read().unwrap_or_else(PoisonError::into_inner);
        table.entries.get(name).cloned()
    }

    fn permissions(&self) -> Arc<Permissions> {
        self.shared.permissions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn weigh(
        &self,
        permissions: &Permissions,
        call: &ToolCall,
        entry: Option<&Entry>,
        arguments: &Map<String, Value>,
    ) -> Explanation {
        let directory = call.cwd.as_deref().map_or(self.shared.directory.as_path(), Path::new);
        let root = call.root.as_deref().map(Path::new);
        let shared = &self.shared;
        let kind = |entry: &Entry| entry.tool.kind_of(arguments).unwrap_or(entry.kind);
        permissions.judge(&Candidate {
            tool: &call.name,
            kind: entry.map_or(ToolKind::Bridged { trusted_read_only: false }, kind),
            subject: entry.and_then(|entry| entry.subject),
            arguments,
            access: call.access,
            directory,
            root,
            check: &|| entry.map_or(Ok(()), |entry| entry.tool.check(arguments)),
            resolve: &|text| shared.fence.resolve(directory, text).ok(),
            lack: &|mode| shared.shell.lack(&call.session, directory, root, mode),
            required: shared.fence.confinement().required,
        })
    }
}

impl Table {
    /// What the model is told, and what arguments are held against.
    fn describe(&mut self, permissions: &Permissions) {
        let specs = self.entries.values_mut().map(|entry| {
            let mut spec = entry.tool.spec();
            let subject = entry.subject.filter(|subject| subject.can_ask_for_more());
            if let Some(subject) = subject.filter(|subject| permissions.confines(*subject)) {
                escalatable(&mut spec.parameters, subject);
                if subject == Subject::Command {
                    spec.description.push_str(ESCALATION_GUIDE);
                }
            }
            entry.parameters = Arc::new(spec.parameters.clone());
            spec
        });
        // Names are ASCII, so the map's order is code unit order (L-95).
        self.specs = specs.collect();
    }
}

impl Tools for Registry {
    fn equip(&self, session: &SessionId, toolset: Toolset) {
        let reports = self.shared.children.clone().filter(|_| toolset.reports);
        self.confine_to(session, toolset);
        if let Some(children) = reports {
            let tool = Arc::new(ChildTool { children, what: What::Report });
            // Whoever has given the session a `report` of its own means that one.
            let _ = self.register_for(session, tool);
        }
    }

    fn specs(&self, session: &SessionId) -> Arc<[ToolSpec]> {
        self.scoped_specs(session)
    }

    fn specs_for(&self, asker: &Asker) -> Arc<[ToolSpec]> {
        let specs = self.scoped_specs(&asker.session);
        let additions = self.additions_for(&asker.session);
        if additions.is_empty() {
            return specs;
        }
        let each = specs.iter().cloned().map(|mut spec| {
            if let Some(addition) = additions.get(&spec.name).and_then(|addition| addition(asker)) {
                spec.description.push_str(&addition);
            }
            spec
        });
        each.collect()
    }

    fn specs_need_disk(&self, session: &SessionId) -> bool {
        !self.additions_for(session).is_empty()
    }

    fn note(&self, session: &SessionId, images: bool) {
        self.shared.sight.note(session, images);
    }

    fn is_parallel(&self, session: &SessionId, name: &str, arguments: &str) -> bool {
        let Some(entry) = self.find_for(session, name) else { return false };
        match decode(arguments) {
            Value::Object(members) => {
                let arguments = Value::Object(members);
                violations(&entry.parameters, &arguments, Root::Arguments).is_empty()
                    && arguments
                        .as_object()
                        .is_some_and(|arguments| entry.tool.is_parallel(arguments))
            }
            _ => false,
        }
    }

    fn judge(&self, call: ToolCall, sink: Sink<Judgement>) {
        let (entry, arguments) = match self.valid(&call.session, &call.name, &call.arguments) {
            Ok(valid) => valid,
            Err(error) => return sink(Judgement::Refuse(error.into())),
        };
        let permissions = self.permissions();
        let is_confined = entry
            .subject
            .is_some_and(|subject| subject == Subject::Command && permissions.confines(subject));
        if !is_confined && !permissions.rules.needs_paths(&call.name) {
            return sink(self.weigh(&permissions, &call, Some(&entry), &arguments).judgement);
        }
        // Looks at files, so not here.
        let registry = self.clone();
        self.shared.runtime.spawn(async move {
            let name = call.name.clone();
            let work = tokio::task::spawn_blocking(move || {
                registry.weigh(&permissions, &call, Some(&entry), &arguments).judgement
            });
            sink(work.await.unwrap_or_else(|failure| {
                Judgement::Refuse(ToolError::bug(&name, &failure).into())
            }));
        });
    }

    fn call(&self, call: ToolCall, sink: Sink<ToolOutcome>) -> Box<dyn Stop> {
        let source = AbortSource::new();
        let stop = Box::new(Stopper(source.clone()));
        let registry = self.clone();
        // At once, so that a teardown finds the call however early it comes.
        let ticket = self.shared.sessions.begin(&call.session, source.clone());
        self.shared.runtime.spawn(async move {
            let session = call.session.clone();
            let outcome = registry.performed(call, source, ticket).await;
            let job = outcome.job.as_ref().map(|job| job.id.clone());
            sink(outcome);
            // Only now is the job somebody's, so that its end is never told before its beginning.
            if let (Some(jobs), Some(job)) = (&registry.shared.jobs, job) {
                jobs.release(&session, &job);
            }
        });
        stop
    }

    fn finish(&self, session: &SessionId, name: &str, outcome: ToolOutcome) -> ToolOutcome {
        self.output_of(session, name).finish(outcome)
    }

    fn forget(&self, session: &SessionId) {
        let shared = &self.shared;
        shared.sight.forget(session);
        shared.scopes.forget(session);
        let forgotten = shared.sessions.forget(session);
        // The name is free from here on: a session that comes back at once has a directory of its own. Before the jobs,
        // so that a call that is only just starting one sees that it is late, or its job is seen.
        let aside = match &forgotten {
            Some(forgotten) => forgotten.life.end(&shared.fence.confinement()),
            // An earlier host may have left one.
            None => shared.fence.confinement().set_aside(session.as_str()),
        };
        if let Some(jobs) = &shared.jobs {
            end_soon(&shared.runtime, jobs.forget(session), KILL_GRACE);
        }
        shared.fence.forget(session.as_str());
        let (left, files) = match forgotten {
            Some(Forgotten { life, spills }) => (Some(Tree::marked(life.mark().clone())), spills),
            None => (None, Vec::new()),
        };
        let spills = shared.spills.clone();
        shared.runtime.spawn(async move {
            // First who could still write there.
            if let Some(left) = left {
                left.end(LEFT_GRACE).await;
            }
            // It may hold whole trees of files. It fails only while the runtime shuts down.
            let removed = tokio::task::spawn_blocking(move || {
                files.iter().for_each(|file| spills.remove(file));
                aside.iter().for_each(|aside| Confinement::remove(aside));
            });
            let _ = removed.await;
        });
    }

    fn terminate(&self, session: &SessionId, kill_after_ms: u64) {
        let grace = Duration::from_millis(kill_after_ms);
        // In this order, so that a call that is only just starting a job is stopped or its job is seen.
        let mut trees = self.shared.sessions.terminate(session, grace);
        if let Some(jobs) = &self.shared.jobs {
            trees.extend(jobs.terminate(session, grace));
        }
        end_soon(&self.shared.runtime, trees, grace);
    }
}

/// Ends what an abort ends.
pub(crate) struct Stopper(AbortSource);

impl Stopper {
    pub(crate) fn new(source: AbortSource) -> Stopper {
        Stopper(source)
    }
}

impl Stop for Stopper {
    fn stop(&self) {
        self.0.abort();
    }
}
