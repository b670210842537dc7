//! What a session may do, as its agent keeps it: settings logged at birth and changed later, and the
//! runtime context by which the model learns of them (P-9 to P-13, P-23, L-64, L-96).

use std::sync::Arc;

use transom_frame::Failure;

use super::{Agent, Delivery, Effect, Live};
use crate::{
    block::Block,
    event::{Data, Event},
    header::Origin,
    message::{CONTEXT_PLUGIN, Form, Message, Role, Section, Source},
    permissions::{
        Access, ApprovalPolicy, Mode,
        presets::{Defaults, Knobs, PRESETS, Projection, Setting, policy_changed},
    },
    subagents::Descriptor,
};

/// What the host gives to sessions that have no settings of their own.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// For sessions whose log says nothing.
    pub defaults: Defaults,
    /// Whether new sessions are given the defaults of their day (P-8, P-10).
    pub pins: bool,
    /// Whether anything confines shells or files; without it the model is told nothing of modes.
    pub confines: bool,
    /// Whether asks are put to anybody; without it they are refused (P-6).
    pub approvals: bool,
    /// The approval policy that delegated sessions are born with (P-23, P-24).
    pub children: ApprovalPolicy,
}

impl Default for Permissions {
    /// No limit and nobody to ask, as the launch forms without an operator have it (P-8).
    fn default() -> Permissions {
        Permissions {
            defaults: Defaults {
                mode: Mode::DangerFullAccess,
                policy: ApprovalPolicy::Never,
                preset: None,
                presets: PRESETS.to_vec(),
            },
            pins: false,
            confines: false,
            approvals: false,
            children: ApprovalPolicy::Never,
        }
    }
}

/// On whose account a session is narrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// The operator's, like a switch (P-35).
    Ceiling,
    /// The session's that has delegated to it, like at its birth (P-23).
    Delegation,
}

/// The part of the host that speaks of approvals (P-11).
const APPROVAL_PLUGIN: &str = "user-approval";

impl Agent {
    /// What a call may do now (P-3).
    pub fn access(&self) -> Access {
        let (mode, policy) = self.log.knobs().effective(&self.config.permissions.defaults);
        Access { mode, policy, logged_mode: self.log.knobs().logged_mode(), unconfined: false }
    }

    /// The projection `permissions` (P-12).
    pub fn permissions(&self) -> Projection {
        self.log.knobs().projection(&self.config.permissions.defaults)
    }

    /// Writes the settings that a new session is born with (P-10). The events are to be stored before the session is
    /// published, and shown to nobody.
    pub fn pin(&mut self, now: u64) -> Vec<Event> {
        if !self.config.permissions.pins {
            return Vec::new();
        }
        let seeded = self.log.next_seq() > 0;
        let settings = self.log.knobs().pin(&self.config.permissions.defaults, seeded);
        settings.iter().map(|setting| self.set(now, setting)).collect()
    }

    /// Makes a new session a delegated one (P-23). `mode` is that of the parent's log. The events are to be stored
    /// before the session is published, and shown to nobody.
    pub fn delegated(
        &mut self,
        now: u64,
        descriptor: Descriptor,
        mode: Option<Mode>,
    ) -> Vec<Event> {
        self.undescribed = Some(descriptor);
        let Permissions { children, approvals, .. } = &self.config.permissions;
        let settings = Knobs::delegate(mode, *children, *approvals);
        settings.iter().map(|setting| self.set(now, setting)).collect()
    }

    /// Switches to a preset (P-11). It counts from the next call on.
    pub fn switch(&mut self, out: &mut Vec<Effect>, now: u64, preset: &str) -> Result<(), Failure> {
        self.takes_changes()?;
        let before = self.access().policy;
        let defaults = &self.config.permissions.defaults;
        let settings =
            self.log.knobs().switch(defaults, preset).map_err(|text| Failure::invalid(&[&text]))?;
        if settings.is_empty() {
            return Ok(());
        }
        let after = settings.iter().find_map(|setting| match setting {
            Setting::Policy { policy, .. } => Some(*policy),
            Setting::Preset(_) | Setting::Mode { .. } => None,
        });
        let message = after.map(|after| {
            let text = policy_changed(before, after);
            self.told(vec![Block::text(text)], Source::plugin(APPROVAL_PLUGIN))
        });
        // Nothing is written where the model could not be told.
        message.as_ref().map_or(Ok(()), |message| self.accepts(message))?;
        for setting in settings {
            let event = self.set(now, &setting);
            out.push(Effect::Append(event));
        }
        if let Some(message) = message {
            self.send(out, now, message, Delivery::Inject)?;
        }
        out.push(Effect::Live(Live::Permissions));
        Ok(())
    }

