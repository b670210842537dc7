//! Output contracts: which values a tool gives, and what the model is shown of them (L-53, L-56).

use std::{fmt, sync::Arc};

use serde_json::{Value, json};
use transom_harness::{block::Block, ports::ToolOutcome};

use crate::schema::{Root, violations};

/// Text of one result. Twice the shell's tails, even if every byte of them became a replacement
/// character, fits; a tool that returns more has no bound of its own.
const RESULT_BYTES_MAX: usize = 512 << 10;

type Render = Arc<dyn Fn(&Value) -> Vec<Block> + Send + Sync>;
type Present = Arc<dyn Fn(&Value) -> Value + Send + Sync>;
type Finalise = Arc<dyn Fn(Vec<Block>) -> Vec<Block> + Send + Sync>;

/// What a tool promises of its results.
#[derive(Clone)]
pub struct Output {
    schema: Arc<Value>,
    /// `None`: the value is the text of the content, which stays as it is.
    render: Option<Render>,
    present: Option<Present>,
    finalise: Finalise,
}

impl Output {
    /// Content of the body's own making, whose text is the value.
    pub fn text() -> Output {
        Output {
            schema: Arc::new(json!({ "type": "string" })),
            render: None,
            present: None,
            finalise: Arc::new(bounded),
        }
    }

    /// Values of this schema, which stays within what [`crate::violations`] checks, and how the model is shown one.
    pub fn new(
        schema: Value,
        render: impl Fn(&Value) -> Vec<Block> + Send + Sync + 'static,
    ) -> Output {
        Output { schema: Arc::new(schema), render: Some(Arc::new(render)), ..Output::text() }
    }

    /// Values that the model is shown as one text.
    pub(crate) fn as_text(
        schema: Value,
        render: impl Fn(&Value) -> String + Send + Sync + 'static,
    ) -> Output {
        Output::new(schema, move |value| vec![Block::text(render(value))])
    }

    /// The same, with what people are shown besides (L-59).
    pub fn presented(self, present: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Output {
        Output { present: Some(Arc::new(present)), ..self }
    }

    /// The same with another last touch to the content, instead of the bound that every result has. It comes behind
    /// everybody who could have replaced the content (L-55).
    pub fn finalised(
        self,
        finalise: impl Fn(Vec<Block>) -> Vec<Block> + Send + Sync + 'static,
    ) -> Output {
        Output { finalise: Arc::new(finalise), ..self }
    }

    /// Values that keep the contract.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Holds what a body has given against the contract. An error keeps its words; a value beside it has to fit all the
    /// same, or nobody sees it.
    pub(crate) fn settle(&self, tool: &str, outcome: ToolOutcome) -> ToolOutcome {
        if outcome.is_error {
            let value = outcome.value.filter(|value| self.violations(value).is_empty());
            return ToolOutcome { value, ..outcome };
        }
        if self.render.is_none() {
            let value = outcome.value.unwrap_or_else(|| Box::new(text_of(&outcome.content)));
            return match self.violations(&value).as_slice() {
                [] => ToolOutcome { value: Some(value), ..outcome },
                found => ToolOutcome { job: outcome.job, ..refused(tool, found) },
            };
        }
        let made = self.of_value(tool, outcome.value.map_or(Value::Null, |value| *value));
        if made.is_error {
            // A job that has begun is one all the same (P-69).
            return ToolOutcome { job: outcome.job, ..made };
        }
        let ToolOutcome { content, value, meta, .. } = made;
        let meta = meta.or(outcome.meta);
        ToolOutcome { content, value, meta, ..outcome }
    }

    /// Content and presentation of a value; an error says why it is none of this tool's.
    pub(crate) fn of_value(&self, tool: &str, value: Value) -> ToolOutcome {
        let found = self.violations(&value);
        if !found.is_empty() {
            return refused(tool, &found);
        }
        let content = match &self.render {
            Some(render) => render(&value),
            None => vec![Block::text(value.as_str().unwrap_or_default())],
        };
        let meta = self.present.as_ref().map(|present| present(&value));
        let value = Some(Box::new(value));
        ToolOutcome { content, value, meta, ..ToolOutcome::text("") }
    }

    pub(crate) fn finish(&self, outcome: ToolOutcome) -> ToolOutcome {
        ToolOutcome { content: (self.finalise)(outcome.content), ..outcome }
    }

    fn violations(&self, value: &Value) -> Vec<String> {
        violations(&self.schema, value, Root::Value)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("schema", &self.schema).finish_non_exhaustive()
    }
}

fn refused(tool: &str, found: &[String]) -> ToolOutcome {
    let text = format!("tool \"{tool}\" returned invalid output: {}", found.join("; "));
    ToolOutcome::error(&text, Some(("ToolOutputError", "INVALID_TOOL_OUTPUT")))
}

fn text_of(content: &[Block]) -> Value {
    let texts = content.iter().map(|block| match block.typed().as_ref() {
        Block::Text { text } => text.clone(),
        _ => String::new(),
    });
    Value::String(texts.collect())
}

/// A text of a value that its schema requires.
pub(crate) fn member<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Cuts a result that is longer than any tool's own bounds allow.
pub(crate) fn bounded(mut content: Vec<Block>) -> Vec<Block> {
    let mut room = RESULT_BYTES_MAX;
    for block in &mut content {
        let Block::Text { text } = block else { continue };
        if text.len() > room {
            let end = text.floor_char_boundary(room);
            let cut = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[result cut here: {cut} more bytes were left out]"));
            room = 0;
        } else {
            room -= text.len();
        }
    }
    content
}
