//! Layers, overrides and locks.

use insta::assert_snapshot;
use serde_json::Value;

use super::{Site, digest, echo};
use crate::support::{
    place::text,
    process::Launch,
    wire::{Signal, Wire as _},
};

#[test]
fn later_manifests_environment_and_arguments_win_in_this_order() {
    let site = Site::new();
    site.file("site.toml", "[door.sdk.limits]\nconnections-max = 2\n");
    let connections = |arguments: &[&str], variable: Option<&str>| {
        let mut launch = site.launch(&["check", "--json", "--manifest", "transom.toml"]);
        for argument in arguments {
            launch = launch.arg(*argument);
        }
        if let Some(value) = variable {
            launch = launch.env("TRANSOM_DOOR__SDK__LIMITS__CONNECTIONS_MAX", value);
        }
        let shown: Value = serde_json::from_str(&launch.run("").stdout).expect("JSON");
        shown["doors"][1]["limits"]["connections-max"]["value"].as_u64().expect("a number")
    };
    let layer = ["--manifest", "site.toml"];
    assert_eq!(connections(&[], None), 1100);
    assert_eq!(connections(&layer, None), 2);
    assert_eq!(connections(&layer, Some("3")), 3);
    let set = [&layer[..], &["--set", "door.sdk.limits.connections-max=4"]].concat();
    assert_eq!(connections(&set, Some("3")), 4);
}

#[test]
fn permissions_are_told_for_layers() {
    let site = Site::new();
    site.file("site.toml", "[permissions]\npreset = \"read-only\"\n");
    let layers = ["--manifest", "transom.toml", "--manifest", "site.toml"];
    let arguments = [&["permissions", "--json"], &layers[..]].concat();
    let preset = |launch: Launch| {
        let shown: Value = serde_json::from_str(&launch.run("").stdout).expect("JSON");
        shown["preset"].as_str().expect("a preset").to_owned()
    };
    assert_eq!(preset(site.launch(&arguments)), "read-only");
    let full = site.launch(&arguments).env("TRANSOM_PERMISSIONS__PRESET", "danger-full-access");
    assert_eq!(preset(full), "danger-full-access");
}