    /// Narrows a live session to `most`, which whoever has delegated to it has from now on. Wider it becomes by no act of
    /// theirs.
    pub fn narrow(&mut self, out: &mut Vec<Effect>, now: u64, most: Mode) {
        if self.takes_changes().is_err() {
            return;
        }
        if let Some(event) = self.capped(now, most, Cap::Delegation) {
            out.push(Effect::Append(event));
            out.push(Effect::Live(Live::Permissions));
        }
    }

    /// Narrows a session to `most` where it is wider. The approval policy stays: nothing is asked about that was not
    /// before. For one that is not published yet the event is to be stored before that, and shown to nobody.
    pub fn capped(&mut self, now: u64, most: Mode, by: Cap) -> Option<Event> {
        let wider = self.access().mode > most;
        let setting = Setting::Mode { mode: most, delegation: by == Cap::Delegation };
        wider.then(|| self.set(now, &setting))
    }

    fn set(&mut self, now: u64, setting: &Setting) -> Event {
        let event = self.log.append(now, &Data::Setting(setting));
        self.log.knobs.apply(setting);
        event
    }

    /// Tells the model what has changed around it, if anything has (L-96).
    pub(super) fn tell_context(&mut self, out: &mut Vec<Effect>, now: u64) {
        let sections = self.context();
        let text =
            sections.iter().map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n");
        match &self.log.context {
            None if text.is_empty() => return,
            Some((_, told)) if *told == text => return,
            None | Some(_) => {}
        }
        let message = if sections.is_empty() {
            let text =
                "No runtime context applies any more; what earlier ones said no longer holds.";
            self.told(vec![Block::text(text)], Source::plugin(CONTEXT_PLUGIN))
        } else {
            let words = format!("This runtime context replaces every earlier one.\n\n{text}");
            let source = Source::Plugin {
                plugin: CONTEXT_PLUGIN.to_owned(),
                form: Some(Form::Snapshot),
                sections: Some(sections),
                summary: None,
            };
            self.told(vec![Block::text(words)], source)
        };
        let message = Arc::new(message);
        let event =
            self.log.append_surface(now, &Data::UserMessage(&message), Arc::clone(&message), None);
        self.log.context = Some((event.seq, text));
        out.push(Effect::Append(event));
    }

    /// What changes around the model, in the order of P-13.
    fn context(&self) -> Vec<Section> {
        if !self.config.runtime_context {
            return Vec::new();
        }
        let permissions = &self.config.permissions;
        let Access { mode, policy, .. } = self.access();
        let mut sections = Vec::new();
        let mut section = |name: &str, text: String| {
            sections.push(Section { name: name.to_owned(), text });
        };
        if permissions.confines {
            section("sandbox:policy", mode_text(mode, self.root().or(self.cwd())));
        }
        if permissions.approvals {
            section("approval:policy", policy_text(policy).to_owned());
        }
        if self.header().origin == Some(Origin::Subagent) {
            section("subagent:delegation", self.delegation_text());
        }
        sections
    }

    /// A message that no person wrote.
    pub(super) fn told(&mut self, content: Vec<Block>, source: Source) -> Message {
        Message { id: self.chance.message_id(), role: Role::User, content, source }
    }
}

fn mode_text(mode: Mode, root: Option<&str>) -> String {
    match mode {
        Mode::ReadOnly => "File access is read-only: nothing can be modified. Where a change is needed, try it, and follow \
                           what the denial says."
            .to_owned(),
        Mode::WorkspaceWrite => {
            let root = crate::json(root.unwrap_or_default());
            format!(
                "File access is workspace-write: what stands below {root} can be modified, and some temporary \
                 directories too; other files cannot."
            )
        }
        Mode::DangerFullAccess => "File access is not limited.".to_owned(),
    }
}

fn policy_text(policy: ApprovalPolicy) -> &'static str {
    match policy {
        ApprovalPolicy::Ask => {
            "Approvals may be asked for. One that nobody answers counts as a refusal."
        }
        ApprovalPolicy::Never => {
            "Approvals are refused without asking anybody: do not set sandbox_permissions."
        }
    }
}
