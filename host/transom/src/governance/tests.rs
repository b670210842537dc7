//! What of a host is its own, as its manifest and its environment say.

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment { variables: variables.collect(), directory: PathBuf::from("/start") }
}

fn manifest(text: &str) -> Manifest {
    Manifest::parse(Path::new("/srv/transom.toml"), text.as_bytes()).unwrap()
}

const DOORS: &str = r#"
[component.own]
source = "own.wasm"
policy = "own.toml"

[door.own]
component = "own"
carrier = "unix"
listen = "own.sock"

[door.sdk]
component = "sdk"
carrier = "unix"
listen = "/tmp/sdk.sock"

[control]
listen = "control.sock"

[model]
provider = "scripted"
script = "story.jsonl"

[confine]
guard = ["kept"]
"#;

#[test]
fn what_the_manifest_names_between_the_host_and_others_is_private() {
    // P-45 (a), P-46.
    let environment = environment(&[("HOME", "/home/u")]);
    let manifest = manifest(DOORS);
    for governance in [Governance::Full, Governance::None] {
        let found = confinement(&manifest, governance, &environment, Path::new("/data/s.db"));
        let found = found.unwrap();
        for path in [
            "/home/u/.local/state/transom",
            "/home/u/.cache/transom",
            "/data/s.db",
            "/data/s.db-wal",
            "/srv/own.sock",
            "/tmp/sdk.sock",
            "/srv/control.sock",
            "/srv/story.jsonl",
        ] {
            assert!(found.private.contains(&PathBuf::from(path)), "{path}: {:?}", found.private);
        }
        assert_eq!(found.guard, ["kept", "/srv/own.wasm"].map(PathBuf::from));
    }
}

#[test]
fn a_host_that_does_not_know_its_own_files_does_not_start() {
    // P-45 (a): what is not known cannot be hidden.
    let manifest = manifest(DOORS);
    let told = |variables: &[(&str, &str)]| {
        let environment = environment(variables);
        let found = confinement(&manifest, Governance::Full, &environment, Path::new("/data/s.db"));
        format!("{:#}", found.unwrap_err())
    };
    for variables in [&[][..], &[("HOME", "")], &[("HOME", "relative")]] {
        let told = told(variables);
        let remedy = "set TRANSOM_STATE_DIR, or HOME, to an absolute path";
        assert!(told.ends_with(remedy), "{variables:?}: {told}");
    }
    let told = told(&[("HOME", "/home/u"), ("TRANSOM_STATE_DIR", "state")]);
    assert!(told.contains("TRANSOM_STATE_DIR=\"state\" is relative"), "{told}");

    // Where nothing is governed, nothing depends on it.
    let found =
        confinement(&manifest, Governance::None, &environment(&[]), Path::new("/data/s.db"));
    assert_eq!(found.unwrap().run, None);
}
