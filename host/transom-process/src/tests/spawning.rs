//! How children are born (L-85).

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use tokio::{io::AsyncWriteExt, runtime::Handle};

use super::{LONG, all, bash, line, spawn};
use crate::{Command, Exit, SpawnError, Spawner, Stdin};

#[tokio::test]
async fn what_cannot_run_is_refused_with_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("plain");
    fs::write(&file, "no program").unwrap();
    let plain = file.display().to_string();
    let missing = home.path().join("missing").display().to_string();
    let inside = |directory: PathBuf| Command { directory: Some(directory), ..bash("true") };

    let cases = [
        (
            Command::new(""),
            "no executable is named; give an absolute path or a bare name".to_owned(),
        ),
        (
            Command::new("./tool"),
            "executable \"./tool\" is a relative path; give an absolute path or a bare name"
                .to_owned(),
        ),
        (
            Command::new("bin/tool"),
            "executable \"bin/tool\" is a relative path; give an absolute path or a bare name"
                .to_owned(),
        ),
        (Command::new(&missing), format!("executable \"{missing}\" was not found")),
        (Command::new("no-such-tool"), "executable \"no-such-tool\" was not found".to_owned()),
        (Command::new(&plain), format!("cannot run \"{plain}\": Permission denied (os error 13)")),
        (
            inside(missing.clone().into()),
            format!("working directory \"{missing}\" is not an existing directory"),
        ),
        (
            inside(plain.clone().into()),
            format!("working directory \"{plain}\" is not an existing directory"),
        ),
    ];
    let spawner = Spawner::new(Handle::current()).unwrap();
    for (command, expected) in cases {
        let error: SpawnError = spawner.spawn(command).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_bare_name_is_found_in_the_childs_own_path() {
    let home = tempfile::tempdir().unwrap();
    let tool = home.path().join("only-here");
    fs::write(&tool, "#!/bin/sh\necho found\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
    let command = Command {
        environment: vec![("PATH".to_owned(), home.path().display().to_string())],
        ..Command::new("only-here")
    };
    let mut process = Spawner::new(Handle::current()).unwrap().spawn(command).await.unwrap();
    assert_eq!(all(&mut process).await, "found\n");
    assert_eq!(process.wait().await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn a_child_leads_its_own_session_and_group() {
    let mut process =
        spawn("read -r a b c d group session rest < /proc/$$/stat; echo $$ $group $session").await;
    let id = process.id();
    assert_eq!(line(&mut process).await, format!("{id} {id} {id}"));
}

#[tokio::test]
async fn a_child_gets_only_the_environment_it_is_given() {
    let command = Command {
        environment: vec![("ONLY".to_owned(), "this".to_owned())],
        ..Command::new("/usr/bin/env")
    };
    let mut process = Spawner::new(Handle::current()).unwrap().spawn(command).await.unwrap();
    assert_eq!(all(&mut process).await, "ONLY=this\n");
}

#[tokio::test]
async fn input_is_nothing_or_a_pipe() {
    let mut silent = spawn("cat; echo end").await;
    assert_eq!(all(&mut silent).await, "end\n");

    let command = Command { stdin: Stdin::Piped, ..bash("cat; echo end") };
    let mut process = Spawner::new(Handle::current()).unwrap().spawn(command).await.unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"said\n").await.unwrap();
    drop(stdin);
    assert_eq!(all(&mut process).await, "said\nend\n");
}

#[tokio::test]
async fn an_exit_is_a_code_or_a_signal() {
    let cases = [
        ("exit 0", Exit::Code(0), None),
        ("exit 7", Exit::Code(7), None),
        ("kill -KILL $$", Exit::Signal(9), Some("SIGKILL")),
        ("kill -SEGV $$", Exit::Signal(11), Some("SIGSEGV")),
        ("kill -40 $$", Exit::Signal(40), Some("SIG40")),
    ];
    for (script, expected, name) in cases {
        let mut process = spawn(script).await;
        let exit = process.wait().await.unwrap();
        assert_eq!(exit, expected, "{script}");
        assert_eq!(exit.signal_name().as_deref(), name, "{script}");
        assert!(process.tree().gone_within(LONG).await);
    }
}

#[test]
fn a_command_shows_the_names_of_its_variables_and_no_values() {
    let variables = vec![("DEEPSEEK_API_KEY".to_owned(), "hunter2".to_owned())];
    let command = Command { environment: variables.clone(), ..bash("true") };
    let environment = crate::Environment { variables, withheld: Vec::new() };
    for shown in [format!("{command:?}"), format!("{environment:?}")] {
        assert!(shown.contains("DEEPSEEK_API_KEY") && !shown.contains("hunter2"), "{shown}");
    }
}
