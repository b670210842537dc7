//! One attempt of a step, and the retries that make another: chunks in an order that a model can give, the
//! answer that they make (L-14, L-16), and series of retries (L-41, L-42).

use serde_json::{Value, value::RawValue};

use super::{Checked, bad, ensure, envelope::Envelope, request::Request};
use crate::{
    block::Block,
    chunk::{Assembler, BlockType, Chunk, Finish, LlmFailure, TokenUsage},
    vocabulary::Members,
};

/// What has come of the attempt.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    seqs: Vec<u64>,
    assembler: Assembler,
    blocks: Vec<Opened>,
    finish: Option<Finish>,
}

#[derive(Debug)]
struct Opened {
    index: u32,
    kind: BlockType,
    ended: bool,
}

impl Attempt {
    pub(super) fn seqs(&self) -> &[u64] {
        &self.seqs
    }

    pub(super) fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    pub(super) fn push(&mut self, event: &Envelope<'_>, strict: bool) -> Checked {
        let Some(chunk) = event.data.object("chunk").and_then(|chunk| read(&chunk)) else {
            return bad("L-14", "the chunk's index or block is not one that a message can hold");
        };
        ensure(self.finish.is_none(), "L-14", || {
            "a chunk behind the finish of its attempt".to_owned()
        })?;
        if strict {
            self.is_in_order(&chunk)?;
        }
        self.assembler.push(&chunk);
        if let Chunk::Finish { reason } = chunk {
            self.finish = Some(reason);
        }
        self.seqs.push(event.seq);
        Ok(())
    }

    /// Blocks are opened once, before their deltas, and nothing of a block comes behind its end.
    fn is_in_order(&mut self, chunk: &Chunk) -> Checked {
        let (index, kind, ends) = match chunk {
            Chunk::BlockStart { index, block_type } => {
                let known = self.blocks.iter().any(|block| block.index == *index);
                ensure(!known, "L-14", || format!("a second block-start of block {index}"))?;
                self.blocks.push(Opened { index: *index, kind: *block_type, ended: false });
                return Ok(());
            }
            Chunk::TextDelta { index, .. } => (*index, Some(BlockType::Text), false),
            Chunk::ReasoningDelta { index, .. } => (*index, Some(BlockType::Reasoning), false),
            Chunk::ToolCallDelta { index, .. } => (*index, Some(BlockType::ToolCall), false),
            Chunk::BlockEnd { index, block } => {
                let kind = match block.typed().as_ref() {
                    Block::Text { .. } => Some(BlockType::Text),
                    Block::Reasoning { .. } => Some(BlockType::Reasoning),
                    Block::ToolCall { .. } => Some(BlockType::ToolCall),
                    Block::ToolResult { .. } | Block::Raw(_) => None,
                };
                (*index, kind, true)
            }
            Chunk::Usage { .. } | Chunk::Finish { .. } => return Ok(()),
        };
        let Some(block) = self.blocks.iter_mut().find(|block| block.index == index) else {
            return bad("L-14", format!("a chunk of block {index} before its block-start"));
        };
        ensure(!block.ended, "L-14", || format!("a chunk of block {index} behind its block-end"))?;
        ensure(kind.is_none_or(|kind| kind == block.kind), "L-14", || {
            format!("a chunk of another type than block {index} was opened with")
        })?;
        block.ended = ends;
        Ok(())
    }

    /// Whether the message is what the chunks make (L-16). Says whether the output limit cut it.
    pub(super) fn makes(self, content: &[&RawValue], usage: Option<&RawValue>) -> Checked<bool> {
        let reason = match self.finish {
            Some(reason @ (Finish::Stop | Finish::ToolCalls | Finish::MaxTokens)) => reason,
            Some(Finish::Error { .. } | Finish::Aborted { .. }) => {
                return bad("L-40", "assistant/message of an attempt that failed");
            }
            None if self.seqs.is_empty() => Finish::Stop,
            None => return bad("L-14", "assistant/message of an attempt without a finish"),
        };
        let (blocks, counted) = self.assembler.finish(&reason);
        says(&blocks, content, counted, usage)?;
        Ok(matches!(reason, Finish::MaxTokens))
    }

