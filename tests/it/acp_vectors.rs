//! Recorded ACP conversations, played against a host in memory with the codec native and sandboxed, each also with the
//! codec moved between every two inputs, and against the real binary. All must say what was recorded, apart from
//! `departures.toml`, and all must say the same.

mod model;

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use transom_acp::Conversation;
use transom_connection::codec::CodecSource;
use transom_harness::{
    agent::{self, AgentConfig},
    permissions::{
        ApprovalPolicy, Mode,
        presets::{Defaults, PRESETS},
    },
    ports::Route,
    system_prompt::{PromptSection, Text},
};
use transom_router::Images;
use transom_sandbox::Sandbox;
use transom_tools::Permissions;

use crate::support::{
    memory::{Memory, Setup, store_path},
    model_server::ModelServer,
    place::{Place, text},
    process::Launch,
    recording::{Bindings, Departure, Expected, Met, Step, departures, names, steps},
    transcript::parting,
    way::{Way, shipped},
    wire::{Signal, Wire},
};

const KEY: &str = "sk-mock";
const MODEL: &str = "deepseek-v4-flash";

/// Recordings of tools that run, which were made where nobody is asked.
const FREE: [&str; 10] = [
    "base-cancel-tool.jsonl",
    "base-eof-during-tool.jsonl",
    "base-late-update.jsonl",
    "base-permission-never-policy.jsonl",
    "base-prompt-output-rule.jsonl",
    "pub-cancel-tool.jsonl",
    "pub-eof-during-tool.jsonl",
    "pub-late-update.jsonl",
    "pub-permission-never-policy.jsonl",
    "pub-prompt-output-rule.jsonl",
];

/// One test for each file, named like it.
macro_rules! recordings {
    ($($name:ident = $file:literal,)*) => {
        pub(super) const PLAYED: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $name() {
                crate::acp_vectors::play($file);
            }
        )*
    };
}

mod standard;

recordings! {
    base_bom_prompt = "base-bom-prompt.jsonl",
    base_cancel_edges = "base-cancel-edges.jsonl",
    base_cancel_hang = "base-cancel-hang.jsonl",
    base_cancel_immediate = "base-cancel-immediate.jsonl",
    base_cancel_tool = "base-cancel-tool.jsonl",
    base_eof_during_prompt = "base-eof-during-prompt.jsonl",
    base_eof_during_tool = "base-eof-during-tool.jsonl",
    base_eof_immediate = "base-eof-immediate.jsonl",
    base_framing_batch = "base-framing-batch.jsonl",
    base_framing_empty_array = "base-framing-empty-array.jsonl",
    base_framing_empty_object = "base-framing-empty-object.jsonl",
    base_framing_invalid_json = "base-framing-invalid-json.jsonl",
    base_framing_no_trailing_newline = "base-framing-no-trailing-newline.jsonl",
    base_framing_number = "base-framing-number.jsonl",
    base_framing_split_utf8 = "base-framing-split-utf8.jsonl",
    base_framing_tolerant = "base-framing-tolerant.jsonl",
    base_handshake = "base-handshake.jsonl",
    base_initialize_versions = "base-initialize-versions.jsonl",
    base_late_update = "base-late-update.jsonl",
    base_model_errors = "base-model-errors.jsonl",
    base_multi_session = "base-multi-session.jsonl",
    base_no_credential = "base-no-credential.jsonl",
    base_no_initialize = "base-no-initialize.jsonl",
    base_overlap = "base-overlap.jsonl",
    base_permission_allow = "base-permission-allow.jsonl",
    base_permission_cancelled = "base-permission-cancelled.jsonl",
    base_permission_error = "base-permission-error.jsonl",
    base_permission_method_not_found = "base-permission-method-not-found.jsonl",
    base_permission_never_policy = "base-permission-never-policy.jsonl",
    base_permission_pending_cancel = "base-permission-pending-cancel.jsonl",
    base_permission_reject = "base-permission-reject.jsonl",
    base_permission_two_calls = "base-permission-two-calls.jsonl",
    base_prompt_content = "base-prompt-content.jsonl",
    base_prompt_errors = "base-prompt-errors.jsonl",
    base_prompt_output_rule = "base-prompt-output-rule.jsonl",
    base_prompt_plain = "base-prompt-plain.jsonl",
    base_same_write = "base-same-write.jsonl",
    base_sdk_0_25_1_client = "base-sdk-0.25.1-client.jsonl",
    base_sdk_2_4_0_client = "base-sdk-2.4.0-client.jsonl",
    base_session_new_errors = "base-session-new-errors.jsonl",
    base_sigint = "base-sigint.jsonl",
    base_sigterm = "base-sigterm.jsonl",
    base_stop_filter = "base-stop-filter.jsonl",
    base_stop_length = "base-stop-length.jsonl",
    base_unknown_methods = "base-unknown-methods.jsonl",
}

