//! Shells behind a real confiner, through the registry (P-20 to P-22, P-37, P-40, P-44, P-57, P-59 to P-61).

#[cfg(test)]
mod yard;

use std::fs;

use serde_json::json;
use tokio::time::timeout;
use transom_harness::{
    jobs::JobStatus,
    permissions::{Access, Mode},
    ports::{Judgement, Tools},
};

use crate::yard::{ASK, DENIED, OFFER, PATIENCE, READ_ONLY, RUNNER_FAILED, Yard, code, line, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_5_and_6_a_denied_write_says_so_and_a_grant_is_for_one_call() {
    let yard = Yard::new().await;
    let target = yard.path("outside/t");
    let command = format!("echo x > {}", target.display());
    let denied = yard.run(&command, ASK).await;
    let (stderr, markers) = denied.split_once("[sandbox").unwrap();
    assert!(stderr.starts_with("[stderr]\n"), "{denied}");
    assert_eq!(format!("[sandbox{markers}"), format!("{DENIED}\n{OFFER}\n[exit code: 1]"));
    assert!(!target.exists());

    let mut wider = line(&command);
    wider["sandbox_permissions"] = "danger-full-access".into();
    wider["justification"] = "the file lies outside".into();
    let Judgement::Ask(wanted) = yard.judge(&wider, ASK).await else { panic!("no ask") };
    let reason = "escalate sandbox to danger-full-access: the file lies outside";
    assert_eq!(wanted.reason.as_deref(), Some(reason));
    assert_eq!(text(&yard.call("bash", wider, ASK).await), "(no output)");
    assert_eq!(fs::read_to_string(&target).unwrap(), "x\n");
    // The next plain call is denied again.
    assert!(yard.run(&command, ASK).await.contains(DENIED));
}

/// P-59: values are in no log, but hooks see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p59_the_value_of_a_confined_command_says_how_it_was_held_back() {
    let yard = Yard::new().await;
    let denied = format!("echo x > {}", yard.path("outside/t").display());
    for (command, is_denied) in [("true", false), (denied.as_str(), true)] {
        let value = yard.call("bash", line(command), ASK).await.value.unwrap();
        let sandbox = &value["sandbox"];
        assert_eq!(
            (&sandbox["mode"], &sandbox["denied"]),
            (&json!("workspace-write"), &json!(is_denied))
        );
        assert!(
            ["full", "partial"].contains(&sandbox["enforcement"].as_str().unwrap()),
            "{sandbox}"
        );
        assert_eq!(sandbox.get("runnerFailed"), None);
    }
    let free = yard.call("bash", line("true"), Access::FULL).await.value.unwrap();
    assert_eq!(free.get("sandbox"), None, "what is not held back");

    let yard = Yard::with_path("/nowhere").await;
    let failed = yard.call("bash", line("true"), ASK).await;
    let sandbox = json!({ "mode": "workspace-write", "denied": false, "runnerFailed": true });
    assert!(failed.is_error);
    assert_eq!(failed.value.unwrap()["sandbox"], sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p40_the_mode_decides_what_a_shell_may_write() {
    let yard = Yard::new().await;
    assert_eq!(yard.run("echo x > a; cat a", ASK).await, "x\n");
    let denied = yard.run("echo x > b", READ_ONLY).await;
    assert!(denied.contains("[sandbox: file access denied under read-only mode]"), "{denied}");
    assert!(!yard.path("work/b").exists());
    // Failing for another reason is no denial, and neither is a success that complains.
    assert_eq!(yard.run("exit 3", ASK).await, "(no output)\n[exit code: 3]");
    let complaint = yard.run("echo 'Permission denied' >&2", ASK).await;
    assert_eq!(complaint, "[stderr]\nPermission denied\n");
    // P-41: another directory is no other root.
    let mut arguments = line("echo x > inside");
    arguments["workdir"] = yard.path("outside").display().to_string().into();
    assert!(text(&yard.call("bash", arguments, ASK).await).contains(DENIED));
    // Hidden is hidden.
    let hidden = yard.run(&format!("cat {}", yard.path("host/secret").display()), ASK).await;
    assert!(hidden.ends_with("[exit code: 1]") && !hidden.contains("classified"), "{hidden}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p44_a_session_has_a_directory_of_its_own_until_it_is_forgotten() {
    let yard = Yard::new().await;
    let own = yard.path("host/run/main");
    let command = "echo x > $TMPDIR/file; cat $TMPDIR/file; echo $TMPDIR; echo $DSH_SESSION_JSONL";
    let own_real = yard.home.path().canonicalize().unwrap().join("host/run/main");
    let log = yard.path("outside/log.jsonl");
    let expected = format!("x\n{}\n{}\n", own_real.display(), log.display());
    assert_eq!(yard.run(command, ASK).await, expected);
    assert_eq!(yard.run(command, Access { mode: Mode::DangerFullAccess, ..ASK }).await, expected);
    assert!(own.join("file").exists());
    yard.registry.forget(&"main".into());
    let gone = async {
        while own.exists() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p22_a_denied_network_is_told_apart() {
    let yard = Yard::new().await;
    let told = yard.run("echo 'connect: Network is unreachable' >&2; exit 7", ASK).await;
    let expected = format!(
        "[stderr]\nconnect: Network is unreachable\n[sandbox: network access denied under workspace-write mode]\n\
         {OFFER}\n[exit code: 7]"
    );
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_23_nobody_can_play_a_failing_launcher_and_a_failing_one_is_told() {
    let yard = Yard::new().await;
    let imitation = "echo '{\"stage\":\"seccomp\",\"error\":\"x\"}' >&2; exit 125";
    let told = yard.run(imitation, ASK).await;
    let expected = "[stderr]\n{\"stage\":\"seccomp\",\"error\":\"x\"}\n[exit code: 125]";
    assert_eq!(told, expected);

    // The walls are up, and then there is no command to become.
    let yard = Yard::with_path("/nowhere").await;
    let outcome = yard.call("bash", line("true"), ASK).await;
    assert_eq!(code(&outcome), "SandboxUnavailableError/SANDBOX_UNAVAILABLE");
    assert!(text(&outcome).contains("the confiner failed (exec)"), "{}", text(&outcome));
    let mut arguments = line("true");
    arguments["run_in_background"] = true.into();
    yard.call("bash", arguments, ASK).await;
    assert_eq!(yard.end().await, (JobStatus::Failed, RUNNER_FAILED.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p61_a_workspace_that_is_gone_is_unavailable_and_never_an_ask() {
    let yard = Yard::new().await;
    fs::remove_dir(yard.path("work")).unwrap();
    assert_eq!(yard.judge(&line("true"), ASK).await, Judgement::Run);
    let outcome = yard.call("bash", line("true"), ASK).await;
    assert_eq!(code(&outcome), "SandboxUnavailableError/SANDBOX_UNAVAILABLE");
    let expected = "Error: sandbox mode \"workspace-write\" is requested but no sandbox backend is usable on this host; \
                    refusing to run the command unconfined";
    assert!(text(&outcome).starts_with(expected), "{}", text(&outcome));

    let mut arguments = line("true");
    arguments["run_in_background"] = true.into();
    let started = yard.call("bash", arguments, ASK).await;
    assert_eq!(text(&started), "started background job bash-1");
    assert_eq!(yard.end().await, (JobStatus::Failed, RUNNER_FAILED.to_owned()));
    let shown = yard.call("job_output", json!({ "job_id": "bash-1" }), ASK).await;
    assert_eq!(
        text(&shown),
        format!("(no new output)\n{RUNNER_FAILED}\n[status: failed, {RUNNER_FAILED}]")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p71_a_confined_job_tells_of_denials_at_its_end() {
    let yard = Yard::new().await;
    let target = yard.path("outside/t");
    let mut arguments = line(&format!("echo begun; echo x > {}", target.display()));
    arguments["run_in_background"] = true.into();
    yard.call("bash", arguments, ASK).await;
    assert_eq!(yard.end().await, (JobStatus::Completed, "exit code: 1".to_owned()));
    let shown = text(&yard.call("job_output", json!({ "job_id": "bash-1" }), ASK).await);
    assert!(shown.starts_with("begun\n[stderr]\n"), "{shown}");
    let end = format!("\n{DENIED}\n{OFFER}\n[status: completed, exit code: 1]");
    assert!(shown.ends_with(&end), "{shown}");
    assert!(!target.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p60_a_session_that_could_write_the_hosts_own_files_has_no_confiner_without_mounts() {
    let yard = Yard::new().await;
    // The home of the host lies in this workspace.
    let mut call = yard.wished("bash", &line("true"), ASK);
    call.cwd = Some(yard.home.path().display().to_string());
    let explained = yard.registry.explain(&call).judgement;
    let confiner_has_mounts = yard.run("cat /proc/self/mountinfo", ASK).await
        != yard
            .run("cat /proc/self/mountinfo", Access { mode: Mode::DangerFullAccess, ..ASK })
            .await;
    match explained {
        Judgement::Run => assert!(confiner_has_mounts),
        Judgement::Ask(wanted) => {
            assert!(!confiner_has_mounts);
            assert!(wanted.granted.unconfined);
        }
        Judgement::Refuse(outcome) => panic!("{outcome:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p5_what_a_shell_puts_in_the_place_of_a_directory_is_no_workspace() {
    let yard = Yard::new().await;
    fs::create_dir(yard.path("work/sub")).unwrap();
    let directory = yard.path("work/sub").canonicalize().unwrap();
    // A session below the workspace of another one; so would be one that works for it.
    let other = |name: &str, arguments: &serde_json::Value| {
        let mut call = yard.wished(name, arguments, ASK);
        call.session = "other".into();
        call.cwd = Some(directory.display().to_string());
        call.root = Some(directory.display().to_string());
        call
    };
    // Before its first call.
    let exchange = format!("mv sub moved && ln -s {} sub", yard.path("outside").display());
    assert_eq!(yard.run(&exchange, ASK).await, "(no output)");
    let before = fs::read_dir(yard.path("outside")).unwrap().count();
    let refused = yard.perform(other("bash", &line("echo x > f"))).await;
    assert_eq!(code(&refused), "SandboxUnavailableError/SANDBOX_UNAVAILABLE");
    let told = text(&refused);
    assert!(told.contains("and now leads to"), "{told}");
    let write = json!({ "file_path": "f", "content": "x" });
    let refused = yard.perform(other("write", &write)).await;
    assert_eq!(code(&refused), "FsError/FS_SANDBOX_DENIED");
    // Nor by another name.
    let write =
        json!({ "file_path": yard.path("outside/f").display().to_string(), "content": "x" });
    let refused = yard.perform(other("write", &write)).await;
    assert_eq!(code(&refused), "FsError/FS_SANDBOX_DENIED");
    let mut job = line("echo x > f");
    job["run_in_background"] = true.into();
    yard.perform(other("bash", &job)).await;
    assert_eq!(yard.end().await, (JobStatus::Failed, RUNNER_FAILED.to_owned()));
    assert_eq!(fs::read_dir(yard.path("outside")).unwrap().count(), before);
    // Whoever has done it stays in its own.
    let denied = yard.run("echo x > sub/f", ASK).await;
    assert!(denied.contains(DENIED), "{denied}");
}
