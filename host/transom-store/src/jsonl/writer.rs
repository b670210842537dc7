//! A batch on its way into logs: each session's events are stored together, or none of them, and what
//! fails for one session fails for no other. Who waits and for how long is `queue.rs`.

use std::{collections::HashMap, fs::File, path::PathBuf, sync::Arc};

use transom_frame::SessionId;
use transom_harness::ports::Append;

use super::{
    frames,
    layout::{self, Encoding},
    line::{self, HeaderLine, Row},
    log::{self, Live},
    pack,
    sessions::{End, Sessions},
};
use crate::{
    Durability, canonical,
    committing::{Outcome, Storing, Verdict, misplaced},
    queue::{Batch, Queued},
};

/// Logs that stay open until they are on the disk. A batch that touches more waits for those before.
const UNSYNCED_MAX: usize = 64;

pub(crate) struct Writer {
    sessions: Arc<Sessions>,
    is_packed: bool,
    durability: Durability,
    /// Written, but perhaps not on the disk.
    unsynced: Vec<(PathBuf, File)>,
    /// Events of this batch still count as waiting.
    is_storing: bool,
}

impl Writer {
    pub(crate) fn new(sessions: Arc<Sessions>, is_packed: bool, durability: Durability) -> Writer {
        Writer { sessions, is_packed, durability, unsynced: Vec::new(), is_storing: false }
    }

    /// Stores what a batch has of one session.
    fn store_session(&mut self, id: &SessionId, queued: &[&Queued]) -> Vec<Verdict> {
        let all = |message: String| vec![Verdict::Failed(message); queued.len()];
        // A session that nobody has claimed is claimed with its first event: its log has one writer.
        match self.sessions.hold(id) {
            Ok(true) => {}
            Ok(false) => return all(format!("session \"{id}\" is live in another process")),
            Err(error) => return all(format!("cannot store events: {error}")),
        }
        let end = self.sessions.end(id);
        let mut next = end.as_ref().map_or(0, |end| end.reached.events);
        let mut fitting: Vec<&Append> = Vec::new();
        let mut verdicts = Vec::with_capacity(queued.len());
        for queued in queued {
            let append = &queued.append;
            let wrong = queued
                .refused
                .map(str::to_owned)
                .or_else(|| misplaced(queued, next > 0, next))
                .or_else(|| unreadable(append));
            verdicts.push(match wrong {
                Some(message) => Verdict::Failed(message),
                None => {
                    next += 1;
                    fitting.push(append);
                    Verdict::Stored
                }
            });
        }
        if let Err(error) = self.write(id, end, &fitting) {
            tracing::error!(session = %id, events = fitting.len(), error, "events were not stored");
            let message = format!("cannot store events: {error}");
            for verdict in verdicts.iter_mut().filter(|verdict| **verdict == Verdict::Stored) {
                *verdict = Verdict::Failed(message.clone());
            }
        }
        verdicts
    }