    /// Whether the message is what chunks without an end have said so far (L-48).
    pub(super) fn makes_part(self, content: &[&RawValue], usage: Option<&RawValue>) -> Checked {
        ensure(self.finish.is_none(), "L-48", || {
            "a part of an answer whose attempt has a finish".to_owned()
        })?;
        let (blocks, counted) = self.assembler.partial();
        ensure(!blocks.is_empty(), "L-48", || "a part of an answer without text".to_owned())?;
        says(&blocks, content, counted, usage)
    }
}

/// Whether a message has these blocks and this usage (L-16).
fn says(
    blocks: &[Block],
    content: &[&RawValue],
    counted: Option<TokenUsage>,
    usage: Option<&RawValue>,
) -> Checked {
    let same = blocks.len() == content.len()
        && blocks
            .iter()
            .zip(content)
            .all(|(block, text)| says_the_same(&crate::json(block), text.get()));
    ensure(same, "L-16", || {
        format!("the content must be what the chunks make: {}", crate::json(&blocks))
    })?;
    let usage = usage.and_then(|usage| serde_json::from_str::<TokenUsage>(usage.get()).ok());
    ensure(usage == counted, "L-16", || {
        format!("usage must be that of the chunks: {}", crate::json(&counted))
    })
}

/// Whether two texts are the same JSON, whatever the order of their members.
fn says_the_same(a: &str, b: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    a == b || value(a).is_some_and(|a| value(b) == Some(a))
}

/// A chunk as the assembler takes it. Its shape has been checked.
fn read(chunk: &Members<'_>) -> Option<Chunk> {
    let index = || u32::try_from(chunk.count("index")?).ok();
    let text = |name| chunk.text(name).map(Into::into);
    Some(match &*chunk.text("type")? {
        "block-start" => {
            let block_type = match &*chunk.text("blockType")? {
                "text" => BlockType::Text,
                "reasoning" => BlockType::Reasoning,
                _ => BlockType::ToolCall,
            };
            Chunk::BlockStart { index: index()?, block_type }
        }
        "text-delta" => Chunk::TextDelta { index: index()?, text: text("text")? },
        "reasoning-delta" => Chunk::ReasoningDelta { index: index()?, text: text("text")? },
        "tool-call-delta" => Chunk::ToolCallDelta {
            index: index()?,
            id: text("id")?,
            name: text("name"),
            arguments_delta: text("argumentsDelta")?,
        },
        "block-end" => Chunk::BlockEnd {
            index: index()?,
            block: serde_json::from_str(chunk.raw("block")?.get()).ok()?,
        },
        "usage" => Chunk::Usage { usage: serde_json::from_str(chunk.raw("usage")?.get()).ok()? },
        _ => Chunk::Finish { reason: serde_json::from_str(chunk.raw("reason")?.get()).ok()? },
    })
}

/// The retries of one step.
#[derive(Debug, Default)]
pub(super) struct Retries {
    series: Vec<Series>,
    /// Id and number of the retry that was decided on and has not begun.
    due: Option<(String, u64)>,
}

/// Retries under one policy share an id and are counted together (L-41).
#[derive(Debug)]
struct Series {
    provider: String,
    policy: String,
    id: String,
    count: u64,
}

impl Retries {
    pub(super) fn resting(&self) -> bool {
        self.due.is_some()
    }

    pub(super) fn decided(
        &mut self,
        event: &Envelope<'_>,
        failure: &LlmFailure,
        request: &mut Request,
    ) -> Checked {
        let told = event
            .data
            .raw("failure")
            .map(|failure| serde_json::from_str::<LlmFailure>(failure.get()));
        ensure(matches!(told, Some(Ok(told)) if told == *failure), "L-41", || {
            "llm/retry must tell of the failure that its attempt finished with".to_owned()
        })?;
        let (provider, policy) = (event.text("provider"), event.text("policyKey"));
        request.is_route_of(&provider)?;
        let (id, retry) = (event.text("retryId"), event.count("retry"));
        let same = |series: &Series| series.provider == provider && series.policy == policy;
        let mut series = match self.series.iter().position(same) {
            Some(at) => self.series.swap_remove(at),
            None => {
                request.retry_series(&id)?;
                let (provider, policy) = (provider.into_owned(), policy.into_owned());
                Series { provider, policy, id: id.clone().into_owned(), count: 0 }
            }
        };
        ensure(series.id == id, "L-41", || {
            format!("retryId must be that of the series, \"{}\", got \"{id}\"", series.id)
        })?;
        let due = series.count + 1;
        ensure(retry == due, "L-41", || format!("retry must be {due}, got {retry}"))?;
        series.count = retry;
        Policy::read(&series.policy)?.allows(event, retry, failure)?;
        self.series.push(series);
        self.due = Some((id.into(), retry));
        Ok(())
    }

