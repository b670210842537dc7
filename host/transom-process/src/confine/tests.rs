//! Walls one by one, put up around a single thread, as machines older than this one would have them; and what can be
//! said without any. Whole commands behind all of them are in `tests/confine.rs`.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::{
    calls, denial, files, network,
    plan::{Layers, Plan, Width},
    report::{Enforcement, Report},
    system,
};
use crate::{Confinement, Exit, Launcher, Network, Places, Spawner};

/// A directory beside the tests' programs: how many others keep something in the temporary one must not matter here.
fn directory() -> TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.ancestors().nth(2).unwrap()).unwrap()
}

fn places(directory: &Path) -> Places {
    fs::create_dir_all(directory.join("workspace")).unwrap();
    fs::create_dir_all(directory.join("hidden")).unwrap();
    for name in ["workspace/file", "file", "hidden/file"] {
        fs::write(directory.join(name), "before").unwrap();
    }
    Places {
        workspace: directory.join("workspace"),
        roots: vec![directory.join("workspace")],
        own: None,
        private: vec![directory.join("hidden")],
        secrets: Vec::new(),
        guarded: Vec::new(),
        guard_git: true,
        absent: Vec::new(),
    }
}

fn plan(layers: &Layers, width: Width, places: &Places) -> Plan {
    Plan::new(layers, Network::Deny, Network::Deny, width, places)
}

/// What comes of something behind these walls. They stand around its thread only and go with it.
fn behind<T: Send>(plan: &Plan, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::sys::prctl::set_no_new_privs()?;
            files::restrict(plan)?;
            if plan.seccomp {
                calls::restrict(plan)?;
            }
            Ok(act())
        });
        thread.join().unwrap()
    })
}

fn number<T>(result: &io::Result<T>) -> Option<i32> {
    result.as_ref().err().and_then(io::Error::raw_os_error)
}

/// Versions of Landlock that this kernel can stand in for: all up to its own. Where it has none, that is a gap.
fn versions() -> impl DoubleEndedIterator<Item = u32> {
    let newest = system::landlock_abi();
    let layers = Layers { landlock: newest, seccomp: true, mounts: true, ..Layers::default() };
    let report = Report::new(&layers, &Confinement::default(), false, Vec::new());
    assert_eq!(newest.is_none(), report.gaps.iter().any(|gap| gap.name == "landlock"));
    1..=newest.unwrap_or(0)
}

#[test]
fn no_version_of_landlock_lets_files_outside_be_emptied() {
    // P-53 `truncate`.
    for abi in versions() {
        let directory = directory();
        let places = places(directory.path());
        let layers = Layers { landlock: Some(abi), seccomp: true, ..Layers::default() };
        let plan = plan(&layers, Width::WorkspaceWrite, &places);
        let (inside, outside) = (places.workspace.join("file"), directory.path().join("file"));
        behind(&plan, || {
            let empty = |path: &Path| {
                let flags = libc::O_RDONLY | libc::O_TRUNC;
                OpenOptions::new().read(true).custom_flags(flags).open(path).map(drop)
            };
            let refused = [
                nix::unistd::truncate(&outside, 0).map_err(io::Error::from),
                empty(&outside),
                File::create(&outside).map(drop),
                OpenOptions::new().append(true).open(&outside).map(drop),
            ];
            for (way, result) in refused.iter().enumerate() {
                assert_eq!(number(result), Some(libc::EACCES), "{abi}: {way}");
            }
            fs::write(&inside, "after").unwrap();
            File::create(places.workspace.join("new")).unwrap();
            assert_eq!(fs::read(&outside).unwrap(), b"before", "{abi}");
        })
        .unwrap();
        assert_eq!(fs::read(outside).unwrap(), b"before");
        assert_eq!(fs::read(inside).unwrap(), b"after");
    }
}

#[test]
fn every_version_of_landlock_hides_what_is_hidden_and_shows_its_neighbours() {
    for abi in versions() {
        let directory = directory();
        let places = places(directory.path());
        let layers = Layers { landlock: Some(abi), ..Layers::default() };
        behind(&plan(&layers, Width::ReadOnly, &places), || {
            let hidden = fs::read(directory.path().join("hidden/file"));
            assert_eq!(number(&hidden), Some(libc::EACCES), "{abi}");
            assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"before");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
            assert_eq!(number(&fs::write(places.workspace.join("file"), "")), Some(libc::EACCES));
        })
        .unwrap();
    }
}

#[test]
fn a_directory_too_full_to_hide_something_in_is_said_to_be() {
    // P-52, P-85: 4096 rules.
    let directory = directory();
    let places = places(directory.path());
    for number in 0..4_096 {
        File::create(directory.path().join(number.to_string())).unwrap();
    }
    for abi in versions().rev().take(1) {
        let layers = Layers { landlock: Some(abi), ..Layers::default() };
        let error = behind(&plan(&layers, Width::ReadOnly, &places), || ()).unwrap_err();
        assert!(error.to_string().starts_with("more than 4096 rules are needed"), "{error}");
    }
}

