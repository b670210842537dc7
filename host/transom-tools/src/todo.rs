//! `todo_write`: the model's own list of what is to be done (L-101). The log keeps it, in `todo/write`.

use serde_json::{Map, Value, json};
use transom_harness::ports::{ToolOutcome, ToolSpec};

use crate::{
    output::Output,
    tool::{Call, Running, Tool, ToolError, given},
};

/// The words for how far an item is.
const STATUSES: [&str; 3] = ["pending", "in_progress", "completed"];

/// The tool.
pub(crate) struct TodoWrite;

impl Tool for TodoWrite {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "todo_write".to_owned(),
            description: "Replaces the list of what is to be done. Use it for work of several steps: write the list \
                down before you begin, keep one item in progress, and mark each as completed as soon as it is."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The whole list, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "content": { "type": "string", "description": "What is to be done." },
                                "status": { "type": "string", "enum": STATUSES }
                            },
                            "required": ["content", "status"]
                        }
                    }
                },
                "required": ["todos"]
            }),
        }
    }

    fn output(&self) -> Output {
        let count = json!({ "type": "integer" });
        let schema = json!({
            "type": "object",
            "properties": { "completed": count, "in_progress": count, "pending": count },
            "required": ["completed", "in_progress", "pending"],
            "additionalProperties": false
        });
        Output::as_text(schema, told)
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        for (index, todo) in todos(arguments).enumerate() {
            let content = todo.get("content").and_then(Value::as_str).unwrap_or_default();
            if content.trim().is_empty() {
                return Err(ToolError::new(format!(
                    "invalid todos[{index}].content: expected a non-empty string"
                )));
            }
        }
        Ok(())
    }

    fn run(&self, call: Call) -> Running {
        let todos = call.arguments.get("todos").cloned().map(Box::new);
        Box::pin(async move { Ok(ToolOutcome { todos, ..given(counts(&call.arguments)) }) })
    }
}

fn todos(arguments: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    arguments.get("todos").and_then(Value::as_array).into_iter().flatten()
}

fn counts(arguments: &Map<String, Value>) -> Value {
    let count = |status: &str| {
        todos(arguments)
            .filter(|todo| todo.get("status").and_then(Value::as_str) == Some(status))
            .count()
    };
    STATUSES.iter().map(|status| ((*status).to_owned(), json!(count(status)))).collect()
}

fn told(counts: &Value) -> String {
    let [pending, in_progress, completed] =
        STATUSES.map(|status| counts.get(status).cloned().unwrap_or_default());
    format!(
        "todo list updated: {completed} completed, {in_progress} in progress, {pending} pending"
    )
}
