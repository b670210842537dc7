//! Every bound that a policy sets, with its default and the reason for it.
//! Each is applied elsewhere: on units by `transom-framing`, on calls by `transom-sandbox`, on requests and unwritten
//! output by `transom-connection`, on connections by `transom-io`, on live notices and sessions by the router.

use crate::keys::{Key, Kind, Literal, Table};

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;

/// The longest unit. The SDK's published clients send images of up to this size within one line (S-9, B-76).
pub const UNIT_BYTES_MAX: u64 = 160 * MIB;

/// The deepest nesting. Remote promises 256 levels of a value and wraps them in levels of its own, twice that
/// leaves room for both (decision 55).
pub const NESTING_MAX: u64 = 512;

/// The most outputs of one codec call. The baseline of a subscription becomes a few units for each live session, all
/// in one call: this allows six for each of [`SESSIONS_MAX`].
pub const OUTPUTS_PER_CALL_MAX: u64 = 65_536;

/// How many output bytes of one call each byte of the longest unit may become, where a policy does not name
/// `output-bytes-per-call-max`. Text that is put into JSON again doubles when every character needs a backslash.
pub const OUTPUT_BYTES_PER_UNIT_BYTE: u64 = 2;

/// Output bytes that are allowed on top of that, for what a codec says of its own accord.
pub const OUTPUT_BYTES_BASE: u64 = 16 * MIB;

/// How many times the longest unit a component's memory holds, where a policy does not name `memory-bytes-max`: the
/// bytes as they arrived, their text, the frame, and the old block while the last of them grows (decision 54).
pub const MEMORY_BYTES_PER_UNIT_BYTE: u64 = 4;

/// Memory that is allowed on top of that: code, tables and the state of a long conversation. Idle connections use 61 KiB.
pub const MEMORY_BYTES_BASE: u64 = 32 * MIB;

/// The most that 32 bits can address.
pub const MEMORY_BYTES_CEILING: u64 = 4096 * MIB;

/// The time of a codec call on a small unit. Such calls take microseconds; this forgives a machine on which the
/// thread waits for its turn, and still ends an endless loop before anybody else on the thread gives up.
pub const CALL_MS_BASE: u64 = 500;

/// The time that each MiB of the unit adds. Parsing takes about 2 ms; this is fifty times as much.
pub const CALL_MS_PER_MIB: u64 = 100;

/// The longest time of a call that a policy may ask for. A call holds its thread, so a minute is long.
pub const CALL_MS_CEILING: u64 = 60_000;

/// The most requests of one connection that wait for their answer, in each direction. Prompts are answered as soon
/// as they are durable, so this many wait only where a peer waits for as many sessions at once.
pub const PENDING_REQUESTS_MAX: u64 = 1024;

/// Unwritten bytes at which a connection's subscriptions rest. A peer that reads is never that far behind: a pipe
/// holds 64 KiB, and a streamed answer comes at some KiB a second.
pub const UNWRITTEN_BYTES_REST: u64 = MIB;

/// Unwritten bytes at which reading rests too. Only answers still come in between, so a peer that reaches this asks
/// without ever reading, and every further question would cost memory (decision 21).
pub const UNWRITTEN_BYTES_STOP: u64 = 16 * MIB;

/// The most live notices that wait while subscriptions rest. A turn makes about ten of some 250 bytes: this is the
/// silence of 800 turns, in 2 MiB.
pub const LIVE_NOTICES_MAX: u64 = 8192;

/// The most connections of a door at once: a thousand clients of one host, with some to spare for those that reconnect.
pub const CONNECTIONS_MAX: u64 = 1100;

/// The most live sessions opened through a door. Wires promise no count (S-124), so this only stops a runaway
/// client, long before memory does (decision 58).
pub const SESSIONS_MAX: u64 = 10_000;

