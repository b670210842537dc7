//! What a child may know of the host's environment (L-83, L-84): one function for shells, MCP
//! servers and other agents alike. Where the variables come from is the caller's business.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Parts of names, in upper case, that speak of secrets: those of L-83, then those of L-84.
const SECRET_PARTS: [&str; 10] = [
    "KEY",
    "PASSWORD",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "PASSWD",
    "PASSPHRASE",
    "PRIVATE",
    "COOKIE",
    "BEARER",
];

/// Beginnings of names, in upper case, that belong to the host itself (L-83, decision 32).
const OWN_PREFIXES: [&str; 2] = ["DSH_", "TRANSOM_"];

/// The environment of one child.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Everything the child gets, sorted by name.
    pub variables: Vec<(String, String)>,
    /// Names of the parent that the child does not get because they look secret or are the host's
    /// own; sorted. Never values.
    pub withheld: Vec<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: values may be secrets.
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("withheld", &self.withheld)
            .finish()
    }
}

/// Whether the name of a variable alone keeps it from children.
///
/// Only ASCII letters are folded, so that a name means the same on every machine.
pub fn is_withheld(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    is_secret(name) || OWN_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}

/// Whether the name of a variable alone says that its value is a secret.
pub fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET_PARTS.iter().any(|part| upper.contains(part))
}

/// Makes a child's environment (decision 32): the parent's, without what is withheld by name, but
/// with the names in `keep` (compared exactly), then `explicit` entries, where `None` removes.
pub fn scrub(
    parent: &[(String, String)],
    keep: &[String],
    explicit: &[(String, Option<String>)],
) -> Environment {
    let mut variables = BTreeMap::new();
    let mut withheld = BTreeSet::new();
    for (name, value) in parent {
        if is_withheld(name) && !keep.contains(name) {
            withheld.insert(name.clone());
        } else {
            variables.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in explicit {
        match value {
            Some(value) => {
                // The child has a variable of this name after all, so nothing is missing there.
                withheld.remove(name);
                variables.insert(name.clone(), value.clone());
            }
            None => {
                variables.remove(name);
            }
        }
    }
    Environment {
        variables: variables.into_iter().collect(),
        withheld: withheld.into_iter().collect(),
    }
}
