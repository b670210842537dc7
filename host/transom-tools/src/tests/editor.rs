//! `str_replace_editor`: one tool with commands, under the policies of `read`, `write` and `edit` (L-99, L-101, P-40).

use serde_json::json;
use transom_harness::{
    permissions::{Access, Mode},
    ports::Judgement,
};

use super::*;

const TOOL: &str = "str_replace_editor";

fn bench() -> Bench {
    Bench::with(|options| options.enabled = vec![TOOL.to_owned(), "read".to_owned()])
}

impl Bench {
    async fn edit(&self, command: &str, name: &str, more: Value) -> Result<String, String> {
        let mut arguments = json!({ "command": command, "path": self.shown(name) });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let outcome = self.call(TOOL, arguments).await;
        if outcome.is_error { Err(failure(&outcome).0) } else { Ok(text(&outcome)) }
    }
}

#[tokio::test]
async fn a_file_is_viewed_with_numbered_lines() {
    let bench = bench();
    bench.put("a", "one\r\ntwo\nthree");
    let shown = bench.shown("a");
    assert_eq!(
        bench.edit("view", "a", json!({})).await.unwrap(),
        format!("{shown} (3 lines)\n     1\tone\n     2\ttwo\n     3\tthree")
    );
    assert_eq!(
        bench.edit("view", "a", json!({ "view_range": [2, -1] })).await.unwrap(),
        format!("{shown} (lines 2 to 3 of 3)\n     2\ttwo\n     3\tthree")
    );
    assert_eq!(
        bench.edit("view", "a", json!({ "view_range": [2, 2] })).await.unwrap(),
        format!("{shown} (lines 2 to 2 of 3)\n     2\ttwo")
    );
    let refused = |range: Value| bench.edit("view", "a", json!({ "view_range": range }));
    let out = |range: &str| format!("view_range {range} is out of range for \"{shown}\" (3 lines)");
    assert_eq!(refused(json!([4, -1])).await, Err(out("[4, -1]")));
    assert_eq!(refused(json!([1, 4])).await, Err(out("[1, 4]")));
    for range in [json!([0, 1]), json!([2, 1]), json!([1, -2])] {
        assert!(refused(range).await.unwrap_err().contains("is no part of a file"));
    }
    for range in [json!([]), json!([1]), json!([1, 2, 3])] {
        let expected = "invalid view_range: expected the first and the last line";
        assert_eq!(refused(range).await, Err(expected.to_owned()));
    }
    bench.put("empty", "");
    let empty = format!("{} (0 lines)", bench.shown("empty"));
    assert_eq!(bench.edit("view", "empty", json!({})).await, Ok(empty));
    bench.put("binary", b"a\0b");
    let binary = format!("cannot read \"{}\": binary file", bench.shown("binary"));
    assert_eq!(bench.edit("view", "binary", json!({})).await, Err(binary));
}

#[tokio::test]
async fn a_long_view_is_cut_and_says_so() {
    let bench = bench();
    bench.put("a", "0123456\n".repeat(2000));
    let view = bench.edit("view", "a", json!({})).await.unwrap();
    // Each row has 15 characters, its end included.
    assert!(
        view.ends_with("[cut here: 934 more lines were left out; view_range shows other parts]"),
        "{}",
        &view[view.len() - 100..]
    );
}

#[tokio::test]
async fn a_directory_is_viewed_two_levels_deep() {
    let bench = bench();
    for name in ["b/c/d", "b/e", "a", ".hidden", "node_modules/x", "b/__pycache__/x"] {
        bench.put(name, "x");
    }
    std::os::unix::fs::symlink("/etc", bench.path("link")).unwrap();
    let root = bench.shown("");
    let rows = ["a", "b/", "b/c/", "b/e", "link"].map(|name| format!("\n{root}/{name}"));
    assert_eq!(
        bench.edit("view", "", json!({})).await,
        Ok(format!(
            "{root} (two levels deep; without hidden entries, node_modules and __pycache__){}",
            rows.concat()
        ))
    );
    assert_eq!(
        bench.edit("view", "b", json!({ "view_range": [1, 2] })).await,
        Err("invalid view_range: a directory has no lines".to_owned())
    );
}

#[tokio::test]
async fn the_names_of_a_view_are_bounded_in_all_its_directories_together() {
    let bench = bench();
    // Hidden entries are no rows, but somebody has to look at them.
    for name in ["a", "b"] {
        fs::create_dir(bench.path(name)).unwrap();
    }
    for number in 0..9_997 {
        fs::write(bench.path(&format!("a/.{number}")), "").unwrap();
    }
    bench.put("b/last", "x");
    let (root, head) = (
        bench.shown(""),
        "(two levels deep; without hidden entries, node_modules and __pycache__)",
    );
    let whole = format!("{root} {head}\n{root}/a/\n{root}/b/\n{root}/b/last");
    assert_eq!(bench.edit("view", "", json!({})).await, Ok(whole));
    fs::write(bench.path("a/.one-more"), "").unwrap();
    let cut = "[only 10000 names were looked at; view a directory further down]";
    let part = format!("{root} {head}\n{root}/a/\n{root}/b/\n{cut}");
    assert_eq!(bench.edit("view", "", json!({})).await, Ok(part));
}

