//! What the manifest says of permissions, confinement and jobs, in the words of the crates that obey it
//! (`permissions-and-jobs.md` P-5 to P-8, P-25, P-44 to P-46).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use transom_config::{
    launch::PermissionMode,
    manifest::{self, Approvals, Carrier, Manifest, RuleDecision},
};
use transom_harness::{
    agent,
    permissions::{
        ApprovalPolicy, Mode,
        presets::{Defaults, PRESETS},
        rules::{Decision, Pattern, Place, Rule, Rules},
    },
};
use transom_process::{Confinement, Network};
use transom_tools::{JobLimits, Permissions};

use crate::{agents, environment::Environment, hooks};

/// How far a deployment is governed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Governance {
    /// Rules, presets, asks and confinement, as the manifest says.
    #[default]
    Full,
    /// None of them: what clients of launch form A count on (P-8).
    None,
}

/// What agents are told of permissions.
pub(crate) fn agents(manifest: &Manifest, governance: Governance) -> agent::Permissions {
    if governance == Governance::None {
        return agent::Permissions::default();
    }
    let wanted = &manifest.permissions;
    let mode = mode(wanted.preset);
    let defaults = Defaults {
        mode,
        policy: policy(wanted.policy),
        preset: Some(wanted.preset.as_str().to_owned()),
        presets: PRESETS.to_vec(),
    };
    agent::Permissions {
        defaults,
        // P-8: where every door is of this surface, sessions begin without the three events.
        pins: manifest.doors.values().any(|door| door.component != "acp"),
        confines: true,
        approvals: true,
        children: policy(wanted.children),
    }
}

/// What is looked at before each call.
pub(crate) fn calls(manifest: &Manifest, governance: Governance) -> anyhow::Result<Permissions> {
    if governance == Governance::None {
        return Ok(Permissions::default());
    }
    Ok(Permissions {
        rules: rules(&manifest.permissions)?,
        approvals: true,
        confines_shell: true,
        confines_files: true,
    })
}

fn rules(wanted: &manifest::Permissions) -> anyhow::Result<Rules> {
    let rule = |rule: &manifest::PermissionRule| Rule {
        tool: Pattern::new(&rule.tool),
        when: rule.when.iter().map(|(name, text)| (name.clone(), Pattern::new(text))).collect(),
        mode: rule.mode.map(mode),
        decision: decision(rule.decision),
        reason: rule.reason.clone(),
        place: Place { file: rule.file.clone(), line: rule.line },
    };
    let rules = wanted.rules.iter().map(rule).collect();
    match Rules::new(rules, wanted.default.map(decision)) {
        Ok(rules) => Ok(rules),
        Err(errors) => {
            let listed: Vec<_> = errors.iter().map(ToString::to_string).collect();
            bail!("{}", listed.join("\n"))
        }
    }
}

/// The widest mode that a door may set.
pub(crate) fn ceiling(manifest: &Manifest, governance: Governance) -> Mode {
    match governance {
        Governance::None => Mode::DangerFullAccess,
        Governance::Full => mode(manifest.permissions.ceiling),
    }
}

/// The widest mode that a session from the store keeps: the ceiling, but only one that the manifest names. The preset
/// is for new sessions (P-10).
pub(crate) fn kept_mode_max(manifest: &Manifest, governance: Governance) -> Mode {
    match manifest.permissions.ceiling_named {
        true => ceiling(manifest, governance),
        false => Mode::DangerFullAccess,
    }
}

/// The directories that sessions may use; empty: all.
pub(crate) fn workspaces(manifest: &Manifest) -> Vec<Pattern> {
    manifest.permissions.workspaces.iter().flatten().map(Pattern::new).collect()
}

/// What shells and file tools are held to. Where anything is, the host's own files have to be known.
pub(crate) fn confinement(
    manifest: &Manifest,
    governance: Governance,
    environment: &Environment,
    store: &Path,
) -> anyhow::Result<Confinement> {
    let wanted = &manifest.confine;
    let given = |name| environment.given(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = match governance {
        Governance::None => environment.state_directory().ok(),
        Governance::Full => Some(environment.state_directory().context(
            "this host's own files cannot be kept from tools where it is not known which they are",
        )?),
    };
    let mut private = Vec::new();
    // Of the store's directory only its own files are private: it may be a workspace.
    private.extend(home.clone());
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut name = store.as_os_str().to_owned();
        name.push(suffix);
        private.push(name.into());
    }
    private.extend(environment.cache_directory());
    private.extend(named(manifest).map(|path| environment.absolute(path)));
    let mut guard = wanted.guard.clone();
    // Nor is what runs behind a door for shells to change (P-46).
    guard.extend(codecs(manifest).map(|path| environment.absolute(path)));
    // Nor what has a say about them.
    guard.extend(hooks::files(manifest, environment));
    guard.extend(agents::files(manifest, environment));
    Ok(Confinement {
        off: wanted.off || governance == Governance::None,
        required: wanted.required,
        network: network(wanted.network),
        unix_sockets: network(wanted.unix_sockets),
        shared_temp: wanted.temp == manifest::Temp::Shared,
        write: wanted.write.clone(),
        hide: wanted.hide.clone(),
        show: wanted.show.clone(),
        guard,
        guard_git: wanted.guard_git,
        private,
        user_home: given("HOME"),
        temp: given("TMPDIR"),
        run: home.map(|home| home.join("run")),
    })
}

/// What the manifest names that is between the host and others: sockets, and the words of the scripted model.
fn named(manifest: &Manifest) -> impl Iterator<Item = &Path> {
    let listens = manifest.doors.values().filter_map(|door| match &door.carrier {
        Carrier::Unix { listen } => Some(listen.as_path()),
        Carrier::Stdio => None,
    });
    listens.chain(manifest.control.listen.as_deref()).chain(manifest.model.script.as_deref())
}

/// The files behind the doors. `chosen` adds the manifest with its lock and its policies: it knows where
/// they were read.
fn codecs(manifest: &Manifest) -> impl Iterator<Item = &Path> {
    manifest.components.values().map(|component| component.source.as_path())
}

/// How many jobs there may be. `None`: none of a kind that runs on behind its call.
pub(crate) fn jobs(manifest: &Manifest) -> anyhow::Result<JobLimits> {
    let number = |value: u64| usize::try_from(value).context("[jobs] a number is too large");
    Ok(JobLimits {
        session_max: number(manifest.jobs.per_session_max)?,
        host_max: number(manifest.jobs.host_max)?,
        ..JobLimits::default()
    })
}

/// A manifest's word for a mode, in the loop's.
pub(crate) fn mode(mode: PermissionMode) -> Mode {
    match mode {
        PermissionMode::ReadOnly => Mode::ReadOnly,
        PermissionMode::WorkspaceWrite => Mode::WorkspaceWrite,
        PermissionMode::DangerFullAccess => Mode::DangerFullAccess,
    }
}

fn policy(wanted: Approvals) -> ApprovalPolicy {
    match wanted {
        Approvals::Ask => ApprovalPolicy::Ask,
        Approvals::Never => ApprovalPolicy::Never,
    }
}

fn decision(decision: RuleDecision) -> Decision {
    match decision {
        RuleDecision::Allow => Decision::Allow,
        RuleDecision::Ask => Decision::Ask,
        RuleDecision::Deny => Decision::Deny,
    }
}

fn network(access: manifest::Access) -> Network {
    match access {
        manifest::Access::Deny => Network::Deny,
        manifest::Access::Allow => Network::Allow,
    }
}

#[cfg(test)]
mod tests;
