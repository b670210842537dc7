//! The native peer's door: one frame a line, for `transom prompt`, scripts and whoever needs no protocol in between.

use transom_connection::{codec::Framing, frames};

use crate::{Answers, Carrier, Door, DoorCodec};

pub(crate) const DOOR: Door = Door {
    name: "frames",
    codec: DoorCodec::Native(frames::source),
    carrier: Carrier::Unix,
    carriers: &[Carrier::Stdio, Carrier::Unix],
    framing: Framing::Lines,
    privileged: &[],
    answers: Answers::Owned,
    policy_file: "policies/frames.toml",
    policy_text: include_str!("../../../policies/frames.toml"),
    options: "{}",
};
