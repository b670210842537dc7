//! The two halves of an answer under way: the channel to the loop, which always hears an end, and
//! the blocks that deltas add up to. What the deltas are is each provider's own matter.

use std::collections::HashSet;

use transom_harness::{
    block::Block,
    chunk::{BlockType, Chunk, Finish, LlmFailure, TokenUsage},
    ports::Sink,
};

/// Where a provider puts the chunks of one attempt. The end is not its to say: it returns it.
pub struct Chunks {
    sink: Option<Sink<Chunk>>,
}

impl Chunks {
    pub(crate) fn new(sink: Sink<Chunk>) -> Chunks {
        Chunks { sink: Some(sink) }
    }

    /// Hands one chunk to the loop.
    pub fn put(&self, chunk: Chunk) {
        if let Some(sink) = &self.sink {
            sink(chunk);
        }
    }

    pub(crate) fn finish(mut self, reason: Finish) {
        if let Some(sink) = self.sink.take() {
            sink(Chunk::Finish { reason });
        }
    }
}

/// The loop waits for an end, so an attempt whose task is dropped (its runtime shut down) has one too.
impl Drop for Chunks {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink(Chunk::Finish { reason: aborted() });
        }
    }
}

/// How a stopped attempt ends.
pub(crate) fn aborted() -> Finish {
    Finish::Aborted { failure: LlmFailure::new("ABORTED", "the model call was stopped") }
}

/// What a chunk costs beside the text it carries. Chunks are kept one by one, in memory and in the
/// log: an answer of empty fragments is not free.
const CHUNK_BYTES: usize = 64;

/// The blocks of one answer in opening order: at most one of text and one of reasoning, any number
/// of tool calls (L-91). The block-ends come last (L-92).
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    open: Vec<Open>,
    text: Option<usize>,
    reasoning: Option<usize>,
    calls: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Open {
    Text(String),
    Reasoning(String),
    Call(Call),
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: Option<String>,
    arguments: String,
}

impl Blocks {
    /// Adds text to the answer. Nothing comes of an empty fragment.
    pub(crate) fn text(&mut self, out: &mut impl FnMut(Chunk), fragment: &str) {
        if fragment.is_empty() {
            return;
        }
        let at = match self.text {
            Some(at) => at,
            None => {
                let at = self.open(out, BlockType::Text, Open::Text(String::new()));
                self.text = Some(at);
                at
            }
        };
        if let Some(Open::Text(text)) = self.open.get_mut(at) {
            text.push_str(fragment);
            self.bytes += CHUNK_BYTES + fragment.len();
            out(Chunk::TextDelta { index: index(at), text: fragment.to_owned() });
        }
    }

    /// Adds to the reasoning. Nothing comes of an empty fragment.
    pub(crate) fn reasoning(&mut self, out: &mut impl FnMut(Chunk), fragment: &str) {
        if fragment.is_empty() {
            return;
        }
        let at = match self.reasoning {
            Some(at) => at,
            None => {
                let at = self.open(out, BlockType::Reasoning, Open::Reasoning(String::new()));
                self.reasoning = Some(at);
                at
            }
        };
        if let Some(Open::Reasoning(text)) = self.open.get_mut(at) {
            text.push_str(fragment);
            self.bytes += CHUNK_BYTES + fragment.len();
            out(Chunk::ReasoningDelta { index: index(at), text: fragment.to_owned() });
        }
    }

    /// Opens a block for a tool call and returns the handle for [`Blocks::call`].
    pub(crate) fn open_call(&mut self, out: &mut impl FnMut(Chunk)) -> usize {
        self.calls += 1;
        self.open(out, BlockType::ToolCall, Open::Call(Call::default()))
    }

    /// Adds a fragment of arguments, even an empty one; an id or a name that is not empty replaces
    /// what was known.
    pub(crate) fn call(
        &mut self,
        out: &mut impl FnMut(Chunk),
        at: usize,
        id: Option<&str>,
        name: Option<&str>,
        fragment: &str,
    ) {
        let Some(Open::Call(call)) = self.open.get_mut(at) else { return };
        if let Some(id) = id.filter(|id| !id.is_empty()) {
            id.clone_into(&mut call.id);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            call.name = Some(name.to_owned());
        }
        call.arguments.push_str(fragment);
        // Every delta repeats id and name (L-91).
        self.bytes += CHUNK_BYTES + call.id.len() + fragment.len();
        self.bytes += call.name.as_ref().map_or(0, String::len);
        out(Chunk::ToolCallDelta {
            index: index(at),
            id: call.id.clone(),
            name: call.name.clone(),
            arguments_delta: fragment.to_owned(),
        });
    }

    /// Ends every block, tells the usage, and judges whether there was an answer at all.
    pub(crate) fn close(
        self,
        out: &mut impl FnMut(Chunk),
        usage: Option<TokenUsage>,
        finish: Finish,
    ) -> Finish {
        let empty = match finish {
            Finish::Stop => self.open.is_empty(),
            Finish::ToolCalls => self.calls == 0,
            Finish::MaxTokens | Finish::Aborted { .. } | Finish::Error { .. } => false,
        };
        for (at, open) in self.open.into_iter().enumerate() {
            out(Chunk::BlockEnd { index: index(at), block: open.close(at) });
        }
        if let Some(usage) = usage {
            out(Chunk::Usage { usage });
        }
        if !empty {
            return finish;
        }
        let message = match finish {
            Finish::ToolCalls => "model returned a tool-calls finish with no tool call",
            Finish::Stop | Finish::MaxTokens | Finish::Aborted { .. } | Finish::Error { .. } => {
                "model returned a completed response with no content"
            }
        };
        Finish::Error { failure: LlmFailure::new("EMPTY_RESPONSE", message) }
    }

    /// How many tools have been called.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// What the chunks so far take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// An id that two calls have: their results could not be told apart.
    pub(crate) fn shared_id(&self) -> Option<String> {
        let mut ids = HashSet::new();
        let mut calls = self.open.iter().enumerate().filter_map(|(at, open)| match open {
            Open::Call(call) => Some(call.id_at(at)),
            Open::Text(_) | Open::Reasoning(_) => None,
        });
        calls.find(|id| !ids.insert(id.clone()))
    }

    fn open(&mut self, out: &mut impl FnMut(Chunk), block_type: BlockType, open: Open) -> usize {
        let at = self.open.len();
        self.open.push(open);
        self.bytes += CHUNK_BYTES;
        out(Chunk::BlockStart { index: index(at), block_type });
        at
    }
}

impl Call {
    /// L-94: a result could not be paired with a call that has no id.
    fn id_at(&self, at: usize) -> String {
        if self.id.is_empty() { format!("call-{at}") } else { self.id.clone() }
    }
}

impl Open {
    fn close(self, at: usize) -> Block {
        match self {
            Open::Text(text) => Block::Text { text },
            Open::Reasoning(text) => Block::Reasoning { text },
            Open::Call(call) => Block::ToolCall {
                id: call.id_at(at),
                name: call.name.unwrap_or_default(),
                arguments: call.arguments,
            },
        }
    }
}

/// Positions fit: an answer is bounded long before it has 2^32 blocks.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
