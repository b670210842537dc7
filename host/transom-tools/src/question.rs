//! `ask_user_question`: puts questions to the person behind the session (L-65, P-17). Who that is, and whether the
//! questions are fit to be asked, is decided behind the `Questions` port.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use transom_harness::ports::{AskRefused, Questions, Stop, ToolOutcome, ToolSpec};

use crate::tool::{Call, Running, Tool, ToolError, answer_once};

/// What a refusal is recorded as, besides its code.
const ERROR_NAME: &str = "AskUserQuestionError";

/// The tool.
pub(crate) struct AskUserQuestion {
    questions: Arc<dyn Questions>,
}

impl AskUserQuestion {
    pub(crate) fn new(questions: Arc<dyn Questions>) -> AskUserQuestion {
        AskUserQuestion { questions }
    }
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> ToolSpec {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let option = json!({
            "type": "object",
            "properties": {
                "label": text("The answer in a few words."),
                "description": text("What choosing it means.")
            },
            "required": ["label"]
        });
        let question = json!({
            "type": "object",
            "properties": {
                "id": text("Names the question in the answer; another one for each question."),
                "question": text("The whole question."),
                "detail": text("What helps to decide."),
                "header": text("One or two words above the question."),
                "options": {
                    "type": "array",
                    "description": "Answers to choose from; others can always be typed.",
                    "items": option
                },
                "multi_select": {
                    "type": "boolean",
                    "description": "Whether several options may be chosen; false if absent."
                },
                "intent": text("What kind of question this is.")
            },
            "required": ["id", "question"]
        });
        ToolSpec {
            name: "ask_user_question".to_owned(),
            description: "Asks the user and waits for the answer. Use it only where the work cannot go on without a \
                decision that is theirs."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { "questions": { "type": "array", "items": question } },
                "required": ["questions"]
            }),
        }
    }

    fn run(&self, call: Call) -> Running {
        let questions = self.questions.clone();
        Box::pin(async move { ask(&*questions, &call).await })
    }
}

async fn ask(questions: &dyn Questions, call: &Call) -> Result<ToolOutcome, ToolError> {
    if call.abort.is_set() {
        return Err(refused(AskRefused { code: "ASK_ABORTED", message: String::new() }));
    }
    let (sink, mut answer) = answer_once();
    let asked = Asked(questions.ask(&call.session, array(&call.arguments), Box::new(sink)));
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        () = call.abort.set() => {
            asked.0.stop();
            answer.await
        }
    };
    let silent = AskRefused { code: "NO_PROVIDER", message: String::new() };
    match answer.unwrap_or(Err(silent)) {
        Ok(answer) => Ok(ToolOutcome::text(answer)),
        Err(failure) => Err(refused(failure)),
    }
}

/// A question that is withdrawn when nobody waits for the answer any more.
struct Asked(Box<dyn Stop>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The questions in the words of L-65.
fn array(arguments: &Map<String, Value>) -> Value {
    let questions = arguments.get("questions").and_then(Value::as_array).into_iter().flatten();
    let questions = questions.map(|question| {
        let members = question.as_object().into_iter().flatten().map(|(name, value)| {
            let name = if name == "multi_select" { "multiSelect" } else { name };
            (name.to_owned(), value.clone())
        });
        Value::Object(members.collect())
    });
    Value::Array(questions.collect())
}

fn refused(AskRefused { code, message }: AskRefused) -> ToolError {
    let message = if message.is_empty() { usual_text(code).to_owned() } else { message };
    ToolError::coded(message, ERROR_NAME, code)
}

fn usual_text(code: &str) -> &'static str {
    match code {
        "ASK_ABORTED" => "the question was withdrawn before it was answered",
        "ASK_CANCELLED" => "the user closed the question without an answer",
        "EMPTY_QUESTIONS" => "no question was asked; give at least one",
        "CALLER_NOT_LIVE" => "the session that asks is not live any more",
        "DELEGATED_CALLER" => {
            "a delegated agent cannot ask the user; put the question into your result instead"
        }
        "BAD_INTENT" => "the intent of a question is not a known one; leave it out",
        "NO_PROVIDER" => {
            "nobody can be asked here; decide yourself, or say what you would need to know"
        }
        _ => "the question could not be asked",
    }
}
