//! Signs files as minisign does, with a key made from a seed, so that every run signs the same.

use blake2::{Blake2b512, Digest as _};
use ed25519_dalek::{Signer as _, SigningKey};

/// Somebody with a key.
pub struct Author {
    key: SigningKey,
    id: [u8; 8],
}

/// What of a file is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its hash: the usual form today.
    Prehashed,
    /// The file itself: `minisign -l`.
    Whole,
}

impl Author {
    /// With the key of this seed.
    pub fn new(seed: u8) -> Author {
        Author { key: SigningKey::from_bytes(&[seed; 32]), id: [seed; 8] }
    }

    /// The same author under the id of another one.
    #[must_use]
    pub fn under(self, other: &Author) -> Author {
        Author { id: other.id, ..self }
    }

    /// The second line of the .pub file.
    pub fn public(&self) -> String {
        base64(&[b"Ed", &self.id[..], self.key.verifying_key().as_bytes()].concat())
    }

    /// The text of a .minisig file.
    pub fn sign(&self, file: &[u8], form: Form, comment: &str) -> String {
        let (algorithm, signature) = match form {
            Form::Prehashed => (b"ED", self.key.sign(&Blake2b512::digest(file)).to_bytes()),
            Form::Whole => (b"Ed", self.key.sign(file).to_bytes()),
        };
        let whole = self.key.sign(&[&signature[..], comment.as_bytes()].concat()).to_bytes();
        format!(
            "untrusted comment: signature\n{}\ntrusted comment: {comment}\n{}\n",
            base64(&[&algorithm[..], &self.id, &signature].concat()),
            base64(&whole),
        )
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            match digit <= group.len() {
                true => text.push(char::from(DIGITS[(number >> (18 - 6 * digit) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}
