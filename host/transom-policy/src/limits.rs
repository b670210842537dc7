//! Every bound that a policy sets, with its default and the reason for it.
//! Each is applied elsewhere: on units by `transom-framing`, on calls by `transom-sandbox`, on requests and unwritten
//! output by `transom-connection`, on connections by `transom-io`, on live notices and sessions by the router.

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
pub(crate) fn output_bytes_for(unit_bytes_max: u64) -> u64 {
    unit_bytes_max.saturating_mul(OUTPUT_BYTES_PER_UNIT_BYTE).saturating_add(OUTPUT_BYTES_BASE)
}

/// The memory that goes with units of this length.
pub(crate) fn memory_bytes_for(unit_bytes_max: u64) -> u64 {
    unit_bytes_max
        .saturating_mul(MEMORY_BYTES_PER_UNIT_BYTE)
        .saturating_add(MEMORY_BYTES_BASE)
        .min(MEMORY_BYTES_CEILING)
}

/// A key of `[limits]`: its name, what it may be, and where it goes.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) field: fn(&mut Limits) -> &mut u64,
}

/// More than any machine has, and small enough that sums of a few never overflow.
const BYTES_CEILING: u64 = 1 << 50;

/// More than any list is meant to hold.
const COUNT_CEILING: u64 = 1 << 32;

/// Every key. `least` is 0 only where nothing at all still is a door that works.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "unit-bytes-max",
        least: 1,
        most: MEMORY_BYTES_CEILING,
        field: |l| &mut l.unit_bytes_max,
    },
    Key { name: "nesting-max", least: 1, most: 65_536, field: |l| &mut l.nesting_max },
    Key {
        name: "outputs-per-call-max",
        least: 1,
        most: COUNT_CEILING,
        field: |l| &mut l.outputs_per_call_max,
    },
    Key {
        name: "output-bytes-per-call-max",
        least: 1,
        most: BYTES_CEILING,
        field: |l| &mut l.output_bytes_per_call_max,
    },
    Key {
        name: "memory-bytes-max",
        least: 65_536,
        most: MEMORY_BYTES_CEILING,
        field: |l| &mut l.memory_bytes_max,
    },
    Key { name: "call-ms-base", least: 1, most: CALL_MS_CEILING, field: |l| &mut l.call_ms_base },
    Key {
        name: "call-ms-per-mib",
        least: 0,
        most: CALL_MS_CEILING,
        field: |l| &mut l.call_ms_per_mib,
    },
    Key {
        name: "pending-requests-max",
        least: 1,
        most: COUNT_CEILING,
        field: |l| &mut l.pending_requests_max,
    },
    Key {
        name: "unwritten-bytes-rest",
        least: 1,
        most: BYTES_CEILING,
        field: |l| &mut l.unwritten_bytes_rest,
    },
    Key {
        name: "unwritten-bytes-stop",
        least: 1,
        most: BYTES_CEILING,
        field: |l| &mut l.unwritten_bytes_stop,
    },
    Key {
        name: "live-notices-max",
        least: 1,
        most: COUNT_CEILING,
        field: |l| &mut l.live_notices_max,
    },
    Key {
        name: "connections-max",
        least: 1,
        most: COUNT_CEILING,
        field: |l| &mut l.connections_max,
    },
    Key { name: "sessions-max", least: 0, most: COUNT_CEILING, field: |l| &mut l.sessions_max },
];

#[cfg(test)]
mod tests;
