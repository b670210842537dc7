//! What a stored log says of delegation: what the session is itself, and the children that it keeps (L-67, L-72).

use serde::Deserialize;

use super::{Envelope, RestoreError, Restored, read};
use crate::{
    event::SubagentMode,
    header::Origin,
    subagents::{Catalogued, Descriptor, ToolFilter},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    mode: SubagentMode,
    provider: String,
    label: Option<String>,
    agent_provider: Option<String>,
    agent_model: Option<String>,
    persona: Option<String>,
    tool_filter: Option<ToolFilter>,
    #[serde(default)]
    inherited_tool_filters: Vec<ToolFilter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Child {
    child_id: String,
    mode: SubagentMode,
    #[serde(default)]
    label: String,
}

impl Restored {
    pub(super) fn described(&mut self, envelope: &Envelope<'_>) -> Result<(), RestoreError> {
        let header = self.log.header();
        let delegated = header.origin == Some(Origin::Subagent);
        if !delegated && envelope.seq >= header.seed_length.unwrap_or_default() {
            return Ok(());
        }
        let own: Described = read(envelope)?;
        let own = Descriptor {
            mode: own.mode,
            provider: own.provider,
            label: own.label,
            agent_provider: own.agent_provider,
            agent_model: own.agent_model,
            persona: own.persona,
            tool_filter: own.tool_filter,
            inherited_tool_filters: own.inherited_tool_filters,
        };
        self.log.filter_tools(&own);
        // A fork of a delegated session is not delegated, but has no more tools than that.
        self.log.descriptor = Some(own).filter(|_| delegated);
        Ok(())
    }

    /// The later runtime uses the name too, perhaps in another shape, and it is ignorable (L-19, L-103).
    pub(super) fn catalogued(&mut self, envelope: &Envelope<'_>) {
        let Ok(Child { child_id, mode, label }) = read(envelope) else { return };
        if mode == SubagentMode::Continuable {
            self.awaited.born(&child_id);
            self.log.children.push(Catalogued { child: child_id.into(), label });
        }
    }
}
