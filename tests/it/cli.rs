//! The program as a person runs it.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{
    bench::{Bench, form_a, store},
    client::{Client, error},
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
    assert_snapshot!(shown(&place, &["--nope"]), @r#"
    exit 1
    stderr: transom: unknown option "--nope"; known are `--profile`, `--patch`, `--version`, `--help`
    "#);
    assert_snapshot!(shown(&place, &["stdio", "sdk", "--nope"]), @r#"
    exit 2
    stderr: error: unexpected argument '--nope' found
    stderr: 
    stderr:   tip: to pass '--nope' as a value, use '-- --nope'
    stderr: 
    stderr: Usage: transom stdio <DOOR>
    stderr: 
    stderr: For more information, try '--help'.
    "#);
    assert_snapshot!(shown(&place, &["stdoi", "sdk"]), @r#"
    exit 1
    stderr: usage: there is no command "stdoi"; did you mean "stdio"?
    "#);
    assert_snapshot!(shown(&place, &["stdio", "skd"]), @r#"
    exit 1
    stderr: transom: unknown door "skd"; did you mean "sdk"?
    "#);
    assert_snapshot!(shown(&place, &["stdio"]), @r#"
    exit 2
    stderr: error: the following required arguments were not provided:
    stderr:   <DOOR>
    stderr: 
    stderr: Usage: transom stdio <DOOR>
    stderr: 
    stderr: For more information, try '--help'.
    "#);
}

#[test]
fn an_unreadable_manifest_is_named() {
    let place = Place::new();
    assert_snapshot!(shown(&place, &["run", "--manifest", "nowhere.toml"]), @r#"
    exit 1
    stderr: transom: nowhere.toml: cannot be read: No such file or directory (os error 2)
    "#);
    place.file(
        "cwd/wrong.toml",
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlistne = \"sdk.sock\"\n",
    );
    assert_snapshot!(shown(&place, &["run", "--manifest", "wrong.toml"]), @r#"
    exit 1
    stderr: transom: wrong.toml:1:7: [door.sdk] is on `unix` and has no `listen`; add the path of its socket
    stderr: wrong.toml:4:1: unknown key `listne` in [door.sdk]; did you mean `listen`?
    "#);
    place.file("cwd/binary.toml", b"[door\xff]");
    assert_snapshot!(shown(&place, &["run", "--manifest", "binary.toml"]), @r#"
    exit 1
    stderr: transom: binary.toml:1:6: the byte 0xff is not UTF-8; save the file as UTF-8
    "#);
}

#[test]
fn a_component_can_be_looked_at() {
    let place = Place::new();
    place.file("cwd/prose.wasm", "once upon a time");
    assert_snapshot!(shown(&place, &["inspect", "prose.wasm"]), @r#"
    exit 1
    stderr: transom: prose.wasm: the file is not WebAssembly: it begins with 6f 6e 63 65 20 75 70 6f, a component begins with 00 61 73 6d 0d 00 01 00
    "#);
    assert_snapshot!(shown(&place, &["inspect", "nowhere.wasm"]), @r#"
    exit 1
    stderr: transom: cannot read nowhere.wasm: No such file or directory (os error 2)
    "#);
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
    assert_snapshot!(shown(&bench.place, &["export", "nobody", "--store", text(&store)]), @r#"
    exit 1
    stderr: transom: session "nobody" is not in the store <place>/home/sessions
    "#);
    assert_snapshot!(shown(&bench.place, &["export", "main", "--store", "nowhere.db"]), @r#"
    exit 1
    stderr: transom: cannot open the session store <place>/cwd/nowhere.db: there is no store "<place>/cwd/nowhere.db"
    "#);
}

#[test]
fn a_prompt_needs_neither_key_nor_network() {
    let place = Place::new();
    let finished = launch(&place, &["prompt", "hello"]).run("");
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_snapshot!(finished.stdout, @"Hello! I am the scripted model: no key, no network, the same answers every time. Ask me to show you a tool call, to show you reasoning or to count slowly; anything else I repeat.");
    let session = finished
        .stderr
        .trim_end()
        .strip_prefix("scripted, session ")
        .expect("who answered, and where");

    // What was said can be read again.
    let exported = launch(&place, &["export", session]).run("");
    assert_eq!(exported.code, 0, "{exported:?}");
    assert!(exported.stdout.contains("I am the scripted model"), "{exported:?}");
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
    assert_snapshot!(shown(&place, &["prompt", "--provider", "deepseek-official", "hello"]), @r#"
    exit 1
    stderr: transom: no key: set DEEPSEEK_API_KEY, or use `--provider scripted`, which needs none
    "#);
}

/// Each process appends to the sessions that it opened itself.
#[test]
fn two_processes_share_a_store() {
    let mut bench = Bench::ready();
    bench.client.turn("main", "PROMPT: PLAIN");
    let mut other = Client::new(form_a(&bench.place, &bench.model).start());
    other.initialize(text(&bench.place.cwd));
    other.prompt("p", "main", "PROMPT: PLAIN");
    assert_eq!(error(&other.next()), "-32603 session \"main\" already exists");
    other.turn("other", "PROMPT: PLAIN");
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(other.shut_down(), 0);
    bench.client.turn("main", "PROMPT: PLAIN");
    assert_eq!(bench.client.shut_down(), 0);
    assert_eq!(bench.stored("main"), bench.client.events("main"));
    assert_eq!(bench.stored("other"), other.events("other"));
}

#[test]
fn manifests_lie_above_each_other_and_single_values_above_both() {
    let place = Place::new();
    place.file(
        "cwd/base.toml",
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"stdio\"\n[permissions]\npreset = \"workspace-write\"\n",
    );
    place.file("cwd/site.toml", "[permissions]\npreset = \"read-only\"\n");
    let preset = |arguments: &[&str], variable: Option<&str>| {
        let mut launch = launch(&place, &[&["permissions", "--json"], arguments].concat());
        if let Some(value) = variable {
            launch = launch.env("TRANSOM_PERMISSIONS__PRESET", value);
        }
        let finished = launch.run("");
        assert_eq!(finished.code, 0, "{finished:?}");
        let shown: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        shown["preset"].as_str().expect("a preset").to_owned()
    };
    let base = ["--manifest", "base.toml"];
    let both = ["--manifest", "base.toml", "--manifest", "site.toml"];
    assert_eq!(preset(&base, None), "workspace-write");
    assert_eq!(preset(&both, None), "read-only");
    assert_eq!(preset(&both, Some("danger-full-access")), "danger-full-access");
    let said = [&both[..], &["--set", "permissions.preset=workspace-write"]].concat();
    assert_eq!(preset(&said, Some("danger-full-access")), "workspace-write");
}

#[test]
fn a_preset_is_set_of_a_session_and_a_value_of_a_manifest() {
    // P-34.
    let place = Place::new();
    assert_snapshot!(shown(&place, &["permissions", "--set", "read-only"]), @"
    exit 1
    stderr: transom: `--set read-only` names a preset; say with `--session` of which session, or write `--set key=value`
    ");
    for more in [["--set", "model.provider=scripted"], ["--manifest", "m.toml"], ["--tool", "bash"]]
    {
        let live = ["permissions", "--session", "s", "--set", "read-only"];
        let said = shown(&place, &[&live[..], &more].concat());
        let expected = "asks the host that runs; leave out whatever is about another deployment";
        assert!(said.starts_with("exit 1\n") && said.trim_end().ends_with(expected), "{said}");
    }
    let nobody = shown(&place, &["permissions", "--session", "s", "--set", "read-only"]);
    assert!(nobody.contains("no host answers at "), "{nobody}");
}
