//! Routes and who serves them (S-44, S-46, S-49, decision 57).

use std::sync::mpsc;

use serde_json::{Value, json};
use transom_harness::{block::Block, chunk::BlockType};

use super::*;
use crate::{
    deepseek::{self, DeepSeek, Endpoint, Settings},
    scripted::{Script, Scripted},
};

fn providers() -> (tokio::runtime::Runtime, Providers) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let providers = Providers::new(runtime.handle().clone())
        .with(deepseek::ID, DeepSeek::new(Endpoint::default, Settings::default()))
        .with("scripted", Scripted::new(Script::builtin()));
    (runtime, providers)
}

fn route(provider: &str, model: &str, max_tokens: Option<u64>, effort: Option<&str>) -> Route {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Route {
        provider: text(provider),
        model: text(model),
        max_tokens,
        reasoning_effort: effort.map(str::to_owned),
    }
}

/// `provider/model max effort window images`, defaults with a star.
fn shown(served: &Served) -> String {
    let star = |is_default: bool| if is_default { "*" } else { "" };
    format!(
        "{}/{} {:?}{} {:?}{} {:?} {}",
        served.provider,
        served.model,
        served.max_tokens,
        star(served.max_tokens_is_default),
        served.reasoning_effort.as_deref(),
        star(served.reasoning_effort_is_default),
        served.context_window,
        served.images,
    )
}

#[test]
fn a_route_is_filled_with_what_the_provider_offers() {
    let (_runtime, providers) = providers();
    let table = [
        (
            route("deepseek-official", "any-id", None, None),
            r#"deepseek-official/any-id Some(256000)* Some("high")* Some(1000000) false"#,
        ),
        (
            route("deepseek-official", "m", Some(1234), Some("max")),
            r#"deepseek-official/m Some(1234) Some("max") Some(1000000) false"#,
        ),
        (route("scripted", "", None, None), "scripted/scripted None None None false"),
        (
            route("scripted", "m", Some(5), Some("off")),
            r#"scripted/m Some(5) Some("off") None false"#,
        ),
    ];
    for (route, expected) in table {
        assert_eq!(providers.serve(&route).map(|served| shown(&served)), Ok(expected.to_owned()));
    }
}

#[test]
fn a_route_that_nobody_serves_is_refused() {
    let (_runtime, providers) = providers();
    let table = [
        (
            route("acme", "m", None, None),
            json!({
                "code": "no-adapter",
                "message": "no adapter registered for provider \"acme\"",
                "details": {"provider": "acme"},
            }),
        ),
        (
            route("deepseek-official", "m", None, Some("extreme")),
            json!({
                "code": "effort-unsupported",
                "message": "provider \"deepseek-official\" model \"m\" does not support reasoning effort \"extreme\"",
                "details": {"provider": "deepseek-official", "model": "m", "effort": "extreme"},
            }),
        ),
        (
            route("", "m", None, None),
            json!({
                "code": "invalid",
                "message": "route.provider is missing: name a model provider",
                "details": {"issues": ["route.provider is missing: name a model provider"]},
            }),
        ),
        (
            route("deepseek-official", "", None, None),
            json!({
                "code": "invalid",
                "message": "route.model is missing: name a model of the provider",
                "details": {"issues": ["route.model is missing: name a model of the provider"]},
            }),
        ),
    ];
    for (route, expected) in table {
        let failure: Value =
            serde_json::from_str(&providers.serve(&route).unwrap_err().to_json()).unwrap();
        assert_eq!(failure, expected);
    }
}

/// Decision 57: another answers, and the record stays what was asked for.
#[test]
fn a_mapped_route_is_recorded_as_asked() {
    let (_runtime, providers) = providers();
    let script: Script =
        r#"{"images": true, "retry": {"max_retries": 9}, "rules": []}"#.parse().unwrap();
    let providers = providers.with("pictures", Scripted::new(script));
    let mapped = providers.clone().map("deepseek-official", "pictures").unwrap();
    let asked = route("deepseek-official", "deepseek-v4-flash", None, None);
    let expected =
        r#"deepseek-official/deepseek-v4-flash Some(256000)* Some("high")* Some(1000000) true"#;
    assert_eq!(shown(&mapped.serve(&asked).unwrap()), expected);
    assert_eq!(mapped.retry_policy("deepseek-official").normal.unwrap().max_retries, 9);
    // The table that was cloned maps nothing.
    assert!(!providers.serve(&asked).unwrap().images);

    let mapped = providers.map("acme", "scripted").unwrap();
    let served = mapped.serve(&route("acme", "m", None, None)).unwrap();
    assert_eq!(shown(&served), "acme/m None None None false");
}

