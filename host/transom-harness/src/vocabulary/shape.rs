//! What a value must be, as data: the tables of `tables.rs` are made of these words, and one function
//! compares a value with them. Members that a shape does not name are passed over.

use serde_json::value::RawValue;

use super::members::{Members, list, text, whole};

/// What a value must be.
#[derive(Debug)]
pub(super) enum Shape {
    /// Anything.
    Any,
    /// A string.
    Text,
    /// A string that is not empty.
    Word,
    /// A string that names an absolute path.
    Path,
    /// `true` or `false`.
    Bool,
    /// `true`: the member is left out instead of `false`.
    True,
    /// A number.
    Number,
    /// A safe integer.
    Whole,
    /// A safe integer of at least so much.
    Count(u32),
    /// Exactly this integer.
    Is(u32),
    /// One of a closed set of strings.
    OneOf(&'static [&'static str]),
    /// An array of such values.
    List(&'static Shape),
    /// An object with these parts.
    Record(&'static [Part]),
    /// An object, whatever is in it.
    Object,
    /// Such a value, or `null`.
    Nullable(&'static Shape),
}

/// What an object must have.
#[derive(Debug)]
pub(super) enum Part {
    /// A member of that name and shape.
    Has(&'static str, &'static Shape),
    /// If it has a member of that name, this is its shape.
    May(&'static str, &'static Shape),
    /// Where the first member is the second string, these parts as well.
    When(&'static str, &'static str, &'static [Part]),
    /// No member of that name.
    Not(&'static str),
}

/// How deeply blocks may stand in blocks. Units from peers are no deeper than 512 levels, and each block
/// costs two.
const DEPTH_MAX: usize = 256;

/// What does not fit, and where.
struct Wrong {
    path: String,
    what: String,
}

/// Compares `data` with `parts`. The message names the member and what would be right.
pub(super) fn check(parts: &'static [Part], data: &RawValue) -> Result<(), String> {
    record(parts, data, 0).map_err(|Wrong { path, what }| {
        if path.is_empty() { format!("data {what}") } else { format!("\"{path}\" {what}") }
    })
}

fn record(parts: &'static [Part], value: &RawValue, depth: usize) -> Result<(), Wrong> {
    let Some(members) = Members::read(value.get()) else {
        return Err(unlike(&Shape::Object, value));
    };
    members_fit(parts, &members, depth)
}

fn members_fit(parts: &'static [Part], members: &Members<'_>, depth: usize) -> Result<(), Wrong> {
    for part in parts {
        match part {
            Part::Has(name, shape) => match members.raw(name) {
                Some(value) => fits(shape, value, depth).map_err(|wrong| wrong.below(name))?,
                None => {
                    let what = format!("is missing, and must be {}", shape.words());
                    return Err(Wrong { path: (*name).to_owned(), what });
                }
            },
            Part::May(name, shape) => {
                if let Some(value) = members.raw(name) {
                    fits(shape, value, depth).map_err(|wrong| wrong.below(name))?;
                }
            }
            Part::When(name, word, parts) => {
                if members.text(name).is_some_and(|found| found == *word) {
                    members_fit(parts, members, depth)?;
                }
            }
            Part::Not(name) => {
                if members.raw(name).is_some() {
                    let what = "must be left out here".to_owned();
                    return Err(Wrong { path: (*name).to_owned(), what });
                }
            }
        }
    }
    Ok(())
}

fn fits(shape: &'static Shape, value: &RawValue, depth: usize) -> Result<(), Wrong> {
    let fits = match shape {
        Shape::Any => true,
        Shape::Text => text(value).is_some(),
        Shape::Word => text(value).is_some_and(|text| !text.is_empty()),
        Shape::Path => text(value).is_some_and(|text| is_absolute(&text)),
        Shape::Bool => matches!(value.get(), "true" | "false"),
        Shape::True => value.get() == "true",
        Shape::Number => {
            value.get().starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        }
        Shape::Whole => whole(value).is_some(),
        Shape::Count(least) => whole(value).is_some_and(|number| number >= i64::from(*least)),
        Shape::Is(number) => whole(value) == Some(i64::from(*number)),
        Shape::OneOf(words) => text(value).is_some_and(|text| words.contains(&&*text)),
        Shape::Object => value.get().starts_with('{'),
        Shape::Nullable(inner) => value.get() == "null" || fits(inner, value, depth).is_ok(),
        Shape::Record(parts) => {
            if depth >= DEPTH_MAX {
                let what = format!("stands deeper than {DEPTH_MAX} objects");
                return Err(Wrong { path: String::new(), what });
            }
            return record(parts, value, depth + 1);
        }
        Shape::List(shape) => {
            let Some(elements) = list(value) else {
                return Err(unlike(&Shape::List(shape), value));
            };
            for (at, element) in elements.into_iter().enumerate() {
                fits(shape, element, depth).map_err(|wrong| wrong.below(&format!("[{at}]")))?;
            }
            return Ok(());
        }
    };
    if fits { Ok(()) } else { Err(unlike(shape, value)) }
}

/// Whether a path says from where it counts, on any system that a log may come from.
pub(crate) fn is_absolute(path: &str) -> bool {
    let drive =
        matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    path.starts_with('/') || path.starts_with("\\\\") || drive
}

/// Characters of a wrong value that are shown; enough to recognise it.
const SHOWN_MAX: usize = 40;

fn unlike(shape: &Shape, value: &RawValue) -> Wrong {
    let mut shown: String = value.get().chars().take(SHOWN_MAX).collect();
    if shown.len() < value.get().len() {
        shown.push('…');
    }
    Wrong { path: String::new(), what: format!("must be {}, got {shown}", shape.words()) }
}

impl Wrong {
    fn below(self, name: &str) -> Wrong {
        let between = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Wrong { path: format!("{name}{between}{}", self.path), what: self.what }
    }
}

impl Shape {
    fn words(&self) -> String {
        match self {
            Shape::Any => "there".to_owned(),
            Shape::Text => "a string".to_owned(),
            Shape::Word => "a non-empty string".to_owned(),
            Shape::Path => "an absolute path".to_owned(),
            Shape::Bool => "true or false".to_owned(),
            Shape::True => "true".to_owned(),
            Shape::Number => "a number".to_owned(),
            Shape::Whole => "an integer".to_owned(),
            Shape::Count(least) => format!("an integer of at least {least}"),
            Shape::Is(number) => number.to_string(),
            Shape::OneOf([word]) => format!("\"{word}\""),
            Shape::OneOf(words) => format!("one of {}", words.join(", ")),
            Shape::List(_) => "an array".to_owned(),
            Shape::Record(_) | Shape::Object => "an object".to_owned(),
            Shape::Nullable(shape) => format!("{} or null", shape.words()),
        }
    }
}
