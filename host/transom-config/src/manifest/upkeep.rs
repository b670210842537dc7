//! The tables `[control]`, `[metrics]`, `[probation]` and `[recovery]`: how a running host is reached, watched and kept
//! well. What follows from the numbers is up to the program.

// An address, no socket: `core` has it without one.
use core::net::SocketAddr;
use std::path::PathBuf;

use toml::de::DeTable;

use super::check;
use crate::reader::{Node, Reader};

/// Codec calls of a new version that are watched: each way of a conversation is walked a few times in this many.
pub const PROBATION_CALLS: u64 = 64;

/// Connections that a new version may fail before the old one comes back. One fault may be the peer's doing.
pub const PROBATION_FAULTS: u64 = 3;

/// Seconds for which a new version is watched.
pub const PROBATION_SECONDS: u64 = 30;

/// Crashes of a component within [`CRASH_SECONDS`] that make a loop.
pub const CRASHES: u64 = 5;

/// Seconds within which crashes are counted.
pub const CRASH_SECONDS: u64 = 60;

/// The longest wait before a component that crashes in a loop is tried again. Longer, and an operator who has mended the
/// cause would wonder what is still wrong.
pub const BACKOFF_MS_MAX: u64 = 30_000;

/// Past this, a version is never proven.
pub(super) const PROBATION_CALLS_MOST: u64 = 1_000_000;
/// As many connections as a door has by default, and some.
pub(super) const PROBATION_FAULTS_MOST: u64 = 10_000;
/// More crashes than this within any time are one loop.
pub(super) const CRASHES_MOST: u64 = 10_000;
/// A day: whoever waits longer looks in between.
pub(super) const SECONDS_MOST: u64 = 86_400;
/// Shorter, and waiting would be spinning.
pub(super) const BACKOFF_MS_LEAST: u64 = 100;
/// An hour.
pub(super) const BACKOFF_MS_MOST: u64 = 3_600_000;

/// `[control]`: where a running host is asked and told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// The unix socket. `None`: `control.sock` in the state directory, unless it is off.
    pub listen: Option<PathBuf>,
    /// There is none.
    pub off: bool,
}

/// `[metrics]`: where figures are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// A loopback address; port 0 takes a free one. `None`: figures are not offered.
    pub listen: Option<SocketAddr>,
}

/// `[probation]`: how long a new version of a component is watched, and when the old one comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probation {
    /// Codec calls for which the new version is watched.
    pub calls: u64,
    /// Connections that end by its fault and bring the old one back.
    pub faults: u64,
    /// Seconds for which it is watched.
    pub seconds: u64,
}

impl Default for Probation {
    fn default() -> Probation {
        Probation { calls: PROBATION_CALLS, faults: PROBATION_FAULTS, seconds: PROBATION_SECONDS }
    }
}

/// `[recovery]`: when crashes of a component are a loop, and how long it then waits at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Crashes within `seconds` that make a loop.
    pub crashes: u64,
    /// The time in which crashes are counted.
    pub seconds: u64,
    /// The longest wait before the next attempt.
    pub backoff_ms_max: u64,
}

impl Default for Recovery {
    fn default() -> Recovery {
        Recovery { crashes: CRASHES, seconds: CRASH_SECONDS, backoff_ms_max: BACKOFF_MS_MAX }
    }
}

fn table<'n, 't>(
    reader: &mut Reader<'_>,
    node: Option<&'n Node<'t>>,
    title: &str,
) -> Option<&'n DeTable<'t>> {
    node.and_then(|node| reader.any_table(node, title))
}

pub(super) fn control(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Control {
    let Some(table) = table(reader, node, "control") else { return Control::default() };
    let off = reader.boolean(table, "off").unwrap_or_default();
    let at = |key: &str| table.get(key).map(|node| node.span().start);
    let Some((listen, listen_at)) = reader.path(table, "listen").zip(at("listen")) else {
        return Control { listen: None, off };
    };
    check::socket_path(reader, listen_at, &listen);
    if !off {
        return Control { listen: Some(listen), off };
    }
    // A later file that says `off` leaves behind where an earlier one listened.
    if !at("off").is_some_and(|off_at| reader.sources.is_above(off_at, listen_at)) {
        let message = "`listen` names a socket that `off` forbids; leave one of them out";
        reader.complain(listen_at, message.to_owned());
    }
    Control { listen: None, off }
}

pub(super) fn metrics(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Metrics {
    let listen = table(reader, node, "metrics").and_then(|table| {
        let node = table.get("listen")?;
        let text = reader.text_of(node, "listen")?;
        let message = match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => return Some(address),
            Ok(address) => format!(
                "`listen` is {text:?}, which others than this machine could reach; write a loopback address, such as `127.0.0.1:{}`",
                address.port()
            ),
            Err(_) => format!(
                "`listen` is {text:?}; it must be a loopback address with a port, such as `127.0.0.1:9464`"
            ),
        };
        reader.complain(node.span().start, message);
        None
    });
    Metrics { listen }
}

pub(super) fn probation(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Probation {
    let mut probation = Probation::default();
    if let Some(table) = table(reader, node, "probation") {
        set(reader, table, "calls", &mut probation.calls);
        set(reader, table, "faults", &mut probation.faults);
        set(reader, table, "seconds", &mut probation.seconds);
    }
    probation
}

pub(super) fn recovery(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Recovery {
    let mut recovery = Recovery::default();
    if let Some(table) = table(reader, node, "recovery") {
        set(reader, table, "crashes", &mut recovery.crashes);
        set(reader, table, "seconds", &mut recovery.seconds);
        set(reader, table, "backoff-ms-max", &mut recovery.backoff_ms_max);
    }
    recovery
}

fn set(reader: &Reader<'_>, table: &DeTable<'_>, key: &str, number: &mut u64) {
    if let Some(found) = reader.count(table, key) {
        *number = found;
    }
}
