//! Files that are written from others, and whether they are fresh: the schemas that editors check policies, manifests and
//! locks with. They are made from the tables of keys that the checks use, which stand with the checks.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use transom_config::{lock::LOCK, manifest::keys::MANIFEST};
use transom_policy::{
    POLICY,
    keys::{Key, Kind, Literal, Table},
};

use crate::workspace::Workspace;

/// Names of doors and components.
const NAME: &str = "^[a-z][a-z0-9-]{0,63}$";

/// A path is taken literally: nothing is replaced in it.
const PATH: &str = "^[^~$][^$]*$";

/// A file of the checkout and what it must say.
struct Generated {
    path: &'static str,
    source: &'static str,
    text: String,
}

/// Whether a file may be one of several that make a whole. Then it need not have what the whole must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Part,
}

/// Writes what is stale, or with `check` only says so.
pub fn schema(workspace: &Workspace, check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for Generated { path, source, text } in generated() {
        let file = workspace.root.join(path);
        if fs::read_to_string(&file).is_ok_and(|found| found == text) {
            println!("{path} is fresh");
        } else if check {
            stale.push(format!("{path} no longer says what {source} says"));
        } else {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).context(path)?;
            }
            fs::write(&file, text).context(path)?;
            println!("{path} is written");
        }
    }
    if !stale.is_empty() {
        bail!("{}: run `cargo xtask schema`", stale.join(", "));
    }
    Ok(())
}

fn generated() -> [Generated; 3] {
    let file = |path, title: &str, source, table: &Table, extent| Generated {
        path,
        source,
        text: format!("{:#}\n", document(title, source, table, extent)),
    };
    [
        file(
            "policies/schema.json",
            "Transom policy",
            "host/transom-policy",
            &POLICY,
            Extent::Whole,
        ),
        file(
            "schemas/manifest.json",
            "Transom manifest",
            "host/transom-config/src/manifest/keys.rs",
            &MANIFEST,
            Extent::Part,
        ),
        file(
            "schemas/lock.json",
            "Transom lock",
            "host/transom-config/src/lock.rs",
            &LOCK,
            Extent::Whole,
        ),
    ]
}

fn document(title: &str, source: &str, known: &Table, extent: Extent) -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    schema.insert(
        "$comment".into(),
        format!("Written by `cargo xtask schema` from {source}.").into(),
    );
    schema.insert("description".into(), known.doc.into());
    schema.append(&mut table(known, extent));
    Value::Object(schema)
}

fn table(known: &Table, extent: Extent) -> Map<String, Value> {
    let properties = known.keys.iter().map(|key| (key.name.to_owned(), property(key, extent)));
    let properties: Map<String, Value> = properties.collect();
    let mut schema = object(json!({ "type": "object", "additionalProperties": false }));
    let required = known.keys.iter().filter(|key| key.required).map(|key| key.name);
    let required: Vec<_> = required.filter(|_| extent == Extent::Whole).collect();
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("properties".into(), Value::Object(properties));
    schema
}

fn property(key: &Key, extent: Extent) -> Value {
    let mut schema = value(&key.kind, extent);
    schema.insert("description".into(), key.doc.into());
    if let Some(default) = key.default {
        let default = match default {
            Literal::Boolean(boolean) => json!(boolean),
            Literal::Number(number) => json!(number),
            Literal::Text(text) => json!(text),
            Literal::Texts(texts) => json!(texts),
        };
        schema.insert("default".into(), default);
    }
    Value::Object(schema)
}

fn value(kind: &Kind, extent: Extent) -> Map<String, Value> {
    match kind {
        Kind::Text => object(json!({ "type": "string", "minLength": 1 })),
        Kind::Shaped(pattern) => object(json!({ "type": "string", "pattern": pattern })),
        Kind::Path => object(json!({ "type": "string", "pattern": PATH })),
        Kind::Boolean => object(json!({ "type": "boolean" })),
        Kind::Number { least, most } => {
            object(json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        Kind::Word(words) => object(json!({ "enum": words })),
        Kind::List(entry) => object(json!({
            "type": "array",
            "uniqueItems": true,
            "items": property(entry, Extent::Whole),
        })),
        Kind::Command => object(json!({
            "type": "array",
            "minItems": 1,
            "items": { "type": "string" },
        })),
        Kind::Table(known) => table(known, extent),
        Kind::Named(known) => object(json!({
            "type": "object",
            "propertyNames": { "pattern": NAME },
            "additionalProperties": table(known, extent),
        })),
        // No file completes a table in the list of another.
        Kind::Tables(known) => {
            object(json!({ "type": "array", "items": table(known, Extent::Whole) }))
        }
        Kind::Entries(entry) => object(json!({
            "type": "object",
            "additionalProperties": property(entry, Extent::Whole),
        })),
        Kind::Any => object(json!({ "type": "object" })),
    }
}

/// The content of an object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

#[cfg(test)]
mod tests;
