//! What the launcher says of itself, and what a command cannot say in its place (row 23, P-51).

use std::{fs, path::Path};

use tokio::runtime::Handle;
use transom_process::{
    Command, Confined, Confiner, Exit, Launcher, LauncherFailed, Profile, SpawnError, Spawner,
    Width,
};

use crate::{House, REHEARSAL, ran};

use Width::{ReadOnly, WorkspaceWrite};

#[tokio::test]
async fn a_command_that_talks_like_a_failing_launcher_is_a_command() {
    // Row 23.
    let house = House::new().await;
    let script = r#"echo '{"stage":"landlock","error":"x"}' >&2
        (exec 2> /dev/null; for n in {3..64}; do echo '{"stage":"exec","error":"x"}' >&$n; done)
        exit 125"#;
    let ran = house.run(WorkspaceWrite, script).await;
    assert_eq!(ran.exit, Exit::Code(125));
    assert_eq!(ran.stderr, "{\"stage\":\"landlock\",\"error\":\"x\"}\n");
}

#[tokio::test]
async fn a_launcher_that_fails_says_where_and_runs_nothing() {
    let house = House::new().await;
    let started = house.path("outside/started");
    let failed = |error: LauncherFailed| (error.stage, error.error);

    // The workspace is gone by the time the walls go up.
    let mut profile = house.profile(WorkspaceWrite);
    profile.places.workspace = house.path("nowhere");
    profile.places.roots = vec![house.path("nowhere")];
    let command =
        Command { directory: None, ..house.bash(&format!("touch {}", started.display())) };
    let (stage, _) = failed(house.start(command, &profile).await.unwrap_err());
    let report = house.confiner.report();
    assert_eq!(stage, if report.mounts { "mounts" } else { "landlock" });

    // There is no such program.
    let command = Command { program: "no-such-tool".to_owned(), ..house.bash("") };
    let (stage, error) = failed(house.start(command, &house.profile(ReadOnly)).await.unwrap_err());
    assert_eq!(
        (stage.as_str(), error.as_str()),
        ("exec", "No such file or directory (os error 2)")
    );
    assert!(!started.exists());
}

#[tokio::test]
async fn a_launcher_that_failed_ends_with_125() {
    let house = House::new().await;
    let command = Command { program: "no-such-tool".to_owned(), ..house.bash("") };
    let Confined { command, verdict } =
        house.confiner.confine(command, &house.profile(ReadOnly)).unwrap();
    let process = house.spawner.spawn(command).await.unwrap();
    let ran = ran(process).await;
    assert_eq!((ran.exit, ran.stderr.as_str()), (Exit::Code(125), ""));
    assert!(verdict.read().await.unwrap().is_err());
}

#[tokio::test]
async fn a_launcher_whose_file_is_removed_goes_on_working() {
    let house = House::new().await;
    let copy = house.path("launcher");
    fs::copy(REHEARSAL, &copy).unwrap();
    let launcher = Launcher::program(&copy, Vec::new()).unwrap();
    let confiner = Confiner::probe(&house.settings, launcher, &house.spawner).await;
    fs::remove_file(&copy).unwrap();
    let confined =
        confiner.confine(house.bash("echo $((6 * 7))"), &house.profile(ReadOnly)).unwrap();
    let process = house.spawner.spawn(confined.command).await.unwrap();
    confined.verdict.read().await.unwrap().unwrap();
    assert_eq!(ran(process).await.stdout, "42\n");
}

#[tokio::test]
async fn a_program_that_is_no_launcher_confines_nothing() {
    // Row 23: none of its walls stands up to being tried.
    let house = House::new().await;
    let launcher = Launcher::program(Path::new("/bin/true"), Vec::new()).unwrap();
    let spawner = Spawner::new(Handle::current()).unwrap();
    let confiner = Confiner::probe(&house.settings, launcher, &spawner).await;
    assert!(!confiner.is_usable());
    assert!(confiner.network().await.unwrap().is_none());
    let error = confiner.confine(house.bash("true"), &house.profile(ReadOnly)).unwrap_err();
    assert_eq!(error.to_string(), "these commands cannot be confined on this host");
}

#[tokio::test]
async fn what_could_not_be_run_unconfined_is_refused_the_same_way() {
    let house = House::new().await;
    let error =
        house.confiner.confine(Command::new("./tool"), &house.profile(ReadOnly)).unwrap_err();
    let expected = SpawnError::RelativeProgram("./tool".to_owned());
    assert_eq!(error.to_string(), expected.to_string());
}

#[tokio::test]
async fn a_command_stays_in_its_directory_with_its_environment_and_its_parent() {
    let house = House::new().await;
    let script = "pwd; env; ls /proc/$$/fd | tr '\\n' ' '; cat; trap -p PIPE; exec $T death-signal";
    let places = Profile { places: house.places(), ..house.profile(ReadOnly) };
    let directory = fs::canonicalize(house.path("outside")).unwrap();
    let mut command = house.bash(script);
    command.directory = Some(directory.clone());
    command.environment.retain(|(name, _)| name == "PATH" || name == "T");
    let ran = ran(house.start(command, &places).await.unwrap()).await;
    let environment = |line: &&str| {
        !["PATH=", "T=", "PWD=", "OLDPWD=", "SHLVL=", "_="]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let lines: Vec<_> = ran.stdout.lines().filter(environment).collect();
    assert_eq!(lines, [directory.to_str().unwrap(), "0 1 2 Some(SIGKILL)"], "{ran:?}");
}
