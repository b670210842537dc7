//! The head of a `SKILL.md`: YAML between two lines of dashes, of which the name, the description and one flag count.

use saphyr_parser::{Event, Parser};

/// Length of a skill's name.
const NAME_BYTES_MAX: usize = 64;

/// Characters of a description as the model is told it.
const DESCRIPTION_CHARS_MAX: usize = 500;

/// A skill, as its file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Front<'a> {
    /// `None`: that of its directory.
    pub(super) name: Option<String>,
    /// On one line, not longer than is told.
    pub(super) description: String,
    /// Only people may use it.
    pub(super) hidden_from_models: bool,
    /// What follows the head.
    pub(super) instructions: &'a str,
}

/// Lower-case words joined by single dashes.
pub(super) fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    name.len() <= NAME_BYTES_MAX && name.split('-').all(is_word)
}

/// Why a file is no skill, for the log.
pub(super) fn read(text: &str) -> Result<Front<'_>, &'static str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, instructions) = split(text).ok_or("it has no head between two lines of dashes")?;
    let mut front =
        Front { name: None, description: String::new(), hidden_from_models: false, instructions };
    let mut depth = 0_usize;
    let mut key: Option<String> = None;
    for event in Parser::new_from_str(head) {
        let (event, _) = event.map_err(|_| "its head is not YAML")?;
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                if depth == 1 {
                    key = None;
                }
            }
            Event::Scalar(text, ..) if depth == 1 => match key.take() {
                None => key = Some(text.into_owned()),
                Some(key) => match key.as_str() {
                    "name" => front.name = Some(text.into_owned()),
                    "description" => front.description = told(&text),
                    "disable-model-invocation" => front.hidden_from_models = &*text == "true",
                    _ => {}
                },
            },
            Event::Alias(_) if depth == 1 => key = None,
            _ => {}
        }
    }
    if front.description.is_empty() {
        return Err("its head has no description");
    }
    Ok(front)
}

/// The text between the two lines of dashes, and the text behind.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let (first, rest) = rest.split_once('\n')?;
    if !first.trim().is_empty() {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// A description on one line.
fn told(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{DESCRIPTION_CHARS_MAX, Front, is_name, read};

    #[test]
    fn a_head_gives_name_and_description() {
        let text = "---\nname: make-tea\ndescription: >\n  How tea\n  is made here.\nmetadata:\n  name: other\n  list: [description, x]\nallowed-tools: bash\n---\n\nBoil.\n---\nPour.\n";
        let front = read(text).unwrap();
        let expected = Front {
            name: Some("make-tea".to_owned()),
            description: "How tea is made here.".to_owned(),
            hidden_from_models: false,
            instructions: "\nBoil.\n---\nPour.\n",
        };
        assert_eq!(front, expected);
        let front =
            read("\u{feff}---\r\ndescription: d\r\ndisable-model-invocation: true\r\n---\r\nx")
                .unwrap();
        assert_eq!((front.name, front.hidden_from_models, front.instructions), (None, true, "x"));
        let long = format!("---\ndescription: {}\n---\n", "ä".repeat(DESCRIPTION_CHARS_MAX + 1));
        let told = read(&long).unwrap().description;
        assert_eq!(told.chars().count(), DESCRIPTION_CHARS_MAX + 1);
        assert!(told.ends_with('…'));
    }

    #[test]
    fn a_file_without_a_whole_head_is_no_skill() {
        let dashes = "it has no head between two lines of dashes";
        for (text, why) in [
            ("", dashes),
            ("Boil.", dashes),
            ("---\ndescription: d\n", dashes),
            ("--- x\ndescription: d\n---\n", dashes),
            ("---\nname: n\n---\n", "its head has no description"),
            ("---\n---\n", "its head has no description"),
            ("---\ndescription: [d]\n---\n", "its head has no description"),
            ("---\na: [\n---\n", "its head is not YAML"),
        ] {
            assert_eq!(read(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn names_are_words_joined_by_dashes() {
        for name in ["tea", "make-tea", "a1-2"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "Tea", "a_b", "../a", "a/b", "ä", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
