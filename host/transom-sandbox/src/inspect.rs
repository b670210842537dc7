//! Looks at a component without compiling or starting it.
//! What a policy makes of it is said by whoever asked.

use sha2::{Digest as _, Sha256};

use crate::{binary, contract::Shape, error::LoadError};

/// What a component file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// What it can be used as.
    pub kind: Kind,
    /// The version that it says it is.
    pub version: Option<String>,
    /// Names of what it imports, in its own order.
    pub imports: Vec<String>,
    /// Names of what it exports, in its own order.
    pub exports: Vec<String>,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// What a component can be used as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// It fits `transom:codec@0.1` and imports nothing.
    Codec,
    /// Some other component. `why` says what keeps it from being a codec.
    Other {
        /// The loader's words.
        why: String,
    },
}

/// Looks at a component. What is no component at all is an error.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, LoadError> {
    binary::is_component(bytes)?;
    let shape = Shape::read(bytes)?;
    let kind = match shape.is_codec() {
        Ok(()) => Kind::Codec,
        Err(why) => Kind::Other { why: why.to_string() },
    };
    Ok(Inspection {
        kind,
        version: binary::version(bytes),
        imports: shape.imports(),
        exports: shape.exports(),
        bytes: bytes.len() as u64,
        sha256: hex::encode(Sha256::digest(bytes)),
    })
}
