//! What no text of the checkout says: facts of one machine. And what the change log and the page of limits must say.

use super::{Complaint, Tree, sources::is_test};

const CHANGES: &str = "CHANGELOG.md";
const LIMITS: &str = "docs/limits.md";
const DEFAULTS: &str = "policies/default.toml";

/// Checks the texts.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            // A test may make up a person.
            if let Some(says) = machine_fact(line)
                .or_else(|| if is_test(path) { None } else { persons_folder(line) })
            {
                complaints.push(Complaint::line(path, index + 1, says));
            }
        }
    }
    if !tree.text(CHANGES).is_some_and(|text| {
        text.lines().any(|line| line.trim_start_matches('#').trim() == "Unreleased")
    }) {
        complaints.push(Complaint::file(
            CHANGES,
            "has no section `Unreleased`: what a user can notice is written there",
        ));
    }
    limits(tree, complaints);
}

/// Spelled in two parts, so that this file does not say what it forbids.
fn package_hosts() -> [String; 5] {
    [
        ("registry.npm", "js."),
        ("pypi", ".org"),
        ("python", "hosted."),
        ("index.crates", ".io"),
        ("static.crates", ".io"),
    ]
    .map(|(head, tail)| format!("{head}{tail}"))
}

fn machine_fact(line: &str) -> Option<String> {
    for folder in ["work", "root"] {
        let path = format!("/{folder}/");
        if stands_alone(line, &path) {
            return Some(format!(
                "names `{path}`, a folder of one machine: write the path from the root of the checkout"
            ));
        }
    }
    let host = package_hosts().into_iter().find(|host| line.contains(host.as_str()))?;
    Some(format!(
        "names the package host `{host}`: a build works behind any mirror (for npm, `omit-lockfile-registry-resolved=true`)"
    ))
}

/// Whose machine it was.
fn persons_folder(line: &str) -> Option<String> {
    let named = |folder: &&str| {
        let path = format!("/{folder}/");
        let name = |(at, _): (usize, &str)| {
            line.get(at + path.len()..).and_then(|rest| rest.chars().next())
        };
        stands_alone(line, &path)
            && line
                .match_indices(&path)
                .filter_map(name)
                .any(|letter| letter.is_ascii_alphanumeric())
    };
    let folder = ["home", "Users"].into_iter().find(|folder| named(folder))?;
    Some(format!("names a person's folder below `/{folder}/`: write `~`"))
}

/// Whether the path begins there, instead of being the middle of a longer one.
fn stands_alone(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|rest| rest.chars().next_back());
        !before.is_some_and(|letter| {
            letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '}' | '>')
        })
    })
}

/// Every limit that a policy can set stands on the page, with the default that holds.
fn limits(tree: &Tree, complaints: &mut Vec<Complaint>) {
    let Some(defaults) = tree.text(DEFAULTS) else {
        complaints.push(Complaint::file(
            DEFAULTS,
            "is missing: it says what holds where a policy says nothing",
        ));
        return;
    };
    let page = tree.text(LIMITS).unwrap_or_default();
    let mut inside = false;
    for (index, line) in defaults.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[limits]";
        }
        let Some((key, value)) = line.split_once('=').filter(|_| inside && !line.starts_with('#'))
        else {
            continue;
        };
        let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
        let row =
            page.lines().find(|row| row.starts_with('|') && row.contains(&format!("`{key}`")));
        let says = match row {
            None => format!(
                "sets `{key}`, which {LIMITS} does not explain: add a row with its default, the reason and the test"
            ),
            Some(row) if !row.split('|').any(|cell| cell.trim() == value) => {
                format!("sets `{key}` to {value}, but {LIMITS} gives another default")
            }
            Some(_) => continue,
        };
        complaints.push(Complaint::line(DEFAULTS, index + 1, says));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_one_machine_are_found() {
        let [npm, ..] = package_hosts();
        for line in [
            format!("cd {}", "/wo".to_owned() + "rk/main"),
            format!("`{}`", "/ro".to_owned() + "ot/.cargo"),
            format!("\"resolved\": \"https://{npm}org/x\""),
        ] {
            assert!(machine_fact(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn a_person_is_found_outside_tests() {
        let line = "cd ".to_owned() + "/ho" + "me/somebody/x";
        assert!(persons_folder(&line).is_some());
        let changes = CHANGED.1.to_owned() + &line;
        assert_eq!(says(&[(CHANGES, &changes), (DEFAULTS, "")]).len(), 1);
        assert_eq!(says(&[CHANGED, (DEFAULTS, ""), ("tests/it/a.rs", &line)]).len(), 0);
    }

    #[test]
    fn ordinary_paths_are_not() {
        for line in [
            "host/work/x",
            "<root>/work/a",
            "the root / and more",
            "/home/{user}",
            "https://docs.rs/x",
            "/homework/x",
        ] {
            assert_eq!(machine_fact(line).or_else(|| persons_folder(line)), None, "{line}");
        }
    }

    const CHANGED: (&str, &str) = (CHANGES, "# Changes\n\n## Unreleased\n");

    fn says(files: &[(&str, &str)]) -> Vec<String> {
        let mut complaints = Vec::new();
        check(&Tree::of(files), &mut complaints);
        complaints.into_iter().map(|complaint| complaint.to_string()).collect()
    }

    #[test]
    fn changes_wait_under_unreleased() {
        let defaults = (DEFAULTS, "[limits]\n");
        assert_eq!(says(&[CHANGED, defaults]), Vec::<String>::new());
        assert_eq!(says(&[(CHANGES, "# Changes\n"), defaults]).len(), 1);
    }

    #[test]
    fn every_limit_is_explained_with_its_default() {
        let defaults = (
            DEFAULTS,
            "[frames]\nallow = []\n[limits]\n# One unit.\nunit-bytes-max = 1_024 # small\nnesting-max = 512\n",
        );
        let page = |text| says(&[CHANGED, defaults, (LIMITS, text)]);
        assert_eq!(
            page("| `unit-bytes-max` | 1_024 | why |\n| `nesting-max` | 512 | why |\n"),
            Vec::<String>::new()
        );
        let wrong = page("| `unit-bytes-max` | 1_025 | why |\nnesting-max is 512\n");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert_eq!(
            wrong.first().map(String::as_str),
            Some(
                "policies/default.toml:5: sets `unit-bytes-max` to 1_024, but docs/limits.md gives another default"
            )
        );
    }
}
