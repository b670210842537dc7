//! Files that are written from others, and whether they are fresh. The sources are left to their owners.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::workspace::Workspace;

const POLICY_SOURCE: &str = "policies/default.toml";
const POLICY_SCHEMA: &str = "policies/schema.json";

/// Writes what is stale, or with `check` only says so.
pub fn schema(workspace: &Workspace, check: bool) -> Result<()> {
    let source = fs::read_to_string(workspace.root.join(POLICY_SOURCE)).context(POLICY_SOURCE)?;
    let wanted = policy_schema(&source)?;
    let path = workspace.root.join(POLICY_SCHEMA);
    if fs::read_to_string(&path).is_ok_and(|found| found == wanted) {
        println!("{POLICY_SCHEMA} is fresh");
        return Ok(());
    }
    if check {
        bail!("{POLICY_SCHEMA} no longer says what {POLICY_SOURCE} says: run `cargo xtask schema`");
    }
    fs::write(&path, wanted).context(POLICY_SCHEMA)?;
    println!("{POLICY_SCHEMA} is written");
    Ok(())
}

/// The schema that editors check policies with: the keys of the default policy and nothing else.
fn policy_schema(source: &str) -> Result<String> {
    let table: toml::Table = source.parse().context(POLICY_SOURCE)?;
    let limits = table
        .get("limits")
        .and_then(toml::Value::as_table)
        .with_context(|| format!("{POLICY_SOURCE} has no table `limits`"))?;
    let mut properties = Map::new();
    for (key, value) in limits {
        let default = value.as_integer().with_context(|| {
            format!("`{key}` in {POLICY_SOURCE} is {value}, not a whole number")
        })?;
        properties
            .insert(key.clone(), json!({ "type": "integer", "minimum": 0, "default": default }));
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Transom policy",
        "description": format!("Written by `cargo xtask schema` from {POLICY_SOURCE}."),
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "frames": {
                "description": "What is not named is denied.",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "allow": {
                        "type": "array",
                        "uniqueItems": true,
                        "items": { "type": "string", "pattern": "^[a-z0-9-]+(/[a-z0-9-]+)*(/\\*)?$" },
                        "default": [],
                    },
                },
            },
            "limits": { "type": "object", "additionalProperties": false, "properties": Value::Object(properties) },
        },
    });
    Ok(format!("{schema:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_fresh() {
        let workspace = Workspace::here().expect("a test runs in its checkout");
        schema(&workspace, true).expect("fresh");
    }

    #[test]
    fn every_limit_is_a_property_with_its_default() {
        let text =
            policy_schema("[frames]\nallow = []\n[limits]\nnesting-max = 512\n").expect("a policy");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            schema.pointer("/properties/limits/properties"),
            Some(&json!({ "nesting-max": { "type": "integer", "minimum": 0, "default": 512 } }))
        );
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused() {
        let error = policy_schema("[limits]\nnesting-max = \"deep\"\n")
            .expect_err("text is no number")
            .to_string();
        assert_eq!(error, "`nesting-max` in policies/default.toml is \"deep\", not a whole number");
    }
}
