//! Who may depend on whom: the arrows between our crates, and the libraries that only some of them may name.

use std::collections::BTreeSet;

use super::{Complaint, Tree};

/// The arrows under `host/`: a crate and those it may name directly. What they reach, it may use too.
const ARROWS: &[(&str, &[&str])] = &[
    ("transom-frame", &[]),
    ("transom-framing", &["transom-frame"]),
    ("transom-policy", &["transom-frame"]),
    ("transom-harness", &["transom-frame"]),
    ("transom-remote", &["transom-frame"]),
    ("transom-connection", &["transom-framing", "transom-policy"]),
    ("transom-doors", &["transom-connection"]),
    ("transom-config", &["transom-doors"]),
    ("transom-router", &["transom-harness", "transom-remote"]),
    ("transom-process", &[]),
    ("transom-store", &["transom-harness"]),
    ("transom-model", &["transom-harness", "transom-framing"]),
    ("transom-tools", &["transom-harness", "transom-process"]),
    (
        "transom-sandbox",
        &["transom-connection", "transom-policy", "transom-tools", "transom-remote"],
    ),
    (
        "transom-io",
        &[
            "transom-connection",
            "transom-router",
            "transom-harness",
            "transom-framing",
            "transom-doors",
            "transom-process",
        ],
    ),
];

/// Crates that compute and touch nothing.
pub const PURE: &[&str] = &[
    "transom-frame",
    "transom-framing",
    "transom-policy",
    "transom-harness",
    "transom-remote",
    "transom-connection",
    "transom-doors",
    "transom-config",
    "transom-router",
];

const ASYNC: &[&str] = &[
    "transom-process",
    "transom-store",
    "transom-model",
    "transom-tools",
    "transom-sandbox",
    "transom-io",
    "transom",
];

/// Libraries that only some crates may depend on, with the reason.
const LIBRARIES: &[(&str, &[&str], &str)] = &[
    ("tokio", ASYNC, "whoever waits is machinery; a pure crate is told what happened"),
    (
        "hyper",
        &["transom-io", "transom-model"],
        "HTTP is spoken by the drivers and the model providers",
    ),
    (
        "hyper-util",
        &["transom-io", "transom-model"],
        "HTTP is spoken by the drivers and the model providers",
    ),
    ("tokio-tungstenite", &["transom-io", "transom-model"], "sockets belong to the drivers"),
    (
        "reqwest",
        &["transom-io", "transom-model"],
        "HTTP is spoken by the drivers and the model providers",
    ),
    ("wasmtime", &["transom-sandbox"], "one crate knows how guests run"),
    ("wasmtime-wasi", &["transom-sandbox"], "one crate knows how guests run"),
    (
        "wit-component",
        &["transom-sandbox", "xtask"],
        "components are judged by the sandbox and encoded by xtask",
    ),
    (
        "wit-parser",
        &["transom-sandbox", "xtask"],
        "components are judged by the sandbox and encoded by xtask",
    ),
    ("rusqlite", &["transom-store"], "one crate knows what the log is written to"),
    ("zstd", &["transom-store"], "one crate knows what the log is written to"),
    ("landlock", &["transom-process"], "one crate knows what holds a child back"),
    ("seccompiler", &["transom-process"], "one crate knows what holds a child back"),
    ("caps", &["transom-process"], "one crate knows what holds a child back"),
    ("cap-std", &["transom-tools"], "file tools walk directories that are open"),
    ("cap-fs-ext", &["transom-tools"], "file tools walk directories that are open"),
    ("clap", &["transom", "xtask"], "only programs read arguments"),
    ("anyhow", &["transom", "xtask"], "a library's error is an enum that says when it happens"),
    ("tracing-subscriber", &["transom"], "the program decides where logs go"),
    (
        "toml",
        &["transom-config", "transom-policy", "xtask"],
        "text becomes a checked type once, at the edge",
    ),
];

/// Libraries that reach the world, which a pure crate or a guest has no use for.
const WORLDLY: &[&str] = &[
    "nix",
    "libc",
    "tempfile",
    "walkdir",
    "notify",
    "getrandom",
    "rand",
    "cap-std",
    "socket2",
    "chrono",
];

/// Checks every manifest's ordinary dependencies; tests may use what they like.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for (path, text) in tree.ending("Cargo.toml").filter(|(path, _)| *path != "Cargo.toml") {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                complaints.push(Complaint::file(
                    path,
                    format!("cannot be read as TOML: {}", error.message()),
                ));
                continue;
            }
        };
        // A workspace of its own is linked with nothing here, and has nothing to inherit from.
        if table.contains_key("workspace") {
            continue;
        }
        let package = table.get("package");
        let Some(name) =
            package.and_then(|package| package.get("name")).and_then(toml::Value::as_str)
        else {
            complaints.push(Complaint::file(path, "names no package"));
            continue;
        };
        let inherits = package
            .and_then(|package| package.get("license")?.get("workspace"))
            .and_then(toml::Value::as_bool);
        if inherits != Some(true) {
            complaints.push(Complaint::file(
                path,
                "has a licence of its own: write `license.workspace = true`",
            ));
        }
        for dependency in dependencies(&table) {
            if let Some(says) = forbidden(path, name, &dependency) {
                complaints.push(Complaint::file(path, says));
            }
        }
    }
}

fn dependencies(table: &toml::Table) -> BTreeSet<String> {
    let own = table.get("dependencies");
    let of_targets = table
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(toml::Table::values);
    let tables = own.into_iter().chain(of_targets.filter_map(|target| target.get("dependencies")));
    tables
        .filter_map(toml::Value::as_table)
        .flatten()
        // A renamed dependency is known by what it is, not by what it is called.
        .map(|(name, value)| {
            value.get("package").and_then(toml::Value::as_str).unwrap_or(name).to_owned()
        })
        .collect()
}

