//! Providers by name and what they can do, kinds of children, those that live on, and tools of single sessions
//! (L-53, L-67, L-69, L-71, L-72).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    permissions::Access,
    ports::{
        Children, Delegation, DelegationEvent, Sink, Stop, Subagents, ToolOutcome, ToolSpec, Tools,
    },
    subagents::{
        Capabilities, ChildCode, ChildOrder, ChildRefused, ChildState, Listed, Nature, Obeyed,
        ToolFilter, Toolset, WORDS_BYTES_MAX,
    },
};

use super::{Bench, coded, plain, text};
use crate::{
    Call, Delegating, Options, ProviderError, Providers, RegistryError, Running, SubagentKind,
    Tool, providers::IN_PROCESS,
};

/// A provider that answers at once, and remembers what it was asked for.
#[derive(Default)]
struct Ready {
    can: Capabilities,
    asked: Mutex<Vec<Delegation>>,
    says: &'static str,
}

impl Subagents for Ready {
    fn capabilities(&self) -> Capabilities {
        self.can
    }

    fn start(&self, delegation: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop> {
        let kept = delegation.nature.continuable;
        self.asked.lock().unwrap().push(delegation);
        sink(DelegationEvent::Started { child: "child".into() });
        sink(match kept {
            true => DelegationEvent::Kept,
            false => DelegationEvent::Ended {
                stop_reason: "completed".to_owned(),
                output: vec![Block::text(self.says)],
                diagnostic: None,
            },
        });
        Box::new(Nothing)
    }
}

struct Nothing;

impl Stop for Nothing {
    fn stop(&self) {}
}

/// Obeys everything but what it is told to refuse.
struct Port(Option<ChildCode>);

impl Children for Port {
    fn order(&self, _: &SessionId, order: ChildOrder, sink: Sink<Result<Obeyed, ChildRefused>>) {
        let listed = |child: &str, state, waiting| Listed {
            child: child.into(),
            label: "look".to_owned(),
            state,
            waiting,
        };
        sink(match (self.0, order) {
            (Some(code), _) => code.refuse("no"),
            (None, ChildOrder::List) => Ok(Obeyed::Listed(vec![
                listed("a", ChildState::Running, 2),
                listed("b", ChildState::Stored, 0),
                listed("c", ChildState::Idle, 1),
            ])),
            (None, _) => Ok(Obeyed::Done),
        });
    }
}

fn kind(name: &str, nature: Nature) -> SubagentKind {
    SubagentKind {
        name: name.to_owned(),
        description: format!("is a {name}."),
        provider: IN_PROCESS.to_owned(),
        nature,
    }
}

fn bench(provider: &Arc<Ready>, change: impl FnOnce(&mut Options)) -> Bench {
    Bench::with(|options| {
        options.enabled.push("subagent".to_owned());
        options.subagents = Some(Providers::in_process(Arc::clone(provider) as _));
        change(options);
    })
}

fn task(more: Value) -> Value {
    let mut task = json!({ "description": "look", "prompt": "look around" });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn able(says: &'static str) -> Arc<Ready> {
    Arc::new(Ready { can: Capabilities::ALL, says, ..Ready::default() })
}

#[tokio::test]
async fn l72_a_child_lives_on_where_that_is_the_mode_and_nobody_waits() {
    let provider = able("done");
    let plain_bench = bench(&provider, |_| {});
    let continuable = bench(&provider, |options| options.delegation.continuable = true);
    let judge = bench(&provider, |options| {
        let kept = Nature { continuable: true, ..Nature::default() };
        options.delegation.kinds = vec![kind("keeper", kept), kind("other", Nature::default())];
    });
    for (bench, more, expected) in [
        (&plain_bench, json!({}), "done"),
        (&continuable, json!({}), "started subagent child"),
        (&continuable, json!({ "run_in_background": true }), "started subagent child"),
        (&continuable, json!({ "run_in_background": false }), "done"),
        (&judge, json!({}), "done"),
        (&judge, json!({ "kind": "other" }), "done"),
        (&judge, json!({ "kind": "keeper" }), "started subagent child"),
        (&judge, json!({ "kind": "keeper", "run_in_background": false }), "done"),
    ] {
        let started = bench.start("subagent", &task(more.clone()).to_string());
        assert_eq!(text(&started.outcome().await), expected, "{more}");
    }
    let (told, _) = judge.error("subagent", task(json!({ "run_in_background": true }))).await;
    assert!(told.starts_with("run_in_background is disabled"), "one-shot needs jobs: {told}");
    let (told, _) = judge.error("subagent", task(json!({ "kind": "nobody" }))).await;
    assert_eq!(told, r#"invalid arguments: "kind" must be one of ["keeper","other"]"#);
    let asked = provider.asked.lock().unwrap();
    let is_placed =
        |one: &Delegation| one.directory.as_ref().is_some_and(|path| path.is_absolute());
    assert!(asked.iter().all(is_placed), "L-69");
}

#[tokio::test]
async fn without_kinds_the_schema_is_what_it_was() {
    let provider = able("done");
    let properties = |bench: &Bench| {
        let specs = bench.registry.specs(&"main".into());
        let subagent = specs.iter().find(|spec| spec.name == "subagent").unwrap();
        subagent.parameters["properties"].clone()
    };
    let bare = properties(&bench(&provider, |_| {}));
    let names: Vec<_> = bare.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["description", "prompt"]);
    let kinds = properties(&bench(&provider, |options| {
        options.delegation.kinds = vec![kind("a", Nature::default()), kind("b", Nature::default())];
    }));
    assert_eq!(kinds["kind"]["enum"], json!(["a", "b"]));
    assert!(kinds["kind"]["description"].as_str().unwrap().contains("b: is a b."));
}

#[tokio::test]
async fn l67_last_words_are_the_json_that_was_asked_for() {
    let schema = json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
    for (says, expected) in [
        (" {\"n\": 1}\n", Ok("{\"n\":1}")),
        (
            "",
            Err(
                "subagent run gave no valid output: its last words are no JSON (EOF while parsing a value at line 1 column 0)",
            ),
        ),
        (
            "{}",
            Err(
                "subagent run gave no valid output: missing required property \"value.n\"\nIts last words:\n{}",
            ),
        ),
        (
            "{\"n\":1.5}",
            Err(
                "subagent run gave no valid output: \"value.n\" must be an integer\nIts last words:\n{\"n\":1.5}",
            ),
        ),
    ] {
        let bench = bench(&able(says), |options| {
            let nature = Nature { output_schema: Some(schema.clone()), ..Nature::default() };
            options.delegation.kinds = vec![kind("judge", nature)];
        });
        let call = task(json!({ "kind": "judge" }));
        match expected {
            Ok(expected) => assert_eq!(
                text(&bench.start("subagent", &call.to_string()).outcome().await),
                expected
            ),
            Err(expected) => {
                let expected = coded(expected, "SubagentError/INVALID_OUTPUT");
                assert_eq!(bench.error("subagent", call).await, expected);
            }
        }
    }
}

#[tokio::test]
async fn l69_a_provider_is_asked_only_for_what_it_can() {
    let natures = [
        ("outputSchema", Nature { output_schema: Some(json!({})), ..Nature::default() }),
        ("depthLimit", Nature { depth_max: Some(1), ..Nature::default() }),
        ("toolFilter", Nature { tools: Some(ToolFilter::default()), ..Nature::default() }),
        ("persona", Nature { persona: Some("p".to_owned()), ..Nature::default() }),
    ];
    for (capability, nature) in natures {
        let provider = Arc::new(Ready::default());
        let bench = bench(&provider, |options| {
            options.delegation.kinds = vec![kind("a", nature)];
        });
        let message =
            format!("subagent provider \"spawn\" does not support the \"{capability}\" capability");
        let expected = coded(&message, "SubagentError/UNSUPPORTED_CAPABILITY");
        assert_eq!(bench.error("subagent", task(json!({ "kind": "a" }))).await, expected);
        assert!(provider.asked.lock().unwrap().is_empty(), "nothing is started");
    }

    let bench = bench(&able("done"), |options| {
        let elsewhere = SubagentKind { provider: "acp".to_owned(), ..kind("a", Nature::default()) };
        options.delegation = Delegating { continuable: false, kinds: vec![elsewhere] };
    });
    let message = "no subagent provider registered for \"acp\"";
    let expected = coded(message, "SubagentError/NO_PROVIDER");
    assert_eq!(bench.error("subagent", task(json!({ "kind": "a" }))).await, expected);
}

#[test]
fn l69_two_providers_have_two_names() {
    let mut providers = Providers::in_process(able("one"));
    providers.register("acp", able("two")).unwrap();
    let refused = providers.register("acp", able("three")).unwrap_err();
    assert_eq!(refused, ProviderError::Duplicate("acp".to_owned()));
    assert_eq!(refused.code(), "DUPLICATE_PROVIDER");
    let delegation = Delegation {
        parent: "main".into(),
        description: String::new(),
        prompt: String::new(),
        access: Access::FULL,
        directory: Some("/".into()),
        nature: Nature::default(),
    };
    assert!(providers.find("acp", &delegation).is_ok());
}

fn controlling(code: Option<ChildCode>) -> Bench {
    Bench::with(|options| {
        let tools = ["interrupt_agent", "list_agents", "send_message"];
        options.enabled.extend(tools.map(str::to_owned));
        options.children = Some(Arc::new(Port(code)));
    })
}

#[tokio::test]
async fn l72_orders_have_their_texts_and_refusals_their_codes() {
    let reporting = Toolset { reports: true, ..Toolset::default() };
    let calls = [
        (
            "send_message",
            json!({ "subagent_id": "k", "message": "m" }),
            "message queued as the next turn for subagent k",
        ),
        ("interrupt_agent", json!({ "agent_id": "k" }), "interrupt requested for agent k"),
        ("report", json!({ "output": "o" }), "report delivered"),
        (
            "list_agents",
            json!({}),
            "a running, 2 messages waiting — look\nb stored — look\nc idle, 1 message waiting — look",
        ),
    ];
    let bench = controlling(None);
    bench.registry.equip(&"main".into(), reporting.clone());
    for (name, arguments, expected) in &calls {
        let outcome = bench.start(name, &arguments.to_string()).outcome().await;
        assert_eq!(text(&outcome), *expected);
    }
    let blank = json!({ "subagent_id": "k", "message": " " });
    let expected = plain("invalid message: expected a non-empty string");
    assert_eq!(bench.error("send_message", blank).await, expected);
    let long = "x".repeat(WORDS_BYTES_MAX + 1);
    for (name, argument, arguments) in [
        ("send_message", "message", json!({ "subagent_id": "k", "message": long })),
        ("report", "output", json!({ "output": long })),
    ] {
        let expected =
            format!("invalid {argument}: it has 524289 bytes, and may have at most 524288");
        assert_eq!(bench.error(name, arguments).await, plain(&expected));
    }

    for code in [
        ChildCode::Unauthorized,
        ChildCode::ActivationClosing,
        ChildCode::Draining,
        ChildCode::ParentUnavailable,
        ChildCode::NotResumable,
        ChildCode::PersistenceUnavailable,
        ChildCode::Overloaded,
    ] {
        let bench = controlling(Some(code));
        bench.registry.equip(&"main".into(), reporting.clone());
        for (name, arguments, _) in &calls {
            let expected = coded("no", &format!("SubagentError/{}", code.as_str()));
            assert_eq!(bench.error(name, arguments.clone()).await, expected);
        }
    }
}

/// A tool of a test's own.
struct Named(&'static str, &'static str);

impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({ "type": "object", "properties": {} });
        ToolSpec { name: self.0.to_owned(), description: self.1.to_owned(), parameters }
    }

