//! The ACP door: newline-delimited JSON-RPC with editors and programs that drive an agent, as the frames of the host.
//! Pure computation; carriers, sessions and the loop are the host's. `README.md` says what is spoken and refused.

mod choices;
mod content;
mod conversation;
mod cursor;
mod desk;
mod ending;
mod message;
mod openings;
mod options;
mod output;
mod params;
mod permission;
mod prompts;
mod servers;
mod slot;
mod standard;
mod state;
mod translate;

#[cfg(test)]
mod tests;

pub use crate::conversation::Conversation;

transom_guest::export!(Conversation);
