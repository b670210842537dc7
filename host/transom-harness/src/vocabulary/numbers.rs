//! Numbers that would not survive a JSON round trip (L-6).

use std::fmt;

use serde_json::Value;

/// A value that an event cannot carry. The log is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJsonSafe {
    /// The event's `type`.
    pub kind: String,
}

impl fmt::Display for NotJsonSafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session event \"{}\" carries non-JSON-serializable data", self.kind)
    }
}

impl std::error::Error for NotJsonSafe {}

/// Whether `value`, which comes from outside, may stand in the data of an event of type `kind` (L-6).
///
/// Of what the rule names only minus zero can occur: a `Value` has no NaN, no infinity, no undefined member,
/// no hole and no cycle. Minus zero would be written as `-0.0` and read back by many readers as 0.
pub fn json_safe(kind: &str, value: &Value) -> Result<(), NotJsonSafe> {
    // Without recursion: nobody has bounded the depth of a value from outside.
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Number(number) if is_lost(number.as_f64()) => {
                return Err(NotJsonSafe { kind: kind.to_owned() });
            }
            Value::Array(elements) => rest.extend(elements),
            Value::Object(members) => rest.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

/// The same for a value that is still text, which may hold numbers too large for a `Value`.
pub fn text_safe(kind: &str, json: &str) -> Result<(), NotJsonSafe> {
    match lost_number(json) {
        None => Ok(()),
        Some(_) => Err(NotJsonSafe { kind: kind.to_owned() }),
    }
}

/// Minus zero, or nothing that a double can hold.
fn is_lost(number: Option<f64>) -> bool {
    number.is_none_or(|number| !number.is_finite() || (number == 0.0 && number.is_sign_negative()))
}

/// The first number in valid JSON text that a reader would not keep: minus zero, or one so large that it
/// becomes an infinity.
pub(crate) fn lost_number(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        at += match byte {
            b'"' => string_bytes(rest),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let bytes = rest.iter().take_while(|byte| is_part(byte)).count();
                let number = json.get(at..at + bytes).unwrap_or_default();
                if is_lost(number.parse().ok()) {
                    return Some(number);
                }
                bytes
            }
            _ => 1,
        };
    }
    None
}

/// Bytes of the string at the front, with its quotes.
fn string_bytes(json: &[u8]) -> usize {
    let mut escaped = false;
    let inside = json.iter().skip(1).take_while(|byte| {
        let ends = **byte == b'"' && !escaped;
        escaped = **byte == b'\\' && !escaped;
        !ends
    });
    inside.count() + 2
}
