//! Text with places to fill in: what was asked, what tools have answered, and single words of both. Which
//! texts are templates is said in `script`.

use crate::scripted::scene::Scene;

/// What ends a sentence or a bracket and is no part of the word before it.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '?', '!', ')', ']', '}', '"', '\''];

/// The names that a place can have, for complaints.
pub(super) const NAMES: &[&str] = &["prompt", "result", "notice", "step", "images"];

/// Text with places to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place {
        from: Origin,
        /// Not all of it, but the word behind this text.
        after: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Prompt,
    Notice,
    /// What the images since the prompt are.
    Images,
    Step,
    /// The last one since the prompt; empty where there is none.
    Result,
    /// The n-th one since the prompt, from 1.
    Nth(usize),
    /// That of the call with this id.
    Call(String),
}

impl Template {
    /// The name of a place that does not exist is the error.
    pub(super) fn read(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((place, behind)) = after.split_once("}}") else { break };
            parts.push(Part::Text(before.to_owned()));
            parts.push(read(place).ok_or_else(|| place.to_owned())?);
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Template(parts))
    }

    /// The text with everything filled in, or what is missing in the scene.
    pub(super) fn fill(&self, scene: &Scene) -> Result<String, String> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Place { from, after: None } => out.push_str(&from.find(scene)?),
                Part::Place { from, after: Some(after) } => {
                    let text = from.find(scene)?;
                    let word = word(&text, after).ok_or_else(|| {
                        let start: String = text.chars().take(80).collect();
                        format!("no word follows \"{after}\" in \"{start}\"")
                    })?;
                    out.push_str(word);
                }
            }
        }
        Ok(out)
    }
}

impl Origin {
    fn find(&self, scene: &Scene) -> Result<String, String> {
        let text = match self {
            Origin::Prompt => Some(&scene.prompt),
            Origin::Notice => Some(&scene.notice),
            Origin::Images => Some(&scene.images),
            Origin::Step => return Ok(scene.step.to_string()),
            Origin::Result => {
                return Ok(scene.results.last().map(|(_, text)| text.clone()).unwrap_or_default());
            }
            Origin::Nth(number) => {
                number.checked_sub(1).and_then(|at| scene.results.get(at)).map(|(_, text)| text)
            }
            // Of several with one id the newest, as it is with names everywhere.
            Origin::Call(id) => {
                scene.results.iter().rev().find(|(known, _)| known == id).map(|(_, text)| text)
            }
        };
        text.cloned().ok_or_else(|| {
            let known: Vec<&str> = scene.results.iter().map(|(id, _)| id.as_str()).collect();
            let wanted = match self {
                Origin::Nth(number) => number.to_string(),
                Origin::Call(id) => id.clone(),
                Origin::Prompt
                | Origin::Notice
                | Origin::Images
                | Origin::Step
                | Origin::Result => String::new(),
            };
            format!(
                "there is no result \"{wanted}\" since the prompt, only those of [{}]",
                known.join(", ")
            )
        })
    }
}

fn read(place: &str) -> Option<Part> {
    let (name, after) = match place.split_once(" after ") {
        Some((name, after)) => (name, Some(after.trim()).filter(|after| !after.is_empty())?),
        None => (place, ""),
    };
    let from = match name {
        "prompt" => Origin::Prompt,
        "notice" => Origin::Notice,
        "images" => Origin::Images,
        // A number has no words in it.
        "step" if after.is_empty() => Origin::Step,
        "result" => Origin::Result,
        _ => match name.strip_prefix("result.")? {
            "" => return None,
            which if which.bytes().all(|byte| byte.is_ascii_digit()) => {
                Origin::Nth(which.parse().ok().filter(|number| *number > 0)?)
            }
            id => Origin::Call(id.to_owned()),
        },
    };
    Some(Part::Place { from, after: Some(after.to_owned()).filter(|after| !after.is_empty()) })
}

/// The first word behind the first place where this text stands.
fn word<'a>(text: &'a str, after: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(after)?;
    let word = behind.split_whitespace().next()?.trim_end_matches(PUNCTUATION);
    Some(word).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