/// Why a crate may not depend on this, if it may not.
fn forbidden(path: &str, name: &str, dependency: &str) -> Option<String> {
    let guest = path.starts_with("components/")
        || path.starts_with("guest-sdk/")
        || path.starts_with("tests/programs/");
    let ours = dependency.starts_with("transom") || dependency == "xtask";
    if ours {
        // Tests and tasks see everything, and the program is what everything under `host/` is for.
        if matches!(name, "xtask" | "transom" | "transom-tests") {
            return matches!(dependency, "xtask" | "transom" | "transom-tests")
                .then(|| format!("{name} depends on {dependency}, which nothing may see"));
        }
        if guest {
            return (dependency != "transom-guest").then(|| {
                format!("{name} depends on {dependency}: a guest sees only `wit` and `guest-sdk`")
            });
        }
        let Some(allowed) = arrows(name) else {
            return Some(format!(
                "{name} has no place in the arrows of xtask/src/tidy/edges.rs: say there what it may use, and in ARCHITECTURE.md why"
            ));
        };
        return (!reaches(allowed, dependency)).then(|| {
            format!("{name} depends on {dependency}, against the arrows of ARCHITECTURE.md: it may use {}", listed(allowed))
        });
    }
    if let Some((_, holders, why)) = LIBRARIES.iter().find(|(library, ..)| *library == dependency) {
        return (!holders.contains(&name)).then(|| {
            format!("{name} depends on {dependency}, which is for {} ({why})", listed(holders))
        });
    }
    if WORLDLY.contains(&dependency) && (guest || PURE.contains(&name)) {
        return Some(format!(
            "{name} depends on {dependency}, but it computes and touches nothing: pass in what it needs"
        ));
    }
    None
}

fn arrows(name: &str) -> Option<&'static [&'static str]> {
    ARROWS.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
}

fn reaches(allowed: &[&str], dependency: &str) -> bool {
    allowed.iter().any(|next| {
        *next == dependency || arrows(next).is_some_and(|further| reaches(further, dependency))
    })
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none of ours".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, dependency: &str) -> Option<String> {
        let path =
            if name == "transom-sdk" { "components/sdk/Cargo.toml" } else { "host/x/Cargo.toml" };
        forbidden(path, name, dependency)
    }

    #[test]
    fn every_arrow_leads_to_a_crate_of_the_table_and_none_leads_back() {
        for (name, allowed) in ARROWS {
            assert!(!reaches(allowed, name), "{name} reaches itself");
            for next in *allowed {
                assert!(arrows(next).is_some(), "{name} may use {next}, which is not in the table");
            }
        }
        assert!(PURE.iter().all(|name| arrows(name).is_some()));
    }

    #[test]
    fn arrows_hold() {
        for (name, dependency) in [
            ("transom-io", "transom-frame"),
            ("transom-config", "transom-policy"),
            ("transom-sandbox", "transom-tools"),
            ("transom", "transom-store"),
            ("xtask", "transom-connection"),
            ("transom-sdk", "transom-guest"),
            ("transom-store", "rusqlite"),
            ("transom-harness", "serde_json"),
        ] {
            assert_eq!(says(name, dependency), None, "{name} → {dependency}");
        }
        for (name, dependency) in [
            ("transom-io", "transom-sandbox"),
            ("transom-sandbox", "transom-io"),
            ("transom-frame", "transom-policy"),
            ("transom-router", "transom-connection"),
            ("transom-sdk", "transom-frame"),
            ("xtask", "transom"),
            ("transom-new", "transom-frame"),
            ("transom-router", "tokio"),
            ("transom-tools", "wasmtime"),
            ("transom-sdk", "tokio"),
            ("transom-policy", "nix"),
        ] {
            assert!(says(name, dependency).is_some(), "{name} → {dependency}");
        }
    }

    #[test]
    fn a_complaint_says_what_would_be_right() {
        assert_eq!(
            says("transom-store", "transom-io").as_deref(),
            Some(
                "transom-store depends on transom-io, against the arrows of ARCHITECTURE.md: it may use transom-harness"
            )
        );
    }

    #[test]
    fn only_ordinary_dependencies_count_and_renames_are_seen_through() {
        let manifest = "[package]\nname = \"transom-frame\"\nlicense.workspace = true\n[dependencies]\nrt = { package = \"tokio\" }\n\
                        [dev-dependencies]\ntransom-io.workspace = true\n[target.'cfg(unix)'.dependencies]\nnix = \"1\"\n";
        let mut complaints = Vec::new();
        check(&Tree::of(&[("host/transom-frame/Cargo.toml", manifest)]), &mut complaints);
        let says: Vec<&str> = complaints
            .iter()
            .map(|complaint| complaint.says.split(',').next().unwrap_or_default())
            .collect();
        assert_eq!(says, ["transom-frame depends on nix", "transom-frame depends on tokio"]);
    }

    #[test]
    fn a_package_outside_the_workspace_is_let_be() {
        let manifest = "[package]\nname = \"x\"\n[workspace]\n[dependencies]\ntokio = \"1\"\n";
        let mut complaints = Vec::new();
        check(&Tree::of(&[("tests/peers/x/Cargo.toml", manifest)]), &mut complaints);
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    #[test]
    fn a_licence_is_inherited() {
        let mut complaints = Vec::new();
        check(
            &Tree::of(&[(
                "x/Cargo.toml",
                "[package]\nname = \"transom-frame\"\nlicense = \"MIT\"\n",
            )]),
            &mut complaints,
        );
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }
}
