//! Who runs subagents, by name (L-69): asked for what it cannot do, or not there at all, a provider refuses before
//! anything is started.

use std::{collections::BTreeMap, fmt, sync::Arc};

use transom_harness::ports::{Delegation, Subagents};

use crate::tool::ToolError;

/// The name under which a host's own sessions take work.
pub const IN_PROCESS: &str = "spawn";

/// Providers of subagents.
#[derive(Clone, Default)]
pub struct Providers {
    by_name: BTreeMap<String, Arc<dyn Subagents>>,
}

/// Why there cannot be such a provider, or such a run (L-69).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Two of one name.
    #[error("a subagent provider \"{0}\" is registered already; give one of the two another name")]
    Duplicate(String),
    /// None of this name.
    #[error("no subagent provider registered for \"{0}\"")]
    Missing(String),
    /// It cannot do what is asked of it.
    #[error("subagent provider \"{provider}\" does not support the \"{capability}\" capability")]
    Unsupported {
        /// Its name.
        provider: String,
        /// What it lacks, by the name of L-69.
        capability: &'static str,
    },
}

impl ProviderError {
    /// As it stands in a result's `error.code`.
    pub fn code(&self) -> &'static str {
        match self {
            ProviderError::Duplicate(_) => "DUPLICATE_PROVIDER",
            ProviderError::Missing(_) => "NO_PROVIDER",
            ProviderError::Unsupported { .. } => "UNSUPPORTED_CAPABILITY",
        }
    }
}

impl From<ProviderError> for ToolError {
    fn from(error: ProviderError) -> ToolError {
        ToolError::coded(error.to_string(), SUBAGENT_ERROR, error.code())
    }
}

/// The name of errors about subagents in results.
pub(crate) const SUBAGENT_ERROR: &str = "SubagentError";

impl Providers {
    /// The host's own sessions, and nobody else.
    pub fn in_process(subagents: Arc<dyn Subagents>) -> Providers {
        Providers { by_name: BTreeMap::from([(IN_PROCESS.to_owned(), subagents)]) }
    }

    /// Adds a provider.
    pub fn register(
        &mut self,
        name: &str,
        subagents: Arc<dyn Subagents>,
    ) -> Result<(), ProviderError> {
        if self.by_name.contains_key(name) {
            return Err(ProviderError::Duplicate(name.to_owned()));
        }
        self.by_name.insert(name.to_owned(), subagents);
        Ok(())
    }

    /// The provider of that name, if it can do what the delegation asks of it.
    pub fn find(
        &self,
        name: &str,
        delegation: &Delegation,
    ) -> Result<Arc<dyn Subagents>, ProviderError> {
        let found = self.by_name.get(name);
        let subagents = found.ok_or_else(|| ProviderError::Missing(name.to_owned()))?;
        match subagents.capabilities().lack(delegation.nature.needs()) {
            Some(capability) => {
                Err(ProviderError::Unsupported { provider: name.to_owned(), capability })
            }
            None => Ok(Arc::clone(subagents)),
        }
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}
