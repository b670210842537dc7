//! The SDK door: newline-delimited JSON-RPC with programs that own an agent runtime, as the frames of the host.
//! Pure computation; carriers, sessions and the loop are the host's. `README.md` says what is spoken and refused.

mod conversation;
mod message;
mod options;
mod state;
mod translate;

#[cfg(test)]
mod tests;

pub use crate::conversation::Conversation;

use transom_guest::json;

transom_guest::export!(Conversation);
