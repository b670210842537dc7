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

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_terminal_is_not_driven_by_what_is_shown_on_it() {
        let check = |text: &str, shown: &str| assert_eq!(plain(text), shown, "{text:?}");
        check("two\nlines\tand 你好 🦀", "two\nlines\tand 你好 🦀");
        check("\u{1b}]0;title\u{7}", "\u{fffd}]0;title\u{fffd}");
        check("\u{9b}31mred\r\u{7f}", "\u{fffd}31mred\u{fffd}\u{fffd}");
    }
}
