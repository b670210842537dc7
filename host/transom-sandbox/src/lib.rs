//! Codec components, sandboxed: loads them, holds them to their limits, and serves connections with them.
//! Which component a door uses and what its frames may do is decided elsewhere; this is the only crate that names wasmtime.
//!
//! ```no_run
//! use transom_sandbox::{Limits, Sandbox, SandboxConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::new(SandboxConfig::default())?;
//! let component = sandbox.load("echo 0.1.0", &std::fs::read("echo.wasm")?, Limits::default())?;
//! # let _ = component; Ok(()) }
//! ```
//!
//! A [`Component`] is a `transom_connection::codec::CodecSource`: each connection opens an instance of its own, in a
//! store of its own. Whatever ends that instance (a trap, a limit, a deadline) ends nothing else.

mod binary;
mod cache;
mod code;
mod component;
mod contract;
mod error;
mod inspect;
mod instance;
mod limits;
mod sandbox;
mod since_0_1;
mod ticker;

#[cfg(test)]
mod tests;

pub use crate::{
    component::Component,
    error::LoadError,
    inspect::{Inspection, Kind, inspect},
    limits::Limits,
    sandbox::{Capacity, Sandbox, SandboxConfig},
};
