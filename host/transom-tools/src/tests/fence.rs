//! What file tools reach in each mode (P-44 to P-48, rows 16 to 19).
//!
//! Tools are called without a registry, so that a test can choose the mode of a call and what happens during it.

mod moments;
mod race;
mod trees;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use transom_harness::{
    permissions::{Access, Mode},
    ports::{ToolCall, ToolOutcome, Tools},
};
use transom_process::Confinement;

use super::{Bench, coded, failure, plain, text};
use crate::{
    Call, Fence, Tool, abort::AbortSource, edit::Edit, fence::Bounds, files::Files, glob::Glob,
    grep::Grep, read::Read, sessions::Sessions, write::Write,
};

const MODES: [Mode; 3] = [Mode::ReadOnly, Mode::WorkspaceWrite, Mode::DangerFullAccess];
const CONFINED: [Mode; 2] = [Mode::ReadOnly, Mode::WorkspaceWrite];

/// A workspace with a world around it: `work`, `outside`, `user` (a home with secrets) and `host` (Transom's home).
struct Yard {
    home: tempfile::TempDir,
    fence: Fence,
    files: Files,
    sessions: Sessions,
    mode: Mode,
    /// What the session was told of its directory.
    root: Option<PathBuf>,
}

impl Yard {
    fn new() -> Yard {
        Yard::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Confinement)) -> Yard {
        Yard::inside(&std::env::temp_dir(), change)
    }

    /// A yard below a directory. Temporary directories are no roots unless `change` makes them so: the whole yard
    /// would be one.
    fn inside(directory: &Path, change: impl FnOnce(&mut Confinement)) -> Yard {
        let home = tempfile::tempdir_in(directory).unwrap();
        let root = fs::canonicalize(home.path()).unwrap();
        for name in ["work", "outside", "user/.ssh", "host/run/s"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("outside/f"), "outside").unwrap();
        fs::write(root.join("user/.ssh/id"), "key").unwrap();
        fs::write(root.join("user/.netrc"), "key").unwrap();
        fs::write(root.join("host/token"), "key").unwrap();
        fs::write(root.join("server.key"), "key").unwrap();
        fs::write(root.join("host/run/s/spill"), "spilled").unwrap();
        let mut confinement = Confinement {
            shared_temp: false,
            private: vec![root.join("host"), root.join("server.key")],
            user_home: Some(root.join("user")),
            run: Some(root.join("host/run")),
            ..Confinement::default()
        };
        change(&mut confinement);
        let fence = Fence::new(confinement);
        Yard {
            home,
            files: Files::new(fence.clone()),
            fence,
            sessions: Sessions::new(Fence::default()),
            mode: Mode::WorkspaceWrite,
            root: None,
        }
    }

    /// Something beside the workspace.
    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn request(&self, arguments: Value) -> Call {
        let source = AbortSource::new();
        Call {
            session: "s".into(),
            directory: self.path("work"),
            has_directory: true,
            root: self.root.clone(),
            call_id: "call-1".to_owned(),
            access: Access { mode: self.mode, ..Access::FULL },
            confined: Some(self.mode).filter(|mode| *mode != Mode::DangerFullAccess),
            jobs: Default::default(),
            arguments: arguments.as_object().cloned().unwrap_or_else(Map::new),
            abort: source.signal(),
            ticket: self.sessions.begin(&"s".into(), source),
        }
    }

    fn bounds(&self) -> Bounds {
        self.files.bounds(&self.request(json!({}))).unwrap()
    }

    async fn call(&self, tool: impl Tool, arguments: Value) -> ToolOutcome {
        let output = tool.output();
        let outcome = tool.run(self.request(arguments)).await;
        output.settle("tool", outcome.unwrap_or_else(ToolOutcome::from))
    }

    async fn read(&self, path: &str) -> ToolOutcome {
        self.call(Read::new(self.files.clone()), json!({ "file_path": path })).await
    }

    async fn write(&self, path: &str, content: &str) -> ToolOutcome {
        let arguments = json!({ "file_path": path, "content": content });
        self.call(Write::new(self.files.clone()), arguments).await
    }

    async fn edit(&self, path: &str, old: &str, new: &str) -> ToolOutcome {
        let arguments = json!({ "file_path": path, "old_string": old, "new_string": new });
        self.call(Edit::new(self.files.clone()), arguments).await
    }

    async fn glob(&self, path: &str, pattern: &str) -> String {
        let tool = Glob::new(self.files.clone(), std::time::Duration::MAX);
        text(&self.call(tool, json!({ "path": path, "pattern": pattern })).await)
    }

    async fn grep(&self, path: &str, pattern: &str) -> String {
        let tool = Grep::new(self.files.clone(), std::time::Duration::MAX);
        text(&self.call(tool, json!({ "path": path, "pattern": pattern })).await)
    }

    /// A denial as P-21 has it.
    fn denied(&self) -> (String, String) {
        let mode = self.mode.as_str();
        let lines = format!(
            "[sandbox: file access denied under {mode} mode]\n[sandbox: escalation available — retry this exact \
             operation once with sandbox_permissions (the narrowest wider mode that suffices) + justification; the \
             approval prompt asks the user]"
        );
        coded(lines, "FsError/FS_SANDBOX_DENIED")
    }

    fn hidden(&self, verb: &str, path: &str) -> (String, String) {
        coded(
            format!("cannot {verb} \"{path}\": hidden by this host"),
            "FsError/FS_PERMISSION_DENIED",
        )
    }
}

