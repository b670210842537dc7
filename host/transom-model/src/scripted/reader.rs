//! JSON that knows where it stands, so that a mistake in a script can be pointed at. What a script
//! may say is in `script`.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What was found, and what would be right.
    pub message: String,
}

/// A value at its place in the text.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    text: &'a str,
    raw: &'a RawValue,
}

/// The members of an object.
pub(super) struct Fields<'a> {
    owner: Node<'a>,
    what: &'static str,
    fields: Vec<(String, Node<'a>, Node<'a>)>,
}

impl<'a> Node<'a> {
    /// The whole text as one value.
    pub(super) fn root(text: &'a str) -> Result<Node<'a>, ScriptError> {
        match serde_json::from_str(text) {
            Ok(raw) => Ok(Node { text, raw }),
            Err(error) => {
                // serde_json repeats the place at the end of its message.
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                Err(ScriptError {
                    line: error.line(),
                    column: error.column().max(1),
                    message: format!("not JSON: {message}"),
                })
            }
        }
    }

    pub(super) fn fail(self, message: impl Into<String>) -> ScriptError {
        // The raw value borrows from the text, so its address lies inside of it.
        let at = (self.raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        ScriptError {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            message: message.into(),
        }
    }

    /// What this is, in words.
    pub(super) fn kind(self) -> &'static str {
        match self.raw.get().as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        }
    }

    /// The members of an object that has none but the `known` ones, each once. `what` says what the
    /// object is, with its article.
    pub(super) fn object(
        self,
        what: &'static str,
        known: &[&str],
    ) -> Result<Fields<'a>, ScriptError> {
        let Ok(Members(members)) = serde_json::from_str(self.raw.get()) else {
            return Err(self.fail(format!("{what} must be an object, found {}", self.kind())));
        };
        let mut fields: Vec<(String, Node, Node)> = Vec::with_capacity(members.len());
        for (key, value) in members {
            let key = Node { text: self.text, raw: key };
            let name = key.string("a name")?;
            if !known.contains(&name.as_str()) {
                return Err(key.fail(unknown(what, &name, known)));
            }
            if fields.iter().any(|(earlier, ..)| *earlier == name) {
                return Err(key.fail(format!("\"{name}\" stands twice in {what}: keep one")));
            }
            fields.push((name, key, Node { text: self.text, raw: value }));
        }
        Ok(Fields { owner: self, what, fields })
    }

    pub(super) fn list(self, what: &str) -> Result<Vec<Node<'a>>, ScriptError> {
        let Ok(items) = serde_json::from_str::<Vec<&'a RawValue>>(self.raw.get()) else {
            return Err(self.fail(format!("{what} must be a list, found {}", self.kind())));
        };
        Ok(items.into_iter().map(|raw| Node { text: self.text, raw }).collect())
    }

    pub(super) fn string(self, what: &str) -> Result<String, ScriptError> {
        self.read(what, "a string")
    }

    pub(super) fn count(self, what: &str) -> Result<u64, ScriptError> {
        self.read(what, "a whole number from 0")
    }

    pub(super) fn flag(self, what: &str) -> Result<bool, ScriptError> {
        self.read(what, "true or false")
    }

    /// Reads a value of another type; `right` says what would be right.
    pub(super) fn read<T: Deserialize<'a>>(
        self,
        what: &str,
        right: &str,
    ) -> Result<T, ScriptError> {
        serde_json::from_str(self.raw.get()).map_err(|_| {
            let shown: String = self.raw.get().chars().take(40).collect();
            let found = match self.kind() {
                kind @ ("an object" | "a list") => kind.to_owned(),
                _ => shown,
            };
            self.fail(format!("{what} must be {right}, found {found}"))
        })
    }
}

impl<'a> Fields<'a> {
    pub(super) fn find(&self, name: &str) -> Option<Node<'a>> {
        self.fields.iter().find(|(known, ..)| known == name).map(|(_, _, value)| *value)
    }

    pub(super) fn need(&self, name: &str) -> Result<Node<'a>, ScriptError> {
        self.find(name).ok_or_else(|| self.owner.fail(format!("{} needs \"{name}\"", self.what)))
    }

    /// The one member of an object that has exactly one.
    pub(super) fn only(&self) -> Result<(&str, Node<'a>), ScriptError> {
        match self.fields.as_slice() {
            [(name, _, value)] => Ok((name, *value)),
            [] => Err(self.owner.fail(format!("{} is empty: it needs one member", self.what))),
            [_, (name, key, _), ..] => Err(key
                .fail(format!("{} has one member: put \"{name}\" into one of its own", self.what))),
        }
    }
}

/// Complains about a word, with the nearest known one.
pub(super) fn unknown(what: &str, found: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, found), known))
        .filter(|(distance, known)| *distance <= known.len().max(found.len()) / 2)
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, near)) => format!("{what} has no \"{found}\": did you mean \"{near}\"?"),
        None => format!("{what} has no \"{found}\": there are {}", list(known)),
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// An object's members in order, each key and value where it stands.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}
