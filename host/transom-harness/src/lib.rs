//! The agent loop as machines: sessions, inbox, turns, steps (`agent-loop.md`). Events in, effects out.
//! No clock, no I/O, no thread: `transom-io` performs the effects, `transom-router` speaks to doors.

pub mod agent;
pub mod audit;
pub mod block;
pub mod catalogue;
pub mod chance;
pub mod chunk;
pub mod event;
pub mod header;
pub mod hooks;
pub mod image;
pub mod inbox;
pub mod jobs;
pub mod log;
pub mod message;
pub mod permissions;
pub mod ports;
pub mod restore;
pub mod retry;
pub mod subagents;
pub mod system_prompt;
mod title;
pub mod vocabulary;

use serde::Serialize;

/// JSON text of a value of ours. Such values have string keys and finite numbers, so it cannot fail;
/// were one to fail, `null` would stand in the log, where every reader refuses it.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}
