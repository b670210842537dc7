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
