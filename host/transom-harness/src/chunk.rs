//! What a model streams (L-14, L-15), and the assembler that makes blocks of it (L-16).

use serde::{Deserialize, Serialize};

use crate::block::Block;

/// One piece of a model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Chunk {
    /// `block-start`: a block opens, still empty.
    #[serde(rename_all = "camelCase")]
    BlockStart {
        /// Names the block within the attempt; need not be contiguous.
        index: u32,
        /// Decides what its deltas are.
        block_type: BlockType,
    },
    /// `text-delta`: more of a text block; opens it where it is unknown (L-16).
    TextDelta {
        /// The block it belongs to.
        index: u32,
        /// To be added at the end.
        text: String,
    },
    /// `reasoning-delta`: more of a reasoning block; opens it where it is unknown (L-16).
    ReasoningDelta {
        /// The block it belongs to.
        index: u32,
        /// To be added at the end.
        text: String,
    },
    /// `tool-call-delta`: more of a tool call; opens it where it is unknown (L-16).
    #[serde(rename_all = "camelCase")]
    ToolCallDelta {
        /// The block it belongs to.
        index: u32,
        /// The call's id; empty where this delta does not repeat it.
        id: String,
        /// The tool's whole name, on deltas that give it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Raw text to be added to the arguments.
        arguments_delta: String,
    },
    /// `block-end`: the block is complete; what comes for it later is ignored (L-16).
    BlockEnd {
        /// The block that ends.
        index: u32,
        /// Counts instead of what the deltas gave.
        block: Block,
    },
    /// `usage`: the attempt's counts; the last one counts (L-16).
    Usage {
        /// For the whole attempt, not since the last chunk.
        usage: TokenUsage,
    },
    /// Ends the attempt; nothing follows.
    Finish {
        /// Also decides whether tool calls are kept.
        reason: Finish,
    },
}

/// What an open block will become (L-14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockType {
    /// `text`: grows by text deltas.
    Text,
    /// `reasoning`: grows by reasoning deltas.
    Reasoning,
    /// `tool-call`: grows by tool-call deltas.
    ToolCall,
}

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finish {
    /// `stop`: the model has said all it wanted.
    Stop,
    /// `tool-calls`: the model waits for the results of its calls.
    ToolCalls,
    /// `max-tokens`: the output cap cut the answer; its tool calls are dropped (L-16).
    MaxTokens,
    /// `aborted`: this side stopped the attempt.
    Aborted {
        /// Its code is `ABORTED`.
        failure: LlmFailure,
    },
    /// `error`: the attempt failed; its retry policy decides what follows.
    Error {
        /// Its code is what the policy looks at.
        failure: LlmFailure,
    },
}

/// Counts of one attempt; input excludes what came from the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Read anew, so without those of the cache.
    pub input_tokens: u64,
    /// Written by the model.
    pub output_tokens: u64,
    /// Read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Put into the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Spent on reasoning, where the provider tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// How a model call failed. `code` is one of S-90.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmFailure {
    /// For people; it may be the provider's own words.
    pub message: String,
    /// For programs, for example `RATE_LIMIT`.
    pub code: String,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_retry_after_ms: Option<u64>,
    /// The provider's name for the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl LlmFailure {
    /// A failure without what an HTTP response would add.
    pub fn new(code: &str, message: impl Into<String>) -> LlmFailure {
        LlmFailure {
            message: message.into(),
            code: code.to_owned(),
            status: None,
            provider_retry_after_ms: None,
            request_id: None,
        }
    }
}

/// Makes blocks of chunks. Total: any sequence of chunks gives an answer.
#[derive(Debug, Default)]
pub struct Assembler {
    open: Vec<Open>,
    usage: Option<TokenUsage>,
}

#[derive(Debug)]
struct Open {
    index: u32,
    kind: BlockType,
    text: String,
    call_id: String,
    call_name: String,
    ended: Option<Block>,
}

impl Assembler {
    /// Takes the next chunk; those for a block that has ended change nothing (L-16).
    pub fn push(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::BlockStart { index, block_type } => {
                self.block(*index, *block_type);
            }
            Chunk::TextDelta { index, text } => self.extend(*index, BlockType::Text, text),
            Chunk::ReasoningDelta { index, text } => {
                self.extend(*index, BlockType::Reasoning, text)
            }
            Chunk::ToolCallDelta { index, id, name, arguments_delta } => {
                let block = self.block(*index, BlockType::ToolCall);
                if block.ended.is_none() {
                    block.text.push_str(arguments_delta);
                    if !id.is_empty() {
                        block.call_id.clone_from(id);
                    }
                    if let Some(name) = name {
                        block.call_name.clone_from(name);
                    }
                }
            }
            Chunk::BlockEnd { index, block } => {
                let kind = match block {
                    Block::Reasoning { .. } => BlockType::Reasoning,
                    Block::ToolCall { .. } => BlockType::ToolCall,
                    Block::Text { .. } | Block::ToolResult { .. } | Block::Raw(_) => {
                        BlockType::Text
                    }
                };
                let open = self.block(*index, kind);
                if open.ended.is_none() {
                    open.ended = Some(block.clone());
                }
            }
            Chunk::Usage { usage } => self.usage = Some(*usage),
            Chunk::Finish { .. } => {}
        }
    }

    /// The blocks in first-seen order and the last usage. After the limit was hit no tool call is
    /// kept: its arguments may be cut.
    pub fn finish(self, reason: &Finish) -> (Vec<Block>, Option<TokenUsage>) {
        let cut = matches!(reason, Finish::MaxTokens);
        let blocks = self.open.into_iter().map(Open::close);
        let is_call = |block: &Block| matches!(block.typed().as_ref(), Block::ToolCall { .. });
        let blocks = blocks.filter(|block| !(cut && is_call(block))).collect();
        (blocks, self.usage)
    }

    /// The text that has come so far, of an answer that will not be finished; empty where there is none (L-48).
    pub fn partial(self) -> (Vec<Block>, Option<TokenUsage>) {
        let texts = self.open.into_iter().map(Open::close).filter(
            |block| matches!(block.typed().as_ref(), Block::Text { text } if !text.is_empty()),
        );
        (texts.collect(), self.usage)
    }

    fn extend(&mut self, index: u32, kind: BlockType, text: &str) {
        let block = self.block(index, kind);
        if block.ended.is_none() {
            block.text.push_str(text);
        }
    }

    fn block(&mut self, index: u32, kind: BlockType) -> &mut Open {
        let at = self.open.iter().position(|open| open.index == index).unwrap_or_else(|| {
            self.open.push(Open {
                index,
                kind,
                text: String::new(),
                call_id: String::new(),
                call_name: String::new(),
                ended: None,
            });
            self.open.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "`at` was found in, or pushed to, this vector")]
        &mut self.open[at]
    }
}

impl Open {
    fn close(self) -> Block {
        if let Some(block) = self.ended {
            return block;
        }
        match self.kind {
            BlockType::Text => Block::Text { text: self.text },
            BlockType::Reasoning => Block::Reasoning { text: self.text },
            BlockType::ToolCall => Block::ToolCall {
                id: if self.call_id.is_empty() {
                    format!("call-{}", self.index)
                } else {
                    self.call_id
                },
                name: self.call_name,
                arguments: self.text,
            },
        }
    }
}
