//! The known name that somebody probably meant.

/// The name among `known` that is nearest to `found`, if any is near enough to be a slip of the hand.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong: past that, a suggestion misleads more often than it helps.
    let wrong_max = (found.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(found, name), name))
        .filter(|(wrong, name)| *wrong <= wrong_max || same_words(found, name))
        .min_by_key(|(wrong, _)| *wrong)
        .map(|(_, name)| name)
}

/// Whether both consist of the same words, whatever their order, case and separators: `max_unit_bytes` for
/// `unit-bytes-max`.
fn same_words(left: &str, right: &str) -> bool {
    words(left) == words(right)
}

fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> =
        text.split(['-', '_', '.', ' ']).map(str::to_ascii_lowercase).collect();
    words.sort();
    words
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_corrected_and_another_word_is_not() {
        let known = ["unit-bytes-max", "nesting-max", "sessions-max"];
        let check = |found: &str, expected: Option<&str>| {
            assert_eq!(nearest(found, known), expected, "{found}");
        };
        check("unit-byte-max", Some("unit-bytes-max"));
        check("unit_bytes_max", Some("unit-bytes-max"));
        check("max-unit-bytes", Some("unit-bytes-max"));
        check("nesitng-max", Some("nesting-max"));
        check("session-max", Some("sessions-max"));
        check("colour", None);
        check("", None);
    }
}