#[tokio::test]
async fn only_what_was_seen_is_changed() {
    let bench = bench();
    bench.put("a", "one\ntwo\n");
    let change = || bench.edit("str_replace", "a", json!({ "old_str": "two", "new_str": "2" }));
    let (cannot, shown) = ("cannot edit", bench.shown("a"));
    let unseen = "file has not been read in this session — read the file, then retry";
    assert_eq!(change().await, Err(format!("{cannot} \"{shown}\": {unseen}")));
    bench.edit("view", "a", json!({})).await.unwrap();
    bench.put("a", "one\ntwo\nthree\n");
    let stale = "file changed since it was read — re-read the file, then retry";
    assert_eq!(change().await, Err(format!("{cannot} \"{shown}\": {stale}")));
    // Who has seen it by another tool has seen it.
    bench.ok("read", json!({ "file_path": "a" })).await;
    assert_eq!(change().await, Ok(format!("The file {shown} has been changed.")));
    assert_eq!(bench.content("a"), "one\n2\nthree\n");
    // What one has written oneself is known.
    bench.edit("insert", "a", json!({ "insert_line": 1, "new_str": "1½" })).await.unwrap();
    assert_eq!(bench.content("a"), "one\n1½\n2\nthree\n");
}

#[tokio::test]
async fn one_place_is_replaced_or_none() {
    let bench = bench();
    bench.put("a", "x\n\tone\nx\n");
    bench.edit("view", "a", json!({})).await.unwrap();
    let shown = bench.shown("a");
    let refused = |old: &str, new: &str| {
        bench.edit("str_replace", "a", json!({ "old_str": old, "new_str": new }))
    };
    assert_eq!(refused("y", "z").await, Err(format!("old_str was not found in \"{shown}\"")));
    assert_eq!(
        refused("x", "z").await,
        Err(format!(
            "old_str matched 2 times in \"{shown}\", at lines 1, 3; provide a more specific old_str"
        ))
    );
    assert_eq!(refused("", "z").await, Err("old_str must be a non-empty string".to_owned()));
    assert_eq!(refused("x", "x").await, Err("old_str and new_str must differ".to_owned()));
    assert_eq!(bench.content("a"), "x\n\tone\nx\n", "nothing has changed, not even a tab");
    bench.edit("str_replace", "a", json!({ "old_str": "\tone\n" })).await.unwrap();
    assert_eq!(bench.content("a"), "x\nx\n", "without new_str it is removed");
}

#[tokio::test]
async fn lines_are_inserted_behind_a_line() {
    let check = async |before: &str, line: u64, new: &str, after: &str| {
        let bench = bench();
        bench.put("a", before);
        bench.edit("view", "a", json!({})).await.unwrap();
        bench.edit("insert", "a", json!({ "insert_line": line, "new_str": new })).await.unwrap();
        assert_eq!(bench.content("a"), after, "{before:?} {line} {new:?}");
    };
    check("one\ntwo\n", 0, "0", "0\none\ntwo\n").await;
    check("one\ntwo\n", 1, "a\nb", "one\na\nb\ntwo\n").await;
    check("one\ntwo\n", 1, "a\n", "one\na\ntwo\n").await;
    check("one\ntwo\n", 2, "3", "one\ntwo\n3\n").await;
    check("one\ntwo", 2, "3", "one\ntwo\n3").await;
    check("one\ntwo", 1, "1½", "one\n1½\ntwo").await;
    check("", 0, "1", "1\n").await;
    check("one\r\ntwo\r\n", 1, "1½", "one\r\n1½\r\ntwo\r\n").await;

    let bench = bench();
    bench.put("a", "one\n");
    bench.edit("view", "a", json!({})).await.unwrap();
    let shown = bench.shown("a");
    assert_eq!(
        bench.edit("insert", "a", json!({ "insert_line": 2, "new_str": "x" })).await,
        Err(format!("insert_line 2 is out of range for \"{shown}\" (1 lines)"))
    );
    assert_eq!(
        bench.edit("insert", "a", json!({ "insert_line": -1, "new_str": "x" })).await,
        Err("insert_line must be greater than or equal to 0".to_owned())
    );
}

#[tokio::test]
async fn a_file_is_made_and_never_made_again() {
    let bench = bench();
    let made = format!("The file {} has been created.", bench.shown("new/a"));
    assert_eq!(bench.edit("create", "new/a", json!({ "file_text": "x" })).await, Ok(made));
    assert_eq!(
        bench.edit("create", "new/a", json!({ "file_text": "y" })).await,
        Err(format!(
            "cannot write \"{}\": it exists; create makes new files only, str_replace and insert change them",
            bench.shown("new/a")
        ))
    );
    assert_eq!(bench.content("new/a"), "x");
}

