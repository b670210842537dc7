//! What kind of file this is, told from its outermost structure.
//! What stands inside is left to the parser, which need not explain files that are none of its business.

use crate::error::LoadError;

const MAGIC: &[u8] = b"\0asm";
const MODULE: (u16, u16) = (1, 0);
const COMPONENT: (u16, u16) = (0x0d, 1);

/// Accepts what begins and ends like a component.
pub(crate) fn is_component(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        // A beginning of the magic number is what an interrupted copy leaves.
        return Err(if MAGIC.starts_with(bytes) {
            LoadError::Truncated { at: 0, needed: 8, left: bytes.len() }
        } else {
            LoadError::NotWasm { begins: beginning(bytes) }
        });
    };
    let Some(&[v0, v1, l0, l1]) = rest.first_chunk::<4>() else {
        return Err(LoadError::Truncated { at: 0, needed: 8, left: bytes.len() });
    };
    match (u16::from_le_bytes([v0, v1]), u16::from_le_bytes([l0, l1])) {
        COMPONENT => sections_are_whole(bytes),
        MODULE => Err(LoadError::CoreModule),
        (version, layer) => Err(LoadError::UnknownFormat { version, layer }),
    }
}

/// Each section is an id, a length and as many bytes; the last one must end where the file does.
fn sections_are_whole(bytes: &[u8]) -> Result<(), LoadError> {
    let mut at = MAGIC.len() + 4;
    while let Some(section) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let left = section.len();
        let Some((length, header)) = section.get(1..).and_then(length) else {
            return Err(LoadError::Truncated { at, needed: 2, left });
        };
        let needed = 1 + header as u64 + u64::from(length);
        if needed > left as u64 {
            return Err(LoadError::Truncated { at, needed, left });
        }
        at += needed as usize;
    }
    Ok(())
}

/// Characters of a version.
const VERSION_MAX: usize = 64;

/// The version that a component says it is: the custom section `version`, which is where tools that know of such
/// metadata write it. It must be one word of readable characters. `None`: it says nothing.
pub(crate) fn version(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes.get(MAGIC.len() + 4..)?;
    while let [id, after @ ..] = rest {
        let (size, header) = length(after)?;
        let (body, next) = after.get(header..)?.split_at_checked(size as usize)?;
        rest = next;
        if *id != 0 {
            continue;
        }
        let (name_size, header) = length(body)?;
        let (name, text) = body.get(header..)?.split_at_checked(name_size as usize)?;
        if name == b"version" {
            let text = str::from_utf8(text).ok()?;
            let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
            return (is_word && (1..=VERSION_MAX).contains(&text.len())).then(|| text.to_owned());
        }
    }
    None
}

/// An unsigned 32-bit number in LEB128, and how many bytes it takes. One that is too long is left to the parser to
/// refuse: here it only must not be mistaken for the end of the file.
fn length(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (index, &byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn beginning(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::version;

    fn with_section(name: &str, text: &str) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        let size = |text: &str| u8::try_from(text.len()).expect("a short text");
        // Another section stands before it.
        bytes.extend([1, 2, 9, 9, 0, 1 + size(name) + size(text), size(name)]);
        bytes.extend(name.bytes().chain(text.bytes()));
        bytes
    }

    #[test]
    fn a_version_is_one_word_in_a_section_of_its_name() {
        let check = |name: &str, text: &str, expected: Option<&str>| {
            assert_eq!(version(&with_section(name, text)).as_deref(), expected, "{name} {text:?}");
        };
        check("version", "1.2.3-rc.1+build", Some("1.2.3-rc.1+build"));
        check("revision", "1.2.3", None);
        check("version", "", None);
        check("version", "1 2", None);
        check("version", "1\u{1b}[2J", None);
        check("version", &"1".repeat(65), None);
        assert_eq!(version(b""), None);
        let mut cut = with_section("version", "1.2.3");
        cut.pop();
        assert_eq!(version(&cut), None);
    }
}