#[test]
fn every_file_is_played() {
    let played = [PLAYED, standard::PLAYED].concat();
    let left_out = standard::LEFT_OUT.map(|(file, _)| file);
    let mut all: Vec<_> = played.into_iter().chain(left_out).collect();
    all.sort_unstable();
    assert_eq!(names(), all);
}

/// Plays a file in every way; the ways must agree with the file and with each other.
fn play(file: &str) {
    let departures = departures();
    let mut first: Option<(Way, Vec<String>)> = None;
    for way in Way::ALL {
        let mut met = Met::default();
        let transcript = play_one(file, way, &departures, &mut met)
            .unwrap_or_else(|wrong| panic!("{way:?}: {wrong}"));
        if let Some(index) = met.unneeded().next() {
            let Departure { rule, because, .. } = &departures[index];
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

/// A conversation in progress.
struct Playing<'a> {
    file: &'a str,
    wire: Box<dyn Wire>,
    place: &'a Place,
    bindings: Bindings,
    met: &'a mut Met,
    transcript: Vec<String>,
    /// The sessions that prompts were for, by the request's id as JSON.
    prompts: BTreeMap<String, String>,
    /// Where the host keeps its log.
    store: PathBuf,
    /// Prompts whose answers were begun and left hanging.
    hanging: usize,
}

fn play_one(
    file: &str,
    way: Way,
    departures: &[Departure],
    met: &mut Met,
) -> Result<Vec<String>, String> {
    let place = Place::new();
    fs::write(place.cwd.join("file.txt"), "a file, no directory").expect("a file");
    let model = ModelServer::start();
    model.answer(match file {
        "pub-cancel-immediate.jsonl" => model::unheard,
        file if is_published(file) => model::published,
        _ => model::reply,
    });
    let wire = open(file, way, &place, &model);
    let store = match way {
        Way::Binary => place.root().join("store.db"),
        _ => store_path(&place),
    };
    let mut playing = Playing {
        file,
        wire,
        place: &place,
        bindings: Bindings::new(text(&place.cwd)),
        met,
        transcript: Vec::new(),
        prompts: BTreeMap::new(),
        store,
        hanging: 0,
    };
    let mut block = Vec::new();
    let steps = steps(file, departures, true);
    let steps = if is_published(file) { standard::at_once(steps) } else { steps };
    for step in steps {
        match step {
            Step::Expect(expected) => block.push(expected),
            other => {
                playing.receive(std::mem::take(&mut block))?;
                playing.other(&other)?;
            }
        }
    }
    playing.receive(block)?;
    Ok(playing.transcript)
}

impl Playing<'_> {
    fn other(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Write(said) => {
                if is_published(self.file) && standard::stops(said) {
                    standard::await_partials(&self.store, self.hanging);
                    if self.file == "pub-cancel-tool.jsonl" {
                        standard::await_file(&self.place.cwd.join("begun"));
                    }
                }
                self.hanging += said.matches("[[HANG]]").count();
                for line in said.lines() {
                    let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
                    if let Some(session) = line.pointer("/params/sessionId").and_then(Value::as_str)
                    {
                        self.prompts.insert(line["id"].to_string(), session.to_owned());
                    }
                }
                self.wire.write(self.bindings.fill(said).as_bytes());
                self.transcript.push(format!("> {said:?}"));
            }
            Step::EndInput => self.wire.close_input(),
            Step::Terminate => self.signal(Signal::Terminate),
            Step::Interrupt => self.signal(Signal::Interrupt),
            Step::Exit(code) => {
                if let Some(line) = self.wire.line() {
                    return Err(format!(
                        "{}: expected the end of output\n  found    {line}",
                        self.file
                    ));
                }
                let found = i64::from(self.wire.exit());
                if found != *code {
                    return Err(format!(
                        "{}: expected exit {code}, found {found}\n{}",
                        self.file,
                        self.wire.diagnostics()
                    ));
                }
                self.transcript.push(format!("< exit {found}"));
            }
            Step::Expect(_) => unreachable!("frames that come are not the client's"),
        }
        Ok(())
    }

    /// A signal may overtake what was written; a request that is answered shows that all before it was read.
    fn signal(&mut self, signal: Signal) {
        let probe =
            r#"{"jsonrpc":"2.0","id":"read","method":"authenticate","params":{"methodId":"x"}}"#;
        self.wire.write(format!("{probe}\n").as_bytes());
        let answer = self.wire.line();
        assert_eq!(answer.as_deref(), Some(r#"{"jsonrpc":"2.0","id":"read","result":{}}"#));
        self.wire.signal(signal);
    }

    /// Awaits the frames of one block: those between two things that the client did. Sessions interleave freely, and so do
    /// requests that are about none; what is about one session keeps its order.
    fn receive(&mut self, block: Vec<Expected>) -> Result<(), String> {
        let mut left: Vec<(usize, Expected)> = block.into_iter().enumerate().collect();
        let mut came = BTreeMap::new();
        while let Some((_, next)) = left.first() {
            let line = next.line;
            let Some(said) = self.wire.line() else {
                return Err(format!(
                    "{}:{line}: expected a frame\n  found    the end of output\n{}",
                    self.file,
                    self.wire.diagnostics()
                ));
            };
            let found: Value =
                serde_json::from_str(&said).map_err(|error| format!("{said}: {error}"))?;
            let stream = self.stream(&found);
            let at = left
                .iter()
                .position(|(_, expected)| self.stream(&self.filled(&expected.frame)) == stream);
            let (index, expected) = match at {
                Some(at) => left.remove(at),
                None => {
                    return Err(format!(
                        "{}:{line}: nothing like this was recorded there\n  found    {said}",
                        self.file
                    ));
                }
            };
            if let Err(why) = self.met.compare(&mut self.bindings, &expected, &found) {
                return Err(format!("{}:{}: {why}\n  whole: {said}", self.file, expected.line));
            }
            if found["id"] == 2 && self.file.ends_with("-late-update.jsonl") {
                // The job ends once its prompt has been answered.
                fs::write(self.place.cwd.join("go"), "").expect("a file");
            }
            came.insert(index, told(&expected.frame, &found));
        }
        self.transcript.extend(came.into_values());
        Ok(())
    }

    fn filled(&self, frame: &Value) -> Value {
        serde_json::from_str(&self.bindings.fill(&frame.to_string())).expect("JSON")
    }

    /// What keeps its own order: a session, or a request that is about none.
    fn stream(&self, frame: &Value) -> String {
        let session = frame.pointer("/params/sessionId").and_then(Value::as_str);
        match (session, self.prompts.get(&frame["id"].to_string())) {
            (Some(session), _) => session.to_owned(),
            (None, Some(session)) => self.bindings.fill(session),
            (None, None) => format!("request {}", frame["id"]),
        }
    }
}

/// A frame as it was recorded where it may be anything, and as it came elsewhere.
fn told(expected: &Value, found: &Value) -> String {
    fn same(expected: &Value, found: &Value) -> Value {
        match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => found
                .iter()
                .map(|(name, value)| (name.clone(), same(&expected[name], value)))
                .collect(),
            (Value::Array(expected), Value::Array(found)) => {
                expected.iter().zip(found).map(|(expected, found)| same(expected, found)).collect()
            }
            (Value::String(text), _) if text.contains("{{") => expected.clone(),
            (_, found) => found.clone(),
        }
    }
    let tree = expected.pointer("/error/data/_errors").is_some();
    let shown = if tree { expected.clone() } else { same(expected, found) };
    format!("< {shown}")
}

fn open(file: &str, way: Way, place: &Place, model: &ModelServer) -> Box<dyn Wire> {
    let key = (!file.ends_with("-no-credential.jsonl")).then(|| KEY.to_owned());
    let free = FREE.contains(&file);
    let Some(source) = way.source::<Conversation>(sandboxed) else {
        return Box::new(launch(file, place, model, key, free).start());
    };
    let (mode, policy, preset) = match free {
        true => (Mode::DangerFullAccess, ApprovalPolicy::Never, "danger-full-access"),
        false => (Mode::WorkspaceWrite, ApprovalPolicy::Ask, "workspace-write"),
    };
    let defaults =
        Defaults { mode, policy, preset: Some(preset.to_owned()), presets: PRESETS.to_vec() };
    let permissions = agent::Permissions {
        defaults,
        pins: false,
        confines: true,
        approvals: true,
        ..agent::Permissions::default()
    };
    let identity = PromptSection {
        name: "identity".to_owned(),
        order: -100,
        text: Text::Template("You work in {{cwd}}.".to_owned()),
    };
    let options = is_published(file).then(|| standard::options(file).to_string());
    let setup = Setup {
        place,
        door: "acp",
        permissions: Permissions {
            approvals: true,
            confines_shell: true,
            confines_files: true,
            ..Permissions::default()
        },
        route: Route {
            provider: Some("deepseek-official".to_owned()),
            model: Some(MODEL.to_owned()),
            ..Route::default()
        },
        source,
        base_url: model.base_url(),
        key,
        tools: &["bash", "job_kill", "job_list", "job_output"],
        effort: None,
        shell_timeout_ms: 120_000,
        images: Images::AsTheyCame,
        agents: AgentConfig { prompt: vec![identity], permissions, ..AgentConfig::default() },
    };
    Box::new(Memory::start_with(setup, options.as_deref()))
}

/// Whether it was recorded from the published runtime, which has the standard surface.
fn is_published(file: &str) -> bool {
    file.starts_with("pub-")
}

fn launch(
    file: &str,
    place: &Place,
    model: &ModelServer,
    key: Option<String>,
    free: bool,
) -> Launch {
    let options = match is_published(file) {
        true => standard::options(file)
            .as_object()
            .expect("an object")
            .iter()
            .map(|(name, value)| format!("{name} = {value}\n"))
            .fold("[door.acp.options]\n".to_owned(), |all, one| all + &one),
        false => String::new(),
    };
    let preset = if free { "danger-full-access" } else { "workspace-write" };
    let manifest = format!(
        "[door.acp]\ncomponent = \"acp\"\ncarrier = \"stdio\"\n\n{options}\n[model]\nprovider = \"deepseek-official\"\nmodel = \"{MODEL}\"\n\n\
         [permissions]\npreset = \"{preset}\"\n"
    );
    let manifest = place.file("transom.toml", manifest);
    let launch = Launch::new(["stdio", "acp", "--manifest", text(&manifest)])
        .arg("--store")
        .arg(place.root().join("store.db"))
        .directory(&place.cwd)
        .env("HOME", &place.home)
        .env("DEEPSEEK_BASE_URL", model.base_url());
    match key {
        Some(key) => launch.env("DEEPSEEK_API_KEY", key),
        None => launch,
    }
}

/// The component as it is shipped, compiled once for all tests.
fn sandboxed() -> Arc<dyn CodecSource> {
    static COMPONENT: LazyLock<(Sandbox, Arc<dyn CodecSource>)> = LazyLock::new(|| shipped("acp"));
    Arc::clone(&COMPONENT.1)
}
