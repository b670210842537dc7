//! Ways out of confinement that somebody would try: other names for the same file, roots and covers exchanged between
//! commands, help from the host itself, and the host's own process.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::Instant,
};

use serde_json::json;

use super::bench::{Answer, Host, Outcome, Site, bash, bash_with, on, tool};
use crate::support::{place::text, wire::PATIENCE};

/// Everything below a directory, with its contents.
fn state(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let content = fs::read_to_string(entry.path()).unwrap_or_default();
        found.push((entry.file_name().to_string_lossy().into_owned(), content));
    }
    found.sort();
    found
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < PATIENCE, "{} does not come", path.display());
        std::thread::yield_now();
    }
}

/// P-47, P-52: whatever a file outside is called, it is outside.
#[test]
fn a_file_outside_has_no_writable_name() {
    let site = Site::new();
    let outside = text(&site.outside).to_owned();
    let file = site.outside.join("f");
    fs::write(&file, "as it was\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a mode");
    let before =
        (state(&site.outside), fs::metadata(&file).expect("a file").modified().expect("a time"));
    let mut host = site.start();
    host.open("main");
    for command in [
        format!("ln {outside}/f hard && echo x > hard"),
        format!("cp -l {outside}/f hard && echo x > hard"),
        format!("ln -s {outside}/f soft && echo x > soft"),
        format!("echo x > /proc/self/root{outside}/f"),
        format!("exec 3<{outside}/f && echo x > /proc/self/fd/3"),
        format!("cd {outside} && echo x > f"),
        format!("cd {outside} && cd - && echo x > /proc/self/cwd/../outside/f"),
        format!("mv {outside}/f ."),
        format!("mv {outside} taken"),
        format!("rm -f {outside}/f && [ ! -e {outside}/f ]"),
        format!("truncate -s 0 {outside}/f"),
        format!("python3 -c 'import os; os.open(\"{outside}/f\", os.O_RDONLY | os.O_TRUNC)'"),
        format!("mkdir {outside}/d"),
        format!("mkfifo {outside}/p"),
        format!("unshare -rm mount --bind . {outside} && echo x > {outside}/f"),
        format!("bash -c 'echo x > {outside}/f'"),
        format!("setsid -w bash -c 'echo x > {outside}/f'"),
        format!(
            "python3 -c 'import subprocess; subprocess.check_call([\"tee\", \"{outside}/f\"], stdin=subprocess.DEVNULL)'"
        ),
    ] {
        let result = host.shell("main", &command);
        assert!(
            result.text.contains("exit code: ") || result.text.contains("signal: "),
            "{command}: {result:?}"
        );
        let after = (
            state(&site.outside),
            fs::metadata(&file).expect("a file").modified().expect("a time"),
        );
        assert_eq!(after, before, "{command}: {result:?}");
    }
    let confiner = site.confiner();
    for command in ["chmod 600", "touch -d yesterday", "chown 1", "chgrp 1"] {
        if confiner.has_mounts() {
            let result = host.shell("main", &format!("{command} {outside}/f"));
            assert!(result.text.contains("exit code: 1"), "{command}: {result:?}");
            let after = fs::metadata(&file).expect("a file");
            assert_eq!(
                (after.permissions().mode() & 0o777, after.modified().expect("a time")),
                (0o666, before.1)
            );
        } else {
            confiner.demand_gap("metadata");
        }
    }
    host.stop();
}

/// P-41: what a command leaves behind, in a session of its own and without its parent, stays as confined as it was.
#[test]
fn a_daemon_stays_confined() {
    let site = Site::new();
    let command = format!(
        "(setsid bash -c 'until [ -e go ]; do sleep 0.01; done; echo x > {}/f; echo $? > outside; cat {}/store.db; \
         echo $? > store; touch done' > /dev/null 2>&1 &); until [ -e done ]; do sleep 0.01; done",
        text(&site.outside),
        text(&site.state())
    );
    let site =
        site.script([on("start", [bash_with(&command, &json!({"run_in_background": true}))])]);
    let mut host = site.start();
    host.open("main");
    host.turn("main", "start").result().went_well();
    fs::write(site.cwd.join("go"), "").expect("a file");
    wait_for(&site.cwd.join("done"));
    let said = |name: &str| fs::read_to_string(site.cwd.join(name)).expect("a file");
    assert_eq!((said("outside"), said("store")), ("1\n".to_owned(), "1\n".to_owned()));
    assert_eq!(state(&site.outside), []);
    host.stop();
}

