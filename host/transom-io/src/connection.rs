//! The driver of one line-framed connection: the only loop that waits for its peer, the host, its
//! deadline and the end, and hands each to the connection's machine.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::{Instrument as _, Span, debug, error, field::Empty, info, info_span, trace, warn};
use transom_connection::{
    Connection, Effect, Event, Level, ReplaceError,
    codec::{CodecError, Farewell, Vacant},
    line_bounds,
};
use transom_frame::Frame;
use transom_framing::{Lines, encode_line};
use transom_policy::Policy;

use crate::{
    agents::{Attached, Host, epoch_ms},
    door::{OpenDoor, PeerFacts},
    slot::{Leftovers, Prepared, Seat, Standing, Swapped, is_crash},
};

/// Bytes read in one go. A prompt of ordinary size comes whole; more only helps images.
const READ_BYTES: usize = 64 * 1024;

/// From the end of input, or from the host's wish to stop, to the last answer (design §4).
const TEARDOWN: Duration = Duration::from_millis(900);

/// How long what a connection owned may take to end before the host stops waiting (design §4).
const HARD_STOP: Duration = Duration::from_secs(5);

/// Frames from the host handled before the wire gets its turn.
const FRAMES_PER_TURN: usize = 128;

/// How a connection came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// As the codec gave it; may be shown to people.
    pub reason: String,
    /// The connection could not go on.
    pub failed: bool,
    /// What could not be brought to an end, one message each.
    pub failures: Vec<String>,
    /// What the connection owned did not end in time.
    pub stuck: bool,
}

/// Serves one peer until its connection is over and everything that it owned has ended.
///
/// `stop` turning true asks the codec for an orderly end.
pub async fn serve<R, W>(
    host: &Host,
    door: &OpenDoor,
    peer: &PeerFacts,
    reader: R,
    writer: W,
    stop: watch::Receiver<bool>,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let attach = |policy: &Policy| host.attach(door.facts(policy, peer));
    let span = span_of(door);
    one(attach, door, peer, (reader, writer), stop, TEARDOWN).instrument(span).await
}

/// Serves a peer that this host itself has called, over `wire`: at the host's end is whoever has asked for it, and what
/// is not written `teardown` after the wish to end is not written.
pub(crate) async fn serve_apart<R, W>(
    attached: Attached,
    door: &OpenDoor,
    peer: &PeerFacts,
    wire: (R, W),
    stop: watch::Receiver<bool>,
    teardown: Duration,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    one(|_: &Policy| attached, door, peer, wire, stop, teardown).instrument(span_of(door)).await
}

fn span_of(door: &OpenDoor) -> Span {
    info_span!(
        "transom.connection",
        door = %door.name,
        component = %door.slot.component(),
        version = Empty,
        connection = Empty,
    )
}

