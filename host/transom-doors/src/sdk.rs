//! The SDK door: newline-delimited JSON-RPC, as the published TypeScript and Python clients speak it.

use transom_connection::codec::Framing;

use crate::{Answers, Carrier, Door, DoorCodec};

pub(crate) const DOOR: Door = Door {
    name: "sdk",
    codec: DoorCodec::Component("sdk"),
    carrier: Carrier::Stdio,
    carriers: &[Carrier::Stdio, Carrier::Unix],
    framing: Framing::Lines,
    privileged: &[],
    // The wire has no way to ask a client (S-66).
    answers: Answers::Never,
    policy_file: "policies/sdk.toml",
    policy_text: include_str!("../../../policies/sdk.toml"),
    options: "{}",
};
