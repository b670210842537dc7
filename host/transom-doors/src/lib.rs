//! The built-in doors: for each, what kind of wire it has, who speaks there and what it may do. Data, not behaviour.
//! Opening doors is left to the program, which also takes any other door from its manifest.

mod acp;
// Files are called as doors are, which names in code cannot be.
#[path = "acp-child.rs"]
mod acp_child;
mod carrier;
mod frames;
mod sdk;

use std::sync::Arc;

use transom_connection::codec::{CodecSource, Framing};
use transom_policy::{Policy, PolicyError, nearest};

pub use crate::carrier::Carrier;

/// A protocol as it is offered by default. A manifest may say otherwise, member by member.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    /// What `transom stdio <door>` and `[door.<name>]` call it.
    pub name: &'static str,
    /// Who speaks the protocol.
    pub codec: DoorCodec,
    /// How units travel where a manifest names nothing else.
    pub carrier: Carrier,
    /// Every carrier on which the door can be offered.
    pub carriers: &'static [Carrier],
    /// How the carrier's bytes are cut.
    pub framing: Framing,
    /// Names that only a privileged peer may call, as they stand on the wire.
    pub privileged: &'static [&'static str],
    /// Which approvals the door's peers answer.
    pub answers: Answers,
    /// The name of the policy text, for complaints.
    pub policy_file: &'static str,
    /// What holds where a manifest names no policy.
    pub policy_text: &'static str,
    /// JSON text of the options where a manifest names none.
    pub options: &'static str,
}

/// Who turns a door's units into frames.
#[derive(Debug, Clone, Copy)]
pub enum DoorCodec {
    /// A component of this name, run in the sandbox.
    Component(&'static str),
    /// The host itself: the wire carries frames and nothing has to be translated.
    Native(fn() -> Arc<dyn CodecSource>),
}

/// Which approvals are asked at a door (decision 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answers {
    /// None.
    Never,
    /// Those of sessions that the asking connection owns.
    Owned,
    /// All, even while nobody is connected.
    Always,
}

impl Door {
    /// The built-in policy.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        Policy::parse(self.policy_file, self.policy_text)
    }

    /// The component's name, where there is a component.
    pub fn component(&self) -> Option<&'static str> {
        match self.codec {
            DoorCodec::Component(name) => Some(name),
            DoorCodec::Native(_) => None,
        }
    }
}

/// Every built-in door, by name.
pub const DOORS: &[Door] = &[acp::DOOR, acp_child::DOOR, frames::DOOR, sdk::DOOR];

/// No built-in door has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown door {found:?}; {}", remedy(*.nearest))]
pub struct UnknownDoor {
    /// The name that was asked for.
    pub found: String,
    /// The door that was probably meant.
    pub nearest: Option<&'static str>,
}

/// The built-in door of this name.
pub fn find(name: &str) -> Result<&'static Door, UnknownDoor> {
    DOORS.iter().find(|door| door.name == name).ok_or_else(|| UnknownDoor {
        found: name.to_owned(),
        nearest: nearest(name, DOORS.iter().map(|door| door.name)),
    })
}

fn remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean {name:?}?"),
        None => {
            let names: Vec<_> = DOORS.iter().map(|door| door.name).collect();
            format!("built in are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