/// The bounds of a door and of the component behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one unit.
    pub unit_bytes_max: u64,
    /// Arrays and objects open at one place of a unit.
    pub nesting_max: u64,
    /// Outputs of one codec call.
    pub outputs_per_call_max: u64,
    /// Bytes of all outputs of one codec call.
    pub output_bytes_per_call_max: u64,
    /// Bytes of all linear memories of one instance together.
    pub memory_bytes_max: u64,
    /// Milliseconds of any codec call.
    pub call_ms_base: u64,
    /// Milliseconds that each MiB of the call's input adds.
    pub call_ms_per_mib: u64,
    /// Requests of one connection without their answer, in each direction.
    pub pending_requests_max: u64,
    /// Unwritten bytes at which subscriptions rest.
    pub unwritten_bytes_rest: u64,
    /// Unwritten bytes at which reading rests too. Never below `unwritten_bytes_rest`.
    pub unwritten_bytes_stop: u64,
    /// Live notices that wait while subscriptions rest.
    pub live_notices_max: u64,
    /// Connections of the door.
    pub connections_max: u64,
    /// Live sessions that were opened through the door.
    pub sessions_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            unit_bytes_max: UNIT_BYTES_MAX,
            nesting_max: NESTING_MAX,
            outputs_per_call_max: OUTPUTS_PER_CALL_MAX,
            output_bytes_per_call_max: output_bytes_for(UNIT_BYTES_MAX),
            memory_bytes_max: memory_bytes_for(UNIT_BYTES_MAX),
            call_ms_base: CALL_MS_BASE,
            call_ms_per_mib: CALL_MS_PER_MIB,
            pending_requests_max: PENDING_REQUESTS_MAX,
            unwritten_bytes_rest: UNWRITTEN_BYTES_REST,
            unwritten_bytes_stop: UNWRITTEN_BYTES_STOP,
            live_notices_max: LIVE_NOTICES_MAX,
            connections_max: CONNECTIONS_MAX,
            sessions_max: SESSIONS_MAX,
        }
    }
}

impl Limits {
    /// The time budget of a codec call whose input has this many bytes.
    pub fn call_ms(&self, input_bytes: u64) -> u64 {
        let rate = u128::from(self.call_ms_per_mib) * u128::from(input_bytes) / u128::from(MIB);
        self.call_ms_base.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The output bytes of one call that go with units of this length.
pub(crate) const fn output_bytes_for(unit_bytes_max: u64) -> u64 {
    unit_bytes_max.saturating_mul(OUTPUT_BYTES_PER_UNIT_BYTE).saturating_add(OUTPUT_BYTES_BASE)
}

/// The memory that goes with units of this length.
pub(crate) const fn memory_bytes_for(unit_bytes_max: u64) -> u64 {
    let bytes =
        unit_bytes_max.saturating_mul(MEMORY_BYTES_PER_UNIT_BYTE).saturating_add(MEMORY_BYTES_BASE);
    if bytes < MEMORY_BYTES_CEILING { bytes } else { MEMORY_BYTES_CEILING }
}

/// A key of `[limits]`: what it may be, and where it goes.
#[derive(Clone, Copy)]
pub struct LimitKey {
    /// Its name, bounds and default.
    pub key: Key,
    /// Whether it bounds the door rather than the component, so that a door may set it too.
    pub of_door: bool,
    least: u64,
    most: u64,
    field: fn(&mut Limits) -> &mut u64,
}

impl LimitKey {
    /// The smallest number it may have.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The largest number it may have.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The field of that key.
    pub fn field<'l>(&self, limits: &'l mut Limits) -> &'l mut u64 {
        (self.field)(limits)
    }
}

const fn limit(
    name: &'static str,
    doc: &'static str,
    bounds: (u64, u64),
    default: u64,
    field: fn(&mut Limits) -> &mut u64,
) -> LimitKey {
    let (least, most) = bounds;
    let key = Key::new(name, Kind::Number { least, most }, doc).or(Literal::Number(default));
    LimitKey { key, of_door: false, least, most, field }
}

const fn door_limit(
    name: &'static str,
    doc: &'static str,
    bounds: (u64, u64),
    default: u64,
    field: fn(&mut Limits) -> &mut u64,
) -> LimitKey {
    LimitKey { of_door: true, ..limit(name, doc, bounds, default, field) }
}

/// More than any machine has, and small enough that sums of a few never overflow.
const BYTES_CEILING: u64 = 1 << 50;

/// More than any list is meant to hold.
const COUNT_CEILING: u64 = 1 << 32;

