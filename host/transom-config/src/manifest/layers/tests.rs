//! Several files, variables and arguments against what they come to. A case is a folder of `tests/messages/layers`: files in
//! the order of their names, `environment` and `set` with a line for each entry, and what is expected.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::ConfigErrors,
    manifest::{Carrier, Manifest, Overrides},
    tests::{entries, expected, folder},
};

/// Where relative paths of variables and arguments are.
const HERE: &str = "/here";

fn read(case: &Path) -> Result<Manifest, ConfigErrors> {
    let files = entries(case).into_iter();
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    // Each in a folder of its own, so that it shows which one a relative path is below.
    let named = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (_, name) = name.split_once('.').unwrap();
        let folder = name.strip_suffix(".toml").unwrap();
        (Path::new("/etc").join(folder).join(name), fs::read(&path).unwrap())
    };
    let files: Vec<_> = files.map(named).collect();
    let files: Vec<_> =
        files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect();

    let environment = fs::read_to_string(case.join("environment")).unwrap_or_default();
    let variables = environment.lines().map(|line| line.split_once('=').unwrap());
    let environment: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let sets = fs::read_to_string(case.join("set")).unwrap_or_default();
    let overrides = Overrides::new(Path::new(HERE), &environment, sets.lines());
    assert_eq!(overrides.is_empty(), environment.is_empty() && sets.is_empty(), "{case:?}");
    Manifest::parse_layers(&files, &overrides)
}

/// Every complaint names its own file, variable or argument.
#[test]
fn wrong_layers_are_refused_with_their_complaints() {
    let cases = entries(&folder("layers/invalid"));
    assert!(cases.len() >= 8, "{} cases", cases.len());
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| match read(case) {
            Ok(manifest) => Some(format!("{case:?} is accepted: {manifest:?}")),
            Err(errors) => expected(&case.join("expected"), "err", &format!("{errors}\n")),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn good_layers_become_one_manifest() {
    let wrong: Vec<_> = entries(&folder("layers/valid"))
        .iter()
        .filter_map(|case| {
            let manifest = read(case).unwrap();
            expected(&case.join("expected"), "out", &format!("{manifest:#?}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

const DOOR: &[u8] = b"[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n";

fn layers(files: &[&[u8]], environment: &[(&str, &str)], sets: &[&str]) -> Manifest {
    let files: Vec<_> = files.iter().map(|&bytes| (Path::new("transom.toml"), bytes)).collect();
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let overrides = Overrides::new(Path::new(HERE), &environment, sets.iter().copied());
    Manifest::parse_layers(&files, &overrides).unwrap()
}

#[test]
fn a_later_file_gives_way_to_the_environment_and_that_to_arguments() {
    let model = |files: &[&[u8]], environment: &[(&str, &str)], sets: &[&str]| {
        layers(files, environment, sets).model.model
    };
    let (one, two): (&[u8], &[u8]) = (b"model.model = 'one'", b"model.model = 'two'");
    let variable = [("TRANSOM_MODEL__MODEL", "three")];
    assert_eq!(model(&[DOOR, one], &[], &[]).as_deref(), Some("one"));
    assert_eq!(model(&[DOOR, one, two], &[], &[]).as_deref(), Some("two"));
    assert_eq!(model(&[DOOR, two, one], &[], &[]).as_deref(), Some("one"));
    assert_eq!(model(&[DOOR, one, two], &variable, &[]).as_deref(), Some("three"));
    let four = ["model.model=four"];
    assert_eq!(model(&[DOOR, one, two], &variable, &four).as_deref(), Some("four"));
}

#[test]
fn a_file_of_nothing_changes_nothing() {
    let with_nothing = layers(&[DOOR, b"", b"# Nothing.\n[tools]\n"], &[], &[]);
    assert_eq!(with_nothing, layers(&[DOOR], &[], &[]));
}

#[test]
fn a_value_is_toml_where_it_can_be_and_text_otherwise() {
    let model = |value: &str| layers(&[DOOR], &[("TRANSOM_MODEL__MODEL", value)], &[]).model.model;
    for (value, expected) in [
        ("deepseek-v4", "deepseek-v4"),
        ("'quoted'", "quoted"),
        (" \"5\" ", "5"),
        ("two words", "two words"),
        ("a = b", "a = b"),
        ("x\ny", "x\ny"),
    ] {
        assert_eq!(model(value).as_deref(), Some(expected), "{value:?}");
    }
    let set = |set: &str| layers(&[DOOR], &[], &[set]);
    assert_eq!(set("tools.shell-timeout-ms = 0x10").tools.shell_timeout_ms, 16);
    assert!(set("confine.off=true").confine.off);
    assert_eq!(set("model={ model = 'whole' }").model.model.as_deref(), Some("whole"));
    let options = &set("door.sdk.options.'a=b'.\"c.d\"=1").doors["sdk"].options;
    assert_eq!(options["a=b"]["c.d"], 1);
}

/// A key cannot be taken away, so these two do it.
#[test]
fn whoever_turns_a_socket_off_need_not_know_where_it_was() {
    let listens: &[u8] = b"control.listen = 'c.sock'\n[door.sdk]\ncomponent = 'sdk'\ncarrier = 'unix'\nlisten = 's.sock'\n";
    let manifest = layers(&[listens], &[], &["control.off=true", "door.sdk.carrier=stdio"]);
    assert_eq!((manifest.control.listen, manifest.control.off), (None, true));
    assert_eq!(manifest.doors["sdk"].carrier, Carrier::Stdio);
}

/// Only names with `__` between keys are meant for the manifest.
#[test]
fn other_variables_are_left_alone() {
    let others = [
        ("TRANSOM_STATE_DIR", "x"),
        ("TRANSOM_LOG", "debug"),
        ("MY_TRANSOM_MODEL__MODEL", "x"),
        ("TRANSOM", "__"),
    ];
    assert_eq!(layers(&[DOOR], &others, &[]), layers(&[DOOR], &[], &[]));
}

#[test]
fn the_built_in_manifest_can_be_overridden() {
    let environment =
        BTreeMap::from([("TRANSOM_DOOR__SDK__LISTEN".to_owned(), "other.sock".to_owned())]);
    let overrides = Overrides::new(Path::new(HERE), &environment, ["store.durability=power"]);
    let manifest = Manifest::built_in_with(Path::new("/state"), &overrides).unwrap();
    let plain = Manifest::built_in(Path::new("/state")).unwrap();
    let changes: Vec<_> = plain.changes(&manifest).iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "door.sdk.listen: /state/sdk.sock → /here/other.sock, after a restart",
            "store.durability: process → power, after a restart",
        ]
    );
}

#[test]
fn of_no_file_at_all_a_door_is_missed() {
    let error = Manifest::parse_layers(&[], &Overrides::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "manifest: no door is opened; add a [door.<name>] with `component` and `carrier`"
    );
}

/// Tables are walked by recursion: what nests too deep is refused before that.
#[test]
fn a_file_that_nests_without_end_is_refused() {
    let check = |text: String| {
        let parsed = Manifest::parse(Path::new("transom.toml"), text.as_bytes());
        let error = parsed.unwrap_err().to_string();
        assert!(error.len() < 1000, "{} bytes", error.len());
    };
    check(format!("door.sdk.options{} = 1", ".a".repeat(100_000)));
    check(format!("[door.sdk.options{}]", ".a".repeat(100_000)));
    check(format!("door.sdk.options = {}", "[".repeat(100_000)));
    check(format!("door.sdk.options = {}1{}", "{ a = ".repeat(100_000), "}".repeat(100_000)));
}
