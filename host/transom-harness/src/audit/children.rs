//! What a log says of delegation: what the session itself is, once, and the children that it keeps, each once
//! (L-67, L-72).

use std::collections::HashSet;

use super::{Checked, ensure, envelope::Envelope};
use crate::header::Header;

/// Children that outlive their tasks, and whether the session has said what it is itself.
#[derive(Debug, Default)]
pub(super) struct Children {
    own: String,
    catalogued: HashSet<String>,
    described: bool,
}

impl Children {
    pub(super) fn new(header: &Header) -> Children {
        Children { own: header.id.as_str().to_owned(), ..Children::default() }
    }

    /// A fork inherits the events, and neither the children nor what the session it was forked from is.
    pub(super) fn forget(&mut self) {
        self.catalogued.clear();
        self.described = false;
    }

    /// Whether the session had not said what it is.
    pub(super) fn describe(&mut self) -> bool {
        !std::mem::replace(&mut self.described, true)
    }

    pub(super) fn catalogued(&mut self, event: &Envelope<'_>) -> Checked {
        let child = event.text("childId");
        ensure(*child != *self.own, "L-72", || "a session is a child of its own".to_owned())?;
        ensure(self.catalogued.insert(child.to_string()), "L-72", || {
            format!("the child {child} is in the catalog already")
        })
    }
}
