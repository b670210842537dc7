//! `transom export` and `transom inspect`: look at what is stored, look at what would be loaded.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use transom_frame::SessionId;
use transom_sandbox::{Inspection, Kind};

use crate::{
    cli,
    environment::{COMPONENT_BYTES_MAX, Environment, read_bounded},
};

pub(crate) fn session(command: &cli::Export, environment: &Environment) -> anyhow::Result<u8> {
    let path = match &command.store {
        Some(store) => store.clone(),
        None => environment.state_directory()?.join("store.db"),
    };
    let path = environment.absolute(&path);
    let reader = transom_store::open_read_only(&path)
        .with_context(|| format!("cannot open the session store {}", path.display()))?;
    let id = SessionId::from(command.session.as_str());
    let mut out = Watched { inner: io::BufWriter::new(io::stdout().lock()), broken: false };
    let exported = reader.export(&id, &mut out);
    if out.broken {
        // Said as what it is: whoever read the output has seen enough.
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    }
    match exported? {
        Some(_) => out.flush()?,
        None => bail!("session \"{id}\" is not in the store {}", path.display()),
    }
    Ok(0)
}

/// Remembers whether its reader has gone.
struct Watched<W> {
    inner: W,
    broken: bool,
}

impl<W: io::Write> io::Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.broken |=
            written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(crate) fn inspect(command: &cli::Inspect) -> anyhow::Result<u8> {
    let file = command.component.display();
    let bytes = read_bounded(&command.component, COMPONENT_BYTES_MAX)
        .with_context(|| format!("cannot read {file}"))?;
    let inspection = transom_sandbox::inspect(&bytes).with_context(|| format!("{file}"))?;
    let text =
        if command.json { as_json(&inspection).to_string() } else { for_people(&inspection) };
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(0)
}

fn as_json(inspection: &Inspection) -> Value {
    let Inspection { kind, version, imports, exports, bytes, sha256 } = inspection;
    let (kind, why) = match kind {
        Kind::Codec => ("codec", None),
        Kind::Other { why } => ("other", Some(why)),
    };
    json!({ "kind": kind, "why": why, "version": version, "imports": imports, "exports": exports, "bytes": bytes, "sha256": sha256 })
}

fn for_people(inspection: &Inspection) -> String {
    let Inspection { kind, version, imports, exports, bytes, sha256 } = inspection;
    let kind = match kind {
        Kind::Codec => "a codec: fits transom:codec@0.1".to_owned(),
        Kind::Other { why } => format!("not a codec: {why}"),
    };
    let list =
        |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!(
        "kind     {kind}\nversion  {}\nimports  {}\nexports  {}\nsize     {bytes} bytes\ndigest   sha256:{sha256}",
        version.as_deref().unwrap_or("none is given"),
        list(imports),
        list(exports),
    )
}
