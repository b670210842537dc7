//! Rows 6 to 12: `session/new`.

use serde_json::{Value, json};

use crate::support::{
    acp::{Acp, Stage, chunks, error, prompt, script, stop},
    place::{Place, text},
    process::Launch,
    socket::Socket,
    wire::Wire as _,
};

fn refused(params: Value) -> String {
    let mut stage = Stage::new();
    let cwd = text(&stage.place.cwd).to_owned();
    let params = params.to_string().replace("<cwd>", &cwd);
    let params = serde_json::from_str(&params).expect("JSON");
    let said = error(&stage.client.call("n", "session/new", params));
    assert_eq!(stage.client.end(), (vec![], 0));
    said
}

#[test]
fn row_6_a_session_has_an_id_and_nothing_else() {
    let mut stage = Stage::new();
    let cwd = text(&stage.place.cwd).to_owned();
    for params in [
        json!({"cwd": cwd, "mcpServers": []}),
        json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": [], "_meta": {"x": 1}}),
        json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": null}),
    ] {
        let opened = stage.client.call("n", "session/new", params);
        let result = opened["result"].as_object().expect("a result");
        assert_eq!(result.keys().collect::<Vec<_>>(), ["sessionId"]);
        let id = result["sessionId"].as_str().expect("an id");
        // A UUID of version 4 in lower case.
        let lower = id.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c));
        assert!(lower && id.len() == 36 && id.as_bytes()[14] == b'4', "{id}");
    }
}

#[test]
fn row_7_the_directory_is_absolute() {
    for cwd in ["relative", "./x", ""] {
        let expected = format!("-32602 Invalid params: cwd must be an absolute path: {cwd}");
        assert_eq!(refused(json!({"cwd": cwd, "mcpServers": []})), expected);
    }
}

#[test]
fn row_8_further_directories_are_refused() {
    let params = json!({"cwd": "<cwd>", "mcpServers": [], "additionalDirectories": ["/extra-dir"]});
    assert_eq!(refused(params), "-32602 Invalid params: additionalDirectories is not supported");
}

#[test]
fn row_9_servers_are_refused() {
    let stdio = json!({"name": "fs", "command": "/bin/true", "args": [], "env": []});
    let sse = json!({"type": "sse", "name": "x", "url": "http://127.0.0.1:9/", "headers": []});
    for server in [stdio, sse] {
        let params = json!({"cwd": "<cwd>", "mcpServers": [server]});
        assert_eq!(refused(params), "-32602 Invalid params: mcpServers is not supported");
    }
}

#[test]
fn row_10_the_directory_is_looked_at_first() {
    let stdio = json!({"name": "fs", "command": "/bin/true", "args": [], "env": []});
    let params =
        json!({"cwd": "relative", "mcpServers": [stdio], "additionalDirectories": ["/extra-dir"]});
    assert_eq!(refused(params), "-32602 Invalid params: cwd must be an absolute path: relative");
}

#[test]
fn row_11_wrong_shapes_are_refused() {
    for params in [
        json!({"mcpServers": []}),
        json!({"cwd": "<cwd>"}),
        json!({"cwd": "<cwd>", "mcpServers": null}),
        json!({"cwd": "<cwd>", "mcpServers": [{"nonsense": true}]}),
    ] {
        assert_eq!(refused(params.clone()), "-32602 Invalid params", "{params}");
    }
}

#[test]
fn row_12_a_missing_directory_is_no_obstacle() {
    // it may be made later.
    let mut stage = Stage::new();
    let missing = stage.place.cwd.join("missing");
    let session = stage.client.session(text(&missing));
    assert_eq!(stage.client.turn(&session, "[[PLAIN]]").1["result"]["stopReason"], "end_turn");
}

#[test]
fn a_38_the_operator_is_told_of_a_directory_that_is_not_accessible() {
    let mut stage = Stage::new();
    let file = stage.place.file("file", "no directory");
    let missing = stage.place.cwd.join("missing");
    for cwd in [&missing, &file, &stage.place.cwd.clone()] {
        stage.client.session(text(cwd));
    }
    assert_eq!(stage.client.end(), (vec![], 0));
    let said = stage.client.wire.diagnostics();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("is not accessible")).collect();
    assert_eq!(told.len(), 2, "one line for each, and none for the last: {said}");
    for (line, cwd, why) in
        [(told[0], &missing, "No such file"), (told[1], &file, "Not a directory")]
    {
        assert!(line.contains("WARN") && line.contains(text(cwd)) && line.contains(why), "{line}");
    }
}

#[test]
fn a_56_a_87_clients_of_one_process_have_nothing_of_each_other() {
    let place = Place::new();
    let socket = place.root().join("acp.sock");
    let manifest = format!(
        "[door.acp]\ncomponent = \"acp\"\ncarrier = \"unix\"\nlisten = \"{}\"\n\n[model]\nprovider = \"scripted\"\n",
        text(&socket)
    );
    let manifest = place.file("transom.toml", manifest);
    let script = place.file("script.json", script().to_string());
    let mut process = Launch::new(["run", "--manifest", text(&manifest)])
        .arg("--model-script")
        .arg(&script)
        .directory(&place.cwd)
        .env("HOME", &place.home)
        .start();
    while !process.line().expect("the host starts").starts_with("ready") {}

    let [mut one, mut two] = [(); 2].map(|()| Acp::new(Socket::connect(&socket)));
    let sessions = [one.session(text(&place.cwd)), two.session(text(&place.cwd))];
    let foreign = two.call("x", "session/prompt", prompt(&sessions[0], "[[PLAIN]]"));
    let unknown = format!("-32602 Invalid params: unknown session: {}", sessions[0]);
    assert_eq!(error(&foreign), unknown);
    // A cancel of another's session is one of an unknown session, and the end of a connection ends its own.
    one.prompt("p", &sessions[0], "[[HANG]]");
    two.cancel(&sessions[0]);
    assert_eq!(stop(&two.turn(&sessions[1], "[[PLAIN]]").1), "end_turn");
    two.wire.close_input();
    assert!(two.frame().is_none());
    let busy = one.call("q", "session/prompt", prompt(&sessions[0], "x"));
    assert!(error(&busy).ends_with("already in flight for this session"), "{busy}");
    one.cancel(&sessions[0]);
    assert_eq!(stop(&one.until("p").1), "cancelled");
    let (updates, _) = one.turn(&sessions[0], "[[PLAIN]]");
    assert_eq!(chunks(&updates), ["hello there"]);
}
