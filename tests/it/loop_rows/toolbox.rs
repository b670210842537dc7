//! The tools of L-101 that go with instructions and with editing by commands, against the real binary.

use std::fs;

use serde_json::{Value, json};

use super::stage::{Setting, call, of_kind, reason, results, rule};
use crate::support::place::text;

/// The description of a tool in the last header of these events.
fn described(events: &[Value], tool: &str) -> String {
    let header = of_kind(events, "request/header").pop().expect("a header").clone();
    let tools = header["data"]["header"]["tools"].as_array().cloned().expect("tools");
    let found = tools.iter().find(|found| found["name"] == tool).expect("the tool");
    found["description"].as_str().expect("a description").to_owned()
}

/// The skills of the session's directory and of the user are told to its model, which loads one by its name.
#[test]
fn a_session_is_told_of_its_skills_and_loads_one() {
    let script = json!([
        rule("load", 1, json!([call("c1", "skill", json!({ "name": "make-tea" }))])),
        rule("gone", 1, json!([call("c2", "skill", json!({ "name": "no-such" }))])),
        { "answer": [{ "text": "well" }] },
    ]);
    let mut stage = Setting::scripted(script).start();
    let put = |directory: &std::path::Path, name: &str, description: &str| {
        let directory = directory.join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nBoil {name}.\n");
        fs::write(directory.join("SKILL.md"), text).expect("a skill");
    };
    put(&stage.place.cwd.join(".dsh/skills"), "make-tea", "How tea is made");
    put(&stage.place.home.join(".dsh/skills"), "my-own", "What I like");
    stage.open("main");
    let turn = stage.turn("load");
    let told = described(&turn, "skill");
    assert!(
        told.ends_with(
            "\nSkills of this session:\n- make-tea: How tea is made\n- my-own: What I like"
        ),
        "{told}"
    );
    let [(_, loaded, false)] = &results(&turn)[..] else { panic!("one result") };
    assert!(loaded.contains("<skill_instructions>\nBoil make-tea.\n</skill_instructions>"));
    assert!(loaded.contains(text(&stage.place.cwd.join(".dsh/skills/make-tea"))), "{loaded}");

    // What is new is told with the next step, and so is what is not there any more.
    put(&stage.place.cwd.join(".dsh/skills"), "brew", "Beer");
    fs::remove_dir_all(stage.place.cwd.join(".dsh/skills/make-tea")).expect("a directory");
    let turn = stage.turn("gone");
    let told = described(&turn, "skill");
    assert!(told.contains("\n- brew: Beer\n- my-own"), "{told}");
    assert_eq!(
        results(&turn),
        [(
            "c2".to_owned(),
            "Error: skill \"no-such\" is unknown or no longer available".to_owned(),
            true
        )]
    );
}

/// A file is made, seen and changed; outside the workspace nothing is.
#[test]
fn files_are_edited_by_commands_within_the_mode() {
    let editor = "str_replace_editor";
    let step = |step: u32, path: &str, more: Value| {
        let mut arguments = json!({ "path": path });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule("go", step, json!([call(&format!("c{step}"), editor, arguments)]))
    };
    // The workspace is known only once the host runs, so the prompt says where it is.
    let place = "{{prompt after in}}/a.txt";
    let script = json!([
        step(1, place, json!({ "command": "create", "file_text": "one\ntwo\n" })),
        step(2, place, json!({ "command": "insert", "insert_line": 1, "new_str": "half" })),
        step(3, place, json!({ "command": "str_replace", "old_str": "two", "new_str": "2" })),
        step(4, place, json!({ "command": "view" })),
        step(5, "/usr/away.txt", json!({ "command": "create", "file_text": "x" })),
        { "answer": [{ "text": "well" }] },
    ]);
    let mut stage = Setting::scripted(script).ready();
    let cwd = text(&stage.place.cwd).to_owned();
    let turn = stage.turn(&format!("go in {cwd}"));
    let results: Vec<_> =
        results(&turn).into_iter().map(|(_, text, is_error)| (text, is_error)).collect();
    let file = format!("{cwd}/a.txt");
    assert_eq!(
        results,
        [
            (format!("The file {file} has been created."), false),
            (format!("The file {file} has been changed."), false),
            (format!("The file {file} has been changed."), false),
            (format!("{file} (3 lines)\n     1\tone\n     2\thalf\n     3\t2"), false),
            ("Error: [sandbox: file access denied under workspace-write mode]".to_owned(), true),
        ]
    );
    assert_eq!(reason(&turn), json!({ "kind": "completed" }));
    assert_eq!(fs::read_to_string(file).expect("the file"), "one\nhalf\n2\n");
}
