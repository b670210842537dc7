//! Stories of the ACP door's standard surface (row 51), against the real binary with the scripted model: sessions over
//! several lives of the program, images, permissions, what may be chosen, and a surface that changes while clients are
//! connected.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::support::{
    acp::{Acp, Stage, error, launch, prompt, script, stop},
    control::Control,
    place::{Place, text},
    process::Launch,
    recording::{Bindings, Step, steps},
    socket::Socket,
    wire::{Signal, Wire},
};

const STANDARD: &str = "[door.acp.options]\nsurface = \"standard\"\n";

/// One life of the program.
fn life(place: &Place) -> Acp {
    let mut client = Acp::new(launch(place, STANDARD).start());
    let answer = client.call("i", "initialize", json!({"protocolVersion": 1}));
    let capabilities = &answer["result"]["agentCapabilities"];
    assert_eq!(
        capabilities.to_string(),
        r#"{"promptCapabilities":{"image":true,"audio":false,"embeddedContext":false},"sessionCapabilities":{"close":{},"list":{},"resume":{}}}"#
    );
    client
}

/// What `session/list` gives, by id.
fn listed<W: Wire>(client: &mut Acp<W>, params: Value) -> Vec<String> {
    let answer = client.call("list", "session/list", params);
    let sessions = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}"));
    sessions.iter().map(|row| row["sessionId"].as_str().expect("an id").to_owned()).collect()
}

/// The kinds of updates, and the methods of requests, in order.
fn kinds(frames: &[Value]) -> Vec<&str> {
    let kind = |frame| {
        let frame: &Value = frame;
        let kind = frame["params"]["update"]["sessionUpdate"].as_str();
        kind.or(frame["method"].as_str()).unwrap_or("?")
    };
    frames.iter().map(kind).collect()
}

