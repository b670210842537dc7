//! Whose signatures a component may bear, and whether it must bear one.
//! Signatures are checked by whoever loads the component.

use std::fmt;

/// Bytes of a public key as minisign writes it: two that name the algorithm, eight of the key's id, the key.
const KEY_BYTES: usize = 2 + 8 + 32;

/// Its characters in base64, without a line's end. 42 is divisible by three, so nothing is padded.
const KEY_CHARACTERS: usize = KEY_BYTES / 3 * 4;

/// The algorithm that minisign's keys name.
const ALGORITHM: &[u8] = b"Ed";

/// The algorithm that its signatures of a file's hash name; those of a file itself name [`ALGORITHM`].
const PREHASHED: &[u8] = b"ED";

/// What `trust.keys` says right would be; also in complaints about a lock.
const RIGHT: &str = "a minisign public key: 56 characters of base64 that begin with \"RW\", the second line of its .pub file";

/// `[trust]` of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    /// A component without a good signature by one of the keys is refused.
    pub require_signature: bool,
    /// Those whose signatures count. Not empty where one is required.
    pub keys: Vec<TrustKey>,
}

/// A minisign public key. Equal keys have equal texts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TrustKey {
    text: String,
    id: [u8; 8],
    key: [u8; 32],
}

/// Text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{right}")]
pub struct WrongKey {
    /// What is wrong with it, where more can be said than that it is no key.
    pub because: Option<&'static str>,
    /// What would be right.
    pub right: &'static str,
}

impl TrustKey {
    /// Reads a key from base64.
    pub fn parse(text: &str) -> Result<TrustKey, WrongKey> {
        let wrong = |because| Err(WrongKey { because, right: RIGHT });
        if text.len() != KEY_CHARACTERS {
            return wrong(None);
        }
        let Some(bytes) = base64(text) else { return wrong(None) };
        let Some(rest) = bytes.strip_prefix(ALGORITHM) else {
            return wrong(Some("names another algorithm than Ed25519"));
        };
        let Some((id, key)) = rest.split_first_chunk::<8>() else { return wrong(None) };
        let Ok(key) = key.try_into() else { return wrong(None) };
        Ok(TrustKey { text: text.to_owned(), id: *id, key })
    }

    /// The key as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The id that a signature names its key by.
    pub fn id(&self) -> [u8; 8] {
        self.id
    }

    /// The Ed25519 public key.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }
}

/// The id of the key that a signature was made with: `text` is the second line of a .minisig file, whose first bytes
/// are built like a key's. `None`: that is no signature of minisign.
pub fn signing_key_id(text: &str) -> Option<[u8; 8]> {
    let bytes = base64(text.get(..16)?)?;
    let rest = bytes.strip_prefix(ALGORITHM).or_else(|| bytes.strip_prefix(PREHASHED))?;
    rest.first_chunk().copied()
}

impl fmt::Debug for TrustKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrustKey").field(&self.text).finish()
    }
}

impl fmt::Display for TrustKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The bytes of base64 in whole groups, which needs no padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0_u32;
    for (index, character) in text.bytes().enumerate() {
        let six = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        group = group << 6 | u32::from(six);
        if index % 4 == 3 {
            bytes.extend(group.to_be_bytes().into_iter().skip(1));
            group = 0;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{TrustKey, base64, signing_key_id};

    /// The key under which minisign's own releases are signed.
    const MINISIGN: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    #[test]
    fn a_key_has_an_algorithm_an_id_and_32_bytes() {
        let key = TrustKey::parse(MINISIGN).expect("a key");
        assert_eq!(key.id(), [0x1f, 0xe8, 0xb4, 0x42, 0x18, 0x0f, 0x62, 0xe7]);
        assert_eq!((key.key()[0], key.key()[31]), (0x79, 0xb7));
        assert_eq!(key.to_string(), MINISIGN);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let check = |text: &str, because: Option<&str>| {
            let error = TrustKey::parse(text).expect_err(text);
            assert_eq!(error.because, because, "{text}");
        };
        check("", None);
        check(&MINISIGN[..55], None);
        check(&format!("{MINISIGN}\n"), None);
        check(&MINISIGN.replace('f', "-"), None);
        check("untrusted comment: minisign public key E7620F1842B4E81F", None);
        check(&MINISIGN.replacen("RW", "AA", 1), Some("names another algorithm than Ed25519"));
        // 56 bytes that are no 56 characters.
        check(&"é".repeat(28), None);
    }

    #[test]
    fn a_signature_names_its_key_in_both_forms() {
        let id = TrustKey::parse(MINISIGN).expect("a key").id();
        assert_eq!(signing_key_id("RWQf6LRCGA9i59SLOFxz6NxvASXDJeRt"), Some(id));
        assert_eq!(signing_key_id("RUQf6LRCGA9i559r3g7V1qNyJDApGip8"), Some(id));
        assert_eq!(signing_key_id("AAQf6LRCGA9i559r3g7V1qNyJDApGip8"), None);
        assert_eq!(signing_key_id("RUQf6LRC"), None);
    }

    #[test]
    fn base64_is_read_group_by_group() {
        assert_eq!(base64("TWFuTWFu").as_deref(), Some(b"ManMan".as_slice()));
        assert_eq!(base64("+/+/").as_deref(), Some([0xfb, 0xff, 0xbf].as_slice()));
        assert_eq!(base64("TWF="), None);
    }
}