fn assert_ok(outcome: &ToolOutcome) {
    assert!(!outcome.is_error, "{}", text(outcome));
}

#[tokio::test]
async fn row_16_read_only_refuses_every_change_and_no_reading() {
    let mut yard = Yard::new();
    yard.put("work/f", "one");
    yard.mode = Mode::ReadOnly;
    assert_ok(&yard.read("f").await);
    assert_ok(&yard.read("/etc/passwd").await);
    assert_ok(&yard.read(&yard.shown("outside/f")).await);
    let none = yard.shown("none");
    for path in ["f", "new", "deep/new", "/dev/shm/new", "/proc/self/comm", &none] {
        assert_eq!(failure(&yard.write(path, "two").await), yard.denied(), "{path}");
        assert_eq!(failure(&yard.edit(path, "one", "two").await), yard.denied(), "{path}");
    }
    assert_eq!(yard.content("work/f"), "one");
    assert!(!yard.path("work/deep").exists());
    // Nobody is asked about a call that cannot run.
    let check =
        |arguments: Value| Edit::new(yard.files.clone()).check(arguments.as_object().unwrap());
    let told = failure(&check(json!({ "file_path": "f", "old_string": "" })).unwrap_err().into());
    assert_eq!(told, plain("old_string must be a non-empty string"));
}

