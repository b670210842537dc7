//! What a Rust file must begin with, must not name, and how long it may grow.

use super::{
    Complaint, Tree,
    code::{Path, paths, without_tests, without_words},
    edges::PURE,
};

/// Past this, two things live in one file.
const LINES_MAX: usize = 600;

/// What a pure crate must not name, with what to do instead.
const WORLD: &[(&str, &str)] = &[
    ("std::fs", "files are read by the program and the machinery: take the text as an argument"),
    ("std::net", "sockets belong to transom-io"),
    ("std::os", "descriptors belong to transom-io and transom-process"),
    ("std::process", "processes belong to transom-process"),
    ("std::thread", "a pure crate is called, it does not run"),
    ("std::env", "the environment is an argument"),
    ("std::time::Instant", "time is a number that arrives as an argument"),
    ("std::time::SystemTime", "time is a number that arrives as an argument"),
    ("tokio", "a pure crate does not wait: it is told what happened"),
    ("hyper", "HTTP belongs to transom-io and transom-model"),
    ("wasmtime", "guests run in transom-sandbox"),
];

/// What a pure crate must not call, wherever the name came from.
const CHANCE: &[(&str, &str)] = &[
    ("Instant::now", "time is a number that arrives as an argument"),
    ("SystemTime::now", "time is a number that arrives as an argument"),
    ("Uuid::new_v4", "chance is a seed that arrives as an argument"),
    ("thread_rng", "chance is a seed that arrives as an argument"),
    ("rand::rng", "chance is a seed that arrives as an argument"),
    ("OsRng", "chance is a seed that arrives as an argument"),
    ("getrandom", "chance is a seed that arrives as an argument"),
    ("io::stdin", "streams belong to the program"),
    ("io::stdout", "streams belong to the program"),
    ("io::stderr", "streams belong to the program"),
];

/// Reads of arguments and environment: one crate under `host/` does that.
const SETTINGS: &[&str] =
    &["env::var", "env::var_os", "env::vars", "env::vars_os", "env::args", "env::args_os"];

/// Attributes and macros that no code has. A test that must not run now is skipped by `RUN_SLOW_TESTS`, never silenced.
const NEVER: &[(&str, &str)] = &[
    (
        "#[ignore",
        "an ignored test proves nothing: assert what happens, or run it under `RUN_SLOW_TESTS`",
    ),
    ("#[should_panic", "assert the error instead: a panic of the wrong kind would pass too"),
    ("todo!(", "unfinished code does not land: return an error that says what is not supported"),
    (
        "unimplemented!(",
        "unfinished code does not land: return an error that says what is not supported",
    ),
];

/// Checks every source file.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for (path, text) in tree.texts() {
        let script =
            [".py", ".ts", ".mts", ".mjs", ".js"].iter().any(|suffix| path.ends_with(suffix));
        let rust = path.ends_with(".rs");
        if rust || script {
            length(path, text, complaints);
        }
        if rust {
            beginning(path, text, complaints);
            let code = without_words(text);
            never(path, &code, complaints);
            if !is_test(path) {
                world(path, &code, complaints);
            }
        }
    }
    programs(tree, complaints);
}

fn length(path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(Complaint::file(
            path,
            format!("has {lines} lines, over {LINES_MAX}: which two things live in it?"),
        ));
    }
}

fn beginning(path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    if !text.trim_start().starts_with("//!") {
        complaints.push(Complaint::line(path, 1, "opens without `//!`: say in one sentence what the file does, in one what it leaves to others"));
    }
}

fn never(path: &str, code: &str, complaints: &mut Vec<Complaint>) {
    for (index, line) in code.lines().enumerate() {
        for (word, why) in NEVER {
            if line.contains(word) {
                complaints.push(Complaint::line(path, index + 1, format!("has `{word}`: {why}")));
            }
        }
    }
}

/// Tests live beside the code, in files of this name or below folders of this name. An example is a program of its own.
pub fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "examples" | "benches"))
}

fn world(path: &str, code: &str, complaints: &mut Vec<Complaint>) {
    let Some(name) = path.strip_prefix("host/").and_then(|rest| rest.split('/').next()) else {
        return;
    };
    let pure = PURE.contains(&name);
    for found in paths(without_tests(code)) {
        let banned = if pure { worldly(&found) } else { None };
        if let Some((word, why)) = banned {
            complaints.push(Complaint::line(
                path,
                found.line,
                format!("names `{word}`, but {name} computes and touches nothing: {why}"),
            ));
        } else if name != "transom" && SETTINGS.iter().any(|call| found.holds(call)) {
            let call = found.segments.join("::");
            complaints.push(Complaint::line(path, found.line, format!("names `{call}`: only the program reads arguments and environment, others get them passed")));
        }
    }
}

