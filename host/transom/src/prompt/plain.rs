//! Text that models, tools and peers have written, made fit for a terminal.

use std::borrow::Cow;

/// Control characters, which could move the cursor, set the title or fill the clipboard, become U+FFFD. Line feeds
/// and tabs stay.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let drives = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(drives) {
        Cow::Owned(text.replace(drives, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The same on one line, for what a person decides about: a line break shows as `⏎`, and characters that reverse or
/// hide text become U+FFFD.
pub(crate) fn one_line(text: &str) -> String {
    let hides = |c: char| matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    plain(text)
        .chars()
        .map(|c| match c {
            '\n' => '⏎',
            '\t' => ' ',
            c if hides(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{one_line, plain};

    #[test]
    fn what_is_decided_about_cannot_forge_or_reverse_lines() {
        assert_eq!(one_line("rm\n[y] approved"), "rm⏎[y] approved");
        assert_eq!(one_line("a\u{202e}b\u{200b}c\u{2028}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }

    #[test]
    fn a_terminal_is_not_driven_by_what_is_shown_on_it() {
        let check = |text: &str, shown: &str| assert_eq!(plain(text), shown, "{text:?}");
        check("two\nlines\tand 你好 🦀", "two\nlines\tand 你好 🦀");
        check("\u{1b}]0;title\u{7}", "\u{fffd}]0;title\u{fffd}");
        check("\u{9b}31mred\r\u{7f}", "\u{fffd}31mred\u{fffd}\u{fffd}");
    }
}
