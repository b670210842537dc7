//! Figures for those who scrape: the text format of Prometheus over HTTP, at an address of this machine. One page, one request
//! for each connection. What of a request is looked at is in `metrics/request.rs`.

mod request;

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tracing::warn;

use self::request::Asked;
use crate::{
    connection::told_to_stop,
    slot::{ConnectionFigures, Health, Histogram, SCRAPED_BITS, Slot},
};

/// Bytes of a request's head. Scrapers send some hundred.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Scrapers at a time. When another one comes, the one that has waited longest to ask is let go.
const SCRAPERS_MAX: usize = 8;

/// How long one may take to ask. Whoever connects has its request ready.
const ASKING_MAX: Duration = Duration::from_secs(2);

/// How long one may take to read its answer.
const READING_MAX: Duration = Duration::from_secs(10);

/// As for every carrier: without it, a failing `accept` is a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address at which figures are offered.
#[derive(Debug)]
pub struct Metrics {
    listener: TcpListener,
    asking_max: Duration,
}

impl Metrics {
    /// Takes the address.
    pub async fn bind(address: SocketAddr) -> io::Result<Metrics> {
        let listener = TcpListener::bind(address).await?;
        Ok(Metrics { listener, asking_max: ASKING_MAX })
    }

    /// Where it is, if the system chose the port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` turns true.
    pub async fn serve(self, slots: Vec<Arc<Slot>>, mut stop: watch::Receiver<bool>) {
        let slots: Arc<[Arc<Slot>]> = slots.into();
        let mut scrapers = JoinSet::new();
        let mut places = VecDeque::new();
        loop {
            tokio::select! {
                () = told_to_stop(&mut stop) => return,
                accepted = self.listener.accept(), if has_room(&mut places) => match accepted {
                    Ok((stream, _)) => {
                        let (slots, has_asked) = (Arc::clone(&slots), Arc::default());
                        let asked = Arc::clone(&has_asked);
                        let asking_max = self.asking_max;
                        // Who does not get an answer asks again; nobody here needs to know.
                        let scraper = scrapers.spawn(async move {
                            drop(one(stream, &slots, asking_max, &asked).await);
                        });
                        make_room(&mut places);
                        places.push_back(Place { scraper, has_asked });
                    }
                    Err(error) => {
                        warn!(%error, "accepting a scraper failed");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = scrapers.join_next(), if !scrapers.is_empty() => {}
            }
        }
    }
}

/// A scraper that is served.
struct Place {
    scraper: AbortHandle,
    has_asked: Arc<AtomicBool>,
}

/// Whether another one can be served: there is a place, or somebody is in it who has not asked for anything.
fn has_room(places: &mut VecDeque<Place>) -> bool {
    places.retain(|place| !place.scraper.is_finished());
    places.len() < SCRAPERS_MAX || places.iter().any(|place| !place.has_asked.load(Relaxed))
}

/// Lets the one go that has been silent longest, where there are too many.
fn make_room(places: &mut VecDeque<Place>) {
    if places.len() < SCRAPERS_MAX {
        return;
    }
    let silent = places.iter().position(|place| !place.has_asked.load(Relaxed));
    if let Some(silent) = silent.and_then(|at| places.remove(at)) {
        silent.scraper.abort();
    }
}

async fn one(
    mut stream: TcpStream,
    slots: &[Arc<Slot>],
    asking_max: Duration,
    has_asked: &AtomicBool,
) -> io::Result<()> {
    let Ok(head) = timeout(asking_max, head(&mut stream)).await else { return Ok(()) };
    let Some(head) = head? else { return Ok(()) };
    has_asked.store(true, Relaxed);
    let (status, body) = match request::read(&head) {
        Asked::Figures => ("200 OK", text(slots)),
        Asked::Elsewhere => ("404 Not Found", "figures are at /metrics\n".to_owned()),
        Asked::OtherMethod => ("405 Method Not Allowed", "figures are read with GET\n".to_owned()),
        Asked::OfAnother => (
            "421 Misdirected Request",
            "figures are for this machine; ask for localhost or a loopback address\n".to_owned(),
        ),
    };
    let told = timeout(READING_MAX, answer(&mut stream, status, &body)).await;
    told.unwrap_or(Ok(()))
}

/// A request up to its empty line; `None` if it does not come to that.
async fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.0 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

type Figure = (&'static str, &'static str, &'static str, fn(&Slot) -> u64);

fn sum(slot: &Slot, of: fn(&ConnectionFigures) -> u64) -> u64 {
    slot.connections().iter().map(|connection| of(connection)).sum()
}

/// Name, kind, meaning, value.
const FIGURES: &[Figure] = &[
    ("transom_connections", "gauge", "Connections of now.", |slot| slot.connections().len() as u64),
    (
        "transom_connections_behind",
        "gauge",
        "Connections that another than the active version serves.",
        |slot| {
            let active = slot.active().number;
            slot.connections().iter().filter(|one| one.version.load(Relaxed) != active).count()
                as u64
        },
    ),
    ("transom_memory_bytes", "gauge", "Memory of all instances.", |slot| {
        sum(slot, |one| one.memory.load(Relaxed))
    }),
    ("transom_unwritten_bytes", "gauge", "Bytes for peers that are not written yet.", |slot| {
        sum(slot, |one| one.unwritten.load(Relaxed))
    }),
    ("transom_frames_waiting", "gauge", "Frames that codecs have not heard yet.", |slot| {
        sum(slot, |one| one.waiting.load(Relaxed))
    }),
    ("transom_requests_pending", "gauge", "Requests without an answer.", |slot| {
        sum(slot, |one| one.pending.load(Relaxed))
    }),
    ("transom_version", "gauge", "Number of the active version.", |slot| slot.active().number),
    ("transom_door_state", "gauge", "0: serving, 1: resting after crashes, 2: failed.", |slot| {
        match slot.health() {
            Health::Well => 0,
            Health::Rests { .. } => 1,
            Health::Failed { .. } => 2,
        }
    }),
    ("transom_connections_opened_total", "counter", "Connections that were opened.", |slot| {
        slot.figures().opened.load(Relaxed)
    }),
    (
        "transom_connections_refused_total",
        "counter",
        "Connections that were refused while the door rested.",
        |slot| slot.figures().refused.load(Relaxed),
    ),
    ("transom_units_in_total", "counter", "Units from peers.", |slot| {
        slot.figures().units_in.load(Relaxed)
    }),
    ("transom_units_out_total", "counter", "Units to peers.", |slot| {
        slot.figures().units_out.load(Relaxed)
    }),
    ("transom_traps_total", "counter", "Times that the component failed.", |slot| {
        slot.figures().traps.load(Relaxed)
    }),
    (
        "transom_faults_total",
        "counter",
        "Connections that the codec gave up because of their peer.",
        |slot| slot.figures().faults.load(Relaxed),
    ),
    ("transom_swaps_total", "counter", "Swaps.", |slot| slot.figures().swaps.load(Relaxed)),
    ("transom_rollbacks_total", "counter", "Versions that failed their probation.", |slot| {
        slot.figures().rollbacks.load(Relaxed)
    }),
];

type Durations = (&'static str, &'static str, fn(&Slot) -> &Histogram);

const DURATIONS: &[Durations] = &[
    ("transom_codec_call_seconds", "How long the codec worked for each input.", |slot| {
        &slot.figures().calls
    }),
    (
        "transom_swap_pause_seconds",
        "How long a connection stood still while it was moved.",
        |slot| &slot.figures().pauses,
    ),
];

fn text(slots: &[Arc<Slot>]) -> String {
    let mut out = String::new();
    for (name, kind, help, value) in FIGURES {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for slot in slots {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(slot), value(slot));
        }
    }
    for (name, help, histogram) in DURATIONS {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for slot in slots {
            let (labels, histogram) = (labels(slot), histogram(slot));
            // Counted before the sum of all, so that no bucket ever exceeds it.
            let below = SCRAPED_BITS.map(|bits| histogram.below(bits));
            for (bits, count) in SCRAPED_BITS.iter().zip(below) {
                let bound = Duration::from_nanos(1 << bits).as_secs_f64();
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let count = histogram.count();
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", histogram.total().as_secs_f64());
            let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
        }
    }
    out
}

/// Names of doors and components hold nothing that would have to be escaped.
fn labels(slot: &Slot) -> String {
    format!("door=\"{}\",component=\"{}\"", slot.door(), slot.component())
}

#[cfg(test)]
mod tests;
