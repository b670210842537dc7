//! Rows 20 to 23: networks, the powers of root, hosts without a confiner, and who may speak for the launcher.

use std::{
    fs,
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
    os::unix::{fs::FileTypeExt as _, net::UnixListener},
    path::PathBuf,
};

use nix::unistd::geteuid;
use serde_json::json;

use super::bench::{Answer, Site, bash_with, denied, escalation, on, tool};

/// Connects with a stream socket; says so if it could.
fn connect(address: &str) -> String {
    let family = if address.starts_with('(') { "AF_INET" } else { "AF_UNIX" };
    format!(
        "python3 -c 'import socket; s = socket.socket(socket.{family}, socket.SOCK_STREAM); s.settimeout(5); \
         s.connect({address}); print(\"connected\")'"
    )
}

/// P-53 to P-56: nothing outside the session's own commands is reachable, whatever the way.
#[test]
fn row_20_no_network_but_the_sessions_own() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("an address");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("an address");
    udp.set_nonblocking(true).expect("no waiting");
    tcp.set_nonblocking(true).expect("no waiting");
    let (tcp_port, udp_port) =
        (tcp.local_addr().expect("bound").port(), udp.local_addr().expect("bound").port());
    let site = Site::new();
    let shared = PathBuf::from(format!("/tmp/transom-row-20-{}", std::process::id()));
    let _gone = fs::remove_file(&shared);
    let in_tmp = UnixListener::bind(&shared).expect("a socket");
    let control = site.outside.join("control.sock");
    let outside = UnixListener::bind(&control).expect("a socket");
    // Its name has no file, so that no layer about files can be what refuses.
    let hidden = format!("transom-row-20-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &hidden,
        );
    let abstracted = UnixListener::bind_addr(&address.expect("a name")).expect("a socket");
    for listener in [&in_tmp, &outside, &abstracted] {
        listener.set_nonblocking(true).expect("no waiting");
    }

    let serve = "echo hello > index.html; exec python3 -m http.server --bind 127.0.0.1 8123";
    let background = json!({"run_in_background": true});
    let site = site.script([on("serve", [bash_with(serve, &background)])]);
    let mut host = site.start();
    host.open("main");
    for command in [
        connect(&format!("(\"127.0.0.1\", {tcp_port})")),
        connect("(\"1.1.1.1\", 53)"),
        connect(&format!("\"{}\"", shared.display())),
        connect(&format!("\"{}\"", control.display())),
        connect(&format!("\"\\0{hidden}\"")),
        // A datagram needs no connection.
        "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"1.1.1.1\", 53))'".to_owned(),
        // Families that know no namespaces: a virtual machine's host, and raw frames.
        "python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM, 0)'".to_owned(),
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)'".to_owned(),
        // io_uring_setup has this number on every architecture. A null argument would be EFAULT.
        "python3 -c 'import ctypes; libc = ctypes.CDLL(None, use_errno=True); r = libc.syscall(425, 1, None); \
         assert r == -1 and ctypes.get_errno() == 38, ctypes.get_errno(); raise SystemExit(\"no such call\")'"
            .to_owned(),
    ] {
        let shown = host.shell("main", &command).text;
        let failed = shown.contains("exit code: 1") && !shown.contains("connected");
        assert!(failed && !shown.contains("AssertionError"), "{command}: {shown}");
    }
    // What cannot be refused is not heard.
    let to_us = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp_port}))'"
    );
    host.shell("main", &to_us);
    let heard = udp.recv(&mut [0; 8]).expect_err("nothing was heard");
    assert_eq!(heard.kind(), ErrorKind::WouldBlock);
    assert_eq!(tcp.accept().expect_err("nobody came").kind(), ErrorKind::WouldBlock);
    for listener in [&in_tmp, &outside, &abstracted] {
        assert_eq!(listener.accept().expect_err("nobody came").kind(), ErrorKind::WouldBlock);
    }
    fs::remove_file(&shared).expect("ours");

    // P-22: a name that cannot be resolved is the network's, not a file's.
    let named = "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://example.com\", timeout=5)'";
    let shown = host.shell("main", named).text;
    let line = format!(
        "[sandbox: network access denied under workspace-write mode]\n{}\n[exit code: 1]",
        escalation("command")
    );
    assert!(shown.ends_with(&line), "{shown}");

    // P-54: one network for each session, with nothing but a loopback.
    host.turn("main", "serve").result().went_well();
    let ask = "python3 - <<'.'\nimport time, urllib.request\nend = time.monotonic() + 30\nwhile True:\n    try:\n        \
               print(urllib.request.urlopen('http://127.0.0.1:8123/index.html', timeout=5).read().decode())\n        break\n    \
               except OSError as error:\n        if 'refused' not in str(error) or time.monotonic() > end: raise\n.";
    let shown = host.shell("main", ask).text;
    let confiner = site.confiner();
    if confiner.has_loopback() {
        assert!(shown.starts_with("hello"), "{shown}");
        host.open("other");
        let shown = host.shell("other", &connect("(\"127.0.0.1\", 8123)")).text;
        assert!(shown.contains("refused"), "another session has another network: {shown}");
    } else {
        assert!(shown.contains("exit code: "), "{shown}");
    }
    host.stop();
}