#[test]
fn sessions_are_listed_and_gone_on_with_in_the_next_life_of_the_program() {
    let place = Place::new();
    let cwd = text(&place.cwd).to_owned();
    let mut client = life(&place);
    let [first, second, blank] = [(); 3].map(|()| client.session(&cwd));
    for session in [&first, &second] {
        let (_, answer) = client.turn(session, "[[PLAIN]] what was it?");
        assert_eq!(stop(&answer), "end_turn");
    }
    assert_eq!(listed(&mut client, json!({})), Vec::<String>::new(), "what is live is not listed");
    assert_eq!(client.call(1, "session/close", json!({"sessionId": first}))["result"], json!({}));
    assert_eq!(listed(&mut client, json!({})), std::slice::from_ref(&first));
    assert_eq!(client.end(), (vec![], 0));

    // Another life, which ends without a word.
    let mut client = life(&place);
    let answer = client.call("l", "session/list", json!({}));
    let row = &answer["result"]["sessions"][0];
    assert_eq!(row["sessionId"], second.as_str(), "the newest in front: {answer}");
    assert_eq!((&row["cwd"], &row["title"]), (&json!(cwd), &json!("[[PLAIN]] what was it?")));
    assert!(row["updatedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{row}");
    let link = place.root().join("link");
    symlink(&place.cwd, &link).expect("a link");
    let all = listed(&mut client, json!({"cwd": text(&link)}));
    assert!(all.starts_with(&[second.clone(), first.clone()]) && !all.contains(&blank), "{all:?}");
    assert_eq!(listed(&mut client, json!({"cwd": "/"})), Vec::<String>::new());

    let resume = |session: &str, cwd: &str| json!({"sessionId": session, "cwd": cwd});
    let elsewhere = client.call(2, "session/resume", resume(&first, "/"));
    assert_eq!(error(&elsewhere), "-32602 Invalid params: session cwd does not match: /");
    let missing = client.call(3, "session/resume", resume("missing", &cwd));
    assert_eq!(error(&missing), "-32602 Invalid params: session is not resumable: missing");
    let resumed = client.call(4, "session/resume", resume(&first, text(&link)));
    let options = &resumed["result"]["configOptions"];
    assert_eq!(options[0]["currentValue"], r#"["scripted","scripted"]"#, "{resumed}");
    let again = client.call(5, "session/resume", resume(&first, &cwd));
    let active = format!("-32602 Invalid params: session is already active: {first}");
    assert_eq!(error(&again), active);
    assert_eq!(listed(&mut client, json!({})), std::slice::from_ref(&second));
    let (updates, answer) = client.turn(&first, "[[TEXTTOOL]]");
    assert_eq!(stop(&answer), "end_turn");
    // Only what is new is shown.
    let expected = ["agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"];
    assert_eq!(kinds(&updates), expected);
    client.wire.kill();

    let mut client = life(&place);
    assert_eq!(listed(&mut client, json!({})), [second.clone(), first.clone()]);
    let resumed = client.call(6, "session/resume", resume(&first, &cwd));
    assert!(resumed["result"]["configOptions"].is_array(), "{resumed}");
    let (_, answer) = client.turn(&first, "[[PLAIN]]");
    assert_eq!(stop(&answer), "end_turn");
    assert_eq!(client.call(7, "session/close", json!({"sessionId": first}))["result"], json!({}));
    let gone = client.call(8, "session/close", json!({"sessionId": first}));
    assert_eq!(error(&gone), "-32002 Resource not found");
    assert_eq!(gone["error"]["data"], json!({"sessionId": first}));
    let prompted = client.call(9, "session/prompt", prompt(&first, "x"));
    assert_eq!(error(&prompted), format!("-32602 Invalid params: unknown session: {first}"));
    assert_eq!(client.end(), (vec![], 0));
}

#[test]
fn who_shares_the_program_sees_no_stored_sessions_of_others() {
    let place = Place::new();
    let mut client = life(&place);
    let cwd = text(&place.cwd).to_owned();
    let session = client.session(&cwd);
    client.turn(&session, "[[PLAIN]]");
    assert_eq!(client.end(), (vec![], 0));
    let mut house = House::start(place, STANDARD);
    let mut client = house.client();
    assert_eq!(listed(&mut client, json!({})), Vec::<String>::new());
    house.end();
}

#[test]
fn a_long_list_of_servers_ends_no_connection() {
    // A-11: each name is held against the others, in the time that one line has.
    let mut stage = Stage::with(STANDARD);
    let servers = |servers: String| format!(r#"{{"cwd":"/","mcpServers":[{servers}]}}"#);
    let many = |one: &dyn Fn(u32) -> String| (0..100_000).map(one).collect::<Vec<_>>().join(",");
    let server = |name: &str, pairs: &str| {
        format!(r#"{{"name":"{name}","command":"/c","args":[],"env":[{pairs}]}}"#)
    };
    let pairs = many(&|at| format!(r#"{{"name":"v{at}","value":""}}"#));
    for params in [servers(many(&|at| server(&format!("s{at}"), ""))), servers(server("s", &pairs))]
    {
        stage.client.say(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#
        ));
        let answer = stage.client.next();
        let refused = error(&answer);
        assert!(refused.starts_with("-32602 Invalid params: mcpServers is not supported"));
    }
}

/// A client whose model, for `[[BESIDE]]`, gives this to a subagent in the background.
fn delegating(place: &Place, task: &str) -> Acp {
    let mut script = script();
    let answers = script["rules"].as_array_mut().expect("rules");
    let arguments = json!({"description": "a test", "prompt": task, "run_in_background": true});
    let call = json!([{"tool": {"name": "subagent", "arguments": arguments}}]);
    for (when, answer) in [
        (json!({"contains": "[[BESIDE]]", "step": 1}), call),
        (json!({"notice": "subagent-1"}), json!([{"text": "noted"}])),
    ] {
        answers.insert(0, json!({"when": when, "answer": answer}));
    }
    let launch = launch(place, STANDARD);
    place.file("script.json", script.to_string());
    Acp::new(launch.start())
}

#[test]
fn a_prompt_waits_for_what_a_subagent_in_the_background_leads_to() {
    // A-124, A-125: the end of the child begins a turn, and that is the last one.
    let place = Place::new();
    let mut client = delegating(&place, "[[PLAIN]]");
    let session = client.session(text(&place.cwd));
    let (updates, answer) = client.turn(&session, "[[BESIDE]]");
    assert_eq!(stop(&answer), "end_turn");
    let last = &updates.last().expect("updates")["params"]["update"];
    assert_eq!(last["content"]["text"], "noted", "{updates:?}");
}

#[test]
fn a_close_ends_what_works_in_the_background() {
    // A-119: whatever that would have waited for.
    let place = Place::new();
    let mut client = delegating(&place, "[[HANG]]");
    let session = client.session(text(&place.cwd));
    client.prompt(1, &session, "[[BESIDE]]");
    let begun: Vec<_> = [(); 3].map(|()| client.next()).into();
    assert_eq!(kinds(&begun), ["tool_call", "tool_call_update", "agent_message_chunk"]);
    client.ask(2, "session/close", json!({"sessionId": session}));
    let (before, closed) = client.until(2);
    assert_eq!(closed["result"], json!({}), "{closed}");
    assert_eq!((before[0]["id"].as_u64(), stop(&before[0])), (Some(1), "cancelled"));
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(client.end(), (vec![], 0));
}

#[test]
fn a_person_is_asked_about_a_call_that_was_announced() {
    // A-120, A-122, row 34.
    let mut stage = Stage::with(STANDARD);
    let session = stage.session();
    stage.client.prompt(1, &session, "[[PERM]]");
    let (announced, asked) = (stage.client.next(), stage.client.next());
    let call = &announced["params"]["update"];
    assert_eq!(call["sessionUpdate"], "tool_call", "{announced}");
    assert_eq!((&call["kind"], &call["status"]), (&json!("execute"), &json!("in_progress")));
    assert_eq!(asked["method"], "session/request_permission", "{asked}");
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], call["toolCallId"]);
    stage
        .client
        .decide(asked["id"].clone(), json!({"outcome": "selected", "optionId": "allow-once"}));
    let (updates, answer) = stage.client.until(1);
    assert_eq!(kinds(&updates), ["tool_call_update", "agent_message_chunk"]);
    assert_eq!(updates[0]["params"]["update"]["status"], "completed", "{}", updates[0]);
    assert_eq!(stop(&answer), "end_turn");
}

#[test]
fn a_cut_answer_says_so() {
    // Row 38.
    let mut stage = Stage::with(STANDARD);
    let session = stage.session();
    let (updates, answer) = stage.client.turn(&session, "[[LENGTH]]");
    assert_eq!((kinds(&updates), stop(&answer)), (vec!["agent_message_chunk"], "max_tokens"));
}

#[test]
fn images_are_taken_as_recorded() {
    // A-128 to A-130. What the model says to them is the script's, so that only answers are compared.
    let place = Place::new();
    let mut client = life(&place);
    let mut bindings = Bindings::new(text(&place.cwd));
    let mut answers = 0;
    for step in steps("pub-ext-image-prompt.jsonl", &[], true) {
        match step {
            Step::Write(said) if !said.contains("\"initialize\"") => {
                client.say(bindings.fill(said.trim_end()).as_str());
            }
            Step::Expect(expected)
                if expected.frame["id"] != 0 && !expected.frame["id"].is_null() =>
            {
                let (updates, answer) = client.until(expected.frame["id"].clone());
                bindings.compare(&expected.frame, &answer).unwrap_or_else(|why| panic!("{why}"));
                if expected.frame["result"]["stopReason"] == "end_turn" {
                    assert_eq!(kinds(&updates), ["agent_message_chunk"]);
                }
                answers += 1;
            }
            _ => {}
        }
    }
    assert_eq!(answers, 10);
    assert_eq!(client.end(), (vec![], 0));
}

#[test]
fn a_picture_that_a_tool_has_read_is_shown() {
    // A-122: read back from the store, and what follows waits for it.
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let place = Place::new();
    let decode = format!("printf %s {png} | base64 -d > dot.png");
    let mut script = script();
    let answers = script["rules"].as_array_mut().expect("rules");
    for (step, answer) in [
        (
            1,
            json!([{"tool": {"name": "bash", "arguments": {"command": decode, "description": "a test"}}}]),
        ),
        (2, json!([{"tool": {"name": "read_image", "arguments": {"file_path": "dot.png"}}}])),
        (3, json!([{"text": "seen"}])),
    ] {
        let when = json!({"contains": "[[PICTURE]]", "step": step});
        answers.insert(0, json!({"when": when, "answer": answer}));
    }
    let launch =
        launch(&place, &format!("{STANDARD}[tools]\nenabled = [\"bash\", \"read_image\"]\n"));
    place.file("script.json", script.to_string());
    let mut client = Acp::new(launch.start());
    let session = client.session(text(&place.cwd));
    let (updates, answer) = client.turn(&session, "[[PICTURE]]");
    assert_eq!(stop(&answer), "end_turn");
    assert_eq!(
        kinds(&updates),
        ["tool_call", "tool_call_update", "tool_call", "tool_call_update", "agent_message_chunk"]
    );
    let call = &updates[2]["params"]["update"];
    let path = format!("{}/dot.png", text(&place.cwd));
    assert_eq!((&call["kind"], &call["locations"]), (&json!("read"), &json!([{"path": path}])));
    let shown = updates[3]["params"]["update"]["content"].as_array().expect("content");
    let image = shown.iter().find(|one| one["content"]["type"] == "image");
    let image = image.unwrap_or_else(|| panic!("{}", updates[3]));
    assert_eq!(image["content"], json!({"type": "image", "data": png, "mimeType": "image/png"}));
}

#[test]
fn a_cancel_waits_for_the_tool_that_it_stops() {
    // A-126, row 33.
    let mut stage =
        Stage::with(&format!("{STANDARD}[permissions]\npreset = \"danger-full-access\"\n"));
    let session = stage.session();
    let held = stage.place.cwd.join("held");
    nix::unistd::mkfifo(&held, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    stage.client.prompt(1, &session, "[[SLOWTOOL]]");
    assert_eq!(kinds(&[stage.client.next()]), ["tool_call"]);
    // The command has the pipe open for as long as anything of it is left.
    let mut pipe = std::io::BufReader::new(fs::File::open(&held).expect("the pipe"));
    let mut said = String::new();
    std::io::BufRead::read_line(&mut pipe, &mut said).expect("a word");
    stage.client.cancel(&session);
    let (updates, answer) = stage.client.until(1);
    assert_eq!((kinds(&updates), stop(&answer)), (vec!["tool_call_update"], "cancelled"));
    assert_eq!(updates[0]["params"]["update"]["status"], "failed");
    std::io::Read::read_to_string(&mut pipe, &mut said).expect("its end");
    assert_eq!(said, "begun\n");
    let (_, answer) = stage.client.turn(&session, "[[PLAIN]]");
    assert_eq!(stop(&answer), "end_turn");
}

/// A host whose ACP door stands on a socket.
struct House {
    place: Place,
    process: crate::support::process::Process,
}

impl House {
    fn manifest(tables: &str) -> String {
        format!(
            "[door.acp]\ncomponent = \"acp\"\ncarrier = \"unix\"\nlisten = \"acp.sock\"\n\
             [model]\nprovider = \"scripted\"\nscript = \"script.json\"\n\
             [control]\nlisten = \"control.sock\"\n[store]\npath = \"store.db\"\n{tables}"
        )
    }

    fn start(place: Place, tables: &str) -> House {
        let manifest = place.file("transom.toml", House::manifest(tables));
        place.file("script.json", script().to_string());
        let launch = Launch::new(["run", "--manifest", text(&manifest)]);
        let mut process = launch.directory(&place.cwd).env("HOME", &place.home).start();
        while let Some(line) = process.line() {
            if line.starts_with("ready") {
                return House { place, process };
            }
        }
        panic!("the host did not start:\n{}", process.diagnostics());
    }

    fn client(&self) -> Acp<Socket> {
        Acp::new(Socket::connect(&self.place.root().join("acp.sock")))
    }

    fn reload(&self, tables: &str) -> Value {
        self.place.file("transom.toml", House::manifest(tables));
        let mut control = Control::connect(&self.place.root().join("control.sock"));
        control.ask("reload", json!({})).expect("read again")
    }

    fn end(&mut self) {
        self.process.signal(Signal::Terminate);
        assert_eq!(self.process.exit(), 0, "{}", self.process.diagnostics());
    }
}

#[test]
fn a_changed_surface_is_for_new_connections() {
    // Decision 53, A-1.
    let mut house = House::start(Place::new(), "");
    let mut early = house.client();
    let answer = house.reload(STANDARD);
    assert_eq!(answer["swaps"][0]["moved"], 1, "{answer}");
    let mut late = house.client();
    let has_sessions = |client: &mut Acp<Socket>| {
        let answer = client.call("i", "initialize", json!({"protocolVersion": 1}));
        !answer["result"]["agentCapabilities"]["sessionCapabilities"].is_null()
    };
    assert!(!has_sessions(&mut early) && has_sessions(&mut late));
    let answer = early.call(1, "session/list", json!({}));
    assert_eq!(error(&answer), "-32601 \"Method not found\": session/list");
    assert_eq!(listed(&mut late, json!({})), Vec::<String>::new());
    house.end();
}

#[test]
fn changed_models_are_told_to_live_sessions() {
    // A-114.
    let mut house = House::start(Place::new(), STANDARD);
    let mut client = house.client();
    let cwd = text(&house.place.cwd).to_owned();
    let session = client.session(&cwd);
    house.reload(&format!("{STANDARD}[jobs]\ndelivery = \"quiet\"\n"));
    let told = client.next();
    assert_eq!(kinds(std::slice::from_ref(&told)), ["config_option_update"]);
    assert_eq!(told["params"]["sessionId"], session.as_str());
    let options = &told["params"]["update"]["configOptions"];
    assert_eq!(options[0]["currentValue"], r#"["scripted","scripted"]"#, "{told}");
    house.end();
}