/// P-45, P-54: what is hidden stays hidden when what it lies in is renamed, also for the commands and calls after that.
#[test]
fn a_renamed_directory_uncovers_nothing() {
    let site = Site::new();
    let nested = site.home.join(".config/gcloud/key");
    fs::create_dir_all(nested.parent().expect("a parent")).expect("a directory");
    fs::write(&nested, "a personal secret\n").expect("a file");
    let read = |path: &str| tool("read", json!({"file_path": path}));
    let search = tool("grep", json!({"pattern": "personal secret", "path": text(&site.home)}));
    let site = site.script([on(
        "look",
        [
            read(".config/gcloud/key"),
            read(".moved/gcloud/key"),
            read(".local/state/transom/store.db"),
            read(".other/state/transom/store.db"),
            search,
        ],
    )]);
    let mut host = site.start();
    // The home is the workspace, as it is for whoever starts a host there.
    host.open_with("main", "new", &json!({"owner": "connection", "cwd": text(&site.home)}));
    let confiner = site.confiner();
    if !confiner.has_mounts() {
        confiner.demand_gap("secrets");
        // P-53, P-60: the host's own files lie where commands may write, and nothing can cover them.
        let turn = host.turn_answering("main", "mv .config .moved", Answer::Unavailable);
        assert!(turn.decisions()[0].0.contains("no confiner"), "{:?}", turn.results());
        return host.stop();
    }
    for command in [
        "mv .config .moved",
        "mv .local .other",
        "mv .config/gcloud .config/other",
        "mv .local/state .local/other",
    ] {
        let result = host.shell("main", command);
        assert!(result.text.contains("exit code: 1"), "{command}: {result:?}");
    }
    for command in [
        "cat .moved/gcloud/key .config/gcloud/key .config/other/key",
        "cat .other/state/transom/store.db .local/state/transom/store.db .local/other/transom/store.db",
        "grep -r 'personal secret' .",
    ] {
        let result = host.shell("main", command);
        let uncovered =
            result.text.contains("a personal secret\n") || result.text.contains("SQLite format");
        assert!(result.text.contains("exit code: ") && !uncovered, "{command}: {result:?}");
    }
    let results = host.turn("main", "look").results();
    assert!(results[..4].iter().all(|result| result.is_error), "{results:?}");
    assert!(
        !results[4].text.contains("gcloud"),
        "search passes hidden files over (P-45): {results:?}"
    );
    host.stop();
}

/// P-44, P-47: what is a root is not decided by links that an earlier command has left.
#[test]
fn a_root_cannot_be_exchanged_for_a_link() {
    // A root below another one; the platform's temporary directory below one; the workspace itself below one.
    let site = Site::new();
    let temporary = site.cwd.join("temporary");
    let yard = site.cwd.join("yard");
    for directory in [&temporary, &yard, &site.cwd.join("sub")] {
        fs::create_dir(directory).expect("a directory");
    }
    let outside = text(&site.outside).to_owned();
    let write = |path: &str| tool("write", json!({"file_path": path, "content": "x"}));
    let roots = format!("[confine]\nwrite = [\"sub\", {:?}]\n", text(&site.cwd));
    let site = site
        .env("TMPDIR", text(&temporary))
        .tables(&roots)
        .script([on("write", [write("sub/f"), write("temporary/f"), write("f")])]);
    let mut host = site.start();
    host.open("main");
    host.shell(
        "main",
        &format!("mv sub a && ln -s {outside} sub && mv temporary b && ln -s {outside} temporary"),
    )
    .went_well();
    for command in ["echo x > sub/f", "echo x > temporary/f", &format!("echo x > {outside}/f")] {
        let result = host.shell("main", command);
        assert!(result.text.contains("exit code: 1"), "{command}: {result:?}");
    }
    let results = host.turn("main", "write").results();
    assert!(results[..2].iter().all(|result| result.code == "FS_SANDBOX_DENIED"), "{results:?}");
    assert_eq!(state(&site.outside), []);

    let inner = json!({"owner": "connection", "cwd": text(&yard)});
    host.open_with("inner", "new", &inner);
    host.shell("inner", &format!("cd .. && mv yard moved && ln -s {outside} yard")).went_well();
    let result = host.shell("inner", "echo x > f");
    assert_eq!(result.code, "SANDBOX_UNAVAILABLE", "{result:?}");
    let results = host.turn("inner", "write").results();
    assert!(results.iter().all(|result| result.is_error), "{results:?}");
    // Nor for the next host, which has not seen what stood there before.
    host.stop();
    // It has a directory for its temporary files again.
    fs::remove_file(&temporary).expect("a link");
    fs::create_dir(&temporary).expect("a directory");
    let mut host = site.start();
    host.open_with("inner", "stored", &inner);
    let result = host.shell("inner", "echo x > f");
    assert_eq!(result.code, "SANDBOX_UNAVAILABLE", "{result:?}");
    let results = host.turn("inner", "write").results();
    assert!(results.iter().all(|result| result.is_error), "{results:?}");
    assert_eq!(state(&site.outside), []);
    host.stop();
}