#[tokio::test]
async fn row_17_workspace_write_changes_what_is_below_a_root() {
    let yard = Yard::with(|confinement| {
        let more = confinement.user_home.as_ref().unwrap().with_file_name("more");
        fs::create_dir(&more).unwrap();
        confinement.write = vec![more];
    });
    yard.put("work/real", "real");
    symlink(yard.path("outside"), yard.path("work/out")).unwrap();
    symlink("../outside/f", yard.path("work/outfile")).unwrap();
    symlink("../outside/new", yard.path("work/dangling")).unwrap();
    symlink("../outside/none/at/all", yard.path("work/far")).unwrap();
    symlink(yard.path("work/real"), yard.path("work/absolute")).unwrap();
    symlink(yard.path("work"), yard.path("outside/back")).unwrap();
    assert_ok(&yard.read("absolute").await);

    let allowed = [
        "a",
        "deep/er/a",
        "absolute",
        "out/back/b",
        "out/../work/c",
        &yard.shown("work/d"),
        &yard.shown("more/e"),
        &yard.shown("host/run/s/f"),
    ];
    for path in allowed {
        assert_ok(&yard.write(path, "new").await);
    }
    assert_eq!(yard.content("work/real"), "new");
    assert_eq!(yard.content("work/b"), "new");
    assert_eq!(yard.content("work/c"), "new");

    let refused = [
        "out/x",
        "out/f",
        "outfile",
        "dangling",
        "far",
        "../outside/x",
        "out/../x",
        "../worker",
        &yard.shown("outside/x"),
        "/etc/transom-test",
    ];
    for path in refused {
        assert_eq!(failure(&yard.write(path, "new").await), yard.denied(), "{path}");
    }
    assert_ok(&yard.read("outfile").await);
    assert_eq!(failure(&yard.edit("outfile", "outside", "x").await), yard.denied());
    assert_eq!(yard.content("outside/f"), "outside");
    assert_eq!(fs::read_dir(yard.path("outside")).unwrap().count(), 2);
}

#[tokio::test]
async fn temporary_directories_are_roots_where_they_are_shared() {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("a").display().to_string();
    let shared = Yard::with(|confinement| {
        confinement.shared_temp = true;
        confinement.temp = Some(elsewhere.path().to_owned());
    });
    assert_ok(&shared.write(&path, "x").await);
    assert_eq!(failure(&Yard::new().write(&path, "x").await).1, "FsError/FS_SANDBOX_DENIED");
}

#[tokio::test]
async fn full_access_changes_anything_but_what_is_hidden() {
    let mut yard = Yard::new();
    yard.mode = Mode::DangerFullAccess;
    let path = yard.shown("outside/f");
    assert_ok(&yard.read(&path).await);
    assert_ok(&yard.edit(&path, "outside", "changed").await);
    assert_ok(&yard.write(".git/hooks/pre-commit", "x").await);
    assert_ok(&yard.write(&yard.shown("user/.ssh/new"), "x").await);
    assert_eq!(yard.content("outside/f"), "changed");
    // P-45 (a): in no mode.
    for path in [yard.shown("host/token"), yard.shown("host/new")] {
        assert_eq!(failure(&yard.write(&path, "x").await), yard.hidden("write", &path));
    }
    assert_eq!(yard.content("host/token"), "key");
}

#[tokio::test]
async fn row_18_what_is_the_hosts_is_hidden_in_every_mode() {
    let mut yard = Yard::new();
    symlink(yard.path("host"), yard.path("work/way")).unwrap();
    fs::hard_link(yard.path("server.key"), yard.path("work/name")).unwrap();
    for mode in MODES {
        yard.mode = mode;
        for path in [
            &yard.shown("host/token"),
            &yard.shown("host/none"),
            &yard.shown("server.key"),
            &yard.shown("host"),
            &yard.shown("host/run/other/spill"),
            "way/token",
            "name",
            "/proc/self/environ",
            "/proc/1/environ",
            "/sys/kernel/mm",
            "/dev/zero",
        ] {
            let shown = yard.path("work").join(path).display().to_string();
            assert_eq!(failure(&yard.read(path).await), yard.hidden("read", &shown), "{mode:?}");
        }
        // Its own directory is the session's.
        assert_ok(&yard.read(&yard.shown("host/run/s/spill")).await);
        assert_ok(&yard.read("way/run/s/spill").await);
        let own = yard.shown("host/run/s");
        assert_eq!(yard.glob(&own, "*").await, format!("{own}/spill"));
        let told = yard.glob(&yard.shown("host"), "*").await;
        assert!(told.ends_with("hidden by this host"), "{told}");
    }
}

