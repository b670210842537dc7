//! The engine for codecs: one per process, sized for its connections; and how a component gets into it.
//! Instances and their calls are in `instance.rs`.

use std::{path::PathBuf, sync::Arc, thread, time::Instant};

use sha2::{Digest as _, Sha256};
use tracing::{debug, info};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    component::{Component as Compiled, Linker},
};

use crate::{
    binary,
    cache::Cache,
    code,
    component::Component,
    contract::Shape,
    error::LoadError,
    limits::{CORE_INSTANCES_MAX, Limits, MEMORIES_MAX, TABLES_MAX},
    since_0_1::Exports,
    ticker::Ticker,
};

/// Instances beside those of the connections, at least: a moved connection has two for a moment, and a component that is
/// being loaded has one.
const SPARE_INSTANCES_MIN: u32 = 16;

/// Elements that a table in a pool has room for; each takes eight bytes of addresses.
const POOL_TABLE_ELEMENTS: usize = 20_000;

/// Bytes of a memory that stay in place when an instance ends, set to zero for the next one: more than most codecs
/// touch. It is only worth it where the kernel can say which pages were touched, or else each slot that was ever used would hold
/// all of this for good; there, opening a connection takes half the time.
const KEPT_RESIDENT: usize = 256 << 10;

/// How much of the thread's own stack a guest may use. Threads have two mebibytes.
const GUEST_STACK_BYTES: usize = 512 << 10;

/// How instances get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// From the system, each time: for one connection, for tools and for tests.
    OnDemand,
    /// From a pool that is reserved at once: 4 GiB of addresses per connection, and no memory until it is used. One
    /// such sandbox per process.
    Pool {
        /// How many connections can be open at a time. Opening more is a `CodecError::Limit` named `instances`.
        connections: u32,
    },
}

/// What a sandbox is made from.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Where instances get their memory from.
    pub capacity: Capacity,
    /// A folder of this user alone (mode 0700) where compiled code is kept; it is made where it is missing. Without
    /// one each load compiles.
    pub cache_dir: Option<PathBuf>,
    /// Size of a component file at most. Compiling takes about a second per mebibyte and cannot be interrupted.
    /// Default: 64 MiB; a JavaScript or Python component has 12 to 18.
    pub component_bytes_max: usize,
}

impl Default for SandboxConfig {
    fn default() -> SandboxConfig {
        SandboxConfig {
            capacity: Capacity::OnDemand,
            cache_dir: None,
            component_bytes_max: 64 << 20,
        }
    }
}

/// Loads codec components and holds the engine that runs them. What it loaded lives on without it.
pub struct Sandbox {
    engine: Engine,
    ticker: Arc<Ticker>,
    cache: Option<Cache>,
    capacity: Capacity,
    component_bytes_max: usize,
}

impl Sandbox {
    /// Makes an engine. Cheap on demand (microseconds); a pool takes a few milliseconds per 10,000 connections.
    pub fn new(config: SandboxConfig) -> Result<Sandbox, LoadError> {
        let SandboxConfig { capacity, cache_dir, component_bytes_max } = config;
        if capacity == (Capacity::Pool { connections: 0 }) {
            return Err(LoadError::Limit { name: "connections" });
        }
        if component_bytes_max == 0 {
            return Err(LoadError::Limit { name: "component_bytes_max" });
        }
        let engine = Engine::new(&settings(capacity))
            .map_err(|error| LoadError::Engine { detail: format!("{error:#}") })?;
        let cache = match cache_dir {
            Some(folder) => Cache::open(&folder, &engine)?,
            None => None,
        };
        let ticker = Arc::new(Ticker::new(engine.clone()));
        Ok(Sandbox { engine, ticker, cache, capacity, component_bytes_max })
    }

