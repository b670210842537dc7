//! Whole components through the whole sandbox: what is served, what is refused, and what a crime costs.
//! The guests are those of `tests/programs`, built here as `cargo xtask` builds them.

#[path = "../../../xtask/src/components.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for xtask; tests need the programs only")]
mod components;

mod cached;
mod hostile;
mod loading;
mod serving;

use std::{
    fs,
    path::Path,
    sync::{Arc, LazyLock},
};

use tempfile::TempDir;
use transom_connection::codec::{
    Codec, CodecError, CodecSource, Form, Framing, Input, Output, Setup, Unit,
};

use crate::{Component, Limits, Sandbox, SandboxConfig};

/// The bytes of a guest, freshly built.
fn guest(name: &str) -> Vec<u8> {
    static BUILT: LazyLock<Vec<components::Built>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        components::programs(&root, &mut |_| ()).unwrap()
    });
    let built = BUILT.iter().find(|built| built.name == name);
    fs::read(&built.unwrap_or_else(|| panic!("no program is called {name}")).path).unwrap()
}

/// One engine for all tests, with a cache so that each guest is compiled once.
fn sandbox() -> &'static Sandbox {
    static SHARED: LazyLock<(Sandbox, TempDir)> = LazyLock::new(|| {
        let folder = TempDir::new().unwrap();
        let cache_dir = Some(folder.path().join("compiled"));
        (Sandbox::new(SandboxConfig { cache_dir, ..SandboxConfig::default() }).unwrap(), folder)
    });
    &SHARED.0
}

fn load(name: &str, limits: Limits) -> Arc<Component> {
    sandbox().load(name, &guest(name), limits).unwrap()
}

fn setup() -> Setup {
    Setup { framing: Framing::Lines, seed: (7, 9), options: "{}".to_owned(), facts: Vec::new() }
}

fn open(component: &Component) -> Box<dyn Codec> {
    component.open(&setup()).unwrap().0
}

fn unit(text: &str) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes: text.as_bytes().to_vec() })
}

/// Says one text unit, and gives the units that come back.
fn say(codec: &mut dyn Codec, text: &str) -> Result<Vec<String>, CodecError> {
    let outputs = codec.handle(1, unit(text))?;
    Ok(outputs
        .into_iter()
        .map(|output| match output {
            Output::Unit(unit) => String::from_utf8(unit.bytes).unwrap(),
            other => format!("{other:?}"),
        })
        .collect())
}
