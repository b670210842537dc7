//! Payloads of one streamed answer into chunks (L-91, L-92, L-94). Where payloads begin and end is
//! the event stream's matter.

use std::collections::HashMap;

use serde_json::{Map, Value};
use transom_harness::chunk::{Chunk, Finish, LlmFailure, TokenUsage};

use crate::{
    answer::Blocks,
    deepseek::failure::{in_stream, malformed, too_large},
};

/// What an open block costs beside its text, for the bound on answers.
const BLOCK_BYTES: usize = 128;

type Object = Map<String, Value>;

/// One answer under way.
pub(super) struct Assembly {
    blocks: Blocks,
    /// The provider's index of a tool call to the block's.
    calls: HashMap<u64, usize>,
    usage: Option<TokenUsage>,
    finish_reason: Option<String>,
    bytes: usize,
    bytes_max: usize,
}

/// Something in a payload has a type it cannot have.
struct Misshapen;

impl Assembly {
    pub(super) fn new(bytes_max: usize) -> Assembly {
        Assembly {
            blocks: Blocks::default(),
            calls: HashMap::new(),
            usage: None,
            finish_reason: None,
            bytes: 0,
            bytes_max,
        }
    }

    /// Takes one event's data.
    pub(super) fn payload(
        &mut self,
        out: &mut impl FnMut(Chunk),
        data: &str,
    ) -> Result<(), LlmFailure> {
        let Ok(Value::Object(payload)) = serde_json::from_str(data) else {
            return Err(malformed(data));
        };
        if let Some(error) = member(&payload, "error") {
            return Err(in_stream(error));
        }
        self.take(out, &payload).map_err(|Misshapen| malformed(data))?;
        if self.bytes > self.bytes_max {
            return Err(too_large("the answer", self.bytes_max));
        }
        Ok(())
    }

    /// The stream has said that it is complete.
    pub(super) fn done(self, out: &mut impl FnMut(Chunk)) -> Finish {
        let finish = match self.finish_reason.as_deref() {
            None | Some("stop") => Finish::Stop,
            Some("tool_calls") => Finish::ToolCalls,
            Some("length") => Finish::MaxTokens,
            Some(other) => Finish::Error {
                failure: LlmFailure::new(&other.to_uppercase(), format!("model stopped: {other}")),
            },
        };
        self.blocks.close(out, self.usage, finish)
    }

    fn take(&mut self, out: &mut impl FnMut(Chunk), payload: &Object) -> Result<(), Misshapen> {
        for choice in list(payload, "choices")? {
            let choice = choice.as_object().ok_or(Misshapen)?;
            if let Some(delta) = object(choice, "delta")? {
                self.delta(out, delta)?;
            }
            if let Some(reason) = text(choice, "finish_reason")?.filter(|reason| !reason.is_empty())
            {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        if let Some(usage) = object(payload, "usage")? {
            self.usage = count(usage).or(self.usage);
        }
        Ok(())
    }

    fn delta(&mut self, out: &mut impl FnMut(Chunk), delta: &Object) -> Result<(), Misshapen> {
        let reasoning = text(delta, "reasoning_content")?.unwrap_or_default();
        let content = text(delta, "content")?.unwrap_or_default();
        self.bytes += reasoning.len() + content.len();
        self.blocks.reasoning(out, reasoning);
        self.blocks.text(out, content);
        for entry in list(delta, "tool_calls")? {
            self.call(out, entry.as_object().ok_or(Misshapen)?)?;
        }
        Ok(())
    }

    fn call(&mut self, out: &mut impl FnMut(Chunk), entry: &Object) -> Result<(), Misshapen> {
        // Without an index fragments of two calls could not be told apart.
        let number = member(entry, "index").and_then(Value::as_u64).ok_or(Misshapen)?;
        let id = text(entry, "id")?;
        let function = object(entry, "function")?;
        let (name, fragment) = match function {
            Some(function) => (text(function, "name")?, text(function, "arguments")?),
            None => (None, None),
        };
        let fragment = fragment.unwrap_or_default();
        self.bytes += fragment.len();
        let at = match self.calls.get(&number) {
            Some(at) => *at,
            None => {
                self.bytes += BLOCK_BYTES;
                let at = self.blocks.open_call(out);
                self.calls.insert(number, at);
                at
            }
        };
        self.blocks.call(out, at, id, name, fragment);
        Ok(())
    }
}

/// `None` where the two counts that matter are missing: better no usage than an invented one.
fn count(usage: &Object) -> Option<TokenUsage> {
    let number = |object: &Object, name: &str| object.get(name).and_then(Value::as_u64);
    let nested = |outer: &str, name: &str| number(usage.get(outer)?.as_object()?, name);
    let prompt = number(usage, "prompt_tokens")?;
    let cache_read_tokens = nested("prompt_tokens_details", "cached_tokens")
        .or_else(|| number(usage, "prompt_cache_hit_tokens"));
    Some(TokenUsage {
        input_tokens: prompt.saturating_sub(cache_read_tokens.unwrap_or_default()),
        output_tokens: number(usage, "completion_tokens")?,
        cache_read_tokens,
        cache_write_tokens: None,
        reasoning_tokens: nested("completion_tokens_details", "reasoning_tokens"),
    })
}

/// A member that is there and not null.
fn member<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Object, name: &str) -> Result<Option<&'a str>, Misshapen> {
    member(object, name).map(|value| value.as_str().ok_or(Misshapen)).transpose()
}

fn object<'a>(object: &'a Object, name: &str) -> Result<Option<&'a Object>, Misshapen> {
    member(object, name).map(|value| value.as_object().ok_or(Misshapen)).transpose()
}

fn list<'a>(object: &'a Object, name: &str) -> Result<&'a [Value], Misshapen> {
    match member(object, name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Misshapen),
    }
}

#[cfg(test)]
mod tests;
