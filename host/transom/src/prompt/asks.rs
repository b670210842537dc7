//! What the host asks while a prompt runs: approvals and questions, shown beside the answer and answered
//! on standard input. Whoever is not there, or has said how to answer, is not waited for.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, IsTerminal as _},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{client::Received, plain::one_line};
use crate::cli::AnswerAsks;

/// Lines that may be typed ahead.
const LINES_AHEAD: usize = 64;

/// Asks that are open, the one on the screen first.
pub(super) struct Asks {
    how: AnswerAsks,
    /// Answers come as JSON, a body of `ask/answer` a line.
    json: bool,
    open: VecDeque<Received>,
    lines: Option<mpsc::Receiver<String>>,
    /// Standard input has ended.
    ended: bool,
}

/// What is sent because of an ask.
pub(super) struct Word {
    pub(super) frame: &'static str,
    pub(super) body: Value,
}

/// What is to be done about an ask.
pub(super) enum Step {
    /// Show these lines to the person and wait.
    Show(Vec<String>),
    Send(Vec<Word>),
    Nothing,
}

impl Asks {
    pub(super) fn new(how: AnswerAsks, json: bool) -> Asks {
        Asks { how, json, open: VecDeque::new(), lines: None, ended: false }
    }

    /// Whether a line of standard input is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty() && self.lines.is_some()
    }

    /// The next line; `None` at the end of the input.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await,
            None => None,
        }
    }

    /// An ask has come, or is over.
    pub(super) fn frame(&mut self, frame: Received) -> Step {
        let id = frame.body["askId"].clone();
        if frame.name == "ask/closed" {
            let shown = self.open.front().is_some_and(|open| open.body["askId"] == id);
            self.open.retain(|open| open.body["askId"] != id);
            return if shown { self.show() } else { Step::Nothing };
        }
        if frame.body["kind"] == "approval" {
            match self.how {
                AnswerAsks::Allow => return Step::Send(vec![approval(&frame, "allowed-once")]),
                AnswerAsks::Reject => return Step::Send(vec![approval(&frame, "rejected")]),
                AnswerAsks::Ask => {}
            }
        }
        // With nobody at the terminal there is nobody to ask; a script that reads JSON answers in JSON.
        let reachable = self.how == AnswerAsks::Ask && !self.ended;
        if !reachable || !(self.json || io::stdin().is_terminal()) {
            return Step::Send(vec![unavailable(&frame)]);
        }
        self.lines.get_or_insert_with(read_lines);
        self.open.push_back(frame);
        if self.open.len() == 1 { self.show() } else { Step::Nothing }
    }

    /// What the person has typed.
    pub(super) fn answered(&mut self, line: Option<String>) -> Step {
        let Some(line) = line else {
            // The end of the input answers nothing, now or later.
            self.ended = true;
            self.lines = None;
            return Step::Send(self.open.drain(..).map(|open| unavailable(&open)).collect());
        };
        let Some(open) = self.open.front() else { return Step::Nothing };
        if self.json {
            return match serde_json::from_str(&line) {
                Ok(body) => Step::Send(vec![Word { frame: "ask/answer", body }]),
                Err(error) => Step::Show(vec![format!("not JSON: {error}")]),
            };
        }
        match &open.body["questions"] {
            Value::Array(questions) => match answers(questions, &line) {
                Ok(given) => {
                    let value =
                        json!({ "sessionId": open.session, "answer": { "answers": given } });
                    let body = json!({ "askId": open.body["askId"], "value": value });
                    Step::Send(vec![Word { frame: "ask/answer", body }])
                }
                Err(why) => Step::Show(vec![why]),
            },
            _ => match line.trim().to_lowercase().as_str() {
                "y" | "yes" => Step::Send(vec![approval(open, "allowed-once")]),
                "" | "n" | "no" => Step::Send(vec![approval(open, "rejected")]),
                _ => Step::Show(vec!["answer y or n".to_owned()]),
            },
        }
    }

    fn show(&self) -> Step {
        let Some(Received { body, .. }) = self.open.front() else { return Step::Nothing };
        if self.json {
            return Step::Nothing;
        }
        let text = |member: &Value| one_line(member.as_str().unwrap_or_default());
        let Value::Array(questions) = &body["questions"] else {
            let reason = text(&body["reason"]);
            let mut lines =
                vec![format!("? {} needs your approval: {reason}", text(&body["toolName"]))];
            lines.push(format!("  {}", text(&body["arguments"])));
            lines.push("  allow this once? y or n (n)".to_owned());
            return Step::Show(lines);
        };
        let mut lines = Vec::new();
        for question in questions {
            lines.push(format!("? {}", text(&question["question"])));
            for (number, option) in (1..).zip(question["options"].as_array().into_iter().flatten())
            {
                lines.push(format!("  {number} {}", text(&option["label"])));
            }
        }
        let several =
            if questions.len() > 1 { ", one for each question, separated by ;" } else { "" };
        lines.push(format!("  answer with numbers, separated by commas, or in words{several}"));
        Step::Show(lines)
    }
}

