//! Lives of a host of launch form A with logs of JSON lines, and a client of its SDK door. That door takes no stored
//! session again, so each life has sessions of its own; what a host would make of what is left is asked of the loop.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use transom_harness::{
    agent::{Agent, AgentConfig},
    chance::Chance,
    ports::Route,
};

use super::{
    dice::Dice,
    record::{Log, Shown, Tally},
    remains,
};
use crate::support::{
    bench::{configuration, form_a, store},
    client::{Client, error, is_idle, prompt},
    model_server::{ModelServer, Reply, delta, event, finish, usage},
    place::{Place, text},
};

/// What sessions are asked to do.
const WORK: [&str; 7] = ["PLAIN", "THINK", "BURST", "SHELL", "JOB", "SUBAGENT", "ERR400"];

/// The composition has jobs and children too.
const MORE: &str = "
- {id: jobs, name: '@deepseek-ai/dsh-jobs-local'}
- {id: subagents, name: '@deepseek-ai/dsh-subagent'}
- {id: spawn, name: '@deepseek-ai/dsh-subagent-spawn-in-process', config: {providerName: spawn}}
- {id: subagent, name: '@deepseek-ai/dsh-tool-subagent', config: {provider: spawn}}
";

/// So many lives on one place.
pub(super) fn lives(dice: &mut Dice, tally: &mut Tally, lives: usize) {
    let (place, model) = (Place::new(), model());
    let shell = std::fs::read_to_string(configuration("shell.yml")).expect("a composition");
    let mut composition = shell + MORE;
    // Half of the places are compressed, as is the default.
    if dice.one_in(2) {
        let root = "'process.env.DSH_SESSION_ROOT ?? \"./.sessions\"'";
        let plain = composition.replace(root, &format!("{root}, compression: none"));
        assert_ne!(plain, composition, "the composition says where sessions are kept");
        composition = plain;
    }
    let composition = place.file("composition.yml", composition);
    let mut shown = Shown::default();
    let mut earlier: Option<(String, String)> = None;
    for life in 0..lives {
        let mark = format!("{}-{life}-{}", std::process::id(), dice.below(usize::MAX));
        let launch =
            form_a(&place, &model).env("DSH_CORDIS_CONFIG", &composition).env(remains::MARK, &mark);
        let mut client = Client::new(launch.start());
        let answer = client.initialize(text(&place.cwd));
        assert!(answer.get("result").is_some(), "{answer}");
        if let Some((mark, session)) = earlier.take() {
            remains::are_gone(&mark);
            let answer = client.call("again", "session/prompt", prompt(&session, "hi"));
            assert_eq!(error(&answer), format!("-32603 session \"{session}\" already exists"));
        }
        let sessions: Vec<_> = (0..4).map(|n| format!("life {life}/{n}")).collect();
        work(dice, &mut client, &sessions);
        client.wire.kill();
        client.lines.extend(client.wire.last_words());
        let of_life = note(&mut shown, &client.lines);
        let store = store(&place);
        shown.is_in(&store);
        for session in &of_life {
            tally.count(&resumable(&store, session));
        }
        let taken = of_life.iter().find(|session| sessions.contains(session));
        earlier = taken.map(|session| (mark.clone(), session.clone()));
        if earlier.is_none() {
            remains::are_gone(&mark);
        }
    }
    if let Some((mark, _)) = earlier {
        remains::are_gone(&mark);
    }
}

/// Keeps every session at work for a random number of frames.
fn work(dice: &mut Dice, client: &mut Client, sessions: &[String]) {
    let frames = dice.frames();
    let mut prompts = 0;
    let mut give = |client: &mut Client, dice: &mut Dice, session: &str, stuck: bool| {
        prompts += 1;
        let work = if stuck { "STUCK" } else { dice.pick(&WORK) };
        client.prompt(&format!("p{prompts}"), session, &format!("PROMPT: {work}"));
    };
    for (n, session) in sessions.iter().enumerate() {
        give(client, dice, session, n == 0);
    }
    for _ in 0..frames {
        let frame = client.next();
        if let Some(session) = sessions.iter().find(|session| is_idle(&frame, session)) {
            give(client, dice, session, false);
        }
    }
    dice.tarry();
}

/// Notes the events of these lines. Gives the sessions that they are of.
fn note(shown: &mut Shown, lines: &[String]) -> Vec<String> {
    let before = "{\"jsonrpc\":\"2.0\",\"method\":\"session.event\",\"params\":{\"sessionId\":";
    let mut sessions = Vec::new();
    for line in lines {
        let Some(rest) = line.strip_prefix(before) else { continue };
        let Some((session, event)) = rest.split_once(",\"event\":") else { continue };
        let session: String = serde_json::from_str(session).expect("an id");
        shown.note(&session, event.strip_suffix("}}").expect("a whole line"));
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    sessions
}

/// The log is sound, and a host that goes on with it closes what is open. Gives the log as it is.
fn resumable(store: &Path, session: &str) -> Log {
    let left = Log::read(store, session).expect("it is stored");
    let last: Option<Value> =
        left.events.last().map(|event| serde_json::from_str(event).expect("an event"));
    let now = last.and_then(|event| event["time"].as_u64()).expect("an event with a time");
    let events: Vec<Arc<str>> = left.events.iter().map(|event| event.as_str().into()).collect();
    let config = Arc::new(AgentConfig::default());
    let chance = Chance::new([7; 32]);
    let header = left.header.clone();
    let (_, closers) = Agent::restore(header, &events, Route::default(), config, chance, now)
        .unwrap_or_else(|error| panic!("{session}: {error}"));
    let mut closed = left.clone();
    closed.events.extend(closers.iter().map(|event| event.text.to_string()));
    closed.closes(&left);
    left
}

/// The model of these lives.
fn model() -> ModelServer {
    let model = ModelServer::start();
    let call = |index: usize, command: &str, background: bool| {
        let arguments =
            json!({"command": command, "description": "Works", "run_in_background": background});
        let function = json!({"name": "bash", "arguments": arguments.to_string()});
        json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function})
    };
    let calls = |commands: &[(&str, bool)]| {
        let entries: Vec<_> = commands
            .iter()
            .enumerate()
            .map(|(index, (command, background))| call(index, command, *background))
            .collect();
        Reply::events(&[delta(json!({"tool_calls": entries})), finish("tool_calls"), usage()])
    };
    model.on("SHELL", calls(&[("echo one; ls", false), ("exit 3", false), ("sleep 0.05", false)]));
    model.on("JOB", calls(&[("sleep 0.1; echo done", true), ("sleep 1000", true)]));
    model.on("STUCK", calls(&[("sleep 1000 & sleep 1000", false), ("echo never", false)]));
    let words = (0..300).map(|n| delta(json!({"content": format!("word {n} ")})));
    let payloads: Vec<_> = words.chain([finish("stop"), usage()]).collect();
    let pieces = payloads.iter().map(|payload| event(&payload.to_string()));
    model.on("BURST", Reply::pieces(pieces.chain([event("[DONE]")]).collect()));
    model
}
