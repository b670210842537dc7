//! What no text of the checkout says: facts of one machine. And what the change log must say.

use super::{Complaint, Tree, sources::is_test};

const CHANGES: &str = "CHANGELOG.md";

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
        assert_eq!(says(&[(CHANGES, &changes)]).len(), 1);
        assert_eq!(says(&[CHANGED, ("tests/it/a.rs", &line)]).len(), 0);
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
        assert_eq!(says(&[CHANGED]), Vec::<String>::new());
        assert_eq!(says(&[(CHANGES, "# Changes\n")]).len(), 1);
    }
}
