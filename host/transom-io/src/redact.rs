//! What people and models say, made fit for a log: short, on one line, and without what looks like a secret. Where it is logged,
//! at `trace` and nowhere else, is decided by whoever logs it.

use std::fmt;

use serde_json::Value;

/// Bytes of a body that are looked at. The rest is counted.
const SHOWN_MAX: usize = 1024;

/// Characters of a text in a note; of more it is no longer a note but a body.
const NOTE_TEXT_MAX: usize = 64;

/// Members of a note.
const NOTE_MEMBERS_MAX: usize = 16;

/// A shorter value would be replaced all over a log, and protects nothing.
const SECRET_MIN: usize = 6;

/// From this length on a word of letters and digits is taken for a key.
const KEY_MIN: usize = 24;

/// What stands in place of what is left out.
const HIDDEN: &str = "[hidden]";

/// Words that name a secret, in lower case.
const NAMES: [&str; 9] = [
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "cookie",
    "credential",
    "passw",
    "secret",
    "token",
];

/// How well-known keys begin.
const BEGINNINGS: [&str; 6] = ["sk-", "ghp_", "github_pat_", "xox", "AKIA", "eyJ"];

/// Leaves out secrets: the ones that it was told, and what looks like one.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that none is left half.
    secrets: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
    }
}

impl Redactor {
    /// With these values, wherever they stand.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Redactor {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|secret| secret.len() >= SECRET_MIN).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redactor { secrets }
    }

    /// A body, to be shown at `trace`.
    pub(crate) fn body<'b>(&'b self, bytes: &'b [u8]) -> Body<'b> {
        Body { redactor: self, bytes }
    }

    /// What a component notes about itself: numbers and short words. Anything else in it could be a body.
    pub(crate) fn note(&self, json: &str) -> String {
        let Ok(Value::Object(members)) = serde_json::from_str(json) else {
            return HIDDEN.to_owned();
        };
        let short = |text: &str| text.chars().count() <= NOTE_TEXT_MAX;
        let kept = members.into_iter().filter(|(name, _)| short(name)).take(NOTE_MEMBERS_MAX);
        let kept = kept.map(|(name, value)| match value {
            Value::String(text) if short(&text) => {
                let shown = self.text(&format!("{name}:{text}"));
                let shown = shown.strip_prefix(&format!("{name}:")).unwrap_or(HIDDEN).to_owned();
                (name, Value::String(shown))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => (name, value),
            Value::String(_) | Value::Array(_) | Value::Object(_) => (name, HIDDEN.into()),
        });
        Value::Object(kept.collect()).to_string()
    }

    fn text(&self, text: &str) -> String {
        let mut known = text.to_owned();
        for secret in &self.secrets {
            // As it is, and as it stands within JSON.
            known = known.replace(secret.as_str(), HIDDEN);
        }
        let mut out = String::with_capacity(known.len());
        let mut rest = known.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if word.is_empty() {
                push(&mut out, first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                continue;
            }
            rest = after;
            if is_key(word) {
                out.push_str(HIDDEN);
                continue;
            }
            out.push_str(word);
            if names_a_secret(word) {
                rest = value(&mut out, rest);
            }
        }
        out
    }
}

/// A body on its way into the log.
pub(crate) struct Body<'b> {
    redactor: &'b Redactor,
    bytes: &'b [u8],
}

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret may lie across the end of what is shown: more is looked at, and cut afterwards.
        let longest = self.redactor.secrets.first().map_or(0, String::len);
        let looked_at = self.bytes.len().min(SHOWN_MAX + longest.max(SHOWN_MAX));
        let text = String::from_utf8_lossy(self.bytes.get(..looked_at).unwrap_or_default());
        let text = self.redactor.text(&text);
        let shown = text.get(..text.floor_char_boundary(SHOWN_MAX)).unwrap_or_default();
        f.write_str(shown)?;
        if shown.len() < text.len() || looked_at < self.bytes.len() {
            write!(f, "… ({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+')
}

fn push(out: &mut String, c: char) {
    if c.is_control() {
        out.extend(c.escape_default());
    } else {
        out.push(c);
    }
}

/// Whether a word looks like a key: long, of letters and digits, and no identifier as this host mints them.
fn is_key(word: &str) -> bool {
    if BEGINNINGS.iter().any(|known| word.starts_with(known)) && word.len() >= 12 {
        return true;
    }
    let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
    word.len() >= KEY_MIN
        && has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
        && !is_uuid(word)
}

fn is_uuid(word: &str) -> bool {
    let word = word.strip_prefix("session-").unwrap_or(word);
    let lengths: Vec<_> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn names_a_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    NAMES.iter().any(|name| word.contains(name))
}

/// Leaves out the value behind a name, if there is one: `"name": "value"`, also within JSON that stands in JSON,
/// `name=value` and `name: Scheme value`. Gives what follows.
fn value<'t>(out: &mut String, rest: &'t str) -> &'t str {
    let is_mark = |c: char| matches!(c, '"' | '\'' | '\\' | ' ' | ':' | '=');
    let end = rest.find(|c| !is_mark(c)).unwrap_or(rest.len());
    let (marks, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let Some(assigned) = marks.rfind([':', '=']) else { return rest };
    // Empty texts between quotes have no value to hide, and `after` is another member.
    let opening = marks.get(assigned + 1..).unwrap_or_default().trim_start();
    let quotes = opening.matches(['"', '\'']).count();
    if quotes > 1 {
        return rest;
    }
    out.push_str(marks);
    let number = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    if quotes == 0 && after.get(number..).is_none_or(|next| !next.starts_with(is_word)) {
        // A count, such as that of tokens.
        return after;
    }
    let end = match quotes {
        1 => closing(after, opening),
        _ => {
            let scheme = ["Bearer ", "Basic "].into_iter().find(|name| after.starts_with(name));
            let from = scheme.map_or(0, str::len);
            let is_end =
                |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '&' | '}' | ']' | ')');
            after
                .get(from..)
                .and_then(|value| value.find(is_end))
                .map_or(after.len(), |at| from + at)
        }
    };
    out.push_str(HIDDEN);
    after.get(end..).unwrap_or_default()
}

