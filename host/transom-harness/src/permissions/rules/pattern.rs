//! Patterns of permission rules: `*` is any run of characters, also none, and everything else is itself (P-26).

/// A text with `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Any text is a pattern.
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches one text only, itself.
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether the whole text is matched, with its case.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        for piece in pieces {
            // The earliest place leaves the most for the pieces to come.
            let Some((_, after)) = rest.split_once(piece) else { return false };
            rest = after;
        }
        rest.ends_with(last)
    }

    /// Whether every text that `other` matches is matched.
    pub fn covers(&self, other: &Pattern) -> bool {
        // A `*` read as a letter can only fall to a `*`, and what falls to a `*` may be any text.
        self.matches(&other.0)
    }

    /// Whether some text that begins like this is matched.
    pub fn can_begin(&self, prefix: &str) -> bool {
        match self.0.split_once('*') {
            None => self.0.starts_with(prefix),
            Some((head, _)) => head.starts_with(prefix) || prefix.starts_with(head),
        }
    }
}
