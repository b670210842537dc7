//! `transom export` and `transom inspect`: look at what is stored, look at what would be loaded.

use std::{fs, io, io::Write as _};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use transom_frame::SessionId;
use transom_sandbox::{Inspection, Kind};

use crate::{cli, environment::Environment};

pub(crate) fn session(command: &cli::Export, environment: &Environment) -> anyhow::Result<u8> {
    let path =
        command.store.clone().unwrap_or_else(|| environment.state_directory().join("store.db"));
    let path = environment.absolute(&path);
    let reader = transom_store::open_read_only(&path)
        .with_context(|| format!("cannot open the session store {}", path.display()))?;
    let id = SessionId::from(command.session.as_str());
    let mut out = io::BufWriter::new(io::stdout().lock());
    match reader.export(&id, &mut out)? {
        Some(_) => out.flush()?,
        None => bail!("session \"{id}\" is not in the store {}", path.display()),
    }
    Ok(0)
}

pub(crate) fn inspect(command: &cli::Inspect) -> anyhow::Result<u8> {
    let file = command.component.display();
    let bytes = fs::read(&command.component).with_context(|| format!("cannot read {file}"))?;
    let inspection = transom_sandbox::inspect(&bytes).with_context(|| format!("{file}"))?;
    let text =
        if command.json { as_json(&inspection).to_string() } else { for_people(&inspection) };
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(0)
}

fn as_json(inspection: &Inspection) -> Value {
    let Inspection { kind, imports, exports, bytes, sha256 } = inspection;
    let (kind, why) = match kind {
        Kind::Codec => ("codec", None),
        Kind::Other { why } => ("other", Some(why)),
    };
    json!({ "kind": kind, "why": why, "imports": imports, "exports": exports, "bytes": bytes, "sha256": sha256 })
}

fn for_people(inspection: &Inspection) -> String {
    let Inspection { kind, imports, exports, bytes, sha256 } = inspection;
    let kind = match kind {
        Kind::Codec => "a codec: fits transom:codec@0.1".to_owned(),
        Kind::Other { why } => format!("not a codec: {why}"),
    };
    let list =
        |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!(
        "kind     {kind}\nimports  {}\nexports  {}\nsize     {bytes} bytes\ndigest   sha256:{sha256}",
        list(imports),
        list(exports),
    )
}