    fn run(&self, _: Call) -> Running {
        let says = self.1;
        Box::pin(async move { Ok(ToolOutcome::text(says)) })
    }
}

#[tokio::test]
async fn l53_a_sessions_own_tool_shadows_the_hosts_and_is_its_alone() {
    let mut bench = Bench::new();
    let session: SessionId = "main".into();
    bench.registry.register(Arc::new(Named("mine", "the host's"))).unwrap();
    bench.registry.register_for(&session, Arc::new(Named("mine", "its own"))).unwrap();
    bench.registry.register_for(&session, Arc::new(Named("a", "first by name"))).unwrap();
    let again = bench.registry.register_for(&session, Arc::new(Named("mine", "another")));
    assert!(matches!(&again, Err(RegistryError::DuplicateInScope(name)) if name == "mine"));
    assert_eq!(again.unwrap_err().to_string(), "tool \"mine\" is already registered in this scope");
    let twice = bench.registry.register(Arc::new(Named("mine", "another"))).unwrap_err();
    assert!(twice.to_string().starts_with("tool \"mine\" is already registered"));

    let specs = bench.registry.specs(&session);
    assert!(specs.is_sorted_by_key(|spec| spec.name.clone()), "L-95");
    let mine: Vec<_> = specs.iter().filter(|spec| spec.name == "mine").collect();
    assert_eq!((mine.len(), mine[0].description.as_str()), (1, "its own"));
    assert_eq!(text(&bench.start("mine", "{}").outcome().await), "its own");
    bench.session = "other";
    assert_eq!(text(&bench.start("mine", "{}").outcome().await), "the host's");
    assert_eq!(bench.error("a", json!({})).await.0, "unknown tool \"a\"");

    bench.session = "main";
    bench.registry.forget(&session);
    assert_eq!(bench.registry.scopes(), 0);
    assert_eq!(text(&bench.start("mine", "{}").outcome().await), "the host's");
}

#[tokio::test]
async fn l67_a_filtered_tool_is_unknown_to_that_session() {
    let mut bench = controlling(None);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let filters = vec![
        ToolFilter { allow: Some(names(&["read", "write", "bash"])), deny: Vec::new() },
        ToolFilter { allow: None, deny: names(&["b*"]) },
    ];
    bench.registry.equip(&"main".into(), Toolset { filters, reports: true });
    let told: Vec<_> =
        bench.registry.specs(&"main".into()).iter().map(|spec| spec.name.clone()).collect();
    assert_eq!(told, ["read", "report", "write"], "a report is no tool of the host's");
    let expected = coded("unknown tool \"bash\"", "ToolNotFoundError/UNKNOWN_TOOL");
    let bash = json!({ "command": "true", "description": "d" });
    assert_eq!(bench.error("bash", bash.clone()).await, expected);
    assert!(!bench.registry.is_parallel(&"main".into(), "glob", r#"{"pattern":"*"}"#));
    bench.session = "other";
    assert_eq!(text(&bench.start("bash", &bash.to_string()).outcome().await), "(no output)");
    assert_eq!(bench.error("report", json!({ "output": "o" })).await.0, "unknown tool \"report\"");
}
