//! The ACP child backend's wire: this host is the client, and the peer an agent in a process that the host has started.
//! Pure computation; the process, its environment and its end are the host's. `README.md` says what is spoken and refused.

mod answer;
mod conversation;
mod failure;
mod message;
mod options;
mod permission;
mod state;
mod translate;

#[cfg(test)]
mod tests;

pub use crate::conversation::Conversation;

transom_guest::export!(Conversation);
