//! Line and column of places in a text.

/// Tells where places of a text are, for people. However many are asked for in the order of the text, each of its bytes
/// is looked at once.
#[derive(Debug, Clone)]
pub struct Places<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    column: usize,
}

impl<'t> Places<'t> {
    /// The places of a text.
    pub fn new(text: &'t str) -> Places<'t> {
        Places { text, at: 0, line: 1, column: 1 }
    }

    /// Line and column of a byte, both from 1, in characters. A place that is none, such as one past the end, is the end.
    pub fn of(&mut self, at: usize) -> (usize, usize) {
        let at = if self.text.is_char_boundary(at) { at } else { self.text.len() };
        if at < self.at {
            *self = Places::new(self.text);
        }
        let passed = self.text.get(self.at..at).unwrap_or_default();
        match passed.rsplit_once('\n') {
            Some((before, line)) => {
                self.line += before.matches('\n').count() + 1;
                self.column = line.chars().count() + 1;
            }
            None => self.column += passed.chars().count(),
        }
        self.at = at;
        (self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn a_place_is_told_in_lines_and_characters_in_whatever_order_it_is_asked_for() {
        let text = "ab\nçd\r\n\n€x";
        let table = [
            (0, (1, 1)),
            (1, (1, 2)),
            (2, (1, 3)),
            (3, (2, 1)),
            (5, (2, 2)),
            (6, (2, 3)),
            (8, (3, 1)),
            (9, (4, 1)),
            (12, (4, 2)),
            (13, (4, 3)),
            // In the middle of a character, and past the end.
            (4, (4, 3)),
            (99, (4, 3)),
        ];
        let mut ordered = Places::new(text);
        for (at, expected) in table {
            assert_eq!(ordered.of(at), expected, "{at} from the one before");
            assert_eq!(Places::new(text).of(at), expected, "{at} from the start");
        }
        for (at, expected) in table.into_iter().rev() {
            assert_eq!(ordered.of(at), expected, "{at} from the one behind");
        }
    }
}
