//! Recorded conversations, played against a host in memory with the codec native and sandboxed, each also with
//! the codec moved between every two inputs, and against the real binary. All must say what was recorded, apart
//! from `departures.toml`, and all must say the same.

mod clients;
mod launch;
mod player;

use std::{
    fs,
    sync::{Arc, LazyLock},
};

use serde_json::{Value, json};
use transom_connection::codec::CodecSource;
use transom_harness::{
    agent::AgentConfig,
    image::ImageLimits,
    ports::Route,
    system_prompt::{PromptSection, Text},
};
use transom_router::{Images, Unseen};
use transom_sandbox::Sandbox;
use transom_sdk::Conversation;
use transom_tools::Permissions;

use crate::support::{
    client::Client,
    departures::{self, Departure},
    memory::{Memory, Setup},
    model_server::{ModelServer, Piece, Reply, delta, event},
    place::{Place, text},
    play::{Binding, Played, Player},
    process::{Launch, workspace},
    transcript::parting,
    vector::{self, Line, What},
    way::{Way, shipped},
    wire::Wire,
};

/// What `launch/shell.yml` lets the model call: the bundled default of the baseline.
const SHELL: [&str; 5] = ["bash", "job_kill", "job_list", "job_output", "skill"];

/// What `launch/coding.yml` lets the model call.
const CODING: [&str; 6] = ["bash", "edit", "read", "subagent", "todo_write", "write"];

/// Recordings that were made with the coding agent; all others with the bundled default.
const CODING_AGENT: [&str; 1] = ["v0.1.0rc6.prompt-subagent.jsonl"];

const KEY: &str = "sk-mock";

/// One test for each file, named like it.
macro_rules! vectors {
    ($($name:ident = $file:literal,)*) => {
        const PLAYED: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $name() {
                play($file);
            }
        )*
    };
}

vectors! {
    base_bad_prompt_params = "v0.1.0rc6.bad-prompt-params.jsonl",
    base_eof_idle = "v0.1.0rc6.eof-idle.jsonl",
    base_eof_mid_turn = "v0.1.0rc6.eof-mid-turn.jsonl",
    base_framing_extras = "v0.1.0rc6.framing-extras.jsonl",
    base_initialize = "v0.1.0rc6.initialize.jsonl",
    base_malformed_lines = "v0.1.0rc6.malformed-lines.jsonl",
    base_overlapping_prompts = "v0.1.0rc6.overlapping-prompts.jsonl",
    base_prompt_before_initialize = "v0.1.0rc6.prompt-before-initialize.jsonl",
    base_prompt_http_400 = "v0.1.0rc6.prompt-http-400.jsonl",
    base_prompt_http_401 = "v0.1.0rc6.prompt-http-401.jsonl",
    base_prompt_http_500 = "v0.1.0rc6.prompt-http-500.jsonl",
    base_prompt_image = "v0.1.0rc6.prompt-image.jsonl",
    base_prompt_plain = "v0.1.0rc6.prompt-plain.jsonl",
    base_prompt_reasoning = "v0.1.0rc6.prompt-reasoning.jsonl",
    base_prompt_subagent = "v0.1.0rc6.prompt-subagent.jsonl",
    base_prompt_tool_call = "v0.1.0rc6.prompt-tool-call.jsonl",
    base_prompt_utf8 = "v0.1.0rc6.prompt-utf8.jsonl",
    base_same_session_id_new_process = "v0.1.0rc6.same-session-id-new-process.jsonl",
    base_shutdown_mid_turn = "v0.1.0rc6.shutdown-mid-turn.jsonl",
    base_shutdown_twice_and_late_prompt = "v0.1.0rc6.shutdown-twice-and-late-prompt.jsonl",
    base_sigterm = "v0.1.0rc6.sigterm.jsonl",
    base_two_turns = "v0.1.0rc6.two-turns.jsonl",
    base_unknown_method = "v0.1.0rc6.unknown-method.jsonl",
    later_bad_prompt_params = "v0.2.1rc2.bad-prompt-params.jsonl",
    later_eof_idle = "v0.2.1rc2.eof-idle.jsonl",
    later_eof_mid_turn = "v0.2.1rc2.eof-mid-turn.jsonl",
    later_framing_extras = "v0.2.1rc2.framing-extras.jsonl",
    later_initialize = "v0.2.1rc2.initialize.jsonl",
    later_malformed_lines = "v0.2.1rc2.malformed-lines.jsonl",
    later_overlapping_prompts = "v0.2.1rc2.overlapping-prompts.jsonl",
    later_prompt_before_initialize = "v0.2.1rc2.prompt-before-initialize.jsonl",
    later_prompt_http_400 = "v0.2.1rc2.prompt-http-400.jsonl",
    later_prompt_http_401 = "v0.2.1rc2.prompt-http-401.jsonl",
    later_prompt_http_500 = "v0.2.1rc2.prompt-http-500.jsonl",
    later_prompt_image = "v0.2.1rc2.prompt-image.jsonl",
    later_prompt_max_tokens = "v0.2.1rc2.prompt-max-tokens.jsonl",
    later_prompt_no_api_key = "v0.2.1rc2.prompt-no-api-key.jsonl",
    later_prompt_plain = "v0.2.1rc2.prompt-plain.jsonl",
    later_prompt_reasoning = "v0.2.1rc2.prompt-reasoning.jsonl",
    later_prompt_tool_call = "v0.2.1rc2.prompt-tool-call.jsonl",
    later_prompt_unknown_tool = "v0.2.1rc2.prompt-unknown-tool.jsonl",
    later_prompt_utf8 = "v0.2.1rc2.prompt-utf8.jsonl",
    later_resume_wait_working_directory = "v0.2.1rc2.resume-wait-working-directory.jsonl",
    later_same_session_id_new_process = "v0.2.1rc2.same-session-id-new-process.jsonl",
    later_shutdown_before_initialize = "v0.2.1rc2.shutdown-before-initialize.jsonl",
    later_shutdown_mid_turn = "v0.2.1rc2.shutdown-mid-turn.jsonl",
    later_shutdown_twice_and_late_prompt = "v0.2.1rc2.shutdown-twice-and-late-prompt.jsonl",
    later_sigint = "v0.2.1rc2.sigint.jsonl",
    later_sigterm = "v0.2.1rc2.sigterm.jsonl",
    later_two_turns = "v0.2.1rc2.two-turns.jsonl",
    later_unknown_method = "v0.2.1rc2.unknown-method.jsonl",
}

