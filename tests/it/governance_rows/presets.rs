//! Rows 1 to 4 and 15: what sessions start with, how a preset is shown and switched, and how far a door may go.

use serde_json::{Value, json};

use super::bench::{Site, Turn, bash, on, word};
use crate::support::{
    bench::{export, form_a},
    client::Client,
    model_server::ModelServer,
    place::{Place, text},
    process::Launch,
    vector::parse,
};

const PINNED: [&str; 3] = ["permission/preset", "sandbox/mode", "approval/policy"];

/// A policy of its own for the door, because that of the built-in one leaves `session/permissions` out (P-35).
pub(super) const POLICY: &str = "[frames]\nallow = [\"session/*\", \"events/*\", \"ask/*\"]\n";

/// Launch form B.
fn form_b(place: &Place, model: &ModelServer) -> Launch {
    Launch::new(["--profile", "sdk"])
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_HOME", &place.home)
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock")
}

/// The types and values with which a session of a published client begins.
fn first_events(launch: &Launch, place: &Place) -> Vec<(String, Value)> {
    let mut client = Client::new(launch.start());
    let answer = client.initialize(text(&place.cwd));
    assert!(answer.get("result").is_some(), "{answer}");
    client.turn("main", "PROMPT: PLAIN");
    assert_eq!(client.shut_down(), 0);
    // What precedes the publication of a session is never told, only stored.
    let lines = export(place, "main");
    let events = lines.iter().skip(1).map(|line| parse(line).expect("JSON"));
    events.map(|event| (word(&event["type"]), event["data"].clone())).collect()
}

fn pinned(events: &[(String, Value)]) -> Vec<&str> {
    let kinds = events.iter().map(|(kind, _)| kind.as_str());
    kinds.filter(|kind| PINNED.contains(kind)).collect()
}

/// P-8, P-10: form B pins its sessions, form A writes nothing that recorded logs do not have. So does a host with a
/// manifest pin. (The automation surface of ACP is a door that this program does not have yet.)
#[test]
fn row_01_new_sessions_are_pinned_except_in_form_a() {
    let (place, model) = (Place::new(), ModelServer::start());
    let events = first_events(&form_b(&place, &model), &place);
    let expected = [
        (PINNED[0].to_owned(), json!({"preset": "workspace-write"})),
        (PINNED[1].to_owned(), json!({"mode": "workspace-write"})),
        (PINNED[2].to_owned(), json!({"policy": "ask"})),
    ];
    assert_eq!(events[..3], expected);

    let place = Place::new();
    let events = first_events(&form_a(&place, &model), &place);
    assert_eq!(pinned(&events), [""; 0], "{events:?}");

    let site = Site::new();
    let mut host = site.start();
    host.open("main");
    let log = host.log("main");
    let kinds: Vec<_> = log.iter().map(|event| word(&event["type"])).collect();
    assert_eq!(kinds, PINNED);
    host.stop();
}

/// P-6, P-8: the variable decides for launch form B, and no other word than the three is taken for one.
#[test]
fn row_02_the_variable_decides_or_stops_the_start() {
    let (place, model) = (Place::new(), ModelServer::start());
    let launch = form_b(&place, &model).env("DSH_PERMISSION_MODE", "danger-full-access");
    let events = first_events(&launch, &place);
    assert_eq!(events[1].1, json!({"mode": "danger-full-access"}));
    assert_eq!(events[2].1, json!({"policy": "never"}));

    for launch in [form_b(&place, &model), form_a(&place, &model)] {
        let finished = launch.env("DSH_PERMISSION_MODE", "never").run("");
        assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{finished:?}");
        let named =
            finished.stderr.contains("DSH_PERMISSION_MODE") && finished.stderr.contains("never");
        assert!(named, "{finished:?}");
    }

    // A manifest does not look at it (P-8).
    let site = Site::new().env("DSH_PERMISSION_MODE", "never");
    assert_eq!(site.permissions(&[])["mode"], "workspace-write");
}

