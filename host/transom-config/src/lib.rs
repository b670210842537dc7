//! What an operator writes, checked: `transom.toml`, `transom.lock`, and the two command lines under which published
//! clients start a runtime (S-203 to S-206). Text becomes a checked type once, and every complaint says
//! what was found, where, and what would be right.
//! Arguments, environment and files are read by the program and passed in; what the settings mean is up to
//! whoever they are for.

mod error;
pub mod launch;
pub mod lock;
pub mod manifest;
mod reader;
mod shape;
mod sources;

pub use error::{ConfigError, ConfigErrors};

#[cfg(test)]
mod tests;
