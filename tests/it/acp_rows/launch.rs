//! How the door is started as the reference is: each form up to the first prompt.

use serde_json::json;

use crate::support::{
    acp::{Acp, chunks, error, stop},
    model_server::ModelServer,
    place::{Place, text},
    process::Launch,
};

fn launch(place: &Place, arguments: &[&str]) -> Launch {
    Launch::new(arguments.iter().copied())
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_HOME", &place.home)
}

#[test]
fn a_97_each_form_serves_a_prompt() {
    let model = ModelServer::start();
    let place = Place::new();
    let composition = "- {id: spine, name: '@deepseek-ai/dsh-agent-spine-demo'}\n\
                       - {id: llm, name: '@deepseek-ai/dsh-llm-deepseek'}\n\
                       - {id: acp, name: '@deepseek-ai/dsh-acp', config: {provider: deepseek-official, model: deepseek-v4-flash}}\n";
    let composition = place.file("cordis.yml", composition);
    for arguments in
        [&["acp"][..], &["--profile", "acp"], &["--profile=acp"], &[text(&composition)]]
    {
        let launch = launch(&place, arguments)
            .env("DEEPSEEK_API_KEY", "sk-mock")
            .env("DEEPSEEK_BASE_URL", model.base_url());
        let mut client = Acp::new(launch.start());
        let session = client.session(text(&place.cwd));
        let (updates, answer) = client.turn(&session, "PROMPT: PLAIN");
        assert_eq!(
            (chunks(&updates), stop(&answer)),
            (vec!["plain answer".to_owned()], "end_turn"),
            "{arguments:?}"
        );
        assert_eq!(client.end(), (vec![], 0), "{arguments:?}");
    }
}

#[test]
fn a_98_a_missing_key_fails_the_first_prompt_and_no_start() {
    let place = Place::new();
    let mut client = Acp::new(launch(&place, &["acp"]).start());
    let session = client.session(text(&place.cwd));
    let (updates, answer) = client.turn(&session, "hi");
    assert_eq!(updates, Vec::<serde_json::Value>::new());
    let said = error(&answer);
    assert!(
        said.starts_with("-32603 Internal error: turn failed: ")
            && said.contains("DEEPSEEK_API_KEY"),
        "{said}"
    );
    assert_eq!(client.end(), (vec![], 0));
}

#[test]
fn a_6_a_start_that_fails_says_why_and_leaves_standard_output_empty() {
    let place = Place::new();
    for (arguments, variable, why) in [
        (&["acp", "extra"][..], None, "one too many beside a profile"),
        (&["acp", "--bogus"], None, "unknown option"),
        (&["acp"], Some(("DSH_PERMISSION_MODE", "everything")), "DSH_PERMISSION_MODE"),
    ] {
        let mut launch = launch(&place, arguments);
        if let Some((name, value)) = variable {
            launch = launch.env(name, value);
        }
        let ended = launch.run("");
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn an_option_that_is_none_stops_the_start() {
    let place = Place::new();
    let launch = crate::support::acp::launch(&place, "[door.acp.options]\nsurface = \"all\"\n");
    let ended = launch.run(&format!("{}\n", json!({"id": 1, "method": "initialize"})));
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("it must be \"automation\" or \"standard\""), "{}", ended.stderr);
}
