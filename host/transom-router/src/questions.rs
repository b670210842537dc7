//! Questions of a call to the person behind its session (L-65): what may be asked, what counts as an
//! answer (B-142 to B-145), and how the call learns of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transom_frame::SessionId;
use transom_harness::{header::Origin, ports::AskRefused};

use crate::{Effect, QuestionId, asks::Kind, router::Router, row, sessions::Stage};

/// How a question came to its end.
#[derive(Debug)]
pub(crate) enum Closed {
    /// JSON text of `{answers: […]}`.
    Answered(String),
    /// A person has closed it.
    Cancelled,
    /// Nobody wants the answer any more.
    Withdrawn,
    /// Its owner has nobody who could answer.
    Unavailable,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    id: String,
    question: String,
    #[serde(default)]
    options: Vec<Choice>,
    #[serde(default)]
    multi_select: bool,
    /// What the question is for: a word, or an object whose `kind` is the word.
    intent: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    label: String,
}

#[derive(Serialize, Deserialize)]
struct Given {
    id: String,
    selected: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<String>,
}

impl Closed {
    /// The word of `ask/closed`.
    fn outcome(&self) -> &'static str {
        match self {
            Closed::Answered(_) => "answered",
            Closed::Cancelled | Closed::Withdrawn | Closed::Unavailable => "cancelled",
        }
    }

    /// What the call that had asked is given.
    pub(crate) fn answer(self) -> Result<String, AskRefused> {
        let refused = |code, message: &str| Err(AskRefused { code, message: message.to_owned() });
        match self {
            Closed::Answered(answer) => Ok(answer),
            Closed::Cancelled => {
                refused("ASK_CANCELLED", "the user was asked, and closed the question")
            }
            Closed::Withdrawn => refused("ASK_ABORTED", "the question was withdrawn"),
            Closed::Unavailable => {
                refused("NO_PROVIDER", "nobody is there who could answer questions")
            }
        }
    }
}

impl Router {
    /// Puts questions to whoever answers for the session, or says why not, in the order of L-65.
    pub(crate) fn question(
        &mut self,
        out: &mut Vec<Effect>,
        question: QuestionId,
        session: &SessionId,
        questions: Value,
    ) {
        let refused = match serde_json::from_value::<Vec<Question>>(questions.clone()) {
            Err(error) => Some(("BAD_QUESTIONS", format!("invalid questions: {error}"))),
            Ok(list) => self.refusal(session, &list),
        };
        match refused {
            Some((code, message)) => {
                let answer = Err(AskRefused { code, message });
                out.push(Effect::Answer { question, answer });
            }
            None => self.open_ask(out, session, Kind::Question { question, questions }),
        }
    }

    fn refusal(&self, session: &SessionId, list: &[Question]) -> Option<(&'static str, String)> {
        if list.is_empty() {
            return Some(("EMPTY_QUESTIONS", "there is no question to ask".to_owned()));
        }
        let live = self.sessions.get(session).filter(|live| live.stage == Stage::Live);
        let Some(live) = live else {
            return Some(("CALLER_NOT_LIVE", format!("session \"{session}\" is not live")));
        };
        if live.agent.header().origin == Some(Origin::Subagent) {
            let text =
                "an agent that works for another asks nobody: put the question into the result";
            return Some(("DELEGATED_CALLER", text.to_owned()));
        }
        // There is no intent that this host knows.
        if let Some(intent) = list.iter().find_map(|question| question.intent.as_ref()) {
            let word = intent.get("kind").unwrap_or(intent);
            return Some(("BAD_INTENT", format!("unknown intent {word}; leave it out")));
        }
        let ids: BTreeSet<_> = list.iter().map(|question| question.id.as_str()).collect();
        if ids.len() < list.len() || list.iter().any(|question| question.question.trim().is_empty())
        {
            return Some((
                "BAD_QUESTIONS",
                "each question needs an id of its own and a text".to_owned(),
            ));
        }
        if !self.has_answerer(session) {
            return Some(("NO_PROVIDER", "nobody is there who could answer questions".to_owned()));
        }
        None
    }

    /// The call that had asked does not wait any more.
    pub(crate) fn withdraw_question(&mut self, out: &mut Vec<Effect>, question: QuestionId) {
        self.close_question(out, question, Closed::Withdrawn);
    }

    pub(crate) fn close_question(
        &mut self,
        out: &mut Vec<Effect>,
        question: QuestionId,
        closed: Closed,
    ) {
        let open = self.open_asks.iter().find(
            |ask| matches!(&ask.kind, Kind::Question { question: open, .. } if *open == question),
        );
        let Some(id) = open.map(|ask| ask.id.clone()) else { return };
        self.close_ask(out, &id, closed.outcome());
        out.push(Effect::Answer { question, answer: closed.answer() });
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    session_id: String,
    answer: Answers,
}

#[derive(Serialize, Deserialize)]
struct Answers {
    answers: Vec<Given>,
}

/// The answer as the tool gives it, if it fits the questions (B-143).
pub(crate) fn answer(session: &SessionId, questions: &Value, value: Value) -> Option<String> {
    let Answered { session_id, answer } = serde_json::from_value(value).ok()?;
    let asked: Vec<Question> = serde_json::from_value(questions.clone()).ok()?;
    let fits = session_id == session.as_str()
        && asked.len() == answer.answers.len()
        && asked.iter().zip(&answer.answers).all(|(question, given)| question.takes(given));
    fits.then(|| row::text(&answer))
}

impl Question {
    fn takes(&self, given: &Given) -> bool {
        let distinct: BTreeSet<_> = given.selected.iter().collect();
        let offered = |label: &String| self.options.iter().any(|choice| choice.label == *label);
        let custom = given.custom.as_ref();
        given.id == self.id
            && distinct.len() == given.selected.len()
            && given.selected.iter().all(offered)
            && custom.is_none_or(|text| !text.trim().is_empty())
            && (self.multi_select || given.selected.len() + usize::from(custom.is_some()) <= 1)
    }
}