/// Files that are played elsewhere, and why.
const ELSEWHERE: [(&str, &str); 6] = [
    ("client.python-sdk-0.1.0rc6.jsonl", "vectors/clients.rs"),
    ("client.python-sdk-0.2.1rc2.jsonl", "vectors/clients.rs"),
    ("client.typescript-0.0.1-rc.1.jsonl", "vectors/clients.rs"),
    ("v0.1.0rc6.launch.jsonl", "vectors/launch.rs"),
    ("v0.2.1rc2.launch.jsonl", "vectors/launch.rs"),
    ("v0.2.1rc2.prompt-subagent.jsonl", "conformance/delegation.rs"),
];

#[test]
fn every_file_is_played_or_has_its_place_elsewhere() {
    let mut known: Vec<_> = PLAYED.iter().copied().chain(ELSEWHERE.map(|(file, _)| file)).collect();
    known.sort_unstable();
    assert_eq!(vector::names(), known);
}

#[test]
fn every_departure_changes_something_somewhere() {
    for departure in departures::all() {
        let applies = |file: &&str| departure.means(file) && departure.applies(&vector::read(file));
        assert!(
            PLAYED.iter().any(applies),
            "the departure of {} ({}) names nothing that was recorded",
            departure.rule,
            departure.because
        );
    }
}

/// Plays a file in every way; the ways must agree with the file and with each other.
fn play(file: &str) {
    let departures = departures::all();
    let mut first: Option<(Way, Vec<String>)> = None;
    for way in Way::ALL {
        let Played { transcript, unneeded } =
            play_one(file, way, &departures).unwrap_or_else(|wrong| panic!("{way:?}: {wrong}"));
        if let Some(index) = unneeded.first() {
            let Departure { rule, because, .. } = &departures[*index];
            panic!("{way:?}: {file}: the departure of {rule} ({because}) is not needed any more");
        }
        match &first {
            None => first = Some((way, transcript)),
            Some((other, expected)) => {
                let (one, other) = (format!("{other:?}"), format!("{way:?}"));
                if let Some(parting) = parting((&one, expected), (&other, &transcript)) {
                    panic!("{file}: {parting}");
                }
            }
        }
    }
}

fn play_one(file: &str, way: Way, departures: &[Departure]) -> Result<Played, String> {
    let lines = vector::read(file);
    let model = ModelServer::start();
    model.on("SLOW", ticks(&lines));
    let place = Place::new();
    // The directory that a recording changes to.
    fs::create_dir(place.cwd.join("sub")).expect("a directory");
    let launch = launch(file, &lines, &place, &model);
    if file.contains("same-session-id") || file.contains("resume-wait") {
        live_once(way, &place, &model, &launch);
    }

    let base_url = model.base_url();
    let known = [
        ("<cwd>", text(&place.cwd)),
        ("<home>", text(&place.home)),
        ("<base-url>", &base_url),
        ("<key>", KEY),
    ];
    let binding = if file.starts_with("v0.1.0rc6") { Binding::Full } else { Binding::Answers };
    let player = Player { file, binding, departures, known: &known };
    let mut wire = open(way, &place, &model, &launch);
    player.play(&lines, wire.as_mut())
}

