//! The one question a policy answers: may this happen, and why.

use std::fmt;

use crate::Policy;

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// A codec sends a request or a notice of this name to the host. Replies and failures are not asked about: they
    /// answer what the host itself asked.
    SendFrame(&'a str),
}

/// Whether it may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Yes or no.
    pub allowed: bool,
    /// Why.
    pub reason: Reason<'a>,
}

/// Why a policy decided as it did. Its text stands in logs and in `transom check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<'a> {
    /// An entry of `frames.allow` means this frame.
    Named {
        /// The entry.
        rule: &'a str,
    },
    /// No entry of `frames.allow` means this frame. What is not named is denied.
    NotNamed {
        /// The frame.
        frame: &'a str,
    },
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Named { rule } => write!(f, "frames.allow names {rule}"),
            Reason::NotNamed { frame } => write!(f, "frames.allow does not name {frame}"),
        }
    }
}

/// Answers from the policy's text alone: the same question always gets the same answer (deny by default).
pub fn decide<'a>(policy: &'a Policy, action: Action<'a>) -> Decision<'a> {
    match action {
        Action::SendFrame(frame) => match policy.frames.naming(frame) {
            Some(rule) => Decision { allowed: true, reason: Reason::Named { rule: rule.as_str() } },
            None => Decision { allowed: false, reason: Reason::NotNamed { frame } },
        },
    }
}

#[cfg(test)]
mod tests;
