//! The program as a person runs it.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{
    bench::{Bench, form_a, store},
    model_server::ModelServer,
    place::{Place, text},
    process::{Launch, built},
    vector::parse,
};

/// Runs the program in a place of its own and shows what came of it.
fn shown(place: &Place, arguments: &[&str]) -> String {
    launch(place, arguments).run("").shown(&[(text(place.root()), "<place>")])
}

fn launch(place: &Place, arguments: &[&str]) -> Launch {
    Launch::new(arguments).directory(&place.cwd).env("HOME", place.root())
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let place = Place::new();
    assert_snapshot!(shown(&place, &["--nope"]), @"");
    assert_snapshot!(shown(&place, &["stdio", "sdk", "--nope"]), @"");
    assert_snapshot!(shown(&place, &["stdoi", "sdk"]), @"");
    assert_snapshot!(shown(&place, &["stdio", "skd"]), @"");
    assert_snapshot!(shown(&place, &["stdio"]), @"");
}

#[test]
fn an_unreadable_manifest_is_named() {
    let place = Place::new();
    assert_snapshot!(shown(&place, &["run", "--manifest", "nowhere.toml"]), @"");
    place.file(
        "cwd/wrong.toml",
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlistne = \"sdk.sock\"\n",
    );
    assert_snapshot!(shown(&place, &["run", "--manifest", "wrong.toml"]), @"");
    place.file("cwd/binary.toml", b"[door\xff]");
    assert_snapshot!(shown(&place, &["run", "--manifest", "binary.toml"]), @"");
}

#[test]
fn a_component_can_be_looked_at() {
    let place = Place::new();
    place.file("cwd/prose.wasm", "once upon a time");
    assert_snapshot!(shown(&place, &["inspect", "prose.wasm"]), @"");
    assert_snapshot!(shown(&place, &["inspect", "nowhere.wasm"]), @"");
    let finished = launch(&place, &["inspect", text(&built("components/sdk.wasm"))]).run("");
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(finished.stdout.contains("imports  nothing"), "{finished:?}");
    let clock = text(&built("programs/imports_clock.wasm")).to_owned();
    let finished = launch(&place, &["inspect", "--json", &clock]).run("");
    let inspected = parse(&finished.stdout).expect("JSON");
    assert_eq!(inspected["kind"], "other", "{inspected}");
    assert!(!inspected["imports"].as_array().expect("a list").is_empty(), "{inspected}");
}

#[test]
fn a_stored_session_can_be_exported() {
    let mut bench = Bench::ready();
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    let lines = bench.exported("main");
    let header = parse(&lines[0]).expect("a header");
    assert_eq!(
        (&header["type"], &header["id"], &header["cwd"]),
        (&"session".into(), &"main".into(), &text(&bench.place.cwd).into())
    );
    assert_eq!(bench.stored("main"), bench.client.events("main"));

    let store = store(&bench.place);
    assert_snapshot!(shown(&bench.place, &["export", "nobody", "--store", text(&store)]), @"");
    assert_snapshot!(shown(&bench.place, &["export", "main", "--store", "nowhere.db"]), @"");
}

#[test]
fn a_prompt_needs_neither_key_nor_network() {
    let place = Place::new();
    assert_snapshot!(shown(&place, &["prompt", "hello"]), @"");
}

#[test]
fn a_prompt_reaches_the_configured_model() {
    let (place, model) = (Place::new(), ModelServer::start());
    let launch = launch(&place, &["prompt", "PROMPT: PLAIN"])
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock");
    let finished = launch.run("");
    assert_eq!((finished.code, finished.stdout.trim_end()), (0, "plain answer"), "{finished:?}");

    let finished = launch.arg("--json").run("");
    assert_eq!(finished.code, 0, "{finished:?}");
    let frames: Vec<Value> =
        finished.stdout.lines().map(|line| parse(line).expect("JSON")).collect();
    assert!(frames.len() > 5, "{frames:?}");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn a_prompt_without_a_key_says_what_is_missing() {
    let place = Place::new();
    assert_snapshot!(shown(&place, &["prompt", "--provider", "deepseek-official", "hello"]), @"");
}

/// The store belongs to one process at a time.
#[test]
fn a_store_in_use_is_not_opened_twice() {
    let mut bench = Bench::ready();
    bench.client.turn("main", "PROMPT: PLAIN");
    let finished = form_a(&bench.place, &bench.model).run("");
    assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{finished:?}");
    assert!(finished.stderr.contains("in use by another process"), "{finished:?}");
    // Reading needs no lock.
    assert_eq!(bench.stored("main"), bench.client.events("main"));
}
