//! Which frames are meant: a name, or every name below a prefix.

/// One entry of `frames.allow`, or of what a codec says it sends: `session/open`, or `session/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameRule(String);

/// Text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{right}")]
pub struct WrongRule {
    /// What would be right.
    pub right: &'static str,
}

impl FrameRule {
    /// Reads a rule. Letters, digits and hyphens make a word, words with `/` between them a name; only the last
    /// word may be `*`, and not the only one: whoever may send everything has that written down by prefix.
    pub fn parse(text: &str) -> Result<FrameRule, WrongRule> {
        let name = text.strip_suffix("/*").unwrap_or(text);
        if name == "*" {
            return Err(WrongRule { right: "one prefix an entry, such as \"session/*\"" });
        }
        if name.contains('*') {
            return Err(WrongRule {
                right: "`*` only as the whole last word, such as \"session/*\"",
            });
        }
        if !name.split('/').all(is_word) {
            return Err(WrongRule {
                right: "words of lower-case letters, digits and hyphens with one `/` between them, such as \"session/open\"",
            });
        }
        Ok(FrameRule(text.to_owned()))
    }

    /// The rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it means this frame. A prefix means everything below it, but not itself.
    pub fn means(&self, frame: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => frame.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()),
            None => self.0 == frame,
        }
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// A list of rules. Empty means no frame at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameRules(Vec<FrameRule>);

impl FrameRules {
    /// Reads rules from their texts.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<FrameRules, WrongRule> {
        texts.into_iter().map(FrameRule::parse).collect::<Result<_, _>>().map(FrameRules)
    }

    /// The first rule that means this frame.
    pub fn naming(&self, frame: &str) -> Option<&FrameRule> {
        self.0.iter().find(|rule| rule.means(frame))
    }

    /// Every rule, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &FrameRule> {
        self.0.iter()
    }

    pub(crate) fn push(&mut self, rule: FrameRule) {
        self.0.push(rule);
    }
}
