//! The tables of keys against what the checks do and what the page says.

use std::{collections::BTreeMap, path::Path};

use transom_policy::keys::{Kind, Literal, Table};

use super::MANIFEST;
use crate::manifest::{Manifest, Overrides};

const SMALL: &[u8] =
    b"[component.x]\nsource = 'x.wasm'\n[door.x]\ncomponent = 'x'\ncarrier = 'stdio'\n\
    [agent.x]\ncommand = ['x']\n[subagents.x]\ndescription = 'x'\n[[permissions.rule]]\ntool = 'x'\ndecision = 'ask'\n";

fn with(sets: &[String]) -> Result<Manifest, crate::ConfigErrors> {
    let sets = sets.iter().map(String::as_str);
    let overrides = Overrides::new(Path::new("/"), &BTreeMap::new(), sets);
    Manifest::parse_layers(&[(Path::new("transom.toml"), SMALL)], &overrides)
}

fn written(literal: Literal) -> String {
    match literal {
        Literal::Boolean(boolean) => boolean.to_string(),
        Literal::Number(number) => number.to_string(),
        Literal::Text(text) => format!("{text:?}"),
        Literal::Texts(texts) => format!("{texts:?}"),
    }
}

#[test]
fn to_say_a_default_is_to_say_nothing() {
    let plain = with(&[]).unwrap();
    let mut said = 0;
    for (path, key) in MANIFEST.leaves() {
        let Some(default) = key.default else { continue };
        let set = format!("{}={}", path.replace('*', "x"), written(default));
        assert_eq!(with(std::slice::from_ref(&set)), Ok(plain.clone()), "{set}");
        said += 1;
    }
    assert!(said > 20, "{said} defaults");
}

/// What is out of bounds in a table is refused by the checks, and what is within is not.
#[test]
fn bounds_are_those_of_the_tables() {
    let mut tried = 0;
    for (path, key) in MANIFEST.leaves() {
        let Kind::Number { least, most } = key.kind else { continue };
        let path = path.replace('*', "x");
        let accepted = |number: i128| {
            // Its neighbours keep their order whatever it is.
            let mut sets = match path.as_str() {
                "jobs.per-session-max" => vec!["jobs.host-max=10000".to_owned()],
                "jobs.host-max" => vec!["jobs.per-session-max=1".to_owned()],
                "door.x.limits.unwritten-bytes-rest" => {
                    vec![format!("door.x.limits.unwritten-bytes-stop={most}")]
                }
                _ => Vec::new(),
            };
            sets.push(format!("{path}={number}"));
            with(&sets).is_ok()
        };
        assert!(accepted(i128::from(least)) && accepted(i128::from(most)), "{path}");
        assert!(!accepted(i128::from(least) - 1) && !accepted(i128::from(most) + 1), "{path}");
        tried += 1;
    }
    assert!(tried >= 15, "{tried} numbers");
}

/// Each word of a table is accepted, so that no check knows fewer.
#[test]
fn words_are_those_of_the_tables() {
    for (path, key) in MANIFEST.leaves() {
        let Kind::Word(words) = key.kind else { continue };
        let path = path.replace('*', "x");
        for word in words {
            // A door on a socket needs its path.
            let mut sets = vec![format!("{path}={word}")];
            if *word == "unix" {
                sets.push("door.x.listen=/x.sock".to_owned());
            }
            assert!(with(&sets).is_ok(), "{path} = {word}");
        }
        assert!(with(&[format!("{path}=nonsense")]).is_err(), "{path}");
    }
}

#[test]
fn what_is_required_is_missed() {
    let missed = |text: &[u8], path: &str| {
        let error = Manifest::parse(Path::new("transom.toml"), text).unwrap_err().to_string();
        assert!(error.contains(path), "{path}: {error}");
    };
    fn required(table: &Table) -> Vec<&'static str> {
        table.keys.iter().filter(|key| key.required).map(|key| key.name).collect()
    }
    assert_eq!(required(&MANIFEST), ["door"]);
    missed(b"", "[door.<name>]");
    for (table, without) in [
        (super::COMPONENT, "[component.x]\n[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n"),
        (super::SUBAGENT, "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[subagents.x]\n"),
        (super::AGENT, "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[agent.x]\n"),
        (super::DOOR, "[door.x]\n"),
        (super::HOOK, "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[[hook]]\n"),
        (super::RULE, "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[[permissions.rule]]\n"),
    ] {
        for key in required(&table) {
            missed(without.as_bytes(), &format!("has no `{key}`"));
        }
    }
}

#[test]
fn the_page_names_every_key_and_every_table() {
    let page = include_str!("../../../../../docs/manifest.md");
    fn walk(page: &str, table: &Table, title: &str) {
        for key in table.keys {
            let path = match title {
                "" => key.name.to_owned(),
                title => format!("{title}.{}", key.name),
            };
            match key.kind {
                Kind::Named(inner) => {
                    let title = format!("{path}.<name>");
                    assert!(page.contains(&format!("## `[{title}]`")), "{title}");
                    walk(page, inner, &title);
                }
                Kind::Table(inner) if title.is_empty() => {
                    assert!(page.contains(&format!("## `[{path}]`")), "{path}");
                    walk(page, inner, &path);
                }
                Kind::Tables(inner) => {
                    assert!(page.contains(&format!("### `[[{path}]]`")), "{path}");
                    walk(page, inner, &path);
                }
                Kind::Table(inner) => walk(page, inner, &path),
                Kind::Text
                | Kind::Shaped(_)
                | Kind::Path
                | Kind::Boolean
                | Kind::Number { .. }
                | Kind::Word(_)
                | Kind::List(_)
                | Kind::Command
                | Kind::Entries(_)
                | Kind::Any => {
                    assert!(page.contains(&format!("`{}`", key.name)), "{path}");
                }
            }
        }
    }
    walk(page, &MANIFEST, "");
}
