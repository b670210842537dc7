//! This program as the agent of another one of itself: a session of the first delegates, the second asks a model server,
//! runs a tool and answers.

use serde_json::json;

use crate::support::{
    agents::result_text,
    frames::Frames,
    model_server::{ModelServer, Reply, delta, finish},
    place::{Place, text},
    process::{Launch, binary},
    wire::Wire as _,
};

/// A process below this one whose command line holds a text.
fn is_running(part: &str) -> bool {
    let entries = std::fs::read_dir("/proc").expect("the processes");
    let lines =
        entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(part))
}

/// Two hosts: the outer one with the scripted model, the inner one with a model server.
fn hosts(place: &Place, model: &ModelServer) -> Launch {
    let inner = place.file(
        "inner.toml",
        format!(
            "[door.acp]\ncomponent = 'acp'\ncarrier = 'stdio'\n\
             [model]\nprovider = 'deepseek-official'\nmodel = 'deepseek-v4-flash'\nbase-url = '{}'\n\
             [permissions]\npreset = 'danger-full-access'\n[store]\npath = 'inner.db'\n",
            model.base_url()
        ),
    );
    let outer = format!(
        "[door.frames]\ncomponent = 'frames'\ncarrier = 'stdio'\n[model]\nprovider = 'scripted'\n\
         [permissions]\npreset = 'danger-full-access'\n\
         [agent.inner]\ncommand = ['{}', 'stdio', 'acp', '--manifest', '{}']\n\
         env = {{ DEEPSEEK_API_KEY = 'sk-inner' }}\n\
         [subagents.inner]\ndescription = 'another host'\nagent = 'inner'\n",
        binary().display(),
        inner.display()
    );
    let manifest = place.file("outer.toml", outer);
    let script = json!({"rules": [
        {"when": {"contains": "go", "step": 1}, "answer": [{"tool": {"name": "subagent", "arguments": {
            "kind": "inner", "description": "a look", "prompt": "[[WORK]] look around",
        }}}]},
        {"answer": [{"text": "I was told: {{result}}"}]},
    ]});
    let script = place.file("script.json", script.to_string());
    Launch::new(["stdio", "frames", "--manifest", text(&manifest)])
        .arg("--model-script")
        .arg(&script)
        .arg("--store")
        .arg(place.root().join("outer.db"))
        .directory(&place.cwd)
        .env("HOME", &place.home)
        // The outer host's own, which the agent does not get.
        .env("DEEPSEEK_API_KEY", "sk-outer")
}

fn begun(place: &Place, model: &ModelServer) -> Frames {
    let mut peer = Frames::new(hosts(place, model).start());
    peer.watch();
    peer.call("session/open", "main", json!({"want": "new", "cwd": text(&place.cwd)}));
    peer.prompt("main", "go");
    peer
}

#[test]
fn a_session_delegates_to_another_host_and_gets_its_last_words() {
    let (place, model) = (Place::new(), ModelServer::start());
    model.answer(|request| {
        let asked = request.text.contains("tool-proof\\n") || request.text.contains("\"role\":\"tool\"");
        match asked {
            false => Reply::events(&[
                json!({"choices": [{"index": 0, "delta": {"content": "let me look", "tool_calls": [{
                    "index": 0, "id": "t1", "type": "function", "function": {
                        "name": "bash",
                        "arguments": "{\"command\":\"pwd; echo tool-proof\",\"description\":\"look\"}",
                    },
                }]}}]}),
                finish("tool_calls"),
            ]),
            true => Reply::events(&[delta(json!({"content": "I looked around"})), finish("stop")]),
        }
    });
    let mut peer = begun(&place, &model);
    let result = peer.event("main", "tool/result");
    // The last message, not what it said before it used a tool.
    assert_eq!(result_text(&result), "I looked around");
    peer.idle("main", 1);
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-inner"));
    assert!(requests[0].text.contains("[[WORK]] look around"));
    let cwd = place.cwd.canonicalize().expect("a directory");
    assert!(requests[1].text.contains(&cwd.display().to_string()), "it worked in {cwd:?}");
    assert!(!is_running(text(&place.root().join("inner.toml"))), "the inner host has ended");
    peer.wire.close_input();
    while peer.frame().is_some() {}
    assert_eq!(peer.wire.exit(), 0, "{}", peer.wire.diagnostics());
}

#[test]
fn a_cancel_reaches_the_other_host_and_its_tools() {
    let (place, model) = (Place::new(), ModelServer::start());
    model.answer(|_| {
        Reply::events(&[
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{
                "index": 0, "id": "t1", "type": "function", "function": {
                    "name": "bash",
                    "arguments": "{\"command\":\"echo $$ > shell.pid; exec sleep 1234\",\"description\":\"wait\"}",
                },
            }]}}]}),
            finish("tool_calls"),
        ])
    });
    let mut peer = begun(&place, &model);
    let file = place.cwd.join("shell.pid");
    let shell = crate::support::agents::until("the shell runs", || {
        std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok()
    });
    peer.call("session/cancel", "main", json!({"inbox": "clear"}));
    peer.event("main", "turn/end");
    crate::support::agents::until("the shell of the inner host is gone", || {
        (!crate::support::agents::lives(shell)).then_some(())
    });
    let inner = place.root().join("inner.toml");
    crate::support::agents::until("the inner host is gone", || {
        (!is_running(text(&inner))).then_some(())
    });
    peer.wire.close_input();
    while peer.frame().is_some() {}
    assert_eq!(peer.wire.exit(), 0, "{}", peer.wire.diagnostics());
}