    /// Adds events to a session's log, which is made if there is none. On an error none of them is there.
    fn write(
        &mut self,
        id: &SessionId,
        end: Option<End>,
        events: &[&Append],
    ) -> Result<(), String> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(()) };
        let lines = pack::lines(events, self.is_packed);
        let bytes = self.encode(&lines)?;
        match end {
            Some(end) => self.append(id, &end, &bytes)?,
            None => {
                let (path, header) = self.begin(id, first)?;
                let mut whole = self.encode(format!("{}\n", header.text).as_bytes())?;
                let live = Live::begun(&path, header, whole.len() as u64);
                whole.extend_from_slice(&bytes);
                log::create(&self.sessions.root, &path, &whole)
                    .map_err(|error| format!("cannot make the session log {path:?}: {error}"))?;
                self.sessions.store(live);
            }
        }
        let rows = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.sessions.change(id, |live| {
            live.advance(bytes.len() as u64, rows, events.len() as u64, last.time);
        });
        Ok(())
    }

    fn append(&mut self, id: &SessionId, end: &End, bytes: &[u8]) -> Result<(), String> {
        let End { path, reached, is_unclean } = end;
        let is_synced = self.durability == Durability::Power;
        match log::append(path, reached.offset, *is_unclean, bytes, is_synced) {
            Ok(file) => {
                self.sessions.change(id, |live| live.is_unclean = false);
                if !is_synced {
                    self.sync_later(path, file);
                }
                Ok(())
            }
            Err(unwritten) => {
                self.sessions.change(id, |live| live.is_unclean = unwritten.is_unclean);
                Err(unwritten.error.to_string())
            }
        }
    }

    /// Where a new session's log will be, and its first line.
    fn begin(&self, id: &SessionId, first: &Append) -> Result<(PathBuf, HeaderLine), String> {
        let line = canonical::header(&first.header)
            .ok_or_else(|| format!("the header of session \"{id}\" is not a JSON object"))?;
        let header = line::header(&line)?;
        if header.id != *id {
            return Err(format!("the header of session \"{id}\" names session \"{}\"", header.id));
        }
        let Sessions { root, encoding, .. } = &*self.sessions;
        let path = layout::place(root, *encoding, header.cwd.as_deref(), id)
            .map_err(|error| error.to_string())?;
        Ok((path, header))
    }

    fn encode(&self, lines: &[u8]) -> Result<Vec<u8>, String> {
        match self.sessions.encoding {
            Encoding::Plain => Ok(lines.to_vec()),
            Encoding::Zstd => frames::encode(lines).map_err(|error| error.to_string()),
        }
    }

    /// Before anybody hears of the batch: a session that is given back then is free at once.
    fn stop_waiting(&mut self, batch: &Batch) {
        self.is_storing = false;
        self.sessions.settle(batch.events.iter().map(|queued| &queued.append));
    }

    fn sync_later(&mut self, path: &std::path::Path, file: File) {
        if self.unsynced.len() >= UNSYNCED_MAX {
            self.sync();
        }
        self.unsynced.push((path.to_owned(), file));
    }

    fn sync(&mut self) {
        for (path, file) in self.unsynced.drain(..) {
            if let Err(error) = file.sync_data() {
                tracing::error!(%error, log = %path.display(), "a power loss may take events that are stored");
            }
        }
    }
}

impl Storing for Writer {
    fn store(&mut self, batch: &mut Batch) -> Vec<Verdict> {
        self.is_storing = true;
        let events = &batch.events;
        // Which events of the batch are whose, in the order in which sessions first appear.
        let mut order: Vec<(&SessionId, Vec<usize>)> = Vec::new();
        let mut known: HashMap<&SessionId, usize> = HashMap::new();
        for (index, queued) in events.iter().enumerate() {
            let session = &queued.append.session;
            let at = *known.entry(session).or_insert_with(|| {
                order.push((session, Vec::new()));
                order.len() - 1
            });
            if let Some((_, indexes)) = order.get_mut(at) {
                indexes.push(index);
            }
        }
        let unseen = Verdict::Failed("the store failed inside".to_owned());
        let mut verdicts = vec![unseen; events.len()];
        for (session, indexes) in order {
            let queued: Vec<&Queued> =
                indexes.iter().filter_map(|index| events.get(*index)).collect();
            let given = self.store_session(session, &queued);
            for (index, verdict) in indexes.into_iter().zip(given) {
                if let Some(place) = verdicts.get_mut(index) {
                    *place = verdict;
                }
            }
        }
        self.stop_waiting(batch);
        verdicts
    }

    fn settle(&mut self, batch: &Batch, outcome: Outcome) {
        // With `Durability::Process` nobody waits for the disk, but never more than one batch is on its way to it.
        self.sync();
        if outcome == Outcome::Panicked {
            for queued in &batch.events {
                self.sessions.change(&queued.append.session, |live| live.is_unclean = true);
            }
        }
        if self.is_storing {
            self.stop_waiting(batch);
        }
    }
}

/// What is wrong with an event that could not be read back.
fn unreadable(append: &Append) -> Option<String> {
    let text = canonical::one_line(&append.text);
    let is_as_said = matches!(
        Row::parse(&text),
        Some(Row::Event { kind, seq, time, .. })
            if kind == *append.kind && seq == append.seq && time == append.time
    );
    (!is_as_said).then(|| {
        format!(
            "the text of event {} of session \"{}\" is not the envelope of a \"{}\" with that seq and the time {}",
            append.seq, append.session, append.kind, append.time
        )
    })
}
