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
        // A fork of a delegated session is not delegated.
        if self.log.header().origin != Some(Origin::Subagent) {
            return Ok(());
        }
        let own: Described = read(envelope)?;
        self.log.descriptor = Some(Descriptor {
            mode: own.mode,
            provider: own.provider,
            label: own.label,
            agent_provider: own.agent_provider,
            agent_model: own.agent_model,
            persona: own.persona,
            tool_filter: own.tool_filter,
        });
        Ok(())
    }

    /// The later runtime uses the name too, perhaps in another shape, and it is ignorable (L-19, L-103).
    pub(super) fn catalogued(&mut self, envelope: &Envelope<'_>) {
        let Ok(Child { child_id, mode, label }) = read(envelope) else { return };
        if mode == SubagentMode::Continuable {
            self.log.children.push(Catalogued { child: child_id.into(), label });
        }
    }
}
