//! The half of the host that meets the world: the driver of the loop, and a driver for each carrier.
//! Decides nothing: what happens is handed to machines, and what they answer is performed in order.

mod agents;
pub mod child;
mod connection;
pub mod control;
mod door;
mod images;
pub mod metrics;
mod redact;
pub mod slot;
pub mod stdio;
pub mod unix;

pub use crate::{
    agents::{Attached, Core, Host, Inbox, Ports},
    connection::{Ended, serve},
    door::{OpenDoor, PeerFacts},
    redact::Redactor,
};