#[tokio::test]
async fn a_command_says_what_it_lacks() {
    let bench = bench();
    for (command, needs) in
        [("create", "file_text"), ("str_replace", "old_str"), ("insert", "insert_line")]
    {
        let expected = format!("invalid {needs}: {command} needs {needs}");
        assert_eq!(bench.edit(command, "a", json!({})).await, Err(expected));
    }
    let (message, _) = bench.error(TOOL, json!({ "command": "view", "path": "a" })).await;
    assert_eq!(
        message,
        "invalid path: \"a\" is relative; expected an absolute path, such as \"/a\""
    );
    let (message, code) = bench.error(TOOL, json!({ "command": "undo_edit", "path": "/a" })).await;
    assert!(message.contains("\"command\" must be"), "{message}");
    assert_eq!(code, "ToolArgsError/INVALID_ARGS");
}

/// P-18, P-21, P-40: held to the mode like `write` and `edit`, but without a way to ask for a wider one.
#[tokio::test]
async fn changes_are_held_to_the_mode_and_views_are_not() {
    let bench = Bench::with(|options| {
        options.enabled = vec![TOOL.to_owned()];
        options.confinement.shared_temp = false;
        options.confinement.hide = vec![options.directory.join("secret")];
        options.permissions.confines_files = true;
        options.permissions.approvals = true;
    });
    bench.put("a", "one");
    bench.put("secret", "key");
    let call = async |mode: Mode, arguments: Value| {
        let (sender, mut results) = mpsc::channel(1);
        let call = ToolCall {
            session: "main".into(),
            cwd: Some(bench.shown("")),
            root: None,
            call_id: "call-1".to_owned(),
            name: TOOL.to_owned(),
            arguments: arguments.to_string(),
            access: Access { mode, ..Access::FULL },
            jobs: Default::default(),
        };
        let _stop =
            bench.registry.call(call, Box::new(move |outcome| sender.try_send(outcome).unwrap()));
        results.recv().await.unwrap()
    };
    let view = json!({ "command": "view", "path": bench.shown("a") });
    let create = |path: String| json!({ "command": "create", "path": path, "file_text": "x" });
    let inside = create(bench.shown("b"));
    let outside = create(format!("{}/away", bench.home.path().display()));
    let hidden = json!({ "command": "view", "path": bench.shown("secret") });

    assert!(!call(Mode::ReadOnly, view.clone()).await.is_error);
    let denied = |mode: &str| {
        let text = format!("[sandbox: file access denied under {mode} mode]");
        (text, "FsError/FS_SANDBOX_DENIED".to_owned())
    };
    assert_eq!(failure(&call(Mode::ReadOnly, inside.clone()).await), denied("read-only"));
    let change = json!({ "command": "str_replace", "path": bench.shown("a"), "old_str": "one" });
    assert_eq!(failure(&call(Mode::ReadOnly, change).await), denied("read-only"));
    assert!(!call(Mode::WorkspaceWrite, inside).await.is_error);
    assert_eq!(
        failure(&call(Mode::WorkspaceWrite, outside.clone()).await),
        denied("workspace-write")
    );
    assert!(!call(Mode::DangerFullAccess, outside).await.is_error);
    let (told, _) = failure(&call(Mode::WorkspaceWrite, hidden).await);
    assert!(told.ends_with("hidden by this host"), "{told}");

    let listing = json!({ "command": "view", "path": bench.shown("") });
    let listed = text(&call(Mode::ReadOnly, listing).await);
    assert!(listed.contains("/a\n") && !listed.contains("secret"), "{listed}");

    let spec = bench
        .registry
        .specs(&"main".into())
        .iter()
        .find(|spec| spec.name == TOOL)
        .cloned()
        .unwrap();
    assert!(spec.parameters["properties"].get("sandbox_permissions").is_none());
    // What is not in the schema asks for nothing.
    let asking = json!({
        "command": "create", "path": bench.shown("c"), "file_text": "x",
        "sandbox_permissions": "danger-full-access", "justification": "please",
    });
    let (sender, judged) = std::sync::mpsc::sync_channel(1);
    let access = Access { mode: Mode::ReadOnly, ..Access::FULL };
    let call = ToolCall {
        session: "main".into(),
        cwd: Some(bench.shown("")),
        root: None,
        call_id: "call-1".to_owned(),
        name: TOOL.to_owned(),
        arguments: asking.to_string(),
        access,
        jobs: Default::default(),
    };
    bench.registry.judge(call, Box::new(move |judgement| sender.send(judgement).unwrap()));
    assert_eq!(judged.recv().unwrap(), Judgement::Run);
}
