//! One connection as a machine: an event in, effects out. It owns the codec contract, asks the policy about frames,
//! keeps requests and answers paired and queues within their marks.
//! Carriers and time are left to `transom-io`, the meaning of frames to `transom-router`, components to `transom-sandbox`.

pub mod codec;
mod connection;
mod effect;
pub mod frames;
mod marks;
mod pending;
mod replace;
#[cfg(test)]
mod script;

use transom_framing::Bounds;
use transom_policy::Limits;

pub use crate::{
    connection::{Connection, REFUSALS_PER_EVENT_MAX},
    effect::{Effect, Event, Level},
    pending::FRAME_ID_BYTES_MAX,
    replace::{ReplaceError, Serving},
};

/// What a door's lines may be.
pub fn line_bounds(limits: &Limits) -> Bounds {
    Bounds { unit_bytes_max: limits.unit_bytes_max, nesting_max: limits.nesting_max }
}
