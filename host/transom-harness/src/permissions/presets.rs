//! Presets and the two knobs of a session: what its log and the host's defaults come to, and which events pin,
//! switch or hand on a setting (P-2 to P-12, P-23).
//! Writing those events, and telling the model of a change, is the session's.

use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use super::{ApprovalPolicy, Mode};

/// What a session is called that matches no preset (P-7). Shown, never chosen, never logged.
pub const CUSTOM: &str = "custom";

/// `type` of the event that records a chosen preset.
pub const PRESET_EVENT: &str = "permission/preset";
/// `type` of the event that records a mode.
pub const MODE_EVENT: &str = "sandbox/mode";
/// `type` of the event that records an approval policy.
pub const POLICY_EVENT: &str = "approval/policy";

/// A mode and an approval policy that are chosen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The word in logs, manifests and frames.
    pub name: &'static str,
    /// Its mode.
    pub mode: Mode,
    /// Its approval policy.
    pub policy: ApprovalPolicy,
    /// One sentence for people who choose.
    pub description: &'static str,
}

/// The table of P-7. A host may offer only some of it.
pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "read-only",
        mode: Mode::ReadOnly,
        policy: ApprovalPolicy::Ask,
        description: "Tools read and change nothing; you are asked where more is needed.",
    },
    Preset {
        name: "workspace-write",
        mode: Mode::WorkspaceWrite,
        policy: ApprovalPolicy::Ask,
        description: "Tools change files of the workspace; you are asked where more is needed.",
    },
    Preset {
        name: "danger-full-access",
        mode: Mode::DangerFullAccess,
        policy: ApprovalPolicy::Never,
        description: "Tools change whatever this host's user may change; nobody is asked.",
    },
];

/// What a host gives to sessions whose log says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// Mode without a `sandbox/mode`.
    pub mode: Mode,
    /// Approval policy without an `approval/policy`.
    pub policy: ApprovalPolicy,
    /// The preset that the operator has named; decides between equal entries of the table (P-10).
    pub preset: Option<String>,
    /// The presets on offer, in the order in which they are shown.
    pub presets: Vec<Preset>,
}

impl Defaults {
    /// Mode and policy of a preset, with the whole table on offer.
    pub fn of(preset: &Preset) -> Defaults {
        Defaults {
            mode: preset.mode,
            policy: preset.policy,
            preset: Some(preset.name.to_owned()),
            presets: PRESETS.to_vec(),
        }
    }

    fn find(&self, name: &str) -> Option<&Preset> {
        self.presets.iter().find(|preset| preset.name == name)
    }

    fn available(&self) -> String {
        self.presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
    }
}

impl Default for Defaults {
    /// What holds where nothing is configured: the last row of P-6.
    fn default() -> Defaults {
        let [_, rest @ ..] = PRESETS;
        Defaults {
            mode: Mode::ReadOnly,
            policy: ApprovalPolicy::Ask,
            preset: None,
            presets: rest.to_vec(),
        }
    }
}

/// An event that sets a knob (P-2). Its serialized form is the event's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// `permission/preset`.
    Preset(String),
    /// `sandbox/mode`.
    Mode {
        /// From here on.
        mode: Mode,
        /// The parent's, handed on (P-23).
        delegation: bool,
    },
    /// `approval/policy`.
    Policy {
        /// From here on.
        policy: ApprovalPolicy,
        /// Set because the session works for another (P-23).
        delegation: bool,
    },
}

impl Setting {
    /// The event's `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Setting::Preset(_) => PRESET_EVENT,
            Setting::Mode { .. } => MODE_EVENT,
            Setting::Policy { .. } => POLICY_EVENT,
        }
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Data<'a> {
            Preset {
                preset: &'a str,
            },
            Mode {
                mode: Mode,
                #[serde(skip_serializing_if = "Option::is_none")]
                source: Option<&'static str>,
            },
            Policy {
                policy: ApprovalPolicy,
                #[serde(skip_serializing_if = "Option::is_none")]
                source: Option<&'static str>,
            },
        }
        let source = |delegation: bool| delegation.then_some("delegation");
        match self {
            Setting::Preset(preset) => Data::Preset { preset },
            Setting::Mode { mode, delegation } => {
                Data::Mode { mode: *mode, source: source(*delegation) }
            }
            Setting::Policy { policy, delegation } => {
                Data::Policy { policy: *policy, source: source(*delegation) }
            }
        }
        .serialize(serializer)
    }
}

/// The last of each setting that a log holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knobs {
    preset: Option<String>,
    mode: Option<Mode>,
    policy: Option<ApprovalPolicy>,
}

impl Knobs {
    /// Takes one event of a log into account; other types than the three change nothing.
    ///
    /// What cannot be understood counts as the narrowest value there is (P-4).
    pub fn fold(&mut self, kind: &str, data: &RawValue) {
        match kind {
            PRESET_EVENT => self.preset = word(data, "preset").or(self.preset.take()),
            MODE_EVENT => {
                let mode = word(data, "mode").and_then(|word| Mode::parse(&word));
                self.mode = Some(mode.unwrap_or(Mode::ReadOnly));
            }
            POLICY_EVENT => {
                let policy = word(data, "policy").and_then(|word| ApprovalPolicy::parse(&word));
                self.policy = Some(policy.unwrap_or(ApprovalPolicy::Never));
            }
            _ => {}
        }
    }

