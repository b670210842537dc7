//! What differs between the policy that holds at a door and the one that its file holds now.

use transom_config::manifest::{Change, Effect};
use transom_io::OpenDoor;
use transom_policy::{Limits, Policy, limits::LIMIT_KEYS};

/// What a policy says otherwise, where the manifest does not say it already. Policies are files of their own.
pub(super) fn changes(changes: &mut Vec<Change>, door: &OpenDoor, new: &Policy) {
    let old = door.slot.active().policy.as_ref().clone();
    let mut told = |key: &str, effect, before: String, after: String| {
        let path = format!("door.{}.{key}", door.name);
        if before != after && !changes.iter().any(|change| change.path == path) {
            changes.push(Change { path, effect, old: Some(before), new: Some(after) });
        }
    };
    let swap = || Effect::Swap(door.slot.component().to_string());
    let (mut before, mut after) = (old.limits.clone(), new.limits.clone());
    for limit in &LIMIT_KEYS {
        let (before, after) = (*limit.field(&mut before), *limit.field(&mut after));
        let effect = match limit.key.name {
            "connections-max" if after > before => Effect::Restart,
            _ if limit.of_door => Effect::NewConnections,
            _ => swap(),
        };
        let key = format!("limits.{}", limit.key.name);
        told(&key, effect, before.to_string(), after.to_string());
    }
    let frames = |policy: &Policy| {
        let frames: Vec<_> = policy.frames.iter().map(|frame| frame.as_str()).collect();
        frames.join(", ")
    };
    told("frames.allow", swap(), frames(&old), frames(new));
    let trust = |policy: &Policy| {
        let keys: Vec<_> = policy.trust.keys.iter().map(ToString::to_string).collect();
        let required = policy.trust.require_signature;
        format!("{}, keys {}", if required { "required" } else { "not required" }, keys.join(", "))
    };
    told("trust", swap(), trust(&old), trust(new));
}

/// Whether two policies differ in nothing that a running connection would notice.
pub(super) fn serve_alike(one: &Policy, other: &Policy) -> bool {
    let sandboxed = |policy: &Policy| {
        let limits = &policy.limits;
        (
            limits.memory_bytes_max,
            limits.outputs_per_call_max,
            limits.output_bytes_per_call_max,
            limits.call_ms_base,
            limits.call_ms_per_mib,
        )
    };
    let frames = |policy: &Policy| {
        let mut policy = policy.clone();
        policy.limits = Limits::default();
        policy
    };
    sandboxed(one) == sandboxed(other) && frames(one) == frames(other)
}