    /// Loads a component and asks it what it is. `name` stands in logs, with the version where there is one:
    /// `sdk 0.1.0`. The limits hold for each of its instances, and for this first one.
    pub fn load(
        &self,
        name: &str,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Arc<Component>, LoadError> {
        let begun = Instant::now();
        limits.check()?;
        if bytes.len() > self.component_bytes_max {
            return Err(LoadError::TooLarge {
                bytes: bytes.len(),
                allowed: self.component_bytes_max,
            });
        }
        binary::is_component(bytes)?;

        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let compiled = self.compiled(name, bytes, &digest)?;
        let compile = |error: wasmtime::Error| LoadError::Compile { detail: format!("{error:#}") };
        // Nothing is linked: a codec imports nothing.
        let pre = Linker::new(&self.engine).instantiate_pre(&compiled).map_err(compile)?;
        let exports = Exports::new(pre).map_err(compile)?;

        self.ticker.start().map_err(|error| LoadError::Engine { detail: error.to_string() })?;
        let identity = format!("{name} sha256:{}", hex::encode(digest)).into();
        let component =
            Component::new(exports, identity, limits, self.capacity, Arc::clone(&self.ticker))?;
        debug!(component = name, elapsed = ?begun.elapsed(), "component loaded");
        Ok(Arc::new(component))
    }

    /// Ends every call that takes longer than some ticks, those under way too: the host comes to its end and waits for nobody.
    pub fn cut_off(&self) {
        self.ticker.cut_off();
    }

    /// Code from the cache, or compiled now. What comes from the cache was checked before it was kept.
    fn compiled(&self, name: &str, bytes: &[u8], digest: &[u8]) -> Result<Compiled, LoadError> {
        let entry = self.cache.as_ref().map(|cache| (cache, cache.key(digest)));
        if let Some((cache, key)) = &entry
            && let Some(proven) = cache.find(key)
        {
            match code::load(&self.engine, &proven) {
                Ok(compiled) => return Ok(compiled),
                Err(_) => cache.forget(key),
            }
        }
        Shape::read(bytes)?.is_codec()?;
        let begun = Instant::now();
        let compile = |error: wasmtime::Error| LoadError::Compile { detail: format!("{error:#}") };
        let compiled = Compiled::from_binary(&self.engine, bytes).map_err(compile)?;
        info!(component = name, bytes = bytes.len(), elapsed = ?begun.elapsed(), "component compiled");
        if let Some((cache, key)) = &entry {
            cache.keep(key, &compiled.serialize().map_err(compile)?);
        }
        Ok(compiled)
    }
}

fn settings(capacity: Capacity) -> Config {
    let mut config = Config::new();
    config
        // On by default, three to five times dearer per call, and of no use to a codec: it waits for nothing.
        .concurrency_support(false)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .cranelift_opt_level(OptLevel::Speed)
        // The same inputs give the same bytes, on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .max_wasm_stack(GUEST_STACK_BYTES)
        // For native debuggers only; the backtrace of a trap does without.
        .native_unwind_info(false);
    if let Capacity::Pool { connections } = capacity {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(connections)));
    }
    config
}

/// The pool counts component instances, core instances, memories and tables each by itself.
fn pool(connections: u32) -> PoolingAllocationConfig {
    // As many connections move at a time as there are threads.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let moving = u32::try_from(threads).unwrap_or(u32::MAX).saturating_add(1);
    let instances = connections.saturating_add(moving.max(SPARE_INSTANCES_MIN));
    let each = |count: usize| instances.saturating_mul(count.try_into().unwrap_or(u32::MAX));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(each(CORE_INSTANCES_MAX))
        .total_memories(each(MEMORIES_MAX))
        .total_tables(each(TABLES_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_MAX as u32)
        .max_memories_per_component(MEMORIES_MAX as u32)
        .max_tables_per_component(TABLES_MAX as u32)
        .max_memories_per_module(MEMORIES_MAX as u32)
        .max_tables_per_module(TABLES_MAX as u32)
        .table_elements(POOL_TABLE_ELEMENTS);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(KEPT_RESIDENT)
            .table_keep_resident(KEPT_RESIDENT);
    }
    pool
}
