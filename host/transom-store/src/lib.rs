//! The durable log behind the port `Store`: sessions, their events and attachments, committed in groups (L-73,
//! L-82, decisions 1 and 2), and the canonical export of a session. There are two stores: [`SqliteStore`] keeps all
//! of it in one file, [`JsonlStore`] keeps a log of JSON lines for each session.
//! What an event means, who may see it and when it is released belong to the harness and the router.
//!
//! # Durable before visible
//!
//! [`append`](transom_harness::ports::Store::append) queues and returns. One thread owns the writing: whenever it is
//! idle it takes everything that waits, stores it and reports to the sink how far it came. With
//! [`Durability::Process`] a killed process loses nothing that was reported; with [`Durability::Power`] a machine
//! that loses power does not either.
//!
//! # After a failure
//!
//! What cannot be stored is dropped and reported as `Failed`: in [`SqliteStore`] the batch as a whole, in
//! [`JsonlStore`] the batch's events of the session whose log failed, and nobody else's. The stored end of each
//! session stays where it was, and an event is only ever stored exactly at that end, so whatever else of those
//! sessions is still on its way fails too, with `append seq mismatch for …`, until the host has dropped its suffix
//! and goes on at the stored end. Sessions of which nothing failed notice nothing. Reports stay in the order of the
//! events' numbers: `Through(n)` says that everything up to `n` is durable apart from what was reported as failed.

mod attachment;
mod canonical;
mod claims;
mod committing;
mod file;
mod jsonl;
mod queue;
mod reader;
mod schema;
mod sqlite;
mod writer;

pub use attachment::ATTACHMENT_BYTES_MAX;
pub use jsonl::{JsonlOptions, JsonlReader, JsonlStore};
pub use reader::{Reader, SqliteReader, open_read_only};
pub use sqlite::{Durability, SqliteStore};

#[cfg(test)]
mod tests;
