//! What the control socket makes of lines, with an operator that says back what it was asked for.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::watch,
};

use super::{Operator, REQUEST_BYTES_MAX, Refused, Request, answer, serve};
use crate::unix::Socket;

struct Parrot;

impl Operator for Parrot {
    async fn perform(&self, request: Request) -> Result<Value, Refused> {
        match request {
            Request::Drain { .. } => Err(Refused("there is no such door".to_owned())),
            told => Ok(json!(format!("{told:?}"))),
        }
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await.unwrap() })
}

#[test]
fn every_method_is_read_and_everything_else_is_explained() {
    let check = |line: &str, expected: &str| {
        let answered = run(answer(&Parrot, line.as_bytes()));
        let said = match answered {
            None => "nothing".to_owned(),
            Some(answer) => match answer.get("error") {
                Some(error) => format!("{} {}", error["code"], error["message"].as_str().unwrap()),
                None => answer["result"].as_str().unwrap().to_owned(),
            },
        };
        assert_eq!(said, expected, "{line}");
    };
    let ask = |method: &str, params: &str, expected: &str| {
        check(&format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#), expected);
    };
    ask("status", "{}", "Status");
    ask("connections", "{}", "Connections { door: None }");
    ask("connections", r#"{"door":"sdk"}"#, r#"Connections { door: Some("sdk") }"#);
    ask(
        "swap",
        r#"{"component":"sdk","source":"/a.wasm"}"#,
        r#"Swap { component: "sdk", source: "/a.wasm" }"#,
    );
    ask(
        "swap",
        r#"{"component":"sdk","source":"a.wasm"}"#,
        r#"-32602 `source` is "a.wasm"; it must be an absolute path"#,
    );
    ask("rollback", r#"{"component":"sdk"}"#, r#"Rollback { component: "sdk" }"#);
    ask("rollback", "{}", "-32602 `rollback` needs `component`");
    ask("drain", r#"{"door":"sdk"}"#, "-32000 there is no such door");
    ask("reload", "{}", "Reload");
    ask("reload", r#"{"now":true}"#, "-32602 `reload` takes no `now`");
    ask("log", r#"{"level":"info"}"#, r#"Log { level: "info" }"#);
    ask("log", r#"{"level":1}"#, "-32602 `level` is text that is not empty");
    ask(
        "permissions",
        r#"{"session":"s","set":"read-only"}"#,
        r#"Permissions { session: "s", set: Some("read-only") }"#,
    );
    ask("jobs.kill", r#"{"session":"s","job":"1"}"#, r#"KillJob { session: "s", job: "1" }"#);
    ask(
        "stop",
        "{}",
        "-32601 unknown method `stop`; there are connections, drain, jobs.kill, log, permissions, reload, rollback, status, swap",
    );
    ask("status", "[]", "-32602 `params` is an object");
    check(r#"{"method":"reload"}"#, "nothing");
    check(r#"{"id":null,"method":"reload"}"#, "-32600 `id` is text or a number");
    check(r#"{"id":1}"#, "-32600 `method` is missing");
    check("[]", "-32600 a request is a JSON object");
    check("status", "-32700 expected value at line 1 column 1");
}

async fn lines(path: &Path, request: &str) -> Option<String> {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    let count = BufReader::new(stream).read_line(&mut line).await.unwrap();
    (count > 0).then_some(line)
}

#[test]
fn a_request_that_is_too_long_costs_its_line_only() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("control.sock");
    run(async {
        let (stop, stopping) = watch::channel(false);
        let socket = Socket::bind(&path).unwrap();
        let serving = tokio::spawn(serve(socket, Arc::new(Parrot), stopping));
        let long = "x".repeat(REQUEST_BYTES_MAX as usize + 1);
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let asked = format!("{long}\n{}\n", json!({ "id": 7, "method": "status" }));
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut answers = BufReader::new(stream).lines();
        let first = answers.next_line().await.unwrap().unwrap();
        assert!(first.contains("too long"), "{first}");
        let second = answers.next_line().await.unwrap().unwrap();
        assert!(second.contains("Status"), "{second}");
        assert!(lines(&path, "{\"id\":1,\"method\":\"status\"}\n").await.is_some());
        stop.send_replace(true);
        serving.await.unwrap();
        assert!(!path.exists(), "the file goes with the socket");
    });
}

#[test]
fn what_this_process_started_cannot_control_it() {
    // P-43.
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("control.sock");
    run(async {
        let (_stop, stopping) = watch::channel(false);
        let socket = Socket::bind(&path).unwrap();
        let _serving = tokio::spawn(serve(socket, Arc::new(Parrot), stopping));
        let program = "import socket, sys\n\
                       s = socket.socket(socket.AF_UNIX)\n\
                       s.connect(sys.argv[1])\n\
                       s.sendall(b'{\"id\":1,\"method\":\"reload\"}\\n')\n\
                       print(s.makefile().readline())";
        let child = tokio::process::Command::new("python3")
            .args(["-c", program])
            .arg(&path)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8(child.stdout).unwrap();
        assert!(
            said.contains("a tool process cannot control the host"),
            "{said} {child:?}",
            child = child.stderr
        );
    });
}
