//! From several texts to one document: files, one above the other, and above them variables and arguments.
//! What the document must hold is `check.rs`.

use std::path::Path;

use toml::de::DeTable;

use super::{Manifest, Overrides, check, keys::MANIFEST};
use crate::{
    error::{ConfigErrors, utf8},
    reader::Reader,
    shape,
    sources::{SourceKind, Sources, merge},
};

/// The lists that go on below where any other is replaced. The first rule that matches decides, so that a later file's
/// rules have the first word and none of an earlier one disappears; nor does a hook, which only ever narrows.
const JOINED: &[&[&str]] = &[&["hook"], &["permissions", "rule"]];

/// One file.
pub(super) struct Layer<'t> {
    pub(super) name: String,
    /// What its relative paths are below.
    pub(super) directory: &'t Path,
    pub(super) bytes: &'t [u8],
}

impl<'t> Layer<'t> {
    pub(super) fn file(file: &'t Path, bytes: &'t [u8]) -> Layer<'t> {
        let directory = file.parent().unwrap_or(Path::new(""));
        Layer { name: file.display().to_string(), directory, bytes }
    }
}

pub(super) fn manifest(
    layers: Vec<Layer<'_>>,
    overrides: &Overrides,
) -> Result<Manifest, ConfigErrors> {
    let mut texts = Vec::new();
    let mut wrong = Vec::new();
    for Layer { name, directory, bytes } in layers {
        match utf8(Path::new(&name), bytes) {
            Ok(text) => texts.push((name, directory, text)),
            Err(errors) => wrong.extend(errors.0),
        }
    }
    if !wrong.is_empty() {
        return Err(ConfigErrors(wrong));
    }

    let mut reader = Reader::new(Sources::default());
    let mut document = DeTable::new();
    let mut readable = true;
    for (name, directory, text) in texts {
        let begin = reader.sources.add(name, text, directory, SourceKind::File);
        match reader.document(text, begin) {
            Some(table) => lay(&mut reader, &mut document, table),
            None => readable = false,
        }
    }
    for entry in overrides.entries() {
        let directory = overrides.directory();
        let name = entry.name.clone();
        let begin = reader.sources.add(name, entry.text(), directory, SourceKind::Value);
        match entry.table(begin) {
            Ok(table) => lay(&mut reader, &mut document, table),
            Err(message) => reader.complain(begin, message),
        }
    }
    if !readable {
        // What an unreadable file says is not known, so nothing can be said of the whole.
        return reader.refuse();
    }
    let manifest = check::manifest(&mut reader, &document);
    reader.finish(manifest)
}

/// Checks one layer alone, then lays it over those below.
fn lay<'t>(reader: &mut Reader<'t>, document: &mut DeTable<'t>, table: DeTable<'t>) {
    shape::check(reader, &table, &MANIFEST, "");
    merge(document, table, JOINED);
}

#[cfg(test)]
mod tests;
