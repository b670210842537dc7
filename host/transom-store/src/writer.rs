//! A batch on its way into the database: all that waited is stored in one transaction.
//! Who takes it from the queue and reports is `committing.rs`.

use std::{collections::HashMap, mem, path::PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use transom_frame::SessionId;
use transom_harness::ports::{Append, Commit, Sink, StoreError};

use crate::{
    committing::{self, Outcome, Storing, Verdict, misplaced},
    file,
    queue::{Batch, Keep, Queue, Queued},
};

/// Stored ends kept in memory. Past it they are forgotten and read again: an end is one indexed lookup.
const ENDS_MAX: usize = 16_384;

pub(crate) struct Writer {
    connection: Connection,
    ends: Ends,
    /// A new store that is not on the disk yet.
    unsynced: Option<PathBuf>,
}

/// Where sessions' stored logs end, as far as this process knows.
#[derive(Default)]
struct Ends {
    known: HashMap<SessionId, End>,
    /// Changes when another process has stored something: it may have had a session in between.
    data_version: i64,
}

/// Where a session's stored log ends.
#[derive(Clone, Copy)]
struct End {
    /// `None`: not stored yet; its first event materialises it (L-73).
    key: Option<i64>,
    next: u64,
}

impl Writer {
    pub(crate) fn new(connection: Connection, unsynced: Option<PathBuf>) -> Writer {
        Writer { connection, ends: Ends::default(), unsynced }
    }

    /// Stores until the queue is closed and empty, then closes the connection.
    pub(crate) fn run(mut self, queue: &Queue, sink: &Sink<Commit>) -> Result<(), StoreError> {
        if let Some(path) = self.unsynced.take()
            && let Err(error) = file::sync(&path)
        {
            tracing::warn!(%error, path = %path.display(), "a power loss may take the new store");
        }
        committing::drive(queue, sink, &mut self);
        let cut = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = cut {
            tracing::warn!(%error, "the store's write-ahead log stays behind; the next open takes it in");
        }
        self.connection
            .close()
            .map_err(|(_, error)| StoreError::Io(format!("cannot close the store: {error}")))
    }
}

impl Storing for Writer {
    fn store(&mut self, batch: &mut Batch) -> Vec<Verdict> {
        if self.ends.known.len() > ENDS_MAX {
            self.ends.known.clear();
        }
        let attachments = mem::take(&mut batch.attachments);
        let events = &batch.events;
        match write(&mut self.connection, &mut self.ends, events, &attachments) {
            Ok(verdicts) => {
                for Keep { done, .. } in attachments {
                    // Nobody waits any more: the bytes are kept all the same.
                    let _ = done.send(Ok(()));
                }
                verdicts
            }
            Err(error) => {
                let message = format!("cannot store events: {error}");
                tracing::error!(%error, events = events.len(), "a batch was not stored");
                for Keep { done, .. } in attachments {
                    let _ = done
                        .send(Err(StoreError::Io(format!("cannot keep the attachment: {error}"))));
                }
                for queued in events {
                    // The transaction is gone, and with it whatever these ends say.
                    self.ends.known.remove(&queued.append.session);
                }
                vec![Verdict::Failed(message); events.len()]
            }
        }
    }

    fn settle(&mut self, _: &Batch, outcome: Outcome) {
        if outcome == Outcome::Panicked {
            self.ends.known.clear();
        }
    }
}

/// Stores a batch in one transaction: on an error nothing of it is there.
///
/// An event that does not continue exactly at its session's end is left out and keeps nobody else
/// from being stored.
fn write(
    connection: &mut Connection,
    ends: &mut Ends,
    events: &[Queued],
    attachments: &[Keep],
) -> rusqlite::Result<Vec<Verdict>> {
    // Taken at once: a transaction that starts by reading and then wants to write does not wait its turn.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let data_version = transaction.pragma_query_value(None, "data_version", |row| row.get(0))?;
    if data_version != ends.data_version {
        *ends = Ends { known: HashMap::new(), data_version };
    }
    let mut verdicts = Vec::with_capacity(events.len());
    // The last stored event of each session touched.
    let mut touched: HashMap<i64, &Append> = HashMap::new();

    for keep in attachments {
        insert_attachment(&transaction, keep)?;
    }
    for queued in events {
        let Queued { append, refused, .. } = queued;
        if let Some(why) = refused {
            verdicts.push(Verdict::Failed((*why).to_owned()));
            continue;
        }
        let end = match ends.known.get_mut(&append.session) {
            Some(end) => end,
            None => {
                let end = read_end(&transaction, &append.session)?;
                ends.known.entry(append.session.clone()).or_insert(end)
            }
        };
        if let Some(message) = misplaced(queued, end.key.is_some(), end.next) {
            verdicts.push(Verdict::Failed(message));
            continue;
        }
        let key = match end.key {
            Some(key) => key,
            None => insert_session(&transaction, append)?,
        };
        insert_event(&transaction, key, append)?;
        *end = End { key: Some(key), next: end.next + 1 };
        touched.insert(key, append);
        verdicts.push(Verdict::Stored);
    }
    for (key, last) in touched {
        transaction
            .prepare_cached("UPDATE sessions SET events = ?2, updated_at = ?3 WHERE key = ?1")?
            .execute(params![key, last.seq + 1, last.time])?;
    }
    transaction.commit()?;
    Ok(verdicts)
}

fn read_end(transaction: &Transaction<'_>, id: &SessionId) -> rusqlite::Result<End> {
    let stored = transaction
        .prepare_cached("SELECT key, events FROM sessions WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok(End { key: Some(row.get(0)?), next: row.get(1)? }))
        .optional()?;
    Ok(stored.unwrap_or(End { key: None, next: 0 }))
}

fn insert_session(transaction: &Transaction<'_>, first: &Append) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO sessions (id, header, events, created_at, updated_at) VALUES (?1, ?2, 0, ?3, ?3)",
        )?
        .insert(params![first.session.as_str(), &*first.header, first.time])
}

fn insert_event(transaction: &Transaction<'_>, key: i64, append: &Append) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO events (session, seq, type, time, text) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, append.seq, &*append.kind, append.time, &*append.text])?;
    Ok(())
}

/// The name is the digest of the bytes, so a second copy can only add what was not known of them.
fn insert_attachment(transaction: &Transaction<'_>, keep: &Keep) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO attachments (name, media_type, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET media_type = coalesce(media_type, excluded.media_type)",
        )?
        .execute(params![keep.name, keep.media_type, keep.bytes])?;
    Ok(())
}
