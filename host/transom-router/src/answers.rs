//! What becomes of a request once the driver has answered the question behind it.

use std::sync::Arc;

use transom_frame::{Code, ConnectionId, Failure, Frame, SessionId};
use transom_harness::{
    header::Header,
    ports::{StoreError, StoredSession},
};

use crate::{
    Answer, AskId, Claimed, Effect, RunId,
    directory::Look,
    forks::Forking,
    images::{Images, Intake},
    openings::{Born, exists, live_elsewhere},
    peer::Asked,
    request::{List, Want},
    revivals::unreadable,
    router::{Router, not_found},
    row::{self, Checked, Listing, Row},
};

/// Events in one answer to `session/read`.
pub(crate) const READ_EVENTS_MAX: u64 = 1000;
/// Bytes of events in one answer, and of those read at once for a slow peer. A long prompt may have more, and then it
/// comes alone.
pub(crate) const READ_BYTES_MAX: u64 = 4 << 20;

/// Who asked, and for what.
#[derive(Debug)]
pub(crate) enum Pending {
    Open(SessionId),
    /// The whole log of a session that is to be continued.
    Restore(SessionId, StoredSession),
    /// The directory of a session that is being opened.
    Workspace(SessionId, Box<Born>),
    Delegate(RunId),
    /// A child that its parent wants back.
    ReviveClaim(SessionId),
    /// Its whole log.
    ReviveRead(SessionId, StoredSession),
    ForkRead(Forking),
    ForkClaim(Forking, Vec<Arc<str>>),
    /// The directory of a fork.
    ForkWorkspace(Forking, Box<Born>),
    /// The directory that a stored session is gone on with in is compared with its own.
    Place(SessionId, StoredSession),
    Check(Asked),
    Catalogue(Asked),
    List(Asked, List),
    /// Rows that may be in another directory than the one that is asked for.
    Places(Asked, List, Vec<Row>),
    /// A page whose titles are looked up.
    Titles(Asked, Listing),
    Read {
        asked: Asked,
        last_seq: i64,
    },
    Directory(SessionId, Look),
    /// Whether the model that a prompt with images is for takes any.
    Sight(SessionId, Box<Intake>),
    /// The images of a prompt are being kept.
    Keep(SessionId, Box<Intake>),
    Attachment(Asked),
    /// A slow peer's cursor reads on.
    CatchUp {
        connection: ConnectionId,
        session: SessionId,
    },
}

