//! The settings of one entry, taken key by key: what is wrong becomes a complaint, what nobody took is
//! said to have no effect.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    error::remedy,
    launch::yaml::{Complaint, Position},
};

#[derive(Default)]
pub(super) struct Settings {
    members: BTreeMap<String, (Position, Value)>,
    complaints: Vec<Complaint>,
    unused: Vec<String>,
}

impl Settings {
    pub(super) fn new(members: BTreeMap<String, (Position, Value)>) -> Settings {
        Settings { members, ..Settings::default() }
    }

    /// Settings within others; all stand where those stand.
    fn within(at: Position, members: Map<String, Value>) -> Settings {
        Settings::new(members.into_iter().map(|(key, value)| (key, (at, value))).collect())
    }

    /// Complaints, and the keys that were not taken.
    pub(super) fn finish(mut self) -> (Vec<Complaint>, Vec<String>) {
        self.unused.extend(self.members.into_keys());
        (self.complaints, self.unused)
    }

    pub(super) fn complain(&mut self, at: Position, message: String) {
        self.complaints.push((at, message));
    }

    /// Text that is not empty.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.take(key, "a text that is not empty", |value| {
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        })
    }

    pub(super) fn any_text(&mut self, key: &str) -> Option<String> {
        self.take(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.take(key, "true or false", Value::as_bool)
    }

    /// A whole number above 0.
    pub(super) fn count(&mut self, key: &str) -> Option<u64> {
        self.take(key, "a whole number above 0", |value| {
            value.as_u64().filter(|number| *number > 0)
        })
    }

    /// A whole number, or a word that stands for none.
    pub(super) fn number_or(&mut self, key: &str, word: &str) -> Option<u64> {
        let right = format!("a whole number, or {word:?}");
        self.take(key, &right, |value| match value.as_str() {
            Some(text) => (text == word).then_some(None),
            None => value.as_u64().map(Some),
        })
        .flatten()
    }

    /// Takes a key that says what holds here anyway; with another value it has no effect.
    pub(super) fn accept(&mut self, key: &str, anyway: &Value) {
        if self.members.get(key).is_some_and(|(_, value)| value == anyway || value.is_null()) {
            self.members.remove(key);
        }
    }

    pub(super) fn choice(&mut self, key: &str, choices: &[&str]) -> Option<String> {
        let at = self.members.get(key).map(|(at, _)| *at)?;
        let text = self.any_text(key)?;
        if !choices.contains(&text.as_str()) {
            self.complain(at, format!("`{key}` is {text:?}; {}", remedy(&text, choices)));
            return None;
        }
        Some(text)
    }

    pub(super) fn list(&mut self, key: &str) -> Vec<Value> {
        self.take(key, "a list", |value| value.as_array().cloned()).unwrap_or_default()
    }

    /// A mapping within this one; `None` if it is switched off with `false`.
    pub(super) fn member_or_off(&mut self, key: &str) -> Option<Settings> {
        match self.members.remove(key) {
            None | Some((_, Value::Null)) => Some(Settings::default()),
            Some((_, Value::Bool(false))) => None,
            Some((at, Value::Object(members))) => Some(Settings::within(at, members)),
            Some((at, found)) => {
                self.complain(at, format!("`{key}` is {found}; it must be a mapping, or false"));
                None
            }
        }
    }

    /// Takes over what is wrong and what is left of a mapping within this one.
    pub(super) fn absorb(&mut self, key: &str, inner: Settings) {
        let (complaints, unused) = inner.finish();
        self.complaints.extend(
            complaints.into_iter().map(|(at, complaint)| (at, format!("`{key}`: {complaint}"))),
        );
        self.unused.extend(unused.into_iter().map(|unused| format!("{key}.{unused}")));
    }

    /// Whether the key is `false`. Takes it.
    pub(super) fn is_off(&mut self, key: &str) -> bool {
        matches!(self.members.remove(key), Some((_, Value::Bool(false))))
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.members.get(key).is_some_and(|(_, value)| !value.is_null())
    }

    /// Takes keys that need not be followed, because what they shape is a host's own affair.
    pub(super) fn forget(&mut self, keys: &[&str]) {
        for key in keys {
            self.members.remove(*key);
        }
    }

    /// Takes everything that is left.
    pub(super) fn rest(&mut self) {
        self.members.clear();
    }

    fn take<T>(
        &mut self,
        key: &str,
        right: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let (at, value) = self.members.remove(key).filter(|(_, value)| !value.is_null())?;
        let taken = read(&value);
        if taken.is_none() {
            self.complain(at, format!("`{key}` is {value}; it must be {right}"));
        }
        taken
    }
}