#[tokio::test]
async fn row_18_personal_secrets_are_hidden_where_a_mode_confines() {
    let mut yard = Yard::with(|confinement| {
        let user = confinement.user_home.clone().unwrap();
        confinement.hide = vec!["letters".into(), user.join("none")];
        confinement.show = vec![".kube".into()];
        fs::create_dir(user.join("letters")).unwrap();
        fs::create_dir(user.join(".kube")).unwrap();
        fs::write(user.join("letters/a"), "key").unwrap();
        fs::write(user.join(".kube/config"), "key").unwrap();
        confinement.write = vec![user];
    });
    let names = ["user/.ssh/id", "user/.netrc", "user/letters/a", "user/.ssh/none"];
    for mode in CONFINED {
        yard.mode = mode;
        for path in names.map(|name| yard.shown(name)) {
            assert_eq!(failure(&yard.read(&path).await), yard.hidden("read", &path));
        }
        assert_ok(&yard.read(&yard.shown("user/.kube/config")).await);
    }
    // Below a root, but hidden all the same.
    let path = yard.shown("user/.ssh/authorized_keys");
    assert_eq!(failure(&yard.write(&path, "x").await), yard.hidden("write", &path));
    assert!(!yard.path("user/.ssh/authorized_keys").exists());
    assert_ok(&yard.write(&yard.shown("user/notes"), "x").await);

    yard.mode = Mode::DangerFullAccess;
    for name in ["user/.ssh/id", "user/.netrc", "user/letters/a"] {
        assert_ok(&yard.read(&yard.shown(name)).await);
    }
}

#[tokio::test]
async fn search_passes_over_what_is_hidden() {
    let mut yard = Yard::new();
    yard.put("work/a", "key");
    fs::hard_link(yard.path("user/.netrc"), yard.path("work/b")).unwrap();
    let everything = yard.shown("");
    let everything = everything.trim_end_matches('/');
    let table: [(Mode, &[&str]); 3] = [
        (Mode::ReadOnly, &["work/a"]),
        (Mode::WorkspaceWrite, &["work/a"]),
        (Mode::DangerFullAccess, &["user/.netrc", "user/.ssh/id", "work/a", "work/b"]),
    ];
    for (mode, expected) in table {
        yard.mode = mode;
        let found: Vec<_> = expected.iter().map(|name| yard.shown(name)).collect();
        let told = yard.grep(everything, "key").await;
        let named: Vec<_> = told.lines().filter(|line| line.starts_with('/')).collect();
        assert_eq!(named, found, "{mode:?}");
        let told = yard.glob(everything, "{a,b,id,token,*.key,.netrc}").await;
        let mut named: Vec<_> = told.lines().collect();
        named.sort_unstable();
        assert_eq!(named, found, "{mode:?}");
    }
}

#[tokio::test]
async fn row_19_guarded_files_are_read_and_not_changed() {
    let guard = |confinement: &mut Confinement| {
        let outside = confinement.user_home.as_ref().unwrap().with_file_name("outside");
        confinement.guard =
            vec!["transom.toml".into(), "none.toml".into(), "rules".into(), outside];
    };
    let yard = Yard::with(guard);
    yard.put("work/.git/config", "x");
    yard.put("work/sub/.git", "x");
    yard.put("work/transom.toml", "x");
    yard.put("work/rules/a", "x");
    symlink(".git", yard.path("work/git")).unwrap();
    fs::hard_link(yard.path("work/transom.toml"), yard.path("work/same")).unwrap();
    let guarded = [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "git/config",
        "new/.git/config",
        "sub/.git",
        "transom.toml",
        "none.toml",
        "rules/a",
        "rules/new",
        "same",
    ];
    for path in guarded {
        assert_eq!(failure(&yard.write(path, "y").await), yard.denied(), "{path}");
    }
    assert!(!yard.path("work/new").exists() && !yard.path("work/.git/hooks").exists());
    for path in [".git/config", "sub/.git", "transom.toml", "rules/a"] {
        assert_ok(&yard.read(path).await);
        assert_eq!(failure(&yard.edit(path, "x", "y").await), yard.denied(), "{path}");
    }
    assert_ok(&yard.write(".gitignore", "x").await);
    assert_ok(&yard.write(".github/a", "x").await);

    let open = Yard::with(|confinement| confinement.guard_git = false);
    assert_ok(&open.write(".git/hooks/pre-commit", "x").await);
}