    pub(super) fn started(&mut self, event: &Envelope<'_>) -> Checked {
        let found = (event.text("retryId").into_owned(), event.count("retry"));
        match self.due.take() {
            Some(due) if due == found => Ok(()),
            Some((id, retry)) => bad(
                "L-42",
                format!("llm/retry-started must be of retry {retry} of series \"{id}\""),
            ),
            None => bad("L-42", "llm/retry-started without its llm/retry"),
        }
    }
}

/// What a policy key says (L-41).
struct Policy {
    /// Bound and codes; `None`: always.
    normal: Option<(u64, Vec<String>)>,
    initial_ms: u64,
    max_ms: u64,
    jitter: f64,
}

impl Policy {
    fn read(key: &str) -> Checked<Policy> {
        let normal = serde_json::from_str::<(String, u64, Vec<String>, u64, u64, f64)>(key);
        let always = serde_json::from_str::<(String, u64, u64, f64)>(key);
        match (normal, always) {
            (Ok((mode, most, codes, initial_ms, max_ms, jitter)), _) if mode == "normal" => {
                let sorted = codes.is_sorted();
                ensure(sorted, "L-41", || {
                    format!("the codes of the policyKey must be sorted, got {key}")
                })?;
                Ok(Policy { normal: Some((most, codes)), initial_ms, max_ms, jitter })
            }
            (_, Ok((mode, initial_ms, max_ms, jitter))) if mode == "always" => {
                Ok(Policy { normal: None, initial_ms, max_ms, jitter })
            }
            _ => bad("L-41", format!("policyKey must be the JSON text of a policy, got {key}")),
        }
    }

    fn allows(&self, event: &Envelope<'_>, retry: u64, failure: &LlmFailure) -> Checked {
        let mode = if self.normal.is_some() { "normal" } else { "always" };
        let named = event.text("mode");
        ensure(named == mode, "L-41", || {
            format!("mode must be that of its policyKey, {mode}, got {named}")
        })?;
        if let Some((most, codes)) = &self.normal {
            let told = event.count("maxRetries");
            ensure(told == *most && retry <= *most, "L-41", || {
                format!("retry {retry} of {told}, where the policyKey allows {most}")
            })?;
            // Decision 67: retried under a key that does not name it.
            let code = &failure.code;
            ensure(codes.contains(code) || code == "STREAM_CLOSED", "L-41", || {
                format!("code {code} is not one that the policyKey retries")
            })?;
        }
        self.waits(event.count("delayMs"), retry, failure.provider_retry_after_ms)
    }

    fn waits(&self, delay: u64, retry: u64, wish: Option<u64>) -> Checked {
        if let Some(wish) = wish.filter(|wish| (1..=self.max_ms).contains(wish)) {
            return ensure(delay == wish, "L-41", || {
                format!("delayMs must be what the provider asks for, {wish}, got {delay}")
            });
        }
        let given_up = wish.is_some_and(|wish| wish > self.max_ms) && self.normal.is_some();
        ensure(!given_up, "L-41", || {
            format!("a retry, although the provider asks to wait longer than {}", self.max_ms)
        })?;
        let doublings = u32::try_from(retry - 1).unwrap_or(u32::MAX);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let base = self.initial_ms.saturating_mul(factor).min(self.max_ms) as f64;
        let least = (base * (1.0 - self.jitter)).floor() as u64;
        let most = ((base * (1.0 + self.jitter)).ceil() as u64).min(self.max_ms);
        ensure((least..=most).contains(&delay), "L-41", || {
            format!("delayMs of retry {retry} must be {least} to {most}, got {delay}")
        })
    }
}
