//! Every limit that a policy can set is explained on its page, is applied somewhere, and is crossed in a test. What a limit
//! does is left to that test.

use super::{Complaint, Tree, sources::is_test};

const PAGE: &str = "docs/limits.md";
const DEFAULTS: &str = "policies/default.toml";

/// Where the keys are that are parsed.
const KEYS: &str = "host/transom-policy/src/limits.rs";

/// Where the list of keys begins in there.
const LIST: &str = "pub const LIMIT_KEYS";

/// What reads limits only to compare or to show them.
const LOOKS: [&str; 3] =
    ["host/transom-policy/", "host/transom/src/operator/policies.rs", "host/transom/src/check/"];

/// Checks the limits.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    let Some(defaults) = tree.text(DEFAULTS) else {
        complaints.push(Complaint::file(
            DEFAULTS,
            "is missing: it says what holds where a policy says nothing",
        ));
        return;
    };
    let page = tree.text(PAGE).unwrap_or_default();
    for (line, key, value) in settings(defaults) {
        if let Some(says) = explained(page, key, value) {
            complaints.push(Complaint::line(DEFAULTS, line, says));
        }
    }
    for (line, key) in parsed(tree.text(KEYS).unwrap_or_default()) {
        let mut says = |says: String| complaints.push(Complaint::line(KEYS, line, says));
        if !settings(defaults).any(|(_, known, _)| known == key) {
            says(format!("`{key}` is parsed, but {DEFAULTS} gives it no default"));
        }
        if !applied(tree, key) {
            let field = key.replace('-', "_");
            says(format!(
                "`{key}` is parsed, but nothing reads `limits.{field}`: apply it, or take the key out"
            ));
        }
        let Some(row) = row(page, key) else { continue };
        let shown = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            says(format!("`{key}` has no test in the last column of {PAGE}"));
        }
        for name in tests.into_iter().filter(|name| !tested(tree, name)) {
            says(format!("{PAGE} says that `{name}` shows `{key}`, and there is no such test"));
        }
    }
}

/// Keys of `[limits]` with their lines and values.
fn settings(defaults: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut inside = false;
    defaults.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[limits]";
        }
        let (key, value) = line.split_once('=').filter(|_| inside && !line.starts_with('#'))?;
        let value = value.split('#').next().unwrap_or_default();
        Some((index + 1, key.trim(), value.trim()))
    })
}

fn row<'p>(page: &'p str, key: &str) -> Option<&'p str> {
    let named = format!("`{key}`");
    let is_of_key = |row: &&str| {
        row.strip_prefix('|').and_then(|row| row.split('|').next()).map(str::trim) == Some(&named)
    };
    page.lines().find(is_of_key)
}

fn explained(page: &str, key: &str, value: &str) -> Option<String> {
    match row(page, key) {
        None => Some(format!(
            "sets `{key}`, which {PAGE} does not explain: add a row with its default, the reason and the test"
        )),
        Some(row) if !row.split('|').any(|cell| cell.trim() == value) => {
            Some(format!("sets `{key}` to {value}, but {PAGE} gives another default"))
        }
        Some(_) => None,
    }
}

/// The keys of the list, with their lines. Each stands alone in its line.
fn parsed(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| !line.contains(LIST));
    lines.take_while(|(_, line)| *line != "];").filter_map(|(index, line)| {
        let key = line.trim().strip_prefix('"')?.strip_suffix("\",")?;
        let is_key = key.contains('-') && key.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        is_key.then_some((index + 1, key))
    })
}

