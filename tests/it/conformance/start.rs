//! C-43 to C-45, C-55: how the program starts, and how it does not.

use serde_json::json;

use crate::support::{
    bench::{configuration, form_a},
    client::{Client, events, of_type},
    model_server::{ModelServer, Reply, delta, finish, usage},
    place::{Place, text},
    process::{Finished, Launch},
};

const SHUTDOWN: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"sd\",\"method\":\"shutdown\"}\n";

/// A start that fails keeps standard output clean, explains itself and exits 1 (S-137).
fn refused(finished: &Finished, says: &str) {
    assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{finished:?}");
    assert!(finished.stderr.contains(says), "{says:?} is not in {:?}", finished.stderr);
}

fn served(finished: &Finished) {
    let answer = json!({"jsonrpc": "2.0", "id": "sd", "result": {}});
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (0, format!("{answer}\n").as_str()),
        "{finished:?}"
    );
}

#[test]
fn c_43_without_a_configuration_usage_is_told() {
    let place = Place::new();
    let launch = Launch::default().directory(&place.cwd).env("HOME", place.root());
    for launch in
        [launch.clone(), launch.clone().env("DSH_CORDIS_CONFIG", ""), launch.arg("nowhere.yml")]
    {
        let finished = launch.run(SHUTDOWN);
        refused(&finished, "usage:");
        assert!(finished.stderr.starts_with("usage:"), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
}

#[test]
fn c_44_an_unknown_package_is_named() {
    let (place, model) = (Place::new(), ModelServer::start());
    let launch =
        form_a(&place, &model).env("DSH_CORDIS_CONFIG", configuration("unknown-package.yml"));
    refused(&launch.run(SHUTDOWN), "@acme/nowhere-to-be-found");
}

#[test]
fn c_45_profiles() {
    let place = Place::new();
    let launch = |arguments: &[&str]| {
        Launch::new(arguments)
            .directory(&place.cwd)
            .env("HOME", place.root())
            .env("DSH_HOME", &place.home)
    };
    served(&launch(&["--profile", "sdk"]).run(SHUTDOWN));
    served(&launch(&["--profile", "sdk-minimal"]).run(SHUTDOWN));
    served(&launch(&["sdk"]).run(SHUTDOWN));
    refused(&launch(&["--profile", "nosuch"]).run(SHUTDOWN), "nosuch");
    refused(&launch(&["--nope"]).run(SHUTDOWN), "--nope");
    refused(&launch(&["--profile", "sdk", "--nope"]).run(SHUTDOWN), "--nope");
}

#[test]
fn c_55_a_wrong_value_in_the_environment_is_quoted() {
    let (place, model) = (Place::new(), ModelServer::start());
    let launch = form_a(&place, &model).env("DSH_CORDIS_CONFIG", configuration("coding.yml"));
    let wrong = launch.clone().env("DSH_MAX_TOKENS_AS_SUCCESS", "sometimes").run(SHUTDOWN);
    refused(&wrong, "sometimes");
    assert!(wrong.stderr.contains("server"), "the entry is named (S-137): {wrong:?}");
    served(&launch.env("DSH_MAX_TOKENS_AS_SUCCESS", "true").run(SHUTDOWN));
}

/// S-141.
#[test]
fn a_configuration_without_a_server_answers_nothing() {
    let (place, model) = (Place::new(), ModelServer::start());
    let finished = form_a(&place, &model)
        .env("DSH_CORDIS_CONFIG", configuration("no-server.yml"))
        .run(SHUTDOWN);
    assert_eq!((finished.code, finished.stdout.as_str()), (0, ""), "{finished:?}");
}

/// S-208: what cannot be confined is not offered, and it is said.
#[test]
fn read_only_lets_tools_look_and_change_nothing() {
    let (place, model) = (Place::new(), ModelServer::start());
    let file = place.cwd.join("made");
    let arguments = json!({ "file_path": text(&file), "content": "x" }).to_string();
    let call = json!({
        "index": 0, "id": "call_write", "type": "function",
        "function": { "name": "write", "arguments": arguments },
    });
    let said = delta(json!({ "tool_calls": [call] }));
    model.on("WRITE", Reply::events(&[said, finish("tool_calls"), usage()]));
    let launch = Launch::new(["--profile", "sdk"])
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_HOME", place.root())
        .env("DSH_PERMISSION_MODE", "read-only")
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock");
    let mut client = Client::new(launch.start());
    client.initialize(text(&place.cwd));
    let frames = client.turn("main", "PROMPT: WRITE");
    let results = events(&frames, "main");
    let result = &of_type(&results, "tool/result")[0]["data"];
    assert_eq!(result["error"]["code"], "FS_SANDBOX_DENIED");
    assert!(!file.exists());
    let frames = client.turn("main", "PROMPT: TOOL");
    let results = events(&frames, "main");
    let result = &of_type(&results, "tool/result")[0]["data"]["message"]["content"][0];
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(false), &json!("tool-proof\n"))
    );
    client.shut_down();
}
