//! The schemas against the files of the checkout: what the checks accept they accept, and of what the checks refuse they
//! refuse what a schema can say.
//!
//! They use a dozen words of JSON Schema. [`faults`] knows exactly these, and a word it does not know fails a test.

use std::collections::BTreeMap;

use super::*;

fn schemas() -> BTreeMap<&'static str, Value> {
    let parsed = |file: Generated| (file.path, serde_json::from_str(&file.text).expect("JSON"));
    generated().map(parsed).into_iter().collect()
}

/// What is wrong with a value, each with the keys that lead to it.
fn faults(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let words = schema.as_object().expect("a schema is an object");
    for (word, wanted) in words {
        let good = match word.as_str() {
            "$schema" | "$comment" | "title" | "description" | "default" => true,
            "type" => match wanted.as_str().expect("one type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                other => panic!("the type {other} is not known here"),
            },
            "enum" => wanted.as_array().expect("a list").contains(value),
            "minimum" => value.as_i64().is_none_or(|number| number >= wanted.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|number| number <= wanted.as_i64().unwrap()),
            "minLength" => {
                let length = |text: &str| text.chars().count() as u64;
                value.as_str().is_none_or(|text| length(text) >= wanted.as_u64().unwrap())
            }
            "pattern" => value.as_str().is_none_or(|text| matches(wanted.as_str().unwrap(), text)),
            "uniqueItems" => value.as_array().is_none_or(|list| {
                list.iter().enumerate().all(|(at, entry)| !list[..at].contains(entry))
            }),
            "minItems" => {
                value.as_array().is_none_or(|list| list.len() as u64 >= wanted.as_u64().unwrap())
            }
            "required" => value.as_object().is_none_or(|object| {
                wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|key| object.contains_key(key.as_str().unwrap()))
            }),
            "items" => {
                for (at, entry) in value.as_array().into_iter().flatten().enumerate() {
                    faults(wanted, entry, &format!("{path}.{at}"), found);
                }
                true
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flat_map(Map::keys) {
                    faults(wanted, &json!(key), &format!("{path}.{key}"), found);
                }
                true
            }
            "properties" => {
                for (key, schema) in wanted.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        faults(schema, value, &format!("{path}.{key}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let named = words.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                let others =
                    others.filter(|(key, _)| named.is_none_or(|named| !named.contains_key(*key)));
                for (key, value) in others {
                    let path = format!("{path}.{key}");
                    match wanted {
                        Value::Bool(true) => {}
                        Value::Bool(false) => found.push(format!("{path}: unknown")),
                        schema => faults(schema, value, &path, found),
                    }
                }
                true
            }
            other => panic!("the word {other} is not known here"),
        };
        if !good {
            found.push(format!("{path}: {word}"));
        }
    }
}

/// The patterns of the schemas by hand, so that no dialect of regular expressions decides.
fn matches(pattern: &str, text: &str) -> bool {
    let plain =
        |rest: &str| rest.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match pattern {
        NAME => {
            (1..=64).contains(&text.len())
                && plain(text)
                && text.starts_with(|first: char| first.is_ascii_lowercase())
        }
        PATH => !text.is_empty() && !text.starts_with('~') && !text.contains('$'),
        r"^[a-z0-9-]+(/[a-z0-9-]+)*(/\*)?$" => {
            let words = text.strip_suffix("/*").unwrap_or(text).split('/');
            words.into_iter().all(|word| !word.is_empty() && plain(word))
        }
        "^RW[Q-T][A-Za-z0-9+/]{53}$" => {
            text.len() == 56
                && text.starts_with("RW")
                && matches!(text.as_bytes()[2], b'Q'..=b'T')
                && text.bytes().all(base64)
        }
        "^sha256:[0-9a-f]{64}$" => text.strip_prefix("sha256:").is_some_and(|digits| {
            digits.len() == 64
                && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        }),
        "^https?://." => {
            let rest = text.strip_prefix("http://").or(text.strip_prefix("https://"));
            rest.is_some_and(|rest| !rest.is_empty())
        }
        r"^[^=*\s]+$" => {
            !text.is_empty()
                && !text.contains(|character: char| {
                    matches!(character, '=' | '*') || character.is_whitespace()
                })
        }
        "^/" => text.starts_with('/'),
        r"^(127\.[0-9.]+|\[::1\]):[0-9]+$" => text.rsplit_once(':').is_some_and(|(host, port)| {
            (host.starts_with("127.") || host == "[::1]")
                && !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
        }),
        other => panic!("the pattern {other} is not known here"),
    }
}

fn check(schema: &str, text: &str) -> Vec<String> {
    let table: toml::Table = text.parse().expect("TOML");
    let mut found = Vec::new();
    faults(&schemas()[schema], &plain(toml::Value::Table(table)), "", &mut found);
    found
}

/// TOML as JSON, with dates as the texts that they are not: no key of ours is one.
fn plain(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => json!(text),
        toml::Value::Integer(number) => json!(number),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(boolean) => json!(boolean),
        toml::Value::Datetime(moment) => json!(moment.to_string()),
        toml::Value::Array(list) => list.into_iter().map(plain).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, plain(value))).collect())
        }
    }
}

/// Every file below a folder of the checkout with this ending.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let root = Workspace::here().expect("a test runs in its checkout").root.join(folder);
    let entries = walkdir::WalkDir::new(&root).sort_by_file_name().into_iter();
    let paths = entries.map(|entry| entry.expect("a file").into_path());
    let paths: Vec<_> =
        paths.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect();
    assert!(!paths.is_empty(), "{folder} has files");
    let read = |path: std::path::PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
    };
    paths.into_iter().map(read).collect()
}

