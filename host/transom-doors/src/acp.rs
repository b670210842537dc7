//! The ACP door: newline-delimited JSON-RPC, as editors and the published clients of the Agent Client Protocol speak it.

use transom_connection::codec::Framing;

use crate::{Answers, Carrier, Door, DoorCodec};

pub(crate) const DOOR: Door = Door {
    name: "acp",
    codec: DoorCodec::Component("acp"),
    carrier: Carrier::Stdio,
    carriers: &[Carrier::Stdio, Carrier::Unix],
    framing: Framing::Lines,
    privileged: &[],
    // A client is asked about its own sessions.
    answers: Answers::Owned,
    policy_file: "policies/acp.toml",
    policy_text: include_str!("../../../policies/acp.toml"),
    options: "{}",
};
