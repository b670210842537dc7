//! How deep JSON text nests, found in one pass, without recursion and without an allocation.
//! Whether the text is JSON at all is left to whoever parses it.

/// Whether more than `nesting_max` arrays and objects are open at one place of `text` (decision 55).
///
/// Brackets inside strings do not count. Text that is not JSON gets an answer too: up to the place where a JSON
/// parser would give up, both count the same brackets, so no parser meets more depth than was allowed here.
pub fn nests_deeper_than(text: &[u8], nesting_max: u64) -> bool {
    // Without that many bytes there cannot be that many brackets: ordinary small units are never looked at.
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= nesting_max) {
        return false;
    }

    let mut depth: u64 = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' if depth == nesting_max => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    false
}

/// Moves behind the quotation mark that ends a string. A string that never ends takes the rest with it.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // Whatever is escaped, a quotation mark or a backslash, its first byte has no meaning of its own.
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
