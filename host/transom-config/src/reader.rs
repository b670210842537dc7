//! TOML tables with positions, read key by key; complaints are collected and reading goes on.
//! Which keys there are is in tables elsewhere. Where values come from, several files among them, is `sources.rs`.

use std::{collections::HashSet, path::PathBuf};

use serde_json::{Map, Number, Value};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};
use transom_policy::{called, nearest};

use crate::{
    error::{ConfigErrors, remedy},
    sources::{Sources, moved},
};

/// A value with its place among all sources.
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

/// Words that people write where another is meant, by key, with what to say to them.
const SLIPS: [(&str, &str, &str); 2] = [
    (
        "preset",
        "custom",
        "`custom` says that a session is like no preset; choose one, and set `policy` beside it",
    ),
    ("tool", "", "`tool` is empty; name a tool, or `*` for all of them"),
];

pub(crate) struct Reader<'t> {
    pub(crate) sources: Sources<'t>,
    /// Complaints by place. No two are equal: a value is looked at alone, and again where it counts.
    errors: Vec<(usize, String)>,
    seen: HashSet<(usize, String)>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(sources: Sources<'t>) -> Reader<'t> {
        Reader { sources, errors: Vec::new(), seen: HashSet::new() }
    }

    /// The document of a text that begins at `begin`, or complaints.
    pub(crate) fn document(&mut self, text: &'t str, begin: usize) -> Option<DeTable<'t>> {
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start) + begin;
            self.complain(at, format!("not TOML: {}", error.message().replace('\n', ", ")));
        }
        errors.is_empty().then(|| moved(document.into_inner(), begin))
    }
}

impl Reader<'_> {
    /// A complaint about a place.
    pub(crate) fn complain(&mut self, at: usize, message: String) {
        if self.seen.insert((at, message.clone())) {
            self.errors.push((at, message));
        }
    }

    /// What was read, if there was nothing to complain about.
    pub(crate) fn finish<T>(self, read: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(read) } else { self.refuse() }
    }

    /// Every complaint, by place.
    pub(crate) fn refuse<T>(mut self) -> Result<T, ConfigErrors> {
        // Tables are read key by key; people read from the top.
        self.errors.sort_by_key(|(at, _)| *at);
        Err(ConfigErrors(self.sources.errors(self.errors)))
    }

    /// `Some`: the misspelt or unlucky word has a sentence of its own.
    fn slip(&mut self, node: &Node<'_>, key: &str, text: &str) -> Option<()> {
        let (.., message) = SLIPS.iter().find(|(of, word, _)| *of == key && *word == text)?;
        self.complain(node.span().start, (*message).to_owned());
        Some(())
    }

    /// The value as a table with any keys.
    pub(crate) fn any_table<'n, 't>(
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
    pub(crate) fn require(
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

    pub(crate) fn known_keys(&mut self, table: &DeTable<'_>, whence: &str, known: &[&str]) {
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
    pub(crate) fn text(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        self.text_of(table.get(key)?, key)
    }

    pub(crate) fn text_of(&mut self, node: &Node<'_>, key: &str) -> Option<String> {
        match node.get_ref().as_str() {
            Some("") => {
                if self.slip(node, key, "").is_none() {
                    let message = format!("`{key}` is empty; leave the key out, or give it a text");
                    self.complain(node.span().start, message);
                }
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
    pub(crate) fn choice(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        choices: &[&str],
    ) -> Option<String> {
        let node = table.get(key)?;
        let text = self.text_of(node, key)?;
        self.is_choice(node, key, &text, choices).then_some(text)
    }

    pub(crate) fn is_choice(
        &mut self,
        node: &Node<'_>,
        key: &str,
        text: &str,
        choices: &[&str],
    ) -> bool {
        let known = choices.contains(&text);
        if !known && self.slip(node, key, text).is_none() {
            self.complain(
                node.span().start,
                format!("unknown {key} `{text}`; {}", remedy(text, choices)),
            );
        }
        known
    }

    /// A path; a relative one is below the directory of the file that names it.
    pub(crate) fn path(&mut self, table: &DeTable<'_>, key: &str) -> Option<PathBuf> {
        self.path_of(table.get(key)?, key)
    }

    pub(crate) fn path_of(&mut self, node: &Node<'_>, key: &str) -> Option<PathBuf> {
        let at = node.span().start;
        let text = self.text_of(node, key)?;
        self.is_literal(at, key, &text).then(|| self.sources.directory(at).join(text))
    }

    /// Paths with their places, as they are written; an absent list is empty.
    pub(crate) fn literal_paths(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
    ) -> Vec<(PathBuf, usize)> {
        match table.get(key) {
            Some(node) => self.literal_paths_of(node, key),
            None => Vec::new(),
        }
    }

    pub(crate) fn literal_paths_of(&mut self, node: &Node<'_>, key: &str) -> Vec<(PathBuf, usize)> {
        let mut texts = self.texts_of(node, key).unwrap_or_default();
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
    pub(crate) fn boolean(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        self.boolean_of(table.get(key)?, key)
    }

    pub(crate) fn boolean_of(&mut self, node: &Node<'_>, key: &str) -> Option<bool> {
        let boolean = node.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong(node, &format!("`{key}`"), "`true` or `false`");
        }
        boolean
    }

    /// A whole number within bounds.
    pub(crate) fn number_of(
        &mut self,
        node: &Node<'_>,
        key: &str,
        least: u64,
        most: u64,
    ) -> Option<u64> {
        let right = match least == most {
            true => format!("the number {least}"),
            false => format!("a whole number from {least} to {most}"),
        };
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

    /// A whole number whose type and bounds `shape.rs` has looked at.
    pub(crate) fn count(&self, table: &DeTable<'_>, key: &str) -> Option<u64> {
        let integer = table.get(key)?.get_ref().as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// A list of texts, each once.
    pub(crate) fn texts(&mut self, table: &DeTable<'_>, key: &str) -> Option<Vec<(String, usize)>> {
        self.texts_of(table.get(key)?, key)
    }

    pub(crate) fn texts_of(&mut self, node: &Node<'_>, key: &str) -> Option<Vec<(String, usize)>> {
        let Some(list) = node.get_ref().as_array() else {
            self.wrong(node, &format!("`{key}`"), "a list of texts");
            return None;
        };
        let mut texts: Vec<(String, usize)> = Vec::new();
        let mut named = HashSet::new();
        for entry in list.iter() {
            let Some(text) = self.text_of(entry, key) else { continue };
            let at = entry.span().start;
            if named.insert(text.clone()) {
                texts.push((text, at));
            } else {
                self.complain(at, format!("`{key}` holds `{text}` a second time; name it once"));
            }
        }
        Some(texts)
    }

    /// A table as JSON, for codecs.
    pub(crate) fn json(&mut self, table: &DeTable<'_>, title: &str) -> Map<String, Value> {
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

    pub(crate) fn wrong(&mut self, node: &Node<'_>, what: &str, right: &str) {
        let found = called(node.get_ref());
        self.complain(node.span().start, format!("{what} is {found}; it must be {right}"));
    }

    /// Names of components and doors stand in logs, paths and commands.
    pub(crate) fn is_name(&mut self, key: &Spanned<DeString<'_>>, what: &str) -> bool {
        self.is_name_at(key.span().start, key.get_ref(), what)
    }

    pub(crate) fn is_name_at(&mut self, at: usize, name: &str, what: &str) -> bool {
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
            self.complain(at, message);
        }
        good
    }
}
