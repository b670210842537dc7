//! What every codec of a JSON-RPC protocol needs: lines as text, strings of members, ids that come back as they were.
//! Which messages there are is left to the codec.

use std::{borrow::Cow, str::Utf8Chunk};

use crate::json::{Reader, Text, push_text};

/// A request's id as JSON text, exactly as it is echoed: a string, a number or `null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub Box<str>);

impl RequestId {
    /// The id that this raw value is, which a `Reader` has passed. Equal ids have equal text, however they were written.
    pub fn of(raw: &str) -> RequestId {
        RequestId(match Text::of(raw) {
            // Without an escape it already is as it would be printed.
            Some(_) if !raw.as_bytes().contains(&b'\\') => raw.into(),
            Some(text) => {
                let mut printed = String::with_capacity(raw.len());
                push_text(&mut printed, &text.decode());
                printed.into()
            }
            None if is_number(raw) => number_text(raw).into(),
            None => raw.into(),
        })
    }
}

/// A message with a method and an id.
#[derive(Debug)]
pub struct Request<'a> {
    /// By which it is answered.
    pub id: RequestId,
    /// What is asked.
    pub method: Cow<'a, str>,
    /// Raw JSON, where there is any.
    pub params: Option<&'a str>,
}

/// A message with a method and no id.
#[derive(Debug)]
pub struct Notification<'a> {
    /// What is told.
    pub method: Cow<'a, str>,
    /// Raw JSON, where there is any.
    pub params: Option<&'a str>,
}

/// Removes what ECMAScript calls white space from both ends.
pub fn trim(line: &str) -> &str {
    line.trim_matches(is_space)
}

/// Whether ECMAScript calls a character white space. U+FEFF is, U+0085 and U+200B are not.
pub fn is_space(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n'
            | '\u{b}'
            | '\u{c}'
            | '\r'
            | ' '
            | '\u{a0}'
            | '\u{feff}'
            | '\u{1680}'
            | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// The string that makes up the whole of a raw value.
pub fn string(value: Option<&str>) -> Option<Cow<'_, str>> {
    Some(Text::of(value?)?.decode())
}

/// Some members of an object, as raw values, the last one where a name repeats; `None` where it is no object.
pub fn members<'a, const N: usize>(
    object: &'a str,
    names: [&str; N],
) -> Option<[Option<&'a str>; N]> {
    let mut found = [None; N];
    let mut reader = Reader::new(object);
    reader.object(|reader, name: Text<'_>| {
        let value = reader.value()?;
        for (slot, wanted) in found.iter_mut().zip(names) {
            if name.is(wanted) {
                *slot = Some(value);
            }
        }
        Some(())
    })?;
    Some(found)
}

/// Whether a raw value is a string.
pub fn is_string(value: &str) -> bool {
    value.starts_with('"')
}

/// Whether a raw value is a number.
pub fn is_number(value: &str) -> bool {
    value.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// Bytes that are not UTF-8 become U+FFFD.
pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| mended(error.as_bytes()))
}

/// One byte may become three. There is room for all of them from the start: what grows is there twice meanwhile.
fn mended(bytes: &[u8]) -> String {
    let replaced = |invalid: &[u8]| if invalid.is_empty() { "" } else { "\u{fffd}" };
    let length = |chunk: Utf8Chunk<'_>| chunk.valid().len() + replaced(chunk.invalid()).len();
    let mut text = String::with_capacity(bytes.utf8_chunks().map(length).sum());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(replaced(chunk.invalid()));
    }
    text
}

/// A number as it is echoed: integers exactly, of whatever length; what has a fraction or an exponent as
/// ECMAScript prints it; what is too large for that exactly as it came.
fn number_text(number: &str) -> Cow<'_, str> {
    if number == "-0" {
        return Cow::Borrowed("0");
    }
    if !number.contains(['.', 'e', 'E']) {
        return Cow::Borrowed(number);
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Cow::Owned(ecmascript_number(value)),
        Ok(_) | Err(_) => Cow::Borrowed(number),
    }
}

/// `Number::toString` of ECMAScript. Rust finds the same shortest digits and only writes exponents differently.
fn ecmascript_number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => match exponent.parse::<i32>() {
            Ok(-6..=20) | Err(_) => format!("{value}"),
            Ok(large @ 21..) => format!("{digits}e+{large}"),
            Ok(small) => format!("{digits}e{small}"),
        },
        None => scientific,
    }
}
