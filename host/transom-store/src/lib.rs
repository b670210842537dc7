//! The durable log: sessions, their events and attachments in one SQLite file, committed in groups
//! (L-73, L-82, decisions 1 and 2), and the canonical export of a session.
//! What an event means, who may see it and when it is released belong to the harness and the router.
//!
//! # Durable before visible
//!
//! [`SqliteStore::append`](transom_harness::ports::Store::append) queues and returns. One thread owns the
//! writing connection: whenever it is idle it takes everything that waits, stores it in one transaction
//! and reports to the sink how far it came. With [`Durability::Process`] a killed process loses nothing
//! that was reported; with [`Durability::Power`] a machine that loses power does not either.
//!
//! # After a failure
//!
//! A batch that cannot be stored is dropped whole and reported as one `Failed`. The stored end of each
//! session stays where it was, and an event is only ever stored exactly at that end, so whatever else of
//! those sessions is still on its way fails too, with `append seq mismatch for …`, until the host has
//! dropped its suffix and goes on at the stored end. Sessions that had no event in the failed batch notice
//! nothing. Reports stay in the order of the events' numbers: `Through(n)` says that everything up to `n`
//! is durable apart from what was reported as failed.

mod claims;
mod file;
mod header;
mod queue;
mod reader;
mod schema;
mod sqlite;
mod writer;

pub use reader::{Attachment, Reader, open_read_only};
pub use sqlite::{ATTACHMENT_BYTES_MAX, Durability, SqliteStore};

#[cfg(test)]
mod tests;