/// How the file says that its runtime was started.
struct Start {
    launch: Launch,
    key: Option<String>,
    tools: &'static [&'static str],
    /// What the provider is set to; its own without it.
    effort: Option<&'static str>,
    shell_timeout_ms: u64,
    images: Images,
}

fn launch(file: &str, lines: &[Line], place: &Place, model: &ModelServer) -> Start {
    let Some((argv, env)) = lines.iter().find_map(|line| match &line.what {
        What::Meta { argv, env } => Some((argv, env)),
        _ => None,
    }) else {
        panic!("a vector begins by saying how the runtime was started");
    };
    let coding = CODING_AGENT.contains(&file);
    let config = if coding { "coding.yml" } else { "shell.yml" };
    let config = workspace().join("tests/vectors/sdk/launch").join(config);
    let fill = |value: &str| {
        value
            .replace("<config>", text(&config))
            .replace("<cwd>", text(&place.cwd))
            .replace("<home>", text(&place.home))
            .replace("<base-url>", &model.base_url())
            .replace("<key>", KEY)
    };
    let mut launch =
        Launch::new(argv.iter().skip(1)).directory(&place.cwd).env("HOME", place.root());
    for (name, value) in env {
        launch = launch.env(name, fill(value));
    }
    let key = env.get("DEEPSEEK_API_KEY").map(|key| fill(key));
    let tools = if coding { &CODING[..] } else { &SHELL };
    let (effort, shell_timeout_ms) = if coding { (Some("max"), 60_000) } else { (None, 120_000) };
    // The compositions of the baseline that were recorded have no store for images (S-58).
    let images = match file.starts_with("v0.1.0rc6") {
        true => Images::AsTheyCame,
        false => Images::Kept { limits: ImageLimits::default(), unseen: Unseen::Admitted },
    };
    Start { launch, key, tools, effort, shell_timeout_ms, images }
}

fn open(way: Way, place: &Place, model: &ModelServer, start: &Start) -> Box<dyn Wire> {
    let Some(source) = way.source::<Conversation>(sandboxed) else {
        return Box::new(start.launch.start());
    };
    Box::new(Memory::start(Setup {
        place,
        door: "sdk",
        permissions: Permissions::default(),
        route: Route::default(),
        source,
        base_url: model.base_url(),
        key: start.key.clone(),
        tools: start.tools,
        effort: start.effort,
        shell_timeout_ms: start.shell_timeout_ms,
        images: start.images,
        agents: agents(),
    }))
}

/// What agents are told in a host in memory.
fn agents() -> AgentConfig {
    let identity = PromptSection {
        name: "identity".to_owned(),
        order: -100,
        text: Text::Template("You work in {{cwd}}.".to_owned()),
    };
    AgentConfig { prompt: vec![identity], ..AgentConfig::default() }
}

/// The component as it is shipped, compiled once for all tests.
fn sandboxed() -> Arc<dyn CodecSource> {
    static COMPONENT: LazyLock<(Sandbox, Arc<dyn CodecSource>)> = LazyLock::new(|| shipped("sdk"));
    Arc::clone(&COMPONENT.1)
}

/// What a slow model has said when the recording ends, and then nothing more: no test depends on how fast it is.
fn ticks(lines: &[Line]) -> Reply {
    let is_tick = |line: &&Line| match &line.what {
        What::Receive(frame) => frame
            .pointer("/params/event/data/chunk/text")
            .and_then(Value::as_str)
            .is_some_and(|text| text.starts_with("tick")),
        _ => false,
    };
    let count = lines.iter().filter(is_tick).count();
    let mut pieces = vec![event(&delta(json!({"role": "assistant", "content": ""})).to_string())];
    pieces.extend(
        (0..count).map(|n| event(&delta(json!({"content": format!("tick{n} ")})).to_string())),
    );
    pieces.push(Piece::Silence);
    Reply::pieces(pieces)
}

/// An earlier process has used the store.
fn live_once(way: Way, place: &Place, model: &ModelServer, start: &Start) {
    let mut client = Client::new(open(way, place, model, start));
    client.initialize(text(&place.cwd));
    client.turn("main", "PROMPT: PLAIN first life");
    assert_eq!(client.shut_down(), 0);
}
