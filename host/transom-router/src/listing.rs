//! `session/list`: rows of live and stored sessions, filtered, in pages, with their titles (B-120, A-117); and
//! `models/list` with its notice (B-132). What a row says is `row.rs`'s.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use transom_frame::{Failure, Frame};
use transom_harness::ports::{StoreError, StoredSession};

use crate::{
    Effect, Question, Reach,
    answers::{Pending, store_failed},
    peer::Asked,
    request::{List, Order, Topic},
    router::Router,
    row::{self, Listing, Row},
};

/// Rows in one answer to `session/list`.
const LIST_ROWS_MAX: usize = 200;

impl Router {
    pub(crate) fn list(
        &mut self,
        out: &mut Vec<Effect>,
        asked: Asked,
        list: List,
        stored: Vec<StoredSession>,
    ) {
        let Some(peer) = self.peers.get(&asked.connection) else { return };
        let reach_all = peer.facts.reach == Reach::All;
        let mut rows: Vec<Row> = Vec::new();
        if list.live != Some(false) {
            let live = self.sessions.values();
            let mine = live.filter(|session| reach_all || session.owner == Some(asked.connection));
            rows.extend(mine.filter(|session| session.announced).map(Row::live));
        }
        if list.stored != Some(false) && peer.facts.sees_stored {
            let is_live = |id| self.sessions.get(id).is_some_and(|session| session.announced);
            let resting = stored.iter().filter(|stored| !is_live(&stored.id));
            rows.extend(resting.map(Row::stored));
        }
        if list.roots {
            rows.retain(Row::is_root);
        }
        let Some(path) = list.cwd.clone() else { return self.page(out, asked, &list, rows) };
        let others: BTreeSet<_> = rows.iter().filter_map(|row| row.cwd.clone()).collect();
        self.ask(out, Question::Same { path, others }, Pending::Places(asked, list, rows));
    }

    /// It is known which rows are in the directory that is asked for.
    pub(crate) fn placed(
        &mut self,
        out: &mut Vec<Effect>,
        asked: Asked,
        list: &List,
        mut rows: Vec<Row>,
        same: &BTreeSet<String>,
    ) {
        rows.retain(|row| row.cwd.as_ref().is_some_and(|cwd| same.contains(cwd)));
        self.page(out, asked, list, rows);
    }

    fn page(&mut self, out: &mut Vec<Effect>, asked: Asked, list: &List, mut rows: Vec<Row>) {
        let time = |row: &Row| match list.order {
            Order::Updated => row.updated_at,
            Order::Created => row.created_at,
        };
        // Newest first; the id makes the order total, so that a cursor means one place.
        rows.sort_by(|a, b| time(b).cmp(&time(a)).then_with(|| a.session_id.cmp(&b.session_id)));
        let limit = list.limit.unwrap_or(LIST_ROWS_MAX).clamp(1, LIST_ROWS_MAX);
        let mut rest = match list.cursor.as_deref().map(position) {
            None => rows,
            Some(Some((last, id))) => {
                let is_behind =
                    |row: &Row| time(row) < last || time(row) == last && *row.session_id > *id;
                let start = rows.partition_point(|row| !is_behind(row));
                rows.split_off(start)
            }
            Some(None) => {
                let cursor = list.cursor.as_deref().unwrap_or_default();
                let issue = format!("cursor \"{cursor}\" must be <time>:<session id>");
                return self.refuse(out, &asked, &Failure::invalid(&[&issue]));
            }
        };
        let more = rest.len() > limit;
        rest.truncate(limit);
        let cursor = rest.last().filter(|_| more);
        let cursor = cursor.map(|row| format!("{}:{}", time(row), row.session_id));
        let sessions = rest.iter().map(|row| row.session_id.as_str().into()).collect();
        let listing = Listing { items: rest, cursor };
        self.ask(out, Question::Titles(sessions), Pending::Titles(asked, listing));
    }

    /// The last title event of each row is known.
    pub(crate) fn titled(
        &mut self,
        out: &mut Vec<Effect>,
        asked: &Asked,
        mut listing: Listing,
        titles: Result<Vec<Option<Arc<str>>>, StoreError>,
    ) {
        let titles = match titles {
            Ok(titles) => titles,
            Err(error) => return self.refuse(out, asked, &store_failed(&error)),
        };
        for (row, event) in listing.items.iter_mut().zip(titles) {
            let event = event.and_then(|event| serde_json::from_str::<Value>(&event).ok());
            let title = event.as_ref().and_then(|event| event.pointer("/data/title"));
            row.title = title.and_then(Value::as_str).map(str::to_owned);
        }
        let body = row::text(&listing);
        self.give(out, asked.connection, Frame::reply(&asked.frame, None, body));
    }

    pub(crate) fn list_models(&mut self, out: &mut Vec<Effect>, asked: Asked) {
        let Some(peer) = self.peers.get(&asked.connection) else { return };
        let door = Arc::clone(&peer.facts.door);
        self.ask(out, Question::Catalogue { door }, Pending::Catalogue(asked));
    }

    /// What there is to choose from may be something else now.
    pub(crate) fn tell_of_models(&mut self, out: &mut Vec<Effect>) {
        let watch = |topics: &[Topic]| topics.contains(&Topic::Models);
        let told: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, peer)| {
                !peer.closing && peer.subscriptions.iter().any(|to| watch(&to.topics))
            })
            .map(|(connection, _)| *connection)
            .collect();
        for connection in told {
            self.give(out, connection, Frame::notice("models/changed", None, "{}"));
        }
    }
}

/// Where a list goes on.
fn position(cursor: &str) -> Option<(u64, &str)> {
    let (time, id) = cursor.split_once(':')?;
    Some((time.parse().ok()?, id))
}
