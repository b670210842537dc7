//! What a script may react to: where a conversation stands when the model is asked.

use std::{borrow::Cow, sync::Arc};

use transom_harness::{
    block::Block,
    image::ImageReference,
    message::{Form, Message, Role, Source},
};

/// The conversation as rules see it.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Text of the last message of a person.
    pub(super) prompt: String,
    /// Tool results since the prompt, oldest first: the id of the call, and the text.
    pub(super) results: Vec<(String, String)>,
    /// Text of the notices since the model's last answer.
    pub(super) notice: String,
    /// 1 for the first request after the prompt.
    pub(super) step: u64,
    /// Answers of the model in the whole conversation.
    pub(super) answers: u64,
    /// Whether any message has an image.
    pub(super) has_image: bool,
    /// Images of the prompt and of the results since, where the log names them.
    pub(super) named: Vec<ImageReference>,
    /// What those images are, once they were looked at.
    pub(super) images: String,
}

impl Scene {
    pub(super) fn read(messages: &[Arc<Message>]) -> Scene {
        let mut scene = Scene { step: 1, ..Scene::default() };
        for message in messages {
            match (message.role, &message.source) {
                (Role::Assistant, _) => {
                    scene.step += 1;
                    scene.answers += 1;
                    scene.notice.clear();
                }
                // Whoever coordinates a session speaks to it as a person would.
                (Role::User, Source::User { .. } | Source::Coordinator { .. }) => {
                    scene.step = 1;
                    scene.results.clear();
                    scene.named.clear();
                    scene.prompt = text(&message.content);
                }
                (Role::User, Source::Tool { call_id }) => {
                    scene.results.push((call_id.clone(), result(&message.content)));
                }
                (
                    Role::User,
                    Source::Plugin { form: Some(Form::Notice), .. }
                    | Source::SubagentReport { .. }
                    | Source::SubagentSettled { .. },
                ) => {
                    scene.notice.push_str(&text(&message.content));
                    scene.notice.push('\n');
                }
                // Context is put between prompt and answer; no person says it.
                (Role::User, Source::Plugin { .. } | Source::Model { .. }) | (Role::System, _) => {}
            }
            scene.has_image |= message.content.iter().any(is_image);
            name_images(&message.content, &mut scene.named);
        }
        scene
    }

    /// Why there is no answer.
    pub(super) fn unanswered(&self) -> String {
        let start: String = self.prompt.chars().take(80).collect();
        format!("no rule of the script is for step {} of \"{start}\"", self.step)
    }
}

fn is_image(block: &Block) -> bool {
    match block.typed() {
        Cow::Owned(Block::ToolResult { content, .. }) => content.iter().any(is_image),
        Cow::Borrowed(Block::ToolResult { content, .. }) => content.iter().any(is_image),
        block => block.kind() == "image",
    }
}

fn name_images(content: &[Block], named: &mut Vec<ImageReference>) {
    for block in content {
        match block.typed().as_ref() {
            Block::ToolResult { content, .. } => name_images(content, named),
            block => named.extend(ImageReference::read(block)),
        }
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