/// Every key. The smallest number is 0 only where nothing at all still is a door that works.
pub const LIMIT_KEYS: [LimitKey; 13] = [
    door_limit(
        "unit-bytes-max",
        "bytes of one unit, for example of one line",
        (1, MEMORY_BYTES_CEILING),
        UNIT_BYTES_MAX,
        |l| &mut l.unit_bytes_max,
    ),
    door_limit(
        "nesting-max",
        "arrays and objects open at one place of a unit",
        (1, 65_536),
        NESTING_MAX,
        |l| &mut l.nesting_max,
    ),
    limit(
        "outputs-per-call-max",
        "outputs of one call into the component",
        (1, COUNT_CEILING),
        OUTPUTS_PER_CALL_MAX,
        |l| &mut l.outputs_per_call_max,
    ),
    limit(
        "output-bytes-per-call-max",
        "bytes of the outputs of one call; follows `unit-bytes-max` when not named",
        (1, BYTES_CEILING),
        output_bytes_for(UNIT_BYTES_MAX),
        |l| &mut l.output_bytes_per_call_max,
    ),
    limit(
        "memory-bytes-max",
        "memory of one instance; follows `unit-bytes-max` when not named",
        (65_536, MEMORY_BYTES_CEILING),
        memory_bytes_for(UNIT_BYTES_MAX),
        |l| &mut l.memory_bytes_max,
    ),
    limit("call-ms-base", "milliseconds of any call", (1, CALL_MS_CEILING), CALL_MS_BASE, |l| {
        &mut l.call_ms_base
    }),
    limit(
        "call-ms-per-mib",
        "milliseconds that each MiB of input adds",
        (0, CALL_MS_CEILING),
        CALL_MS_PER_MIB,
        |l| &mut l.call_ms_per_mib,
    ),
    door_limit(
        "pending-requests-max",
        "requests without an answer, in each direction",
        (1, COUNT_CEILING),
        PENDING_REQUESTS_MAX,
        |l| &mut l.pending_requests_max,
    ),
    door_limit(
        "unwritten-bytes-rest",
        "unwritten bytes at which subscriptions rest",
        (1, BYTES_CEILING),
        UNWRITTEN_BYTES_REST,
        |l| &mut l.unwritten_bytes_rest,
    ),
    door_limit(
        "unwritten-bytes-stop",
        "unwritten bytes at which reading rests too",
        (1, BYTES_CEILING),
        UNWRITTEN_BYTES_STOP,
        |l| &mut l.unwritten_bytes_stop,
    ),
    door_limit(
        "live-notices-max",
        "notices that wait while subscriptions rest",
        (1, COUNT_CEILING),
        LIVE_NOTICES_MAX,
        |l| &mut l.live_notices_max,
    ),
    door_limit(
        "connections-max",
        "connections of the door at a time",
        (1, COUNT_CEILING),
        CONNECTIONS_MAX,
        |l| &mut l.connections_max,
    ),
    door_limit(
        "sessions-max",
        "live sessions opened through the door",
        (0, COUNT_CEILING),
        SESSIONS_MAX,
        |l| &mut l.sessions_max,
    ),
];

/// `[limits]` of a policy.
pub const LIMITS: Table = Table {
    doc: "How much of everything the door and its component may use.",
    keys: &keys::<13>(false),
};

/// `[door.<name>.limits]` of a manifest.
pub const DOOR_LIMITS: Table =
    Table { doc: "Numbers that replace those of the policy.", keys: &keys::<8>(true) };

/// The first `N` keys, of all or of those that a door may set.
#[expect(
    clippy::indexing_slicing,
    reason = "it runs while the program is compiled, where an index past the end is an error"
)]
const fn keys<const N: usize>(of_door: bool) -> [Key; N] {
    let mut keys = [Key::new("", Kind::Any, ""); N];
    let (mut from, mut to) = (0, 0);
    while to < N {
        let limit = LIMIT_KEYS[from];
        if limit.of_door || !of_door {
            keys[to] = Key { default: if of_door { None } else { limit.key.default }, ..limit.key };
            to += 1;
        }
        from += 1;
    }
    keys
}

#[cfg(test)]
mod tests;
