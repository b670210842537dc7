//! The ACP child backend: a reverse door, at which the host is the client and the peer an agent that it has started.

use transom_connection::codec::Framing;

use crate::{Answers, Carrier, Door, DoorCodec};

pub(crate) const DOOR: Door = Door {
    name: "acp-child",
    codec: DoorCodec::Component("acp-child"),
    carrier: Carrier::Child,
    carriers: &[Carrier::Child],
    framing: Framing::Lines,
    privileged: &[],
    // An agent is asked for nothing but its task.
    answers: Answers::Never,
    policy_file: "policies/acp-child.toml",
    policy_text: include_str!("../../../policies/acp-child.toml"),
    options: "{}",
};