/// P-50: of root's powers nothing is left, and they do not come back.
#[test]
fn row_21_nothing_is_left_of_root() {
    let site = Site::new().env("ROW_21_TOKEN", "a token of the host");
    let is_root = geteuid().is_root();
    assert_eq!(site.permissions(&[])["confiner"]["root"], is_root);
    let mut host = site.start();
    host.open("main");
    let status = host.shell("main", "cat /proc/self/status").text;
    for line in status.lines().filter(|line| line.starts_with("Cap")) {
        // Nobody but root could empty the bounding set, and to nobody but root it means anything.
        assert!(
            line.ends_with("0000000000000000") || (!is_root && line.starts_with("CapBnd")),
            "{line}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");

    let pid = host.peer.wire.id();
    for file in ["environ", "mem", "maps", "root/etc/hostname", "cwd/f", "fd/0"] {
        let shown = host.shell("main", &format!("cat /proc/{pid}/{file}")).text;
        assert!(
            shown.contains("Permission denied") && !shown.contains("a token"),
            "{file}: {shown}"
        );
    }
    let entries = fs::read_dir("/dev").expect("a directory").flatten();
    let devices =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    for device in
        devices.map(|entry| entry.path()).chain(["/dev/mem".into(), "/dev/kmsg".into()]).take(8)
    {
        let shown = host.shell("main", &format!("head -c 1 {}", device.display())).text;
        assert!(shown.contains("exit code: 1"), "{}: {shown}", device.display());
    }
    // Nor can such a device be made where one may write.
    for command in [
        "mknod d b 8 0",
        "mknod d c 1 1",
        "unshare -r true",
        "unshare -m true",
        "mount -t tmpfs none .",
        "umount /proc",
        "chroot / true",
        "setpriv --reuid 1 true",
        "dmesg",
    ] {
        let shown = host.shell("main", command).text;
        let refused = shown.contains("exit code: ");
        // Becoming another is root's alone; and who is nobody may be refused otherwise.
        assert!(refused, "{command}: {shown}");
    }
    assert!(!site.cwd.join("d").exists());
    host.stop();
}

const UNAVAILABLE: &str = "sandbox mode \"workspace-write\" is requested but no sandbox backend is usable on this host; refusing to run the command unconfined";

/// P-60: without a confiner each command is asked about, and never runs by itself.
#[test]
fn row_22_without_a_confiner_each_command_is_asked_about() {
    let task = json!({"description": "try", "prompt": "touch child"});
    let files = [
        tool("write", json!({"file_path": "inside", "content": "x"})),
        tool("write", json!({"file_path": "../outside/x", "content": "x"})),
    ];
    let with = |tables: &str| {
        Site::new().tables(tables).script([
            on("files", files.clone()),
            on("delegate", [tool("subagent", task.clone())]),
            on("background", [bash_with("touch job", &json!({"run_in_background": true}))]),
        ])
    };
    let reason =
        "no confiner on this host: run this command without confinement under workspace-write";

    let site = with("[confine]\noff = true\n");
    let mut host = site.start();
    host.open("main");
    // One line on standard error.
    host.says("confine");
    for (answer, outcome, text) in [
        (
            Answer::Reject,
            "rejected",
            Some("the user rejected running this command without confinement"),
        ),
        (
            Answer::Cancel,
            "cancelled",
            Some("approval for running this command without confinement was cancelled"),
        ),
        (Answer::Unavailable, "unavailable", None),
    ] {
        for (prompt, made) in [("touch a", "a"), ("background", "job")] {
            let turn = host.turn_answering("main", prompt, answer);
            assert_eq!(turn.decisions(), [(reason.to_owned(), outcome.to_owned())]);
            let result = turn.result();
            match text {
                Some(text) => result.failed(text),
                None => {
                    assert!(result.text.contains(UNAVAILABLE), "{result:?}");
                    assert_eq!(result.code, "SANDBOX_UNAVAILABLE");
                }
            }
            assert!(!site.cwd.join(made).exists(), "{answer:?}");
        }
    }
    let turn = host.turn_answering("main", "touch a", Answer::Allow);
    assert_eq!(turn.decisions(), [(reason.to_owned(), "allowed-once".to_owned())]);
    turn.result().went_well();
    assert!(site.cwd.join("a").exists());
    // Children have nobody to ask.
    let turn = host.turn("main", "delegate");
    assert_eq!(turn.decisions(), []);
    assert!(!site.cwd.join("child").exists(), "{:?}", turn.results());
    let results = host.turn("main", "files").results();
    results[0].went_well();
    results[1].failed(&denied("workspace-write", "operation"));
    host.stop();

    for tables in [
        "[confine]\noff = true\n\n[permissions]\npolicy = \"never\"\n",
        "[confine]\noff = true\nrequired = true\n",
    ] {
        let site = with(tables);
        let mut host = site.start();
        host.open("main");
        for prompt in ["touch a", "background"] {
            let turn = host.turn("main", prompt);
            assert_eq!(turn.decisions(), [], "{tables}");
            let result = turn.result();
            assert!(result.text.contains(UNAVAILABLE), "{tables}: {result:?}");
            assert_eq!(result.code, "SANDBOX_UNAVAILABLE");
        }
        assert!(!site.cwd.join("a").exists() && !site.cwd.join("job").exists());
        host.turn("main", "files").results()[0].went_well();
        host.stop();
    }
}

/// P-51, P-61: a command cannot play the launcher, and where confining fails nothing runs.
#[test]
fn row_23_nobody_speaks_for_the_launcher() {
    let site = Site::new();
    let mut host = site.start();
    host.open("main");
    let failure = r#"{"stage":"mounts","error":"No such device"}"#;
    let command = format!(
        "for fd in 1 2 3 4 5 6 7 8 9; do printf '%s\\n' '{failure}' >&$fd; done 2>/dev/null; exit 125"
    );
    let shown = host.shell("main", &command);
    assert!(shown.went_well().ends_with("[exit code: 125]"), "{shown:?}");
    assert!(!shown.text.contains("[sandbox:"), "{shown:?}");

    // The very program of the host is no way out either: its hidden subcommand needs a profile on a descriptor.
    let confined = host.shell("main", "readlink /proc/self/exe").text;
    assert!(!confined.contains("transom"), "{confined}");

    // The workspace is gone, so there is nothing to confine to; and no ask either (P-61).
    let moved = site.root().join("moved");
    fs::rename(&site.cwd, &moved).expect("a directory");
    let turn = host.turn("main", "touch a");
    assert_eq!(turn.decisions(), []);
    let result = turn.result();
    assert!(result.text.contains(UNAVAILABLE), "{result:?}");
    assert_eq!(result.code, "SANDBOX_UNAVAILABLE");
    fs::rename(&moved, &site.cwd).expect("a directory");
    host.shell("main", "touch a").went_well();
    assert!(site.cwd.join("a").exists());
    host.stop();
}
