//! How published clients start a runtime: the recorded cases, against the real binary.

use serde_json::Value;

use crate::support::{
    place::{Place, text},
    process::{Launch, workspace},
    vector,
};

/// Where our answer is another than the recorded one, and by which rule.
struct Departure {
    case: &'static str,
    rule: &'static str,
    stdout: Option<&'static [&'static str]>,
}

const DEPARTURES: [Departure; 1] = [
    // Name and version are the program's own.
    Departure {
        case: "--version",
        rule: "S-204",
        stdout: Some(&[concat!("transom ", env!("CARGO_PKG_VERSION"))]),
    },
];

#[test]
fn base_launch() {
    play("v0.1.0rc6.launch.jsonl");
}

#[test]
fn later_launch() {
    play("v0.2.1rc2.launch.jsonl");
}

fn play(file: &str) {
    let mut wrong = Vec::new();
    for (number, case) in vector::lines(file) {
        let name = case["case"].as_str().expect("a case has a name");
        if let Err(why) = play_one(&case, name) {
            wrong.push(format!("{file}:{number} ({name}): {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn play_one(case: &Value, name: &str) -> Result<(), String> {
    let place = Place::new();
    let launches = workspace().join("tests/vectors/sdk/launch");
    for (there, ours) in
        [("noserver.yml", "no-server.yml"), ("badplugin.yml", "unknown-package.yml")]
    {
        std::fs::copy(launches.join(ours), place.cwd.join(there)).expect("a configuration");
    }
    let fill = |value: &Value| {
        value
            .as_str()
            .unwrap_or_default()
            .replace("<bundled-config>", text(&launches.join("shell.yml")))
            .replace("<cwd>", text(&place.cwd))
            .replace("<home>", text(&place.home))
    };
    let arguments = case["argv"].as_array().into_iter().flatten().skip(1).map(fill);
    let mut launch = Launch::new(arguments).directory(&place.cwd).env("HOME", place.root());
    for (name, value) in case["env"].as_object().into_iter().flatten() {
        launch = launch.env(name, fill(value));
    }
    let finished = launch.run(case["stdin"].as_str().unwrap_or_default());

    if case["exit"] != finished.code {
        return Err(format!("expected exit {}, found {finished:?}", case["exit"]));
    }
    let recorded: Vec<_> =
        case["stdout"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let departure = DEPARTURES.iter().find(|departure| departure.case == name);
    let expected = departure
        .and_then(|departure| departure.stdout.map(<[_]>::to_vec))
        .unwrap_or(recorded.clone());
    if let Some(Departure { rule, .. }) = departure
        && expected == recorded
    {
        return Err(format!("the departure of {rule} is not needed any more"));
    }
    let found: Vec<_> = finished.stdout.lines().collect();
    let same = match expected.as_slice() {
        ["<help text>"] => !found.is_empty(),
        expected => expected == found,
    };
    if !same {
        return Err(format!("expected {expected:?} on standard output, found {finished:?}"));
    }
    // Diagnostics are free text, but a start that fails explains itself, in the words of S-203 where it has any.
    let first = finished.stderr.lines().next().unwrap_or_default();
    let recorded = case["stderr_first_line"].as_str().unwrap_or_default();
    match recorded {
        _ if finished.code != 0 && first.is_empty() => Err("it fails without a word".to_owned()),
        usage if usage.starts_with("usage:") && !first.starts_with("usage:") => {
            Err(format!("expected `usage:` on standard error, found {first:?}"))
        }
        _ => Ok(()),
    }
}