/// Where a text that began with this quote ends: at a quote behind as many backslashes.
fn closing(text: &str, opening: &str) -> usize {
    let Some(quote) = opening.chars().find(|c| matches!(c, '"' | '\'')) else { return text.len() };
    let depth = opening.matches('\\').count();
    let mut slashes = 0;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => slashes += 1,
            c if c == quote && slashes <= depth => return at - slashes,
            _ => slashes = 0,
        }
        if c == quote {
            slashes = 0;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Redactor::new(["hunter22".to_owned(), "no".to_owned()]).body(text.as_bytes()).to_string()
    }

    #[test]
    fn what_names_or_looks_like_a_secret_is_hidden_and_the_rest_is_not() {
        for (text, expected) in [
            ("hello", "hello"),
            (r#"{"method":"session/prompt","id":12}"#, r#"{"method":"session/prompt","id":12}"#),
            ("say hunter22 no", "say [hidden] no"),
            (r#"{"password":"p@ss, w0rd"}"#, r#"{"password":"[hidden]"}"#),
            (r#"{"apiKey": "a\"b", "x": 1}"#, r#"{"apiKey": "[hidden]", "x": 1}"#),
            (
                r#"{"text":"{\"api_key\":\"ab c\",\"y\":2}"}"#,
                r#"{"text":"{\"api_key\":\"[hidden]\",\"y\":2}"}"#,
            ),
            (r#"{"token":"","next":"kept"}"#, r#"{"token":"","next":"kept"}"#),
            ("Authorization: Bearer abc.def\nx: y", r"Authorization: [hidden]\nx: y"),
            ("DEEPSEEK_API_KEY=abc rest", "DEEPSEEK_API_KEY=[hidden] rest"),
            ("?access_token=abc&x=1", "?access_token=[hidden]&x=1"),
            (r#"{"input_tokens":12,"total":3}"#, r#"{"input_tokens":12,"total":3}"#),
            ("key sk-abcdefghijkl", "key [hidden]"),
            ("AbCdEf0123456789AbCdEf0123456789", "[hidden]"),
            ("afd2b4f2-7dcf-4849-9bde-d913c5e55c29", "afd2b4f2-7dcf-4849-9bde-d913c5e55c29"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("the secret is out", "the secret is out"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_body_is_cut_and_no_half_of_a_secret_is_left() {
        let text = format!("{}hunter22 {}", "a ".repeat(508), "b ".repeat(100_000));
        let shown = shown(&text);
        assert!(shown.len() < 1100 && !shown.contains("hunter"), "{shown}");
        assert!(shown.ends_with(&format!("… ({} bytes)", text.len())), "{shown}");
        assert_eq!(self::shown("é".repeat(10).as_str()), "é".repeat(10));
        assert_eq!(Redactor::default().body(b"\xff\xfe").to_string(), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn any_text_is_shown_somehow() {
        // Each of these once ended a word, a value or a quote in the middle of something.
        for text in [
            "token",
            "token:",
            "token=\"",
            "token\\\":\\\"",
            "token: Bearer",
            "'token'='",
            "é=token=é",
        ] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let _ = shown(&text[..cut]);
            }
        }
    }

    #[test]
    fn a_note_has_numbers_and_short_words() {
        let redactor = Redactor::new(["hunter22".to_owned()]);
        for (note, expected) in [
            (r#"{"why":"too-long","bytes":7}"#, r#"{"why":"too-long","bytes":7}"#),
            (r#"{"said":"hunter22"}"#, r#"{"said":"[hidden]"}"#),
            (r#"{"token":"abc"}"#, r#"{"token":"[hidden]"}"#),
            (r#"{"unit":{"text":"x"}}"#, r#"{"unit":"[hidden]"}"#),
            ("no json", "[hidden]"),
        ] {
            assert_eq!(redactor.note(note), expected, "{note}");
        }
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(65));
        assert_eq!(redactor.note(&long), r#"{"text":"[hidden]"}"#);
    }
}
