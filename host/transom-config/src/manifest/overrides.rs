//! What the environment and the command line say instead of a manifest: `TRANSOM_MODEL__PROVIDER` and
//! `--set model.provider=…`. Each is read like a manifest of one key, which lies above all files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{reader::Node, sources::moved_node};

const PREFIX: &str = "TRANSOM_";

/// More keys than any path has, apart from options that a codec gets; a bound, because tables are walked by recursion.
const KEYS_MAX: usize = 32;

/// Values that take the place of a manifest's: first those of the environment, above them those of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    directory: PathBuf,
    entries: Vec<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Override {
    /// The variable or the argument, for complaints.
    pub(super) name: String,
    /// The keys that lead to the value, or why there are none.
    path: Result<Vec<String>, String>,
    value: String,
}

impl Overrides {
    /// Reads overrides. Relative paths in them are below `directory`.
    ///
    /// Of the environment, those variables count that begin with `TRANSOM_` and have `__` between the keys, `_` standing
    /// for `-`. Each of `sets` is `key.path=value`; a later one wins. A value is read as TOML if it is that, else as text.
    pub fn new<'a>(
        directory: &Path,
        environment: &BTreeMap<String, String>,
        sets: impl IntoIterator<Item = &'a str>,
    ) -> Overrides {
        let variables = environment.iter().filter_map(|(name, value)| variable(name, value));
        let entries = variables.chain(sets.into_iter().map(argument)).collect();
        Overrides { directory: directory.to_owned(), entries }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn entries(&self) -> &[Override] {
        &self.entries
    }
}

impl Override {
    /// The text that its places are in.
    pub(super) fn text(&self) -> &str {
        &self.value
    }

    /// The manifest of this one key, its text beginning at `begin`; or what is wrong.
    pub(super) fn table(&self, begin: usize) -> Result<DeTable<'_>, String> {
        let path = self.path.as_ref().map_err(Clone::clone)?;
        let span = begin..begin;
        let mut node = moved_node(value(&self.value)?, begin);
        let mut table = DeTable::new();
        let mut keys = path.iter().rev().peekable();
        while let Some(key) = keys.next() {
            let key = Spanned::new(span.clone(), key.clone().into());
            if keys.peek().is_none() {
                table.insert(key, node);
                break;
            }
            node = Spanned::new(span.clone(), DeValue::Table([(key, node)].into_iter().collect()));
        }
        Ok(table)
    }
}

fn value(text: &str) -> Result<Node<'_>, String> {
    let trimmed = text.trim();
    match DeValue::parse(trimmed) {
        Ok(node) => Ok(node),
        // Whoever wrote that meant TOML.
        Err(error) if trimmed.starts_with(['"', '\'', '[', '{']) => Err(format!(
            "the value is not TOML: {}; put a text that begins so into quotation marks",
            error.message().replace('\n', ", ")
        )),
        Err(_) => Ok(Spanned::new(0..0, DeValue::String(text.into()))),
    }
}

fn variable(name: &str, value: &str) -> Option<Override> {
    let keys = name.strip_prefix(PREFIX).filter(|keys| keys.contains("__"))?;
    let path = if keys.split("__").any(str::is_empty) {
        Err("a key is missing; write `TRANSOM_<TABLE>__<KEY>`".to_owned())
    } else if keys.contains(|character: char| character.is_lowercase()) {
        // Two spellings of one key would hide each other.
        Err(format!("write it in capitals: `{}`", name.to_uppercase()))
    } else if keys.split("__").count() > KEYS_MAX {
        Err(too_many())
    } else {
        Ok(keys.split("__").map(|key| key.to_lowercase().replace('_', "-")).collect())
    };
    Some(Override { name: name.to_owned(), path, value: value.to_owned() })
}

fn argument(argument: &str) -> Override {
    let (path, value) = match divided(argument) {
        Some((path, value)) => (keys(path), value),
        None => (Err("no value is given; write `--set key.path=value`".to_owned()), ""),
    };
    let path_text = divided(argument).map_or(argument, |(path, _)| path);
    Override { name: format!("--set {}", path_text.trim()), path, value: value.to_owned() }
}

/// Both sides of the first `=` outside quotation marks.
fn divided(argument: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, character) in argument.char_indices() {
        match (quote, character) {
            (None, '=') => return Some((argument.get(..at)?, argument.get(at + 1..)?)),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

/// The keys of a path, written as TOML's own dotted keys.
fn keys(path: &str) -> Result<Vec<String>, String> {
    let line = format!("{path}=0");
    let wrong = || {
        format!(
            "{path:?} is no path of keys; write it like `model.provider` or `door.sdk.options.\"a b\"`"
        )
    };
    // A line break or a bracket would begin another key or a table.
    if path.contains(['\n', '\r']) || path.trim_start().starts_with('[') {
        return Err(wrong());
    }
    let mut table = DeTable::parse(&line).map_err(|_| wrong())?.into_inner();
    let mut keys = Vec::new();
    while let Some((key, node)) = table.into_iter().next() {
        keys.push(key.into_inner().into_owned());
        table = match node.into_inner() {
            DeValue::Table(table) => table,
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => DeTable::new(),
        };
    }
    match keys.len() {
        0 => Err(wrong()),
        1..=KEYS_MAX => Ok(keys),
        _ => Err(too_many()),
    }
}

fn too_many() -> String {
    format!("the path has more than {KEYS_MAX} keys; give a table as the value instead")
}
