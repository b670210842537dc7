//! The members of a JSON object, as text: what a check does not look at is never parsed, so that it is
//! neither bounded in depth nor changed. What members must be is `shape.rs`'s.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of an object. Of several of one name the last one counts (decision 73).
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
                    members.push((name, map.next_value()?));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object).map(Members)
    }
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct Str;

        impl<'de> Visitor<'de> for Str {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Str).map(Text)
    }
}

impl<'a> Members<'a> {
    /// `None` where the text is no object.
    pub(crate) fn read(text: &'a str) -> Option<Members<'a>> {
        serde_json::from_str(text).ok()
    }

    /// The value of that name.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(of, _)| of == name).map(|(_, value)| *value)
    }

    /// The string of that name.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).and_then(text)
    }

    /// The non-negative integer of that name.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.raw(name).and_then(|value| u64::try_from(whole(value)?).ok())
    }

    /// The object of that name.
    pub(crate) fn object(&self, name: &str) -> Option<Members<'a>> {
        self.raw(name).and_then(|value| Members::read(value.get()))
    }

    /// The elements of the array of that name.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        self.raw(name).and_then(list)
    }

    /// All names, in order, repeated ones as often as they stand there.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }
}

/// The string that a value is.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

/// The elements of the array that a value is.
pub(crate) fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// The largest integer that every JSON reader keeps (L-4: safe integers).
const SAFE_MAX: i64 = (1 << 53) - 1;

/// The safe integer that a value is, minus zero excluded (L-4).
pub(crate) fn whole(value: &RawValue) -> Option<i64> {
    let digits = value.get();
    let number: i64 = digits.parse().ok()?;
    (digits != "-0" && (-SAFE_MAX..=SAFE_MAX).contains(&number)).then_some(number)
}
