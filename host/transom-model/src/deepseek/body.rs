//! The body of a chat-completions request (L-88 to L-90). Sending it is left to the provider.

use serde::Serialize;
use serde_json::Value;
use transom_harness::{
    block::Block,
    chunk::LlmFailure,
    message::{Message, Role},
    ports::{ModelRequest, ToolSpec},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Entry<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tag {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Entry<'a> {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
    /// The system prompt, which is long and not ours to copy.
    #[serde(rename = "system")]
    Prompt {
        content: &'a str,
    },
}

#[derive(Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// The request as JSON text. Without `thinking` it asks for none even where no effort was chosen.
pub(super) fn render(request: &ModelRequest, thinking: bool) -> Result<Vec<u8>, LlmFailure> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = request.system.as_deref().filter(|system| !system.is_empty()) {
        messages.push(Entry::Prompt { content: system });
    }
    for message in &request.messages {
        add(&mut messages, message)?;
    }
    let effort = request.served.reasoning_effort.as_deref();
    let effort = if thinking { effort } else { Some("off") };
    let body = Body {
        model: &request.served.model,
        messages,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        thinking: effort
            .map(|effort| Tag { kind: if effort == "off" { "disabled" } else { "enabled" } }),
        reasoning_effort: effort.filter(|effort| *effort != "off"),
        tools: request.tools.iter().map(declare).collect(),
        max_tokens: request.served.max_tokens,
    };
    serde_json::to_vec(&body).map_err(|error| {
        LlmFailure::new(
            "INVALID_REQUEST",
            format!("the request could not be written as JSON: {error}"),
        )
    })
}

fn declare(tool: &ToolSpec) -> Tool<'_> {
    Tool {
        kind: "function",
        function: Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        },
    }
}

fn add(messages: &mut Vec<Entry<'_>>, message: &Message) -> Result<(), LlmFailure> {
    let mut parts = Parts::default();
    for block in &message.content {
        parts.take(&block.typed())?;
    }
    let Parts { text, reasoning, calls, results } = parts;
    match message.role {
        Role::System => messages.push(Entry::System { content: text }),
        Role::Assistant => {
            // Reasoning belongs to the calls it led to; without calls the API refuses it.
            let reasoning_content =
                Some(reasoning).filter(|text| !text.is_empty() && !calls.is_empty());
            messages.push(Entry::Assistant { content: text, reasoning_content, tool_calls: calls });
        }
        Role::User => {
            if results.is_empty() || !text.is_empty() {
                messages.push(Entry::User { content: text });
            }
            messages.extend(results);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Parts<'a> {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    results: Vec<Entry<'a>>,
}

impl Parts<'_> {
    fn take(&mut self, block: &Block) -> Result<(), LlmFailure> {
        match block {
            Block::Text { text } => self.text.push_str(text),
            Block::Reasoning { text } => self.reasoning.push_str(text),
            Block::ToolCall { id, name, arguments } => self.calls.push(Call {
                id: id.clone(),
                kind: "function",
                function: Function { name: name.clone(), arguments: arguments.clone() },
            }),
            Block::ToolResult { tool_call_id, content, .. } => {
                let mut inner = Parts::default();
                for block in content {
                    inner.take(&block.typed())?;
                }
                let content =
                    if inner.text.is_empty() { "(no output)".to_owned() } else { inner.text };
                self.results.push(Entry::Tool { tool_call_id: tool_call_id.clone(), content });
            }
            Block::Raw(_) => return Err(unsupported(&block.kind())),
        }
        Ok(())
    }
}

fn unsupported(kind: &str) -> LlmFailure {
    let what = if kind == "image" { "image".to_owned() } else { format!("\"{kind}\"") };
    LlmFailure::new(
        "UNSUPPORTED_CONTENT",
        format!("The DeepSeek chat-completions adapter does not support {what} content."),
    )
}

#[cfg(test)]
mod tests;
