//! The texts of L-54 and their order, row by row.

use serde_json::{Value, json};

use crate::{Root, decode, unsupported, violations};

fn check(schema: &Value, value: &Value, expected: &str) {
    assert_eq!(unsupported(schema), None, "{schema}");
    assert_eq!(
        violations(schema, value, Root::Arguments).join("; "),
        expected,
        "{schema} with {value}"
    );
}

#[test]
fn arguments_are_told_what_is_wrong_with_them() {
    let one = |schema: Value| json!({ "type": "object", "properties": { "x": schema } });
    let nested = json!({
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": { "b": { "type": "string" } },
                "required": ["b", "c"],
                "additionalProperties": false
            },
            "list": { "type": "array", "items": { "type": "object", "required": ["id"] } },
            "last": { "type": "boolean" }
        },
        "required": ["last", "a"]
    });
    let branches = one(
        json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }, { "type": "number" }] }),
    );

    let table = [
        (one(json!({ "type": "string" })), json!({ "x": 1 }), "\"x\" must be a string"),
        (one(json!({ "type": "number" })), json!({ "x": "1" }), "\"x\" must be a number"),
        (one(json!({ "type": "integer" })), json!({ "x": 1.5 }), "\"x\" must be an integer"),
        (one(json!({ "type": "integer" })), json!({ "x": 3.0 }), ""),
        (one(json!({ "type": "boolean" })), json!({ "x": null }), "\"x\" must be a boolean"),
        (one(json!({ "type": "null" })), json!({ "x": 0 }), "\"x\" must be null"),
        (one(json!({ "type": "array" })), json!({ "x": {} }), "\"x\" must be an array"),
        (one(json!({ "type": "object" })), json!({ "x": [] }), "\"x\" must be an object"),
        (one(json!({ "enum": ["a", 2] })), json!({ "x": "b" }), "\"x\" must be one of [\"a\",2]"),
        (one(json!({ "enum": ["a", 2] })), json!({ "x": 2.0 }), ""),
        (one(json!({ "const": "a" })), json!({ "x": "b" }), "\"x\" must be \"a\""),
        (branches.clone(), json!({ "x": "s" }), ""),
        (branches.clone(), json!({ "x": 1.5 }), ""),
        (
            branches.clone(),
            json!({ "x": 1 }),
            "\"x\" must match exactly one oneOf branch (matched 2)",
        ),
        (branches, json!({ "x": [] }), "\"x\" must match exactly one oneOf branch (matched 0)"),
        // Roots made of a property map are open.
        (one(json!({ "type": "string" })), json!({ "y": 1 }), ""),
        // Missing ones first, then what is there in the schema's order, then what is not declared.
        (
            nested.clone(),
            json!({ "list": [{}, 1], "a": { "z": 1, "b": 2 } }),
            "missing required property \"last\"; missing required property \"a.c\"; \"a.b\" must be a string; \
             \"a.z\" is not a declared property (additionalProperties: false); \
             missing required property \"list[0].id\"; \"list[1]\" must be an object",
        ),
        (nested.clone(), json!([]), "\"arguments\" must be an object"),
        (nested, json!("text"), "\"arguments\" must be an object"),
    ];
    for (schema, value, expected) in table {
        check(&schema, &value, expected);
    }
}

#[test]
fn values_are_spoken_of_by_their_own_name() {
    let schema = json!({
        "type": "object",
        "properties": {
            "structuredContent": { "type": "object", "properties": { "answer": { "type": "number" } } }
        },
        "required": ["structuredContent"]
    });
    let told = |value| violations(&schema, &value, Root::Value);
    assert_eq!(told(json!({})), ["missing required property \"value.structuredContent\""]);
    assert_eq!(
        told(json!({ "structuredContent": { "answer": "x" } })),
        ["\"value.structuredContent.answer\" must be a number"]
    );
    assert_eq!(told(json!(1)), ["\"value\" must be an object"]);
}

#[test]
fn schemas_outside_the_subset_are_named() {
    let table = [
        (json!({ "type": "object", "anyOf": [] }), Some("anyOf")),
        (json!({ "properties": { "x": { "minimum": 1 } } }), Some("minimum")),
        (json!({ "items": { "oneOf": [{ "pattern": "a" }] } }), Some("pattern")),
        (json!({ "type": ["string", "null"] }), Some("type")),
        (json!({ "type": "text" }), Some("type")),
        (json!({ "additionalProperties": {} }), Some("additionalProperties")),
        (json!(true), Some("a schema that is not an object")),
        (json!({ "title": "t", "default": 1, "examples": [], "description": "d" }), None),
    ];
    for (schema, expected) in table {
        assert_eq!(unsupported(&schema).as_deref(), expected, "{schema}");
    }
}

#[test]
fn argument_text_is_decoded_leniently() {
    let deep = "[".repeat(100_000);
    let table = [
        ("", json!({})),
        ("{}", json!({})),
        (" {\"a\": 1, \"a\": 2} ", json!({ "a": 2 })),
        ("not json", json!("not json")),
        ("{\"a\":", json!("{\"a\":")),
        ("[1]", json!([1])),
        (deep.as_str(), json!(deep)),
    ];
    for (text, expected) in table {
        assert_eq!(decode(text), expected);
    }
}
