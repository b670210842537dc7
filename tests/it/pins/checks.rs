//! `transom check`: everything is told, nothing is started.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

use insta::assert_snapshot;
use serde_json::Value;

use super::{Site, echo};
use crate::support::process::built;

fn checked(site: &Site, arguments: &[&str]) -> (i32, Value) {
    let all = [&["check", "--json", "--manifest", "transom.toml"], arguments].concat();
    let finished = site.run(&all);
    (finished.code, serde_json::from_str(&finished.stdout).expect("JSON"))
}

#[test]
fn a_deployment_is_told_without_being_started() {
    let site = Site::pinned();
    let (code, told) = checked(&site, &["--set", "door.sdk.limits.connections-max=20"]);
    assert_eq!((code, &told["errors"]), (0, &Value::from(Vec::<Value>::new())), "{told}");
    let [echo, sdk] = [&told["components"][0], &told["components"][1]];
    assert_eq!((&echo["version"], &echo["world"]), (&"1.0.0".into(), &"transom:codec@0.1".into()));
    assert_eq!(
        (&sdk["source"], &sdk["pin"]),
        (&"built-in".into(), &"is what the lock wants".into())
    );
    let door = &told["doors"][1];
    let allowed = door["frames"]["allowed"].as_array().expect("a list");
    assert!(allowed.iter().any(|entry| entry["frame"] == "session/prompt"), "{door}");
    assert_eq!(door["limits"]["connections-max"]["value"], 20);
    assert_eq!(door["limits"]["connections-max"]["source"], "[door.sdk.limits]");
    assert_eq!(door["limits"]["nesting-max"]["source"], "default");
    assert!(!site.place.cwd.join("store.db").exists());
    assert!(!site.place.cwd.join("sdk.sock").exists());
}

#[test]
fn what_sessions_may_do_is_told_as_transom_permissions_tells_it() {
    // P-33.
    let site = Site::pinned();
    site.file(
        "rules.toml",
        "[permissions]\npreset = \"read-only\"\n[[permissions.rule]]\ntool = \"bash\"\ndecision = \"deny\"\n",
    );
    let layers = ["--manifest", "transom.toml", "--manifest", "rules.toml"];
    let run = |command: &str, more: &[&str]| site.run(&[&[command], more, &layers].concat());
    let json = |command| -> Value {
        serde_json::from_str(&run(command, &["--json"]).stdout).expect("JSON")
    };
    let (checked, told) = (json("check"), json("permissions"));
    let found = checked["permissions"].as_object().expect("an object");
    assert_eq!(found["rules"][0]["tool"], "bash", "{checked}");
    for (member, value) in found {
        assert_eq!(told[member], *value, "{member}");
    }
    assert_eq!(checked["confiner"], told["confiner"]);
    let (checked, told) = (run("check", &[]).stdout, run("permissions", &[]).stdout);
    assert!(checked.contains(&told), "{told} is not in {checked}");
}

#[test]
fn what_a_policy_refuses_is_told_with_its_reason() {
    let site = Site::pinned();
    site.file(
        "narrow.toml",
        "[frames]\nallow = [\"session/open\", \"jobs/list\"]\n[limits]\nnesting-max = 9\n",
    );
    let (_, told) = checked(&site, &["--set", "door.sdk.policy=narrow.toml"]);
    let door = &told["doors"][1];
    let refused = door["frames"]["refused"].as_array().expect("a list");
    let prompt = refused.iter().find(|entry| entry["frame"] == "session/prompt");
    assert_eq!(prompt.expect("refused")["reason"], "frames.allow does not name session/prompt");
    assert_eq!(door["frames"]["unused"][0]["frame"], "jobs/list");
    let source = door["limits"]["nesting-max"]["source"].as_str().expect("a source");
    assert!(source.ends_with("narrow.toml"), "{source}");
}

#[test]
fn exit_codes_tell_warnings_from_errors_and_usage() {
    let site = Site::new();
    let unlocked = ["check", "--manifest", "transom.toml"];
    assert_eq!(site.run(&unlocked).code, 0);
    let strict = [&unlocked[..], &["--strict"]].concat();
    let warned = site.run(&strict);
    assert_eq!(warned.code, 3);
    assert_snapshot!(
        warned.stdout.lines().filter(|line| line.starts_with("warning") || line.ends_with("warning")).collect::<Vec<_>>().join("\n"),
        @"
    warning: there is no transom.lock beside the manifest, so that nothing is pinned; write it with `transom pin`
    0 errors, 1 warning
    "
    );
    assert_eq!(site.run(&["pin", "--manifest", "transom.toml"]).code, 0);
    assert_eq!(site.run(&strict).code, 0);
    assert_eq!(site.run(&["check", "--nope"]).code, 2);
    site.file("echo.wasm", "");
    let broken = site.run(&unlocked);
    assert_eq!(broken.code, 1);
    assert!(broken.stdout.contains("is refused: the file is empty"), "{broken:?}");
}

#[test]
fn options_that_a_component_refuses_are_found() {
    let site = Site::pinned();
    let (code, told) = checked(&site, &["--set", "door.sdk.options.nonsense=5"]);
    assert_eq!(code, 1, "{told}");
    assert!(told["errors"][0].as_str().is_some_and(|text| text.contains("door `sdk`")), "{told}");
}