fn blocks(page: &str, language: &str) -> Vec<(String, String)> {
    let path = Workspace::here().expect("a test runs in its checkout").root.join(page);
    let text = fs::read_to_string(path).expect(page);
    let begin = format!("```{language}\n");
    let blocks = text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| (page.to_owned(), block.to_owned())).collect()
}

#[test]
fn generated_files_are_fresh() {
    let workspace = Workspace::here().expect("a test runs in its checkout");
    schema(&workspace, true).expect("fresh");
}

#[test]
fn what_the_checks_accept_is_accepted() {
    let mut texts = Vec::new();
    let mut add = |schema: &'static str, files: Vec<(String, String)>| {
        assert!(!files.is_empty(), "{schema}");
        texts.extend(files.into_iter().map(|(name, text)| (schema, name, text)));
    };
    add("schemas/manifest.json", files("tests/messages/config/valid", ".toml"));
    add("schemas/manifest.json", files("tests/messages/layers/valid", ".toml"));
    add("schemas/manifest.json", blocks("docs/manifest.md", "toml"));
    let built_in = transom_config::manifest::BUILT_IN.to_owned();
    add("schemas/manifest.json", vec![("the built-in manifest".to_owned(), built_in)]);
    add("schemas/lock.json", files("tests/messages/lock/valid", ".toml"));
    add("schemas/lock.json", blocks("docs/manifest.md", "toml-lock"));
    add("policies/schema.json", files("policies", ".toml"));
    add("policies/schema.json", blocks("policies/README.md", "toml"));
    for (schema, name, text) in texts {
        assert_eq!(check(schema, &text), [""; 0], "{name}");
    }
}

/// Complaints that only a whole reading can make: what keys have to do with each other, what must be there, duplicates
/// up to spelling, what a pattern cannot say.
const BEYOND: &[&str] = &[
    "config/invalid/agent-is-no-door",
    "config/invalid/agent-kinds",
    "config/invalid/answers-foreign",
    "config/invalid/answers-nobody",
    "config/invalid/column-in-characters",
    "config/invalid/component-named-frames",
    "config/invalid/component-without-source",
    "config/invalid/confine-show",
    "config/invalid/control-at-a-door",
    "config/invalid/control-at-the-store",
    "config/invalid/control-off-and-listen",
    "config/invalid/control-too-long",
    "config/invalid/door-without-keys",
    "config/invalid/empty-door-table",
    "config/invalid/empty-file",
    "config/invalid/jobs-in-disorder",
    "config/invalid/limits-in-disorder",
    "config/invalid/listen-too-long",
    "config/invalid/metrics-port-too-large",
    "config/invalid/no-agents",
    "config/invalid/no-door",
    "config/invalid/options-with-a-date",
    "config/invalid/rule-allows-by-pattern",
    "config/invalid/rule-impossible-path",
    "config/invalid/rule-unknown-argument",
    "config/invalid/rules-equal",
    "config/invalid/stdio-with-listen",
    "config/invalid/store-at-a-socket",
    "config/invalid/two-doors-on-one-socket",
    "config/invalid/two-doors-on-stdio",
    "config/invalid/two-spellings-of-one-socket",
    "config/invalid/unix-without-listen",
    "config/invalid/unknown-component",
    "lock/invalid/duplicate-name",
    "policy/invalid/limits-in-disorder",
    "policy/invalid/trust-with-an-empty-list",
    "policy/invalid/trust-without-keys",
];

#[test]
fn what_the_checks_refuse_is_refused_where_a_schema_can_say_it() {
    let mut beyond = Vec::new();
    for (schema, folder) in [
        ("schemas/manifest.json", "config/invalid"),
        ("schemas/lock.json", "lock/invalid"),
        ("policies/schema.json", "policy/invalid"),
    ] {
        for (path, text) in files(&format!("tests/messages/{folder}"), ".toml") {
            // What is not TOML has no schema to break.
            if text.parse::<toml::Table>().is_err() || !check(schema, &text).is_empty() {
                continue;
            }
            let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".toml"));
            beyond.push(format!("{folder}/{}", name.expect("a file")));
        }
    }
    assert_eq!(beyond, BEYOND, "a case that no schema can tell is listed in BEYOND");
}

#[test]
fn a_key_has_its_type_its_bounds_its_default_and_what_it_means() {
    let schemas = schemas();
    let at = |schema: &str, pointer: &str| schemas[schema].pointer(pointer).cloned();
    assert_eq!(
        at("policies/schema.json", "/properties/limits/properties/nesting-max"),
        Some(json!({
            "type": "integer",
            "minimum": 1,
            "maximum": 65536,
            "description": "arrays and objects open at one place of a unit",
            "default": 512,
        }))
    );
    let component = "/properties/component/additionalProperties/properties";
    assert_eq!(
        at("schemas/manifest.json", &format!("{component}/watch")),
        Some(json!({
            "type": "boolean",
            "description": "`true`: a changed file of the component is swapped in by itself",
            "default": false,
        }))
    );
    assert_eq!(
        at("schemas/lock.json", "/properties/component/items/required"),
        Some(json!(["name", "version", "digest", "source"]))
    );
    // A manifest may be one of several: what it lacks another may have, except in the tables of a list.
    assert_eq!(at("schemas/manifest.json", "/required"), None);
    assert_eq!(
        at("schemas/manifest.json", "/properties/permissions/properties/rule/items/required"),
        Some(json!(["tool", "decision"]))
    );
}
