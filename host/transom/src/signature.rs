//! Detached minisign signatures of components: `notes.wasm.minisig` beside `notes.wasm`. Whose signatures count, and
//! whether there must be one, is the policy's `[trust]`; this is asked before anything is compiled.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use minisign_verify::{Error, PublicKey, Signature};
use transom_policy::{Trust, TrustKey, signing_key_id};

use crate::{candidate::Candidate, environment::read_bounded};

/// Bytes of a signature: four lines, of which two are comments for people.
const SIGNATURE_BYTES_MAX: u64 = 16 << 10;

/// What is known of a component's signature. Whatever may not be loaded is an error instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signed {
    /// The policy names no keys, so that no signature could count.
    Unasked,
    /// There is none, and none is required.
    Unsigned,
    /// One of the policy's keys signed exactly these bytes.
    By {
        key: TrustKey,
        /// The hash of the file was signed, which is what minisign does today, and not the file itself.
        prehashed: bool,
    },
}

impl Signed {
    pub(crate) fn key(&self) -> Option<&TrustKey> {
        match self {
            Signed::Unasked | Signed::Unsigned => None,
            Signed::By { key, .. } => Some(key),
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        match self {
            Signed::Unasked => "not looked at: the policy names no keys".to_owned(),
            Signed::Unsigned => "none, and none is required".to_owned(),
            Signed::By { key, prehashed: true } => format!("good, by {key} (prehashed)"),
            Signed::By { key, prehashed: false } => format!("good, by {key} (of the file itself)"),
        }
    }
}

/// Where the signature of a file lies.
pub(crate) fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// Checks the signature of a component. One that is there must be good, also where none is required: a policy that names
/// keys says who may sign.
pub(crate) fn verify(candidate: &Candidate, trust: &Trust) -> anyhow::Result<Signed> {
    let component = candidate.shown();
    let Some(file) = &candidate.file else {
        if trust.require_signature {
            bail!(
                "{component} bears no signature, and its policy requires one; name a signed file with `source` in \
                 [component.{}]",
                candidate.name
            );
        }
        return Ok(if trust.keys.is_empty() { Signed::Unasked } else { Signed::Unsigned });
    };
    if trust.keys.is_empty() {
        return Ok(Signed::Unasked);
    }
    let path = beside(file);
    let shown = path.display();
    let text = match read_bounded(&path, SIGNATURE_BYTES_MAX) {
        Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !trust.require_signature => {
            return Ok(Signed::Unsigned);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{component} bears no signature: there is no {shown}, and its policy requires one by {}; make it with \
             `minisign -Sm {}`",
            keys(trust),
            file.display()
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read the signature {shown}"));
        }
    };
    let malformed = || {
        format!(
            "{shown} is no signature of minisign: it has four lines, two of them base64 and the third `trusted comment: …`; \
             fetch it again"
        )
    };
    let Ok(signature) = Signature::decode(&text) else { bail!("{}", malformed()) };
    let Some(id) = text.lines().nth(1).and_then(signing_key_id) else { bail!("{}", malformed()) };

    let mut tried = None;
    for key in trust.keys.iter().filter(|key| key.id() == id) {
        // A checked key is one that minisign reads.
        let public = PublicKey::from_base64(key.as_str()).context("a key of the policy")?;
        for prehashed in [true, false] {
            match public.verify(&candidate.bytes, &signature, !prehashed) {
                Ok(()) => return Ok(Signed::By { key: key.clone(), prehashed }),
                // Only a signature of the file itself is refused so.
                Err(Error::UnexpectedAlgorithm) => {}
                Err(_) => break,
            }
        }
        tried = Some(key);
    }
    match tried {
        Some(key) => bail!(
            "{component} is not what {key} signed: the file, its signature {shown} or the signature's trusted comment \
             was changed since; fetch them again"
        ),
        None => bail!(
            "{component} is signed by the key {}, which its policy does not name; it names {}",
            id_text(id),
            keys(trust)
        ),
    }
}

/// An id as minisign prints it.
fn id_text(id: [u8; 8]) -> String {
    format!("{:016X}", u64::from_le_bytes(id))
}

fn keys(trust: &Trust) -> String {
    let keys = trust.keys.iter().map(|key| format!("{key} (id {})", id_text(key.id())));
    keys.collect::<Vec<_>>().join(", ")
}
