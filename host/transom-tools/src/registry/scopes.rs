//! What single sessions have of the registry: tools of their own, which shadow those of the host, and filters that
//! keep some of the host's from them (L-53, L-67).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use transom_frame::SessionId;
use transom_harness::{ports::ToolSpec, subagents::Toolset};

use super::{Entry, Registry, RegistryError, Table};
use crate::{
    judge::Subject,
    tool::{Addition, Tool},
};

/// Sessions that have something of their own.
#[derive(Default)]
pub(super) struct Scopes(RwLock<HashMap<SessionId, Scope>>);

#[derive(Default)]
struct Scope {
    toolset: Toolset,
    own: Table,
}

impl Scope {
    fn admits(&self, tool: &str) -> bool {
        self.toolset.filters.iter().all(|filter| filter.admits(tool))
    }
}

impl Scopes {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<SessionId, Scope>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, session: &SessionId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.read().len()
    }
}

impl Registry {
    /// Adds a tool that one session has until it is forgotten. It takes the place of one of the host's of that name
    /// (L-53).
    pub fn register_for(
        &self,
        session: &SessionId,
        tool: Arc<dyn Tool>,
    ) -> Result<(), RegistryError> {
        let entry = self.entry(tool, false)?;
        let mut scopes = self.shared.scopes.0.write().unwrap_or_else(PoisonError::into_inner);
        let own = &mut scopes.entry(session.clone()).or_default().own;
        if own.entries.contains_key(&entry.name) {
            return Err(RegistryError::DuplicateInScope(entry.name));
        }
        own.entries.insert(entry.name.clone(), entry);
        own.describe(&self.permissions());
        Ok(())
    }

    /// Keeps tools of the host from a session.
    pub(super) fn confine_to(&self, session: &SessionId, toolset: Toolset) {
        let mut scopes = self.shared.scopes.0.write().unwrap_or_else(PoisonError::into_inner);
        scopes.entry(session.clone()).or_default().toolset = toolset;
    }

    /// The tool that a session means by a name: what it has of its own, else what it may have of the host's.
    pub(super) fn find_for(&self, session: &SessionId, name: &str) -> Option<Entry> {
        let scopes = self.shared.scopes.read();
        match scopes.get(session) {
            None => self.find(name),
            Some(scope) => match scope.own.entries.get(name) {
                Some(own) => Some(own.clone()),
                None => self.find(name).filter(|_| scope.admits(name)),
            },
        }
    }

    /// Who of a session's tools has more to say to it, by name.
    pub(super) fn additions_for(&self, session: &SessionId) -> BTreeMap<String, Addition> {
        // In the order of `find_for`.
        let scopes = self.shared.scopes.read();
        let hosts = self.shared.tools.read().unwrap_or_else(PoisonError::into_inner);
        let scope = scopes.get(session);
        let own = scope.map(|scope| &scope.own.entries);
        let admitted = hosts.entries.values().filter(|entry| {
            scope.is_none_or(|scope| scope.admits(&entry.name))
                && own.is_none_or(|own| !own.contains_key(&entry.name))
        });
        let entries = admitted.chain(own.into_iter().flat_map(BTreeMap::values));
        let additions =
            entries.filter_map(|entry| Some((entry.name.clone(), entry.addition.clone()?)));
        additions.collect()
    }

    /// What the model of a session is told.
    pub(super) fn scoped_specs(&self, session: &SessionId) -> Arc<[ToolSpec]> {
        let hosts = self.shared.tools.read().unwrap_or_else(PoisonError::into_inner).specs.clone();
        let scopes = self.shared.scopes.read();
        let Some(scope) = scopes.get(session) else { return hosts };
        let admitted = hosts.iter().filter(|spec| scope.admits(&spec.name));
        // By name, so that what is its own takes the place of the host's, and the order is that of L-95.
        let specs: BTreeMap<&str, &ToolSpec> =
            admitted.chain(scope.own.specs.iter()).map(|spec| (spec.name.as_str(), spec)).collect();
        specs.into_values().cloned().collect()
    }
}

/// What the mode confines of a tool: of the built-in ones only.
pub(super) fn subject(name: &str, built_in: bool) -> Option<Subject> {
    Subject::of(name).filter(|_| built_in)
}