#[test]
fn sockets_are_refused_by_family_and_kind() {
    // P-56: what is left of sockets, with and without a network of their own, and with sockets in files allowed.
    let nobody = PathBuf::from("/nowhere");
    let (unix, internet) = (libc::AF_UNIX, libc::AF_INET);
    let (stream, datagram, sequenced) = (libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET);
    let tried = [
        (internet, stream, false),
        (internet, datagram, false),
        (libc::AF_NETLINK, datagram, false),
        (libc::AF_VSOCK, stream, false),
        (unix, stream, false),
        (unix, datagram, false),
        (unix, stream | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, true),
        (unix, sequenced, true),
        (unix, datagram, true),
    ];
    let (no, gone) = (Some(libc::EACCES), Some(libc::ENETUNREACH));
    let cases = [
        (
            "alone",
            false,
            Network::Deny,
            Network::Deny,
            [gone, gone, gone, gone, None, no, None, None, no],
        ),
        (
            "own network",
            true,
            Network::Deny,
            Network::Deny,
            [None, None, None, gone, no, no, None, no, no],
        ),
        (
            "sockets in files",
            false,
            Network::Deny,
            Network::Allow,
            [gone, gone, gone, gone, None, None, None, None, None],
        ),
        (
            "network",
            false,
            Network::Allow,
            Network::Deny,
            [None, None, None, None, no, no, None, no, no],
        ),
        ("everything", false, Network::Allow, Network::Allow, [None; 9]),
    ];
    let layers = Layers { seccomp: true, ..Layers::default() };
    let directory = directory();
    let places = places(directory.path());
    for (name, joined, network, unix_sockets, expected) in cases {
        let mut plan = Plan::new(&layers, network, unix_sockets, Width::ReadOnly, &places);
        // The filter asks only whether there is one.
        plan.join = joined.then_some(super::plan::Join { user: None, network: -1 });
        let found = behind(&plan, || {
            tried.map(|(family, kind, pair)| number(&system::try_socket(family, kind, pair)))
        });
        let mut found = found.unwrap();
        // A kernel may be built without this family.
        if found[3] == Some(libc::EAFNOSUPPORT) {
            found[3] = None;
        }
        assert_eq!(found, expected, "{name}");
        let connected = behind(&plan, || std::os::unix::net::UnixStream::connect(&nobody));
        let reached = number(&connected.unwrap()) == Some(libc::ENOENT);
        assert_eq!(reached, unix_sockets == Network::Allow, "{name}");
    }
}

#[test]
fn what_goes_round_every_wall_is_refused_under_both_of_its_numbers() {
    // P-55.
    let directory = directory();
    let layers = Layers { seccomp: true, ..Layers::default() };
    let plan = plan(&layers, Width::WorkspaceWrite, &places(directory.path()));
    let cases = [
        (libc::SYS_io_uring_setup, libc::ENOSYS),
        (libc::SYS_bpf, libc::EACCES),
        (libc::SYS_keyctl, libc::EACCES),
        (libc::SYS_userfaultfd, libc::EACCES),
        (libc::SYS_perf_event_open, libc::EACCES),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_bpf | 0x4000_0000, libc::EACCES),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_socket | 0x4000_0000, libc::ENETUNREACH),
    ];
    let found = behind(&plan, || cases.map(|(call, _)| number(&try_call(call)))).unwrap();
    assert_eq!(found, cases.map(|(_, error)| Some(error)));
}