#[test]
fn a_map_to_nobody_is_refused() {
    let (_runtime, providers) = providers();
    let error = providers.map("deepseek-official", "scriptd").err().unwrap();
    assert_eq!(
        error.to_string(),
        "cannot map \"deepseek-official\" to provider \"scriptd\": there is no such provider (known: deepseek-official, scripted)"
    );
}

/// S-44: registered once, used as it is.
#[test]
fn a_second_registration_changes_nothing() {
    let (_runtime, providers) = providers();
    let other: Script = r#"{"model": "other", "rules": []}"#.parse().unwrap();
    let providers = providers.with("scripted", Scripted::new(other));
    assert_eq!(providers.serve(&route("scripted", "", None, None)).unwrap().model, "scripted");
}

#[test]
fn a_call_is_answered_by_the_mapped_provider() {
    let (_runtime, providers) = providers();
    let providers = providers.map("deepseek-official", "scripted").unwrap();
    let served = providers.serve(&route("deepseek-official", "m", None, None)).unwrap();
    let chunks = call(&providers, served);
    assert_eq!(chunks.first(), Some(&Chunk::BlockStart { index: 0, block_type: BlockType::Text }));
    let block = Block::text("You said: ");
    assert!(chunks.contains(&Chunk::BlockEnd { index: 0, block }), "{chunks:?}");
    assert_eq!(chunks.last(), Some(&Chunk::Finish { reason: Finish::Stop }));
}

/// The driver asks only for served routes; if the table changed meanwhile, it is told.
#[test]
fn a_call_that_nobody_answers_finishes() {
    let (_runtime, providers) = providers();
    let mut served = providers.serve(&route("scripted", "", None, None)).unwrap();
    served.provider = "acme".into();
    let failure = LlmFailure::new("NO_ADAPTER", "no adapter registered for provider \"acme\"");
    assert_eq!(call(&providers, served), [Chunk::Finish { reason: Finish::Error { failure } }]);
}

/// L-48: a stop ends a delay too, and one that comes before anything else counts as well.
#[test]
fn a_stopped_script_finishes_as_aborted() {
    let (_runtime, providers) = providers();
    let script =
        r#"{"rules": [{"answer": [{"text": "a"}, {"delay_ms": 3600000}, {"text": "b"}]}]}"#;
    let providers = providers.with("slow", Scripted::new(script.parse().unwrap()));
    let served = providers.serve(&route("slow", "", None, None)).unwrap();
    for waits in [true, false] {
        let (stop, chunks) = begin(&providers, served.clone());
        if waits {
            assert!(matches!(chunks.recv().unwrap(), Chunk::BlockStart { .. }));
            assert!(matches!(chunks.recv().unwrap(), Chunk::TextDelta { .. }));
        }
        stop.stop();
        let rest: Vec<Chunk> = chunks.iter().collect();
        assert_eq!(rest.last(), Some(&Chunk::Finish { reason: aborted() }));
        assert!(
            !rest.iter().any(|chunk| matches!(chunk, Chunk::TextDelta { text, .. } if text == "b"))
        );
    }
}

fn call(providers: &Providers, served: Served) -> Vec<Chunk> {
    begin(providers, served).1.iter().collect()
}

fn begin(providers: &Providers, served: Served) -> (Box<dyn Stop>, mpsc::Receiver<Chunk>) {
    let (sender, chunks) = mpsc::sync_channel(4096);
    let request = ModelRequest {
        session: "main".into(),
        served,
        system: None,
        messages: Vec::new(),
        tools: Arc::from([]),
    };
    let stop = providers.call(request, Box::new(move |chunk| drop(sender.send(chunk))));
    (stop, chunks)
}
