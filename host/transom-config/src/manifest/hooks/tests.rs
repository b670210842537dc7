//! `[[hook]]`: what is read, what is refused, and how files lie above one another.

use std::path::{Path, PathBuf};

use super::{Hook, HookEvent};
use crate::manifest::{Manifest, Overrides};

const DOOR: &str = "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n";

fn parse(text: &str) -> Result<Vec<Hook>, String> {
    let text = format!("{DOOR}{text}");
    Manifest::parse(Path::new("/etc/t/transom.toml"), text.as_bytes())
        .map(|manifest| manifest.hooks)
        .map_err(|errors| errors.to_string())
}

#[test]
fn a_hook_is_read_with_its_defaults() {
    let text = "[[hook]]\nname = 'no-push'\nevent = 'pre-execute'\ntool = 'ba*'\n\
                command = ['./check', '--strict', '--strict']\n\
                [[hook]]\nname = 'audit'\nevent = 'result'\ncommand = ['logger']\ntimeout-ms = 50\n";
    let expected = [
        Hook {
            name: "no-push".to_owned(),
            event: HookEvent::PreExecute,
            tool: Some("ba*".to_owned()),
            program: PathBuf::from("/etc/t/./check"),
            arguments: vec!["--strict".to_owned(), "--strict".to_owned()],
            directory: PathBuf::from("/etc/t"),
            timeout_ms: 10_000,
        },
        Hook {
            name: "audit".to_owned(),
            event: HookEvent::Result,
            tool: None,
            program: PathBuf::from("logger"),
            arguments: Vec::new(),
            directory: PathBuf::from("/etc/t"),
            timeout_ms: 50,
        },
    ];
    assert_eq!(parse(text).unwrap(), expected);
}

#[test]
fn what_is_wrong_with_a_hook_is_told_with_its_place() {
    let hook = "[[hook]]\nname = 'h'\nevent = 'pre-step'\ncommand = ['x']\n";
    let table = [
        ("[[hook]]\n", "4:1: [[hook]] has no `name`; add a name of its own"),
        ("[[hook]]\n", "4:1: [[hook]] has no `event`; add where it has its say"),
        (
            "[[hook]]\n",
            "4:1: [[hook]] has no `command`; add the program with its arguments, as a list",
        ),
        (
            &hook.replace("'pre-step'", "'pre-stop'"),
            "6:9: unknown event `pre-stop`; did you mean `pre-step`?",
        ),
        (
            &format!("{hook}tool = 'bash'\n"),
            "8:8: a hook of `pre-step` is about no tool; leave `tool` out",
        ),
        (&hook.replace("['x']", "[]"), "7:11: `command` names no program; it begins with one"),
        (
            &hook.replace("['x']", "['~/x']"),
            "7:12: `command` is taken literally, but holds \"~/x\"; write the path out",
        ),
        (
            &format!("{hook}timeout-ms = 0\n"),
            "8:14: `timeout-ms` is 0; it must be a whole number from 1 to 600000",
        ),
        (
            &format!("{hook}{hook}"),
            "8:1: there is a hook `h` at line 4 already; give it another name",
        ),
        (
            &format!("{hook}comand = 1\n"),
            "8:1: unknown key `comand` in [hook]; did you mean `command`?",
        ),
    ];
    for (text, expected) in table {
        let told = parse(text).unwrap_err();
        assert!(told.contains(expected), "{text}\n{told}\nand not\n{expected}");
    }
    let many: String = (0..65).map(|n| hook.replace("'h'", &format!("'h{n}'"))).collect();
    assert!(parse(&many).unwrap_err().contains("there are 65 hooks; 64 are allowed"));
}

#[test]
fn hooks_of_a_later_file_are_asked_first_and_none_disappears() {
    let lower = format!("{DOOR}[[hook]]\nname = 'shared'\nevent = 'pre-step'\ncommand = ['a']\n");
    let upper = "[[hook]]\nname = 'own'\nevent = 'pre-step'\ncommand = ['./b']\n";
    let files =
        [(Path::new("/a/t.toml"), lower.as_bytes()), (Path::new("/b/t.toml"), upper.as_bytes())];
    let manifest = Manifest::parse_layers(&files, &Overrides::default()).unwrap();
    let names: Vec<_> = manifest.hooks.iter().map(|hook| hook.name.as_str()).collect();
    assert_eq!(names, ["own", "shared"]);
    assert_eq!(manifest.hooks[0].program, PathBuf::from("/b/./b"));
}
