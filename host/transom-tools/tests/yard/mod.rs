//! A host's tools with a real confiner around their shells, and the loop's part played by hand.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    time::timeout,
};
use transom_harness::{
    block::Block,
    jobs::{JobChange, JobStatus},
    permissions::{Access, ApprovalPolicy, Mode},
    ports::{Judgement, ToolCall, ToolOutcome, Tools},
};
use transom_process::{Confinement, Confiner, Launcher, Spawner};
use transom_tools::{JobLimits, Options, Permissions, Registry};

pub(crate) const ASK: Access = Access {
    mode: Mode::WorkspaceWrite,
    policy: ApprovalPolicy::Ask,
    logged_mode: None,
    unconfined: false,
};
pub(crate) const READ_ONLY: Access = Access { mode: Mode::ReadOnly, ..ASK };

pub(crate) const DENIED: &str = "[sandbox: file access denied under workspace-write mode]";
pub(crate) const OFFER: &str = "[sandbox: escalation available — retry this exact command once with sandbox_permissions (the \
    narrowest wider mode that suffices) + justification; the approval prompt asks the user]";

pub(crate) const RUNNER_FAILED: &str = "[sandbox: the sandbox runner itself failed under workspace-write mode — the command did \
    not run; this is a sandbox problem, not a command failure]";

/// Longest wait for anything; nothing here takes a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A host's home, a workspace and something outside both. The system's temporary directory is no root here.
pub(crate) struct Yard {
    pub(crate) home: tempfile::TempDir,
    pub(crate) registry: Registry,
    heard: watch::Receiver<Vec<JobChange>>,
}

impl Yard {
    pub(crate) async fn new() -> Yard {
        Yard::with_path("/usr/local/bin:/usr/bin:/bin").await
    }

    pub(crate) async fn with_path(path: &str) -> Yard {
        let home = tempfile::tempdir().unwrap();
        for name in ["work", "outside", "host/run"] {
            fs::create_dir_all(home.path().join(name)).unwrap();
        }
        fs::write(home.path().join("host/secret"), "classified").unwrap();
        let confinement = Confinement {
            shared_temp: false,
            private: vec![home.path().join("host")],
            run: Some(home.path().join("host/run")),
            ..Confinement::default()
        };
        let launcher = Path::new(env!("CARGO_BIN_EXE_transom-tools-launcher"));
        let launcher = Launcher::program(launcher, Vec::new()).unwrap();
        let spawner = Spawner::new(Handle::current()).unwrap();
        let confiner = Confiner::probe(&confinement, launcher, &spawner).await;
        assert!(confiner.is_usable(), "these tests need a confiner: {:?}", confiner.report());

        let (sender, heard) = watch::channel(Vec::new());
        let environment = vec![("PATH".to_owned(), path.to_owned())];
        let log = home.path().join("outside/log.jsonl");
        let mut options = Options::new(
            Handle::current(),
            environment,
            home.path().join("spills"),
            home.path().join("work"),
        );
        options.spawner = Some(spawner);
        options.confinement = confinement;
        options.confiner = Some(confiner);
        options.permissions = Permissions {
            approvals: true,
            confines_shell: true,
            confines_files: true,
            ..Permissions::default()
        };
        options.jobs = Some(JobLimits::default());
        options.enabled.push("job_output".to_owned());
        options.job_sink =
            Some(Arc::new(move |_, change| sender.send_modify(|heard| heard.push(change))));
        options.session_log = Some(Arc::new(move |_| Some(log.clone())));
        Yard { registry: Registry::new(options).unwrap(), home, heard }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn wished(&self, name: &str, arguments: &Value, access: Access) -> ToolCall {
        ToolCall {
            session: "main".into(),
            cwd: Some(self.path("work").display().to_string()),
            root: None,
            call_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            access,
            jobs: Arc::default(),
        }
    }

    pub(crate) async fn judge(&self, arguments: &Value, access: Access) -> Judgement {
        self.judge_call(self.wished("bash", arguments, access)).await
    }

    async fn judge_call(&self, call: ToolCall) -> Judgement {
        let (sender, mut judgements) = mpsc::channel(1);
        let sink = move |judgement| sender.try_send(judgement).unwrap();
        self.registry.judge(call, Box::new(sink));
        timeout(PATIENCE, judgements.recv()).await.unwrap().unwrap()
    }

    /// Judges and runs a call as the loop does, saying yes to whatever is asked.
    pub(crate) async fn call(&self, name: &str, arguments: Value, access: Access) -> ToolOutcome {
        self.perform(self.wished(name, &arguments, access)).await
    }

    /// The same of a call of any session.
    pub(crate) async fn perform(&self, mut call: ToolCall) -> ToolOutcome {
        if call.name == "bash" {
            match self.judge_call(call.clone()).await {
                Judgement::Run => {}
                Judgement::Refuse(outcome) => return outcome,
                Judgement::Ask(wanted) => call.access = wanted.granted,
            }
        }
        let (sender, mut results) = mpsc::channel(1);
        let sink = move |outcome| sender.try_send(outcome).unwrap();
        let _stop = self.registry.call(call, Box::new(sink));
        timeout(PATIENCE, results.recv()).await.unwrap().unwrap()
    }

    pub(crate) async fn run(&self, command: &str, access: Access) -> String {
        let outcome = self.call("bash", line(command), access).await;
        assert!(!outcome.is_error, "{}", text(&outcome));
        text(&outcome)
    }

    pub(crate) async fn end(&self) -> (JobStatus, String) {
        let mut heard = self.heard.clone();
        let ended = heard.wait_for(|heard| heard.iter().any(|change| find(change).is_some()));
        let heard = timeout(PATIENCE, ended).await.unwrap().unwrap();
        heard.iter().find_map(find).unwrap()
    }
}

pub(crate) fn find(change: &JobChange) -> Option<(JobStatus, String)> {
    match change {
        JobChange::Ended { status, detail, .. } => {
            Some((*status, detail.clone().unwrap_or_default()))
        }
        JobChange::Stopping { .. } => None,
    }
}

pub(crate) fn line(command: &str) -> Value {
    json!({ "command": command, "description": "a test" })
}

pub(crate) fn text(outcome: &ToolOutcome) -> String {
    match outcome.content.as_slice() {
        [Block::Text { text }] => text.clone(),
        other => panic!("one block of text expected, not {other:?}"),
    }
}

pub(crate) fn code(outcome: &ToolOutcome) -> String {
    outcome.error.as_ref().map_or(String::new(), |error| format!("{}/{}", error.name, error.code))
}
