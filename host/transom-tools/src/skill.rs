//! `skill`: loads instructions that a workspace or its user keeps for a kind of task (L-101). What there is is named in
//! the tool's description, which differs from session to session; the instructions come only when they are asked for.
//! Finding them is `skill/shelf.rs`, reading their head `skill/front.rs`.

mod cards;
mod front;
mod shelf;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use transom_harness::ports::{Asker, ToolOutcome, ToolSpec};

pub(crate) use self::shelf::Shelf;
use crate::tool::{Addition, Call, Running, Tool, ToolError, blocking};

/// The tool.
pub(crate) struct Skill {
    shelf: Shelf,
}

impl Skill {
    pub(crate) fn new(shelf: Shelf) -> Skill {
        Skill { shelf }
    }
}

/// What there is, for the end of the description.
fn listed(shelf: &Shelf, asker: &Asker) -> String {
    let listed = shelf.list(asker);
    let rows = listed.iter().map(|(name, description)| format!("\n- {name}: {description}"));
    let rows: String = rows.collect();
    match rows.is_empty() {
        true => " There are none in this session.".to_owned(),
        false => format!("\nSkills of this session:{rows}"),
    }
}

impl Tool for Skill {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "skill".to_owned(),
            description:
                "Loads the instructions of a skill: what was written down about how to do \
                one kind of task here. When a task is of a kind that a skill is for, or the user \
                names a skill, load it before you begin, and follow it. Its description says what \
                it is for, not how it is done."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "description": "The skill's name, to the letter." }
                },
                "required": ["name"]
            }),
        }
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
        if front::is_name(name) {
            return Ok(());
        }
        Err(ToolError::new(format!("invalid skill name \"{name}\"")))
    }

    fn addition(&self) -> Option<Addition> {
        let shelf = self.shelf.clone();
        Some(Arc::new(move |asker| Some(listed(&shelf, asker))))
    }

    fn run(&self, call: Call) -> Running {
        let shelf = self.shelf.clone();
        Box::pin(blocking(move || {
            let name = call.text("name");
            let found = shelf.load(&call, name)?;
            // The tags are those of published runtimes.
            Ok(ToolOutcome::text(format!(
                "<skill_content name=\"{name}\">\n<skill_resources>\nFiles that these instructions name by a relative path \
                 stand in {}. Read them when they are needed.\n</skill_resources>\n\n<skill_instructions>\n{}\n\
                 </skill_instructions>\n</skill_content>",
                found.directory.display(),
                found.instructions.trim()
            )))
        }))
    }
}
