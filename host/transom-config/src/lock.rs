//! `transom.lock`: which version of each component a deployment wants, by name and digest.
//! Files are read, digests computed and signatures checked by the program.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::Path,
    str::FromStr,
};

use toml::{Value, de::DeTable};
use transom_policy::{
    TrustKey,
    keys::{Key, Kind, Table},
};

use crate::{
    error::{ConfigErrors, utf8},
    reader::{Node, Reader},
    shape::{self, tables},
    sources::{SourceKind, Sources},
};

/// The form of the file that this program reads and writes.
const VERSION: u64 = 1;

/// Hexadecimal digits of a sha256.
const DIGITS: usize = 64;

const HEADER: &str =
    "# Written by `transom pin`. What a component's file must be, to run in this deployment.\n";

/// A lock.
pub const LOCK: Table = Table {
    doc: "Which version of each component a deployment wants.",
    keys: &[
        Key::new(
            "version",
            Kind::Number { least: VERSION, most: VERSION },
            "the form of this file",
        )
        .required(),
        Key::new("component", Kind::Tables(&PIN), PIN.doc),
    ],
};

/// `[[component]]`.
pub const PIN: Table = Table {
    doc: "One component.",
    keys: &[
        Key::new("name", Kind::Shaped("^[a-z][a-z0-9-]{0,63}$"), "its name in the manifest")
            .required(),
        Key::new("version", Kind::Text, "the version that it says it is").required(),
        Key::new("digest", Kind::Shaped("^sha256:[0-9a-f]{64}$"), "sha256 of its file").required(),
        Key::new("source", Kind::Text, "where it came from").required(),
        Key::new(
            "signed-by",
            Kind::Shaped("^RW[Q-T][A-Za-z0-9+/]{53}$"),
            "the minisign public key whose signature it bore",
        ),
    ],
};

/// A checked lock, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lock {
    pins: BTreeMap<String, Pin>,
}

/// What one component must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its name in the manifest.
    pub name: String,
    /// The version that it says it is.
    pub version: String,
    /// Of its file.
    pub digest: Digest,
    /// Where it came from, as the manifest names it. For people: what counts is the digest.
    pub source: String,
    /// Whose signature it bore when it was pinned.
    pub signed_by: Option<TrustKey>,
}

/// The sha256 of a file. Its text is `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Text that is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `sha256:` and 64 digits of 0-9 and a-f")]
pub struct WrongDigest;

/// Why a component is not what the deployment wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The lock says nothing of it.
    #[error(
        "component `{name}` is not in the lock; if it belongs to this deployment, run `transom pin --update {name}`"
    )]
    Unknown {
        /// The component.
        name: String,
    },
    /// Its file is another one than was pinned.
    #[error(
        "component `{}` is {found}, but the lock wants {} (version {} from {}); if the change is meant, run `transom pin --update {}`",
        pin.name, pin.digest, pin.version, pin.source, pin.name
    )]
    Digest {
        /// What the lock says.
        pin: Box<Pin>,
        /// The digest of the file.
        found: Digest,
    },
    /// The file is the one that was pinned, but calls itself another version.
    #[error(
        "component `{}` ({}) says that it is version {found}, but the lock says {}; run `transom pin --update {}`",
        pin.name, pin.digest, pin.version, pin.name
    )]
    Version {
        /// What the lock says.
        pin: Box<Pin>,
        /// The version that the component says it is.
        found: String,
    },
}

impl Digest {
    /// Reads a digest.
    pub fn parse(text: &str) -> Result<Digest, WrongDigest> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = WrongDigest;

