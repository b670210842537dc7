//! What a running host shows of its doors: one row for each component at a door, and one for each connection.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use serde_json::{Value, json};

use crate::slot::{ConnectionFigures, Health, Slot, Swapped};

/// The row of a component at a door.
pub fn door(slot: &Slot) -> Value {
    let figures = slot.figures();
    let active = slot.active();
    let connections = slot.connections();
    let sum = |of: fn(&ConnectionFigures) -> u64| -> u64 {
        connections.iter().map(|connection| of(connection)).sum()
    };
    let health = slot.health();
    let swaps: Vec<_> = slot.swaps().iter().map(|swapped| swap(swapped)).collect();
    json!({
        "door": &**slot.door(),
        "component": &**slot.component(),
        "state": health.as_str(),
        "rests_ms": match health {
            Health::Well => None,
            Health::Rests { pause, .. } | Health::Failed { pause, .. } => {
                Some(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
            }
        },
        "version": active.number,
        "identity": &*active.source.identity(),
        "previous": slot.previous().map(|previous| previous.source.identity().to_string()),
        "probation": slot.is_on_probation(),
        "connections": connections.len(),
        "behind": connections.iter().filter(|one| one.version.load(Relaxed) != active.number).count(),
        "opened": figures.opened.load(Relaxed),
        "refused": figures.refused.load(Relaxed),
        "units_in": figures.units_in.load(Relaxed),
        "units_out": figures.units_out.load(Relaxed),
        "calls": figures.calls.count(),
        "codec_ms": figures.calls.total().as_secs_f64() * 1e3,
        "call_us_p50": micros(figures.calls.quantile(0.5)),
        "call_us_p99": micros(figures.calls.quantile(0.99)),
        "traps": figures.traps.load(Relaxed),
        "faults": figures.faults.load(Relaxed),
        "frames_waiting": sum(|one| one.waiting.load(Relaxed)),
        "unwritten_bytes": sum(|one| one.unwritten.load(Relaxed)),
        "pending": sum(|one| one.pending.load(Relaxed)),
        "memory_bytes": sum(|one| one.memory.load(Relaxed)),
        "swaps": figures.swaps.load(Relaxed),
        "rollbacks": figures.rollbacks.load(Relaxed),
        "pause_us_p50": micros(figures.pauses.quantile(0.5)),
        "pause_us_p99": micros(figures.pauses.quantile(0.99)),
        "history": swaps,
    })
}

/// The row of a swap.
pub fn swap(swapped: &Swapped) -> Value {
    json!({
        "at": swapped.at,
        "cause": swapped.cause.as_str(),
        "version": swapped.version,
        "from": &*swapped.from,
        "to": &*swapped.to,
        "moved": swapped.moved.load(Relaxed),
        "stayed": swapped.stayed.load(Relaxed),
        "lost": swapped.lost.load(Relaxed),
    })
}

/// The rows of a door's connections.
pub fn connections(slot: &Slot) -> Vec<Value> {
    slot.connections().iter().map(|connection| one(slot, connection)).collect()
}

fn one(slot: &Slot, connection: &Arc<ConnectionFigures>) -> Value {
    json!({
        "connection": connection.id.0,
        "door": &**slot.door(),
        "component": &**slot.component(),
        "version": connection.version.load(Relaxed),
        "identity": &*connection.identity(),
        "peer": connection.peer,
        "opened": connection.opened,
        "units_in": connection.units_in.load(Relaxed),
        "units_out": connection.units_out.load(Relaxed),
        "frames_waiting": connection.waiting.load(Relaxed),
        "unwritten_bytes": connection.unwritten.load(Relaxed),
        "pending": connection.pending.load(Relaxed),
        "memory_bytes": connection.memory.load(Relaxed),
    })
}

fn micros(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