fn approval(ask: &Received, outcome: &str) -> Word {
    let value = json!({
        "sessionId": ask.session,
        "approvalId": ask.body["approvalId"],
        "outcome": outcome,
    });
    Word { frame: "ask/answer", body: json!({ "askId": ask.body["askId"], "value": value }) }
}

fn unavailable(ask: &Received) -> Word {
    let body = json!({ "askId": ask.body["askId"], "outcome": "unavailable" });
    Word { frame: "ask/settle", body }
}

/// Answers to questions from one line: numbers of options, or words of the person's own.
fn answers(questions: &[Value], line: &str) -> Result<Vec<Value>, String> {
    let parts: Vec<_> = if questions.len() > 1 {
        line.split(';').map(str::trim).collect()
    } else {
        vec![line.trim()]
    };
    if parts.len() != questions.len() {
        return Err(format!("{} answers are wanted, separated by ;", questions.len()));
    }
    let answer = |(question, part): (&Value, &str)| {
        let options: Vec<_> = question["options"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|option| option["label"].as_str())
            .collect();
        let numbers: Option<Vec<usize>> =
            part.split(',').map(|number| number.trim().parse().ok()).collect();
        let chosen: Option<Vec<&str>> = numbers.and_then(|numbers| {
            numbers.iter().map(|number| options.get(number.checked_sub(1)?).copied()).collect()
        });
        match chosen {
            Some(chosen) => json!({ "id": question["id"], "selected": chosen }),
            None if part.is_empty() => json!({ "id": question["id"], "selected": [] }),
            None => json!({ "id": question["id"], "selected": [], "custom": part }),
        }
    };
    Ok(questions.iter().zip(parts).map(answer).collect())
}

/// Standard input, line by line. A thread of its own, because such a read cannot be given up.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Asks, Received, Step, answers};
    use crate::cli::AnswerAsks;

    fn approval(id: &str) -> Received {
        Received {
            kind: "notice".to_owned(),
            session: Some("s".to_owned()),
            id: None,
            name: "ask/opened".to_owned(),
            body: json!({ "askId": id, "kind": "approval", "approvalId": "a", "toolName": "bash" }),
        }
    }

    #[test]
    fn an_answer_given_beforehand_is_for_approvals_only() {
        let word = |how, frame: Received| match Asks::new(how, false).frame(frame) {
            Step::Send(mut words) => {
                let word = words.pop().expect("a word");
                (word.frame, word.body)
            }
            Step::Show(_) | Step::Nothing => panic!("nobody is asked"),
        };
        let (frame, body) = word(AnswerAsks::Allow, approval("1"));
        assert_eq!(frame, "ask/answer");
        assert_eq!(
            body,
            json!({ "askId": "1", "value": { "sessionId": "s", "approvalId": "a", "outcome": "allowed-once" } })
        );
        let (_, body) = word(AnswerAsks::Reject, approval("1"));
        assert_eq!(body["value"]["outcome"], "rejected");
        let question = Received {
            body: json!({ "askId": "2", "kind": "question", "questions": [] }),
            ..approval("2")
        };
        assert_eq!(word(AnswerAsks::Allow, question).0, "ask/settle");
    }

    #[test]
    fn numbers_choose_and_words_are_the_persons_own() {
        let questions = [
            json!({ "id": "q", "options": [{ "label": "red" }, { "label": "blue" }] }),
            json!({ "id": "r" }),
        ];
        let one = |line: &str| answers(&questions[..1], line).unwrap();
        assert_eq!(one("2"), [json!({ "id": "q", "selected": ["blue"] })]);
        assert_eq!(one("1, 2"), [json!({ "id": "q", "selected": ["red", "blue"] })]);
        assert_eq!(one("3"), [json!({ "id": "q", "selected": [], "custom": "3" })]);
        assert_eq!(one(""), [json!({ "id": "q", "selected": [] })]);
        assert_eq!(
            answers(&questions, "1; a word").unwrap(),
            [
                json!({ "id": "q", "selected": ["red"] }),
                json!({ "id": "r", "selected": [], "custom": "a word" })
            ]
        );
        assert!(answers(&questions, "1").is_err());
    }
}
