//! TOML tables with positions, read key by key; complaints are collected and reading goes on.
//! Which keys there are is `check.rs`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Number, Value};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};
use transom_policy::nearest;

use crate::error::{ConfigError, remedy};

/// A value with its place.
pub(super) type Node<'t> = Spanned<DeValue<'t>>;

pub(super) struct Reader<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
    pub(super) directory: &'t Path,
    pub(super) errors: Vec<ConfigError>,
}

impl Reader<'_> {
    /// A complaint about a place.
    pub(super) fn complain(&mut self, at: usize, message: String) {
        self.errors.push(ConfigError::at(self.file, self.text, at, message));
    }

    /// File and line of a place, for those who tell of it later.
    pub(super) fn place(&self, at: usize) -> (String, usize) {
        let line = self.text.get(..at).unwrap_or(self.text).matches('\n').count() + 1;
        (self.file.to_owned(), line)
    }

    /// The value as a table whose keys are all known; complains about the others.
    pub(super) fn table<'n, 't>(
        &mut self,
        node: &'n Node<'t>,
        title: &str,
        known: &[&str],
    ) -> Option<&'n DeTable<'t>> {
        let table = self.any_table(node, title)?;
        self.known_keys(table, &format!("in [{title}]"), known);
        Some(table)
    }

    /// The value as a table with any keys.
    pub(super) fn any_table<'n, 't>(
        &mut self,
        node: &'n Node<'t>,
        title: &str,
    ) -> Option<&'n DeTable<'t>> {
        let table = node.get_ref().as_table();
        if table.is_none() {
            self.wrong(node, &format!("`{title}`"), "a table");
        }
        table
    }

    /// Complains about a key that is not there, unless a misspelt one stands in its place.
    pub(super) fn require(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        known: &[&str],
        at: usize,
        message: &str,
    ) {
        let misspelt = |(found, _): (&Spanned<DeString<'_>>, &Node<'_>)| {
            !known.contains(&&**found.get_ref())
                && nearest(found.get_ref(), known.iter().copied()) == Some(key)
        };
        if !table.contains_key(key) && !table.iter().any(misspelt) {
            self.complain(at, message.to_owned());
        }
    }

    pub(super) fn known_keys(&mut self, table: &DeTable<'_>, whence: &str, known: &[&str]) {
        for (key, _) in table {
            if !known.contains(&&**key.get_ref()) {
                let message = format!(
                    "unknown key `{}` {whence}; {}",
                    key.get_ref(),
                    remedy(key.get_ref(), known)
                );
                self.complain(key.span().start, message);
            }
        }
    }

    /// Text that is not empty.
    pub(super) fn text(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        self.text_of(table.get(key)?, key)
    }

    pub(super) fn text_of(&mut self, node: &Node<'_>, key: &str) -> Option<String> {
        match node.get_ref().as_str() {
            Some("") => {
                self.complain(
                    node.span().start,
                    format!("`{key}` is empty; leave the key out, or give it a text"),
                );
                None
            }
            Some(text) => Some(text.to_owned()),
            None => {
                self.wrong(node, &format!("`{key}`"), "a text in quotation marks");
                None
            }
        }
    }

    /// One of some words.
    pub(super) fn choice(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        choices: &[&str],
    ) -> Option<String> {
        let node = table.get(key)?;
        let text = self.text_of(node, key)?;
        self.is_choice(node, key, &text, choices).then_some(text)
    }

    pub(super) fn is_choice(
        &mut self,
        node: &Node<'_>,
        key: &str,
        text: &str,
        choices: &[&str],
    ) -> bool {
        let known = choices.contains(&text);
        if !known {
            self.complain(
                node.span().start,
                format!("unknown {key} `{text}`; {}", remedy(text, choices)),
            );
        }
        known
    }

    /// A path, below the manifest's directory if it is relative.
    pub(super) fn path(&mut self, table: &DeTable<'_>, key: &str) -> Option<PathBuf> {
        let node = table.get(key)?;
        let text = self.text_of(node, key)?;
        self.is_literal(node.span().start, key, &text).then(|| self.directory.join(text))
    }

    /// Paths with their places, as they are written; an absent list is empty.
    pub(super) fn literal_paths(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
    ) -> Vec<(PathBuf, usize)> {
        let mut texts = self.texts(table, key).unwrap_or_default();
        texts.retain(|(text, at)| self.is_literal(*at, key, text));
        texts.into_iter().map(|(text, at)| (PathBuf::from(text), at)).collect()
    }

    /// Nothing is replaced in paths; complains where somebody may expect it.
    fn is_literal(&mut self, at: usize, key: &str, text: &str) -> bool {
        let literal = !text.starts_with('~') && !text.contains(['$', '\0']);
        if !literal {
            let message =
                format!("`{key}` is taken literally, but holds {text:?}; write the path out");
            self.complain(at, message);
        }
        literal
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let node = table.get(key)?;
        let boolean = node.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong(node, &format!("`{key}`"), "`true` or `false`");
        }
        boolean
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        least: u64,
        most: u64,
    ) -> Option<u64> {
        let node = table.get(key)?;
        let right = format!("a whole number from {least} to {most}");
        let Some(integer) = node.get_ref().as_integer() else {
            self.wrong(node, &format!("`{key}`"), &right);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.complain(node.span().start, format!("`{key}` is {integer}; it must be {right}"));
        }
        number
    }

    /// A list of texts, each once.
    pub(super) fn texts(&mut self, table: &DeTable<'_>, key: &str) -> Option<Vec<(String, usize)>> {
        let node = table.get(key)?;
        let Some(list) = node.get_ref().as_array() else {
            self.wrong(node, &format!("`{key}`"), "a list of texts");
            return None;
        };
        let mut texts: Vec<(String, usize)> = Vec::new();
        for entry in list.iter() {
            let Some(text) = self.text_of(entry, key) else { continue };
            let at = entry.span().start;
            if texts.iter().any(|(earlier, _)| *earlier == text) {
                self.complain(at, format!("`{key}` holds `{text}` a second time; name it once"));
            } else {
                texts.push((text, at));
            }
        }
        Some(texts)
    }

    /// A table as JSON, for codecs.
    pub(super) fn json(&mut self, table: &DeTable<'_>, title: &str) -> Map<String, Value> {
        let mut entries: Vec<_> = table.iter().collect();
        // The order of the text, which the table has lost.
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, node)| (key.get_ref().to_string(), self.json_value(node, title)))
            .collect()
    }

    fn json_value(&mut self, node: &Node<'_>, title: &str) -> Value {
        let found = match node.get_ref() {
            DeValue::String(text) => return Value::from(text.to_string()),
            DeValue::Boolean(boolean) => return Value::from(*boolean),
            DeValue::Array(list) => {
                return list.iter().map(|node| self.json_value(node, title)).collect();
            }
            DeValue::Table(table) => return Value::Object(self.json(table, title)),
            DeValue::Integer(integer) => {
                match i64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(number) => return Value::from(number),
                    Err(_) => format!("the number {integer}, which does not fit into 64 bits"),
                }
            }
            DeValue::Float(float) => match float.as_str().parse().ok().and_then(Number::from_f64) {
                Some(number) => return Value::Number(number),
                None => format!("the number {float}"),
            },
            DeValue::Datetime(moment) => format!("the date {moment}"),
        };
        self.complain(
            node.span().start,
            format!("`{title}` holds {found}; JSON has no such value: write it as a text"),
        );
        Value::Null
    }

    pub(super) fn wrong(&mut self, node: &Node<'_>, what: &str, right: &str) {
        let found = match node.get_ref() {
            DeValue::String(text) => format!("the text {text:?}"),
            DeValue::Integer(integer) => format!("the number {integer}"),
            DeValue::Float(float) => format!("the number {float}"),
            DeValue::Boolean(boolean) => boolean.to_string(),
            DeValue::Datetime(moment) => format!("the date {moment}"),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.complain(node.span().start, format!("{what} is {found}; it must be {right}"));
    }

    /// Names of components and doors stand in logs, paths and commands.
    pub(super) fn is_name(&mut self, key: &Spanned<DeString<'_>>, what: &str) -> bool {
        let name = key.get_ref();
        let fits = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        };
        let good = (1..=64).contains(&name.len())
            && name.chars().all(fits)
            && name.starts_with(|first: char| first.is_ascii_lowercase());
        if !good {
            let message = format!(
                "the {what} name {name:?} cannot be used; it must be 1 to 64 of a-z, 0-9 and -, with a letter first"
            );
            self.complain(key.span().start, message);
        }
        good
    }
}
