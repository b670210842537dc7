//! Arguments and values against the schema subset of M-40, with the texts of L-54 in their order
//! (decision 41). Schemas outside the subset are not for this module.

use serde_json::{Map, Value};

/// Keywords that are checked here, and those that only describe.
const KEYWORDS: [&str; 12] = [
    "type",
    "oneOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "description",
    "title",
    "default",
    "examples",
];

/// How places in the checked value are spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// `arguments`, and `a.b` below it (L-54).
    Arguments,
    /// `value`, and `value.a.b` below it (M-41).
    Value,
}

/// The arguments of a call from the model's text (L-54): nothing is no arguments, and what is not
/// JSON stays a string, which no schema of a tool accepts.
pub fn decode(text: &str) -> Value {
    if text.is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The first keyword that makes a schema unfit for [`violations`].
pub fn unsupported(schema: &Value) -> Option<String> {
    let Some(schema) = schema.as_object() else {
        return Some("a schema that is not an object".to_owned());
    };
    if let Some(keyword) = schema.keys().find(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
        return Some(keyword.clone());
    }
    if schema.get("type").is_some_and(|kind| kind.as_str().and_then(type_phrase).is_none()) {
        return Some("type".to_owned());
    }
    if schema.get("additionalProperties").is_some_and(|value| !value.is_boolean()) {
        return Some("additionalProperties".to_owned());
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let branches = schema.get("oneOf").and_then(Value::as_array);
    let below = properties.into_iter().flat_map(Map::values).chain(branches.into_iter().flatten());
    below.chain(schema.get("items")).find_map(unsupported)
}

/// Everything that is wrong with a value, in the order in which it is told.
pub fn violations(schema: &Value, value: &Value, root: Root) -> Vec<String> {
    let mut found = Vec::new();
    let path = match root {
        Root::Arguments => "",
        Root::Value => "value",
    };
    check(&mut found, schema, value, path);
    found
}

fn check(found: &mut Vec<String>, schema: &Value, value: &Value, path: &str) {
    let Some(schema) = schema.as_object() else { return };
    let place = if path.is_empty() { "arguments" } else { path };

    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !has_type(value, kind)
    {
        let phrase = type_phrase(kind).unwrap_or(kind);
        found.push(format!("\"{place}\" must be {phrase}"));
        // What else the schema says is about values of that type.
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.iter().any(|one| is_equal(one, value))
    {
        let list = Value::Array(allowed.clone());
        found.push(format!("\"{place}\" must be one of {list}"));
    }
    if let Some(constant) = schema.get("const")
        && !is_equal(constant, value)
    {
        found.push(format!("\"{place}\" must be {constant}"));
    }
    if let Some(branches) = schema.get("oneOf").and_then(Value::as_array) {
        let matches = |branch: &&Value| {
            let mut inner = Vec::new();
            check(&mut inner, branch, value, path);
            inner.is_empty()
        };
        let matched = branches.iter().filter(matches).count();
        if matched != 1 {
            found.push(format!(
                "\"{place}\" must match exactly one oneOf branch (matched {matched})"
            ));
        }
    }
    match value {
        Value::Object(members) => check_members(found, schema, members, path),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(found, schema, item, &format!("{path}[{index}]"));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// First what is missing, then what is there and declared, then what is not declared.
fn check_members(
    found: &mut Vec<String>,
    schema: &Map<String, Value>,
    members: &Map<String, Value>,
    path: &str,
) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !members.contains_key(name) {
            found.push(format!("missing required property \"{}\"", below(name)));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        if let Some(member) = members.get(name) {
            check(found, schema, member, &below(name));
        }
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        for name in members.keys() {
            if !properties.is_some_and(|properties| properties.contains_key(name)) {
                found.push(format!(
                    "\"{}\" is not a declared property (additionalProperties: false)",
                    below(name)
                ));
            }
        }
    }
}

fn type_phrase(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "string" => "a string",
        "number" => "a number",
        "integer" => "an integer",
        "boolean" => "a boolean",
        "null" => "null",
        "array" => "an array",
        "object" => "an object",
        _ => return None,
    })
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        // `3.0` is the same JSON number as `3`.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Equal as JSON: numbers by value, however they are written.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}
