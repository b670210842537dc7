//! Payloads of one streamed answer into chunks (L-91, L-92, L-94). Where payloads begin and end is
//! the event stream's matter.

use std::collections::HashMap;

use serde_json::{Map, Value};
use transom_harness::chunk::{Chunk, Finish, LlmFailure, TokenUsage};

use crate::{
    answer::Blocks,
    deepseek::failure::{Bound, Upstream},
};

/// Most values in the JSON of one event. Real events hold some twenty; a value takes many times the
/// memory of its text, so the bound on bytes alone would let a few megabytes grow to hundreds.
const VALUES_MAX: usize = 65_536;

/// Most tool calls that an answer may open; the loop runs far fewer of them.
const CALLS_MAX: usize = 1024;

/// Counts beyond this are no numbers to the clients of the log.
const COUNT_MAX: u64 = (1 << 53) - 1;

type Object = Map<String, Value>;

/// One answer under way.
pub(super) struct Assembly<'a> {
    upstream: &'a Upstream,
    blocks: Blocks,
    /// The provider's index of a tool call to the block's.
    calls: HashMap<u64, usize>,
    usage: Option<TokenUsage>,
    finish_reason: Option<String>,
    bytes_max: usize,
}

/// What is wrong with a payload.
enum Odd {
    /// Something has a type it cannot have.
    Misshapen,
    /// The answer has grown too much.
    Bound(Bound),
}

impl<'a> Assembly<'a> {
    pub(super) fn new(upstream: &'a Upstream, bytes_max: usize) -> Assembly<'a> {
        Assembly {
            upstream,
            blocks: Blocks::default(),
            calls: HashMap::new(),
            usage: None,
            finish_reason: None,
            bytes_max,
        }
    }

    /// Takes one event's data.
    pub(super) fn payload(
        &mut self,
        out: &mut impl FnMut(Chunk),
        data: &str,
    ) -> Result<(), LlmFailure> {
        let upstream = self.upstream;
        if values(data) > VALUES_MAX {
            return Err(upstream.crossed(Bound::Values(VALUES_MAX)));
        }
        let Ok(Value::Object(payload)) = serde_json::from_str(data) else {
            return Err(upstream.malformed(data));
        };
        if let Some(error) = member(&payload, "error") {
            return Err(upstream.told(error));
        }
        self.take(out, &payload).map_err(|odd| match odd {
            Odd::Misshapen => upstream.malformed(data),
            Odd::Bound(bound) => upstream.crossed(bound),
        })
    }

    /// The stream has said that it is complete.
    pub(super) fn done(self, out: &mut impl FnMut(Chunk)) -> Finish {
        let finish = match self.finish_reason.as_deref() {
            // What the output cap cut has no calls (L-16).
            Some("length") => Finish::MaxTokens,
            reason => match (self.blocks.shared_id(), reason) {
                (Some(id), _) => return Finish::Error { failure: self.upstream.shared_id(&id) },
                (None, None | Some("stop")) => Finish::Stop,
                (None, Some("tool_calls")) => Finish::ToolCalls,
                (None, Some(other)) => Finish::Error { failure: self.upstream.stopped(other) },
            },
        };
        self.blocks.close(out, self.usage, finish)
    }

    fn take(&mut self, out: &mut impl FnMut(Chunk), payload: &Object) -> Result<(), Odd> {
        for choice in list(payload, "choices")? {
            let choice = choice.as_object().ok_or(Odd::Misshapen)?;
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

    fn delta(&mut self, out: &mut impl FnMut(Chunk), delta: &Object) -> Result<(), Odd> {
        let reasoning = text(delta, "reasoning_content")?.unwrap_or_default();
        let content = text(delta, "content")?.unwrap_or_default();
        self.blocks.reasoning(out, reasoning);
        self.blocks.text(out, content);
        self.check()?;
        for entry in list(delta, "tool_calls")? {
            self.call(out, entry.as_object().ok_or(Odd::Misshapen)?)?;
        }
        Ok(())
    }

    fn call(&mut self, out: &mut impl FnMut(Chunk), entry: &Object) -> Result<(), Odd> {
        // Without an index fragments of two calls could not be told apart.
        let number = member(entry, "index").and_then(Value::as_u64).ok_or(Odd::Misshapen)?;
        let id = text(entry, "id")?;
        let function = object(entry, "function")?;
        let (name, fragment) = match function {
            Some(function) => (text(function, "name")?, text(function, "arguments")?),
            None => (None, None),
        };
        let at = match self.calls.get(&number) {
            Some(at) => *at,
            None => {
                if self.blocks.calls() == CALLS_MAX {
                    return Err(Odd::Bound(Bound::Calls(CALLS_MAX)));
                }
                let at = self.blocks.open_call(out);
                self.calls.insert(number, at);
                at
            }
        };
        self.blocks.call(out, at, id, name, fragment.unwrap_or_default());
        self.check()
    }

    fn check(&self) -> Result<(), Odd> {
        if self.blocks.bytes() > self.bytes_max {
            return Err(Odd::Bound(Bound::Answer(self.bytes_max)));
        }
        Ok(())
    }
}

/// How many values a JSON text can hold at most, without reading it.
fn values(json: &str) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// `None` where the two counts that matter are missing: better no usage than an invented one.
fn count(usage: &Object) -> Option<TokenUsage> {
    let number = |object: &Object, name: &str| {
        object.get(name).and_then(Value::as_u64).filter(|count| *count <= COUNT_MAX)
    };
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

fn text<'a>(object: &'a Object, name: &str) -> Result<Option<&'a str>, Odd> {
    member(object, name).map(|value| value.as_str().ok_or(Odd::Misshapen)).transpose()
}

fn object<'a>(object: &'a Object, name: &str) -> Result<Option<&'a Object>, Odd> {
    member(object, name).map(|value| value.as_object().ok_or(Odd::Misshapen)).transpose()
}

fn list<'a>(object: &'a Object, name: &str) -> Result<&'a [Value], Odd> {
    match member(object, name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Odd::Misshapen),
    }
}

#[cfg(test)]
mod tests;