impl Router {
    pub(crate) fn answered(&mut self, out: &mut Vec<Effect>, now: u64, ask: AskId, answer: Answer) {
        let Some(pending) = self.pending.remove(&ask) else { return };
        match (pending, answer) {
            (Pending::Open(id), Answer::Claimed(claimed)) => self.claimed(out, now, &id, claimed),
            (Pending::Restore(id, stored), Answer::Events(events)) => {
                self.restore(out, now, &id, &stored, events);
            }
            (Pending::Workspace(id, born), Answer::Directory(found)) => {
                self.workspace_looked_at(out, now, &id, *born, found);
            }
            (Pending::Delegate(run), Answer::Claimed(claimed)) => {
                self.delegation_claimed(out, now, run, claimed);
            }
            (Pending::ReviveClaim(child), Answer::Claimed(claimed)) => {
                self.revival_claimed(out, child, claimed);
            }
            (Pending::ReviveRead(child, stored), Answer::Events(events)) => {
                self.revival_read(out, now, child, &stored, events);
            }
            (Pending::ForkRead(forking), Answer::Events(events)) => {
                self.fork_read(out, forking, events);
            }
            (Pending::ForkClaim(forking, events), Answer::Claimed(claimed)) => {
                self.fork_claimed(out, now, forking, &events, claimed);
            }
            (Pending::ForkWorkspace(forking, born), Answer::Directory(found)) => {
                self.fork_looked_at(out, forking, *born, found);
            }
            (Pending::Check(asked), Answer::Served(served)) => match served {
                Ok(mut served) => {
                    // Without a store for them no prompt may have any.
                    served.images &= self.host.images != Images::Refused;
                    self.give(
                        out,
                        asked.connection,
                        Frame::reply(&asked.frame, None, row::text(&Checked::from(served))),
                    );
                }
                Err(failure) => self.refuse(out, &asked, &failure),
            },
            (Pending::Catalogue(asked), Answer::Catalogue(catalogue)) => {
                let body = row::text(&catalogue);
                self.give(out, asked.connection, Frame::reply(&asked.frame, None, body));
            }
            (Pending::List(asked, list), Answer::Listed(stored)) => match stored {
                Ok(stored) => self.list(out, asked, list, stored),
                Err(error) => self.refuse(out, &asked, &store_failed(&error)),
            },
            (Pending::Places(asked, list, rows), Answer::Same(same)) => {
                self.placed(out, asked, &list, rows, &same);
            }
            (Pending::Titles(asked, listing), Answer::Titles(titles)) => {
                self.titled(out, &asked, listing, titles);
            }
            (Pending::Place(id, stored), Answer::Same(same)) => {
                self.place_compared(out, &id, stored, &same);
            }
            (Pending::Read { asked, last_seq }, Answer::Events(events)) => match events {
                Ok(events) => {
                    // As they are stored: numbers may be such that no `Value` holds them.
                    let events = events.join(",");
                    let body = format!(r#"{{"lastSeq":{last_seq},"events":[{events}]}}"#);
                    self.give(out, asked.connection, Frame::reply(&asked.frame, None, body));
                }
                Err(error) => self.refuse(out, &asked, &store_failed(&error)),
            },
            (Pending::Directory(session, look), Answer::Directory(found)) => {
                self.directory_looked_at(out, now, &session, look, found);
            }
            (Pending::Sight(session, intake), Answer::Served(served)) => {
                self.sight_known(out, now, &session, *intake, served);
            }
            (Pending::Keep(session, intake), Answer::Kept(kept)) => {
                self.taken_in(out, now, &session, *intake, kept);
            }
            (Pending::Attachment(asked), Answer::Attachment(found)) => match found {
                Ok(body) => {
                    self.give(out, asked.connection, Frame::reply(&asked.frame, None, body));
                }
                Err(failure) => self.refuse(out, &asked, &failure),
            },
            (Pending::CatchUp { connection, session }, Answer::Events(events)) => {
                self.caught_up(out, connection, &session, events);
            }
            // A bug of the driver's. Whoever waits is told, so that every request has an answer.
            (pending, _) => self.unexpected(out, now, pending),
        }
        self.finish_ending(out);
    }

    fn unexpected(&mut self, out: &mut Vec<Effect>, now: u64, pending: Pending) {
        let failure =
            Failure::new(Code::Unexpected, "the host answered a question that nobody had asked");
        match pending {
            Pending::Open(id)
            | Pending::Restore(id, _)
            | Pending::Place(id, _)
            | Pending::Workspace(id, _) => {
                self.fail_opening(out, &id, &failure);
            }
            Pending::Delegate(run) => {
                self.delegation_claimed(out, now, run, Err(StoreError::Io(failure.message)));
            }
            Pending::ReviveClaim(child) | Pending::ReviveRead(child, _) => {
                let refused = unreadable(&child, &StoreError::Io(failure.message));
                self.fail_revival(out, &child, &refused);
            }
            Pending::ForkRead(forking) => self.refuse(out, &forking.asked, &failure),
            Pending::ForkClaim(forking, _) | Pending::ForkWorkspace(forking, _) => {
                self.fail_fork(out, &forking, &failure);
            }
            Pending::Check(asked)
            | Pending::Catalogue(asked)
            | Pending::List(asked, _)
            | Pending::Places(asked, ..)
            | Pending::Titles(asked, _)
            | Pending::Attachment(asked)
            | Pending::Read { asked, .. } => {
                self.refuse(out, &asked, &failure);
            }
            Pending::Sight(session, intake) | Pending::Keep(session, intake) => {
                self.taken_in(out, now, &session, *intake, Err(failure));
            }
            Pending::Directory(session, look) => {
                self.refuse(out, &look.asked, &failure);
                self.begin_waiting(out, now, &session, look.life);
            }
            Pending::CatchUp { connection, session } => {
                self.caught_up(out, connection, &session, Err(StoreError::Io(failure.message)));
            }
        }
    }

    fn claimed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        claimed: Result<Claimed, StoreError>,
    ) {
        let Some(want) = self.opening.get(id).map(|opening| opening.open.want) else { return };
        let failure = match (want, claimed) {
            (_, Err(error)) => store_failed(&error),
            (Want::New | Want::Any, Ok(Claimed::Here(None))) => return self.create(out, now, id),
            (Want::New, Ok(Claimed::Here(Some(_)) | Claimed::Elsewhere)) => exists(id),
            (Want::Stored, Ok(Claimed::Here(None))) => not_found(id),
            (Want::Stored | Want::Any, Ok(Claimed::Elsewhere)) => live_elsewhere(id),
            (Want::Stored | Want::Any, Ok(Claimed::Here(Some(stored)))) => {
                return self.go_on(out, id, stored);
            }
        };
        self.fail_opening(out, id, &failure);
    }