#[test]
fn p_48_paths_are_resolved_completely() {
    let yard = Yard::new();
    yard.put("work/dir/f", "x");
    symlink("dir", yard.path("work/link")).unwrap();
    symlink("nowhere/at/all", yard.path("work/dangling")).unwrap();
    symlink("../../outside", yard.path("work/dir/out")).unwrap();
    symlink("loop", yard.path("work/loop")).unwrap();
    let absolute = yard.shown("work/link/f");
    let table = [
        ("", "work"),
        (".", "work"),
        ("dir/f", "work/dir/f"),
        ("link/f", "work/dir/f"),
        (&absolute, "work/dir/f"),
        ("link/new/deep", "work/dir/new/deep"),
        // Links first, `..` afterwards (P-5).
        ("link/../x", "work/x"),
        ("dir/out/..", ""),
        ("dir/out/../work/none", "work/none"),
        ("dangling", "work/nowhere/at/all"),
        ("dangling/below", "work/nowhere/at/all/below"),
        ("dir/f/below", "work/dir/f/below"),
        ("../../../../../../../..", "/"),
    ];
    for (text, expected) in table {
        let real = yard.fence.resolve(&yard.path("work"), text).unwrap();
        let expected = yard.path(expected).components().collect::<PathBuf>();
        assert_eq!(real, expected, "{text}");
    }
    for text in ["none/../x", "dir/f/../x", "dangling/../x", "loop", "loop/x", "a\0b"] {
        assert!(yard.fence.resolve(&yard.path("work"), text).is_err(), "{text}");
    }
}

/// Through the registry, as the loop calls it.
#[tokio::test]
async fn the_registry_holds_file_tools_to_the_mode_of_the_call() {
    let bench = Bench::with(|options| {
        options.confinement.shared_temp = false;
        options.permissions.confines_files = true;
    });
    bench.put("f", "one");
    let call = async |name: &str, mode: Mode, arguments: Value| {
        let (sender, mut results) = tokio::sync::mpsc::channel(1);
        let call = ToolCall {
            session: "main".into(),
            cwd: Some(bench.shown("")),
            root: None,
            call_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            access: Access { mode, ..Access::FULL },
            jobs: Default::default(),
        };
        let _stop =
            bench.registry.call(call, Box::new(move |outcome| sender.try_send(outcome).unwrap()));
        results.recv().await.unwrap()
    };
    let write = json!({ "file_path": "new", "content": "x" });
    let (told, code) = failure(&call("write", Mode::ReadOnly, write.clone()).await);
    assert!(told.starts_with("[sandbox: file access denied under read-only mode]\n[sandbox: esc"));
    assert_eq!(code, "FsError/FS_SANDBOX_DENIED");
    assert_ok(&call("write", Mode::WorkspaceWrite, write).await);
    let away = json!({ "file_path": "../away", "content": "x" });
    let (_, code) = failure(&call("write", Mode::WorkspaceWrite, away.clone()).await);
    assert_eq!(code, "FsError/FS_SANDBOX_DENIED");
    assert_ok(&call("write", Mode::DangerFullAccess, away).await);

    // What the operator says counts from the next call on.
    let read = json!({ "file_path": "f" });
    assert_ok(&call("read", Mode::ReadOnly, read.clone()).await);
    let hide = Confinement { hide: vec![bench.path("f")], ..Confinement::default() };
    bench.registry.set_confinement(hide, None);
    let (told, _) = failure(&call("read", Mode::ReadOnly, read.clone()).await);
    assert!(told.ends_with("hidden by this host"), "{told}");
    assert_ok(&call("read", Mode::DangerFullAccess, read).await);
}
