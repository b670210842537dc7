//! The conformance checklist of the SDK door (sdk.md §15), one test for each row that a server has to meet, against
//! the real binary. C-46 to C-48 drive published clients and stand in `tests/peers`;
//! C-49 to C-52 need a client of our own; C-56 is a unit test of the component.

mod delegation;
mod ending;
mod framing;
mod handshake;
mod prompts;
mod start;

use serde_json::{Value, json};

use crate::support::{client::Client, process::Process};

/// Asks for something that does not exist: whatever was said before has been dealt with when its answer comes.
fn probe(client: &mut Client<Process>) -> Value {
    client.ask("probe", "probe", json!({}));
    client.next()
}

/// The answer to `probe`.
fn probed() -> Value {
    unknown("probe", "probe")
}

fn unknown(id: impl Into<Value>, method: &str) -> Value {
    let message = format!("unknown DeepSeek Harness SDK runtime method: {method}");
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": -32603, "message": message}})
}
