//! Scripts that are played: the built-in one, and the documented examples.

use std::sync::{Arc, mpsc};

use serde_json::Value;
use tokio::time::Instant;
use transom_harness::{
    block::Block,
    chunk::{Assembler, BlockType, TokenUsage},
    message::{Message, Role, Source},
    ports::Served,
};

use super::*;

const GREETING: &str = include_str!("../../../../docs/examples/greeting.json");
const TOOLS: &str = include_str!("../../../../docs/examples/tools.json");
const FAILURES: &str = include_str!("../../../../docs/examples/failures.json");

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
    let source = Source::Model { provider: "scripted".into(), model: "scripted".into() };
    message(Role::Assistant, source, vec![Block::text("…")])
}

fn result(text: &str) -> Arc<Message> {
    let block = Block::ToolResult {
        tool_call_id: "c".into(),
        content: vec![Block::text(text)],
        is_error: false,
    };
    message(Role::User, Source::Tool { call_id: "c".into() }, vec![block])
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

/// The documentation shows what the examples hold.
#[test]
fn the_documentation_quotes_the_examples() {
    let page = include_str!("../../../../docs/scripted-model.md");
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted: Vec<&str> =
        page.split("```json\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert_eq!(quoted.len(), 3);
    for (quote, example) in quoted.into_iter().zip([GREETING, TOOLS, FAILURES]) {
        assert!(squeezed(example).contains(&squeezed(quote)), "{quote}");
    }
}