    /// Takes an event into account that is appended now.
    pub fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::Preset(preset) => self.preset = Some(preset.clone()),
            Setting::Mode { mode, .. } => self.mode = Some(*mode),
            Setting::Policy { policy, .. } => self.policy = Some(*policy),
        }
    }

    /// The last mode of the log, which a delegation hands on (P-23).
    pub fn logged_mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Mode and approval policy that hold, as long as no call has a grant of its own (P-3).
    pub fn effective(&self, defaults: &Defaults) -> (Mode, ApprovalPolicy) {
        (self.mode.unwrap_or(defaults.mode), self.policy.unwrap_or(defaults.policy))
    }

    /// The name of the preset that holds, or [`CUSTOM`] (P-9).
    pub fn current(&self, defaults: &Defaults) -> &'static str {
        let effective = self.effective(defaults);
        let fits = |preset: &&Preset| (preset.mode, preset.policy) == effective;
        let recorded = self.preset.as_deref().and_then(|name| defaults.find(name)).filter(fits);
        recorded.or_else(|| defaults.presets.iter().find(fits)).map_or(CUSTOM, |preset| preset.name)
    }

    /// What a session is given before it is published, so that later defaults do not change it (P-10).
    ///
    /// `seeded`: the session was made from earlier events, even from none.
    pub fn pin(&self, defaults: &Defaults, seeded: bool) -> Vec<Setting> {
        let (mode, policy) = self.effective(defaults);
        let current = if !seeded && *self == Knobs::default() {
            Knobs { preset: defaults.preset.clone(), ..Knobs::default() }.current(defaults)
        } else {
            self.current(defaults)
        };
        let preset = self.preset.is_none() && current != CUSTOM;
        [
            preset.then(|| Setting::Preset(current.to_owned())),
            self.mode.is_none().then_some(Setting::Mode { mode, delegation: false }),
            self.policy.is_none().then_some(Setting::Policy { policy, delegation: false }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What switching to a preset writes; nothing where nothing changes (P-11).
    ///
    /// The error is for whoever asked for it (P-12).
    pub fn switch(&self, defaults: &Defaults, preset: &str) -> Result<Vec<Setting>, String> {
        let Some(preset) = defaults.find(preset) else {
            return Err(format!(
                "unknown preset \"{preset}\" (available: {})",
                defaults.available()
            ));
        };
        let (mode, policy) = self.effective(defaults);
        let chosen = self.current(defaults) != preset.name;
        Ok([
            chosen.then(|| Setting::Preset(preset.name.to_owned())),
            (mode != preset.mode).then_some(Setting::Mode { mode: preset.mode, delegation: false }),
            (policy != preset.policy)
                .then_some(Setting::Policy { policy: preset.policy, delegation: false }),
        ]
        .into_iter()
        .flatten()
        .collect())
    }

    /// What a child is given before [`Knobs::pin`] (P-23, P-24): its parent's logged mode, and, where there are
    /// approvals, the policy that the operator has set for children.
    pub fn delegate(
        parent_logged_mode: Option<Mode>,
        children: ApprovalPolicy,
        approvals: bool,
    ) -> Vec<Setting> {
        let policy = Setting::Policy { policy: children, delegation: true };
        parent_logged_mode
            .map(|mode| Setting::Mode { mode, delegation: true })
            .into_iter()
            .chain(approvals.then_some(policy))
            .collect()
    }

    /// What clients are shown (P-12).
    pub fn projection(&self, defaults: &Defaults) -> Projection {
        let current_value = self.current(defaults);
        let custom = Choice { value: CUSTOM, name: CUSTOM, description: None };
        let options = defaults
            .presets
            .iter()
            .map(|preset| Choice {
                value: preset.name,
                name: preset.name,
                description: Some(preset.description),
            })
            .chain((current_value == CUSTOM).then_some(custom))
            .collect();
        Projection { options, current_value }
    }

    /// The answer to `permission` without an argument (P-12).
    pub fn listing(&self, defaults: &Defaults) -> String {
        format!("current preset {} (available: {})", self.current(defaults), defaults.available())
    }
}

/// A text member of an event's data.
fn word(data: &RawValue, key: &str) -> Option<String> {
    serde_json::from_str::<Value>(data.get()).ok()?.get(key)?.as_str().map(str::to_owned)
}

/// The projection `permissions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// In the order of the table; [`CUSTOM`] last, and only while it is current.
    pub options: Vec<Choice>,
    /// One of the options' values.
    pub current_value: &'static str,
}

/// A preset as clients are shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// What is sent to choose it.
    pub value: &'static str,
    /// What people read.
    pub name: &'static str,
    /// One sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'static str>,
}

/// What the model is told when a person changes the approval policy of a live session (P-11).
pub fn policy_changed(old: ApprovalPolicy, new: ApprovalPolicy) -> String {
    let (old, new) = (old.as_str(), new.as_str());
    format!("The approval policy changed from \"{old}\" to \"{new}\" (changed by the user).")
}

#[cfg(test)]
mod tests;
