//! Scripts that are played: the built-in one, and the documented examples.

use std::sync::{Arc, mpsc};

use serde_json::Value;
use tokio::time::Instant;
use transom_harness::{
    block::Block,
    chunk::{Assembler, BlockType, TokenUsage},
    message::{Form, Message, Role, Source},
    ports::Served,
};

use super::*;

const GREETING: &str = include_str!("../../../../docs/examples/greeting.json");
const TOOLS: &str = include_str!("../../../../docs/examples/tools.json");
const FAILURES: &str = include_str!("../../../../docs/examples/failures.json");
const DELEGATION: &str = include_str!("../../../../docs/examples/delegation.json");

fn scripted(text: &str) -> Scripted {
    Scripted::new(text.parse().unwrap_or_else(|error| panic!("{error}")))
}

fn message(role: Role, source: Source, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message { id: "m".into(), role, content, source })
}

fn user(text: &str) -> Arc<Message> {
    message(Role::User, Source::user(), vec![Block::text(text)])
}

fn context(text: &str) -> Arc<Message> {
    let source = Source::Plugin { plugin: "p".into(), form: None, sections: None, summary: None };
    message(Role::User, source, vec![Block::text(text)])
}

fn answered() -> Arc<Message> {
    let source =
        Source::Model { provider: "scripted".into(), model: "scripted".into(), partial: false };
    message(Role::Assistant, source, vec![Block::text("…")])
}

fn notice(text: &str) -> Arc<Message> {
    let form = Some(Form::Notice);
    let source = Source::Plugin { plugin: "p".into(), form, sections: None, summary: None };
    message(Role::User, source, vec![Block::text(text)])
}

fn result(text: &str) -> Arc<Message> {
    result_of("c", text)
}

fn result_of(id: &str, text: &str) -> Arc<Message> {
    let block = Block::ToolResult {
        tool_call_id: id.into(),
        content: vec![Block::text(text)],
        is_error: false,
    };
    message(Role::User, Source::Tool { call_id: id.into() }, vec![block])
}

/// The chunks of an answer, and how it ended.
async fn chunks(
    scripted: &Scripted,
    session: &str,
    messages: Vec<Arc<Message>>,
) -> (Vec<Chunk>, Finish) {
    let request = ModelRequest {
        session: session.into(),
        served: Served {
            provider: ID.into(),
            model: "scripted".into(),
            max_tokens: None,
            reasoning_effort: None,
            max_tokens_is_default: false,
            reasoning_effort_is_default: false,
            context_window: None,
            images: false,
        },
        system: None,
        messages,
        tools: Arc::from([]),
    };
    let (sender, chunks) = mpsc::sync_channel(4096);
    let out = Chunks::new(Box::new(move |chunk| drop(sender.send(chunk))));
    let finish = scripted.answer(request, &out).await;
    drop(out);
    let mut chunks: Vec<Chunk> = chunks.iter().collect();
    // The end that the abandoned channel gives itself.
    assert!(matches!(chunks.pop(), Some(Chunk::Finish { .. })));
    (chunks, finish)
}

/// An answer as a person would tell it: blocks, then the end.
async fn told(scripted: &Scripted, messages: Vec<Arc<Message>>) -> Vec<String> {
    let (chunks, finish) = chunks(scripted, "main", messages).await;
    let mut assembler = Assembler::default();
    chunks.iter().for_each(|chunk| assembler.push(chunk));
    let (blocks, _) = assembler.finish(&finish);
    let mut told: Vec<String> = blocks
        .iter()
        .map(|block| match block {
            Block::Text { text } => format!("text {text}"),
            Block::Reasoning { text } => format!("reasoning {text}"),
            Block::ToolCall { id, name, arguments } => format!("call {id} {name} {arguments}"),
            Block::ToolResult { .. } | Block::Raw(_) => panic!("{block:?}"),
        })
        .collect();
    told.push(match finish {
        Finish::Stop => "stop".to_owned(),
        Finish::ToolCalls => "tool-calls".to_owned(),
        Finish::MaxTokens => "max-tokens".to_owned(),
        Finish::Aborted { failure } | Finish::Error { failure } => {
            format!("{} {}", failure.code, failure.message)
        }
    });
    told
}