/// The host writes long outputs to files, and it is not confined: it must not be led astray.
#[test]
fn a_link_in_the_place_of_the_spills_is_not_followed() {
    let site = Site::new();
    let flip = "d=$(ls -dt \"$ROW_TMP\"/transom-output-* | head -n 1); ln -s \"$ROW_OUT\" l; python3 -c '\n\
                import ctypes, os, sys\n\
                libc = ctypes.CDLL(None)\n\
                open(\"up\", \"w\").close()\n\
                while not os.path.exists(\"stop\"):\n    \
                libc.renameat2(-100, sys.argv[1].encode(), -100, b\"l\", 2)\n' \"$d\"";
    let temporary = site.cwd.join("tmp");
    fs::create_dir(&temporary).expect("a directory");
    let out = text(&site.outside).to_owned();
    fs::set_permissions(&site.outside, fs::Permissions::from_mode(0o755)).expect("a mode");
    let flip = format!("ROW_TMP={}; ROW_OUT={out}; {flip}", text(&temporary));
    let site = site.env("TMPDIR", text(&temporary)).script([
        on(
            "flip",
            [
                bash_with(&flip, &json!({"run_in_background": true})),
                bash("until [ -e up ]; do sleep 0.01; done"),
            ],
        ),
        on("talk", (0..40).map(|_| bash("seq 20000"))),
    ]);
    let mut host = site.start();
    host.open("main");
    host.turn("main", "flip");
    for result in host.turn("main", "talk").results() {
        assert!(result.went_well().contains("\n20000\n"), "{result:?}");
    }
    host.shell("main", "touch stop");
    assert_eq!(state(&site.outside), []);
    let mode = fs::metadata(&site.outside).expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "and nothing else was done to it");
    host.stop();
}

/// P-42, P-43, P-52: the host and others of its user are out of reach.
#[test]
fn the_hosts_process_is_out_of_reach() {
    let site = Site::new();
    let mut host = site.start();
    host.open("main");
    let (pid, own) = (host.peer.wire.id(), std::process::id());
    let call = |number: u32, arguments: &str| {
        format!(
            "python3 -c 'import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); b = ctypes.create_string_buffer(64); \
             pidfd = libc.syscall(434, {pid}, 0); r = libc.syscall({number}, {arguments}); \
             raise SystemExit(os.strerror(ctypes.get_errno()) if r < 0 else 0)'"
        )
    };
    let confiner = site.confiner();
    let mut commands = vec![
        // Limits, priorities.
        format!("prlimit --pid {pid} --nofile=1:1"),
        format!("prlimit --pid {own} --cpu=1:1"),
        // Tracing and its relatives; these numbers are the same on all architectures, ptrace's is not.
        format!(
            "python3 -c 'import ctypes; libc = ctypes.CDLL(None); raise SystemExit(0 if libc.ptrace(0x4206, {pid}, 0, 0) == 0 else \"no\")'"
        ),
        call(438, "pidfd, 0, 0"),
        call(440, "pidfd, b, 1, 4, 0"),
        // Files that stand for it.
        format!("echo 1000 > /proc/{pid}/oom_score_adj"),
        format!("echo 0x33 > /proc/{pid}/coredump_filter"),
        format!("cat /proc/{pid}/environ"),
        format!("ls /proc/{pid}/cwd/"),
        format!("readlink /proc/{pid}/exe"),
        // Terminals.
        "echo x > /dev/tty".to_owned(),
        "python3 -c 'import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b\"x\")'".to_owned(),
        "cat < /dev/console".to_owned(),
        "ls /dev/pts/0 && echo x > /dev/pts/0".to_owned(),
    ];
    if confiner.landlock() >= 6 {
        for signal in ["0", "STOP", "HUP", "KILL"] {
            commands.push(format!("kill -s {signal} {pid}"));
        }
        commands.push(format!("kill -s STOP {own}"));
        commands.push(call(424, "pidfd, 9, None, 0"));
        commands.push("kill -9 -1; kill -0 1".to_owned());
    } else {
        confiner.demand_gap("signals");
    }
    for command in &commands {
        let result = host.shell("main", command);
        assert!(result.text.contains("exit code: "), "{command}: {result:?}");
    }
    assert_eq!(host.shell("main", "echo still here").went_well(), "still here\n");
    host.stop();
}

