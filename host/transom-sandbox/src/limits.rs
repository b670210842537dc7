//! What an instance may take: memory, tables, time, and what it may give back per call.
//! Bounds on units stand in `transom-framing`, bounds on queues in `transom-connection`.

use std::time::Duration;

use wasmtime::{ResourceLimiter, UpdateDeadline};

use crate::{error::LoadError, ticker::ticks};

const MIB: u64 = 1 << 20;

/// What one instance of a component may use. No number may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all its linear memories together. Default: 64 MiB, which holds a unit of 10 MiB four times over.
    pub memory_bytes: u64,
    /// Elements of all its tables together. Default: 20,000; a codec written in Rust uses a few hundred.
    pub table_elements: u64,
    /// Outputs of one call. Default: 10,000, many times what the largest baseline of a subscription needs.
    pub outputs_per_call: u64,
    /// Bytes of all outputs of one call, and of a suspended state. Default: 32 MiB.
    pub bytes_per_call: u64,
    /// Processor time for any call, in milliseconds. Default: 1,000. A call takes microseconds, so this is a bound for
    /// loops and not for work. What other threads take does not count: a codec waits for nothing.
    pub call_base_ms: u64,
    /// Further processor time per MiB that the call has to read, in milliseconds. Default: 100, ten times what a codec needs that
    /// parses and prints whole documents.
    pub call_ms_per_mib: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 64 * MIB,
            table_elements: 20_000,
            outputs_per_call: 10_000,
            bytes_per_call: 32 * MIB,
            call_base_ms: 1_000,
            call_ms_per_mib: 100,
        }
    }
}

impl Limits {
    /// Defaults for a door whose units have at most this many bytes: a guest holds a unit as bytes, as text and as the
    /// frame it becomes, so memory grows by four times the unit (decision 54).
    pub fn for_units(unit_bytes_max: u64) -> Limits {
        let default = Limits::default();
        Limits {
            memory_bytes: default
                .memory_bytes
                .max(unit_bytes_max.saturating_mul(4).saturating_add(16 * MIB)),
            bytes_per_call: default
                .bytes_per_call
                .max(unit_bytes_max.saturating_mul(2).saturating_add(MIB)),
            ..default
        }
    }

    /// Refuses limits that allow nothing.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let Limits {
            memory_bytes,
            table_elements,
            outputs_per_call,
            bytes_per_call,
            call_base_ms,
            call_ms_per_mib,
        } = *self;
        let named = [
            ("memory_bytes", memory_bytes),
            ("table_elements", table_elements),
            ("outputs_per_call", outputs_per_call),
            ("bytes_per_call", bytes_per_call),
            ("call_base_ms", call_base_ms),
            ("call_ms_per_mib", call_ms_per_mib),
        ];
        match named.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(LoadError::Limit { name }),
            None => Ok(()),
        }
    }

    /// Time for a call that reads this many bytes.
    pub(crate) fn call_ms(&self, bytes: u64) -> u64 {
        // In u128, because a limit may be as large as an operator likes.
        let extra = u128::from(bytes) * u128::from(self.call_ms_per_mib) / u128::from(MIB);
        self.call_base_ms.saturating_add(extra.try_into().unwrap_or(u64::MAX))
    }
}

/// Between two looks at a call under way, at most: that long it goes on after calls were cut off.
const LOOK: Duration = Duration::from_millis(100);

/// Counts what one store takes, and remembers what was refused so that the trap which follows can be explained.
pub(crate) struct Meter {
    memory: Count,
    table: Count,
    refused: Option<Refused>,
    time: Time,
}

/// The processor time of one call. It is not looked at before the first tick: reading the clock costs as much as a
/// short call, and hardly any call is still there by then.
#[derive(Default)]
struct Time {
    allowed: Duration,
    /// The thread's clock at the first tick of this call.
    since: Option<Duration>,
    spent: Duration,
}

/// A resource that grows in steps.
struct Count {
    used: u64,
    allowed: u64,
    /// The step that was allowed last; it is taken back when it fails after all.
    last: u64,
}

/// A step that crossed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) limit: &'static str,
    pub(crate) found: u64,
    pub(crate) allowed: u64,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Meter {
        Meter {
            memory: Count { used: 0, allowed: limits.memory_bytes, last: 0 },
            table: Count { used: 0, allowed: limits.table_elements, last: 0 },
            refused: None,
            time: Time::default(),
        }
    }

    /// Bytes of all linear memories.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.used
    }

    /// A call begins that may take this long. What an earlier one was refused is forgotten: the guest coped with it.
    pub(crate) fn begin_call(&mut self, call_ms: u64) {
        self.refused = None;
        self.time =
            Time { allowed: Duration::from_millis(call_ms), since: None, spent: Duration::ZERO };
    }

    /// A tick passed within the call, and `now` is the thread's own clock.
    pub(crate) fn tick(&mut self, now: Duration) -> UpdateDeadline {
        let since = *self.time.since.get_or_insert(now);
        self.time.spent = now.saturating_sub(since);
        match self.time.allowed.checked_sub(self.time.spent) {
            Some(left) if !left.is_zero() => {
                let left = left.min(LOOK).as_millis();
                UpdateDeadline::Continue(ticks(left.try_into().unwrap_or(u64::MAX)))
            }
            _ => UpdateDeadline::Interrupt,
        }
    }

    /// Processor time of this call, as far as it was looked at.
    pub(crate) fn spent_ms(&self) -> u64 {
        self.time.spent.as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// What this call was refused.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }
}

impl Count {
    fn grow(&mut self, current: usize, desired: usize) -> Result<(), u64> {
        let step = (desired as u64).saturating_sub(current as u64);
        let wanted = self.used.saturating_add(step);
        if wanted > self.allowed {
            self.last = 0;
            return Err(wanted);
        }
        self.used = wanted;
        self.last = step;
        Ok(())
    }

    fn take_back(&mut self) {
        self.used = self.used.saturating_sub(self.last);
        self.last = 0;
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.memory.grow(current, desired);
        if let Err(found) = grown {
            self.refused =
                Some(Refused { limit: "memory_bytes", found, allowed: self.memory.allowed });
        }
        Ok(grown.is_ok())
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.take_back();
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.table.grow(current, desired);
        if let Err(found) = grown {
            self.refused =
                Some(Refused { limit: "table_elements", found, allowed: self.table.allowed });
        }
        Ok(grown.is_ok())
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.table.take_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

/// Core instances of one component instance. An encoded codec has one or a few; composed components have more.
pub(crate) const CORE_INSTANCES_MAX: usize = 16;
/// Memories of one component instance. Each one reserves 4 GiB of addresses in a pool.
pub(crate) const MEMORIES_MAX: usize = 1;
/// Tables of one component instance.
pub(crate) const TABLES_MAX: usize = 2;

#[cfg(test)]
mod tests;
