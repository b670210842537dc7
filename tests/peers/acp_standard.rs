//! The official libraries of the Agent Client Protocol for TypeScript, an early and the current version, and for Python
//! drive the standard surface (row 52, as far as it is about that surface). What the clients do stands in
//! `acp_standard/client.mjs` and `acp_standard/client.py`.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{environment, here, once};

/// A client and the version of its library.
#[derive(Debug, Clone, Copy)]
enum Library {
    /// For TypeScript: `early` or `current`.
    Script(&'static str),
    /// For Python, 0.12.1.
    Python,
}

/// The folder with the client and the versions of its libraries.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/acp_standard")
}

/// Cargo's target directory.
fn target() -> PathBuf {
    let test = env::current_exe().expect("the test program");
    test.ancestors().nth(3).expect("target/<profile>/deps").to_owned()
}

/// Installs the libraries, unless these versions are there already. Other tests wait for the one that does it.
fn installed() -> PathBuf {
    let place = target().join("peers/acp-standard");
    fs::create_dir_all(&place).expect("a directory");
    let lock = File::create(target().join("peers/acp-standard.lock")).expect("a lock file");
    lock.lock().expect("the lock");
    let wanted = fs::read_to_string(folder().join("package-lock.json")).expect("the versions");
    let mark = place.join("complete");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return place;
    }
    for name in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(folder().join(name), place.join(name)).expect("a copy");
    }
    let npm = Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(&place).output();
    let npm = npm.expect("install Node.js 20 or later with npm");
    let said = String::from_utf8_lossy(&npm.stderr);
    assert!(npm.status.success(), "npm needs the package registry the first time: {said}");
    fs::write(&mark, wanted).expect("the mark of a complete installation");
    place
}

/// What the model does when a prompt names a mark.
fn script() -> Value {
    let bash = |command: &str, more: Value| {
        let mut arguments = json!({"command": command, "description": "a test"});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("one").clone());
        json!([{"tool": {"name": "bash", "arguments": arguments}}])
    };
    let wide =
        json!({"sandbox_permissions": "danger-full-access", "justification": "the test wants it"});
    let first = |mark: &str, answer: Value| json!({"when": {"contains": mark, "step": 1}, "answer": answer});
    json!({"context_window": 1000, "rules": [
        {"when": {"contains": "[[REASON]]"}, "answer": [
            {"reasoning": "a thought"}, {"text": "an answer"}, {"usage": {"input_tokens": 1, "output_tokens": 2}},
        ]},
        first("[[PERM]]", bash("printf escalated", wide)),
        first("[[SLOWTOOL]]", bash("sleep 300", json!({}))),
        {"when": {"contains": "[[LENGTH]]"}, "answer": [{"text": "cut off"}, {"finish": "max-tokens"}]},
        {"answer": [{"text": "done"}]},
    ]})
}

/// The library for Python, as the stories of the other surface have it too.
fn python() -> PathBuf {
    let pins = here().join("acp/requirements-0_12_1.txt");
    once("acp-python", &[&pins], |place| environment(place, &pins))
}

fn speaks_with(library: Library) {
    let scratch = TempDir::new().expect("a scratch directory");
    let root = scratch.path().canonicalize().expect("its true path");
    let cwd = root.join("work");
    fs::create_dir(&cwd).expect("a workspace");
    let file = |name: &str, text: String| {
        let path = root.join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let script = file("script.json", script().to_string());
    let manifest = file(
        "transom.toml",
        "[door.acp]\ncomponent = \"acp\"\ncarrier = \"stdio\"\n\n[door.acp.options]\nsurface = \"standard\"\n\n\
         [model]\nprovider = \"scripted\"\n"
            .to_owned(),
    );
    let profile = env::current_exe().expect("the test program");
    let profile = profile.ancestors().nth(2).expect("target/<profile>").join("transom");
    let program = env::var_os("TRANSOM_BIN").map_or(profile, PathBuf::from);
    let args = json!([
        "stdio",
        "acp",
        "--manifest",
        manifest,
        "--model-script",
        script,
        "--store",
        root.join("store.db"),
    ]);
    let mut settings = json!({"program": program, "args": args, "cwd": cwd});
    let mut client = match library {
        Library::Script(version) => {
            settings["version"] = json!(version);
            settings["installed"] = json!(installed());
            let mut node = Command::new("node");
            node.arg(folder().join("client.mjs"));
            node
        }
        Library::Python => {
            let mut python = Command::new(python().join("bin/python"));
            python.arg(folder().join("client.py")).env("PYTHONDONTWRITEBYTECODE", "1");
            python
        }
    };
    client.arg(settings.to_string()).env("HOME", &root);
    let output = client.output().expect("install Node.js 20 or later, and Python 3.10 or later");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let call = ["tool_call", "tool_call_update"];
    assert_eq!(
        seen,
        json!({
            "capabilities": {"close": {}, "list": {}, "resume": {}},
            "model": r#"["scripted","scripted"]"#,
            "REASON": ["agent_thought_chunk", "agent_message_chunk", "usage_update", "end_turn"],
            "PERM": [call[0], "permission for bash", call[1], "agent_message_chunk", "end_turn"],
            "LENGTH": ["agent_message_chunk", "max_tokens"],
            "SLOWTOOL": [call[0], call[1], "cancelled"],
            "chosen": r#"["scripted","scripted"]"#,
            "listed": [true],
            "resumed": ["agent_message_chunk", "end_turn"],
            "exit": 0,
        }),
        "{said}"
    );
}

#[test]
fn the_early_official_client_uses_the_standard_surface() {
    speaks_with(Library::Script("early"));
}

#[test]
fn the_current_official_client_uses_the_standard_surface() {
    speaks_with(Library::Script("current"));
}

#[test]
fn the_official_client_for_python_uses_the_standard_surface() {
    speaks_with(Library::Python);
}