async fn one<R, W>(
    attach: impl FnOnce(&Policy) -> Attached,
    door: &OpenDoor,
    peer: &PeerFacts,
    (reader, writer): (R, W),
    stop: watch::Receiver<bool>,
    teardown: Duration,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    // On a line carrier the refusal is the end of output (decision 56).
    let refused = |reason: &str| Ended {
        reason: reason.to_owned(),
        failed: true,
        failures: Vec::new(),
        stuck: false,
    };
    if let Err(rests) = door.slot.admit() {
        // The pause itself was said; a peer that tries without end must not fill the log.
        debug!(door = %door.name, %rests, "connection refused");
        return refused("the door rests");
    }
    let seed = uuid::Uuid::new_v4().as_u64_pair();
    let setup = door.setup(peer, seed, epoch_ms());
    let standing = door.slot.standing();
    let serving = &standing.serving;
    let mut effects = Vec::new();
    let connection = match Connection::open(&mut effects, serving.as_ref().clone(), setup) {
        Ok(connection) => connection,
        Err(error) => {
            error!(door = %door.name, component = %serving.source.identity(), %error, "connection refused");
            door.slot.harmed(serving.number, 0, &error);
            return refused("the door could not open a connection");
        }
    };
    let attached = attach(&serving.policy);
    Span::current().record("connection", attached.id.0).record("version", serving.number);
    let seat = door.slot.seat(attached.id, &peer.peer, &standing);
    let mut driver = Driver {
        door,
        connection,
        seat,
        number: serving.number,
        calls: 0,
        changes: standing.changes,
        turn: standing.turn,
        drains: standing.drains,
        preparing: None,
        attached,
        started: Instant::now(),
        lines: Lines::new(line_bounds(&serving.policy.limits)),
        unwritten: BytesMut::new(),
        deadline: None,
        give_up: None,
        teardown,
        reading: true,
        ended: false,
        broken: false,
        close: None,
    };
    info!(door = %door.name, connection = %driver.attached.id, peer = %peer.peer, "connected");
    // A version that is held on to would live for as long as the connection.
    drop(standing);
    driver.perform(&mut effects);
    // Nobody was told to look at what changed before it had its seat.
    if driver.seat.slot.changes() != driver.changes && driver.close.is_none() {
        driver.told();
    }
    driver.run(reader, writer, stop).await;

    let Driver { attached, close, seat, connection, .. } = driver;
    drop((seat, connection));
    let id = attached.id;
    let left = timeout(HARD_STOP, attached.leave()).await;
    let stuck = left.is_err();
    let failures = left.unwrap_or_default();
    let Close { reason, failed } = close.unwrap_or(Close { reason: String::new(), failed: false });
    info!(door = %door.name, connection = %id, reason, failed, stuck, "disconnected");
    Ended { reason, failed, failures, stuck }
}

struct Driver<'a> {
    door: &'a OpenDoor,
    connection: Connection,
    seat: Seat,
    /// Of the version that serves the connection.
    number: u64,
    /// Inputs that it has heard.
    calls: u64,
    /// The last change of the slot that was heard of.
    changes: u64,
    /// The last move that was tried.
    turn: u64,
    /// The last time that everybody was asked to end.
    drains: u64,
    /// The instance that it is to move to is being made.
    preparing: Option<Preparing>,
    attached: Attached,
    started: Instant,
    lines: Lines,
    unwritten: BytesMut,
    deadline: Option<Instant>,
    /// When the codec's time for an orderly end is over.
    give_up: Option<Instant>,
    /// How long that is.
    teardown: Duration,
    reading: bool,
    /// The peer sends no more.
    ended: bool,
    /// Nothing can be written any more.
    broken: bool,
    close: Option<Close>,
}

/// An instance for the move of this turn.
struct Preparing {
    turn: u64,
    prepared: oneshot::Receiver<Prepared>,
    /// When it moves without.
    until: Instant,
}

struct Close {
    reason: String,
    failed: bool,
}

