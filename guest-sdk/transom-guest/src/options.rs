//! Options of a door, read strictly: what a user could believe was accepted is accepted or refused by name. Which options there
//! are is left to the codec.

use crate::{Fault, FaultKind, json::Reader, jsonrpc::trim};

/// Gives each option to `take`, by its name and as raw JSON; nothing and `null` are no options. The fault says what `take` said
/// first, or that `options` are no JSON object.
pub fn read(
    options: &str,
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Fault> {
    let text = trim(options);
    if text.is_empty() || text == "null" {
        return Ok(());
    }
    let mut wrong = None;
    let mut reader = Reader::new(text);
    let read = reader.object(|reader, name| {
        let value = reader.value()?;
        if let Err(complaint) = take(&name.decode(), value) {
            wrong.get_or_insert(complaint);
        }
        Some(())
    });
    if read.is_none() || !reader.at_end() {
        wrong = Some(format!("options are no JSON object: {text}"));
    }
    match wrong {
        Some(wrong) => Err(Fault::new(FaultKind::Unsupported, wrong)),
        None => Ok(()),
    }
}