/// P-46: what says what shells may do is not theirs to write, nor the file tools'.
#[test]
fn the_operators_files_are_guarded() {
    let site =
        Site::new().door_policy("[frames]\nallow = [\"session/*\", \"events/*\", \"ask/*\"]\n");
    let write = |path: &str| tool("write", json!({"file_path": path, "content": "x"}));
    symlink(site.manifest(), site.cwd.join("link")).expect("a link");
    let site = site.script([on(
        "write",
        [
            write("transom.toml"),
            write("door.toml"),
            write("transom.lock"),
            write("cwd/link"),
            write("free"),
        ],
    )]);
    let mut host = site.start();
    // The operator works where the files lie.
    host.open_with("main", "new", &json!({"owner": "connection", "cwd": text(site.root())}));
    let files = ["transom.toml", "door.toml"].map(|name| site.root().join(name));
    let before = files.each_ref().map(|file| fs::read_to_string(file).expect("a file"));
    let results = host.turn("main", "write").results();
    assert!(results[..4].iter().all(|result| result.code == "FS_SANDBOX_DENIED"), "{results:?}");
    results[4].went_well();
    let confiner = site.confiner();
    if confiner.has_mounts() {
        for command in [
            "echo > transom.toml",
            "mv transom.toml other",
            "rm -f door.toml && [ ! -e door.toml ]",
            "echo > cwd/link",
            "mv door.toml other",
        ] {
            let result = host.shell("main", command);
            assert!(result.text.contains("exit code: 1"), "{command}: {result:?}");
        }
    } else {
        confiner.demand_gap("guarded");
    }
    if confiner.has_mounts() {
        assert_eq!(files.each_ref().map(|file| fs::read_to_string(file).expect("a file")), before);
    }
    host.stop();
}

/// L-83, L-84, P-42: a command inherits three descriptors and no secret.
#[test]
fn a_command_inherits_nothing_of_the_hosts() {
    let site = Site::new()
        .env("DEEPSEEK_API_KEY", "sk-of-the-host")
        .env("ROW_ACCESS_TOKEN", "token-of-the-host")
        .env("ROW_PLAIN", "plain");
    let mut host = site.start();
    host.open("main");
    let shown = host.shell("main", "ls /proc/self/fd; env").text;
    let descriptors: Vec<_> =
        shown.lines().take_while(|line| line.parse::<u32>().is_ok()).collect();
    // The fourth is the one with which `ls` reads the directory.
    assert_eq!(descriptors, ["0", "1", "2", "3"], "{shown}");
    assert!(!shown.contains("of-the-host"), "{shown}");
    assert!(shown.contains("ROW_PLAIN=plain"), "{shown}");
    let outcomes: Vec<Outcome> =
        ["readlink /proc/self/fd/0", "cat"].map(|command| host.shell("main", command)).into();
    assert_eq!(outcomes[0].went_well(), "/dev/null\n");
    assert_eq!(outcomes[1].went_well(), "(no output)");
    still_answers(&mut host);
    host.stop();
}

fn still_answers(host: &mut Host) {
    let row = host.call("session/describe", "main", &json!({}));
    assert_eq!(row["running"], false, "{row}");
}

/// P-56: memory that outlives a command is shared with nobody outside, where namespaces hold.
#[test]
fn memory_left_behind_is_nobodys() {
    let site = Site::new();
    let mut host = site.start();
    host.open("main");
    let left = host.shell("main", "ipcmk -M 100 >/dev/null && ipcs -m | grep -c 0x");
    assert!(left.text.starts_with('1'), "{left:?}");
    let seen = host.shell("main", "ipcs -m | grep -c 0x");
    if site.confiner().has_mounts() {
        assert!(seen.text.starts_with('0'), "the next command has its own: {seen:?}");
    }
}
