//! Policies: what a door and the component behind it may do, and how much of everything.
//! Policy text becomes a [`Policy`] once; [`decide`] then answers with a reason. Who asks, and what follows from a
//! refusal, is left to `transom-connection`; reading files to the program.

mod decide;
pub mod keys;
pub mod limits;
mod nearest;
mod places;
mod rules;
mod text;
mod trust;

use keys::{Key, Kind, Literal, Table};

pub use crate::{
    decide::{Action, Decision, Reason, decide},
    limits::{DOOR_LIMITS, LIMITS, Limits, MIB},
    nearest::nearest,
    places::Places,
    rules::{FrameRule, FrameRules, WrongRule},
    text::{Complaint, PolicyError, called, named_limits},
    trust::{Trust, TrustKey, WrongKey, signing_key_id},
};

/// A policy's text.
pub const POLICY: Table = Table {
    doc: "What the component behind a door may ask of the host, and how much of everything it may use.",
    keys: &[
        Key::new("frames", Kind::Table(&FRAMES), FRAMES.doc),
        Key::new("limits", Kind::Table(&LIMITS), LIMITS.doc),
        Key::new("trust", Kind::Table(&TRUST), TRUST.doc),
    ],
};

/// `[frames]`.
pub const FRAMES: Table = Table {
    doc: "What is not named is denied.",
    keys: &[Key::new(
        "allow",
        Kind::List(&Key::new(
            "frame",
            Kind::Shaped(r"^[a-z0-9-]+(/[a-z0-9-]+)*(/\*)?$"),
            "a name, or `prefix/*` for every name below the prefix",
        )),
        "requests and notices that the component may send",
    )
    .or(Literal::Texts(&[]))],
};

/// `[trust]`.
pub const TRUST: Table = Table {
    doc: "Whose signatures the component may bear, and whether it must bear one.",
    keys: &[
        Key::new(
            "require-signature",
            Kind::Boolean,
            "`true`: the component is refused unless one of `keys` signed it",
        )
        .or(Literal::Boolean(false)),
        Key::new(
            "keys",
            Kind::List(&Key::new(
                "key",
                Kind::Shaped("^RW[Q-T][A-Za-z0-9+/]{53}$"),
                "a minisign public key: the second line of its .pub file",
            )),
            "public keys of those whose signatures count",
        )
        .or(Literal::Texts(&[])),
    ],
};

/// What one component may do at a door, and its bounds. Checked: any `Policy` can be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The frames that may be sent.
    pub frames: FrameRules,
    /// The bounds.
    pub limits: Limits,
    /// Whose signatures the component may bear.
    pub trust: Trust,
}

impl Policy {
    /// Reads policy text. `file` only names the text in complaints.
    ///
    /// All complaints come at once, in the order of the text.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        text::parse(file, text)
    }
}