/// P-11, P-13: exactly what changes is written, the model is told of the policy at once and of the mode by the next
/// snapshot; nothing changed is nothing written.
#[test]
fn row_03_a_switch_writes_what_changes_and_tells_the_model() {
    let site =
        Site::new().door_policy(POLICY).tables("[permissions]\nceiling = \"danger-full-access\"\n");
    let mut host = site.start();
    host.open("main");
    assert_eq!(snapshots(&host.turn("main", "true")).len(), 1);
    let before = host.log("main").len();

    let shown = host.call("session/permissions", "main", &json!({"set": "danger-full-access"}));
    assert_eq!(shown["current"], "danger-full-access", "{shown}");
    let log = host.log("main");
    let written: Vec<_> = log[before..].iter().map(|event| word(&event["type"])).collect();
    assert_eq!(written, [&PINNED[..], &["agent/inbox/spliced"]].concat(), "{:#?}", &log[before..]);
    let splice = &log[before + 3]["data"];
    let message = &splice["inserted"][0];
    assert_eq!(splice["inserted"].as_array().map(Vec::len), Some(1), "{splice}");
    assert_eq!(
        message["content"][0]["text"],
        "The approval policy changed from \"ask\" to \"never\" (changed by the user)."
    );
    assert_eq!(message["source"]["kind"], "plugin");
    assert_eq!(message["source"]["plugin"], "user-approval");

    // Injected, not woken by: the session still rests.
    let row = host.call("session/describe", "main", &json!({}));
    assert_eq!(row["running"], false, "{row}");
    host.call("session/permissions", "main", &json!({"set": "danger-full-access"}));
    assert_eq!(host.log("main").len(), before + 4, "the same again is nothing");

    let turn = host.turn("main", "true");
    let told = snapshots(&turn);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].contains("workspace-write"), "{told:?}");
    assert_eq!(
        snapshots(&host.turn("main", "true")),
        [""; 0],
        "what did not change is not told again"
    );
    host.stop();
}

/// The snapshots of the runtime context that a turn brought.
fn snapshots(turn: &Turn) -> Vec<String> {
    let messages = turn.events("user/message").into_iter().map(|event| &event["data"]);
    let told = messages.filter(|message| message["source"]["form"] == "snapshot");
    told.map(|message| word(&message["content"][0]["text"])).collect()
}

/// P-9, P-12: what matches no entry is called `custom`, shown last, and cannot be chosen.
#[test]
fn row_04_custom_is_shown_and_cannot_be_chosen() {
    let tables = "[permissions]\npreset = \"read-only\"\npolicy = \"never\"\n";
    let site = Site::new().door_policy(POLICY).tables(tables);
    let mut host = site.start();
    host.open("main");
    let kinds: Vec<_> = host.log("main").iter().map(|event| word(&event["type"])).collect();
    assert_eq!(kinds, PINNED[1..], "`custom` is never logged (P-7, P-10)");

    let shown = host.call("session/permissions", "main", &json!({}));
    assert_eq!(shown["current"], "custom");
    let values: Vec<_> =
        shown["options"].as_array().expect("a list").iter().map(|o| word(&o["value"])).collect();
    assert_eq!(values, ["read-only", "workspace-write", "danger-full-access", "custom"]);
    let failure = host.request("session/permissions", Some("main"), &json!({"set": "custom"}));
    assert_eq!(
        failure.expect_err("it cannot be chosen")["message"],
        "unknown preset \"custom\" (available: read-only, workspace-write, danger-full-access)"
    );
    // Once another is chosen, it is gone from the options.
    let shown = host.call("session/permissions", "main", &json!({"set": "read-only"}));
    assert_eq!(shown["current"], "read-only");
    assert_eq!(shown["options"].as_array().map(Vec::len), Some(3), "{shown}");
    host.stop();
    assert_eq!(site.permissions(&["--session", "main"])["session"]["preset"], "read-only");
}

/// P-35: no door goes above the ceiling, any that may goes below, and the policy of the built-in door leaves the
/// frame out.
#[test]
fn row_15_a_door_may_narrow_and_never_pass_the_ceiling() {
    let site = Site::new().door_policy(POLICY).script([on("write", [bash("echo x > a")])]);
    let mut host = site.start();
    host.open("main");
    let wide = json!({"set": "danger-full-access"});
    let failure = host.request("session/permissions", Some("main"), &wide).expect_err("too wide");
    assert_eq!(
        (&failure["code"], &failure["details"]["frame"]),
        (&"denied".into(), &"session/permissions".into())
    );
    let shown = host.call("session/permissions", "main", &json!({"set": "read-only"}));
    assert_eq!(
        (&shown["current"], &shown["ceiling"]),
        (&"read-only".into(), &"workspace-write".into())
    );
    assert!(host.turn("main", "write").result().text.contains("denied under read-only mode"));
    // Up again to the ceiling.
    host.call("session/permissions", "main", &json!({"set": "workspace-write"}));
    assert!(!host.turn("main", "write").result().text.contains("denied"));
    host.stop();

    let site = Site::new();
    let mut host = site.start();
    host.open("main");
    let failure =
        host.request("session/permissions", Some("main"), &json!({})).expect_err("no entry");
    assert_eq!(failure["code"], "denied", "{failure}");
    host.stop();
}