fn worldly(found: &Path) -> Option<(&'static str, &'static str)> {
    let named = WORLD.iter().find(|(prefix, _)| found.begins(prefix));
    named.or_else(|| CHANCE.iter().find(|(part, _)| found.holds(part))).copied()
}

/// A hostile guest that no test names proves nothing.
fn programs(tree: &Tree, complaints: &mut Vec<Complaint>) {
    let guests = "tests/programs";
    for name in tree
        .below(guests)
        .filter_map(|path| path.strip_suffix(".rs"))
        .filter(|name| !name.contains('/'))
    {
        let named = tree.ending(".rs").any(|(path, text)| {
            let tests = path.starts_with("tests/") || path.starts_with("host/transom-sandbox/");
            tests && !path.starts_with("tests/programs/") && names_word(text, name)
        });
        if !named {
            let path = format!("{guests}/{name}.rs");
            complaints.push(Complaint::file(&path, format!("is a guest that no test names: write one in tests/ or host/transom-sandbox that plays `{name}`")));
        }
    }
}

/// Whether the word stands in the text on its own or as a part of a longer name, such as `a_guest_that_spins_is_stopped`.
fn names_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|rest| rest.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|rest| rest.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(path: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut complaints);
        complaints
            .iter()
            .map(|complaint| format!("{} {}", complaint.line.unwrap_or(0), complaint.says))
            .collect()
    }

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut complaints = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut complaints);
        complaints.iter().map(|complaint| complaint.line.unwrap_or(0)).collect()
    }

    #[test]
    fn a_pure_crate_names_no_world() {
        let text = "//! Decides.\nuse std::{\n    fs::File,\n    time::{Duration, Instant},\n};\n/// Like `std::fs`.\nfn f() {\n    \
                    Uuid::new_v4();\n    g(\"std::env\");\n}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(lines("host/transom-router/src/lib.rs", text), [3, 4, 8]);
        assert_eq!(lines("host/transom-router/src/tests.rs", text), NONE);
        assert_eq!(lines("host/transom-store/src/lib.rs", text), NONE);
    }

    #[test]
    fn only_the_program_reads_settings() {
        let text = "//! Reads.\nuse std::env;\nfn f() {\n    env::var(\"X\");\n}\n";
        assert_eq!(lines("host/transom-model/src/lib.rs", text), [4]);
        assert_eq!(lines("host/transom/src/main.rs", text), NONE);
        assert_eq!(lines("xtask/src/main.rs", text), NONE);
    }

    #[test]
    fn a_complaint_says_what_to_do_instead() {
        assert_eq!(
            says("host/transom-policy/src/lib.rs", "//! Decides.\nuse std::env;\n"),
            [
                "2 names `std::env`, but transom-policy computes and touches nothing: the environment is an argument"
            ]
        );
    }

    #[test]
    fn unfinished_and_silenced_code_is_found_outside_words() {
        let text = "//! Never `todo!()`.\n#[test]\n#[ignore = \"slow\"]\nfn f() {\n    todo!();\n    g(\"unimplemented!()\");\n}\n";
        assert_eq!(lines("tests/it/main.rs", text), [3, 5]);
    }

    #[test]
    fn a_file_opens_with_what_it_does() {
        assert_eq!(lines("xtask/src/main.rs", "fn main() {}\n"), [1]);
    }

    #[test]
    fn a_long_file_holds_two_things() {
        let text = format!("//! Long.\n{}", "\n".repeat(LINES_MAX - 1));
        assert_eq!(lines("xtask/src/a.rs", &text), NONE);
        assert_eq!(lines("xtask/src/a.rs", &format!("{text}\n")), [0]);
    }

    #[test]
    fn a_guest_that_no_test_names_is_found() {
        let guest = ("tests/programs/spins.rs", "//! Spins.\n");
        let found = |other: (&str, &str)| {
            let mut complaints = Vec::new();
            check(&Tree::of(&[guest, other]), &mut complaints);
            complaints.len()
        };
        assert_eq!(
            found(("tests/it/hostile.rs", "//! x\nfn a_guest_that_spins_is_stopped() {}")),
            0
        );
        assert_eq!(found(("host/transom-sandbox/src/tests.rs", "//! x\nf(\"spins\")")), 0);
        assert_eq!(found(("tests/programs/src/lib.rs", "//! spins")), 1);
        assert_eq!(found(("tests/it/hostile.rs", "//! spinsters")), 1);
    }
}
