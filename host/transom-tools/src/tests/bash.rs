//! `bash` (L-97), the environment of shells (row 39), and how commands end (L-85).

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::json;
use tokio::runtime::Handle;
use transom_harness::ports::Tools;
use transom_process::{Command, Spawner};

use super::{Bench, Made, Started, coded, failure, plain, text};
use crate::ToolError;

async fn run(bench: &Bench, command: &str) -> String {
    bench.ok("bash", json!({ "command": command, "description": "a test" })).await
}

fn start(bench: &Bench, command: &str) -> Started {
    bench.start("bash", &json!({ "command": command, "description": "a test" }).to_string())
}

async fn read_pipe(path: &Path) -> String {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_text_is_output_then_errors_then_markers() {
    let bench = Bench::new();
    let table = [
        ("echo tool-proof", "tool-proof\n"),
        ("printf open", "open"),
        ("true", "(no output)"),
        ("exit 3", "(no output)\n[exit code: 3]"),
        ("echo a; exit 3", "a\n[exit code: 3]"),
        ("printf a; exit 3", "a\n[exit code: 3]"),
        ("echo a; echo b >&2", "a\n[stderr]\nb\n"),
        ("printf a; printf b >&2; exit 1", "a\n[stderr]\nb\n[exit code: 1]"),
        ("echo b >&2", "[stderr]\nb\n"),
        ("echo a; kill -KILL $$", "a\n[killed by signal: SIGKILL]"),
        ("kill -TERM $$", "(no output)\n[killed by signal: SIGTERM]"),
        ("printf '\\xff'", "\u{FFFD}"),
        ("cat", "(no output)"),
    ];
    for (command, expected) in table {
        assert_eq!(run(&bench, command).await, expected, "{command}");
    }
    // Who has no terminal cannot open it.
    assert!(run(&bench, ": < /dev/tty; echo $?").await.starts_with("1\n"));
}

#[tokio::test]
async fn arguments_are_checked_in_order() {
    let bench = Bench::new();
    let table = [
        (
            json!({ "command": "", "description": "" }),
            "invalid command: expected a non-empty string",
        ),
        (
            json!({ "command": " \n", "description": "x" }),
            "invalid command: expected a non-empty string",
        ),
        (
            json!({ "command": "echo a\u{0}b", "description": "x" }),
            "invalid command: it contains a zero byte, which no command can; print one with printf '\\0'",
        ),
        (
            json!({ "command": "#".repeat(131_072), "description": "x" }),
            "invalid command: it has 131072 bytes, and the system passes 131071 at most; write it to a file and run that",
        ),
        (
            json!({ "command": "true", "description": "" }),
            "invalid description: expected a non-empty string",
        ),
        (
            json!({ "command": "true", "description": "x", "timeoutMs": 0 }),
            "invalid timeoutMs: expected a positive number of milliseconds, got 0",
        ),
        (
            json!({ "command": "true", "description": "x", "workdir": "" }),
            "invalid workdir: expected a non-empty string",
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(bench.error("bash", arguments).await, plain(expected));
    }
    let missing = json!({ "command": "true", "description": "x", "workdir": "nowhere" });
    let expected =
        format!("working directory \"{}\" is not an existing directory", bench.shown("nowhere"));
    assert_eq!(bench.error("bash", missing).await, plain(expected));
    let whole = json!({ "command": "#".repeat(131_071), "description": "x" });
    assert_eq!(bench.ok("bash", whole).await, "(no output)");
    // The deadline has a cap, which is not an error.
    let long = json!({ "command": "echo a", "description": "x", "timeoutMs": 9e15 });
    assert_eq!(bench.ok("bash", long).await, "a\n");
}

#[tokio::test]
async fn a_command_runs_where_it_is_told() {
    let bench = Bench::new();
    bench.put("sub/file", "");
    let real = fs::canonicalize(bench.path("")).unwrap().display().to_string();
    assert_eq!(run(&bench, "pwd -P").await, format!("{real}\n"));
    for workdir in ["sub", &bench.shown("sub"), "./sub/../sub"] {
        let arguments = json!({ "command": "pwd -P", "description": "x", "workdir": workdir });
        assert_eq!(bench.ok("bash", arguments).await, format!("{real}/sub\n"), "{workdir}");
    }
}

#[tokio::test]
async fn row_39_a_shell_sees_path_and_language_and_the_managed_names() {
    let bench = Bench::with(|options| {
        let parent = ["DEEPSEEK_API_KEY", "MONKEY", "my_Secret", "DSH_HOME", "dsh_x", "LANG"];
        options.environment.extend(parent.map(|name| (name.to_owned(), "C".to_owned())));
        options.environment.push(("DSH_SESSION_ID".to_owned(), "forged".to_owned()));
        options.shell_variables = vec![("DSH_HOME".to_owned(), "/managed".to_owned())];
    });
    let told = run(&bench, "env | grep -vE '^(PWD|SHLVL|_|OLDPWD|TRANSOM_SESSION)=' | sort").await;
    let expected = "DSH_HOME=/managed\nDSH_SESSION_ID=main\nDSH_SHELL=1\nLANG=C\n\
        PATH=/usr/local/bin:/usr/bin:/bin\n";
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_deadline_ends_a_command_and_keeps_what_it_wrote() {
    let bench = Bench::new();
    let arguments =
        json!({ "command": "echo begun; sleep 1000", "description": "x", "timeoutMs": 1000 });
    let expected = "begun\n[timed out after 1000ms]\n[killed by signal: SIGTERM]";
    assert_eq!(bench.ok("bash", arguments).await, expected);

    let bench = Bench::with(|options| options.shell_timeout_ms = 50);
    let expected = "(no output)\n[timed out after 50ms]\n[killed by signal: SIGTERM]";
    assert_eq!(run(&bench, "sleep 1000").await, expected);
    let description = &bench.registry.specs(&"main".into())[0].description;
    assert!(description.contains("50 ms"), "{description}");
}

#[tokio::test]
async fn a_command_that_handles_sigterm_may_say_so() {
    let bench = Bench::new();
    let command = "trap 'echo bye; exit 9' TERM; sleep 1000 & wait";
    let arguments = json!({ "command": command, "description": "x", "timeoutMs": 1000 });
    let expected = "bye\n[timed out after 1000ms]\n[exit code: 9]";
    assert_eq!(bench.ok("bash", arguments).await, expected);
}

#[tokio::test]
async fn long_output_shows_its_end_and_names_a_private_file() {
    let bench = Bench::new();
    let told = run(&bench, "seq 20000; seq 20000 >&2; exit 2").await;
    let (stdout, rest) = told.split_once("[output truncated; full output: ").unwrap();
    let (path, rest) = rest.split_once("]\n[stderr]\n").unwrap();
    let (stderr, rest) = rest.split_once("[output truncated; full output: ").unwrap();
    assert_eq!((stdout.len(), stderr.len()), (64_000, 64_000));
    assert!(stdout.ends_with("\n19999\n20000\n"));
    assert!(rest.ends_with("]\n[exit code: 2]"));

    let whole = fs::read_to_string(path).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n20000\n"));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    // The file lives as long as the session.
    bench.registry.forget(&"main".into());
    let gone = async {
        while Path::new(path).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.unwrap();
}

#[tokio::test]
async fn a_flood_is_bounded() {
    let bench = Bench::with(|options| options.spill_limits.stream_bytes_max = 100_000);
    let told = run(&bench, "head -c 5000000 /dev/zero | tr '\\0' x").await;
    let (_, path) = told.split_once("\n[output truncated; full output: ").unwrap();
    let kept = fs::read_to_string(path.trim_end_matches(']')).unwrap();
    assert!(kept.ends_with("x\n[output cut here: 4900000 more bytes were not kept]\n"));
    assert!(told.len() < 64_200 && kept.len() < 100_100);
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let bench = Bench::new();
    let pipe = bench.fifo("pipe");
    // It would hold both the output and the pipe for a long time.
    let reader = tokio::spawn(async move { read_pipe(&pipe).await });
    assert_eq!(run(&bench, "(exec 3> pipe; sleep 1000) & exec 3> pipe; echo done").await, "done\n");
    assert_eq!(reader.await.unwrap(), "");
}

#[tokio::test]
async fn process_substitutions_may_finish() {
    let bench = Bench::new();
    assert_eq!(run(&bench, "echo hi > >(sleep 0.05; cat)").await, "hi\n");
}

#[tokio::test]
async fn a_stopped_command_ends_with_its_children() {
    let bench = Bench::new();
    let pipe = bench.fifo("pipe");
    let started = start(&bench, "exec 3> pipe; (sleep 1000) & echo here >&3; wait");
    let (begun, seen) = tokio::sync::oneshot::channel();
    let reader = tokio::task::spawn_blocking(move || {
        let mut pipe = BufReader::new(fs::File::open(pipe).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        begun.send(line).unwrap();
        // Ends when the last process that has the pipe has ended.
        pipe.read_line(&mut String::new()).unwrap()
    });
    assert_eq!(seen.await.unwrap(), "here\n");
    started.stop.stop();
    assert_eq!(failure(&started.outcome().await), coded("tool call aborted", "AbortError/ABORTED"));
    assert_eq!(reader.await.unwrap(), 0);
}

#[tokio::test]
async fn teardown_of_one_session_leaves_others_alone() {
    let mut bench = Bench::new();
    let (stubborn, other) = (bench.fifo("stubborn"), bench.fifo("other"));
    let first = start(&bench, "trap '' TERM; echo here > stubborn; while :; do sleep 0.05; done");
    assert_eq!(read_pipe(&stubborn).await, "here\n");
    bench.session = "second";
    let second = start(&bench, "echo here > other; cat other");
    assert_eq!(read_pipe(&other).await, "here\n");

    bench.registry.terminate(&"main".into(), 50);
    assert_eq!(failure(&first.outcome().await), coded("tool call aborted", "AbortError/ABORTED"));

    tokio::task::spawn_blocking(move || fs::write(other, "went on").unwrap()).await.unwrap();
    assert_eq!(text(&second.outcome().await), "went on");
}

#[tokio::test]
async fn teardown_kills_what_does_not_listen() {
    let bench = Bench::new();
    let pipe = bench.fifo("pipe");
    let spawner = Spawner::new(Handle::current()).unwrap();
    let script =
        format!("trap '' TERM; echo here > {}; while :; do sleep 0.05; done", pipe.display());
    // This tool does nothing to end its child, so that only the teardown can.
    let tool = Made::new("deaf", move |call| {
        let command = Command {
            arguments: vec!["-c".to_owned(), script.clone()],
            ..Command::new("/bin/bash")
        };
        let spawner = spawner.clone();
        async move {
            let mut process = spawner.spawn(command).await.unwrap();
            call.ticket.add_tree(&Handle::current(), process.tree());
            Err(ToolError::new(format!("{:?}", process.wait().await.unwrap())))
        }
    });
    bench.registry.register(tool.into_tool()).unwrap();
    let started = bench.start("deaf", "{}");
    assert_eq!(read_pipe(&pipe).await, "here\n");
    bench.registry.terminate(&"main".into(), 50);
    assert_eq!(failure(&started.outcome().await), plain("Signal(9)"));
}

#[tokio::test]
async fn a_host_without_bash_says_so() {
    let bench = Bench::with(|options| {
        options.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())]
    });
    let arguments = json!({ "command": "true", "description": "x" });
    assert_eq!(bench.error("bash", arguments).await, plain("executable \"bash\" was not found"));
}
