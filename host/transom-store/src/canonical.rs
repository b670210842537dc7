//! The canonical form of a log (decision 2): the header line of L-76, made from a stored header (L-4), and
//! one line for each event. Checking headers is the harness's.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Members of a header in the order of the line; the flag says that the line has it in any case.
const MEMBERS: [(&str, bool); 9] = [
    ("version", true),
    ("id", true),
    ("createdAt", true),
    ("cwd", false),
    ("parentSession", false),
    ("seedLength", false),
    ("origin", false),
    ("delegationDepth", true),
    ("agentPreset", false),
];

/// Makes the header line, without its end. `None`: the stored text is not a JSON object.
///
/// Members that nobody knows stand behind the known ones, so that nothing is lost in passing.
pub(crate) fn header(stored: &str) -> Option<String> {
    let Ok(Value::Object(mut header)) = serde_json::from_str::<Value>(stored) else { return None };

    let mut line = Map::new();
    line.insert("type".to_owned(), Value::from("session"));
    for (name, always) in MEMBERS {
        match header.remove(name) {
            Some(value) => line.insert(name.to_owned(), value),
            // Only numbers stand in every line: the version and the depth of a session at top level are 0.
            None if always && name != "id" && name != "createdAt" => {
                line.insert(name.to_owned(), Value::from(0))
            }
            None => None,
        };
    }
    header.remove("type");
    line.extend(header);
    Some(Value::Object(line).to_string())
}

/// An event's text as one line, without its end.
///
/// A line break in JSON text can only stand between tokens, where a space says the same.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ").into() } else { text.into() }
}
