//! What was said in one conversation, written so that two conversations can be compared: times, ids and places
//! are named by the order in which they came, everything else stays as it was.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Turns frames into lines of a transcript.
#[derive(Debug)]
pub struct Normaliser {
    /// Texts and what they are called, longest first.
    known: Vec<(String, &'static str)>,
    ids: HashMap<String, usize>,
}

impl Normaliser {
    /// With these texts named.
    pub fn new(known: &[(&'static str, &str)]) -> Normaliser {
        let mut known: Vec<_> =
            known.iter().map(|(name, text)| ((*text).to_owned(), *name)).collect();
        known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Normaliser { known, ids: HashMap::new() }
    }

    /// One frame as a line.
    pub fn frame(&mut self, frame: &Value) -> String {
        self.value("", frame).to_string()
    }

    fn value(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::Number(_) if name == "time" => Value::from("<ts>"),
            Value::Number(_) if name == "delayMs" => Value::from("<ms>"),
            // Hosts in memory have a prompt of their own.
            Value::String(_) if name == "system" => Value::from("<system-prompt>"),
            Value::String(text) => Value::from(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value("", item)).collect(),
            Value::Object(members) => {
                let members =
                    members.iter().map(|(name, value)| (name.clone(), self.value(name, value)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    /// Text with places and ids named.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (known, name) in &self.known {
            text = text.replace(known, name);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = (0..rest.len())
            .find(|at| rest.is_char_boundary(*at) && uuid_length(&rest[*at..]).is_some())
        {
            let length = uuid_length(&rest[at..]).unwrap_or_default();
            let next = self.ids.len() + 1;
            let number = *self.ids.entry(rest[at..at + length].to_owned()).or_insert(next);
            out.push_str(&rest[..at]);
            out.push_str(&format!("<id:{number}>"));
            rest = &rest[at + length..];
        }
        out.push_str(rest);
        out
    }
}

fn uuid_length(text: &str) -> Option<usize> {
    let candidate = text.as_bytes().get(..36)?;
    let fits = candidate.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    fits.then_some(36)
}

/// The first place where two transcripts part, for people.
pub fn parting(one: (&str, &[String]), other: (&str, &[String])) -> Option<String> {
    if one.1 == other.1 {
        return None;
    }
    let lines = one.1.len().max(other.1.len());
    let at = (0..lines).find(|index| one.1.get(*index) != other.1.get(*index))?;
    let shown =
        |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing more".to_owned());
    Some(format!(
        "line {} of the transcripts:\n  {}: {}\n  {}: {}",
        at + 1,
        one.0,
        shown(one.1),
        other.0,
        shown(other.1)
    ))
}