#[test]
fn places_at_which_no_door_could_listen_are_found() {
    let site = Site::pinned();
    let errors = |layer: &str| -> Vec<String> {
        site.file("layer.toml", layer);
        let (code, told) = checked(&site, &["--manifest", "layer.toml"]);
        let errors = told["errors"].as_array().expect("a list").iter();
        let errors: Vec<String> =
            errors.map(|error| error.as_str().expect("text").to_owned()).collect();
        assert_eq!(code, i32::from(!errors.is_empty()), "{told}");
        errors
    };
    let site_at = |name: &str| site.place.cwd.join(name).display().to_string();
    // A name that is a file by now. A socket that nobody answers at is none of that.
    let socket = site.place.cwd.join("sdk.sock");
    drop(UnixListener::bind(&socket).expect("a socket"));
    assert_eq!(errors(""), Vec::<String>::new());
    fs::remove_file(&socket).expect("the socket");
    site.file("sdk.sock", "notes");
    let taken = |who: &str, name: &str| {
        let at = site_at(name);
        format!(
            "[{who}]: {at} exists and is not a socket; remove it, or let the door listen elsewhere"
        )
    };
    assert_eq!(errors(""), [taken("door.sdk", "sdk.sock")]);
    assert_eq!(
        errors("[control]\nlisten = \"notes.txt\"\n[door.sdk]\nlisten = \"free.sock\"\n"),
        Vec::<String>::new()
    );
    assert_eq!(
        errors("[control]\nlisten = \"echo.toml\"\n[door.sdk]\nlisten = \"free.sock\"\n"),
        [taken("control", "echo.toml")]
    );
    fs::remove_file(&socket).expect("the file");

    // One place by two names: by way of another directory, a link, or one that would be made.
    fs::create_dir(site.place.cwd.join("other")).expect("a directory");
    symlink(".", site.place.cwd.join("link")).expect("a link");
    for other in ["other/../sdk.sock", "link/sdk.sock", "missing/../link/sdk.sock"] {
        let second =
            format!("[door.two]\ncomponent = \"sdk\"\ncarrier = \"unix\"\nlisten = \"{other}\"\n");
        let [error] = &errors(&second)[..] else { panic!("one error about {other}") };
        assert_eq!(
            *error,
            format!(
                "[door.two] listens at {other}, which is the place of [door.sdk] at sdk.sock; give each its own path"
            )
        );
    }
    let store = "[control]\nlisten = \"link/store.db\"\n";
    assert_eq!(
        errors(store),
        [
            "[control] listens at link/store.db, which is the place of the store at store.db; give each its own path"
        ]
    );
}

#[test]
fn a_wrong_policy_is_one_error_whoever_uses_it() {
    let site = Site::pinned();
    site.file("echo.toml", "[frames]\nallows = []\n[limit]\n");
    let (code, told) = checked(&site, &[]);
    let errors = told["errors"].as_array().expect("a list");
    assert_eq!((code, errors.len()), (1, 1), "{told}");
    let error = errors[0].as_str().expect("text");
    assert_eq!(error.lines().count(), 2, "one for each thing that is wrong: {error}");
    assert!(site.run(&["check", "--manifest", "transom.toml"]).stdout.contains("1 error, "));
}

#[test]
fn an_upgrade_is_compared_with_what_runs() {
    let site = Site::pinned();
    site.file("old.wasm", echo("1.0.0"));
    site.file("echo.wasm", echo("2.0.0"));
    let (code, told) = checked(&site, &[]);
    let found = &told["components"][0];
    assert_eq!(code, 1);
    assert_eq!(
        (&found["version"], &found["upgradeFrom"]["version"]),
        (&"2.0.0".into(), &"1.0.0".into())
    );
    assert_eq!(found["protocol"], Value::Null, "it is not the component that is pinned: {found}");

    let (code, told) = checked(&site, &["--against", "echo=old.wasm"]);
    let upgrade = &told["components"][0]["upgradeFrom"];
    assert_eq!(code, 1, "the lock is as it was");
    assert_eq!(upgrade["addedFrames"], Value::from(Vec::<Value>::new()), "{upgrade}");
    assert_eq!(upgrade["resumes"], true);

    assert_snapshot!(site.shown(&["check", "--manifest", "transom.toml", "--against", "old.wasm"]), @"
    exit 1
    stderr: transom: `--against old.wasm` does not say of which component; write `--against <component>=old.wasm`
    ");
    assert_snapshot!(site.shown(&["check", "--manifest", "transom.toml", "--against", "eco=old.wasm"]), @"
    exit 1
    stderr: transom: `--against eco=old.wasm` names no component of the manifest, which has `echo`, `sdk`
    ");
}

#[test]
fn frames_that_an_upgrade_adds_are_named() {
    let site = Site::new();
    let sdk = fs::read(built("components/sdk.wasm")).expect("a component");
    site.file("old.wasm", echo("1.0.0"));
    site.file("echo.wasm", sdk);
    site.file("echo.toml", "[frames]\nallow = [\"session/open\"]\n");
    let (_, told) = checked(&site, &["--against", "echo=old.wasm"]);
    let upgrade = &told["components"][0]["upgradeFrom"];
    let added = upgrade["addedFrames"].as_array().expect("a list");
    assert!(added.contains(&"session/prompt".into()), "{upgrade}");
    assert_eq!(
        upgrade["allowedFrames"],
        Value::from(vec!["session/open at door echo"]),
        "{upgrade}"
    );
    assert_eq!(upgrade["resumes"], false);
}