/// Whether the host reads the limit where it does something.
fn applied(tree: &Tree, key: &str) -> bool {
    let field = format!("limits.{}", key.replace('-', "_"));
    let reads = |text: &str| {
        text.match_indices(&field).any(|(at, _)| {
            let after = text.get(at + field.len()..).and_then(|rest| rest.chars().next());
            !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    tree.ending(".rs").any(|(path, text)| {
        path.starts_with("host/")
            && !is_test(path)
            && !LOOKS.iter().any(|looks| path.starts_with(looks))
            && reads(text)
    })
}

fn tested(tree: &Tree, name: &str) -> bool {
    let test = format!("fn {name}()");
    tree.ending(".rs").any(|(path, text)| is_test(path) && text.contains(&test))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str =
        "| `unit-bytes-max` | 1_024 | why | what | `a_unit_is_dropped`, `another` |\n";

    fn says(page: &str, more: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![
            (
                DEFAULTS,
                "[frames]\nallow = []\n[limits]\n# One unit.\nunit-bytes-max = 1_024 # small\n",
            ),
            (
                KEYS,
                "const OTHER: &str = \"not-a-key\";\npub const LIMIT_KEYS: [LimitKey; 1] = [\n    limit(\n        \"unit-bytes-max\",\n        \"bytes of one unit\",\n    ),\n];\n",
            ),
            (PAGE, page),
            ("host/transom-framing/src/a.rs", "let max = policy.limits.unit_bytes_max;"),
            ("tests/it/a.rs", "fn a_unit_is_dropped() {}\nfn another() {}"),
        ];
        files.retain(|(path, _)| !more.iter().any(|(changed, _)| changed == path));
        files.extend(more);
        let mut complaints = Vec::new();
        check(&Tree::of(&files), &mut complaints);
        complaints.into_iter().map(|complaint| complaint.to_string()).collect()
    }

    #[test]
    fn a_limit_that_is_explained_applied_and_tested_is_fine() {
        assert_eq!(says(ROWS, &[]), Vec::<String>::new());
    }

    #[test]
    fn every_limit_is_explained_with_its_default() {
        assert_eq!(
            says(&ROWS.replace("1_024", "1_025"), &[]),
            [
                "policies/default.toml:5: sets `unit-bytes-max` to 1_024, but docs/limits.md gives another default"
            ]
        );
        let unexplained = says("unit-bytes-max is 1_024\n", &[]);
        assert!(
            unexplained.iter().any(|line| line.contains("does not explain")),
            "{unexplained:?}"
        );
    }

    #[test]
    fn a_limit_that_is_parsed_and_not_applied_is_found() {
        let at = "host/transom-policy/src/limits.rs:4: `unit-bytes-max`";
        let framing = "host/transom-framing/src/a.rs";
        let unread = format!(
            "{at} is parsed, but nothing reads `limits.unit_bytes_max`: apply it, or take the key out"
        );
        // Another field, a test, or whoever only shows it, does not apply it.
        for (path, text) in [
            (framing, "policy.limits.unit_bytes_max_of_another"),
            ("host/transom-framing/src/tests.rs", "limits.unit_bytes_max"),
            ("host/transom/src/check/door.rs", "limits.unit_bytes_max"),
            ("xtask/src/a.rs", "limits.unit_bytes_max"),
        ] {
            assert_eq!(says(ROWS, &[(framing, ""), (path, text)]), [unread.as_str()], "{path}");
        }
        let said = says(ROWS, &[(DEFAULTS, "[limits]\n")]);
        assert_eq!(
            said,
            [format!("{at} is parsed, but policies/default.toml gives it no default")]
        );
    }

    #[test]
    fn a_limit_has_a_test_that_is_there() {
        let [gone] = says(ROWS, &[("tests/it/a.rs", "fn another() {}")]).try_into().unwrap();
        let gone: String = gone;
        assert!(
            gone.ends_with(
                "says that `a_unit_is_dropped` shows `unit-bytes-max`, and there is no such test"
            ),
            "{gone}"
        );
        let [none] =
            says("| `unit-bytes-max` | 1_024 | why | what | some day |\n", &[]).try_into().unwrap();
        let none: String = none;
        assert!(none.contains("has no test in the last column"), "{none}");
    }
}