#[test]
fn what_is_said_instead_of_a_manifest_is_checked_like_one() {
    let site = Site::new();
    assert_snapshot!(site.shown(&["run", "--set", "jobs.host-max=many"]), @r#"
    exit 1
    stderr: transom: --set jobs.host-max: `host-max` is the text "many"; it must be a whole number from 1 to 10000
    "#);
    assert_snapshot!(site.shown(&["stdio", "sdk", "--set", "jobs"]), @r"
    exit 1
    stderr: transom: --set jobs: no value is given; write `--set key.path=value`
    ");
    let launch = site.launch(&["prompt", "hello"]).env("TRANSOM_MODEL__PROVDER", "scripted");
    assert_snapshot!(site.show(&launch.run("")), @r"
    exit 1
    stderr: transom: TRANSOM_MODEL__PROVDER: unknown key `provder` in [model]; did you mean `provider`?
    ");
    assert_snapshot!(site.shown(&["run", "--manifest", "no.toml", "--manifest", "nor.toml"]), @r"
    exit 1
    stderr: transom: no.toml: cannot be read: No such file or directory (os error 2)
    stderr: nor.toml: cannot be read: No such file or directory (os error 2)
    ");
}

#[test]
fn a_prompt_is_answered_under_a_manifest() {
    let site = Site::new();
    let finished = site.run(&["prompt", "hello", "--manifest", "transom.toml"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(finished.stdout.contains("scripted model"), "{finished:?}");
    // It was its store.
    assert!(site.place.cwd.join("store.db").is_file());
}

#[test]
fn a_pin_stays_until_it_is_named() {
    let site = Site::new();
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml"]), @"
    exit 0
    stdout: pinned   echo 1.0.0 <digest 1> from echo.wasm
    stdout: pinned   sdk 0.1.0 <digest sdk> from built-in
    stdout: transom.lock holds 2 pins
    ");
    let lock = site.read("transom.lock");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml"]), @"
    exit 0
    stdout: kept     echo 1.0.0 <digest 1> from echo.wasm
    stdout: kept     sdk 0.1.0 <digest sdk> from built-in
    stdout: transom.lock holds 2 pins
    ");
    assert_eq!(site.read("transom.lock"), lock);

    site.file("echo.wasm", echo("2.0.0"));
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml"]), @"
    exit 1
    stderr: transom: transom.lock: component `echo` is <digest 2>, but the lock wants <digest 1> (version 1.0.0 from echo.wasm); if the change is meant, run `transom pin --update echo`
    ");
    assert_eq!(site.read("transom.lock"), lock, "a refusal changes nothing");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml", "--update", "ecoh"]), @"
    exit 1
    stderr: transom: there is no component `ecoh`; did you mean `echo`?
    ");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml", "--update", "echo"]), @"
    exit 0
    stdout: updated  echo 2.0.0 <digest 2> from echo.wasm, was 1.0.0 <digest 1>
    stdout: kept     sdk 0.1.0 <digest sdk> from built-in
    stdout: transom.lock holds 2 pins
    ");
    assert_ne!(site.read("transom.lock"), lock);

    // What the manifest no longer has stays until it is named, too.
    site.file("transom.toml", "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"stdio\"\n");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml"]), @"
    exit 0
    stdout: kept     sdk 0.1.0 <digest sdk> from built-in
    stdout: echo is in the lock and not in the manifest; `transom pin --update echo` takes it out
    stdout: transom.lock holds 2 pins
    ");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml", "--update", "echo"]), @"
    exit 0
    stdout: kept     sdk 0.1.0 <digest sdk> from built-in
    stdout: removed  echo 2.0.0 <digest 2> from echo.wasm
    stdout: transom.lock holds 1 pin
    ");
}

#[test]
fn what_could_not_run_is_not_pinned() {
    let site = Site::new();
    site.file("echo.wasm", "once upon a time");
    assert_snapshot!(site.shown(&["pin", "--manifest", "transom.toml"]), @"
    exit 1
    stderr: transom: component `echo` from echo.wasm is not pinned: the file is not WebAssembly: it begins with 6f 6e 63 65 20 75 70 6f, a component begins with 00 61 73 6d 0d 00 01 00
    ");
    assert!(!site.place.cwd.join("transom.lock").exists());
    assert_snapshot!(site.shown(&["pin"]), @"
    exit 2
    stderr: error: the following required arguments were not provided:
    stderr:   --manifest <FILE>
    stderr: 
    stderr: Usage: transom pin --manifest <FILE>
    stderr: 
    stderr: For more information, try '--help'.
    ");
}

/// Decision 59.
#[test]
fn a_component_that_was_changed_is_not_even_compiled() {
    let site = Site::pinned();
    site.file("echo.wasm", echo("2.0.0"));
    assert_snapshot!(site.shown(&["stdio", "echo", "--manifest", "transom.toml"]), @"
    exit 1
    stderr: transom: transom.lock: component `echo` is <digest 2>, but the lock wants <digest 1> (version 1.0.0 from echo.wasm); if the change is meant, run `transom pin --update echo`
    ");
    let unix = ["run", "--manifest", "transom.toml", "--set", "door.echo.carrier=unix"];
    let unix = [&unix[..], &["--set", "door.echo.listen=echo.sock"]].concat();
    assert!(site.run(&unix).stderr.contains("but the lock wants"));

    let other = Site::pinned();
    other.file("echo.wasm", echo("2.0.0"));
    assert_eq!(other.run(&["stdio", "echo", "--manifest", "transom.toml"]).code, 1);
    assert!(!other.has_compiled());
    other.file("echo.wasm", echo("1.0.0"));
    let served = other.run(&["stdio", "echo", "--manifest", "transom.toml", "--locked"]);
    assert_eq!(served.code, 0, "{served:?}");
    assert!(other.has_compiled());
}

/// Decision 59.
#[test]
fn locked_means_that_everything_is_pinned() {
    let site = Site::new();
    let locked = ["stdio", "echo", "--locked", "--manifest", "transom.toml"];
    assert_snapshot!(site.shown(&locked), @"
    exit 1
    stderr: transom: there is no transom.lock, and `--locked` demands one; write it with `transom pin --manifest transom.toml`
    ");
    assert_snapshot!(site.shown(&["run", "--locked"]), @"
    exit 1
    stderr: transom: `--locked` needs a manifest with a lock beside it; name one with `--manifest`
    ");
    site.file("transom.lock", "version = 1\n");
    assert_snapshot!(site.shown(&locked), @"
    exit 1
    stderr: transom: transom.lock: component `echo` (<digest 1>) is not in the lock; if it belongs to this deployment, run `transom pin`
    ");
    // Without it, a component of which the lock says nothing runs.
    let served = site.run(&["stdio", "echo", "--manifest", "transom.toml"]);
    assert_eq!(served.code, 0, "{served:?}");
    site.file("transom.lock", "version = 1\n[[component]]\nname = \"echo\"\n");
    let refused = site.run(&["stdio", "echo", "--manifest", "transom.toml"]);
    assert!(
        refused.stderr.contains("transom.lock:2:1: [[component]] has no `digest`"),
        "{refused:?}"
    );
}

#[test]
fn a_running_host_holds_new_versions_to_the_lock() {
    let site = Site::pinned();
    let unix = ["--set", "door.echo.carrier=unix", "--set", "door.echo.listen=echo.sock"];
    let run = [&["run", "--manifest", "transom.toml"], &unix[..]].concat();
    let mut host = site.launch(&run).start();
    while !host.line().expect("the host gets ready").starts_with("ready") {}

    let next = site.file("echo.wasm", echo("2.0.0"));
    let swap = ["swap", "echo", text(&next)];
    assert_snapshot!(site.shown(&swap), @"
    exit 1
    stderr: transom: transom.lock: component `echo` is <digest 2>, but the lock wants <digest 1> (version 1.0.0 from echo.wasm); if the change is meant, run `transom pin --update echo`
    ");
    // Nor is other content at the same path taken by a reload.
    let refused = site.run(&["reload"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let [one, two] = ["1.0.0", "2.0.0"].map(|version| digest(&echo(version)));
    assert!(
        refused.stderr.starts_with("transom: nothing was changed: ")
            && refused.stderr.contains(&one)
            && refused.stderr.contains(&two),
        "{refused:?}"
    );
    // The lock is read again for each version.
    let pinned = site.run(&["pin", "--manifest", "transom.toml", "--update", "echo"]);
    assert_eq!(pinned.code, 0, "{pinned:?}");
    let swapped = site.run(&swap);
    assert_eq!(swapped.code, 0, "{swapped:?}");
    std::fs::remove_file(site.place.cwd.join("transom.lock")).expect("a lock");
    assert!(site.run(&swap).stderr.contains("there is no transom.lock any more"));
    host.signal(Signal::Terminate);
    assert_eq!(host.finish().code, 0);
}
