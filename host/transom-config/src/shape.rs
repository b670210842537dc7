//! Whether a table has known keys with values of the right type: what can be said of one file alone.
//! What keys have to do with each other, and which must be there, is checked where they are read.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};
use transom_policy::keys::{Key, Kind, Table};

use crate::{
    error::remedy,
    reader::{Node, Reader},
};

/// Complains about every key and value of a table that is not as `known` says. `title` is the table's own path, empty at
/// the top.
pub(crate) fn check(reader: &mut Reader<'_>, table: &DeTable<'_>, known: &Table, title: &str) {
    let whence = match title {
        "" => "at the top".to_owned(),
        title => format!("in [{title}]"),
    };
    reader.known_keys(table, &whence, &known.names());
    for key in known.keys {
        if let Some(node) = table.get(key.name) {
            let path = match title {
                "" => key.name.to_owned(),
                title => format!("{title}.{}", key.name),
            };
            value(reader, node, key, key.name, &path);
        }
    }
}

/// `name` is the key in complaints about a plain value, `path` in those about a table.
fn value(reader: &mut Reader<'_>, node: &Node<'_>, key: &Key, name: &str, path: &str) {
    match key.kind {
        Kind::Text | Kind::Shaped(_) => _ = reader.text_of(node, name),
        Kind::Path => _ = reader.path_of(node, name),
        Kind::Boolean => _ = reader.boolean_of(node, name),
        Kind::Number { least, most } => _ = reader.number_of(node, name, least, most),
        Kind::Word(words) => {
            if let Some(text) = reader.text_of(node, name) {
                reader.is_choice(node, key.name, &text, words);
            }
        }
        Kind::List(entry) => list(reader, node, entry, name),
        Kind::Command => _ = command(reader, node, name),
        Kind::Table(known) => {
            if let Some(table) = reader.any_table(node, path) {
                check(reader, table, known, path);
            }
        }
        Kind::Named(known) => {
            let Some(tables) = reader.any_table(node, path) else { return };
            for (name, node) in tables {
                if !reader.is_name(name, key.name) {
                    continue;
                }
                let path = format!("{path}.{}", name.get_ref());
                if let Some(table) = reader.any_table(node, &path) {
                    check(reader, table, known, &path);
                }
            }
        }
        Kind::Tables(known) => {
            let Some(tables) = tables(reader, node, name, path) else { return };
            for node in tables {
                if let Some(table) = reader.any_table(node, path) {
                    check(reader, table, known, path);
                }
            }
        }
        Kind::Entries(entry) => {
            let Some(table) = reader.any_table(node, name) else { return };
            for (name, node) in table {
                value(reader, node, entry, name.get_ref(), path);
            }
        }
        Kind::Any => {
            if let Some(table) = reader.any_table(node, name) {
                reader.json(table, name);
            }
        }
    }
}

fn list(reader: &mut Reader<'_>, node: &Node<'_>, entry: &Key, name: &str) {
    match entry.kind {
        Kind::Path => _ = reader.literal_paths_of(node, name),
        Kind::Word(words) => _ = words_of(reader, node, entry.name, name, words),
        Kind::Text
        | Kind::Shaped(_)
        | Kind::Boolean
        | Kind::Number { .. }
        | Kind::List(_)
        | Kind::Command
        | Kind::Table(_)
        | Kind::Named(_)
        | Kind::Tables(_)
        | Kind::Entries(_)
        | Kind::Any => _ = reader.texts_of(node, name),
    }
}

/// A program with its arguments, each with its place.
pub(crate) fn command(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    name: &str,
) -> Option<Vec<(String, usize)>> {
    let Some(list) = node.get_ref().as_array() else {
        reader.wrong(node, &format!("`{name}`"), "a list of texts, the program first");
        return None;
    };
    let mut words = Vec::new();
    for entry in list.iter() {
        match entry.get_ref().as_str() {
            Some(text) => words.push((text.to_owned(), entry.span().start)),
            None => reader.wrong(entry, &format!("`{name}`"), "a text in quotation marks"),
        }
    }
    Some(words)
}

/// The program of a key `command`, and its arguments. A name is looked up in `PATH`; anything else is a file.
pub(crate) fn program(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<(PathBuf, Vec<String>)> {
    let words = command(reader, node, "command")?;
    for (_, at) in words.iter().filter(|(word, _)| word.contains('\0')) {
        let message = "`command` holds a zero byte, which no program can be given";
        reader.complain(*at, message.to_owned());
    }
    let mut words = words.into_iter();
    let Some((name, _)) = words.next().filter(|(name, _)| !name.is_empty()) else {
        let message = "`command` names no program; it begins with one".to_owned();
        reader.complain(node.span().start, message);
        return None;
    };
    let program = match node.get_ref().as_array()?.iter().next() {
        Some(first) if name.contains('/') => reader.path_of(first, "command")?,
        Some(_) | None => name.into(),
    };
    Some((program, words.map(|(word, _)| word).collect()))
}

/// A list of words, each one of `words`; `what` is one of them.
pub(crate) fn words_of(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    what: &str,
    name: &str,
    words: &[&str],
) -> Option<Vec<String>> {
    let texts = reader.texts_of(node, name)?;
    for (text, at) in &texts {
        if !words.contains(&text.as_str()) {
            reader.complain(*at, format!("unknown {what} `{text}`; {}", remedy(text, words)));
        }
    }
    Some(texts.into_iter().map(|(text, _)| text).collect())
}

/// A list of tables, such as `[[permissions.rule]]`.
pub(crate) fn tables<'n, 't>(
    reader: &mut Reader<'_>,
    node: &'n Node<'t>,
    name: &str,
    path: &str,
) -> Option<&'n [Node<'t>]> {
    match node.get_ref() {
        DeValue::Array(list) => Some(list),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => {
            let right = format!("a list of tables, each under [[{path}]]");
            reader.wrong(node, &format!("`{name}`"), &right);
            None
        }
    }
}
