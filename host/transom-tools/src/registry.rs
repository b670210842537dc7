//! The registry: names to tools, what the model is told of them, and whether a call may begin (L-53, L-57, P-30).
//! The course of a call that has begun is `registry/course.rs`; results go where the caller says.

mod course;
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
    permissions::rules::ToolKind,
    ports::{Judgement, Sink, Stop, ToolCall, ToolOutcome, ToolSpec, Tools},
};
use transom_process::{Confinement, Confiner, SpillDirectory, Tree};

use self::course::bounded;
pub use self::setup::RegistryError;
use crate::{
    abort::AbortSource,
    fence::Fence,
    jobs::{Jobs, KILL_GRACE, KillError},
    judge::{Candidate, ESCALATION_GUIDE, Explanation, Permissions, Subject, escalatable},
    options::JobLimits,
    schema::{Root, decode, unsupported, violations},
    sessions::{Forgotten, Sessions, end_soon},
    shell::Shell,
    tool::{Tool, ToolError},
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
    permissions: RwLock<Arc<Permissions>>,
    tools: RwLock<Table>,
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
}

impl Registry {
    /// Adds a tool.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.add(tool, false)
    }

    fn add(&self, tool: Arc<dyn Tool>, built_in: bool) -> Result<(), RegistryError> {
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
        let mut table = self.shared.tools.write().unwrap_or_else(PoisonError::into_inner);
        if table.entries.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        let entry = Entry {
            kind: if built_in { ToolKind::BuiltIn } else { tool.kind() },
            subject: Subject::of(&name).filter(|_| built_in),
            tool,
            name: name.clone(),
            parameters: Arc::default(),
        };
        table.entries.insert(name, entry);
        table.describe(&self.permissions());
        Ok(())
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
        match self.valid(&call.name, &call.arguments) {
            Ok((entry, arguments)) => self.weigh(&permissions, call, Some(&entry), &arguments),
            Err(error) => {
                let arguments = match decode(&call.arguments) {
                    Value::Object(arguments) => arguments,
                    _ => Map::new(),
                };
                let entry = self.find(&call.name);
                let judgement = Judgement::Refuse(error.into());
                let explained = self.weigh(&permissions, call, entry.as_ref(), &arguments);
                Explanation { judgement, ..explained }
            }
        }
    }

    /// Asks a background job to end, on the operator's behalf: the model will be told (P-82).
    pub fn kill_job(&self, session: &SessionId, id: &str) -> Result<(), KillError> {
        match &self.shared.jobs {
            Some(jobs) => jobs.kill_for_operator(session, id),
            None => Err(KillError::Unknown(id.to_owned())),
        }
    }

    /// Names of the host's variables that shells do not get; never values.
    pub fn withheld(&self) -> &[String] {
        &self.shared.withheld
    }

    /// How many sessions are remembered, and how many of them for their jobs.
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
        permissions.judge(&Candidate {
            tool: &call.name,
            kind: entry.map_or(ToolKind::Bridged { trusted_read_only: false }, |entry| entry.kind),
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
            if let Some(subject) = entry.subject.filter(|subject| permissions.confines(*subject)) {
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
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.shared.tools.read().unwrap_or_else(PoisonError::into_inner).specs.clone()
    }

    fn is_parallel(&self, name: &str, arguments: &str) -> bool {
        let Some(entry) = self.find(name) else { return false };
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
        let (entry, arguments) = match self.valid(&call.name, &call.arguments) {
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
            let outcome =
                registry.perform(call, source, ticket).await.unwrap_or_else(ToolOutcome::from);
            let job = outcome.job.as_ref().map(|job| job.id.clone());
            sink(bounded(outcome));
            // Only now is the job somebody's, so that its end is never told before its beginning.
            if let (Some(jobs), Some(job)) = (&registry.shared.jobs, job) {
                jobs.release(&session, &job);
            }
        });
        stop
    }

    fn forget(&self, session: &SessionId) {
        let shared = &self.shared;
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

struct Stopper(AbortSource);

impl Stop for Stopper {
    fn stop(&self) {
        self.0.abort();
    }
}
