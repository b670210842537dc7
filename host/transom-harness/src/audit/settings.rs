//! Mode, approval policy and preset as the log has them (P-2). They may change at any time, inside and
//! outside of turns.

use super::{Checked, ensure, envelope::Envelope};
use crate::{
    header::{Header, Origin},
    permissions::{ApprovalPolicy, Mode},
};

/// The last event of each type.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) mode: Option<Mode>,
    pub(super) policy: Option<ApprovalPolicy>,
    pub(super) preset: Option<String>,
    seed_length: u64,
    delegated: bool,
    /// A turn of the session's own has begun.
    pub(super) born: bool,
}

impl Settings {
    pub(super) fn new(header: &Header) -> Settings {
        Settings {
            mode: None,
            policy: None,
            preset: None,
            seed_length: header.seed_length.unwrap_or_default(),
            delegated: header.origin == Some(Origin::Subagent),
            born: false,
        }
    }

    pub(super) fn never(&self) -> bool {
        self.policy == Some(ApprovalPolicy::Never)
    }

    /// Whether the mode of an event is narrower than the one that held. Where the log had none, the host's default held,
    /// which it does not tell.
    fn narrowed_by(&self, event: &Envelope<'_>) -> bool {
        let to = Mode::parse(&event.text("mode"));
        to.is_some_and(|to| self.mode.is_none_or(|held| to < held))
    }

    pub(super) fn set(&mut self, event: &Envelope<'_>) -> Checked {
        let by_delegation = event.data.raw("source").is_some();
        let copied = event.seq < self.seed_length;
        let narrows = event.kind == "sandbox/mode" && self.narrowed_by(event);
        let may = self.delegated && (!self.born || narrows);
        ensure(copied || !by_delegation || may, "P-23", || {
            let kind = &event.kind;
            format!(
                "{kind} with source delegation, which only a delegated session has, before its first turn or to become narrower"
            )
        })?;
        match &*event.kind {
            "sandbox/mode" => self.mode = Mode::parse(&event.text("mode")),
            "approval/policy" => self.policy = ApprovalPolicy::parse(&event.text("policy")),
            _ => {
                let preset = event.text("preset");
                ensure(preset != "custom", "P-7", || {
                    "preset \"custom\" means that none matches, and is never logged".to_owned()
                })?;
                self.preset = Some(preset.into());
            }
        }
        Ok(())
    }
}
