//! The title of a session whose messages nobody has summarised yet (L-18).

/// Words of the message that become its title.
const WORDS: usize = 5;
/// Longest title in bytes; a title stands in lists and window bars.
const TITLE_BYTES_MAX: usize = 40;

/// The first words of `text` without control and bidirectional characters; `None` when nothing
/// visible is left.
pub(crate) fn fallback(text: &str) -> Option<String> {
    let visible: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control() && !is_bidirectional(*c))
        .collect();
    let mut title = visible.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ");
    if title.len() > TITLE_BYTES_MAX {
        let mut end = TITLE_BYTES_MAX;
        while !title.is_char_boundary(end) {
            end -= 1;
        }
        title.truncate(end);
        title.truncate(title.trim_end().len());
    }
    (!title.is_empty()).then_some(title)
}

/// Characters that change the direction of what follows, and could make a title lie.
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::fallback;

    #[test]
    fn titles_are_the_first_visible_words() {
        let check = |text: &str, title: Option<&str>| {
            assert_eq!(fallback(text).as_deref(), title, "{text:?}")
        };
        check("PROMPT: PLAIN", Some("PROMPT: PLAIN"));
        check("one two three four five six", Some("one two three four five"));
        check("  spaces\n\tand lines ", Some("spaces and lines"));
        check("\u{202e}evil\u{7} text", Some("evil text"));
        check(" \u{200e} ", None);
        check(&"ä".repeat(40), Some(&"ä".repeat(20)));
    }
}