    fn restore(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        stored: &StoredSession,
        events: Result<Vec<Arc<str>>, StoreError>,
    ) {
        let restored = match events {
            Err(error) => Err(store_failed(&error)),
            Ok(events) if events.len() as u64 != stored.events => {
                let text = format!(
                    "corrupt session log: {} events of session \"{id}\" are there where {} should be",
                    events.len(),
                    stored.events
                );
                Err(Failure::new(Code::NotResumable, text))
            }
            Ok(events) => Header::parse(&stored.header)
                .map_err(|text| Failure::new(Code::NotResumable, text))
                .map(|header| (header, events)),
        };
        match restored {
            Ok((header, events)) => self.resume(out, now, id, header, &events),
            Err(failure) => self.fail_opening(out, id, &failure),
        }
    }

    /// Answers everybody who waits for an opening that came to nothing (S-122).
    pub(crate) fn fail_opening(
        &mut self,
        out: &mut Vec<Effect>,
        id: &SessionId,
        failure: &Failure,
    ) {
        let Some(opening) = self.opening.remove(id) else { return };
        out.push(Effect::Release { session: id.clone() });
        let connection = opening.asked.connection;
        self.refuse(out, &opening.asked, failure);
        for (asked, _) in opening.waiting {
            self.refuse(out, &asked, failure);
        }
        self.finish_teardown(out, connection);
    }

    fn caught_up(
        &mut self,
        out: &mut Vec<Effect>,
        connection: ConnectionId,
        session: &SessionId,
        events: Result<Vec<Arc<str>>, StoreError>,
    ) {
        let Some(peer) = self.peers.get(&connection) else { return };
        if peer.closing {
            return self.with_peer(out, connection, |peer| peer.caught_up(session, 0));
        }
        let events = match events {
            Ok(events) => events,
            // The cursor cannot go on: the peer is let go rather than shown a gap.
            Err(_) => {
                let frame = peer.lagged_frame();
                self.with_peer(out, connection, |peer| peer.stop_showing());
                return out.push(Effect::Deliver { connection, frame });
            }
        };
        let delivered = events.len() as u64;
        for text in events {
            let frame = Frame::notice("session/event", Some(session.clone()), text);
            out.push(Effect::Deliver { connection, frame });
        }
        self.with_peer(out, connection, |peer| peer.caught_up(session, delivered));
    }
}

pub(crate) fn store_failed(error: &StoreError) -> Failure {
    Failure::new(Code::StoreFailed, error.to_string())
}