    fn from_str(text: &str) -> Result<Digest, WrongDigest> {
        let digits = text.strip_prefix("sha256:").ok_or(WrongDigest)?.as_bytes();
        let (pairs, []) = digits.as_chunks::<2>() else { return Err(WrongDigest) };
        let mut bytes = [0; DIGITS / 2];
        if pairs.len() != bytes.len() {
            return Err(WrongDigest);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Digest(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, WrongDigest> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        // One digest has one text, so that people can compare by eye.
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(WrongDigest),
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Lock {
    /// Checks a lock. All complaints come at once, in the order of the text. `file` names the text in complaints.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Lock, ConfigErrors> {
        let text = utf8(file, bytes)?;
        let mut reader = Reader::new(Sources::default());
        let name = file.display().to_string();
        let begin = reader.sources.add(name, text, Path::new(""), SourceKind::File);
        let Some(document) = reader.document(text, begin) else { return reader.refuse() };
        let is_newer = newer(&mut reader, &document);
        if is_newer {
            return reader.refuse();
        }
        shape::check(&mut reader, &document, &LOCK, "");
        reader.require(
            &document,
            "version",
            &LOCK.names(),
            begin,
            "no `version` is given; this program reads `version = 1`",
        );
        let nodes = document.get("component");
        let nodes = nodes.and_then(|node| tables(&mut reader, node, "component", "component"));
        let mut pins = BTreeMap::new();
        for node in nodes.unwrap_or_default() {
            pin(&mut reader, node, &mut pins);
        }
        reader.finish(Lock { pins: pins.into_iter().map(|(name, (pin, _))| (name, pin)).collect() })
    }

    /// Every pin, by name.
    pub fn pins(&self) -> impl Iterator<Item = &Pin> {
        self.pins.values()
    }

    /// The pin of a component.
    pub fn find(&self, name: &str) -> Option<&Pin> {
        self.pins.get(name)
    }

    /// Adds a pin, in the place of one of the same name.
    pub fn put(&mut self, pin: Pin) -> Option<Pin> {
        self.pins.insert(pin.name.clone(), pin)
    }

    /// Forgets a component.
    pub fn remove(&mut self, name: &str) -> Option<Pin> {
        self.pins.remove(name)
    }

    /// Whether a component's file is the one that is wanted, and calls itself what it should. A `version` of `None` is not
    /// compared: the digest says what the file is.
    pub fn check(
        &self,
        name: &str,
        digest: &Digest,
        version: Option<&str>,
    ) -> Result<(), PinError> {
        let pin = self.find(name).ok_or_else(|| PinError::Unknown { name: name.to_owned() })?;
        if pin.digest != *digest {
            return Err(PinError::Digest { pin: Box::new(pin.clone()), found: *digest });
        }
        match version {
            Some(found) if found != pin.version => {
                Err(PinError::Version { pin: Box::new(pin.clone()), found: found.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl FromIterator<Pin> for Lock {
    /// Of two pins with one name the later one counts.
    fn from_iter<I: IntoIterator<Item = Pin>>(pins: I) -> Lock {
        Lock { pins: pins.into_iter().map(|pin| (pin.name.clone(), pin)).collect() }
    }
}

impl fmt::Display for Lock {
    /// The file's text. Equal locks have equal texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}version = {VERSION}")?;
        for Pin { name, version, digest, source, signed_by } in self.pins.values() {
            let mut table = String::from("\n[[component]]\n");
            let digest = digest.to_string();
            let signed_by = signed_by.as_ref().map(|key| ("signed-by", key.as_str()));
            let entries = [
                ("name", name.as_str()),
                ("version", version),
                ("digest", &digest),
                ("source", source),
            ];
            for (key, value) in entries.into_iter().chain(signed_by) {
                writeln!(table, "{key} = {}", Value::from(value))?;
            }
            f.write_str(&table)?;
        }
        Ok(())
    }
}

/// Complains about a form that this program does not know, and then about nothing else.
fn newer(reader: &mut Reader<'_>, document: &DeTable<'_>) -> bool {
    let is_newer = reader.count(document, "version").is_some_and(|version| version > VERSION);
    if let (true, Some(node)) = (is_newer, document.get("version")) {
        let message = "`version` is that of a newer program; this one reads `version = 1`: use the newer one, or write the lock again with `transom pin`";
        reader.complain(node.span().start, message.to_owned());
    }
    is_newer
}

fn pin(reader: &mut Reader<'_>, node: &Node<'_>, pins: &mut BTreeMap<String, (Pin, usize)>) {
    let at = node.span().start;
    let Some(table) = reader.any_table(node, "component") else { return };
    for key in PIN.keys.iter().filter(|key| key.required) {
        let message =
            format!("[[component]] has no `{}`; write the lock again with `transom pin`", key.name);
        reader.require(table, key.name, &PIN.names(), at, &message);
    }
    let name = name(reader, table);
    let digest = digest(reader, table);
    let signed_by = signed_by(reader, table);
    let (version, source) = (reader.text(table, "version"), reader.text(table, "source"));
    let Some(name) = name else { return };
    if let Some((_, earlier)) = pins.get(&name) {
        let (_, line) = reader.sources.place(*earlier);
        let message = format!(
            "the component `{name}` is pinned at line {line} already; leave one of them out"
        );
        reader.complain(at, message);
    }
    let (Some(version), Some(digest), Some(source)) = (version, digest, source) else { return };
    pins.insert(name.clone(), (Pin { name, version, digest, source, signed_by }, at));
}

fn name(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<String> {
    let at = table.get("name")?.span().start;
    let name = reader.text(table, "name")?;
    reader.is_name_at(at, &name, "component").then_some(name)
}

fn digest(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Digest> {
    let at = table.get("digest")?.span().start;
    let text = reader.text(table, "digest")?;
    let digest = Digest::parse(&text);
    if let Err(wrong) = digest {
        reader.complain(at, format!("`digest` is {text:?}; {wrong}"));
    }
    digest.ok()
}

fn signed_by(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<TrustKey> {
    let at = table.get("signed-by")?.span().start;
    let text = reader.text(table, "signed-by")?;
    let key = TrustKey::parse(&text);
    if let Err(wrong) = &key {
        reader.complain(at, format!("`signed-by` is {text:?}; it must be {}", wrong.right));
    }
    key.ok()
}

#[cfg(test)]
mod tests;