#[tokio::test(start_paused = true)]
async fn the_built_in_script_answers_sensibly() {
    let scripted = Scripted::new(Script::builtin());
    let table = [
        (
            vec![user("hello")],
            vec![
                "text Hello! I am the scripted model: no key, no network, the same answers every time. Ask me to show you a tool call, to show you reasoning or to count slowly; anything else I repeat.",
                "stop",
            ],
        ),
        (vec![user("What is {{prompt}}?")], vec!["text You said: What is {{prompt}}?", "stop"]),
        (
            vec![user("Show me a tool call, please")],
            vec![
                "reasoning A harmless command will show how tools work.",
                "text Let me ask the shell.",
                r#"call call-1-1 bash {"command":"echo hello from transom","description":"Say hello"}"#,
                "tool-calls",
            ],
        ),
        (
            vec![user("Show me a tool call"), context("hello"), answered(), result("hi\n")],
            vec!["text The tool answered:\nhi\n", "stop"],
        ),
        // A new turn begins a new count, and call ids go on.
        (
            vec![user("hello"), answered(), user("run a command")],
            vec![
                "reasoning A harmless command will show how tools work.",
                "text Let me ask the shell.",
                r#"call call-2-1 bash {"command":"echo hello from transom","description":"Say hello"}"#,
                "tool-calls",
            ],
        ),
        (
            vec![user("show me reasoning")],
            vec![
                "reasoning There is nothing to find out here, but it looks like this.",
                "text That was my reasoning; this is the answer.",
                "stop",
            ],
        ),
        (vec![user("count slowly")], vec!["text one two three four five", "stop"]),
    ];
    for (messages, expected) in table {
        assert_eq!(told(&scripted, messages).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_greeting_example_plays() {
    let scripted = scripted(GREETING);
    let begun = Instant::now();
    let (chunks, finish) = chunks(&scripted, "main", vec![user("Good morning")]).await;
    let text = |index, text: &str| Chunk::TextDelta { index, text: text.into() };
    let usage = TokenUsage {
        input_tokens: 11,
        output_tokens: 5,
        cache_read_tokens: None,
        cache_write_tokens: None,
        reasoning_tokens: None,
    };
    let thought = "A greeting wants a greeting.";
    assert_eq!(
        chunks,
        [
            Chunk::BlockStart { index: 0, block_type: BlockType::Reasoning },
            Chunk::ReasoningDelta { index: 0, text: thought.into() },
            Chunk::BlockStart { index: 1, block_type: BlockType::Text },
            text(1, "Good "),
            text(1, "morning!"),
            Chunk::BlockEnd { index: 0, block: Block::Reasoning { text: thought.into() } },
            Chunk::BlockEnd { index: 1, block: Block::text("Good morning!") },
            Chunk::Usage { usage },
        ]
    );
    assert_eq!((finish, begun.elapsed().as_millis()), (Finish::Stop, 0));
    assert_eq!(
        told(&scripted, vec![user("good morning")]).await,
        ["text You said: good morning", "stop"]
    );
    assert_eq!(
        told(&scripted, vec![user("GOOD NIGHT")]).await,
        ["text Sleep well, and come back.", "stop"]
    );
    assert_eq!(begun.elapsed().as_millis(), 200);
}

#[tokio::test]
async fn the_tools_example_plays() {
    let scripted = scripted(TOOLS);
    assert_eq!(scripted.offer("").model.as_deref(), Some("toolsmith"));
    let table = [
        (
            vec![user("List the files")],
            vec![
                "text I look.",
                r#"call call-1-1 bash {"command":"ls","description":"List the files"}"#,
                "tool-calls",
            ],
        ),
        (
            vec![user("list the files"), answered(), result("a\nb")],
            vec!["text There are:\na\nb", "stop"],
        ),
        (
            vec![user("in pieces")],
            vec![
                r#"call call-of-mine bash {"command": "echo hi", "description": "Say hi"}"#,
                "tool-calls",
            ],
        ),
        (vec![user("broken")], vec!["call call-1-1 bash not json", "tool-calls"]),
        (vec![user("broken"), answered(), result("")], vec!["text Done in 2 steps.", "stop"]),
    ];
    for (messages, expected) in table {
        assert_eq!(told(&scripted, messages).await, expected);
    }
    let (chunks, _) = chunks(&scripted, "main", vec![user("in pieces")]).await;
    let fragments: Vec<&str> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::ToolCallDelta { arguments_delta, .. } => Some(arguments_delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(fragments, [r#"{"command": "ec"#, r#"ho hi", "description": "#, r#""Say hi"}"#]);
}

#[tokio::test]
async fn the_failures_example_plays() {
    let scripted = scripted(FAILURES);
    let offer = scripted.offer("");
    assert_eq!((offer.images, offer.context_window), (true, Some(32_000)));
    assert_eq!(scripted.retry_policy().initial_delay_ms, 1);
    let stumbled = ["text Half an ans", "SERVER the provider stumbled"];
    let table = [
        ("flaky", &stumbled[..]),
        ("flaky again", &stumbled[..]),
        ("flaky", &["text At the third attempt.", "stop"]),
        ("busy", &["RATE_LIMIT too many requests"]),
        ("cut", &["text The line goes", "STREAM_CLOSED the script cuts the stream before its end"]),
        ("too long", &["text And so on and so", "max-tokens"]),
        ("silence", &["EMPTY_RESPONSE model returned a completed response with no content"]),
        ("else", &["INVALID_REQUEST no rule of the script is for step 1 of \"else\""]),
    ];
    for (prompt, expected) in table {
        assert_eq!(told(&scripted, vec![user(prompt)]).await, expected, "{prompt}");
    }
    // Another session has its own uses.
    let (_, finish) = chunks(&scripted, "other", vec![user("flaky")]).await;
    assert!(matches!(finish, Finish::Error { .. }), "{finish:?}");
    let (_, finish) = chunks(&scripted, "main", vec![user("busy")]).await;
    let Finish::Error { failure } = finish else { panic!("{finish:?}") };
    assert_eq!(
        serde_json::to_value(failure).unwrap(),
        serde_json::from_str::<Value>(
            r#"{"message":"too many requests","code":"RATE_LIMIT","status":429,"providerRetryAfterMs":5,"requestId":"req-1"}"#
        )
        .unwrap()
    );
}

/// Decision 39: the script says whether images may come.
#[tokio::test]
async fn images_pass_where_they_are_declared() {
    let image = || {
        let image: Block = serde_json::from_str(r#"{"type":"image","attachment":{}}"#).unwrap();
        vec![message(Role::User, Source::user(), vec![Block::text("look"), image])]
    };
    let with = scripted(r#"{"images": true, "rules": [{"answer": [{"text": "{{prompt}}"}]}]}"#);
    assert_eq!(told(&with, image()).await, ["text look", "stop"]);
    let without = scripted(r#"{"rules": [{"answer": [{"text": "{{prompt}}"}]}]}"#);
    assert_eq!(
        told(&without, image()).await,
        ["UNSUPPORTED_CONTENT the script does not declare images"]
    );
}

/// What a person says cannot break out of the arguments it is filled into.
#[tokio::test]
async fn prompts_are_filled_in_as_text() {
    let scripted = scripted(
        r#"{"rules": [{"answer": [{"tool": {"name": "t", "arguments": {"a": ["<{{prompt}}>", 1], "b": {"c": "{{step}}"}}}}]}]}"#,
    );
    let told = told(&scripted, vec![user("\", \"x\": {{result}}")]).await;
    let expected = r#"call call-1-1 t {"a":["<\", \"x\": {{result}}>",1],"b":{"c":"1"}}"#;
    assert_eq!(told, [expected, "tool-calls"]);
}

/// Counting uses does not keep every session that ever was.
#[test]
fn the_oldest_session_is_forgotten_first() {
    let mut uses = Uses::default();
    let session = |number: usize| SessionId::from(number.to_string());
    for number in 0..=SESSIONS_MAX {
        assert!(uses.take(&session(number), 0, 1));
    }
    assert_eq!((uses.counts.len(), uses.order.len()), (SESSIONS_MAX, SESSIONS_MAX));
    assert!(!uses.take(&session(SESSIONS_MAX), 0, 1));
    assert!(uses.take(&session(0), 0, 1));
}

/// Both sides of a delegation, and a job that ends while nobody asks.
#[tokio::test]
async fn the_delegation_example_plays() {
    let scripted = scripted(DELEGATION);
    let delegate = || user("Delegate: what is in the directory /tmp/x?");
    let job = || user("In the background, please");
    let started = || result_of("call-1-1", "started background job bash-7");
    let ended = || {
        notice("background job bash-7 (bash: sleep) finished [status: completed, exit code: 0].")
    };
    let table = [
        (
            vec![delegate()],
            vec![
                "reasoning Two children can work at once.",
                r#"call count subagent {"description":"Count files","prompt":"You are the counter. Look into the directory /tmp/x, please."}"#,
                r#"call call-1-2 subagent {"description":"Write a poem","prompt":"You are the poet."}"#,
                "tool-calls",
            ],
        ),
        (
            vec![user("You are the counter. Look into the directory /tmp/x, please.")],
            vec!["text There are 3 files in /tmp/x.", "stop"],
        ),
        (vec![user("You are the poet.")], vec!["text Three files lay in a", "max-tokens"]),
        (
            vec![delegate(), answered(), result_of("count", "3"), result_of("call-1-2", "none")],
            vec!["text The counter: 3\nThe poet: none", "stop"],
        ),
        (
            vec![job()],
            vec![
                r#"call call-1-1 bash {"command":"sleep 1; echo done","description":"Be slow","run_in_background":true}"#,
                "tool-calls",
            ],
        ),
        (vec![job(), answered(), started()], vec!["text bash-7 is on its way.", "stop"]),
        // The end comes in a turn of its own, or in time for the step that follows the start.
        (
            vec![job(), answered(), started(), answered(), ended()],
            vec![r#"call call-3-1 job_output {"job_id":"bash-7"}"#, "tool-calls"],
        ),
        (
            vec![job(), answered(), started(), ended()],
            vec![r#"call call-2-1 job_output {"job_id":"bash-7"}"#, "tool-calls"],
        ),
        // What was answered is no news.
        (
            vec![job(), answered(), started(), answered(), ended(), answered(), result("done")],
            vec!["text It said: done", "stop"],
        ),
    ];
    for (messages, expected) in table {
        assert_eq!(told(&scripted, messages).await, expected);
    }
}

/// A script that is wrong about the tools says so, instead of calling them with less than it meant.
#[tokio::test]
async fn a_place_that_is_not_there_fails_the_attempt() {
    let scripted = scripted(
        r#"{"rules": [
            {"when": {"step": 1}, "answer": [{"text": "a"}, {"tool": {"name": "t", "arguments": {"x": ["{{result.c}}"]}}}]},
            {"when": {"step": 2}, "answer": [{"reasoning": "{{result after id }}"}]}
        ]}"#,
    );
    let missing = "INVALID_REQUEST there is no result \"c\" since the prompt, only those of []";
    assert_eq!(told(&scripted, vec![user("go")]).await, ["text a", missing]);
    let told = told(&scripted, vec![user("go"), answered(), result("no such word")]).await;
    assert_eq!(told, ["INVALID_REQUEST no word follows \"id\" in \"no such word\""]);
}

/// The documentation shows what the examples hold, and every example is played above.
#[test]
fn the_documentation_quotes_the_examples() {
    let page = include_str!("../../../../docs/scripted-model.md");
    let (page, mistakes) = page.split_once("## What a mistake looks like").unwrap();
    let played = [
        ("greeting.json", GREETING),
        ("tools.json", TOOLS),
        ("failures.json", FAILURES),
        ("delegation.json", DELEGATION),
    ];
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = fenced(page, "json");
    assert_eq!(quoted.len(), played.len());
    for (quote, (name, example)) in quoted.into_iter().zip(played) {
        assert!(squeezed(example).contains(&squeezed(quote)), "{quote}");
        assert!(page.contains(&format!("(examples/{name})")), "{name}");
    }
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut known = played.map(|(name, _)| name);
    known.sort_unstable();
    assert_eq!(names, known);
    let (scripts, complaints) = (fenced(mistakes, "json"), fenced(mistakes, "text"));
    assert_eq!((scripts.len(), complaints.len()), (1, 1));
    let error = scripts[0].parse::<Script>().unwrap_err();
    assert_eq!(error.to_string(), complaints[0].trim());
}

/// The blocks of a page in this language.
fn fenced<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let blocks = page.split(&format!("```{language}\n")).skip(1).collect::<Vec<_>>();
    blocks.into_iter().filter_map(|part| part.split("```").next()).collect()
}
