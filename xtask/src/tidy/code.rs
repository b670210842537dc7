//! Rust text as tidy reads it: without comments and literals, as the list of paths it names. Meaning is left to the compiler.

/// The same text with every comment and every string or character literal blanked; lines keep their numbers.
pub fn without_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = '\n';
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            'r' | 'b' | 'c' if !is_word(before) => prefixed_string(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            out.push(first);
            before = first;
            rest = rest.split_at(first.len_utf8()).1;
        } else {
            let (blanked, after) = rest.split_at(length);
            out.extend(blanked.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
            before = ' ';
            rest = after;
        }
    }
    out
}

/// Code up to its unit tests: what stands behind `#[cfg(test)] mod … {` at the end of a file is left out.
pub fn without_tests(code: &str) -> &str {
    let mut from = 0;
    while let Some(at) = code.get(from..).and_then(|rest| rest.find("#[cfg(test)]")) {
        let after = code.get(from + at + "#[cfg(test)]".len()..).unwrap_or_default().trim_start();
        let head = after.split(['{', ';']).next().unwrap_or_default();
        if head.contains("mod ")
            && after.get(head.len()..).is_some_and(|rest| rest.starts_with('{'))
        {
            return code.get(..from + at).unwrap_or(code);
        }
        from += at + 1;
    }
    code
}

/// A path that code names, such as `std::fs::File`, and the line it starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    pub segments: Vec<String>,
}

impl Path {
    /// Whether the path begins with these segments, joined by `::`.
    pub fn begins(&self, prefix: &str) -> bool {
        let mut mine = self.segments.iter();
        prefix.split("::").all(|wanted| mine.next().is_some_and(|segment| segment == wanted))
    }

    /// Whether these segments, joined by `::`, stand anywhere in the path.
    pub fn holds(&self, part: &str) -> bool {
        let part: Vec<&str> = part.split("::").collect();
        self.segments
            .windows(part.len())
            .any(|window| window.iter().zip(&part).all(|(segment, wanted)| segment == wanted))
    }
}

/// The paths in a text that went through [`without_words`]; the groups of `use` are spelled out.
pub fn paths(code: &str) -> Vec<Path> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        rest = if token.is_word() { path(&[], rest, &mut found) } else { after };
    }
    found
}

#[derive(Debug)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text.chars().next().is_some_and(is_word)
    }
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (text, after) = rest.split_at(length);
            tokens.push(Token { line: index + 1, text });
            rest = after.trim_start();
        }
    }
    tokens
}

/// Reads one path and, where it ends in a group, every path of the group. Gives what follows.
fn path<'t, 'a>(
    prefix: &[String],
    mut rest: &'t [Token<'a>],
    found: &mut Vec<Path>,
) -> &'t [Token<'a>] {
    let mut segments = prefix.to_vec();
    let Some(line) = rest.first().map(|token| token.line) else { return rest };
    loop {
        match rest {
            [word, colons, after @ ..] if word.is_word() && colons.text == "::" => {
                segments.push(word.text.to_owned());
                if after.first().is_some_and(|token| token.text == "{") {
                    return group(
                        &segments,
                        after.split_first().map_or(&[][..], |(_, inside)| inside),
                        found,
                    );
                }
                rest = after;
            }
            [word, after @ ..] if word.is_word() => {
                segments.push(word.text.to_owned());
                found.push(Path { line, segments });
                return after;
            }
            _ => {
                found.push(Path { line, segments });
                return rest;
            }
        }
    }
}

fn group<'t, 'a>(
    prefix: &[String],
    mut rest: &'t [Token<'a>],
    found: &mut Vec<Path>,
) -> &'t [Token<'a>] {
    while let Some((token, after)) = rest.split_first() {
        rest = match token.text {
            "}" => return after,
            // A stray brace means that this was no `use`: what it holds is read as ordinary code.
            "{" => group(prefix, after, found),
            _ if token.is_word() => path(prefix, rest, found),
            _ => after,
        };
    }
    rest
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth = depth.saturating_sub(1);
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a literal that begins with its quote.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#`, `b"…"`, `br"…"` and the like; none when this is a word or a raw identifier.
fn prefixed_string(text: &str) -> Option<usize> {
    let letters =
        text.find(|letter| !matches!(letter, 'r' | 'b' | 'c')).filter(|count| *count <= 2)?;
    let (prefix, rest) = text.split_at(letters);
    if rest.starts_with('"') && !prefix.contains('r') {
        return Some(letters + string(rest));
    }
    let hashes = rest.find(|letter| letter != '#')?;
    if !prefix.contains('r') || !rest.get(hashes..)?.starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = letters + hashes + 1;
    Some(text.get(inside..)?.find(&end).map_or(text.len(), |at| inside + at + end.len()))
}

/// The length of a character literal; none when the quote begins a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.get(1..)?;
    if inside.starts_with('\\') {
        return Some(
            inside
                .char_indices()
                .skip(2)
                .find(|(_, letter)| *letter == '\'')
                .map_or(text.len(), |(at, _)| at + 2),
        );
    }
    let letter = inside.chars().next()?;
    inside.get(letter.len_utf8()..)?.starts_with('\'').then(|| letter.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_blanked_and_lines_keep_their_numbers() {
        for (text, expected) in [
            ("a // std::fs\nb", "a           \nb"),
            ("a /* x /* y */\n z */ b", "a             \n      b"),
            (r#"f("std::fs \" x", 1)"#, "f(              , 1)"),
            ("r#\"a \" b\"# + c", "           + c"),
            ("br\"\\\" + c", "      + c"),
            ("b'\\'' + c", "b     + c"),
            ("'\"' + \"'\"", "    +    "),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#type + bar(r)", "r#type + bar(r)"),
        ] {
            assert_eq!(without_words(text), expected, "{text}");
        }
    }

    fn spelled(code: &str) -> Vec<String> {
        paths(code)
            .into_iter()
            .map(|path| format!("{} {}", path.line, path.segments.join("::")))
            .collect()
    }

    #[test]
    fn groups_are_spelled_out() {
        assert_eq!(
            spelled(
                "use std::{\n    fs,\n    time::{Duration, Instant as Now},\n};\nx.y(std::env::var);"
            ),
            [
                "1 use",
                "2 std::fs",
                "3 std::time::Duration",
                "3 std::time::Instant",
                "3 as",
                "3 Now",
                "5 x",
                "5 y",
                "5 std::env::var"
            ]
            .map(|line| line.replace(" as", " std::time::as").replace(" Now", " std::time::Now"))
        );
    }

    #[test]
    fn a_path_is_known_by_its_start_and_by_its_parts() {
        let path = Path {
            line: 1,
            segments: ["tokio", "time", "Instant", "now"].map(str::to_owned).to_vec(),
        };
        assert!(
            path.begins("tokio")
                && path.begins("tokio::time")
                && !path.begins("tok")
                && !path.begins("time")
        );
        assert!(path.holds("Instant::now") && !path.holds("Instant::no"));
    }

    #[test]
    fn tests_at_the_end_are_left_out_and_test_only_items_are_not() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\nb\n}"), "a\n");
        let kept = "#[cfg(test)]\nmod tests;\na";
        assert_eq!(without_tests(kept), kept);
    }
}
