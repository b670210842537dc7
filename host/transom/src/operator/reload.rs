//! Reading the configuration again and bringing it to a host that runs: all of it or, where anything is wrong, nothing.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use serde_json::{Value, json};
use transom_config::manifest::{Change, Effect, Manifest};
use transom_harness::ports::Attachments;
use transom_io::{OpenDoor, slot::Cause};

use super::{HostOperator, State, policies};
use crate::{
    bundle,
    doors::{self, Origin, Version},
    live,
};

impl HostOperator {
    /// Reads everything again, refuses it whole or makes it so. What needs a restart is named in the answer.
    pub(super) async fn reload(&self) -> anyhow::Result<Value> {
        let mut state = self.state.lock().await;
        let read = self.origin.read().context("nothing was changed")?;
        let mut new = read.manifest.clone();
        let pins = state.pins.after(&read.pins);
        let mut unpacked: Vec<_> = state.unpacked.iter().chain(&read.unpacked).cloned().collect();
        let before = bundle::by_content(&state.manifest, &unpacked);
        let mut changes = before.changes(&bundle::by_content(&new, &unpacked));
        keep_what_needs_a_restart(&state.manifest, &mut new);
        let moved = moved(&before, &bundle::by_content(&new, &unpacked));
        unpacked.retain(|bundle| bundle.has_files_of(&new));

        // Everything that can be refused comes first.
        let settings = self.tooling.settings(&new, &self.extras).context("nothing was changed")?;
        let attachments = Arc::clone(&self.store) as Arc<dyn Attachments>;
        let models = live::models(&new, &self.extras, &self.origin.environment, attachments)
            .context("nothing was changed")?;
        let mut swaps: Vec<(&OpenDoor, Version)> = Vec::new();
        for door in &self.doors {
            let component = door.slot.component();
            let origin = match moved.contains(&**component) || !held(&state, door) {
                true => Origin::Manifest,
                false => Origin::Loaded(Arc::clone(&door.slot.active().source)),
            };
            let (policy, version) =
                self.load_with(&new, &pins, door, origin).await.context("nothing was changed")?;
            policies::changes(&mut changes, door, &policy);
            swaps.push((door, version));
        }

        for door in &self.doors {
            door.slot.set_upkeep(doors::upkeep(&new));
        }
        self.tooling.apply(settings).await;
        self.switches.set(models);
        self.host.configure(live::settings(&new, &self.extras, self.tooling.hooks.as_ref()));
        let mut rows = Vec::new();
        for (door, version) in swaps {
            let active = door.slot.active();
            let same = active.source.identity() == version.source.identity()
                && active.options == version.options
                && policies::serve_alike(&active.policy, &version.policy);
            match same {
                // Limits of a connection are those it was opened with.
                true if active.policy != version.policy => door.slot.set_policy(version.policy),
                true => {}
                false => rows.extend(self.commit(&new, &[door], vec![version]).await),
            }
        }
        let shown: Vec<_> = changes.iter().map(shown).collect();
        let restart: Vec<_> = changes
            .iter()
            .filter(|change| change.effect == Effect::Restart)
            .map(|change| change.path.clone())
            .collect();
        state.by_hand.retain(|component| !moved.contains(component));
        state.manifest = new;
        state.pins = pins;
        state.unpacked = unpacked;
        tracing::info!(
            changes = changes.len(),
            swaps = rows.len(),
            ?restart,
            "configuration read again"
        );
        Ok(json!({ "changes": shown, "swaps": rows, "restart": restart }))
    }
}

/// Whether a door keeps the component that it has: somebody chose it, or it came back because the manifest's failed.
fn held(state: &State, door: &OpenDoor) -> bool {
    let failed = door.slot.swaps().last().is_some_and(|last| last.cause == Cause::Probation);
    failed || state.by_hand.contains(&**door.slot.component())
}

/// Components whose file is another one now: the manifest has the last word.
fn moved(old: &Manifest, new: &Manifest) -> BTreeSet<String> {
    let source = |manifest: &Manifest, name: &str| {
        manifest.components.get(name).map(|component| component.source.clone())
    };
    let names = old.components.keys().chain(new.components.keys());
    names.filter(|name| source(old, name) != source(new, name)).cloned().collect()
}

/// What cannot change while the host runs stays as it was, so that the next reload names it again.
fn keep_what_needs_a_restart(old: &Manifest, new: &mut Manifest) {
    new.store = old.store.clone();
    new.control = old.control.clone();
    new.metrics = old.metrics.clone();
    new.tools = old.tools.clone();
    new.agents = old.agents.clone();
    new.subagents = old.subagents.clone();
    new.hooks = old.hooks.clone();
    new.doors.retain(|name, _| old.doors.contains_key(name));
    for (name, door) in &old.doors {
        let Some(changed) = new.doors.get_mut(name) else {
            new.doors.insert(name.clone(), door.clone());
            continue;
        };
        if changed.component != door.component {
            *changed = door.clone();
            continue;
        }
        changed.carrier = door.carrier.clone();
        changed.answers = door.answers;
    }
    for (name, component) in &old.components {
        let used = new.doors.values().any(|door| door.component == *name)
            || new.agents.values().any(|agent| agent.component == *name);
        if used && !new.components.contains_key(name) && transom_doors::find(name).is_err() {
            new.components.insert(name.clone(), component.clone());
        }
    }
}

fn shown(change: &Change) -> Value {
    let Change { path, effect, old, new } = change;
    json!({ "path": path, "old": old, "new": new, "effect": effect.to_string() })
}