impl Driver<'_> {
    async fn run<R, W>(&mut self, mut reader: R, mut writer: W, mut stop: watch::Receiver<bool>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut input = BytesMut::with_capacity(READ_BYTES);
        let mut frames = Vec::new();
        let mut stopping = false;
        loop {
            if self.close.is_some() && self.unwritten.is_empty() {
                // The peer may be gone already; there is nobody left to tell.
                let _ = timeout(TEARDOWN, writer.flush()).await;
                let _ = timeout(TEARDOWN, writer.shutdown()).await;
                return;
            }
            let closing = self.close.is_some();
            tokio::select! {
                biased;
                () = at(self.give_up) => {
                    warn!(door = %self.door.name, connection = %self.attached.id, "teardown cut off");
                    return self.give_up_because("the teardown took too long");
                }
                written = writer.write(&self.unwritten), if !self.unwritten.is_empty() => {
                    self.written(written);
                }
                () = told_to_stop(&mut stop), if !stopping => {
                    stopping = true;
                    self.limit_teardown();
                    self.handle(Event::Drain(Farewell::Shutdown));
                }
                // Before frames and input, which may never cease.
                () = self.seat.nudge.notified(), if !closing => self.told(),
                vacant = prepared(&mut self.preparing), if !closing => self.move_into(vacant),
                count = self.attached.frames.recv_many(&mut frames, FRAMES_PER_TURN), if !closing => {
                    if count == 0 {
                        // Nothing that the peer asks can be answered any more.
                        return self.give_up_because("the host is gone");
                    }
                    self.frames(&mut frames);
                }
                read = reader.read_buf(&mut input), if self.reading && !self.ended && !closing => {
                    self.read(read, &mut input);
                }
                () = at(self.deadline), if !closing => {
                    self.deadline = None;
                    self.handle(Event::Deadline);
                }
            }
        }
    }

    fn give_up_because(&mut self, reason: &str) {
        self.close.get_or_insert(Close { reason: reason.to_owned(), failed: true });
    }

    /// Looks whether the slot wants something that has given way for long enough: whoever talks does not wait to be told.
    fn look(&mut self) {
        if self.seat.slot.changes() != self.changes && self.close.is_none() {
            let standing = self.seat.slot.standing();
            if Instant::now().into_std() >= standing.gives_way_until {
                self.preparing = None;
                self.follow(&standing, None);
            }
        }
    }

    /// Has its turn. Where it is to move, it goes on until the instance for it is there.
    fn told(&mut self) {
        let standing = self.seat.slot.standing();
        let moves = standing.turn != self.turn && standing.serving.number != self.number;
        if moves && Instant::now().into_std() < standing.gives_way_until {
            let prepared = self.seat.slot.prepare(&standing.serving);
            let until = standing.gives_way_until.into();
            self.preparing = Some(Preparing { turn: standing.turn, prepared, until });
        } else {
            self.follow(&standing, None);
        }
    }

    /// Moves to an instance that was made for it.
    fn move_into(&mut self, (turn, vacant): (u64, Option<Box<dyn Vacant>>)) {
        let standing = self.seat.slot.standing();
        if standing.turn == turn {
            self.follow(&standing, vacant);
        } else {
            // Another version has come in between.
            self.told();
        }
    }

    /// Does what the slot wants: between two calls, like every turn of the loop.
    fn follow(&mut self, standing: &Standing, vacant: Option<Box<dyn Vacant>>) {
        self.changes = standing.changes;
        if standing.turn != self.turn {
            self.turn = standing.turn;
            if standing.serving.number != self.number
                && let Some(swapped) = &standing.swapped
            {
                self.move_to(standing, swapped, vacant);
            }
        }
        if standing.drains != self.drains {
            self.drains = standing.drains;
            self.handle(Event::Drain(Farewell::Replaced));
        }
        self.seat.heard(standing.changes);
    }

    fn move_to(&mut self, standing: &Standing, swapped: &Swapped, vacant: Option<Box<dyn Vacant>>) {
        let begun = Instant::now();
        let mut effects = Vec::new();
        let successor = standing.serving.as_ref().clone();
        let moved = self.connection.replace(&mut effects, successor, vacant);
        self.seat.slot.figures().pauses.record(begun.elapsed());
        let moved = moved.map(|before| self.seat.slot.discard(before));
        let count = match &moved {
            Ok(()) => &swapped.moved,
            Err(ReplaceError::Refused(_)) => &swapped.stayed,
            Err(ReplaceError::Suspend(_) | ReplaceError::Closed) => &swapped.lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.perform(&mut effects);
        self.served_by();
        let Err(ReplaceError::Refused(error)) = moved else { return };
        warn!(
            door = %self.door.name,
            connection = %self.attached.id,
            component = %standing.serving.source.identity(),
            %error,
            "connection not moved",
        );
        // A version may refuse a state; only one that fails at it does harm.
        if is_crash(&error) {
            self.seat.slot.harmed(standing.serving.number, 0, &error);
        }
        // Where that has already brought the one before back, nobody has to go.
        let goes_on = self.seat.slot.standing().turn == standing.turn;
        match standing.leftovers {
            Leftovers::Drain if goes_on => self.handle(Event::Drain(Farewell::Replaced)),
            Leftovers::Drain | Leftovers::Stay => {}
        }
    }

    /// Looks whether another version serves now.
    fn served_by(&mut self) {
        let Some(number) = self.connection.number().filter(|number| *number != self.number) else {
            return;
        };
        self.number = number;
        Span::current().record("version", number);
        self.calls = 0;
        let identity = self.connection.identity().unwrap_or_default();
        self.seat.figures.served_by(number, identity);
    }

    fn frames(&mut self, frames: &mut Vec<Frame>) {
        let count = frames.len();
        for frame in frames.drain(..) {
            let body = self.door.redactor.body(frame.body.as_bytes());
            trace!(connection = %self.attached.id, frame = %frame.name, %body, "frame to the codec");
            self.handle(Event::Frame(frame));
        }
        self.attached.handled(count);
    }

    fn read(&mut self, read: std::io::Result<usize>, input: &mut BytesMut) {
        let mut cuts = Vec::new();
        match read {
            Ok(0) => {
                cuts.extend(self.lines.finish());
                self.ended = true;
            }
            Ok(_) => {
                self.lines.push(&mut cuts, input);
                input.clear();
            }
            Err(error) => {
                debug!(connection = %self.attached.id, %error, "reading failed");
                self.ended = true;
            }
        }
        for cut in cuts {
            self.handle(cut.into());
        }
        if self.ended {
            self.limit_teardown();
            self.handle(Event::End { broken: None });
        }
    }

    fn written(&mut self, written: std::io::Result<usize>) {
        match written {
            Ok(bytes) if bytes > 0 => self.unwritten.advance(bytes),
            Ok(_) => self.output_broke("nothing more can be written"),
            Err(error) => self.output_broke(&error.to_string()),
        }
        self.tell_unwritten();
    }

    /// Nobody reads any more: like the end of input (S-36).
    fn output_broke(&mut self, why: &str) {
        self.broken = true;
        self.ended = true;
        self.unwritten.clear();
        self.limit_teardown();
        self.handle(Event::End { broken: Some(why.to_owned()) });
    }

    fn limit_teardown(&mut self) {
        self.give_up.get_or_insert(Instant::now() + self.teardown);
    }

    fn handle(&mut self, event: Event) {
        let mut effects = Vec::new();
        let now = self.now();
        if let Event::Unwritten(_) = event {
            // The codec does not hear of it.
            self.connection.handle(&mut effects, now, event);
            return self.perform(&mut effects);
        }
        let figures = self.seat.slot.figures();
        if let Event::Unit { bytes, .. } = &event {
            let body = self.door.redactor.body(bytes);
            trace!(connection = %self.attached.id, bytes = bytes.len(), %body, "unit from the peer");
            figures.units_in.fetch_add(1, Ordering::Relaxed);
            self.seat.figures.units_in.fetch_add(1, Ordering::Relaxed);
        }
        self.calls += 1;
        let begun = Instant::now();
        self.connection.handle(&mut effects, now, event);
        figures.calls.record(begun.elapsed());
        self.perform(&mut effects);
        let seen = &self.seat.figures;
        seen.memory.store(self.connection.memory_bytes(), Ordering::Relaxed);
        seen.pending.store(self.connection.pending() as u64, Ordering::Relaxed);
        seen.waiting.store(self.attached.frames.len() as u64, Ordering::Relaxed);
        self.served_by();
        self.look();
    }

    fn perform(&mut self, effects: &mut Vec<Effect>) {
        let before = self.unwritten.len();
        for effect in effects.drain(..) {
            match effect {
                Effect::Write(unit) => self.write(&unit),
                Effect::Frame(frame) => {
                    let body = self.door.redactor.body(frame.body.as_bytes());
                    trace!(connection = %self.attached.id, frame = %frame.name, %body, "frame from the codec");
                    self.attached.send(frame);
                }
                Effect::Deadline(at) => {
                    self.deadline = at.map(|at| self.started + Duration::from_millis(at));
                }
                Effect::Reading(reading) => self.reading = reading,
                Effect::Notices(flowing) => self.attached.rest(!flowing),
                Effect::Close { reason, failed, code: _ } => {
                    self.close = Some(Close { reason, failed });
                    // A peer that reads nothing would otherwise keep what is over.
                    self.limit_teardown();
                }
                // A line carrier has one direction to end, and `Close` ends it.
                Effect::EndOutput => {}
                Effect::AbortOutput => self.unwritten.clear(),
                Effect::Log { level, name, json } => self.log(level, &name, &json),
                Effect::Faulted { number, identity, error } => {
                    self.faulted(number, &error);
                    error!(
                        door = %self.door.name,
                        connection = %self.attached.id,
                        component = %identity,
                        %error,
                        "codec failed",
                    );
                }
            }
        }
        if self.unwritten.len() != before {
            self.tell_unwritten();
        }
    }

    fn faulted(&self, number: u64, error: &CodecError) {
        let calls = if number == self.number { self.calls } else { 0 };
        self.seat.slot.harmed(number, calls, error);
    }

    fn write(&mut self, unit: &[u8]) {
        if self.broken {
            return;
        }
        let body = self.door.redactor.body(unit);
        trace!(connection = %self.attached.id, bytes = unit.len(), %body, "unit to the peer");
        self.seat.slot.figures().units_out.fetch_add(1, Ordering::Relaxed);
        self.seat.figures.units_out.fetch_add(1, Ordering::Relaxed);
        let mut line = Vec::with_capacity(unit.len() + 1);
        match encode_line(&mut line, unit) {
            Ok(()) => self.unwritten.extend_from_slice(&line),
            Err(error) => error!(door = %self.door.name, %error, "unit dropped"),
        }
    }

    /// What a change of the unwritten bytes leads to is performed like everything else; it writes nothing, so this
    /// comes to rest.
    fn tell_unwritten(&mut self) {
        self.seat.figures.unwritten.store(self.unwritten.len() as u64, Ordering::Relaxed);
        self.handle(Event::Unwritten(self.unwritten.len() as u64));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn log(&self, level: Level, event: &str, fields: &str) {
        let (door, connection) = (&self.door.name, self.attached.id);
        let fields = self.door.redactor.note(fields);
        match level {
            Level::Debug => debug!(%door, %connection, fields, "{event}"),
            Level::Info => info!(%door, %connection, fields, "{event}"),
            Level::Warn => warn!(%door, %connection, fields, "{event}"),
            Level::Error => error!(%door, %connection, fields, "{event}"),
        }
    }
}

/// Waits until then; for ever when there is no then.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits for the instance that is being made, for ever when none is. Gives the turn that it is for, and no instance where none
/// could be made in time: the move itself makes one, or says why it cannot.
async fn prepared(preparing: &mut Option<Preparing>) -> (u64, Option<Box<dyn Vacant>>) {
    let Some(Preparing { turn, prepared, until }) = preparing else {
        return std::future::pending().await;
    };
    let (turn, prepared) = (*turn, timeout_at(*until, prepared).await);
    *preparing = None;
    (turn, prepared.ok().and_then(Result::ok).and_then(Result::ok).flatten())
}

/// Returns once `stop` is true, or nobody is left who could make it so.
pub(crate) async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    // The answer borrows the channel, so it must not live on in whoever waits.
    drop(stop.wait_for(|stop| *stop).await);
}