#[expect(unsafe_code, reason = "these calls have no face in the library")]
fn try_call(number: libc::c_long) -> io::Result<()> {
    // SAFETY: with all arguments beyond what is valid, the calls that are tried touch no memory even if they are let
    // through; a descriptor that one opens is closed.
    let result = unsafe { libc::syscall(number, -1, 0, 0, 0, 0, 0) };
    match i32::try_from(result) {
        Ok(opened) if opened >= 0 => {
            // SAFETY: the kernel has just opened it.
            drop(unsafe { OwnedFd::from_raw_fd(opened) });
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn a_report_says_what_is_open_and_how_to_close_it() {
    let full =
        Layers { landlock: Some(7), seccomp: true, mounts: true, loopback: true, user: false };
    let cases = [
        (full.clone(), "full", "loopback", vec![]),
        (Layers { loopback: false, ..full.clone() }, "full", "none", vec![]),
        (Layers { landlock: Some(5), ..full.clone() }, "partial", "loopback", vec!["signals"]),
        (
            Layers { landlock: Some(1), ..full.clone() },
            "partial",
            "loopback",
            vec!["refer", "signals"],
        ),
        (
            Layers { landlock: None, ..full.clone() },
            "partial",
            "loopback",
            vec!["landlock", "signals"],
        ),
        (
            Layers { mounts: false, ..full.clone() },
            "partial",
            "loopback",
            vec!["metadata", "guarded", "secrets"],
        ),
        (
            Layers { seccomp: false, ..full.clone() },
            "none",
            "open",
            vec!["seccomp", "unix-sockets"],
        ),
        (
            Layers::default(),
            "none",
            "open",
            vec![
                "landlock",
                "seccomp",
                "metadata",
                "guarded",
                "secrets",
                "signals",
                "unix-sockets",
            ],
        ),
    ];
    for (layers, enforcement, network, gaps) in cases {
        let report = Report::new(&layers, &Confinement::default(), true, Vec::new());
        assert!(report.gaps.iter().all(|gap| !gap.remedy.is_empty()));
        assert_eq!(report.is_usable(), enforcement != "none");
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            json!({
                "landlock": layers.landlock.map(|abi| json!({"abi": abi})),
                "seccomp": layers.seccomp,
                "mounts": layers.mounts,
                "network": network,
                "root": true,
                "enforcement": enforcement,
                "gaps": gaps,
            })
        );
    }
    let off = Confinement { off: true, ..Confinement::default() };
    let report = Report::new(&Layers::default(), &off, false, vec!["/dev/shm".into()]);
    assert_eq!(report.enforcement, Enforcement::None);
    let shown = serde_json::to_value(&report).unwrap();
    assert_eq!((&shown["gaps"], &shown["absent"]), (&json!(["off"]), &json!(["/dev/shm"])));
}

#[test]
fn a_denial_is_told_from_an_ordinary_failure() {
    // P-21, P-22.
    let file = Some("[sandbox: file access denied under read-only mode]");
    let network = Some("[sandbox: network access denied under read-only mode]");
    let cases = [
        (Exit::Code(1), "bash: x: Permission denied", file),
        (Exit::Code(1), "touch: READ-ONLY FILE SYSTEM", file),
        (Exit::Code(6), "curl: (6) Could not resolve host: example.org", network),
        (Exit::Code(2), "connect: Network is unreachable", network),
        (Exit::Code(2), "Temporary failure in name resolution", network),
        (Exit::Code(2), "network is unreachable\npermission denied", file),
        (Exit::Code(0), "Permission denied", None),
        (Exit::Signal(9), "Permission denied", None),
        (Exit::Code(1), "No such file or directory", None),
    ];
    for (exit, stderr, expected) in cases {
        let line = denial::denial("read-only", exit, stderr, Network::Deny, false);
        assert_eq!(line.as_deref(), expected, "{stderr}");
        let offered = denial::denial("read-only", exit, stderr, Network::Deny, true);
        let both = expected.map(|line| format!("{line}\n{}", denial::escalation("command")));
        assert_eq!(offered, both, "{stderr}");
    }
    // Where the network is open, what it says is not the confiner's doing.
    let open =
        denial::denial("read-only", Exit::Code(1), "Network is unreachable", Network::Allow, true);
    assert_eq!(open, None);
}

#[test]
fn a_plan_names_what_is_there() {
    let directory = directory();
    let mut places = places(directory.path());
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("workspace/.git/hooks")).unwrap();
    fs::create_dir_all(path("hidden/run/session")).unwrap();
    places.private.push(path("not-yet"));
    places.own = Some(path("hidden/run/session"));
    places.guarded = vec![path("workspace/file"), path("file"), path("workspace/not-yet")];
    let layers = Layers::default();

    let write = plan(&layers, Width::WorkspaceWrite, &places);
    assert_eq!(write.writable, [path("hidden/run/session"), path("workspace")]);
    assert_eq!(write.hidden, [path("hidden")]);
    // What lies outside the roots cannot be changed anyhow.
    assert_eq!(write.guarded, [path("workspace/.git/hooks"), path("workspace/file")]);
    assert!(write.shown.is_empty());

    let read = plan(&layers, Width::ReadOnly, &places);
    assert_eq!(read.shown, [path("hidden/run/session")]);
    assert!(read.writable.is_empty() && read.guarded.is_empty());
    let text = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), read);
}

#[tokio::test]
async fn a_holder_of_a_network_that_hangs_is_not_waited_for() {
    let arguments = ["-c", "exec sleep 1000"].map(str::to_owned).to_vec();
    let launcher = Launcher::program(Path::new("/bin/sh"), arguments).unwrap();
    let spawner = Spawner::new(Handle::current()).unwrap();
    let patience = Duration::from_millis(50);
    let error = network::make_within(patience, &launcher, &spawner, false).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}
