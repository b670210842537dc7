//! Embeds the built-in components, so that one file is the whole program.
//! Building and checking them is left to `cargo xtask components`.

use std::{env, fs, path::PathBuf};

/// Components that the built-in doors need.
const COMPONENTS: [&str; 3] = ["acp", "acp-child", "sdk"];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in COMPONENTS {
        let source = root.join("target/components").join(name).with_extension("wasm");
        println!("cargo::rerun-if-changed={}", source.display());
        let target = out.join(name).with_extension("wasm");
        if let Err(error) = fs::copy(&source, &target) {
            println!(
                "cargo::error=component {name} is not built ({}: {error}); run `cargo xtask components` first",
                source.display()
            );
        }
    }
}
