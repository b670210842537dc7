//! What a model streams (L-14, L-15), and the assembler that makes blocks of it (L-16).

use serde::{Deserialize, Serialize};

use crate::block::Block;

/// One piece of a model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Chunk {
    #[serde(rename_all = "camelCase")]
    BlockStart {
        index: u32,
        block_type: BlockType,
    },
    TextDelta {
        index: u32,
        text: String,
    },
    ReasoningDelta {
        index: u32,
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    ToolCallDelta {
        index: u32,
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        arguments_delta: String,
    },
    BlockEnd {
        index: u32,
        block: Block,
    },
    Usage {
        usage: TokenUsage,
    },
    /// Ends the attempt; nothing follows.
    Finish {
        reason: Finish,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockType {
    Text,
    Reasoning,
    ToolCall,
}

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finish {
    Stop,
    ToolCalls,
    MaxTokens,
    Aborted { failure: LlmFailure },
    Error { failure: LlmFailure },
}

/// Counts of one attempt; input excludes what came from the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// How a model call failed. `code` is one of S-90.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmFailure {
    pub message: String,
    pub code: String,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl LlmFailure {
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
        let blocks =
            blocks.filter(|block| !(cut && matches!(block, Block::ToolCall { .. }))).collect();
        (blocks, self.usage)
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
