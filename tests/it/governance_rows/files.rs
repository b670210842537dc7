//! Rows 16 to 19: what file tools and shells may change and read, mode by mode.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::SystemTime,
};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use serde_json::{Value, json};

use super::bench::{Answer, Outcome, Site, bash, denied, on, tool};
use crate::support::place::text;

fn write(path: &Path) -> Value {
    tool("write", json!({"file_path": text(path), "content": "changed\n"}))
}

fn read(path: &Path) -> Value {
    tool("read", json!({"file_path": text(path)}))
}

/// A denied change by a file tool is the two lines and nothing else (P-21).
fn is_denied(outcome: &Outcome, mode: &str) {
    outcome.failed(&denied(mode, "operation"));
    assert_eq!(outcome.code, "FS_SANDBOX_DENIED");
}

/// P-40, P-53 `metadata`: under `read-only` nothing changes, not even a mode bit; reading goes on.
#[test]
fn row_16_read_only_changes_nothing_and_reads_everything() {
    let site = Site::new().tables("[permissions]\npreset = \"read-only\"\n");
    let file = site.cwd.join("f");
    fs::write(&file, "as it was\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let before = fs::metadata(&file).expect("a file");
    let edit = json!({"file_path": "f", "old_string": "was", "new_string": "is"});
    let new = site.cwd.join("new");
    let site = site.script([
        on("change", [read(&file), write(&file), write(&new), tool("edit", edit)]),
        on("look", [read(Path::new("/etc/hostname")), tool("glob", json!({"pattern": "*"}))]),
    ]);
    let mut host = site.start();
    host.open("main");
    let results = host.turn("main", "change").results();
    assert!(results[0].went_well().contains("as it was"), "{results:?}");
    for result in &results[1..] {
        is_denied(result, "read-only");
    }
    for command in [
        "chmod 600 f",
        "touch -d yesterday f",
        "chown 1 f",
        "echo x > f",
        "rm f",
        "mv f g",
        "ln f g",
        "touch new",
        "truncate -s 0 f",
        "mkdir d",
        "echo x > /tmp/transom-row-16",
        "python3 -c 'import os; os.setxattr(\"f\", \"user.x\", b\"1\")'",
    ] {
        let result = host.shell("main", command);
        let text = result.went_well();
        assert!(text.contains("exit code: "), "{command}: {text}");
        assert!(
            text.contains("[sandbox: file access denied under read-only mode]")
                || command.starts_with("python3")
                || command.starts_with("ln"),
            "{command}: {text}"
        );
    }
    let after = fs::metadata(&file).expect("the file is still there");
    let state = |file: &fs::Metadata| -> (u32, SystemTime, u64) {
        (file.permissions().mode(), file.modified().expect("a time"), file.len())
    };
    assert_eq!(state(&after), state(&before));
    assert_eq!(names(&site.cwd), ["f"]);
    assert!(!Path::new("/tmp/transom-row-16").exists());

    let results = host.turn("main", "look").results();
    assert!(
        !results[0].went_well().is_empty() && results[1].went_well().contains('f'),
        "{results:?}"
    );
    assert_eq!(host.shell("main", "cat f").went_well(), "as it was\n");
    host.stop();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// P-44, P-47, P-48: below the roots everything may be written, through links too as long as they stay inside.
#[test]
fn row_17_workspace_write_writes_below_the_roots() {
    let site = Site::new();
    let temporary = PathBuf::from(format!("/tmp/transom-row-17-{}", std::process::id()));
    let inside = site.cwd.join("real");
    fs::write(&inside, "as it was\n").expect("a file");
    symlink(&site.outside, site.cwd.join("link")).expect("a link");
    symlink(&inside, site.cwd.join("absolute")).expect("a link");
    let calls = [
        write(&site.cwd.join("a")),
        write(&temporary),
        read(&site.cwd.join("absolute")),
        write(&site.cwd.join("absolute")),
        write(&site.cwd.join("link/x")),
        write(&site.cwd.join("link/../x")),
        write(&site.cwd.join("../outside/x")),
        write(&site.outside.join("x")),
    ];
    let site = site.script([on("go", calls)]);
    let mut host = site.start();
    host.open("main");
    let results = host.turn("main", "go").results();
    for result in &results[..4] {
        result.went_well();
    }
    for result in &results[4..] {
        is_denied(result, "workspace-write");
    }
    assert_eq!(fs::read_to_string(&inside).expect("a file"), "changed\n");
    assert!(fs::symlink_metadata(site.cwd.join("absolute")).expect("a link").is_symlink());
    assert_eq!(fs::read_to_string(&temporary).expect("a file"), "changed\n");
    fs::remove_file(&temporary).expect("ours");
    // Shells and file tools know the same roots.
    for (command, is_allowed) in [
        ("echo x > b", true),
        ("echo x > absolute", true),
        ("f=$(mktemp /tmp/row-17.XXXXXX) && echo x > $f && rm $f", true),
        ("f=$(mktemp) && echo x > $f && rm $f", true),
        ("f=$(mktemp /dev/shm/row-17.XXXXXX) && echo x > $f && rm $f", true),
        ("echo x > link/x", false),
        ("echo x > ../outside/x", false),
        ("ln ../outside l", false),
    ] {
        let text = host.shell("main", command).text;
        assert_eq!(!text.contains("exit code: "), is_allowed, "{command}: {text}");
    }
    assert_eq!(names(&site.outside), [""; 0]);
    host.stop();
}

/// P-48: no gap between check and use. What is written while a directory is exchanged for a link, again and again,
/// lands inside or nowhere. (Ten thousand writes of this kind are in `fence/race.rs` of `transom-tools`; here it is
/// the whole program.)
#[test]
fn row_17_writes_during_swaps_stay_inside() {
    let site = Site::new();
    let directory = site.cwd.join("d");
    fs::create_dir(&directory).expect("a directory");
    fs::write(site.outside.join("f"), "as it was\n").expect("a file");
    let calls: Vec<_> = (0..100).map(|_| write(&directory.join("f"))).collect();
    let site = site.script([on("go", calls)]);
    let mut host = site.start();
    host.open("main");

    let stop = AtomicBool::new(false);
    let (mut inside, mut outside) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (link, exchange) = (site.cwd.join("l"), RenameFlags::RENAME_EXCHANGE);
            symlink(&site.outside, &link).expect("a link");
            while !stop.load(Ordering::Relaxed) {
                renameat2(AT_FDCWD, &directory, AT_FDCWD, &link, exchange).expect("exchanged");
                thread::yield_now();
            }
        });
        for _ in 0..20 {
            for result in host.turn("main", "go").results() {
                match result.is_error {
                    false => inside += 1,
                    true => outside += 1,
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(inside + outside, 2000);
    assert!(inside > 0, "some writes met the directory");
    assert_eq!(fs::read_to_string(site.outside.join("f")).expect("a file"), "as it was\n");
    assert_eq!(names(&site.outside), ["f"]);
    host.stop();
}

/// P-45: what is the host's is nobody's, whatever the mode; personal secrets are hidden where a mode confines.
#[test]
fn row_18_hidden_files_are_hidden() {
    for mode in ["read-only", "workspace-write", "danger-full-access"] {
        let site = Site::new().tables(&format!("[permissions]\npreset = \"{mode}\"\n"));
        let secret = site.home.join(".ssh/id_ed25519");
        let nested = site.home.join(".config/gcloud/credentials.db");
        for path in [&secret, &nested] {
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, "a personal secret\n").expect("a file");
        }
        let store = site.state().join("store.db");
        let site = site.env("ROW_18_TOKEN", "a token of the host");
        let site = site.script_of_paths(&[&secret, &nested, &store]);
        let mut host = site.start();
        host.open("main");
        let environ = format!("/proc/{}/environ", host.peer.wire.id());
        let is_confined = mode != "danger-full-access";

        let results = host.turn("main", "read them").results();
        for result in &results[..2] {
            assert_eq!(result.is_error, is_confined, "{mode}: {result:?}");
            assert_eq!(
                result.text.contains("a personal secret"),
                !is_confined,
                "{mode}: {result:?}"
            );
        }
        let private = &results[2];
        private.failed(&format!("cannot read \"{}\": hidden by this host", store.display()));
        assert_eq!(private.code, "FS_PERMISSION_DENIED");
        for path in ["/proc/self/environ", environ.as_str(), "/dev/zero", "/proc/self/mem"] {
            let result = host.read_now("main", path);
            result.failed(&format!("cannot read \"{path}\": hidden by this host"));
        }
        if is_confined {
            for path in [text(&secret), text(&nested), text(&store), &environ] {
                let shown = host.shell("main", &format!("cat {path}"));
                // A cover has no such file, or nothing to open.
                let is_refused = ["Permission denied", "No such file"]
                    .iter()
                    .any(|why| shown.text.contains(why));
                let refused = is_refused && !shown.text.contains("secret");
                assert!(refused && !shown.text.contains("token"), "{mode} {path}: {shown:?}");
            }
            // Its own environment is a command's to read, and has none of the host's secrets.
            let shown = host.shell("main", "tr '\\0' '\\n' < /proc/self/environ").text;
            assert!(!shown.contains("a token of the host"), "{shown}");
            let listed = host.shell("main", "ls -A ~").text;
            assert!(listed.contains(".ssh") && listed.contains(".local"), "{listed}");
        }
        host.stop();
    }
}

/// P-46: guarded files can be read, and `git` can be used.
#[test]
fn row_19_git_works_and_its_hooks_are_guarded() {
    let site = Site::new();
    let hook = site.cwd.join(".git/hooks/pre-commit");
    let config = site.cwd.join(".git/config");
    let site = site.script([on("hook", [write(&hook)]), on("read", [read(&config)])]);
    let mut host = site.start();
    host.open("main");
    is_denied(&host.turn("main", "hook").result(), "workspace-write");
    let git = "git -c init.defaultBranch=main init -q . && echo x > a && git add a && \
               git -c user.name=n -c user.email=e@x commit -qm one && git log --oneline";
    assert!(host.shell("main", git).went_well().contains("one"));
    let again = "echo y >> a && git -c user.name=n -c user.email=e@x commit -qam two && git gc -q && git log --oneline";
    assert!(host.shell("main", again).went_well().contains("two"));
    assert!(host.turn("main", "read").result().went_well().contains("[core]"));
    is_denied(&host.turn("main", "hook").result(), "workspace-write");

    let confiner = site.confiner();
    let attacks = [
        "echo > .git/hooks/x",
        "echo > .git/hooks/pre-commit",
        "rm -r .git/hooks",
        "mv .git/hooks .git/other && mkdir .git/hooks && echo > .git/hooks/x",
        "mv .git .other && cp -r .other .git && echo > .git/hooks/x",
        "git config core.fsmonitor /tmp/evil",
        "echo > .git/config",
    ];
    if confiner.has_mounts() {
        let before = fs::read_to_string(site.cwd.join(".git/config")).expect("a file");
        for attack in attacks {
            let text = host.shell("main", attack).text;
            assert!(text.contains("exit code: "), "{attack}: {text}");
            assert!(!site.cwd.join(".git/hooks/x").exists() && !hook.exists(), "{attack}: {text}");
            assert_eq!(
                fs::read_to_string(site.cwd.join(".git/config")).expect("a file"),
                before,
                "{attack}: {text}"
            );
        }
    } else {
        confiner.demand_gap("guarded");
    }
    // A guarded file is a denial, so it can be escalated (P-46).
    let more = json!({
        "file_path": text(&hook),
        "content": "x",
        "sandbox_permissions": "danger-full-access",
        "justification": "the test wants it",
    });
    host.stop();
    let site =
        site.script([on("escalate", [tool("write", more), bash("cat .git/hooks/pre-commit")])]);
    let mut host = site.start();
    host.open("other");
    let results = host.turn_answering("other", "escalate", Answer::Allow).results();
    assert_eq!(results[1].went_well(), "x", "{results:?}");
    host.stop();
}

impl Site {
    /// With a prompt that reads these, and one that reads what its second line names.
    fn script_of_paths(self, paths: &[&Path]) -> Site {
        let calls: Vec<_> = paths.iter().map(|path| read(path)).collect();
        let one = json!({"when": {"contains": "read this:", "step": 1}, "answer": [
            {"tool": {"name": "read", "arguments": {"file_path": "{{prompt after read this:}}"}}}
        ]});
        self.script([on("read them", calls), one])
    }
}

impl super::bench::Host {
    fn read_now(&mut self, session: &str, path: &str) -> Outcome {
        self.turn(session, &format!("read this: {path}")).result()
    }
}
