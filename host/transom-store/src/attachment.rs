//! Attachments: bytes under the name of their digest (S-58, decision 47). Where they are kept is each store's own.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use transom_harness::ports::{Attachment, StoreError};

/// Bytes of one attachment: what the largest unit of any door can carry.
pub const ATTACHMENT_BYTES_MAX: usize = 160 * 1024 * 1024;

/// The name of bytes: `sha256:<hex of their digest>`.
pub(crate) fn name(bytes: &[u8]) -> Result<String, StoreError> {
    if bytes.len() > ATTACHMENT_BYTES_MAX {
        return Err(StoreError::Io(format!(
            "an attachment of {} bytes is over the limit of {ATTACHMENT_BYTES_MAX}",
            bytes.len()
        )));
    }
    let mut name = PREFIX.to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}

/// The digest in a name. `None`: no attachment can have that name.
pub(crate) fn digest(name: &str) -> Option<&str> {
    let digest = name.strip_prefix(PREFIX)?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digest.len() == 64 && digest.bytes().all(is_hex)).then_some(digest)
}

/// An attachment as it was read, unless its bytes are not those that were kept.
pub(crate) fn verified(
    name: &str,
    found: Option<Attachment>,
) -> Result<Option<Attachment>, StoreError> {
    let Some(found) = found else { return Ok(None) };
    if self::name(&found.bytes)? != name {
        return Err(StoreError::Io(format!(
            "the attachment {name} is damaged: its bytes have another digest"
        )));
    }
    Ok(Some(found))
}

const PREFIX: &str = "sha256:";
