//! What a script may react to: where a conversation stands when the model is asked.

use std::{borrow::Cow, sync::Arc};

use transom_harness::{
    block::Block,
    message::{Message, Role, Source},
};

/// The conversation as rules see it.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Text of the last message of a person.
    pub(super) prompt: String,
    /// Text of the last tool result, if it is newer than the prompt.
    pub(super) result: String,
    /// 1 for the first request after the prompt.
    pub(super) step: u64,
    /// Answers of the model in the whole conversation.
    pub(super) answers: u64,
    /// Whether any message has an image.
    pub(super) has_image: bool,
}

/// Text with places to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Prompt,
    Result,
    Step,
}

impl Scene {
    pub(super) fn read(messages: &[Arc<Message>]) -> Scene {
        let mut scene = Scene { step: 1, ..Scene::default() };
        for message in messages {
            scene.has_image |= message.content.iter().any(is_image);
            match (message.role, &message.source) {
                (Role::Assistant, _) => {
                    scene.step += 1;
                    scene.answers += 1;
                }
                (Role::User, Source::User { .. }) => {
                    scene.step = 1;
                    scene.result.clear();
                    scene.prompt = text(&message.content);
                }
                (Role::User, Source::Tool { .. }) => scene.result = result(&message.content),
                // Context and notices are put between prompt and answer; no person says them.
                (Role::User, Source::Plugin { .. } | Source::Model { .. }) | (Role::System, _) => {}
            }
        }
        scene
    }

    pub(super) fn fill(&self, template: &Template) -> String {
        let step = self.step.to_string();
        let parts = template.0.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Prompt => &self.prompt,
            Part::Result => &self.result,
            Part::Step => &step,
        });
        parts.collect()
    }

    /// Why there is no answer.
    pub(super) fn unanswered(&self) -> String {
        let start: String = self.prompt.chars().take(80).collect();
        format!("no rule of the script is for step {} of \"{start}\"", self.step)
    }
}

impl Template {
    /// The name of a place that does not exist is the error.
    pub(super) fn read(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, behind)) = after.split_once("}}") else { break };
            parts.push(Part::Text(before.to_owned()));
            parts.push(match name {
                "prompt" => Part::Prompt,
                "result" => Part::Result,
                "step" => Part::Step,
                _ => return Err(name.to_owned()),
            });
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Template(parts))
    }
}

fn is_image(block: &Block) -> bool {
    match block.typed() {
        Cow::Owned(Block::ToolResult { content, .. }) => content.iter().any(is_image),
        Cow::Borrowed(Block::ToolResult { content, .. }) => content.iter().any(is_image),
        block => block.kind() == "image",
    }
}

fn text(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block.typed().into_owned() {
        Block::Text { text } => Some(text),
        Block::Reasoning { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. }
        | Block::Raw(_) => None,
    });
    texts.collect()
}

fn result(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block.typed().into_owned() {
        Block::ToolResult { content, .. } => Some(text(&content)),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolCall { .. } | Block::Raw(_) => {
            None
        }
    });
    texts.collect()
}
