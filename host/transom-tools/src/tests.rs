//! Real files in temporary directories, real shells, and a registry as the host has it.

mod bash;
mod changes;
mod children;
mod editor;
mod fence;
mod hooks;
mod jobs;
mod judging;
mod lives;
mod others;
mod output;
mod pictures;
mod reading;
mod registry;
mod schema;
mod searching;
mod skills;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tokio::{runtime::Handle, sync::mpsc};
use transom_harness::{
    block::Block,
    ports::{Stop, ToolCall, ToolOutcome, Tools},
};

use crate::{Call, Options, Registry, Running, Tool, ToolError};

/// A registry with a working directory.
struct Bench {
    home: tempfile::TempDir,
    registry: Registry,
    session: &'static str,
}

/// A call that was started.
struct Started {
    stop: Box<dyn Stop>,
    results: mpsc::Receiver<ToolOutcome>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Bench {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work");
        fs::create_dir(&work).unwrap();
        let environment = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        let spills = home.path().join("spills");
        let mut options = Options::new(Handle::current(), environment, spills, work);
        change(&mut options);
        Bench { registry: Registry::new(options).unwrap(), home, session: "main" }
    }

    /// The working directory, or something in it.
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("work").components().chain(Path::new(name).components()).collect()
    }

    /// The same as text.
    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    }

    fn start(&self, name: &str, arguments: &str) -> Started {
        let call = ToolCall {
            session: self.session.into(),
            cwd: Some(self.shown("")),
            root: None,
            call_id: "call-1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            access: transom_harness::permissions::Access::FULL,
            jobs: Default::default(),
        };
        let (sender, results) = mpsc::channel(2);
        let (registry, session) = (self.registry.clone(), call.session.clone());
        let name = name.to_owned();
        let sink =
            move |outcome| sender.try_send(registry.finish(&session, &name, outcome)).unwrap();
        let stop = self.registry.call(call, Box::new(sink));
        Started { stop, results }
    }

    async fn call(&self, name: &str, arguments: Value) -> ToolOutcome {
        self.start(name, &arguments.to_string()).outcome().await
    }

    /// The text of a call that works.
    async fn ok(&self, name: &str, arguments: Value) -> String {
        let outcome = self.call(name, arguments).await;
        assert!(!outcome.is_error, "{}", text(&outcome));
        assert_eq!(outcome.error, None);
        text(&outcome)
    }

    /// The text of a call that does not, and its code.
    async fn error(&self, name: &str, arguments: Value) -> (String, String) {
        failure(&self.call(name, arguments).await)
    }
}

impl Started {
    /// The outcome; there is never another one.
    async fn outcome(mut self) -> ToolOutcome {
        let outcome = self.results.recv().await.unwrap();
        assert!(self.results.recv().await.is_none());
        outcome
    }
}

fn text(outcome: &ToolOutcome) -> String {
    match outcome.content.as_slice() {
        [Block::Text { text }] => text.clone(),
        other => panic!("one block of text expected, not {other:?}"),
    }
}

/// Text without `Error: `, and `Name/CODE`.
fn failure(outcome: &ToolOutcome) -> (String, String) {
    assert!(outcome.is_error, "{}", text(outcome));
    let code = outcome
        .error
        .as_ref()
        .map_or(String::new(), |error| format!("{}/{}", error.name, error.code));
    (text(outcome).strip_prefix("Error: ").unwrap().to_owned(), code)
}

fn plain(message: impl Into<String>) -> (String, String) {
    (message.into(), String::new())
}

fn coded(message: impl Into<String>, code: &str) -> (String, String) {
    (message.into(), code.to_owned())
}

/// A tool made of a function.
struct Made {
    spec: transom_harness::ports::ToolSpec,
    timeout_ms: Option<u64>,
    output: crate::Output,
    run: Box<dyn Fn(Call) -> Running + Send + Sync>,
}

impl Made {
    fn new<F>(name: &str, run: impl Fn(Call) -> F + Send + Sync + 'static) -> Made
    where
        F: Future<Output = Result<ToolOutcome, ToolError>> + Send + 'static,
    {
        let spec = transom_harness::ports::ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::json!({ "type": "object" }),
        };
        let output = crate::Output::text();
        Made { spec, timeout_ms: None, output, run: Box::new(move |call| Box::pin(run(call))) }
    }

    fn into_tool(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

impl Tool for Made {
    fn spec(&self) -> transom_harness::ports::ToolSpec {
        self.spec.clone()
    }

    fn output(&self) -> crate::Output {
        self.output.clone()
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        self.timeout_ms.map(std::time::Duration::from_millis)
    }

    fn run(&self, call: Call) -> Running {
        (self.run)(call)
    }
}
