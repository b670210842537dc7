//! Policies: what a door and the component behind it may do, and how much of everything.
//! Policy text becomes a [`Policy`] once; [`decide`] then answers with a reason. Who asks, and what follows from a
//! refusal, is left to `transom-connection`; reading files to the program.

mod decide;
pub mod limits;
mod nearest;
mod rules;
mod text;

pub use crate::{
    decide::{Action, Decision, Reason, decide},
    limits::{Limits, MIB},
    nearest::nearest,
    rules::{FrameRule, FrameRules, WrongRule},
    text::{Complaint, PolicyError},
};

/// What one component may do at a door, and its bounds. Checked: any `Policy` can be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The frames that may be sent.
    pub frames: FrameRules,
    /// The bounds.
    pub limits: Limits,
}

impl Policy {
    /// Reads policy text. `file` only names the text in complaints.
    ///
    /// All complaints come at once, in the order of the text.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        text::parse(file, text)
    }
}
